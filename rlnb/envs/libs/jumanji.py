"""Environments of Jumanji: combinatorial problems and games in jax, whose whole state is in the TensorDict."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.categorical import OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.multi import MultiOneHot
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import DONE, TERMINATED, TRUNCATED, as_key
from rlnb.envs.gym_like import GymLikeEnv
from rlnb.envs.libs.dm_env import spec_from_dm_env
from rlnb.envs.libs.jax import JaxTree, batched, new_key, split_key, to_jax, to_torch
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class JumanjiWrapper(GymLikeEnv):
    """Wraps an environment of Jumanji.

    The fields of an observation are entries, nested where it is, such as "grid" and "action_mask"; an observation that
    is an array is the entry "observation". The state of the env is the nested entry "state", an input of every step:
    a step may start from the data of any earlier one. An episode is truncated if it ends with a discount that is not
    0, and terminated otherwise. The reward has shape ``[*batch_size, 1]``, or one number for each agent.

    Args:
        env: the environment, as ``jumanji.make`` makes it.
        categorical_action_encoding: encode discrete values as integers (the default). ``False``: as one-hot vectors.
        jit: compile the reset and the step (the default); the attribute ``jit`` may be changed at any time.
        batch_size: how many envs are simulated at once. Default: ``torch.Size([])``.
        frame_skip: how many times each action is repeated. The rewards are summed, and the end of an episode stops
            the repetition.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Raises:
        TypeError: If ``env`` is not an environment of Jumanji.

    Example:
        .. code-block:: python

            import jumanji

            env = JumanjiWrapper(jumanji.make("Snake-v1"), batch_size=[10])
            env.rollout(10, break_when_any_done=False)["grid"].shape  # [10, 10, 12, 12, 5]
    """

    libname = "jumanji"
    git_url = "https://github.com/instadeepai/jumanji"
    available_envs = AvailableEnvs("jumanji", lambda: _jumanji("JumanjiEnv").registered_environments())

    def __init__(
        self,
        env: Any,
        categorical_action_encoding: bool = True,
        jit: bool = True,
        *,
        batch_size: Sequence[int] | None = None,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        if not isinstance(env, _jumanji(type(self).__name__).Environment):
            raise TypeError(
                f"JumanjiWrapper wraps an environment of Jumanji and got a {type(env).__name__}. "
                'Fix: JumanjiWrapper(jumanji.make("Snake-v1")), or JumanjiEnv("Snake-v1").'
            )
        super().__init__(
            env,
            device=device,
            batch_size=batch_size,
            frame_skip=frame_skip,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.categorical_action_encoding, self.jit = categorical_action_encoding, jit
        self._key = new_key(None)
        self._seen: Any = None
        self._set_specs(env)

    @property
    def lib(self) -> ModuleType:
        """The module jumanji."""
        return _jumanji(type(self).__name__)

    # Specs --------------------------------------------------------------------------------------------------------

    def _set_specs(self, env: Any) -> None:
        import jax

        size, device = self.batch_size, self.device
        state, timestep = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
        self._state, self._observation = JaxTree(state), JaxTree(timestep.observation)
        observation = self._observation_spec(env.observation_spec)
        states = self._state.spec(size, device)
        observation["state"] = states
        self.observation_spec = observation
        self.state_spec = Composite({"state": states.clone()}, shape=size, device=device)
        self.action_spec = self._leaf_spec(env.action_spec)
        shape = tuple(timestep.reward.shape) or (1,)
        self.reward_spec = Unbounded(shape=(*size, *shape), dtype=torch.float32, device=device)
        flag = Binary(shape=(*size, 1), dtype=torch.bool, device=device)
        self.done_spec = Composite(dict.fromkeys((DONE, TERMINATED, TRUNCATED), flag), shape=size, device=device)
        self._reset_function = batched(env.reset, size)
        self._step_function = batched(self._advanced, size)
        self._compiled = jax.jit(self._reset_function), jax.jit(self._step_function)

    def _observation_spec(self, described: Any) -> Composite:
        """Return the spec of the observation, whose leaves Jumanji describes by attributes of the same names."""
        if self._observation.paths == [()]:
            spec = {"observation": self._leaf_spec(described)}
            return Composite(spec, shape=self.batch_size, device=self.device)
        spec = self._observation.spec(self.batch_size, self.device)
        for path in self._observation.paths:
            leaf = described
            for name in path:
                leaf = leaf[name] if isinstance(leaf, Mapping) else getattr(leaf, name, None)
            if hasattr(leaf, "dtype"):
                spec[as_key(path)] = self._leaf_spec(leaf)
        return spec

    def _leaf_spec(self, described: Any) -> TensorSpec:
        spec = spec_from_dm_env(described, device=self.device, categorical=self.categorical_action_encoding)
        return spec.expand(*self.batch_size, *spec.shape)

    # Reset and step -----------------------------------------------------------------------------------------------

    def _advanced(self, state: Any, action: Any) -> Any:
        """Step one env ``frame_skip`` times, a function of jax."""
        import jax

        now, timestep = self._env.step(state, action)
        for _ in range(self.frame_skip - 1):
            over, reward = timestep.last(), timestep.reward
            after = self._env.step(now, action)
            now, timestep = jax.tree_util.tree_map(
                lambda old, new, over=over: jax.numpy.where(over, old, new), (now, timestep), after
            )
            timestep = timestep.replace(reward=reward + jax.numpy.where(over, 0, after[1].reward))
        return now, timestep

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self._key, keys = split_key(self._key, self.batch_size)
        state, timestep = (self._compiled[0] if self.jit else self._reset_function)(keys)
        entries = self._entries(state, timestep)
        return self._owned(entries)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        state, action = tensordict.get("state", None), tensordict.get("action")
        if state is None:
            raise KeyError(
                "A step of Jumanji starts from the state in the TensorDict, the entry 'state', and there is none. "
                "Fix: td = env.reset(), or keep the entry: step_mdp(td)."
            )
        spec = self.full_action_spec["action"]
        if isinstance(spec, (OneHot, MultiOneHot)):
            action = spec.to_categorical(action)
        arrays = self._state.unflatten(self._state.arrays(self._state.flat(state)))
        dtype = np.dtype(self._env.action_spec.dtype)
        function = self._compiled[1] if self.jit else self._step_function
        next_state, timestep = function(arrays, to_jax(action, dtype))
        entries = self._entries(next_state, timestep)
        entries["reward"] = to_torch(timestep.reward).reshape(self.reward_spec.shape)
        last = to_torch(timestep.step_type == 2)
        stopped = to_torch(timestep.discount == 0).reshape(*self.batch_size, -1).all(-1)
        ends = {DONE: last, TERMINATED: last & stopped, TRUNCATED: last & ~stopped}
        entries.update({key: flag.unsqueeze(-1) for key, flag in ends.items()})
        return self._owned(entries)

    def _entries(self, state: Any, timestep: Any) -> dict[str, Any]:
        self._seen = state
        observation = self._observation.nested(self._shown(timestep.observation), self.batch_size)
        nested = isinstance(observation, TensorDictBase)
        entries = dict(observation.items()) if nested else {"observation": observation}
        entries["state"] = self._state.nested(self._state.tensors(state), self.batch_size)
        return entries

    def _shown(self, observation: Any) -> list[torch.Tensor]:
        """Copy the leaves of an observation, in the encoding of their specs."""
        found = []
        for path, tensor in zip(self._observation.paths, self._observation.tensors(observation), strict=True):
            spec = self.observation_spec[as_key(path) if path else "observation"]
            found.append(spec.encode(tensor, check=False) if isinstance(spec, (OneHot, MultiOneHot)) else tensor)
        return found

    def _owned(self, entries: dict[str, Any]) -> TensorDictBase:
        data = fast_tensordict(entries, self.batch_size)
        return data if self.device is None else data.to(self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._key = new_key(seed)

    # Frames -------------------------------------------------------------------------------------------------------

    def render(self, tensordict: TensorDictBase | None = None, *, env_index: int = 0) -> Any:
        """Render a state with Jumanji's viewer, which draws with matplotlib.

        Args:
            tensordict: holds the state, with the batch size of the env. Default: the last state.
            env_index: which env of the batch.

        Returns:
            The image, uint8 ``[height, width, 3]``.

        Raises:
            RuntimeError: If there is no state yet.
        """
        import jax

        state = self._seen
        if tensordict is not None:
            leaves = self._state.arrays(self._state.flat(tensordict.get("state")))
            state = jax.tree_util.tree_map(jax.numpy.asarray, self._state.unflatten(leaves))
        if state is None:
            raise RuntimeError("render was called before reset, so there is no state to show. Fix: env.reset() first.")
        index = np.unravel_index(env_index, self.batch_size) if self.batch_size else ()
        return _draw(self._env, jax.tree_util.tree_map(lambda leaf: leaf[index], state))


class JumanjiEnv(JumanjiWrapper):
    """An environment of Jumanji by its name.

    Args:
        env_name: the name, one of :attr:`available_envs`.
        categorical_action_encoding, jit, batch_size, frame_skip, device, run_type_checks, allow_done_after_reset: see
            :class:`JumanjiWrapper`.
        **kwargs: arguments of the env itself, such as ``num_rows=6``.

    Raises:
        ImportError: If jumanji is not installed.
        ValueError: If Jumanji has no such env.

    Example:
        .. code-block:: python

            env = JumanjiEnv("Game2048-v1", batch_size=[10])
            env.append_transform(ActionMask()).rollout(100)
    """

    def __init__(
        self,
        env_name: str,
        categorical_action_encoding: bool = True,
        jit: bool = True,
        *,
        batch_size: Sequence[int] | None = None,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        jumanji = _jumanji(type(self).__name__)
        if env_name not in self.available_envs:
            raise no_such_env("Jumanji", env_name, self.available_envs, "JumanjiEnv.available_envs")
        super().__init__(
            jumanji.make(env_name, **kwargs),
            categorical_action_encoding,
            jit,
            batch_size=batch_size,
            frame_skip=frame_skip,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.env_name = env_name

    def _backend_name(self) -> str:
        return self.env_name


def _jumanji(needed_by: str) -> ModuleType:
    """Import Jumanji. In a notebook it asks for the backend ipympl of matplotlib, which is not needed here."""
    notebook = vars(builtins).pop("__IPYTHON__", None)
    try:
        return import_library("jumanji", needed_by)
    finally:
        if notebook is not None:
            vars(builtins)["__IPYTHON__"] = notebook


def _draw(env: Any, state: Any) -> np.ndarray:
    """Let the viewer of an env draw a state, and read the figure: most viewers only show it."""
    import matplotlib

    backend = matplotlib.get_backend()
    matplotlib.use("Agg")
    try:
        from matplotlib import pyplot

        before = set(pyplot.get_fignums())
        frame = env.render(state)
        if frame is None:
            drawn = [number for number in pyplot.get_fignums() if number not in before]
            figure = pyplot.figure(drawn[-1]) if drawn else pyplot.gcf()
            figure.canvas.draw()
            frame = np.asarray(figure.canvas.buffer_rgba())
            pyplot.close(figure)
    finally:
        matplotlib.use(backend)
    return np.ascontiguousarray(frame[..., :3])
