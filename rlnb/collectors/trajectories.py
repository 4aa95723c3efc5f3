"""Trajectory ids of a collector: an integer for each episode of each env, across batches."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.ends import episode_end_flags
from rlnb.data.ted.keys import COLLECTOR, TRAJ_IDS


class TrajectoryIds:
    """Numbers the trajectories of consecutive batches by their first step.

    Attributes:
        current: id of the trajectory of each env, ``[*batch_size]``.
        free: the first id that is not in use.

    Example:
        >>> from tensordict import TensorDict
        >>> done = torch.tensor([[False], [True], [False]])
        >>> batch = TensorDict({"next": {"done": done}}, [3])
        >>> ids = TrajectoryIds(torch.Size([]))
        >>> ids.restart()
        >>> ids.write(batch, batch[-1]); ids.write(batch, batch[-1])
        >>> batch["collector", "traj_ids"].tolist()
        [1, 1, 2]
    """

    def __init__(self, batch_size: torch.Size) -> None:
        self.current = torch.zeros(batch_size, dtype=torch.int64)
        self.free = 0

    def restart(self) -> None:
        """Begin a new trajectory in each env, for example before the first batch."""
        self.current = torch.arange(self.free, self.free + self.current.numel()).reshape(self.current.shape)
        self.free += self.current.numel()

    def renew(self, chosen: torch.Tensor) -> None:
        """Begin a new trajectory in the envs that the mask ``[*batch_size]`` chooses."""
        fresh = self.free + torch.cumsum(chosen.flatten(), 0).reshape(chosen.shape) - 1
        self.current = torch.where(chosen, fresh, self.current)
        self.free += int(chosen.sum())

    def write(self, data: TensorDictBase, last: TensorDictBase) -> None:
        """Write the ids of a batch ``[*batch_size, time]`` with this last step, as ("collector", "traj_ids")."""
        done = episode_end_flags(data)
        # Where the step before was the last of its episode, a new one begins. Numbers are given in order of time.
        begins = torch.zeros_like(done)
        begins[..., 1:] = done[..., :-1]
        by_time = begins.movedim(-1, 0)
        given = torch.cumsum(by_time.flatten(), 0).reshape(by_time.shape).movedim(0, -1) + (self.free - 1)
        ids = torch.where(begins, given, self.current.unsqueeze(-1))
        ids = torch.cummax(ids, -1).values
        self.free += int(begins.sum())
        self.current = ids[..., -1]
        data.set((COLLECTOR, TRAJ_IDS), ids.to(data.device) if data.device is not None else ids)
        self.renew(episode_end_flags(last))
