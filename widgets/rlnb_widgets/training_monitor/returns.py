"""Returns of the episodes that end in batches of a collector, whose episodes continue from batch to batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensordict import TensorDictBase

from rlnb.data.ted.keys import COLLECTOR, MASK, TRAJ_IDS

#: Most numbers that wait to be summed up.
_MOST_WAITING = 200_000
#: Reward, done and trajectory ids of a batch, each ``[rows, T]``, and the frames before it.
_Batch = tuple[np.ndarray, np.ndarray, np.ndarray | None, int]


class EpisodeReturns:
    """Sums the rewards of episodes, which may begin in one batch and end in a later one.

    `add` only keeps what is needed of a batch, which costs a fraction of summing it up; `read` does that for all of
    them at once.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> returns, done = EpisodeReturns(), torch.tensor([[False, True, False], [False, False, True]])[..., None]
        >>> batch = TensorDict({"next": {"reward": torch.ones(2, 3, 1), "done": done}}, [2, 3])
        >>> [returns.add(batch, frames) for frames in (0, 6)]
        [True, True]
        >>> steps, values = returns.read()
        >>> steps.tolist(), values.tolist()
        ([4.0, 6.0, 10.0, 12.0], [2.0, 3.0, 3.0, 3.0])
    """

    def __init__(self) -> None:
        self._waiting: list[_Batch] = []
        self._size = 0
        self._found: list[tuple[np.ndarray, np.ndarray]] = []
        self._sums = np.zeros(0)
        self._ids: np.ndarray | None = None

    def add(self, batch: TensorDictBase, frames: int) -> bool:
        """Take a batch ``[*B, T]`` that comes after a number of frames.

        Returns:
            Whether it has one reward and one end signal for each step; nothing can be summed up otherwise, nor of
            trajectories that were split and padded.
        """
        after: Any = batch.get("next", None)
        shape = batch.batch_size
        if after is None or not shape or not shape.numel():
            return False
        reward, done = after.get("reward", None), after.get("done", None)
        size = shape.numel()
        if reward is None or done is None or reward.numel() != size or done.numel() != size:
            return False
        collector: Any = batch.get(COLLECTOR, None)
        if collector is not None and collector.get(MASK, None) is not None:
            return False
        ids: Any = None if collector is None else collector.get(TRAJ_IDS, None)
        form = -1, shape[-1]
        # Copies: a collector may overwrite its batches.
        self._waiting.append((
            np.array(reward.detach().cpu().numpy().reshape(form), dtype=np.float64),
            np.array(done.cpu().numpy().reshape(form)),
            None if ids is None or ids.numel() != size else np.array(ids.cpu().numpy().reshape(form)),
            frames,
        ))  # fmt: skip
        self._size += size
        if self._size > _MOST_WAITING:
            self._sum_up()
        return True

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the frames after which episodes ended ``[n]``, and their returns ``[n]``, in order of time, once."""
        self._sum_up()
        found, self._found = self._found, []
        steps, values = zip(*found, strict=True) if found else ((), ())
        return np.concatenate([np.zeros(0), *steps]), np.concatenate([np.zeros(0), *values])

    def _sum_up(self) -> None:
        while self._waiting:
            # As many batches at once as have the same rows; all batches of a collector, as a rule.
            rows, with_ids = self._waiting[0][0].shape[0], self._waiting[0][2] is None
            n = 0
            while (
                n < len(self._waiting)
                and self._waiting[n][0].shape[0] == rows
                and (self._waiting[n][2] is None) == with_ids
            ):
                n += 1
            self._sum_up_rows(self._waiting[:n])
            del self._waiting[:n]
        self._size = 0

    def _sum_up_rows(self, batches: list[_Batch]) -> None:
        reward, done = (np.concatenate([batch[k] for batch in batches], axis=1) for k in (0, 1))
        rows, steps = reward.shape
        frames = np.concatenate([batch[3] + rows * (1.0 + np.arange(batch[0].shape[1])) for batch in batches])
        before = self._sums if len(self._sums) == rows else np.zeros(rows)
        ids = None
        starts = np.zeros((rows, steps), dtype=bool)
        if batches[0][2] is not None:
            ids = np.concatenate([batch[2] for batch in batches], axis=1)
            starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
            if self._ids is None or len(self._ids) != rows:
                before = np.zeros(rows)
            else:
                before = np.where(ids[:, 0] == self._ids, before, 0.0)
        sums = before[:, None] + np.cumsum(reward, axis=1)
        # An episode begins after an end, and where another trajectory does: there the sum before does not count.
        starts[:, 1:] |= done[:, :-1]
        base = np.zeros((rows, steps))
        base[:, 1:] = np.where(starts[:, 1:], sums[:, :-1], -np.inf)
        base[:, 0] = 0.0
        at_start = np.where(starts, np.arange(steps), 0)
        latest = np.maximum.accumulate(at_start, axis=1)
        own = sums - np.take_along_axis(np.where(np.isfinite(base), base, 0.0), latest, axis=1)
        row, at = np.nonzero(done)
        order = np.lexsort((row, at))
        if len(order):
            # Within a step of the batch, the envs come one after the other.
            self._found.append((frames[at[order]], own[row, at][order]))
        self._sums = np.where(done[:, -1], 0.0, own[:, -1])
        self._ids = None if ids is None else ids[:, -1].copy()
