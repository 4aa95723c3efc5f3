"""Storage for the steps of a forest: columns that grow, and whose written rows never change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict

from rlnb._tensordict import fast_tensordict
from rlnb.data.replay_buffers.columns import Column as Memory
from rlnb.data.ted.columns import Branch, Column, Constant, build
from rlnb.data.ted.keys import nested_dict
from rlnb.data.ted.ragged import Path

# Columns start with this many rows and double when they are full.
_FIRST_ROOM = 256
# Up to this many rows, the overhead of each call dominates.
_FEW = 64
_NO_BATCH = torch.Size(())

# Memory of shape [room, *shape], or Python objects.
Grown = Memory | list[Any]


class Steps:
    """A read-only view of stored steps, from which trees read their rollouts."""

    def __init__(self, columns: dict[Path, Grown], branches: Sequence[Branch]) -> None:
        self.columns, self.branches = columns, branches
        # Without further batch dimensions, names and Python objects, the checks of TensorDict are skipped.
        self._plain = not any(branch.extra or branch.names for branch in branches)
        self._plain &= all(isinstance(column, Memory) for column in columns.values())

    def __getitem__(self, rows: torch.Tensor | slice) -> TensorDict:
        """Copy rows, int64 ``[n]`` or a slice with start and stop, to a TensorDict of batch size ``[n]``."""
        count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        if not self._plain:
            index = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            return build(_picked(self.columns, index), [count], self.branches)
        memories: Any = self.columns
        values = {
            path: memory.rows(rows).clone() if isinstance(rows, slice) else memory.take(rows)
            for path, memory in memories.items()
        }
        return fast_tensordict(nested_dict(values), torch.Size((count,)))

    def select(self, paths: Sequence[Path], row: int) -> TensorDict:
        """Copy some entries of one row to a TensorDict of batch size ``[]``, those under ``"next"`` to its root."""
        columns = {path[1:] if path[0] == "next" else path: self.columns[path] for path in paths}
        if not self._plain:
            # A branch under "next" has the same shape as at the root.
            branches = [
                branch for branch in self.branches if any(path[: len(branch.path)] == branch.path for path in columns)
            ]
            return build(_picked(columns, torch.tensor([row])), [1], branches)[0]
        memories: Any = columns
        values = {path: memory.one(row).clone() for path, memory in memories.items()}
        return fast_tensordict(nested_dict(values), _NO_BATCH)


def _picked(columns: dict[Path, Grown], rows: torch.Tensor) -> dict[Path, Column]:
    places = rows.tolist()
    return {
        path: column.take(rows) if isinstance(column, Memory) else [column[place] for place in places]
        for path, column in columns.items()
    }


class GrowingSteps:
    """Columns that rows are appended to."""

    def __init__(self) -> None:
        self.columns: dict[Path, Grown] = {}
        self.branches: list[Branch] = []
        self.length = self.room = 0

    def __len__(self) -> int:
        return self.length

    def append(self, columns: dict[Path, Column], branches: list[Branch], rows: Sequence[int]) -> None:
        """Write some rows of columns, in ascending order, after the last one.

        The caller has checked that the columns have the keys, shapes and dtypes of the stored ones.
        """
        count = len(rows)
        if not self.columns:
            self.branches = branches
        self._grow(columns, self.length + count)
        first, last = rows[0], rows[-1]
        # New steps are mostly the end of a rollout, a contiguous piece.
        pick = None if last - first + 1 == count else torch.tensor(rows, dtype=torch.int64)
        for path, column in self.columns.items():
            values = columns[path]
            if isinstance(column, list):
                column += [values.value] * count if isinstance(values, Constant) else [values[row] for row in rows]
                continue
            assert isinstance(values, torch.Tensor)
            if pick is not None:
                piece = values[pick.to(values.device)]
            else:  # a slice costs a microsecond for each entry, much for a rollout of one step
                piece = values if count == len(values) else values[first : last + 1]
            if column.array is None or count > _FEW or piece.requires_grad:
                column.put(self.length, piece)
            else:  # like put, without its checks: shapes and dtypes have been compared
                column.array[self.length : self.length + count] = piece.numpy()
        self.length += count

    def view(self) -> Steps:
        """Return a snapshot of the current rows, which rows appended later do not change."""
        return Steps(dict(self.columns), self.branches)

    def _grow(self, columns: dict[Path, Column], length: int) -> None:
        if length <= self.room:
            return
        room = max(_FIRST_ROOM, 2 * self.room, length)
        grown: dict[Path, Grown] = {}
        for path, values in columns.items():
            old = self.columns.get(path)
            if isinstance(values, torch.Tensor):
                # Existing trees keep reading the old memory.
                tensor = values.new_empty((room, *values.shape[1:]), requires_grad=False)
                if isinstance(old, Memory):
                    tensor[: self.length] = old.tensor[: self.length]
                grown[path] = Memory(tensor, 1)
            else:
                grown[path] = [] if old is None else old
        self.columns, self.room = grown, room
