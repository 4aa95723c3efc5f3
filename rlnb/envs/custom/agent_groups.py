"""Conversion between data of all agents and one nested entry per group of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.base import TensorSpec
from rlnb.data.ted.keys import as_key
from rlnb.envs.marl import MarlGroupMapType, check_marl_grouping

Spec = TypeVar("Spec", bound=TensorSpec)


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
        return torch.cat(found, len(self._before))[(*self._before, self._back)]

    def stack(self, specs: Sequence[Spec]) -> dict[str, Spec]:
        """Stack the specs of the agents, in the env's order, a group at a time. They start with the batch size."""
        dim = len(self._before)
        return {
            group: cast("Spec", torch.stack(cast("Any", [specs[i] for i in members]), dim))
            for group, members in self._members.items()
        }
