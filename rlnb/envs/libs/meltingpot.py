"""Substrates of Melting Pot, in which several players meet social dilemmas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import TERMINATED
from rlnb.envs.libs.agents import AgentsEnv, AgentSpecs, Found
from rlnb.envs.libs.dm_env import spec_from_dm_env
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env
from rlnb.envs.marl import MarlGroupMapType

_WORLD = "WORLD."  # the start of the names of observations that all players share


class MeltingpotWrapper(AgentsEnv):
    """Wraps a substrate of Melting Pot. Its players are "player_0", "player_1" and so on, by default in one group.

    What a player observes is below ("agents", "observation"): an image "RGB" of shape ``[n_agents, height, width, 3]``,
    and numbers of shape ``[n_agents, 1]``. Observations of the world are at the root: "WORLD.RGB" is "RGB". A substrate
    has one end signal for all players, so "done" and "terminated" are at the root, and nothing is "truncated".

    Args:
        env: the substrate.
        categorical_actions: encode actions as integers (the default). ``False``: as one-hot vectors.
        group_map: the names of the players in each group, or a rule. Default: all are in the group "agents".
        max_steps: also end the episode, as "terminated", after this many steps. Default: only the substrate ends it.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Attributes:
        agent_names: the names of the players.
        agent_names_to_indices_map: the index of each player in the substrate.
        group_map: the names of the players in each group.

    Raises:
        TypeError: If ``env`` is not a substrate.
        ValueError: If ``max_steps`` is not positive, or the groups do not fit the players.

    Example:
        .. code-block:: python

            from meltingpot import substrate

            config = substrate.get_config("commons_harvest__open")
            built = substrate.build_from_config(config, roles=config.default_player_roles)
            MeltingpotWrapper(built).rollout(5)["agents", "observation", "RGB"]  # [5, 7, 88, 88, 3]
    """

    libname = "meltingpot"
    git_url = "https://github.com/google-deepmind/meltingpot"

    def __init__(
        self,
        env: Any,
        categorical_actions: bool = True,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType = MarlGroupMapType.ALL_IN_ONE_GROUP,
        max_steps: int | None = None,
        *,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        if not all(hasattr(env, name) for name in ("observation_spec", "action_spec", "reward_spec")):
            raise TypeError(
                f"MeltingpotWrapper wraps a substrate and got a {type(env).__name__}. "
                'Fix: MeltingpotEnv("commons_harvest__open"), or meltingpot.substrate.build(name, roles=roles).'
            )
        if max_steps is not None and (isinstance(max_steps, bool) or max_steps < 1):
            raise ValueError(f"max_steps must be a positive integer or None and is {max_steps!r}.")
        each = zip(env.observation_spec(), env.action_spec(), env.reward_spec(), strict=True)
        specs = [
            AgentSpecs(
                {"observation": Composite({name: _spec(spec) for name, spec in seen.items() if not _shared(name)})},
                {"action": spec_from_dm_env(action, categorical=categorical_actions)},
                {"reward": _spec(reward)},
            )
            for seen, action, reward in each
        ]
        first = env.observation_spec()[0]
        super().__init__(
            env,
            {f"player_{i}": spec for i, spec in enumerate(specs)},
            group_map,
            shared={name.removeprefix(_WORLD): _spec(spec) for name, spec in first.items() if _shared(name)},
            agents_end=False,
            truncates=False,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.max_steps = max_steps
        self.agent_names_to_indices_map = {name: i for i, name in enumerate(self.agent_names)}
        self._steps = 0
        self._world: Mapping[str, Any] = {}

    @property
    def lib(self) -> ModuleType:
        """The module ``meltingpot``."""
        return import_library("meltingpot", type(self).__name__)

    def _restart(self, seed: int | None, names: Sequence[str] | None = None, **kwargs: Any) -> Found:
        self._steps = 0
        return self._found(self._env.reset(**kwargs))

    def _advance(self, actions: dict[str, Any]) -> Found:
        step = self._env.step([actions[name] for name in self.agent_names])
        self._steps += 1
        entries, shared, present, acting = self._found(step)
        over = bool(step.last()) or self._steps == self.max_steps
        rewards = dict(zip(self.agent_names, step.reward, strict=True))
        return {**entries, "reward": rewards}, {**shared, TERMINATED: over}, present, acting

    def _found(self, step: Any) -> Found:
        observations = dict(zip(self.agent_names, step.observation, strict=True))
        seen = step.observation[0]
        self._world = {name.removeprefix(_WORLD): value for name, value in seen.items() if _shared(name)}
        return {"observation": observations}, self._world, observations.keys(), self.agent_names

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise RuntimeError(
                "A substrate of Melting Pot draws its own seed when it is built, and has no way to set one. "
                "Fix: leave set_seed out; torch.manual_seed(seed) repeats random actions."
            )

    def render(self) -> np.ndarray:
        """Return the image of the world, uint8 ``[height, width, 3]``.

        Raises:
            RuntimeError: If the substrate has no such image, or the env was not reset.
        """
        if "RGB" not in self._shared:
            raise RuntimeError(
                "This substrate shows no image of the world. Fix: build it with the global observation 'WORLD.RGB'."
            )
        if not self._running:
            raise RuntimeError("render was called before reset, so there is no state to show. Fix: env.reset() first.")
        return np.array(self._world["RGB"])


class MeltingpotEnv(MeltingpotWrapper):
    """A substrate of Melting Pot, built by its name, with the default role of each player.

    Args:
        substrate: its name, one of ``MeltingpotEnv.available_envs``, or the config of one.
        max_steps, categorical_actions, group_map, device, run_type_checks, allow_done_after_reset: see
            :class:`MeltingpotWrapper`.

    Raises:
        ImportError: If meltingpot is not installed.
        ValueError: If there is no such substrate.

    Example:
        .. code-block:: python

            env = MeltingpotEnv("commons_harvest__open", max_steps=100)
            env.rollout(1000).shape  # [100]
    """

    available_envs = AvailableEnvs("meltingpot", lambda: _substrates().SUBSTRATES)

    def __init__(
        self,
        substrate: Any,
        *,
        max_steps: int | None = None,
        categorical_actions: bool = True,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType = MarlGroupMapType.ALL_IN_ONE_GROUP,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        library = _substrates()
        config = substrate
        if isinstance(substrate, str):
            if substrate not in library.SUBSTRATES:
                raise no_such_env("Melting Pot", substrate, library.SUBSTRATES, "MeltingpotEnv.available_envs")
            config = library.get_config(substrate)
        super().__init__(
            library.build_from_config(config, roles=config.default_player_roles),
            categorical_actions,
            group_map,
            max_steps,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.substrate = substrate

    def _backend_name(self) -> str:
        return self.substrate if isinstance(self.substrate, str) else super()._backend_name()


def _substrates() -> Any:
    return import_library("meltingpot.substrate", "MeltingpotEnv")


def _shared(name: str) -> bool:
    return name.startswith(_WORLD)


def _spec(described: Any) -> TensorSpec:
    """The spec of an observation or reward. A number has shape ``[1]``."""
    return spec_from_dm_env(described, number_shape=(1,))
