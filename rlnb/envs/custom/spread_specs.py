"""The specs of one agent of SpreadEnv, which the env stacks to those of a group."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rlnb.data import Binary, Bounded, Composite, TensorSpec
from rlnb.envs.custom.spread_rules import MOVES


@dataclass(frozen=True)
class AgentSpecs:
    """Makes the specs of one agent, all of which lead with the batch size of the env.

    Args:
        n_agents: how many agents there are, and landmarks.
        rows: of the grid.
        columns: of the grid.
        batch_size: of the env.
        device: of the env.

    Example:
        >>> AgentSpecs(2, 5, 5, torch.Size([3])).observation()["observation"].shape
        torch.Size([3, 8])
    """

    n_agents: int
    rows: int
    columns: int
    batch_size: torch.Size
    device: torch.device | None = None

    def entry(self, name: str, spec: TensorSpec) -> Composite:
        """Give a spec its name in the nested entry.

        Args:
            name: of the entry.
            spec: leads with the batch size.

        Returns:
            The composite with it.
        """
        return Composite({name: spec}, shape=self.batch_size, device=self.device)

    def observation(self, action_mask: bool = False, info: bool = False) -> Composite:
        """Describe what an agent observes.

        Args:
            action_mask: with "action_mask".
            info: with "info".

        Returns:
            The composite.
        """
        n, batch, device = self.n_agents, self.batch_size, self.device
        high = torch.tensor([self.rows - 1.0, self.columns - 1.0], device=device).repeat(2 * n)
        low = torch.cat((torch.zeros(2, device=device), -high[2:]))
        shape = (*batch, 4 * n)
        specs: dict[str, TensorSpec] = {"observation": Bounded(low.expand(shape), high.expand(shape), device=device)}
        if action_mask:
            moves = len(MOVES)
            specs["action_mask"] = Binary(moves, shape=(*batch, moves), dtype=torch.bool, device=device)
        if info:
            most = float(self.rows + self.columns - 2)
            entries = {
                "distance": Bounded(0.0, most, shape=(*batch, 1), device=device),
                "collisions": Bounded(0, max(n - 1, 1), shape=(*batch, 1), dtype=torch.int64, device=device),
            }
            specs["info"] = Composite(entries, shape=batch, device=device)
        return Composite(specs, shape=batch, device=device)

    def state(self) -> TensorSpec:
        """Describe the state that all agents share.

        Returns:
            The spec, of shape ``[*batch_size, 2 * n_agents, 3]``.
        """
        n = self.n_agents
        most = max(self.rows - 1, self.columns - 1, n - 1, 1)
        shape = (*self.batch_size, 2 * n, 3)
        return Bounded(0, most, shape=shape, dtype=torch.int64, device=self.device)


__all__ = ["AgentSpecs"]
