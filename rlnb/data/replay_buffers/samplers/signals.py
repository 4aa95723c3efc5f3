"""End signals of a storage: which steps are the last of their trajectory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.columns import AnyColumn
from rlnb.data.replay_buffers.ring import Ring
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.tensor import TensorStorage
from rlnb.data.ted.keys import DONE, END_KEYS, EPISODE, TRAJECTORY_NAMES, NestedKey, as_key, as_tuple

# What a sampler reads that was given no key: ids if they are stored, otherwise flags.
TRAJ_KEY: NestedKey = EPISODE
END_KEY: NestedKey = ("next", DONE)


class Signals:
    """Reads where trajectories end: where a flag is set, or where the next step has another id.

    Rows are numbered as in memory, from 0 to ``ring.size - 1``; the last row is followed by the first.

    Args:
        ring: of the storage.
        width: number of items in a row: the envs of a storage of several dimensions.
        ends: columns of flags, one flag for each item; a step is the last one if any of its flags is set.
        ids: column of trajectory ids, one for each item, or None.

    Attributes:
        looks_ahead: whether the next row is needed to know whether a step is the last one.

    Example:
        >>> from rlnb.data.replay_buffers.columns import Column
        >>> signals = Signals(Ring(5), 1, ids=Column(torch.tensor([7, 7, 7, 8, 8]), 1))
        >>> signals.stops(0, 4).ravel()
        array([False, False,  True, False])
    """

    def __init__(self, ring: Ring, width: int, *, ends: Sequence[AnyColumn] = (), ids: AnyColumn | None = None) -> None:
        self.ring, self.width = ring, width
        self._ends, self._ids = ends, ids
        self.looks_ahead = ids is not None

    def stops(self, start: int, count: int) -> np.ndarray:
        """Read the flags of consecutive rows, shape ``[count, width]``; ``looks_ahead`` needs one more row."""
        found = np.zeros((count, self.width), dtype=bool)
        for ends in self._ends:
            found |= np.asarray(self._read(ends, start, count) != 0)
        if self._ids is not None:
            ids = self._read(self._ids, start, count + 1)
            found |= np.asarray(ids[1:] != ids[:-1])
        return found

    def stops_at(self, positions: np.ndarray) -> np.ndarray:
        """Read the flags of items at positions, shape ``[n]``; with ``looks_ahead`` not in the newest row."""
        found = np.zeros(len(positions), dtype=bool)
        for ends in self._ends:
            found |= np.asarray(_take(ends, positions) != 0)
        if self._ids is not None:
            after = (positions + self.width) % (self.ring.size * self.width)
            found |= np.asarray(_take(self._ids, positions) != _take(self._ids, after))
        return found

    def ids_at(self, positions: np.ndarray) -> list[Any] | None:
        """Read the trajectory ids of items at positions; None if the storage has none."""
        return None if self._ids is None else _take(self._ids, positions).tolist()

    def _read(self, column: AnyColumn, start: int, count: int) -> Any:
        memory: Any = column.tensor if column.array is None else column.array
        end, size = start + count, self.ring.size
        parts = [memory[start : min(end, size)], memory[: max(end - size, 0)]]
        parts = [part.cpu() if isinstance(part, torch.Tensor) else part for part in parts]
        if end > size:
            whole = torch.cat(parts) if isinstance(parts[0], torch.Tensor) else np.concatenate(parts)
        else:
            whole = parts[0]
        return whole.reshape(count, self.width)


class GivenSignals(Signals):
    """Signals that were given as an argument, for all items of a storage that is not written to.

    A trajectory may continue from the last item to the first; the ring starts after the end of a trajectory.
    """

    def __init__(self, stops: np.ndarray) -> None:
        ring = Ring(len(stops))
        ends = np.flatnonzero(stops)
        ring.jump(int(ends[-1]) + 1 if len(ends) else 0, ring.size)
        super().__init__(ring, 1)
        self._stops = stops

    def stops(self, start: int, count: int) -> np.ndarray:
        """Read consecutive rows; see :meth:`Signals.stops`."""
        return self._stops.take(np.arange(start, start + count), mode="wrap")[:, None]


def given_signals(ends: torch.Tensor | None, trajectories: torch.Tensor | None, storage: Storage) -> GivenSignals:
    """Make signals of the arguments ``ends`` or ``trajectories`` of a slice sampler, one value for each item."""
    name, given = ("ends", ends) if ends is not None else ("trajectories", trajectories)
    assert given is not None
    if storage.ndim > 1 or not storage.is_full or given.shape != (len(storage),):
        what = f"a {'full' if storage.is_full else 'partly filled'} storage of shape {list(storage.shape)}"
        raise ValueError(
            f"{name} must have one value for each item of a full storage of one dimension, and got a tensor of shape "
            f"{list(given.shape)} for {what}. Fix: end_key or traj_key, which read what is stored."
        )
    values = given.detach().cpu().numpy()
    return GivenSignals(values.astype(bool) if ends is not None else values != np.roll(values, -1))


def find_signals(storage: Storage, traj_key: NestedKey | None, end_keys: Sequence[NestedKey]) -> Signals:
    """Find the entries of a storage that say where trajectories end.

    Without ids and flags they are those of ``"episode"`` if that is stored, otherwise of ``("next", "done")``.
    """
    if not isinstance(storage, TensorStorage):
        raise TypeError(
            "A slice sampler reads where trajectories end from the entries of a contiguous storage, and a "
            f"{type(storage).__name__} has none. Fix: LazyTensorStorage or LazyMemmapStorage."
        )
    columns = storage.columns
    asked = [key for key in (traj_key, *end_keys) if key is not None] or [TRAJ_KEY, END_KEY]
    if traj_key is None and not end_keys:
        traj_key, end_keys = (TRAJ_KEY, ()) if TRAJ_KEY in columns else (None, [END_KEY])

    def read(key: NestedKey) -> AnyColumn:
        column = columns.get(as_key(as_tuple(key)))
        if column is None:
            raise KeyError(_no_signals(asked, list(columns)))
        memory: Any = column.array if column.tensor is None else column.tensor
        own = memory.shape[storage.ndim :]
        if math.prod(own) != 1:
            raise ValueError(
                f"{key!r} has the shape {list(own)} in each item, and one value a step must say where a trajectory "
                "ends. Fix: a storage with ndim=2 for data of shape [envs, time]; or an entry with one value, such as "
                "data['next', 'done'] = flags.all(-1, keepdim=True). A storage of whole trajectories is sampled with "
                "RandomSampler and RandomCropTensorDict."
            )
        return column

    ends = [read(key) for key in end_keys]
    ids = None if traj_key is None else read(traj_key)
    return Signals(storage.ring, math.prod(storage.shape[1:]), ends=ends, ids=ids)


def _no_signals(asked: Sequence[NestedKey], stored: Sequence[NestedKey]) -> str:
    paths = [as_tuple(key) for key in stored if key]
    # Flags at the root belong to the observation before the step, and are not set where a reset follows.
    is_end = {path: path[0] == "next" and path[-1] in END_KEYS for path in paths}
    near = next((as_key(path) for path in paths if is_end[path] or path[-1] in TRAJECTORY_NAMES), None)
    ends = near is not None and is_end[as_tuple(near)]
    fix = (
        f"SliceSampler({'end_key' if ends else 'traj_key'}={near!r})"
        if near is not None
        else 'store an id of the trajectory with each step, data["episode"], or its end, data["next", "done"]'
    )
    return (
        f"A slice sampler tells trajectories apart by {' or '.join(map(repr, asked))}, which the storage does not "
        f"have. It has {'bare tensors' if list(stored) == [()] else errors.listed(stored)}. Fix: {fix}."
    )


def _take(column: AnyColumn, positions: np.ndarray) -> Any:
    if column.array is None:
        return column.take(torch.from_numpy(positions)).cpu().reshape(-1)
    return column.array.reshape(-1).take(positions)
