"""Environments of Unity ML-Agents, whose agents end and start their episodes one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import TERMINATED, TRUNCATED
from rlnb.envs.libs.agents import ACTION_MASK, AgentsEnv, AgentSpecs, Found, found_by_agent
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env
from rlnb.envs.marl import MarlGroupMapType

CONTINUOUS, DISCRETE = "continuous_action", "discrete_action"


class UnityMLAgentsWrapper(AgentsEnv):
    """Wraps an environment of Unity ML-Agents.

    Agents of one behavior have the same sensors and actions, and those of different behaviors need not, so each agent
    has a nested entry of its own: ("group_0", "agent_3", "VectorSensor_size8"). Its actions are "continuous_action",
    of shape ``[size]`` from -1 to 1, and "discrete_action", with a choice for each branch; a behavior has one or both.
    "action_mask" says which choices of the branches are legal, one branch after the other. "reward" is the agent's own
    and "group_reward" that of its group.

    Each agent ends its episodes by itself and starts the next one right away, with a new id in Unity. Here it keeps its
    name: its last step is that of the episode that ended, and the reset of the agent returns what it sees first in the
    next one. An agent that requests no decision at a step keeps its last observation, has reward 0, and its action is
    ignored.

    Args:
        env: the environment, a ``UnityEnvironment``.
        group_map: the names of the agents in each group, or a rule. Default: by the group id that Unity gives them,
            "group_0", "group_1" and so on.
        categorical_actions: encode the choices of branches as integers. ``False`` (the default): as one-hot vectors,
            one after the other.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Attributes:
        agent_names: "agent_0" and so on: the agents of the first behavior, then those of the second.
        behaviors: the name of the behavior of each agent.
        group_map: the names of the agents in each group.

    Raises:
        TypeError: If ``env`` is not such an environment.
        ValueError: If the groups do not fit the agents, or there are none.

    Example:
        .. code-block:: python

            from mlagents_envs.environment import UnityEnvironment

            env = UnityMLAgentsWrapper(UnityEnvironment("3DBall"))
            env.rollout(100)["group_0", "agent_0", "continuous_action"]  # [100, 2]
    """

    libname = "mlagents_envs"
    git_url = "https://github.com/Unity-Technologies/ml-agents"
    _masked_action = DISCRETE

    def __init__(
        self,
        env: Any,
        *,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType | None = None,
        categorical_actions: bool = False,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        if not hasattr(env, "behavior_specs"):
            raise TypeError(
                f"UnityMLAgentsWrapper wraps a UnityEnvironment and got a {type(env).__name__}. "
                'Fix: UnityMLAgentsEnv(registered_name="3DBall"), or UnityEnvironment(file_name).'
            )
        env.reset()
        behaviors: list[str] = []
        groups: dict[str, list[str]] = {}
        for behavior in env.behavior_specs:
            decisions, _ = env.get_steps(behavior)
            for group_id in decisions.group_id:
                groups.setdefault(f"group_{int(group_id)}", []).append(f"agent_{len(behaviors)}")
                behaviors.append(behavior)
        if not behaviors:
            raise ValueError(
                "No agent requests a decision after the reset, so there is nothing to control. "
                "Fix: check in Unity that the agents have a DecisionRequester."
            )
        specs = {behavior: _specs(env.behavior_specs[behavior], categorical_actions) for behavior in set(behaviors)}
        super().__init__(
            env,
            {f"agent_{i}": specs[behavior] for i, behavior in enumerate(behaviors)},
            groups if group_map is None else group_map,
            root_ends=False,
            stacked=False,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.behaviors = dict(zip(self.agent_names, behaviors, strict=True))
        self.categorical_actions = categorical_actions
        self._ids: dict[tuple[str, int], str] = {}  # the name of the agent with this behavior and id
        self._deciding: set[str] = set()  # agents whose decision Unity waits for
        self._records: dict[str, dict[str, Any]] = {}  # the last data of each agent
        self._fresh: dict[str, dict[str, Any]] = {}  # the first data of the next episode of agents that are done

    @property
    def lib(self) -> ModuleType:
        """The module ``mlagents_envs``."""
        return import_library("mlagents_envs", type(self).__name__)

    def _restart(self, seed: int | None, names: Sequence[str] | None = None, **kwargs: Any) -> Found:
        if names is None:
            self._env.reset(**kwargs)
            self._ids, self._fresh, self._records = {}, {}, {}
            self._receive()
        for name in names or ():
            # An agent whose next episode has not begun keeps what it saw last until then.
            self._records[name] = self._fresh.pop(name, self._records[name])
        return found_by_agent(self._records)

    def _advance(self, actions: dict[str, Any]) -> Found:
        env = self._env
        for (behavior, number), name in self._ids.items():
            if name in self._deciding:
                env.set_action_for_agent(behavior, number, self._action_tuple(behavior, actions[name]))
        env.step()
        idle = {"reward": 0.0, "group_reward": 0.0, TERMINATED: False, TRUNCATED: False}
        self._records = {name: {**self._fresh.pop(name, record), **idle} for name, record in self._records.items()}
        self._receive()
        return found_by_agent(self._records)

    def _receive(self) -> None:
        """Read the steps of all behaviors: those of agents that ended, then those that request a decision."""
        self._deciding = set()
        for behavior in self._env.behavior_specs:
            decisions, terminals = self._env.get_steps(behavior)
            for number in terminals.agent_id:
                name = self._ids.pop((behavior, int(number)), None)
                if name is not None:
                    cut = bool(terminals[number].interrupted)
                    self._records[name] = self._record(behavior, terminals[number], not cut, cut)
            for number in decisions.agent_id:
                record = self._record(behavior, decisions[number], False, False)
                name = self._ids.get((behavior, int(number)))
                is_new = name is None
                if name is None:
                    name = self._ids[behavior, int(number)] = self._free_name(behavior)
                last = self._records.get(name, record)
                self._deciding.add(name)
                waits = is_new and (last[TERMINATED] or last[TRUNCATED])
                (self._fresh if waits else self._records)[name] = record

    def _free_name(self, behavior: str) -> str:
        """Find the name for an agent with a new id: that of one of its behavior whose episode has ended."""
        taken = set(self._ids.values())
        for name, own in self.behaviors.items():
            if own == behavior and name not in taken:
                return name
        raise RuntimeError(
            f"An agent of the behavior {behavior!r} appeared, and all of its agents are there already: "
            f"{[name for name, own in self.behaviors.items() if own == behavior]}. The specs need to know all agents. "
            "Fix: let the Unity scene spawn all agents at its reset."
        )

    def _record(self, behavior: str, step: Any, terminated: bool, truncated: bool) -> dict[str, Any]:
        """Convert one agent's decision or terminal step."""
        described = self._env.behavior_specs[behavior]
        record: dict[str, Any] = dict(zip(_sensors(described), step.obs, strict=True))
        record.update({TERMINATED: terminated, TRUNCATED: truncated})
        record.update(reward=float(step.reward), group_reward=float(step.group_reward))
        branches = described.action_spec.discrete_branches
        if branches:
            masks = getattr(step, "action_mask", None)
            # Unity marks choices that are not available.
            record[ACTION_MASK] = ~np.concatenate(masks) if masks is not None else np.ones(sum(branches), dtype=bool)
        return record

    def _action_tuple(self, behavior: str, action: Mapping[str, Any]) -> Any:
        """Make the action of one agent, with a first dimension of size 1."""
        found = self._env.behavior_specs[behavior].action_spec.empty_action(1)
        if CONTINUOUS in action:
            found.continuous[0] = action[CONTINUOUS]
        if DISCRETE in action:
            found.discrete[0] = action[DISCRETE]
        return found

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise RuntimeError(
                "A UnityEnvironment can only be seeded when it is made. Fix: UnityMLAgentsEnv(..., seed=0)."
            )

    def render(self) -> Any:
        """Raise: Unity draws its own window.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "Unity draws its own window and returns no frames. Fix: give the agents a CameraSensor, whose images are "
            "observations."
        )


class UnityMLAgentsEnv(UnityMLAgentsWrapper):
    """An environment of Unity ML-Agents, started from a file or by its registered name.

    Args:
        file_name: the path of the environment's binary. If neither this nor ``registered_name`` is given, the env waits
            for the Unity editor to connect.
        registered_name: the name of an environment in the default registry, one of ``UnityMLAgentsEnv.available_envs``,
            which is downloaded.
        group_map, categorical_actions, device, run_type_checks, allow_done_after_reset: see
            :class:`UnityMLAgentsWrapper`.
        **kwargs: for ``UnityEnvironment``, such as ``seed=0`` or ``no_graphics=True``.

    Raises:
        ImportError: If mlagents-envs is not installed.
        ValueError: If both names are given, or there is no environment of that name.

    Example:
        .. code-block:: python

            env = UnityMLAgentsEnv(registered_name="3DBall", no_graphics=True)
            env.rollout(100, break_when_any_done=False)
    """

    available_envs = AvailableEnvs("mlagents_envs", lambda: _registry())

    def __init__(
        self,
        file_name: str | None = None,
        registered_name: str | None = None,
        *,
        group_map: Mapping[str, Sequence[str]] | MarlGroupMapType | None = None,
        categorical_actions: bool = False,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            _make(file_name, registered_name, kwargs),
            group_map=group_map,
            categorical_actions=categorical_actions,
            device=device,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.file_name, self.registered_name = file_name, registered_name

    def _backend_name(self) -> str:
        return self.registered_name or self.file_name or super()._backend_name()


def _registry() -> Any:
    return import_library("mlagents_envs.registry", "UnityMLAgentsEnv").default_registry


def _make(file_name: str | None, registered_name: str | None, kwargs: dict[str, Any]) -> Any:
    if file_name is not None and registered_name is not None:
        raise ValueError(
            f"UnityMLAgentsEnv starts a file or a registered environment, and got file_name={file_name!r} and "
            f"registered_name={registered_name!r}. Fix: leave one of them out."
        )
    if registered_name is None:
        environment = import_library("mlagents_envs.environment", "UnityMLAgentsEnv")
        return environment.UnityEnvironment(file_name, **kwargs)
    registry = _registry()
    if registered_name not in registry:
        raise no_such_env("Unity ML-Agents", registered_name, registry, "UnityMLAgentsEnv.available_envs")
    return registry[registered_name].make(**kwargs)


def _sensors(described: Any) -> list[str]:
    """The entries of a behavior's sensors."""
    return [spec.name or f"observation_{i}" for i, spec in enumerate(described.observation_specs)]


def _specs(described: Any, categorical: bool) -> AgentSpecs:
    """The specs of one agent of a behavior."""
    observation: dict[str, TensorSpec] = {
        name: Unbounded(shape=tuple(spec.shape))
        for name, spec in zip(_sensors(described), described.observation_specs, strict=True)
    }
    action: dict[str, TensorSpec] = {}
    if described.action_spec.continuous_size:
        action[CONTINUOUS] = Bounded(-1.0, 1.0, shape=(described.action_spec.continuous_size,))
    branches = list(described.action_spec.discrete_branches)
    if branches:
        action[DISCRETE] = (MultiCategorical if categorical else MultiOneHot)(branches)
        observation[ACTION_MASK] = Binary(sum(branches), dtype=torch.bool)
    return AgentSpecs(observation, action, {"reward": Unbounded(shape=(1,)), "group_reward": Unbounded(shape=(1,))})
