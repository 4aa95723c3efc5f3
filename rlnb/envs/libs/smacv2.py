"""Battles of the StarCraft Multi-Agent Challenge, SMACv2, whose units are agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import TERMINATED
from rlnb.envs.libs.agents import ACTION_MASK, INFO, AgentsEnv, AgentSpecs, Found
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env
from rlnb.envs.marl import MarlGroupMapType

_INFOS: dict[str, torch.dtype] = {
    "battle_won": torch.bool, "dead_allies": torch.int64, "dead_enemies": torch.int64, "episode_limit": torch.bool,
}  # fmt: skip


class SMACv2Wrapper(AgentsEnv):
    """Wraps an environment of SMACv2. Its units are "agent_0", "agent_1" and so on, all in the group "agents".

    ("agents", "action_mask") of shape ``[n_agents, n_actions]`` says which actions are legal, and masks the action
    spec: a unit that has died can only do nothing. "state" is the state of the whole battle. All units share one
    "reward", of shape ``[1]``, and end together, so "done" and "terminated" are at the root. The composite "info" says
    how the battle goes.

    Args:
        env: the environment, a ``StarCraft2Env`` or a ``StarCraftCapabilityEnvWrapper``.
        categorical_actions: encode actions as integers (the default). ``False``: as one-hot vectors.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Raises:
        TypeError: If ``env`` is not such an environment.

    Example:
        .. code-block:: python

            from smacv2.env import StarCraft2Env

            SMACv2Wrapper(StarCraft2Env(map_name="MMM2")).rollout(5)["agents", "action_mask"]  # [5, 10, 18]
    """

    libname = "smacv2"
    git_url = "https://github.com/oxwhirl/smacv2"

    def __init__(
        self,
        env: Any,
        categorical_actions: bool = True,
        *,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        if not hasattr(env, "get_env_info"):
            raise TypeError(
                f"SMACv2Wrapper wraps a StarCraft2Env and got a {type(env).__name__}. "
                'Fix: SMACv2Env("10gen_terran"), or smacv2.env.StarCraft2Env(map_name="MMM2").'
            )
        env.reset()  # the sizes are known once the game runs
        sizes = env.get_env_info()
        n = int(sizes["n_actions"])
        spec = AgentSpecs(
            {"observation": Unbounded(shape=(int(sizes["obs_shape"]),)), ACTION_MASK: Binary(n, dtype=torch.bool)},
            {"action": Categorical(n) if categorical_actions else OneHot(n)},
            {},
        )
        super().__init__(
            env,
            {f"agent_{i}": spec for i in range(int(sizes["n_agents"]))},
            MarlGroupMapType.ALL_IN_ONE_GROUP,
            shared={
                "state": Unbounded(shape=(int(sizes["state_shape"]),)),
                INFO: Composite({name: _info_spec(dtype) for name, dtype in _INFOS.items()}),
            },
            shared_reward=Unbounded(shape=(1,)),
            agents_end=False,
            truncates=False,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )

    @property
    def lib(self) -> ModuleType:
        """The module ``smacv2``."""
        return import_library("smacv2", type(self).__name__)

    def _restart(self, seed: int | None, names: Sequence[str] | None = None, **kwargs: Any) -> Found:
        self._env.reset(**kwargs)
        return self._found({})

    def _advance(self, actions: dict[str, Any]) -> Found:
        reward, terminated, info = self._env.step([actions[name] for name in self.agent_names])
        entries, shared, present, acting = self._found(info)
        return entries, {**shared, "reward": float(reward), TERMINATED: bool(terminated)}, present, acting

    def _found(self, info: Mapping[str, Any]) -> Found:
        env, names = self._env, self.agent_names
        seen = (np.asarray(one, dtype=np.float32) for one in env.get_obs())
        legal = {name: np.asarray(env.get_avail_agent_actions(i), dtype=bool) for i, name in enumerate(names)}
        entries = {"observation": dict(zip(names, seen, strict=True)), ACTION_MASK: legal}
        infos = {name: info.get(name, False) for name in _INFOS}
        shared = {"state": np.asarray(env.get_state(), dtype=np.float32), INFO: infos}
        return entries, shared, legal.keys(), names

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise RuntimeError(
                "A StarCraft2Env can only be seeded when it is made. "
                "Fix: StarCraft2Env(..., seed=0), or SMACv2Env(map_name), whose set_seed makes a new one."
            )

    def render(self) -> Any:
        """Return what the env's ``render(mode="rgb_array")`` does: uint8 ``[height, width, 3]``.

        Raises:
            RuntimeError: If the env was not reset.
        """
        if not self._running:
            raise RuntimeError("render was called before reset, so there is no state to show. Fix: env.reset() first.")
        return self._env.render(mode="rgb_array")


class SMACv2Env(SMACv2Wrapper):
    """An environment of SMACv2, made by the name of its map.

    Args:
        map_name: one of ``SMACv2Env.available_envs``.
        capability_config: how the units and their places are drawn, which the maps whose names start with "10gen" need.
        seed: of the game. Default: drawn by it.
        categorical_actions, device, run_type_checks, allow_done_after_reset: see :class:`SMACv2Wrapper`.
        **kwargs: for the environment, such as ``difficulty="7"``.

    Raises:
        ImportError: If smacv2 is not installed.
        ValueError: If there is no such map.

    Example:
        .. code-block:: python

            env = SMACv2Env("3m", seed=0)
            env.rollout(60)["next", "info", "battle_won"]  # [length]
    """

    available_envs = AvailableEnvs("smacv2", lambda: _maps())

    def __init__(
        self,
        map_name: str,
        capability_config: dict[str, Any] | None = None,
        seed: int | None = None,
        categorical_actions: bool = True,
        *,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        options = {"map_name": map_name, **kwargs}
        if capability_config is not None:
            options["capability_config"] = capability_config
        super().__init__(
            _make(options, seed),
            categorical_actions,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.map_name, self._options = map_name, options

    def _set_seed(self, seed: int | None) -> None:
        if seed is None:
            return
        made = _make(self._options, seed)
        self._env.close()
        self._env, self._running = made, False

    def _backend_name(self) -> str:
        return self.map_name


def _maps() -> Any:
    return import_library("smacv2.env.starcraft2.maps.smac_maps", "SMACv2Env").get_smac_map_registry()


def _make(options: dict[str, Any], seed: int | None) -> Any:
    library = import_library("smacv2.env", "SMACv2Env")
    if options["map_name"] not in _maps():
        raise no_such_env("SMACv2", options["map_name"], _maps(), "SMACv2Env.available_envs")
    make = library.StarCraftCapabilityEnvWrapper if "capability_config" in options else library.StarCraft2Env
    # The game takes signed 32-bit seeds.
    return make(**options, **({} if seed is None else {"seed": seed % (1 << 31)}))


def _info_spec(dtype: torch.dtype) -> TensorSpec:
    return Binary(shape=(), dtype=dtype) if dtype is torch.bool else Unbounded(shape=(), dtype=dtype)
