"""Wrapper that makes an environment of Gymnasium, single or vector, an environment over TensorDicts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict import TensorDictBase
from torch.utils._pytree import tree_map

from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.spaces import spec_from_space
from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key
from rlnb.envs.gym_like import GymLikeEnv, Outputs, repeat_step, reward_array
from rlnb.envs.libs.gym.backend import gym_backend
from rlnb.envs.libs.gym.codec import drawn_actions, native_action, native_mapping, observation_leaves, observation_name
from rlnb.envs.libs.gym.old_gym import as_gymnasium
from rlnb.envs.libs.gym.vector import DISABLED, SAME_STEP, VectorBackend, autoreset_mode, batched_spec
from rlnb.envs.rows import overridden
from rlnb.envs.validation import action_leaves


class GymWrapper(GymLikeEnv):
    """Wraps an environment of Gymnasium.

    The members of a Dict observation or action become entries of the TensorDict. An image, which is a Box of shape
    ``[height, width, 3]`` from 0 to 255, becomes the entry "pixels", which image transforms read by default. Any other
    observation or action is the entry "observation" or "action", with the members of a Tuple below it as "0", "1" and
    so on. Observations of a Text, Sequence or Graph space become non-tensor data. The reward has shape ``[1]``;
    "terminated" and "truncated" are Gymnasium's, "done" is their union.

    A vector env of n sub-envs has batch size ``[n]``. Sub-envs that are done wait for their reset, whatever the vector
    env's autoreset mode, so ("next", "observation") is always the observation that the step led to; see
    :class:`~rlnb.envs.libs.gym.vector.VectorBackend`. After ``set_seed(s)`` sub-env i is seeded with ``s + i``.

    Args:
        env: the environment, a ``gymnasium.Env`` or a ``gymnasium.vector.VectorEnv``, or one of the old library gym.
        categorical_action_encoding: encode discrete values as integers. ``False`` (the default): as one-hot vectors.
        from_pixels: add the rendered frame, as "pixels" of shape ``[height, width, 3]`` and dtype uint8. The env must
            have been made with ``render_mode="rgb_array"``. An observation that is an image is "pixels" already.
        pixels_only: with ``from_pixels``, leave out the env's own observation. Default: False.
        frame_skip: how many times each action is repeated. The rewards are summed, and the end of an episode stops
            the repetition.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        batch_size: checked against the env, if given: ``[]``, or ``[num_envs]`` for a vector env.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.
        convert_actions_to_numpy: pass actions to the env as NumPy data (the default). ``False``: as tensors.
        missing_obs_value: without effect. In TorchRL it replaces last observations that a vector env does not return;
            here they are always returned.

    Raises:
        TypeError: If ``env`` is neither of the two, or has a space that no spec can describe.
        ValueError: If ``from_pixels`` is True and the env renders no frames, if ``frame_skip`` is not positive or the
            env is a vector env, or if a vector env runs in an autoreset mode that returns wrong data.

    Example:
        >>> import gymnasium
        >>> env = GymWrapper(gymnasium.make("CartPole-v1"), categorical_action_encoding=True)
        >>> env.rand_step(env.reset())["next", "reward"]
        tensor([1.])
        >>> env = GymWrapper(gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync"))
        >>> env.rollout(100, break_when_any_done=False).batch_size
        torch.Size([4, 100])
    """

    def __init__(
        self,
        env: gymnasium.Env | gymnasium.vector.VectorEnv,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = False,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
        batch_size: Sequence[int] | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
        convert_actions_to_numpy: bool = True,
        missing_obs_value: Any = None,
    ) -> None:
        env = as_gymnasium(env)
        _check_is_env(env)
        vector = env if isinstance(env, gymnasium.vector.VectorEnv) else None
        if vector is not None and frame_skip != 1:
            raise ValueError(
                "frame_skip cannot repeat the actions of a vector env, whose sub-envs end at different times. "
                "Fix: GymEnv(id, num_envs=n, frame_skip=k), which repeats them in each sub-env."
            )
        size = () if vector is None else (vector.num_envs,)
        if batch_size is not None and tuple(batch_size) != size:
            raise ValueError(
                f"The data of this env has batch size {list(size)}, and batch_size={list(batch_size)} was given. "
                "Fix: leave it out; GymEnv(id, num_envs=n) has batch size [n]."
            )
        super().__init__(
            env,
            device=device,
            batch_size=size,
            frame_skip=frame_skip,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.convert_actions_to_numpy = convert_actions_to_numpy
        self._vector = None if vector is None else VectorBackend(vector)
        if self._vector is not None:
            self._advance = self._vector.step
        self.categorical_action_encoding = categorical_action_encoding
        self._seed: int | None = None
        self._set_observation_spec(from_pixels, pixels_only)
        self._set_action_spec()
        self.assert_distinct_keys()

    libname = "gymnasium"
    git_url = "https://github.com/Farama-Foundation/Gymnasium"

    @property
    def lib(self) -> ModuleType:
        """The gym backend in use."""
        return gym_backend()

    def _spec_of(self, space: gymnasium.Space, batched: gymnasium.Space) -> Any:
        if not self.batch_size:
            return spec_from_space(space, device=self.device, categorical=self.categorical_action_encoding)
        return batched_spec(space, batched, self.batch_size[0], self.device, self.categorical_action_encoding)

    def _set_observation_spec(self, from_pixels: bool, pixels_only: bool) -> None:
        batched = self._env.observation_space
        space = batched if self._vector is None else self._env.single_observation_space
        spec, name = self._spec_of(space, batched), ""
        if not isinstance(space, gymnasium.spaces.Dict):
            name = observation_name(space)
            spec = Composite({name: spec}, shape=self.batch_size, device=self.device)
        self.from_pixels = from_pixels and name != "pixels"  # an image observation is not rendered a second time
        self._leaves = [] if self.from_pixels and pixels_only else observation_leaves(space, spec)
        if self.from_pixels:
            spec = self._with_pixels(spec, pixels_only)
        text = next((leaf for leaf in self._leaves if not leaf.is_tensor), None)
        if text is not None and getattr(self._env.unwrapped, "shared_memory", False):
            raise ValueError(
                f"The observation {text.key!r} has the space {text.space}, which an AsyncVectorEnv with "
                "shared_memory=True reads once and never again. Fix: vectorization_mode='sync', or shared_memory=False "
                "and autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED."
            )
        self.observation_spec = spec

    def _set_action_spec(self) -> None:
        batched = self._env.action_space
        self._action_space = batched if self._vector is None else self._env.single_action_space
        action = self._spec_of(self._action_space, batched)
        is_dict = isinstance(self._action_space, gymnasium.spaces.Dict)
        self.action_spec = (
            action if is_dict else Composite({"action": action}, shape=self.batch_size, device=self.device)
        )
        self._one_action = not isinstance(action, Composite)
        for key, spec in action_leaves(self):
            if spec.dtype is None:
                raise TypeError(
                    f"The action {key!r} has the space {self._action_space}, whose values are not tensors. "
                    "Fix: give the env an action space of numbers, with gymnasium.wrappers.TransformAction around it."
                )

    def _with_pixels(self, spec: Composite, pixels_only: bool) -> Composite:
        if self._env.render_mode != "rgb_array":
            raise ValueError(
                f"from_pixels=True needs an env that renders frames, and this one has render_mode="
                f"{self._env.render_mode!r}. Fix: gymnasium.make(id, render_mode='rgb_array'), or "
                "GymEnv(id, from_pixels=True)."
            )
        if self._vector is not None and self._vector.mode == SAME_STEP:
            raise ValueError(
                "from_pixels=True cannot show the last frame of an episode in the autoreset mode SameStep: the frame "
                "is rendered after the reset. Fix: autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED, or "
                "GymEnv(id, num_envs=n, from_pixels=True)."
            )
        if not pixels_only and "pixels" in spec:
            raise ValueError(
                "from_pixels=True adds the rendered frame as 'pixels', and the env has an observation of that name. "
                "Fix: leave from_pixels out, or pixels_only=True."
            )
        self._env.reset()
        frame = np.asarray(self._env.render())
        pixels = Bounded(0, 255, shape=frame.shape, dtype=torch.uint8, device=self.device)
        if pixels_only:
            return Composite({"pixels": pixels}, shape=self.batch_size, device=self.device)
        spec = spec.clone()
        spec["pixels"] = pixels
        return spec

    # Reading the backend's output ---------------------------------------------------------------------------------

    def _output_transform(self, step_outputs_tuple: tuple[Any, ...]) -> Outputs:
        observation, reward, terminated, truncated, info = step_outputs_tuple
        return observation, reward, terminated, truncated, None, info

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Any]:
        return reset_outputs_tuple

    def _is_over(self, outputs: tuple[Any, ...]) -> bool:
        return bool(outputs[2] or outputs[3])

    def _action_of(self, tensordict: TensorDictBase) -> Any:
        return tensordict.get("action") if self._one_action else tensordict

    def read_action(self, action: Any) -> Any:
        """Convert an action into one of the backend's action space.

        Args:
            action: a tensor, or the TensorDict with the entries of a Dict or Tuple action.

        Returns:
            An integer, an array, a dictionary or a tuple.

        Raises:
            ValueError: If it is not an action of the env.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> GymEnv("CartPole-v1").read_action(torch.tensor([0, 1]))
            np.int64(1)
        """
        spec = self.full_action_spec
        if self._one_action:
            native = native_action(spec["action"], action)
        elif isinstance(self._action_space, gymnasium.spaces.Dict):
            native = native_mapping(self._action_space, spec, action)
        else:
            native = native_mapping(self._action_space, spec["action"], action.get("action"))
        return native if self.convert_actions_to_numpy else tree_map(torch.as_tensor, native)

    def read_obs(self, observations: Any) -> dict[NestedKey, Any]:
        """Convert the backend's observation into entries.

        Args:
            observations: a value of the observation space.

        Returns:
            The entries, as new tensors or wrapped data, and with ``from_pixels`` the frame, which is rendered now.
        """
        if self._unchecked and self._leaves:
            self._check_members(observations)
        try:
            entries = {leaf.key: leaf.entry(observations) for leaf in self._leaves}
        except LookupError as error:
            raise self._lacks(observations) or error from None
        if self.from_pixels:
            entries["pixels"] = torch.from_numpy(np.array(self._env.render()))
        return entries

    def _check_members(self, observations: Any) -> None:
        """Refuse members of the first observations that the space does not have: they would be lost."""
        space = (self._env if self._vector is None else self._vector.env).observation_space
        found = next(_undeclared(space, observations, ()), None)
        if found is not None:
            raise RuntimeError(
                f"{self!r} returned an observation with {as_key(found)!r}, which its observation space does not have. "
                "Fix: add it to the space, or leave it out of what reset and step return."
            )

    def _lacks(self, observations: Any) -> RuntimeError | None:
        """Make the error of an observation without an entry that the spec has, if there is one."""
        for leaf in self._leaves:
            try:
                leaf.pick(observations)
            except (LookupError, TypeError):
                return RuntimeError(
                    f"{self!r} returned an observation without {leaf.key!r}, which its observation space has. "
                    "Fix: let both reset and step return it, or leave it out of the space."
                )
        return None

    def render(self) -> Any:
        """Return the output of the env's ``render``: with ``render_mode="rgb_array"`` an array ``[height, width, 3]``.

        Raises:
            RuntimeError: If the env was made without a render mode, or was not reset.
        """
        if self._env.render_mode is None:
            raise RuntimeError(
                f"{self._backend_name()} was made without a render mode, so it renders nothing. "
                f"Fix: {self._made_to_render()}."
            )
        if not self._running:
            raise RuntimeError("render was called before reset, so there is no state to show. Fix: env.reset() first.")
        return self._env.render()

    # Rows: see rlnb.envs.rows -------------------------------------------------------------------------------------

    @property
    def _reads_no_rows(self) -> bool:
        """Whether the row functions only write, so that the rows of a rollout may be completed at its end."""
        return not self.batch_size

    @property
    def _fills_rows(self) -> bool:
        if overridden(self, GymWrapper) or self.run_type_checks:
            return False
        if "fills_rows" not in self._cache:
            # The specs may have been replaced by others than the rows are made for.
            expected = {leaf.key for leaf in self._leaves} | ({"pixels"} if self.from_pixels else set())
            self._cache["fills_rows"] = (
                (self.device is None or self.device.type == "cpu")
                and not self.batch_size
                and all(leaf.is_tensor for leaf in self._leaves)
                and set(self.observation_keys) == expected
                and self.done_keys == list(END_KEYS)
                and len(self.reward_keys) == 1
                and self.reward_spec.dtype is not None
                and self._one_action
                and self.convert_actions_to_numpy
                and not self.info_dict_reader
            )
        return self._cache["fills_rows"]

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        root: dict[NestedKey, LeafInfo] = {}
        for composite in (self.observation_spec, self.full_done_spec):
            for key in composite.keys(True, True):
                spec = composite[key]
                assert spec.dtype is not None  # envs with other observations fill no rows
                root[key] = spec.shape, spec.dtype
        reward = self.full_reward_spec[self.reward_key]
        assert reward.dtype is not None  # a reward is a number
        return root, {self.reward_key: (reward.shape, reward.dtype)}

    def _row_functions(self, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        env_step, env_reset = self._advance, self._env.reset
        if self._repeats > 1:
            env_step = functools.partial(repeat_step, self._advance, times=self._repeats, is_over=self._is_over)
        count = self.reward_spec.shape.numel()
        shape = () if count == 1 else (count,)
        reward_rows = block.next[self.reward_key].reshape(-1, *shape)
        terminated_rows, truncated_rows, done_rows = (block.next[k][:, 0] for k in (TERMINATED, TRUNCATED, DONE))
        write_next, write_root = self._row_writer(block.next), self._row_writer(block.root)

        def step(t: int, action: Any) -> bool:
            observation, reward, terminated, truncated, _ = env_step(action)
            if "step" in self._unchecked:
                self._check_first_step(observation, reward)
            try:
                write_next(t, observation)
            except LookupError as error:
                raise self._lacks(observation) or error from None
            is_number = count == 1 and type(reward) is float
            reward_rows[t] = reward if is_number else reward_array(reward, count).reshape(shape)
            if terminated or truncated:
                terminated_rows[t], truncated_rows[t], done_rows[t] = terminated, truncated, True
                return True
            return False

        def reset(t: int) -> None:
            observation = env_reset()[0]
            try:
                write_root(t, observation)
            except LookupError as error:
                raise self._lacks(observation) or error from None

        return step, reset

    def _row_writer(self, rows: dict[NestedKey, np.ndarray]) -> Callable[[int, Any], None]:
        """Make the function that writes an observation into row t of these arrays."""
        leaves = [(leaf.writer(), rows[leaf.key]) for leaf in self._leaves]
        if self.from_pixels:
            render = self._env.render
            leaves.append((lambda frames, t, _: frames.__setitem__(t, render()), rows["pixels"]))
        if len(leaves) == 1:
            write, only = leaves[0]
            return functools.partial(write, only)
        plain = [leaf.plain(rows[leaf.key]) for leaf in self._leaves]
        if not self.from_pixels and all(plain):
            return functools.partial(_write_plain, plain, leaves)

        def write_all(t: int, observation: Any) -> None:
            for write, array in leaves:
                write(array, t, observation)

        return write_all

    def _check_first_step(self, observation: Any, reward: Any) -> None:
        entries = self.read_obs(observation)
        entries.update({key: torch.zeros(1, dtype=torch.bool) for key in END_KEYS})
        entries[self.reward_key] = self.read_reward(reward)
        self._check_data(self._assemble(entries, {}), "step")

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        return drawn_actions(self.action_spec, actions)

    def _native_action(self, action: torch.Tensor) -> Any:
        return native_action(self.action_spec, action)

    # Reset and seeds ----------------------------------------------------------------------------------------------

    def _restart(self, tensordict: TensorDictBase | None, **kwargs: Any) -> Any:
        if self._seed is not None:
            kwargs.setdefault("seed", self._seed)
        if self._vector is None:
            outputs: Any = self._env.reset(**kwargs)
        else:
            mask = None if tensordict is None else tensordict.get("_reset", None)
            outputs = self._vector.reset(None if mask is None else mask.cpu().numpy().reshape(-1), **kwargs)
        self._seed = None  # only now: a reset that fails leaves the seed to the next
        return outputs

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed
        if seed is not None:
            self._env.action_space.seed(seed)

    def _assert_restarts(self) -> None:
        if type(self)._step is GymLikeEnv._step and _never_restarts(self._env):
            raise ValueError(
                f"auto_reset=True is for envs that reset themselves, and {self._id()} does not: after the end of an "
                "episode its steps have no meaning. Fix: leave auto_reset out; rollouts reset it when it is done."
            )

    # The backend --------------------------------------------------------------------------------------------------

    def _backend_attribute(self, name: str) -> Any:
        return getattr(self._env, name) if self._vector is not None else self._env.get_wrapper_attr(name)

    def _backend_name(self) -> str:
        return type(self._env.unwrapped).__name__

    def _id(self) -> str:
        """The id that the env was made with, or the name of its class."""
        spec = self._env.spec
        return self._backend_name() if spec is None else str(spec.id)

    def _made_to_render(self) -> str:
        """The expression that makes such an env with frames, for errors."""
        return f"GymEnv({self._id()!r}, render_mode='rgb_array')"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._id()}, batch_size={self.batch_size}, device={self.device})"


def _write_plain(plain: list[Any], leaves: list[Any], t: int, observation: Any) -> None:
    """Write a dictionary of arrays into rows t. One loop takes half of the time of a function for each."""
    for i, (name, shape, dtype, array) in enumerate(plain):
        value = observation[name]
        if (type(value) is np.ndarray and value.shape == shape and value.dtype == dtype) or (
            shape == (1,) and dtype.kind == "f" and isinstance(value, float)
        ):
            array[t] = value
        else:
            write, rows = leaves[i]
            write(rows, t, observation)


def _undeclared(space: Any, observation: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Find members of dictionaries that a space does not have."""
    if isinstance(space, gymnasium.spaces.Dict) and isinstance(observation, Mapping):
        for name, value in observation.items():
            if name in space.spaces:
                yield from _undeclared(space[name], value, (*above, str(name)))
            else:
                yield (*above, str(name))


def _never_restarts(env: Any) -> bool:
    """Whether an env certainly does not reset itself: one of Gymnasium without the autoreset wrapper."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        return autoreset_mode(env) == DISABLED
    inner = env
    while isinstance(inner, gymnasium.Wrapper):
        if "autoreset" in type(inner).__name__.lower():
            return False
        inner = inner.env
    return type(inner).__module__.startswith("gymnasium.envs.")


def _check_is_env(env: Any) -> None:
    if isinstance(env, (gymnasium.Env, gymnasium.vector.VectorEnv)):
        return
    raise TypeError(
        f"GymWrapper wraps a gymnasium.Env and got a {type(env).__name__}. "
        "Fix: GymWrapper(gymnasium.make('CartPole-v1')), or GymEnv('CartPole-v1')."
    )
