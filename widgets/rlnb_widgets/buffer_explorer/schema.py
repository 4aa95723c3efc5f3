"""Data model of the buffer explorer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

__all__ = [
    "Arcs", "Box", "ExplorerModel", "Grid", "KeyMemory", "Memory", "Moment", "Priorities", "Ring", "SliceFacts",
    "Trajectories", "What",
]  # fmt: skip

#: What was done to the buffer at a moment; "look" is the first one, "change" what others did.
What = Literal["look", "add", "extend", "change", "sample", "priority", "snapshot", "empty"]


@dataclass(frozen=True)
class Box:
    """A part of the buffer, with its settings.

    Args:
        role: ``"storage"``, ``"sampler"``, ``"writer"`` or ``"transform"``.
        name: its class.
        settings: names and values, as text.
    """

    role: str
    name: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class KeyMemory:
    """The memory of one entry.

    Args:
        key: the key as one would type it.
        form: dtype and shape of an element.
        row_bytes: bytes of one element.
        reserved: bytes of all places, filled or not.
    """

    key: str
    form: str
    row_bytes: float
    reserved: int


@dataclass(frozen=True)
class Memory:
    """The memory of a storage.

    Args:
        keys: by entry, the largest first.
        where: where it is, such as ``"memory, cpu"``.
        note: what is not known.
    """

    keys: tuple[KeyMemory, ...]
    where: str
    note: str = ""

    @property
    def reserved(self) -> int:
        """Bytes of all places."""
        return sum(key.reserved for key in self.keys)

    @property
    def row_bytes(self) -> float:
        """Bytes of one element."""
        return sum(key.row_bytes for key in self.keys)


@dataclass(frozen=True)
class Ring:
    """Where a storage is written.

    Args:
        size: rows there is room for; of a storage without a limit, those that are filled, at least 1.
        limit: the same; None without a limit.
        length: rows that are filled.
        cursor: the row that is written next.
        written: rows ever written.
        columns: elements of a row: 1, or the envs of a storage of several dimensions.
        ordered: whether rows are written in order of time; not so where a writer keeps the best ones.
        frozen: whether nothing is written any more, as in a dataset.
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
        """Whether the next row goes over the oldest."""
        return self.limit is not None and self.length == self.limit

    @property
    def first(self) -> int:
        """The oldest row."""
        return self.cursor if self.full and self.ordered else 0

    @property
    def seam(self) -> bool:
        """Whether the newest row lies beside the oldest one, in the ring."""
        return self.full and self.ordered and not self.frozen


@dataclass(frozen=True)
class Grid:
    """The cells that rows are drawn in.

    Args:
        rows: how many rows.
        cells: how many cells; one for each row where there is room.
        columns: how many columns are drawn.
        total: how many columns there are.
    """

    rows: int
    cells: int
    columns: int
    total: int

    def edges(self) -> np.ndarray:
        """Return the first row of each cell, and the number of rows, ``[cells + 1]``."""
        return -(-np.arange(self.cells + 1, dtype=np.int64) * self.rows // self.cells)

    def cell(self, row: int) -> int:
        """Return the cell that a row lies in."""
        return int(row) * self.cells // self.rows


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Runs of rows that belong together, in order of time, by column.

    Args:
        source: the entry that tells them apart, as text; empty if there is none.
        column: ``[n]``.
        start: the row that a run begins at, ``[n]``.
        length: how many rows it has, ``[n]``.
        ids: what the entry says, ``[n]``; -1 where it says only where trajectories end.
        begun: whether it is known that the first step of the trajectory is there, ``[n]``: not so for the oldest run
            where something was written over.
        ended: whether the last one is there, ``[n]``.
        note: why there are none.
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
        """How many trajectories are in pieces, since rows of others lie between theirs."""
        if not len(self) or not self.named:
            return 0
        # One number for column and id, for rows of pairs are sorted slowly.
        _, ids = np.unique(self.ids, return_inverse=True)
        _, pieces = np.unique(ids * (int(self.column.max()) + 1) + self.column, return_counts=True)
        return int((pieces > 1).sum())


@dataclass(frozen=True, eq=False)
class Arcs:
    """Trajectories as they are drawn: bounded, however many there are.

    Args:
        drawn: the trajectories; none of them where there are too many to be told apart.
        count: how many there are.
        interleaved: how many of them are in pieces.
        lengths: lengths and how many trajectories have each, ``[n, 2]``, shortest first; of very many lengths some
            next to each other are one, their mean.
    """

    drawn: Trajectories
    count: int
    interleaved: int
    lengths: np.ndarray

    @property
    def longest(self) -> int:
        """Rows of the longest one."""
        return int(self.lengths[-1, 0]) if len(self.lengths) else 0


@dataclass(frozen=True)
class SliceFacts:
    """Whether slices of a length can be drawn.

    Args:
        slice_len: the length asked for.
        fitting: trajectories that are long enough.
        total: all trajectories.
        starts: places where a slice can begin.
        longest: rows of the longest one.
        interleaved: trajectories that are in pieces.
        verdict: the same in words, with what to do where none fits.
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
        """Whether there is any slice."""
        return self.fitting > 0


@dataclass(frozen=True, eq=False)
class Priorities:
    """Priorities as the sampler stores them: (p + eps)^alpha.

    Args:
        sums: by cell and column, ``[columns, cells]``; 0 where nothing is stored.
        total: of all elements.
        least: the smallest positive one.
        most: the largest one.
        alpha: how much priorities count.
        beta: how much weights correct for them.
        count: how many elements have one.
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
    """The buffer at one moment of the record, and what was done to it.

    Args:
        what: the kind.
        label: the same in words.
        ring: where the storage is written.
        grid: the cells.
        age: rows written since the newest of a cell, ``[cells]``; -1 where nothing is, -2 where it is not known.
        wrote: the first row written since the moment before, and how many.
        overwrote: how many of these held something.
        touched: cells written into: 1, or 2 where something was overwritten, ``[cells]``.
        lost: what was overwritten, in words.
        arcs: the trajectories as they lie.
        draws: how often the elements of a cell were drawn so far, ``[columns, cells]``.
        expected: how often they should have been, likewise.
        batches: how many samples were counted.
        drawn: elements of the last sample, as ``row * columns + column``, ``[n]``; not more than are drawn.
        drawn_count: how many elements the last sample had.
        slices: column, first row and length of the slices of the last sample, ``[n, 3]``.
        priorities: of a prioritized sampler.
        slicing: whether slices can be drawn.
    """

    what: What
    label: str
    ring: Ring
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
    """What is shown.

    Args:
        name: the class of the buffer.
        boxes: its parts.
        memory: by entry.
        moments: the record, at least one.
        notes: what the reader should know.
        strict: whether slices shorter than asked for are refused.
        slices: whether the sampler draws slices.
    """

    name: str
    boxes: tuple[Box, ...]
    memory: Memory
    moments: tuple[Moment, ...]
    notes: tuple[str, ...] = field(default=())
    strict: bool = True
    slices: bool = False
