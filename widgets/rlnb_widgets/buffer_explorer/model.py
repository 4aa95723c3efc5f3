"""Data model of the buffer explorer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

#: Kind of the call that led to a recorded state; "look" is the first state, "change" a change by other code.
What = Literal["look", "add", "extend", "change", "sample", "priority", "snapshot", "empty"]


@dataclass(frozen=True)
class Component:
    """A component of the buffer, with its settings."""

    role: str  #: ``"storage"``, ``"sampler"``, ``"writer"`` or ``"transform"``
    name: str  #: name of its class
    settings: tuple[tuple[str, str], ...] = ()  #: names and values, as text


@dataclass(frozen=True)
class KeyMemory:
    """The memory of one entry."""

    key: str  #: the key as Python code
    form: str  #: dtype and shape of an item
    row_bytes: float  #: bytes of one item
    reserved: int  #: bytes of all slots, filled or not


@dataclass(frozen=True)
class Memory:
    """The memory of a storage."""

    keys: tuple[KeyMemory, ...]  #: memory of each entry, largest first
    where: str  #: location, such as ``"memory, cpu"``
    note: str = ""  #: note about memory that is not known

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
    """The rows of a storage, and the position of the writer."""

    size: int  #: number of rows; for a storage without a limit the number of filled rows, at least 1
    limit: int | None  #: number of rows; None for a storage without a limit
    length: int  #: number of filled rows
    cursor: int  #: the row that is written next
    written: int  #: number of rows ever written
    columns: int  #: items per row: 1, or the number of envs in a storage with several dimensions
    ordered: bool  #: whether rows are written in order of time; False for a writer that keeps the best items
    frozen: bool = False  #: whether the storage is read-only, as that of a dataset

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
    """The cells in which rows are drawn."""

    rows: int  #: number of rows
    cells: int  #: number of cells; one per row if they fit
    columns: int  #: number of columns that are drawn
    total: int  #: number of columns

    def edges(self) -> np.ndarray:
        """Return the first row of each cell, followed by the number of rows, ``[cells + 1]``."""
        return -(-np.arange(self.cells + 1, dtype=np.int64) * self.rows // self.cells)

    def cell(self, row: int) -> int:
        """Return the cell of a row."""
        return int(row) * self.cells // self.rows


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Trajectories as runs of consecutive rows, in order of time, by column."""

    source: str  #: the entry that separates them, as text; empty if there is none
    column: np.ndarray  #: column of each run, ``[n]``
    start: np.ndarray  #: first row of each run, ``[n]``
    length: np.ndarray  #: number of rows, ``[n]``
    ids: np.ndarray  #: trajectory id, ``[n]``; -1 if trajectories are found by end signals
    #: whether the run is known to contain the first step of its trajectory, ``[n]``; False for the oldest run if rows
    #: were overwritten
    begun: np.ndarray
    ended: np.ndarray  #: whether it contains the last step, ``[n]``
    note: str = ""  #: the reason if there are no trajectories
    named: bool = False  #: whether there are ids

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
    """Trajectories as drawn, a bounded number of them."""

    drawn: Trajectories  #: the trajectories that are drawn; empty if there are too many to distinguish
    count: int  #: number of trajectories
    interleaved: int  #: number of trajectories that are split into several runs
    #: lengths and the number of trajectories of each, shortest first, ``[n, 2]``; very many lengths are binned by their
    #: mean
    lengths: np.ndarray

    @property
    def longest(self) -> int:
        """Number of rows of the longest trajectory."""
        return int(self.lengths[-1, 0]) if len(self.lengths) else 0


@dataclass(frozen=True)
class SliceFacts:
    """Whether slices of a given length can be drawn."""

    slice_len: int  #: the length of a slice
    fitting: int  #: number of trajectories that are long enough
    total: int  #: number of trajectories
    starts: int  #: number of possible first rows of a slice
    longest: int  #: number of rows of the longest trajectory
    interleaved: int  #: number of trajectories that are split into several runs
    verdict: str  #: summary in words, with a fix if no slice is possible

    @property
    def possible(self) -> bool:
        """Whether any slice is possible."""
        return self.fitting > 0


@dataclass(frozen=True, eq=False)
class Priorities:
    """Priorities as the sampler stores them: (p + eps)^alpha."""

    sums: np.ndarray  #: sums by column and cell, ``[columns, cells]``; 0 for empty cells
    total: float  #: sum over all items
    least: float  #: the smallest positive priority
    most: float  #: the largest priority
    alpha: float  #: exponent of the priorities
    beta: float  #: exponent of the importance weights
    count: int  #: number of items with a priority


@dataclass(frozen=True, eq=False)
class Moment:
    """A recorded state of the buffer, and the call that led to it."""

    what: What  #: kind of the call
    label: str  #: the call in words
    ring: StorageState  #: the rows of the storage
    grid: Grid  #: the cells
    #: number of rows written after the newest row of a cell, ``[cells]``; -1 for empty cells, -2 if not known
    age: np.ndarray
    wrote: tuple[int, int]  #: first row written since the previous state, and the number of rows
    overwrote: int  #: number of these rows that were filled before
    touched: np.ndarray  #: cells written to: 1, or 2 if rows were overwritten, ``[cells]``
    lost: str  #: description of what was overwritten
    arcs: Arcs  #: the trajectories
    draws: np.ndarray  #: number of draws so far by column and cell, ``[columns, cells]``
    expected: np.ndarray  #: expected number of draws, likewise
    batches: int  #: number of counted samples
    drawn: np.ndarray  #: items of the last sample, as ``row * columns + column``, ``[n]``; at most as many as are drawn
    drawn_count: int  #: number of items of the last sample
    slices: np.ndarray  #: column, first row and length of the slices of the last sample, ``[n, 3]``
    priorities: Priorities | None = None  #: priorities of a prioritized sampler
    slicing: SliceFacts | None = None  #: whether slices can be drawn


@dataclass(frozen=True, eq=False)
class ExplorerModel:
    """The data that the explorer shows."""

    name: str  #: name of the class of the buffer
    boxes: tuple[Component, ...]  #: its components
    memory: Memory  #: its memory
    moments: tuple[Moment, ...]  #: the recorded states, at least one
    notes: tuple[str, ...] = field(default=())  #: notes for the reader
    strict: bool = True  #: whether trajectories shorter than a slice are excluded
    slices: bool = False  #: whether the sampler draws slices
