"""Agent groups of multi-agent environments: which agents share a nested entry, its validation and its data."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar, cast

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.base import TensorSpec
from rlnb.data.ted.keys import as_key


class MarlGroupMapType(Enum):
    """The usual ways to group the agents of a multi-agent env.

    Agents of one group share a nested entry, whose data has a dimension for the agents. Their specs must be the same.

    Attributes:
        ALL_IN_ONE_GROUP: all agents are in one group, "agents".
        ONE_GROUP_PER_AGENT: each agent is a group by itself, with the agent's name.

    Example:
        >>> MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(["walker", "runner"])
        {'agents': ['walker', 'runner']}
        >>> MarlGroupMapType.ONE_GROUP_PER_AGENT.get_group_map(["walker", "runner"])
        {'walker': ['walker'], 'runner': ['runner']}
    """

    ALL_IN_ONE_GROUP = 1
    ONE_GROUP_PER_AGENT = 2

    def get_group_map(self, agent_names: Sequence[str]) -> dict[str, list[str]]:
        """Group agents.

        Args:
            agent_names: the names of all agents, in the env's order.

        Returns:
            The names of the agents in each group, by the group's name.

        Raises:
            TypeError: If ``agent_names`` is not a sequence of strings.
        """
        names = _read_names(agent_names)
        if self is MarlGroupMapType.ALL_IN_ONE_GROUP:
            return {"agents": names}
        return {name: [name] for name in names}


def check_marl_grouping(group_map: Mapping[str, Sequence[str]], agent_names: Sequence[str]) -> None:
    """Check that each agent is in exactly one group, and that no group is empty or has an unknown agent.

    Args:
        group_map: the names of the agents in each group, by the group's name.
        agent_names: the names of all agents.

    Raises:
        ValueError: If the grouping does not fit the agents, with all problems.
        TypeError: If ``group_map`` is not a mapping or ``agent_names`` not a sequence of strings.

    Example:
        >>> check_marl_grouping({"red": ["r0", "r1"], "blue": ["b0"]}, ["r0", "r1", "b0"])
        >>> check_marl_grouping({"red": ["r0", "r1"], "blue": ["r1"]}, ["r0", "r1", "b0"])
        Traceback (most recent call last):
        ValueError: The groups do not fit the agents ['r0', 'r1', 'b0']:
          - The agent 'r1' is in the groups 'red' and 'blue'. Fix: leave it in one of them.
          - The agent 'b0' is in no group. Fix: add it to one, such as 'red', or to a group of its own.
    """
    names = _read_names(agent_names)
    if isinstance(group_map, MarlGroupMapType):
        raise TypeError(
            f"group_map must be a dictionary of agent names by group, and is {group_map}. "
            f"Fix: pass {group_map}.get_group_map(agent_names)."
        )
    if not isinstance(group_map, Mapping):
        raise TypeError(
            f"group_map must be a dictionary of agent names by group, such as "
            f"{MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(names[:2])}, and is of type {_kind(group_map)}."
        )
    problems = [
        *_repeated_names(names),
        *_bad_groups(group_map),
        *_misplaced_agents({group: found for group, found in group_map.items() if _is_names(found)}, names),
    ]
    if problems:
        rows = "\n".join(f"  - {problem}" for problem in problems)
        raise ValueError(f"The groups do not fit the agents {names}:\n{rows}")


def _is_names(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _read_names(agent_names: Any) -> list[str]:
    if not _is_names(agent_names):
        shown = repr(agent_names) if isinstance(agent_names, str) else f"of type {_kind(agent_names)}"
        hint = f" Fix: pass [{agent_names!r}]." if isinstance(agent_names, str) else ""
        raise TypeError(f"agent_names must be a list of strings, and is {shown}.{hint}")
    names = list(agent_names)
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"agent_names must be a list of strings, and has {name!r}, of type {_kind(name)}, at {i}.")
    return names


def _kind(value: Any) -> str:
    return type(value).__name__


def _repeated_names(names: list[str]) -> list[str]:
    return [
        f"The name {name!r} stands for {names.count(name)} agents. Fix: give each agent a name of its own."
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def _bad_groups(group_map: Mapping[str, Any]) -> list[str]:
    """List what is wrong with the groups regardless of the agents' names."""
    if not group_map:
        return ["There is no group. Fix: MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(agent_names) makes one."]
    problems = []
    for group, found in group_map.items():
        if not isinstance(group, str) or not group:
            problems.append(f"The name of a group is {group!r}. Fix: use a string that is not empty; it is a key.")
        if isinstance(found, str):
            problems.append(f"The group {group!r} is the string {found!r}. Fix: make it a list, [{found!r}].")
        elif not _is_names(found):
            problems.append(f"The group {group!r} is of type {_kind(found)}. Fix: make it a list of agent names.")
        elif not list(found):
            problems.append(f"The group {group!r} is empty. Fix: put an agent into it, or leave it out.")
    return problems


