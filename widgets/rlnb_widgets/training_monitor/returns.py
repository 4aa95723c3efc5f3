"""Returns of the episodes that end in batches of a collector, whose episodes continue from batch to batch."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb._tensordict import entry
from rlnb.data.ted.keys import COLLECTOR, MASK, TRAJ_IDS

#: Most numbers that wait to be summed up.
_MOST_WAITING = 200_000


class _Batch(NamedTuple):
    """What is needed of a batch of ``shape``, and the frames before it."""

    reward: torch.Tensor
    done: torch.Tensor
    ids: torch.Tensor | None
    shape: torch.Size
    frames: int

    @property
    def kind(self) -> tuple[Any, ...]:
        """What batches that are summed up together have in common."""
        return self.shape[:-1], self.ids is None, self.reward.device


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
        [6, 6]
        >>> steps, values = returns.read()
        >>> steps.tolist(), values.tolist()
        ([4.0, 6.0, 10.0, 12.0], [2.0, 3.0, 3.0, 3.0])
    """

    def __init__(self) -> None:
        self.begun = False
        self._waiting: list[_Batch] = []
        self._size = 0
        self._found: list[tuple[np.ndarray, np.ndarray]] = []
        self._sums = np.zeros(0)
        self._ids: np.ndarray | None = None

    def add(self, batch: TensorDictBase, frames: int) -> int:
        """Take a batch ``[*B, T]`` that comes after a number of frames.

        Nothing is summed up of a batch without one reward and one end signal for each step, nor of trajectories that a
        collector has split and padded.

        Returns:
            Number of its steps, without padding.
        """
        # As little as possible is done here: between two batches of a collector the processor has other things in its
        # caches, and each operation takes several times as long as where many batches are summed up at once.
        after, of_collector = entry(batch, "next"), entry(batch, COLLECTOR)
        ids = mask = None
        if isinstance(of_collector, TensorDictBase):
            ids, mask = entry(of_collector, TRAJ_IDS), entry(of_collector, MASK)
        shape = batch.batch_size
        size = shape.numel()
        if mask is not None:
            return int(mask.sum())
        if not isinstance(after, TensorDictBase) or not size or not shape:
            return size
        reward, done = entry(after, "reward"), entry(after, "done")
        if reward is None or done is None or reward.numel() != size or done.numel() != size:
            return size
        # Copies: a collector may overwrite its batches.
        kept = None if ids is None or ids.numel() != size else ids.clone()
        values = reward.detach() if reward.requires_grad else reward
        self._waiting.append(_Batch(values.clone(), done.clone(), kept, shape, frames))
        self.begun = True
        self._size += size
        if self._size > _MOST_WAITING:
            self._sum_up()
        return size

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the frames after which episodes ended ``[n]``, and their returns ``[n]``, in order of time, once."""
        self._sum_up()
        found, self._found = self._found, []
        steps, values = zip(*found, strict=True) if found else ((), ())
        return np.concatenate([np.zeros(0), *steps]), np.concatenate([np.zeros(0), *values])

    def _sum_up(self) -> None:
        # As many batches at once as are alike; all batches of a collector, as a rule.
        for _, alike in itertools.groupby(tuple(self._waiting), lambda batch: batch.kind):
            batches = list(alike)
            self._sum_up_rows(batches)
            del self._waiting[: len(batches)]
        self._size = 0

    def _sum_up_rows(self, batches: list[_Batch]) -> None:
        reward, done = _joined(batches, "reward").astype(np.float64), _joined(batches, "done")
        rows, steps = reward.shape
        frames = np.concatenate([batch.frames + rows * (1.0 + np.arange(batch.shape[-1])) for batch in batches])
        before = self._sums if len(self._sums) == rows else np.zeros(rows)
        ids = None
        starts = np.zeros((rows, steps), dtype=bool)
        if batches[0].ids is not None:
            ids = _joined(batches, "ids")
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


def _joined(batches: list[_Batch], name: str) -> np.ndarray:
    """Join an entry of batches in time, ``[rows, T]``."""
    parts = [getattr(batch, name).reshape(-1, batch.shape[-1]) for batch in batches]
    return torch.cat(parts, 1).cpu().numpy()
