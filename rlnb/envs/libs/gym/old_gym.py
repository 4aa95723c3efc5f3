"""Environments of gym, the library that Gymnasium continues, with the interface of Gymnasium."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


def is_gym(thing: Any, name: str = "Env") -> bool:
    """Whether something is an instance of gym's class of this name, which this finds out without importing gym."""
    kinds = (kind for kind in type(thing).__mro__ if kind.__module__.partition(".")[0] == "gym")
    return any(kind.__name__ == name for kind in kinds)


def space_from_gym(space: Any) -> gymnasium.Space:
    """Convert a space of gym into the same space of Gymnasium, which is returned as it is.

    Raises:
        TypeError: If it is neither.
    """
    if isinstance(space, gymnasium.Space):
        return space
    if is_gym(space, "Box"):
        return spaces.Box(space.low, space.high, space.shape, space.dtype)
    if is_gym(space, "Discrete"):
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if is_gym(space, "MultiDiscrete"):
        return spaces.MultiDiscrete(space.nvec, dtype=space.dtype)
    if is_gym(space, "MultiBinary"):
        return spaces.MultiBinary(space.n)
    if is_gym(space, "Dict"):
        return spaces.Dict({key: space_from_gym(member) for key, member in space.spaces.items()})
    if is_gym(space, "Tuple"):
        return spaces.Tuple([space_from_gym(member) for member in space.spaces])
    if is_gym(space, "Text"):
        return spaces.Text(space.max_length, min_length=space.min_length, charset=space.characters)
    if is_gym(space, "Sequence"):
        return spaces.Sequence(space_from_gym(space.feature_space))
    if is_gym(space, "Graph"):
        edges = None if space.edge_space is None else space_from_gym(space.edge_space)
        return spaces.Graph(space_from_gym(space.node_space), edges)
    raise TypeError(f"There is no space of Gymnasium for a {type(space).__name__}, {space!r}.")


class _OldGymEnv(gymnasium.Env):
    """An env of gym, with the interface of Gymnasium. Its other attributes are those of the env.

    Its versions differ: until 0.25 a step has one end signal, "done", a reset returns the observation alone, and
    seeds are given to ``env.seed``; before 0.26 the mode is an argument of ``render``.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.metadata, self.spec = env.metadata or {}, env.spec
        self.observation_space = space_from_gym(env.observation_space)
        self.action_space = space_from_gym(env.action_space)
        self._reset_takes = inspect.signature(env.unwrapped.reset).parameters
        self._mode_is_argument = "mode" in inspect.signature(env.render).parameters
        self.render_mode = "rgb_array" if self._mode_is_argument else getattr(env, "render_mode", None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        kwargs: dict[str, Any] = {}
        if seed is not None and "seed" in self._reset_takes:
            kwargs["seed"] = seed
        elif seed is not None:
            self.env.seed(seed)
        if options is not None:
            kwargs["options"] = options
        found = self.env.reset(**kwargs)
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping):
            return found[0], dict(found[1])
        return found, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, *ends, info = self.env.step(action)
        if len(ends) == 2:
            return observation, reward, bool(ends[0]), bool(ends[1]), info
        truncated = bool(info.get("TimeLimit.truncated", False))
        return observation, reward, bool(ends[0]) and not truncated, truncated, info

    def render(self) -> Any:
        found = self.env.render(mode="rgb_array") if self._mode_is_argument else self.env.render()
        return found[-1] if isinstance(found, list) and found else found  # 0.26 keeps all frames in some modes

    def close(self) -> None:
        self.env.close()

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.env, name)


class _OldGymVectorEnv(gymnasium.vector.VectorEnv):
    """A vector env of gym 0.26, with the interface of Gymnasium. It resets a sub-env in the step that ends it."""

    def __init__(self, env: Any) -> None:
        self.env, self.num_envs, self.spec = env, env.num_envs, env.spec
        self.metadata = {**(env.metadata or {}), "autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        self.render_mode = getattr(env, "render_mode", None)
        for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
            setattr(self, name, space_from_gym(getattr(env, name)))

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        found: tuple[Any, dict[str, Any]] = self.env.reset(seed=seed, options=options)
        return found

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(actions)
        if "final_observation" in info:
            info = {**info, "final_obs": info.pop("final_observation")}
            info["final_info"] = _batched(info.pop("final_info"))
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        return self.env.render()

    def close_extras(self, **kwargs: Any) -> None:
        self.env.close(**kwargs)

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.env, name)


def _batched(infos: Any) -> dict[str, np.ndarray]:
    """Convert one info dictionary for each sub-env that ended, None for others, into a dictionary of arrays."""
    batched: dict[str, np.ndarray] = {}
    for i, info in enumerate(infos):
        for key, value in (info or {}).items():
            if key not in batched:
                batched[key] = np.zeros((len(infos), *np.shape(value)), np.asarray(value).dtype)
            batched[key][i] = value
    return batched


def as_gymnasium(env: Any) -> Any:
    """Give an env or a vector env of gym the interface of Gymnasium; return anything else as it is."""
    if is_gym(env, "VectorEnv"):
        return _OldGymVectorEnv(env)
    return _OldGymEnv(env) if is_gym(env) else env
