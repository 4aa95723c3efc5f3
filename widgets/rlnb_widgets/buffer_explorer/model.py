"""Conversion of a buffer and its record to the model that all views show."""

from __future__ import annotations

from rlnb_widgets.buffer_explorer.memory import memory_of
from rlnb_widgets.buffer_explorer.parts import components_of
from rlnb_widgets.buffer_explorer.record import BufferRecorder
from rlnb_widgets.buffer_explorer.schema import ExplorerModel, Moment
from rlnb_widgets.buffer_explorer.slices import is_slicing, is_strict


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
