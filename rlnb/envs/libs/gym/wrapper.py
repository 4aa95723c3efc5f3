"""GymWrapper: an environment of Gymnasium, as one over TensorDicts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data import Bounded, Categorical, Composite
from rlnb.data.specs.spaces import spec_from_space
from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey
from rlnb.envs import faults
from rlnb.envs.base import EnvBase
from rlnb.envs.libs.gym.codec import drawn_actions, native_action, native_mapping, observation_leaves
from rlnb.envs.libs.gym.info import BaseInfoDictReader, default_info_dict_reader

_PASSED_BY = (
    "reset",
    "step",
    "rand_action",
    "rand_step",
    "maybe_reset",
    "step_and_maybe_reset",
    "_reset",
    "_step",
    "_step_mdp",
)


class GymWrapper(EnvBase):
    """Wraps an environment of Gymnasium.

    The entries of a Dict observation or action become entries of the TensorDict; any other is the entry
    "observation" or "action", and the members of a Tuple stand below it as "0", "1" and so on. The reward has shape
    ``[1]``; "terminated" and "truncated" are Gymnasium's, "done" is their union.

    Args:
        env: the environment, a ``gymnasium.Env``.
        categorical_action_encoding: discrete values are integers. If False (the default), one-hot vectors.
        from_pixels: add the rendered frame, as "pixels" of shape ``[height, width, 3]`` and dtype uint8. The env must
            have been made with ``render_mode="rgb_array"``.
        pixels_only: with ``from_pixels``, leave the env's own observation out.
        frame_skip: how many times each action is repeated; the rewards are added up, and an end stops it.
        device: where the data goes; None (the default) for no statement.

    Attributes:
        info_dict_reader: the readers that :meth:`set_info_dict_reader` added.

    Raises:
        TypeError: if ``env`` is no ``gymnasium.Env``, or has a space that no spec can describe.
        ValueError: if ``from_pixels`` is asked of an env that renders no frames, or ``frame_skip`` is not positive.

    Example:
        >>> import gymnasium
        >>> env = GymWrapper(gymnasium.make("CartPole-v1"), categorical_action_encoding=True)
        >>> env.rand_step(env.reset())["next", "reward"]
        tensor([1.])
    """

    def __init__(
        self,
        env: gymnasium.Env,
        *,
        categorical_action_encoding: bool = False,
        from_pixels: bool = False,
        pixels_only: bool = True,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
    ) -> None:
        if isinstance(frame_skip, bool) or not isinstance(frame_skip, int) or frame_skip < 1:
            raise ValueError(f"frame_skip must be a positive integer and is {frame_skip!r}.")
        if not isinstance(env, gymnasium.Env):
            raise TypeError(
                f"GymWrapper wraps a gymnasium.Env and got a {type(env).__name__}. "
                "Fix: GymWrapper(gymnasium.make('CartPole-v1')), or GymEnv('CartPole-v1')."
            )
        super().__init__(device=device)
        self._env = env
        self.categorical_action_encoding = categorical_action_encoding
        self.from_pixels = from_pixels
        self.frame_skip = frame_skip
        self.info_dict_reader: list[BaseInfoDictReader] = []
        self._info_at_reset = False
        self._advance = env.step if frame_skip == 1 else self._repeat
        self._seed: int | None = None
        self._running = False

        space = env.observation_space
        seen = spec_from_space(space, device=device, categorical=categorical_action_encoding)
        spec = seen if isinstance(seen, Composite) else Composite({"observation": seen}, device=device)
        if isinstance(space, gymnasium.spaces.Tuple):
            spec = Composite({"observation": spec}, device=device)
        self._leaves = [] if from_pixels and pixels_only else observation_leaves(space, spec)
        if from_pixels:
            spec = self._with_pixels(spec, pixels_only)
        self.observation_spec = spec
        action = spec_from_space(env.action_space, device=device, categorical=categorical_action_encoding)
        is_dict = isinstance(env.action_space, gymnasium.spaces.Dict)
        self.action_spec = action if is_dict else Composite({"action": action}, device=device)
        end = Categorical(2, shape=(1,), dtype=torch.bool, device=device)
        self.done_spec = Composite({key: end.clone() for key in END_KEYS}, device=device)
        self._one_action = not isinstance(action, Composite)
        self.assert_distinct_keys()

    def _with_pixels(self, spec: Composite, pixels_only: bool) -> Composite:
        if self._env.render_mode != "rgb_array":
            raise ValueError(
                f"from_pixels=True needs an env that renders frames, and this one has render_mode="
                f"{self._env.render_mode!r}. Fix: gymnasium.make(id, render_mode='rgb_array'), or "
                "GymEnv(id, from_pixels=True)."
            )
        self._env.reset()
        frame = np.asarray(self._env.render())
        pixels = Bounded(0, 255, shape=frame.shape, dtype=torch.uint8, device=self.device)
        if pixels_only:
            return Composite({"pixels": pixels}, device=self.device)
        spec = spec.clone()
        spec["pixels"] = pixels
        return spec

    # A TensorDict at a time ---------------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDict:
        if self._seed is not None:
            kwargs.setdefault("seed", self._seed)
            self._seed = None
        observation, info = self._env.reset(**kwargs)
        self._running = True
        data = self._tensordict(observation, {}, info)
        if self._info_at_reset:
            for key in self.observation_keys:
                if data.get(key, None) is None:
                    data.set(key, self.observation_spec[key].zero())
        return data

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        if not self._running:
            raise RuntimeError(faults.not_reset(self))
        space = self._env.action_space
        if isinstance(space, gymnasium.spaces.Dict):
            action = native_mapping(space, self.full_action_spec, tensordict)
        else:
            action = native_mapping(space, self.full_action_spec["action"], tensordict.get("action"))
        observation, reward, terminated, truncated, info = self._advance(action)
        flags = torch.zeros((3, 1), dtype=torch.bool)
        if terminated or truncated:
            flags[:, 0] = torch.tensor([terminated or truncated, bool(terminated), bool(truncated)])
        data: dict[NestedKey, Any] = dict(zip(END_KEYS, flags.unbind(0), strict=True))
        data[self.reward_key] = torch.full(self.reward_spec.shape, _number(reward), dtype=self.reward_spec.dtype)
        return self._tensordict(observation, data, info)

    def _repeat(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Repeat an action ``frame_skip`` times, or until the episode ends."""
        total = 0.0
        for _ in range(self.frame_skip):
            observation, reward, terminated, truncated, info = self._env.step(action)
            total += _number(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info

    def _tensordict(
        self, observation: Any, entries: dict[NestedKey, Any], info: dict[str, Any] | None = None
    ) -> TensorDict:
        for leaf in self._leaves:
            entries[leaf.key] = leaf.tensor(observation)
        if self.from_pixels:
            entries["pixels"] = torch.from_numpy(np.array(self._env.render()))
        data = TensorDict(entries, self.batch_size)
        for reader in self.info_dict_reader:
            reader(info or {}, data)
        return data if self.device is None else data.to(self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed
        if seed is not None:
            self._env.action_space.seed(seed)

    def set_info_dict_reader(self, info_dict_reader: BaseInfoDictReader | None = None) -> GymWrapper:
        """Read entries of the info dictionary into the data, under "next" (and at the root, where a reset gives them).

        Args:
            info_dict_reader: what reads them; None for :class:`default_info_dict_reader`, which reads all numbers.
                Where it has no spec, the env is reset and stepped once to find out.

        Returns:
            The env.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> env = GymEnv("Taxi-v4", categorical_action_encoding=True).set_info_dict_reader()
            >>> env.rollout(3)["next", "action_mask"].shape
            torch.Size([3, 6])
        """
        reader = default_info_dict_reader() if info_dict_reader is None else info_dict_reader
        if reader.info_spec is None:
            self._env.reset()
            reader(self._env.step(self._env.action_space.sample())[-1], TensorDict({}))
            self._running = False
        found = reader.info_spec
        if found is None or found.is_empty():
            raise ValueError(
                f"The info dictionary of {self!r} has no numbers to read. "
                "Fix: leave the reader out, or name keys and a spec: default_info_dict_reader(keys=[...], spec=...)."
            )
        spec = self.observation_spec.clone()
        spec.update(found)
        self.observation_spec = spec
        self.info_dict_reader.append(reader)
        self.empty_cache()
        return self

    def auto_register_info_dict(self) -> GymWrapper:
        """Read all numbers of the info dictionary, with zeros where a reset gives none, so that every step has them.

        Returns:
            The env.
        """
        self.set_info_dict_reader()
        self._info_at_reset = True
        return self

    # A row at a time ----------------------------------------------------------------------------------------------

    @property
    def _fills_rows(self) -> bool:
        if "fills_rows" not in self._cache:
            # Rows go past these methods and past all checks but the first: not for who overrides or wants them, and
            # not for who changed the specs that the rows are made of.
            own = any(getattr(type(self), name) is not getattr(GymWrapper, name) for name in _PASSED_BY)
            expected = {leaf.key for leaf in self._leaves} | ({"pixels"} if self.from_pixels else set())
            same = set(self.observation_keys) == expected and self.done_keys == list(END_KEYS)
            one_reward = len(self.reward_keys) == 1 and self.reward_spec.shape.numel() == 1
            simple = self._one_action and one_reward and not self.info_dict_reader
            on_cpu = self.device is None or self.device.type == "cpu"
            self._cache["fills_rows"] = on_cpu and simple and not own and same
        return self._cache["fills_rows"] and not self.run_type_checks

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        root: dict[NestedKey, LeafInfo] = {}
        for composite in (self.observation_spec, self.full_done_spec):
            for key in composite.keys(True, True):
                spec = composite[key]
                assert spec.dtype is not None  # a space that becomes a spec without a dtype is refused at the start
                root[key] = spec.shape, spec.dtype
        return root, {self.reward_key: (self.reward_spec.shape, torch.float32)}

    def _row_functions(self, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        env_step, env_reset = self._advance, self._env.reset
        reward_rows = block.next[self.reward_key].reshape(-1)
        terminated_rows, truncated_rows, done_rows = (block.next[k][:, 0] for k in (TERMINATED, TRUNCATED, DONE))
        write_next = self._writer(block.next)
        write_root = self._writer(block.root)

        def step(t: int, action: Any) -> bool:
            observation, reward, terminated, truncated, _ = env_step(action)
            if "step" in self._unchecked:
                self._check_first_step(observation, reward)
            write_next(t, observation)
            reward_rows[t] = reward if type(reward) is float else _number(reward)
            if terminated or truncated:
                terminated_rows[t], truncated_rows[t], done_rows[t] = terminated, truncated, True
                return True
            return False

        def reset(t: int) -> None:
            write_root(t, env_reset()[0])

        return step, reset

    def _writer(self, rows: dict[NestedKey, np.ndarray]) -> Callable[[int, Any], None]:
        """Make the function that writes an observation into row t of these arrays."""
        leaves = [(leaf.writer(), rows[leaf.key]) for leaf in self._leaves]
        if self.from_pixels:
            render = self._env.render
            leaves.append((lambda frames, t, _: frames.__setitem__(t, render()), rows["pixels"]))
        if len(leaves) == 1:
            write, only = leaves[0]
            return lambda t, observation: write(only, t, observation)

        def write_all(t: int, observation: Any) -> None:
            for write, array in leaves:
                write(array, t, observation)

        return write_all

    def _check_first_step(self, observation: Any, reward: Any) -> None:
        data: dict[NestedKey, Any] = {key: torch.zeros(1, dtype=torch.bool) for key in END_KEYS}
        data[self.reward_key] = torch.full(self.reward_spec.shape, _number(reward), dtype=self.reward_spec.dtype)
        self._check_data(self._tensordict(observation, data), "step")

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        return drawn_actions(self.action_spec, actions)

    def _native_action(self, action: torch.Tensor) -> Any:
        return native_action(self.action_spec, action)

    # Life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the backend, too."""
        if not self.is_closed:
            super().close()
            self._env.close()

    def __getattr__(self, name: str) -> Any:
        with contextlib.suppress(AttributeError):
            return super().__getattr__(name)
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        try:
            return self._env.get_wrapper_attr(name)
        except AttributeError as error:
            raise AttributeError(
                f"Neither {type(self).__name__} nor the {type(self._env.unwrapped).__name__} in it has an attribute "
                f"{name!r}."
            ) from error

    def __repr__(self) -> str:
        spec = self._env.spec
        name = type(self._env.unwrapped).__name__ if spec is None else spec.id
        return f"{type(self).__name__}(env={name}, batch_size={self.batch_size}, device={self.device})"


def _number(reward: Any) -> float:
    """Take the reward out of whatever the backend gives: a number, or an array of any shape that holds one."""
    array = np.asarray(reward)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise RuntimeError(
            f"The reward must be one number and is {reward!r}. Fix: let the env's step return (observation, reward, "
            "terminated, truncated, info) with a float as reward."
        )
    return float(array.reshape(()))
