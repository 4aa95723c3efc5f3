"""Record of a buffer (its states, and the calls between them), and the model that all views show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rlnb.data.ted.keys import NestedKey
from rlnb_widgets._core.text import plural
from rlnb_widgets.buffer_explorer.chances import by_cell, chances, priorities_of, stored_priorities
from rlnb_widgets.buffer_explorer.memory import memory_of
from rlnb_widgets.buffer_explorer.model import ExplorerModel, Grid, Moment, StorageState, Trajectories, What
from rlnb_widgets.buffer_explorer.parts import components_of, grid_of, ring_of
from rlnb_widgets.buffer_explorer.slices import (
    drawn_length,
    is_slicing,
    is_strict,
    slice_facts,
    slice_length,
    slices_of,
)
from rlnb_widgets.buffer_explorer.trajectories import arcs_of, no_trajectories, trajectories_of, trajectory_source

#: Most items of a sample that are marked.
MAX_DRAWN = 512


@dataclass(frozen=True)
class Options:
    """The arguments of the explorer."""

    end_key: NestedKey | None = None  #: the entry with end signals of trajectories
    traj_key: NestedKey | None = None  #: the entry with trajectory ids
    slice_len: int | None = None  #: the length of slices
    most: int = 64  #: the most recorded states


class BufferRecorder:
    """Records the states of a buffer: the first one, and one at each call of `note`.

    The buffer is only read. Beyond ``options.most`` states every second one is dropped, and from then on only every
    n-th call is recorded, so that the record of a long training run stays small and still covers all of it.
    """

    def __init__(self, buffer: Any, options: Options) -> None:
        self.buffer, self.options = buffer, options
        self.moments: list[Moment] = []
        self._stride, self._calls = 1, 0
        self._draws = np.zeros((0, 1))
        self._expected = np.zeros((0, 1))
        self._batches = 0
        self._expects = True
        self._stamps = np.zeros(0, np.int64)
        self._drawn = np.zeros(0, np.int64)
        # Slots where a writer without a cursor stored items since the last state, and the number of items it got.
        self._kept, self._given = np.zeros(0, np.int64), 0
        # All trajectories at the last state, which itself keeps only those that are drawn, and the ring then.
        self._found, self._found_in = no_trajectories(""), ring_of(buffer)
        self._behind: tuple[What, str, int] | None = None
        self.note("look", "as it was found", keep=True)

    def drew(self, index: Any) -> int:
        """Count the items of a sample by index, and return how many they are.

        Raises ``IndexError`` and counts nothing if an index is out of range.
        """
        storage, ring = self.buffer.storage, ring_of(self.buffer)
        positions = storage.positions(index).to(torch.int64).cpu().numpy()
        outside = positions[(positions < 0) | (positions >= ring.length * ring.columns)]
        if outside.size:
            raise IndexError(
                f"Index {outside[0]} is out of range: the buffer has {ring.length * ring.columns} items. "
                "Fix: count samples of this buffer only."
            )
        self._grow(ring)
        stored = stored_priorities(self.buffer, ring)
        slicing = is_slicing(self.buffer.sampler)
        found = self._trajectories(ring) if slicing else no_trajectories("")
        share = chances(self.buffer, ring, stored, found)
        if share is None:
            self._expects = False
        else:
            self._expected += share * len(positions)
        np.add.at(self._draws.reshape(-1), positions, 1)
        self._batches += 1
        self._drawn = positions
        return len(positions)

    def stored(self, index: Any) -> None:
        """Record where a writer without a cursor stored items; None and negative indices stand for items not kept."""
        ring = ring_of(self.buffer)
        if ring.ordered:
            return
        self._grow(ring)
        given = np.zeros(0, np.int64) if index is None else torch.as_tensor(index).reshape(-1).numpy()
        kept = given[given >= 0]
        self._stamps[kept] = ring.written
        self._kept = np.concatenate([self._kept, kept])
        self._given += len(given) if index is not None else 1

    def note(self, what: What, label: str, keep: bool = False) -> bool:
        """Record the state of the buffer, if it is the turn of this call or ``keep`` is set; return whether it was."""
        self._calls += 1
        if not keep and self._calls % self._stride:
            self._behind = (what, label, 1 if self._behind is None else self._behind[2] + 1)
            return False
        self._behind = None
        with self.buffer.storage.ring.reading:
            self.moments.append(self._moment(what, label))
        self._drawn, self._kept, self._given = np.zeros(0, np.int64), np.zeros(0, np.int64), 0
        if len(self.moments) > self.options.most:
            # The first and the last one stay.
            self.moments = [*self.moments[:-1:2], self.moments[-1]]
            self._stride *= 2
        return True

    def catch_up(self) -> bool:
        """Record the current state if the last calls were not recorded; return whether it was."""
        if self._behind is None:
            return False
        what, label, calls = self._behind
        return self.note(what, label if calls == 1 else f"{label}, the last of {calls:,} calls", keep=True)

    def _trajectories(self, ring: StorageState, anew: bool = False) -> Trajectories:
        if anew or ring != self._found_in:
            source = trajectory_source(self.buffer, self.options.end_key, self.options.traj_key)
            self._found, self._found_in = trajectories_of(self.buffer, ring, source), ring
        return self._found

    def _grow(self, ring: StorageState) -> None:
        """Grow the counts to the size of the storage."""
        if self._draws.shape[1] != ring.columns:
            self._draws, self._expected = (np.zeros((ring.size, ring.columns)) for _ in range(2))
        more = ring.size - len(self._draws)
        if more > 0:
            self._draws, self._expected = (
                np.concatenate([part, np.zeros((more, ring.columns))]) for part in (self._draws, self._expected)
            )
        if not ring.ordered and ring.size > len(self._stamps):
            unknown = np.full(ring.size - len(self._stamps), -1, np.int64)
            self._stamps = np.concatenate([self._stamps, unknown])

    def _moment(self, what: What, label: str) -> Moment:
        buffer, ring = self.buffer, ring_of(self.buffer)
        self._grow(ring)
        grid = grid_of(ring)
        before = self.moments[-1] if self.moments else None
        wrote, overwrote = _written(ring, before)
        touched, lost = _touched(grid, ring, wrote, overwrote), _lost(self._found, before, overwrote)
        if not ring.ordered and self._given:
            touched, lost = self._touched_by_rank(grid, before)
        found = self._trajectories(ring, anew=what in ("look", "snapshot"))
        size = slice_length(buffer, self.options.slice_len)
        stored = stored_priorities(buffer, ring)
        sampled = self._slices(ring)
        age = _ages(ring, grid) if ring.ordered else self._known_ages(ring, grid)
        return Moment(
            what=what, label=label, ring=ring, grid=grid, age=age, wrote=wrote, overwrote=overwrote,
            touched=touched, lost=lost,
            arcs=arcs_of(found), draws=by_cell(self._draws[: ring.size], grid),
            expected=by_cell(self._expected[: ring.size], grid) if self._expects else np.zeros((grid.columns, 0)),
            batches=self._batches, drawn=self._drawn[:MAX_DRAWN], drawn_count=len(self._drawn),
            slices=sampled[:MAX_DRAWN],
            priorities=priorities_of(buffer, stored, grid),
            slicing=None if size is None else slice_facts(found, size, is_strict(buffer.sampler)),
        )  # fmt: skip

    def _slices(self, ring: StorageState) -> np.ndarray:
        """Return the slices of the last sample, ``[n, 3]``; none if the sampler draws single items."""
        sampler = self.buffer.sampler
        if not is_slicing(sampler):
            return np.zeros((0, 3), np.int64)
        return slices_of(self._drawn, ring, drawn_length(sampler, len(self._drawn)))

    def _known_ages(self, ring: StorageState, grid: Grid) -> np.ndarray:
        """Return the ages of cells for a writer without a cursor; -2 if they were written before this record."""
        stamps = self._stamps[: ring.length]
        ages = np.full(ring.size, np.iinfo(np.int64).max)
        ages[: ring.length] = np.where(stamps >= 0, ring.written - stamps, np.iinfo(np.int64).max - 1)
        newest = ages if grid.cells == grid.rows else np.minimum.reduceat(ages, grid.edges()[:-1])
        newest = np.where(newest == np.iinfo(np.int64).max, -1, newest)
        return np.where(newest == np.iinfo(np.int64).max - 1, -2, newest)

    def _touched_by_rank(self, grid: Grid, before: Moment | None) -> tuple[np.ndarray, str]:
        """Return the cells that a writer by rank wrote to, and in words how many items it kept."""
        rows = np.unique(self._kept)
        touched = np.zeros(grid.cells, np.uint8)
        over = rows < (before.ring.length if before else 0)
        for kind, some in ((1, rows[~over]), (2, rows[over])):
            touched[some * grid.cells // grid.rows] = kind
        words = f"{len(rows):,} of {self._given:,} kept"
        return touched, f"{words}, {int(over.sum()):,} over lower ranks" if over.any() else words


def _written(ring: StorageState, before: Moment | None) -> tuple[tuple[int, int], int]:
    """Return first row and number of the rows written since the previous state, and how many of them were filled."""
    if before is None or not ring.ordered or ring.written <= before.ring.written:
        return (ring.cursor, 0), 0
    count = ring.written - before.ring.written
    shown = min(count, ring.size)
    room = 0 if before.ring.limit is None else before.ring.limit - before.ring.length
    over = 0 if ring.limit is None else max(min(count - room, ring.size), 0)
    # Before the first data a storage does not know its number of rows.
    over = over if before.ring.length else max(shown - ring.size, 0)
    return ((ring.cursor - shown) % ring.size, shown), min(over, shown, before.ring.length)


def _touched(grid: Grid, ring: StorageState, wrote: tuple[int, int], overwrote: int) -> np.ndarray:
    """Mark the cells that were written to: 1, or 2 if rows were overwritten."""
    start, count = wrote
    rows = np.zeros(ring.size, np.uint8)
    order = (start + np.arange(count)) % ring.size
    rows[order] = 1
    # Free rows are filled first, so the overwritten ones come last.
    rows[order[count - overwrote :]] = 2
    return rows if grid.cells == grid.rows else np.maximum.reduceat(rows, grid.edges()[:-1])


def _ages(ring: StorageState, grid: Grid) -> np.ndarray:
    """Return the number of rows written after the newest row of each cell; -1 for empty cells."""
    rows = np.arange(ring.size)
    last = (ring.cursor - 1) if ring.full else ring.length - 1
    ages = (last - rows) % ring.size
    ages[ring.length :] = ring.size
    newest = ages if grid.cells == grid.rows else np.minimum.reduceat(ages, grid.edges()[:-1])
    return np.where(newest >= ring.size, -1, newest)


def _lost(old: Trajectories, before: Moment | None, overwrote: int) -> str:
    """Describe the trajectories that lost rows."""
    if before is None or not overwrote or not len(old):
        return ""
    # The oldest rows of each column were overwritten.
    first = (old.start - before.ring.first) % before.ring.size
    hit = first < overwrote
    whole = hit & (first + old.length <= overwrote)
    words = []
    if whole.any():
        words.append(f"{plural(int(whole.sum()), 'trajectory', 'trajectories')} gone")
    cut = int((hit & ~whole).sum())
    if cut:
        its = "its" if cut == 1 else "their"
        words.append(f"{plural(cut, 'trajectory', 'trajectories')} without {its} beginning")
    return ", ".join(words)


def explorer_model(record: BufferRecorder) -> ExplorerModel:
    """Build the model of a record, with the components and the memory that the buffer has now.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> from rlnb_widgets.buffer_explorer.record import Options
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(10))
        >>> [box.name for box in explorer_model(BufferRecorder(buffer, Options())).boxes]
        ['RoundRobinWriter', 'LazyTensorStorage', 'RandomSampler', 'none']
    """
    moments = tuple(record.moments)
    return ExplorerModel(
        name=type(record.buffer).__name__,
        boxes=components_of(record.buffer),
        memory=memory_of(record.buffer),
        moments=moments,
        notes=_notes(moments[-1]),
        strict=is_strict(record.buffer.sampler),
        slices=is_slicing(record.buffer.sampler),
    )


def _notes(last: Moment) -> tuple[str, ...]:
    notes = []
    ring, grid = last.ring, last.grid
    if not ring.length:
        notes.append("The buffer is empty. Fix: buffer.extend(data), or explorer.extend(data) to see it being written.")
    elif last.arcs.drawn.note and ring.ordered:
        notes.append(last.arcs.drawn.note)
    if ring.limit is None:
        notes.append("The storage has no limit: it never goes round, and nothing is overwritten.")
    if not ring.ordered:
        notes.append("This writer has no cursor: a new item replaces the one with the lowest rank.")
    if last.arcs.count > len(last.arcs.drawn):
        notes.append(f"{last.arcs.count:,} trajectories are too many to be drawn; their lengths are shown.")
    if grid.cells < grid.rows:
        notes.append(f"{grid.rows:,} rows share {grid.cells} cells; numbers of a cell are sums over its rows.")
    if grid.columns < grid.total:
        notes.append(f"The first {grid.columns} of {grid.total:,} columns are drawn.")
    return tuple(notes)
