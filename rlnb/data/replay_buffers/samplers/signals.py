"""Signals: which steps of a storage are the last of their trajectory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.columns import AnyColumn
from rlnb.data.replay_buffers.ring import Ring
from rlnb.data.replay_buffers.storages import Storage, TensorStorage
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple

TRAJ_KEY: NestedKey = "episode"
END_KEY: NestedKey = ("next", "done")


class Signals:
    """Reads where trajectories end: where a flag is set, or where the next step has another id.

    Rows are those of the memory, from 0 to ``ring.size - 1``; the row behind the last one is the first.

    Args:
        ring: of the storage.
        width: how many elements a row has: the envs of a storage of several dimensions.
        ends: columns with flags, one for each element; a step is the last where one of them is set.
        ids: the ids, one for each element, or None.

    Attributes:
        ring: the same.
        width: the same.
        looks_ahead: whether it takes the next row to know whether a step is the last.

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
        """Read rows that lie one after another.

        Args:
            start: the first row.
            count: how many. With ``looks_ahead`` there must be one more.

        Returns:
            Flags of shape ``[count, width]``.
        """
        found = np.zeros((count, self.width), dtype=bool)
        for ends in self._ends:
            found |= _is_true(self._read(ends, start, count))
        if self._ids is not None:
            ids = self._read(self._ids, start, count + 1)
            found |= np.asarray(ids[1:] != ids[:-1])
        return found

    def stops_at(self, positions: np.ndarray) -> np.ndarray:
        """Read elements anywhere.

        Args:
            positions: along the flattened dimensions, shape ``[n]``. With ``looks_ahead`` none is in the newest row.

        Returns:
            Flags of shape ``[n]``.
        """
        found = np.zeros(len(positions), dtype=bool)
        for ends in self._ends:
            found |= _is_true(_take(ends, positions))
        if self._ids is not None:
            after = (positions + self.width) % (self.ring.size * self.width)
            found |= np.asarray(_take(self._ids, positions) != _take(self._ids, after))
        return found

    def ids_at(self, positions: np.ndarray) -> list[Any] | None:
        """Read the ids of elements.

        Args:
            positions: along the flattened dimensions, shape ``[n]``.

        Returns:
            The ids; None if there are none.
        """
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
    """Signals that were given, for all elements of a storage that is not written to.

    A trajectory may go on from the last element to the first. The ring begins behind the end of a trajectory.

    Args:
        stops: whether an element is the last of its trajectory, shape ``[size]``.

    Example:
        >>> signals = GivenSignals(np.array([True, False, True, False]))
        >>> signals.ring.cursor  # the last trajectory goes on from 3 to 0
        3
    """

    def __init__(self, stops: np.ndarray) -> None:
        ring = Ring(len(stops))
        ends = np.flatnonzero(stops)
        ring.jump(int(ends[-1]) + 1 if len(ends) else 0, ring.size)
        super().__init__(ring, 1)
        self._stops = stops

    def stops(self, start: int, count: int) -> np.ndarray:
        """Read rows that lie one after another; see :meth:`Signals.stops`."""
        return self._stops.take(np.arange(start, start + count), mode="wrap")[:, None]


def given_signals(ends: torch.Tensor | None, trajectories: torch.Tensor | None, storage: Storage) -> GivenSignals:
    """Make the signals of flags or ids that were given.

    Args:
        ends: whether an element is the last of its trajectory, shape ``[size]``; or None.
        trajectories: in its place, the id of the trajectory of each element, shape ``[size]``.
        storage: that they are about.

    Returns:
        The signals.

    Raises:
        ValueError: if there are not as many as elements, or the storage has several dimensions.
    """
    name, given = ("ends", ends) if ends is not None else ("trajectories", trajectories)
    assert given is not None
    if storage.ndim > 1 or not storage.is_full or given.shape != (len(storage),):
        raise ValueError(faults.given_do_not_fit(name, given.shape, storage.shape, storage.is_full))
    values = given.detach().cpu().numpy()
    return GivenSignals(values.astype(bool) if ends is not None else values != np.roll(values, -1))


def find_signals(storage: Storage, traj_key: NestedKey | None, end_keys: Sequence[NestedKey]) -> Signals:
    """Find where a storage says which trajectory a step belongs to, or whether it is the last of it.

    Args:
        storage: the storage.
        traj_key: the entry with the ids, or None.
        end_keys: the entries with flags. Without ids and flags it is ``"episode"``, if that is stored, and otherwise
            ``("next", "done")``.

    Returns:
        The signals.

    Raises:
        KeyError: if there is no such entry.
        TypeError: if the storage has no entries.
        ValueError: if an entry has several values for a step.
    """
    if not isinstance(storage, TensorStorage):
        raise TypeError(faults.not_sliceable(type(storage).__name__))
    columns = storage.columns
    asked = [key for key in (traj_key, *end_keys) if key is not None] or [TRAJ_KEY, END_KEY]
    if traj_key is None and not end_keys:
        traj_key, end_keys = (TRAJ_KEY, ()) if TRAJ_KEY in columns else (None, [END_KEY])

    def read(key: NestedKey) -> AnyColumn:
        column = columns.get(as_key(as_tuple(key)))
        if column is None:
            raise KeyError(faults.no_signals(asked, list(columns)))
        memory: Any = column.array if column.tensor is None else column.tensor
        own = memory.shape[storage.ndim :]
        if math.prod(own) != 1:
            raise ValueError(faults.several_signals(key, own))
        return column

    ends = [read(key) for key in end_keys]
    ids = None if traj_key is None else read(traj_key)
    return Signals(storage.ring, math.prod(storage.shape[1:]), ends=ends, ids=ids)


def _take(column: AnyColumn, positions: np.ndarray) -> Any:
    if column.array is None:
        return column.take(torch.from_numpy(positions)).cpu().reshape(-1)
    return column.array.reshape(-1).take(positions)


def _is_true(values: Any) -> np.ndarray:
    return np.asarray(values != 0)
