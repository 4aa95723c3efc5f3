"""Data model of the buffer explorer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

__all__ = [
    "Arcs",
    "Component",
    "ExplorerModel",
    "Grid",
    "KeyMemory",
    "Memory",
    "Moment",
    "Priorities",
    "SliceFacts",
    "StorageState",
    "Trajectories",
    "What",
]  # fmt: skip

#: Kind of the call that led to a recorded state; "look" is the first state, "change" a change by other code.
What = Literal["look", "add", "extend", "change", "sample", "priority", "snapshot", "empty"]


@dataclass(frozen=True)
class Component:
    """A component of the buffer, with its settings.

    Args:
        role: ``"storage"``, ``"sampler"``, ``"writer"`` or ``"transform"``.
        name: name of its class.
        settings: names and values, as text.
    """

    role: str
    name: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class KeyMemory:
    """The memory of one entry.

    Args:
        key: the key as Python code.
        form: dtype and shape of an item.
        row_bytes: bytes of one item.
        reserved: bytes of all slots, filled or not.
    """

    key: str
    form: str
    row_bytes: float
    reserved: int


@dataclass(frozen=True)
class Memory:
    """The memory of a storage.

    Args:
        keys: memory of each entry, largest first.
        where: location, such as ``"memory, cpu"``.
        note: note about memory that is not known.
    """

    keys: tuple[KeyMemory, ...]
    where: str
    note: str = ""

    @property
    def reserved(self) -> int:
        """Bytes of all slots."""
        return sum(key.reserved for key in self.keys)

    @property
    def row_bytes(self) -> float:
        """Bytes of one item."""
        return sum(key.row_bytes for key in self.keys)


@dataclass(frozen=True)
class StorageState:
    """The rows of a storage, and the position of the writer.

    Args:
        size: number of rows; for a storage without a limit the number of filled rows, at least 1.
        limit: number of rows; None for a storage without a limit.
        length: number of filled rows.
        cursor: the row that is written next.
        written: number of rows ever written.
        columns: items per row: 1, or the number of envs in a storage with several dimensions.
        ordered: whether rows are written in order of time; False for a writer that keeps the best items.
        frozen: whether the storage is read-only, as that of a dataset.
    """

    size: int
    limit: int | None
    length: int
    cursor: int
    written: int
    columns: int
    ordered: bool
    frozen: bool = False

    @property
    def full(self) -> bool:
        """Whether the next row overwrites the oldest one."""
        return self.limit is not None and self.length == self.limit

    @property
    def first(self) -> int:
        """The oldest row."""
        return self.cursor if self.full and self.ordered else 0

    @property
    def seam(self) -> bool:
        """Whether the newest row is next to the oldest one in the ring."""
        return self.full and self.ordered and not self.frozen


@dataclass(frozen=True)
class Grid:
    """The cells in which rows are drawn.

    Args:
        rows: number of rows.
        cells: number of cells; one per row if they fit.
        columns: number of columns that are drawn.
        total: number of columns.
    """

    rows: int
    cells: int
    columns: int
    total: int

    def edges(self) -> np.ndarray:
        """Return the first row of each cell, followed by the number of rows, ``[cells + 1]``."""
        return -(-np.arange(self.cells + 1, dtype=np.int64) * self.rows // self.cells)

    def cell(self, row: int) -> int:
        """Return the cell of a row."""
        return int(row) * self.cells // self.rows


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Trajectories as runs of consecutive rows, in order of time, by column.

    Args:
        source: the entry that separates them, as text; empty if there is none.
        column: column of each run, ``[n]``.
        start: first row of each run, ``[n]``.
        length: number of rows, ``[n]``.
        ids: trajectory id, ``[n]``; -1 if trajectories are found by end signals.
        begun: whether the run is known to contain the first step of its trajectory, ``[n]``; False for the oldest run
            if rows were overwritten.
        ended: whether it contains the last step, ``[n]``.
        note: the reason if there are no trajectories.
        named: whether there are ids.
    """

    source: str
    column: np.ndarray
    start: np.ndarray
    length: np.ndarray
    ids: np.ndarray
    begun: np.ndarray
    ended: np.ndarray
    note: str = ""
    named: bool = False

    def __len__(self) -> int:
        return len(self.start)

    @property
    def interleaved(self) -> int:
        """Number of trajectories that are split into several runs by rows of others."""
        if not len(self) or not self.named:
            return 0
        # Combine column and id into one number, since np.unique is slow for rows of pairs.
        _, ids = np.unique(self.ids, return_inverse=True)
        _, pieces = np.unique(ids * (int(self.column.max()) + 1) + self.column, return_counts=True)
        return int((pieces > 1).sum())


