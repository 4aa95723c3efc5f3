"""Environments of Brax: physics in jax, whose whole state is in the TensorDict."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import DONE, TERMINATED, TRUNCATED
from rlnb.envs.gym_like import GymLikeEnv
from rlnb.envs.libs.jax import Differentiable, JaxTree, batched, new_key, split_key, to_jax
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class BraxWrapper(GymLikeEnv):
    """Wraps an environment of Brax.

    The state of the simulation is the nested entry "state", an input of every step: a step may start from the data of
    any earlier one. Its numbers have shape ``[*batch_size, 1]``. Beside it are "observation", "reward", "done" and
    "terminated"; and "truncated", if the env is in Brax's ``EpisodeWrapper``. An observation that is a dictionary is
    nested in "observation".

    Args:
        env: the environment, as ``brax.envs.get_environment`` makes it.
        categorical_action_encoding: without effect: all actions of Brax are continuous.
        cache_clear_frequency: without effect: the gradient is one compiled function, and no step adds to jax's caches.
        batch_size: how many envs are simulated at once. Default: ``torch.Size([])``.
        requires_grad: let gradients flow from the data of a step to its action and state.
        frame_skip: how many times each action is repeated. The rewards are summed, and the end of an episode stops
            the repetition.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Raises:
        TypeError: If ``env`` is not an environment of Brax.
        ValueError: If Brax itself has batched the env, or resets it.

    Example:
        .. code-block:: python

            import brax.envs

            env = BraxWrapper(brax.envs.get_environment("ant"), batch_size=[16])
            env.set_seed(0)
            env.rollout(10)["state", "pipeline_state", "q"].shape  # [16, 10, 15]
    """

    libname = "brax"
    git_url = "https://github.com/google/brax"
    available_envs = AvailableEnvs("brax", lambda: import_library("brax.envs", "BraxEnv")._envs)

    def __init__(
        self,
        env: Any,
        categorical_action_encoding: bool = False,
        cache_clear_frequency: int | None = None,
        *,
        batch_size: Sequence[int] | None = None,
        requires_grad: bool = False,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        envs = import_library("brax.envs", type(self).__name__)
        if not isinstance(env, envs.Env):
            raise TypeError(
                f"BraxWrapper wraps an environment of Brax and got a {type(env).__name__}. "
                'Fix: BraxWrapper(brax.envs.get_environment("ant")), or BraxEnv("ant").'
            )
        _check_single(envs, env)
        super().__init__(
            env,
            device=device,
            batch_size=batch_size,
            frame_skip=frame_skip,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.requires_grad = requires_grad
        self.categorical_action_encoding = categorical_action_encoding
        self.cache_clear_frequency = cache_clear_frequency
        self._key = new_key(None)
        self._seen: Any = None

    @property
    def lib(self) -> ModuleType:
        """The module brax."""
        return import_library("brax", type(self).__name__)

    def _make_specs(self, env: Any) -> None:
        import jax

        size, device = self.batch_size, self.device
        example = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
        self._tree = JaxTree(example, numbers_have_shape=True)
        self._observation = JaxTree(example.obs)
        state = self._tree.spec(size, device)
        self.observation_spec = Composite(
            {"observation": self._observation.spec(size, device), "state": state}, shape=size, device=device
        )
        self.state_spec = Composite({"state": state.clone()}, shape=size, device=device)
        self.action_spec = Bounded(-1.0, 1.0, shape=(*size, env.action_size), dtype=torch.float32, device=device)
        self.reward_spec = Unbounded(shape=(*size, 1), device=device)
        ends = (DONE, TERMINATED, TRUNCATED) if "truncation" in example.info else (DONE, TERMINATED)
        flag = Binary(shape=(*size, 1), dtype=torch.bool, device=device)
        self.done_spec = Composite(dict.fromkeys(ends, flag), shape=size, device=device)
        self._place = {path: i for i, path in enumerate(self._tree.paths)}
        self._jit_reset = jax.jit(batched(env.reset, size))
        self._differentiable = Differentiable(self._flat_step)
        self._jit_step = self._differentiable.function

    def _flat_step(self, *inputs: Any) -> list[Any]:
        """Step from the leaves of a state, with an action last, to the leaves of the next state."""
        *leaves, action = inputs
        state = batched(self._advanced, self.batch_size)(self._tree.unflatten(leaves), action)
        return self._tree.leaves(state)

    def _advanced(self, state: Any, action: Any) -> Any:
        """Step one env ``frame_skip`` times, a function of jax."""
        import jax

        now = self._env.step(state, action)
        for _ in range(self.frame_skip - 1):
            after, over = self._env.step(now, action), now.done.astype(bool)
            total = now.reward + jax.numpy.where(over, 0.0, after.reward)
            now = jax.tree_util.tree_map(lambda old, new, over=over: jax.numpy.where(over, old, new), now, after)
            now = now.replace(reward=total)
        return now

    # Reset and step -----------------------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self._key, keys = split_key(self._key, self.batch_size)
        state = self._jit_reset(keys)
        self._seen = state
        return self._entries(self._tree.tensors(state))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        state, action = tensordict.get("state", None), tensordict.get("action")
        if state is None:
            raise KeyError(
                "A step of Brax starts from the state in the TensorDict, the entry 'state', and there is none. "
                "Fix: td = env.reset(), or keep the entry: step_mdp(td)."
            )
        tensors = self._tree.flat(state)
        arrays = [*self._tree.arrays(tensors), to_jax(action, np.float32)]
        if self.requires_grad:
            found = self._differentiable([*tensors, action], arrays)
            return self._entries(self._tree.padded(found), with_reward=True)
        leaves = self._jit_step(*arrays)
        self._seen = self._tree.unflatten(leaves)
        return self._entries(self._tree.tensors(self._seen), with_reward=True)

    def _entries(self, leaves: list[torch.Tensor], with_reward: bool = False) -> TensorDictBase:
        """Make the data of a reset or step from the leaves of a state. Only the state has their own memory."""
        at = self._place
        shown = [leaves[at["obs", *path]].clone() for path in self._observation.paths]
        entries: dict[str, Any] = {"observation": self._observation.nested(shown, self.batch_size)}
        entries["state"] = self._tree.nested(leaves, self.batch_size)
        done = leaves[at["done",]].detach() > 0.5
        entries[DONE], entries[TERMINATED] = done, done.clone()
        if ("info", "truncation") in at:
            entries[TRUNCATED] = done & (leaves[at["info", "truncation"]].detach() > 0.5)
            entries[TERMINATED] = done & ~entries[TRUNCATED]
        if with_reward:
            entries["reward"] = leaves[at["reward",]].clone()
        data = fast_tensordict(entries, self.batch_size)
        return data if self.device is None else data.to(self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._key = new_key(seed)

    def render(self, env_index: int = 0, width: int = 320, height: int = 240, camera: str | None = None) -> Any:
        """Render the last state with MuJoCo.

        Args:
            env_index: which env of the batch.
            width: of the image, in pixels.
            height: of the image, in pixels.
            camera: name of a camera of the model.

        Returns:
            The image, uint8 ``[height, width, 3]``.

        Raises:
            RuntimeError: If there is no last state: before a reset, or with ``requires_grad=True``.
        """
        import jax

        if self._seen is None:
            raise RuntimeError("render was called before reset, so there is no state to show. Fix: env.reset() first.")
        index = np.unravel_index(env_index, self.batch_size) if self.batch_size else ()
        state = jax.tree_util.tree_map(lambda leaf: leaf[index], self._seen.pipeline_state)
        return np.asarray(self._env.render([state], height=height, width=width, camera=camera)[0])


class BraxEnv(BraxWrapper):
    """An environment of Brax by its name.

    Args:
        env_name: the name, one of :attr:`available_envs`.
        categorical_action_encoding, cache_clear_frequency, batch_size, requires_grad, frame_skip, device,
            run_type_checks, allow_done_after_reset: see :class:`BraxWrapper`.
        **kwargs: arguments of the env itself, such as ``backend="spring"``.

    Raises:
        ImportError: If brax is not installed.
        ValueError: If Brax has no such env.

    Example:
        .. code-block:: python

            env = BraxEnv("ant", batch_size=[16], requires_grad=True)
            env.rollout(10, policy)["next", "reward"].mean().backward()
    """

    def __init__(
        self,
        env_name: str,
        categorical_action_encoding: bool = False,
        cache_clear_frequency: int | None = None,
        *,
        batch_size: Sequence[int] | None = None,
        requires_grad: bool = False,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        envs = import_library("brax.envs", type(self).__name__)
        if env_name not in self.available_envs:
            raise no_such_env("Brax", env_name, self.available_envs, "BraxEnv.available_envs")
        super().__init__(
            envs.get_environment(env_name, **kwargs),
            categorical_action_encoding,
            cache_clear_frequency,
            batch_size=batch_size,
            requires_grad=requires_grad,
            frame_skip=frame_skip,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.env_name = env_name

    def _backend_name(self) -> str:
        return self.env_name


def _check_single(envs: Any, env: Any) -> None:
    """Raise ValueError for an env in wrappers that batch it or reset it."""
    while isinstance(env, envs.Wrapper):
        name = type(env).__name__
        if name in ("VmapWrapper", "AutoResetWrapper"):
            raise ValueError(
                f"BraxWrapper batches and resets the env itself, and this one is in Brax's {name}. Fix: "
                "brax.envs.create(name, auto_reset=False), and BraxWrapper(env, batch_size=[n])."
            )
        env = env.env
