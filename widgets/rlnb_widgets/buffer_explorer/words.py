"""Phrases about a recorded state that all views share, and the description of a buffer in words."""

from __future__ import annotations

from rlnb_widgets._core.text import bytes_text, number, plural
from rlnb_widgets.buffer_explorer.model import ExplorerModel, Memory, Moment, StorageState


def rows_text(start: int, count: int, size: int) -> str:
    """Format a run of rows of a ring.

    Example:
        >>> rows_text(3, 1, 10), rows_text(3, 4, 10), rows_text(8, 5, 10)
        ('row 3', 'rows 3 to 6', 'rows 8 to 9 and 0 to 2')
    """
    if count == 1:
        return f"row {start:,}"
    if start + count <= size:
        return f"rows {start:,} to {start + count - 1:,}"
    end = (start + count) % size - 1
    first = f"{start:,} to {size - 1:,}" if start < size - 1 else f"{start:,}"
    return f"rows {first} and 0 to {end:,}" if end else f"rows {first} and 0"


def buffer_headline(model: ExplorerModel, moment: Moment) -> str:
    """Return the headline of the buffer."""
    ring = moment.ring
    room = f"{ring.length:,} rows filled" if ring.limit is None else f"{ring.length:,} of {ring.limit:,} rows filled"
    parts = [model.name, room]
    if ring.columns > 1:
        parts.append(f"{ring.columns:,} items a row")
    if ring.ordered and not ring.frozen:
        parts.append(f"next is row {ring.cursor:,}")
    return ", ".join(parts)


def room_words(ring: StorageState) -> str:
    """Describe the room of a ring, after the number of its filled rows."""
    return "rows, no limit" if ring.limit is None else f"of {ring.limit:,} rows"


def state_words(ring: StorageState) -> str:
    """Describe the filled rows and the position of the writer."""
    if not ring.length:
        return "Nothing is stored yet."
    if not ring.ordered:
        return f"{plural(ring.length, 'row')} filled, in no order of time."
    if ring.frozen:
        return f"{plural(ring.length, 'row')} filled; the buffer is read-only."
    if not ring.full:
        return f"Rows 0 to {ring.length - 1:,} are filled; row {ring.cursor:,} is written next."
    newest = (ring.cursor - 1) % ring.size
    return (
        f"All {plural(ring.size, 'row')} are filled. Row {ring.cursor:,} is the oldest and is written over next; "
        f"row {newest:,} is the newest. The seam lies between them."
    )


def moment_words(moment: Moment) -> str:
    """Describe the call that led to a recorded state."""
    words = [moment.label]
    start, count = moment.wrote
    if count:
        words.append(f"{rows_text(start, count, moment.ring.size)} written")
    if moment.overwrote:
        oldest = "all that was there" if moment.overwrote >= moment.ring.size else "the oldest"
        words.append(f"{plural(moment.overwrote, 'row')} over {oldest}")
    if moment.lost:
        words.append(moment.lost)
    if len(moment.slices):
        words.append(plural(len(moment.slices), "slice"))
    return ": ".join([words[0], ", ".join(words[1:])]) if len(words) > 1 else words[0]


def trajectory_words(moment: Moment) -> str:
    """Describe number and length of the trajectories; empty if none are known."""
    arcs = moment.arcs
    if not arcs.count:
        return ""
    low, high = int(arcs.lengths[0, 0]), arcs.longest
    span = f"of {plural(low, 'row')}" if low == high else f"of {low:,} to {high:,} rows"
    text = f"{plural(arcs.count, 'trajectory', 'trajectories')} {span}, by {arcs.drawn.source}"
    if arcs.interleaved:
        are = "trajectory is" if arcs.interleaved == 1 else "trajectories are"
        text += f"; {arcs.interleaved:,} {are} in pieces, with rows of others between"
    return text


def draw_words(moment: Moment) -> str:
    """Describe the draws so far; empty if no sample was counted."""
    if not moment.batches:
        return ""
    total = moment.draws.sum()
    text = f"{plural(int(total), 'draw')} in {plural(moment.batches, 'sample')}"
    if moment.expected.size and moment.grid.cells == moment.grid.rows:
        row = int(moment.draws.sum(0).argmax())
        found, due = moment.draws[:, row].sum(), moment.expected[:, row].sum()
        text += f"; row {row:,} was drawn most often, {plural(int(found), 'time')} ({number(due, 3)} expected)"
    never = int((moment.draws[:, : moment.ring.length] == 0).sum())
    if moment.grid.cells == moment.grid.rows:
        unit = " items" if moment.grid.columns > 1 else ""
        text += f"; {never:,} of {moment.ring.length * moment.grid.columns:,}{unit} were never drawn"
    return text


def memory_words(memory: Memory) -> str:
    """Describe the size and the place of the memory."""
    return f"{bytes_text(memory.reserved)} in {memory.where}, {bytes_text(memory.row_bytes)} an item"


def buffer_explanation(model: ExplorerModel, t: int) -> str:
    """Describe the buffer at recorded state ``t`` in paragraphs."""
    moment = model.moments[t]
    parts = [f"{buffer_headline(model, moment)}.", _ring(moment)]
    words = trajectory_words(moment)
    if words:
        cut = " The arcs over the ring are trajectories: runs of rows that belong together."
        parts.append(f"{words[0].upper()}{words[1:]}.{cut}")
    if moment.slicing:
        parts.append(moment.slicing.verdict)
    parts += _sampling(moment, model.slices)
    parts.append(_parts(model))
    if model.memory.keys:
        largest = model.memory.keys[0]
        parts.append(
            f"The storage has {bytes_text(model.memory.reserved)} in {model.memory.where}. The largest entry is "
            f"{largest.key} with {bytes_text(largest.reserved)}."
        )
    if len(model.moments) > 1:
        parts.append(f"The record has {plural(len(model.moments), 'moment')}. Moment {t}: {moment_words(moment)}.")
    return "\n\n".join([*parts, *([model.memory.note] if model.memory.note else []), *model.notes])


def _ring(moment: Moment) -> str:
    ring = moment.ring
    if not ring.ordered:
        return state_words(ring)
    return (
        "A buffer is a ring of rows. The cursor says where the next row goes; when all are filled it goes over the "
        f"oldest one. The stronger the colour of a cell, the newer it is. {state_words(ring)}"
    )


def _sampling(moment: Moment, slices: bool) -> list[str]:
    parts = []
    words = draw_words(moment)
    if words:
        parts.append(f"Counted so far: {words}.")
    found = moment.priorities
    if found is not None and found.total > 0:
        parts.append(
            "Items are drawn in proportion to their priorities, which are stored as (p + eps)^alpha, with alpha "
            f"{number(found.alpha)}. A number drawn between 0 and their sum, {number(found.total)}, goes down the sum "
            "tree: left where it is below the sum on the left, else right, less that sum. The weight of an item is "
            f"(its stored priority / the smallest)^-beta, with beta {number(found.beta)}: what is drawn often counts "
            "less." + (" The item found is the first row of a slice." if slices else "")
        )
    return parts


def _parts(model: ExplorerModel) -> str:
    names = {box.role: box.name for box in model.boxes}
    return (
        f"New data goes through the transform ({names['transform']}) backwards and the writer ({names['writer']}) into "
        f"the storage ({names['storage']}). The sampler ({names['sampler']}) chooses what is read, which goes through "
        "the transform forwards."
    )
