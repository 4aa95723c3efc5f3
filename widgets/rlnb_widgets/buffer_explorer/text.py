"""Text view of the buffer explorer: deterministic, for terminals and for comparing notebooks."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.text import bytes_text, number, plural, sparkline, table
from rlnb_widgets.buffer_explorer.model import ExplorerModel, Moment
from rlnb_widgets.buffer_explorer.words import (
    buffer_headline,
    draw_words,
    memory_words,
    moment_words,
    rows_text,
    state_words,
    trajectory_words,
)

_SHADES = "·░▒▓█"
_MOST_CELLS, _MOST_ARCS, _MOST_KEYS, _MOST_MOMENTS = 64, 6, 8, 12


def buffer_text(model: ExplorerModel, t: int, order: str) -> str:
    """Return the text view of recorded state ``t``."""
    moment = model.moments[t]
    lines = [f"BufferExplorer: {buffer_headline(model, moment)}"]
    lines += [f"  {line}" for line in table([[b.role, b.name, _settings(b.settings)] for b in model.boxes]).split("\n")]
    lines += [f"  {state_words(moment.ring)}", *_ring_lines(moment, order)]
    lines += _trajectory_lines(moment)
    lines += _sampling_lines(moment)
    lines += _memory_lines(model, moment)
    if len(model.moments) > 1:
        lines += _record_lines(model, t)
    return "\n".join([*lines, *(f"  {note}" for note in model.notes)])


def _settings(settings: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in settings)


def _ring_lines(moment: Moment, order: str) -> list[str]:
    """Return age as shades, the newest the fullest, with the cursor below."""
    ring, grid = moment.ring, moment.grid
    if not ring.length:
        return []
    cells = _shift(moment, np.arange(grid.cells), order)
    ages = moment.age[cells]
    most = max(int(ages.max()), 1)
    marks = [_SHADES[0] if a == -1 else "?" if a == -2 else _SHADES[4 - int(3 * a / (most + 1))] for a in ages]
    per = -(-len(marks) // _MOST_CELLS)
    row = "".join(marks[::per])
    what = "fuller is newer" if ring.ordered else "fuller was written later"
    lines = [f"  age, {order} order, {what}{'' if per * grid.rows == grid.cells else ', rows in cells'}", f"    {row}"]
    if ring.ordered and not ring.frozen and ring.limit is not None:
        at = int(np.flatnonzero(cells == grid.cell(ring.cursor))[0]) // per
        lines.append(f"    {' ' * at}^ next: row {ring.cursor:,}")
    return lines


def _shift(moment: Moment, cells: np.ndarray, order: str) -> np.ndarray:
    first = moment.grid.cell(moment.ring.first) if order == "chronological" else 0
    return (cells + first) % moment.grid.cells


def _trajectory_lines(moment: Moment) -> list[str]:
    words = trajectory_words(moment)
    if not words:
        return []
    lines, found = [f"  {words}"], moment.arcs.drawn
    for i in range(min(len(found), _MOST_ARCS)):
        ends = [*([] if found.begun[i] else ["its beginning may be gone"]), *([] if found.ended[i] else ["goes on"])]
        who = [f"id {found.ids[i]}"] if found.named else []
        column = [f"column {found.column[i]}"] if moment.ring.columns > 1 else []
        where = rows_text(int(found.start[i]), int(found.length[i]), moment.ring.size)
        lines.append("    " + ", ".join([*column, *who, where, *ends]))
    if len(found) > _MOST_ARCS:
        lines.append(f"    and {len(found) - _MOST_ARCS:,} more")
    if moment.slicing:
        lines.append(f"  {moment.slicing.verdict}")
    return lines


def _sampling_lines(moment: Moment) -> list[str]:
    lines = []
    words = draw_words(moment)
    if words:
        lines += [f"  {words}", f"    {sparkline(moment.draws.sum(0), _MOST_CELLS)}"]
    found = moment.priorities
    if found is not None and found.total > 0:
        share = found.most / found.total
        lines.append(
            f"  priorities as stored, (p + eps)^{number(found.alpha)}: {number(found.least)} to {number(found.most)}, "
            f"sum {number(found.total)}; the largest is drawn with probability {number(share, 3)}"
        )
        lines.append(f"    {sparkline(found.sums.sum(0), _MOST_CELLS)}")
        low = (found.most / found.least) ** -found.beta
        lines.append(f"  weights at beta {number(found.beta)}: {number(low, 3)} to 1")
    elif found is not None and moment.ring.length:
        lines.append("  All priorities are 0, so that nothing can be drawn. Fix: buffer.update_priority(index, 1.0).")
    return lines


def _memory_lines(model: ExplorerModel, moment: Moment) -> list[str]:
    memory = model.memory
    lines = []
    if memory.keys:
        lines.append(f"  {memory_words(memory)}")
        rows = [[key.key, key.form, bytes_text(key.reserved)] for key in memory.keys[:_MOST_KEYS]]
        lines += [f"    {line}" for line in table(rows, right=[2]).split("\n")]
        if len(memory.keys) > _MOST_KEYS:
            lines.append(f"    and {plural(len(memory.keys) - _MOST_KEYS, 'more entry', 'more entries')}")
    return [*lines, *([f"  {memory.note}"] if memory.note else [])]


def _record_lines(model: ExplorerModel, t: int) -> list[str]:
    moments = model.moments
    first = min(max(t - _MOST_MOMENTS + 1, 0), max(len(moments) - _MOST_MOMENTS, 0))
    lines = [f"  record, at moment {t} of {len(moments) - 1}"]
    for i in range(first, min(first + _MOST_MOMENTS, len(moments))):
        lines.append(f"    {'>' if i == t else ' '} {i}  {moment_words(moments[i])}")
    return lines
