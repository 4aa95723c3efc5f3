"""Returns of the episodes that end in batches of a collector, whose episodes continue from batch to batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensordict import TensorDictBase

_IDS = ("collector", "traj_ids")


class EpisodeReturns:
    """Sums the rewards of episodes, which may begin in one batch and end in a later one.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> returns, done = EpisodeReturns(), torch.tensor([[False, True, False], [False, False, True]])[..., None]
        >>> batch = TensorDict({"next": {"reward": torch.ones(2, 3, 1), "done": done}}, [2, 3])
        >>> [returns.add(batch) for _ in range(2)]
        [([4.0, 6.0], [2.0, 3.0]), ([4.0, 6.0], [3.0, 3.0])]
    """

    def __init__(self) -> None:
        self._sums = np.zeros(0)
        self._ids: np.ndarray | None = None

    def add(self, batch: TensorDictBase) -> tuple[list[float], list[float]]:
        """Return the frames of the batch after which episodes ended, and their returns, in order of time.

        Nothing is found in data without one reward per step. A row whose trajectory id is not that of the row before
        it starts at zero.
        """
        reward, done = _steps_of(batch, "reward"), _steps_of(batch, "done")
        if reward is None or done is None:
            return [], []
        rows, steps = reward.shape
        ids = _ids_of(batch, rows, steps)
        before = self._sums if len(self._sums) == rows else np.zeros(rows)
        if ids is not None and self._ids is not None and len(self._ids) == rows:
            before = np.where(ids[:, 0] == self._ids, before, 0.0)
        sums = before[:, None] + np.cumsum(reward, axis=1)
        row, at = np.nonzero(done)
        ended = sums[row, at]
        # In a row, an episode begins where the one before it ended.
        same = np.zeros(len(row), dtype=bool)
        same[1:] = row[1:] == row[:-1]
        found = ended - np.where(same, np.append(0.0, ended)[: len(row)], 0.0)
        ends = np.zeros(rows)
        ends[row] = ended  # of several ends in a row the last one is written last
        order = np.lexsort((row, at))
        self._sums, self._ids = sums[:, -1] - ends, None if ids is None else ids[:, -1]
        return ((at[order] + 1.0) * rows).tolist(), found[order].tolist()


def _steps_of(batch: TensorDictBase, name: str) -> np.ndarray | None:
    """Return an entry of "next" as ``[rows, T]``, or None if it does not have one value per step."""
    value: Any = batch.get(("next", name), None)
    if value is None or value.numel() != batch.numel() or not batch.ndim or not batch.numel():
        return None
    array = value.detach().cpu().reshape(-1, batch.shape[-1]).numpy()
    return np.asarray(array, dtype=bool if name == "done" else np.float64)


def _ids_of(batch: TensorDictBase, rows: int, steps: int) -> np.ndarray | None:
    ids: Any = batch.get(_IDS, None)
    return None if ids is None or ids.numel() != rows * steps else ids.cpu().reshape(rows, steps).numpy()