@dataclass(frozen=True, eq=False)
class Arcs:
    """Trajectories as drawn, a bounded number of them.

    Args:
        drawn: the trajectories that are drawn; empty if there are too many to distinguish.
        count: number of trajectories.
        interleaved: number of trajectories that are split into several runs.
        lengths: lengths and the number of trajectories of each, shortest first, ``[n, 2]``; very many lengths are
            binned by their mean.
    """

    drawn: Trajectories
    count: int
    interleaved: int
    lengths: np.ndarray

    @property
    def longest(self) -> int:
        """Number of rows of the longest trajectory."""
        return int(self.lengths[-1, 0]) if len(self.lengths) else 0


@dataclass(frozen=True)
class SliceFacts:
    """Whether slices of a given length can be drawn.

    Args:
        slice_len: the length of a slice.
        fitting: number of trajectories that are long enough.
        total: number of trajectories.
        starts: number of possible first rows of a slice.
        longest: number of rows of the longest trajectory.
        interleaved: number of trajectories that are split into several runs.
        verdict: summary in words, with a fix if no slice is possible.
    """

    slice_len: int
    fitting: int
    total: int
    starts: int
    longest: int
    interleaved: int
    verdict: str

    @property
    def possible(self) -> bool:
        """Whether any slice is possible."""
        return self.fitting > 0


@dataclass(frozen=True, eq=False)
class Priorities:
    """Priorities as the sampler stores them: (p + eps)^alpha.

    Args:
        sums: sums by column and cell, ``[columns, cells]``; 0 for empty cells.
        total: sum over all items.
        least: the smallest positive priority.
        most: the largest priority.
        alpha: exponent of the priorities.
        beta: exponent of the importance weights.
        count: number of items with a priority.
    """

    sums: np.ndarray
    total: float
    least: float
    most: float
    alpha: float
    beta: float
    count: int


@dataclass(frozen=True, eq=False)
class Moment:
    """A recorded state of the buffer, and the call that led to it.

    Args:
        what: kind of the call.
        label: the call in words.
        ring: the rows of the storage.
        grid: the cells.
        age: number of rows written after the newest row of a cell, ``[cells]``; -1 for empty cells, -2 if not known.
        wrote: first row written since the previous state, and the number of rows.
        overwrote: number of these rows that were filled before.
        touched: cells written to: 1, or 2 if rows were overwritten, ``[cells]``.
        lost: description of what was overwritten.
        arcs: the trajectories.
        draws: number of draws so far by column and cell, ``[columns, cells]``.
        expected: expected number of draws, likewise.
        batches: number of counted samples.
        drawn: items of the last sample, as ``row * columns + column``, ``[n]``; at most as many as are drawn.
        drawn_count: number of items of the last sample.
        slices: column, first row and length of the slices of the last sample, ``[n, 3]``.
        priorities: priorities of a prioritized sampler.
        slicing: whether slices can be drawn.
    """

    what: What
    label: str
    ring: StorageState
    grid: Grid
    age: np.ndarray
    wrote: tuple[int, int]
    overwrote: int
    touched: np.ndarray
    lost: str
    arcs: Arcs
    draws: np.ndarray
    expected: np.ndarray
    batches: int
    drawn: np.ndarray
    drawn_count: int
    slices: np.ndarray
    priorities: Priorities | None = None
    slicing: SliceFacts | None = None


@dataclass(frozen=True, eq=False)
class ExplorerModel:
    """The data that the explorer shows.

    Args:
        name: name of the class of the buffer.
        boxes: its components.
        memory: its memory.
        moments: the recorded states, at least one.
        notes: notes for the reader.
        strict: whether trajectories shorter than a slice are excluded.
        slices: whether the sampler draws slices.
    """

    name: str
    boxes: tuple[Component, ...]
    memory: Memory
    moments: tuple[Moment, ...]
    notes: tuple[str, ...] = field(default=())
    strict: bool = True
    slices: bool = False