def _misplaced_agents(groups: Mapping[str, Iterable[Any]], names: list[str]) -> list[str]:
    """List agents that are unknown, in several places or in no group."""
    homes: dict[Any, list[str]] = {}
    problems = []
    for group, found in groups.items():
        for agent in found:
            if not isinstance(agent, str):
                problems.append(
                    f"The group {group!r} has {agent!r}, of type {_kind(agent)}. Fix: use the agent's name."
                )
            else:
                homes.setdefault(agent, []).append(group)
    for agent, where in homes.items():
        if agent not in names:
            close = difflib.get_close_matches(agent, names, 1)
            fix = f"did you mean {close[0]!r}?" if close else "leave it out, or name it as the env does."
            problems.append(f"The group {where[0]!r} has {agent!r}, which is not an agent. Fix: {fix}")
        *others, last = dict.fromkeys(where)
        if others:
            listed = f"{', '.join(map(repr, others))} and {last!r}"
            problems.append(f"The agent {agent!r} is in the groups {listed}. Fix: leave it in one of them.")
        elif len(where) > 1:
            problems.append(f"The agent {agent!r} is {len(where)} times in the group {last!r}. Fix: name it once.")
    if not groups:
        return problems
    home = next(iter(groups))
    problems += [
        f"The agent {name!r} is in no group. Fix: add it to one, such as {home!r}, or to a group of its own."
        for name in dict.fromkeys(names)
        if name not in homes
    ]
    return problems


# Data of groups -------------------------------------------------------------------------------------------------------


Stacked = TypeVar("Stacked", bound=TensorSpec | torch.Tensor)


class AgentGroups:
    """Groups of agents, each of which shares a nested entry.

    The data of all agents has a dimension for them behind those of the batch, ``[*batch_size, n_agents, ...]``; that of
    a group has shape ``[*batch_size, n_agents_of_the_group, ...]``, in the order of the names in the group.

    Example:
        >>> groups = AgentGroups({"red": ["r0", "r1"], "blue": ["b0"]}, ["r0", "b0", "r1"])
        >>> data = groups.split({"speed": torch.tensor([1.0, 2.0, 3.0])}, torch.Size([]))
        >>> data["red"]["speed"].tolist(), data["blue"]["speed"].tolist()
        ([1.0, 3.0], [2.0])
    """

    def __init__(
        self, group_map: Mapping[str, Sequence[str]] | MarlGroupMapType, agent_names: Sequence[str], batch_dims: int = 0
    ) -> None:
        if isinstance(group_map, MarlGroupMapType):
            group_map = group_map.get_group_map(agent_names)
        check_marl_grouping(group_map, agent_names)
        self.group_map = {group: list(names) for group, names in group_map.items()}
        self._before: tuple[slice, ...] = (slice(None),) * batch_dims
        place = {name: i for i, name in enumerate(agent_names)}
        self._members = {group: [place[name] for name in names] for group, names in self.group_map.items()}
        order = [i for members in self._members.values() for i in members]
        self._alone = len(self._members) == 1 and order == sorted(order)
        self._back = [order.index(i) for i in range(len(order))]

    def split(
        self, data: dict[str, Any], batch_size: torch.Size, device: torch.device | None = None
    ) -> dict[str, TensorDictBase]:
        """Split data of all agents into the nested entry of each group, ``[*batch_size, n_agents_of_the_group]``.

        Tensors are ``[*batch_size, n_agents, ...]``; dictionaries are split member by member. Nothing is copied if all
        agents are in one group, in their order.
        """
        return {
            group: fast_tensordict(self._pick(data, members), torch.Size((*batch_size, len(members))), device)
            for group, members in self._members.items()
        }

    def _pick(self, data: Any, members: list[int]) -> Any:
        if isinstance(data, dict):
            return {name: self._pick(value, members) for name, value in data.items()}
        return data if self._alone else data[(*self._before, members)]

    def join(self, tensordict: TensorDictBase, name: str) -> torch.Tensor:
        """Collect an entry ``name`` of all groups: ``[*batch_size, n_agents, ...]``, in the env's order."""
        found = [cast("torch.Tensor", tensordict.get(as_key((group, name)))) for group in self._members]
        if self._alone:
            return found[0]
        index: tuple[Any, ...] = (*self._before, self._back)
        return torch.cat(found, len(self._before))[index]

    def each(self, tensordict: TensorDictBase, name: str) -> list[torch.Tensor]:
        """Collect an entry ``name`` of each agent, ``[*batch_size, ...]``, in the env's order; shapes may differ."""
        found: dict[int, torch.Tensor] = {}
        for group, members in self._members.items():
            whole = cast("torch.Tensor", tensordict.get(as_key((group, name))))
            found.update(zip(members, whole.unbind(len(self._before)), strict=True))
        return [found[i] for i in range(len(found))]

    def stack(self, values: Sequence[Stacked]) -> dict[str, Stacked]:
        """Stack the specs or tensors of the agents, in the env's order, a group at a time."""
        dim = len(self._before)
        return {
            group: cast("Stacked", torch.stack(cast("Any", [values[i] for i in members]), dim))
            for group, members in self._members.items()
        }
