"""Static SVG of the buffer explorer: components, ring, samples, sum tree and memory."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

import numpy as np

from rlnb_widgets._core.svg import Svg, coordinate
from rlnb_widgets._core.text import bytes_text, number, shorten
from rlnb_widgets.buffer_explorer.schema import ExplorerModel, Moment
from rlnb_widgets.buffer_explorer.words import (
    buffer_explanation,
    buffer_headline,
    draw_words,
    moment_words,
    state_words,
    trajectory_words,
)

_LEVELS, _LEVEL, _MARGIN = 6, 19.0, 12.0
_CELL_GAP, _MOST_GAPS = 0.12, 128
_LEFT, _TALL, _ROW = 118.0, 44.0, 62.0
_WIDTH, _MOST_SETTINGS, _MOST_KEYS = 760.0, 7, 8
_RADIUS, _CENTER_X = 118.0, 170.0
_SHADES = 5
_TRAJECTORIES = ("c2", "c5")

# Gap between trajectories in radians, since the first and the last, which meet at the seam, may have one colour.
_GAP = 0.03


def buffer_svg(model: ExplorerModel, t: int, order: str) -> Svg:
    """Draw recorded state ``t``; ``order`` is ``"physical"`` or ``"chronological"``."""
    moment = model.moments[t]
    rows = max(min(len(box.settings), _MOST_SETTINGS) for box in model.boxes)
    keys = min(len(model.memory.keys), _MOST_KEYS)
    heights = [34, 44 + 14 * rows, 2 * _RADIUS + 96, bars_height(moment), tree_height(moment)]
    heights += [(26 + 17 * keys) if keys else 0, 16 * (len(model.notes) + bool(model.memory.note)), 10]
    svg = Svg(
        _WIDTH,
        sum(heights),
        title=f"BufferExplorer: {buffer_headline(model, moment)}",
        desc=buffer_explanation(model, t),
    )
    svg.text(12, 20, shorten(f"BufferExplorer: {buffer_headline(model, moment)}", 96), bold=True, size=13)
    y = 34.0
    _boxes(svg, model, y, 36.0 + 14 * rows)
    y += heights[1]
    _ring(svg, moment, order, y)
    _words(svg, model, moment, t, y)
    y += heights[2]
    draw_bars(svg, moment, order, y)
    y += heights[3]
    draw_tree(svg, moment, y)
    y += heights[4]
    if keys:
        _memory(svg, model, y)
    y += heights[5]
    for note in (*([model.memory.note] if model.memory.note else []), *model.notes):
        y += 16
        svg.text(12, y, shorten(note, 118), fill="muted", size=10.5)
    return svg


def _boxes(svg: Svg, model: ExplorerModel, y: float, height: float) -> None:
    width = (_WIDTH - 24 - 3 * 22) / 4
    for i, box in enumerate(model.boxes):
        x = 12 + i * (width + 22)
        svg.rect(x, y, width, height, fill="panel", rx=6, stroke="line")
        svg.text(x + 8, y + 14, box.role, fill="muted", size=10)
        svg.text(x + 8, y + 29, shorten(box.name, 27), bold=True, size=9.5)
        shown = box.settings[:_MOST_SETTINGS]
        for k, (name, value) in enumerate(shown):
            more = k == len(shown) - 1 and len(box.settings) > len(shown)
            text = f"and {len(box.settings) - k} more" if more else f"{name}: {value}"
            svg.text(x + 8, y + 44 + 14 * k, shorten(text, 29), size=10, hint=text)
        if i < 3:
            svg.text(x + width + 11, y + height / 2 + 4, "→", anchor="middle", fill="muted", size=14)


def _ring(svg: Svg, moment: Moment, order: str, y: float) -> None:
    ring, dial = moment.ring, Dial.of(moment, order)
    center = (_CENTER_X, y + _RADIUS + 44)
    thick = min(0.4 * _RADIUS / moment.grid.columns, 26.0)
    for column in range(moment.grid.columns):
        outer = _RADIUS - column * thick
        _cells(svg, moment, dial, center, (outer - 0.66 * thick, outer))
        _drawn(svg, moment, dial, center, outer - 0.33 * thick, column)
        _arcs(svg, moment, dial, center, outer + 0.17 * thick, column)
    if not ring.ordered or ring.frozen or not ring.length:
        svg.text(center[0], center[1] + 4, f"{ring.length:,} rows", anchor="middle", bold=True, size=14)
        return
    inner = _RADIUS - moment.grid.columns * thick
    angle = dial.angle(ring.cursor % ring.size)
    if ring.seam:
        ends = [(center[0] + r * math.sin(angle), center[1] - r * math.cos(angle)) for r in (inner, _RADIUS + 14)]
        svg.line(*ends[0], *ends[1], stroke="ink", stroke_width=1.4, stroke_dasharray="3 3")
    tip = (center[0] + inner * math.sin(angle), center[1] - inner * math.cos(angle))
    base = inner - 13
    sides = [(center[0] + base * math.sin(angle + d), center[1] - base * math.cos(angle + d)) for d in (-0.09, 0.09)]
    svg.polygon([tip, *sides], fill="danger", hint="the cursor: the row that is written next")
    svg.text(center[0], center[1] - 6, f"{ring.length:,}", anchor="middle", bold=True, size=16)
    of = "rows, no limit" if ring.limit is None else f"of {ring.limit:,} rows"
    svg.text(center[0], center[1] + 11, of, anchor="middle", fill="muted")
    svg.text(center[0], center[1] + 27, f"next: row {ring.cursor:,}", anchor="middle", fill="danger", size=10.5)
    zero = dial.angle(0)
    far = _RADIUS + 26
    svg.text(center[0] + far * math.sin(zero), center[1] - far * math.cos(zero) + 4, "0", anchor="middle", size=10)


def _cells(svg: Svg, moment: Moment, dial: Dial, center: tuple[float, float], radii: tuple[float, float]) -> None:
    """Draw the cells by age, the newest darkest."""
    most = max(int(moment.age.max(initial=0)), 1)
    groups: dict[tuple[str, float], list[str]] = {}
    for cell, age in enumerate(moment.age.tolist()):
        if age == -1:
            look = ("line", 0.35)
        elif age == -2:
            look = ("muted", 0.35)
        else:
            look = ("c0", 1 - 0.85 * round(_SHADES * age / most) / _SHADES)
        groups.setdefault(look, []).append(sector_path(center, *radii, dial.span(cell)))
    for (role, opacity), paths in groups.items():
        svg.path("".join(paths), fill=role, fill_opacity=opacity)
    for kind, role in ((1, "good"), (2, "warn")):
        paths = [sector_path(center, *radii, dial.span(int(c))) for c in (moment.touched == kind).nonzero()[0]]
        if paths:
            svg.path("".join(paths), None, stroke=role, stroke_width=1.6)


def _drawn(svg: Svg, moment: Moment, dial: Dial, center: tuple[float, float], radius: float, column: int) -> None:
    """Draw a dot in each cell that the last sample drew from."""
    rows = moment.drawn[moment.drawn % moment.ring.columns == column] // moment.ring.columns
    for cell in sorted({moment.grid.cell(int(row)) for row in rows}):
        angle = sum(dial.span(cell)) / 2
        svg.circle(center[0] + radius * math.sin(angle), center[1] - radius * math.cos(angle), 2.2, fill="c1")


def _arcs(svg: Svg, moment: Moment, dial: Dial, center: tuple[float, float], radius: float, column: int) -> None:
    found, size = moment.arcs.drawn, moment.ring.size
    for i in (found.column == column).nonzero()[0]:
        start, sweep = dial.angle(int(found.start[i])), 2 * math.pi * int(found.length[i]) / size
        short = moment.slicing is not None and found.length[i] < moment.slicing.slice_len
        role = "bad" if short else _TRAJECTORIES[int(i) % 2]
        gap = min(0.25 * 2 * math.pi / size, _GAP)
        svg.path(arc_path(center, radius, start, max(sweep - gap, 0.004)), None, stroke=role, stroke_width=2.5)
    for of, row, length in moment.slices.tolist():
        if of == column:
            sweep = 2 * math.pi * length / size
            lift, wide = (6.0, 3.0) if moment.grid.columns == 1 else (2.5, 2.0)
            svg.path(arc_path(center, radius + lift, dial.angle(row), sweep), None, stroke="ink", stroke_width=wide)


def _words(svg: Svg, model: ExplorerModel, moment: Moment, t: int, y: float) -> None:
    x = 2 * _CENTER_X + 12
    lines = (
        [(f"moment {t} of {len(model.moments) - 1}: {moment_words(moment)}", "ink")] if len(model.moments) > 1 else []
    )
    lines.append((state_words(moment.ring), "ink"))
    lines += [(trajectory_words(moment), "ink")] if moment.arcs.count else []
    lines += [(moment.slicing.verdict, "ink" if moment.slicing.possible else "bad")] if moment.slicing else []
    lines += [(draw_words(moment), "ink")] if moment.batches else []
    lines.append(("The darker a cell, the newer. Outlined: written now. Dots: drawn now.", "muted"))
    y += 30
    for text, role in lines:
        words = " ".join(text.split())
        for line in textwrap.wrap(words, 66, break_long_words=False, break_on_hyphens=False)[:5]:
            svg.text(x, y, shorten(line, 76), fill=role, size=10.5)
            y += 14
        y += 5


def _memory(svg: Svg, model: ExplorerModel, y: float) -> None:
    memory = model.memory
    total = f"{bytes_text(memory.reserved)} in {memory.where}, {bytes_text(memory.row_bytes)} an element"
    svg.text(12, y + 14, total, bold=True, size=10.5)
    most = max(key.reserved for key in memory.keys) or 1
    for i, key in enumerate(memory.keys[:_MOST_KEYS]):
        top = y + 22 + 17 * i
        svg.text(12, top + 10, shorten(f"{key.key}  {key.form}", 52), size=10, mono=True)
        svg.rect(370, top + 1, 280 * key.reserved / most, 11, fill="c2", rx=2)
        svg.text(662, top + 10, bytes_text(key.reserved), size=10)


def levels_of(sums: np.ndarray) -> list[np.ndarray]:
    """Return the levels of a binary sum tree over its leaves, ``[n]``; the root comes first.

    Example:
        >>> [level.tolist() for level in levels_of(np.array([1.0, 2.0, 3.0]))]
        [[6.0], [3.0, 3.0], [1.0, 2.0, 3.0]]
    """
    levels = [np.asarray(sums, np.float64)]
    while len(levels[0]) > 1:
        levels.insert(0, np.add.reduceat(levels[0], np.arange(0, len(levels[0]), 2)))
    return levels


def tree_height(moment: Moment) -> float:
    """Return the height of the tree."""
    if moment.priorities is None or not moment.priorities.total > 0:
        return 0.0
    return 36.0 + _LEVEL * len(levels_of(moment.priorities.sums.T.ravel())[:_LEVELS])


def draw_tree(svg: Svg, moment: Moment, y: float) -> None:
    """Draw the upper levels from ``y`` down."""
    if not tree_height(moment) or moment.priorities is None:
        return
    leaves = moment.priorities.sums.T.ravel()
    levels = levels_of(leaves)
    aim = int(leaves.argmax())
    svg.text(12, y + 12, "sum tree", bold=True, size=10.5)
    words = "each node is the sum of the two below it, and as wide; marked is the way to the largest priority"
    svg.text(72, y + 12, words, fill="muted", size=10)
    scale = (_WIDTH - 2 * _MARGIN) / max(float(levels[0][0]), 1e-300)
    for depth, level in enumerate(levels[:_LEVELS]):
        top = y + 20 + depth * _LEVEL
        ends = np.concatenate([[0.0], np.cumsum(level)]) * scale
        path = aim >> (len(levels) - 1 - depth)
        for i, value in enumerate(level.tolist()):
            w = ends[i + 1] - ends[i]
            if w < 0.3:
                continue
            svg.rect(_MARGIN + ends[i], top, w - min(1.0, w / 4), _LEVEL - 2, fill="c4" if i == path else "panel", rx=2)
            if w > 38:
                role = "paper" if i == path else "ink"
                text = number(value, 3)
                svg.text(_MARGIN + ends[i] + w / 2, top + 12.5, text, size=10, anchor="middle", fill=role)


@dataclass(frozen=True)
class Dial:
    """A ring as it is drawn: angles in radians, 0 at the top, clockwise."""

    cells: int  #: how many cells
    rows: int  #: how many rows
    first: int  #: the cell at the top
    at: int  #: the row at the top

    @classmethod
    def of(cls, moment: Moment, order: str) -> Dial:
        """Return the dial of a recorded state."""
        at = moment.ring.first if order == "chronological" else 0
        return cls(moment.grid.cells, moment.grid.rows, moment.grid.cell(at), at)

    def span(self, cell: int) -> tuple[float, float]:
        """Return start and end of a cell."""
        slot = (cell - self.first) % self.cells
        gap = _CELL_GAP if self.cells <= _MOST_GAPS else 0.0
        return 2 * math.pi * slot / self.cells, 2 * math.pi * (slot + 1 - gap) / self.cells

    def angle(self, row: float) -> float:
        """Return the start of a row."""
        # Computed from cells if each holds several rows, so that rows and cells start at the same place.
        top = self.first * self.rows / self.cells if self.cells < self.rows else self.at
        return 2 * math.pi * ((row - top) % self.rows) / self.rows


def _point(center: tuple[float, float], radius: float, angle: float) -> str:
    x, y = center[0] + radius * math.sin(angle), center[1] - radius * math.cos(angle)
    return f"{coordinate(x)} {coordinate(y)}"


def arc_path(center: tuple[float, float], radius: float, start: float, sweep: float) -> str:
    """Return the path of an arc; ``start`` and ``sweep`` are in radians, ``sweep`` is less than a full turn."""
    sweep = min(sweep, 2 * math.pi - 1e-3)
    large, r = int(sweep > math.pi), coordinate(radius)
    return f"M{_point(center, radius, start)}A{r} {r} 0 {large} 1 {_point(center, radius, start + sweep)}"


def sector_path(center: tuple[float, float], inner: float, outer: float, span: tuple[float, float]) -> str:
    """Return the path of a cell of the ring; ``span`` holds start and end in radians."""
    start, stop = span[0], min(span[1], span[0] + 2 * math.pi - 1e-3)
    large, a, b = int(stop - start > math.pi), coordinate(outer), coordinate(inner)
    return (
        f"M{_point(center, outer, start)}A{a} {a} 0 {large} 1 {_point(center, outer, stop)}"
        f"L{_point(center, inner, stop)}A{b} {b} 0 {large} 0 {_point(center, inner, start)}Z"
    )


def _rows(moment: Moment) -> list[tuple[str, np.ndarray, np.ndarray | None, str]]:
    rows: list[tuple[str, np.ndarray, np.ndarray | None, str]] = []
    if moment.batches:
        expected = moment.expected.sum(0) if moment.expected.size else None
        rows.append(("draws", moment.draws.sum(0), expected, "c1"))
    if moment.priorities is not None and moment.priorities.total > 0:
        rows.append(("priorities", moment.priorities.sums.sum(0), None, "c4"))
    return rows


def bars_height(moment: Moment) -> float:
    """Return the height of the bars."""
    return _ROW * len(_rows(moment))


def draw_bars(svg: Svg, moment: Moment, order: str, y: float) -> None:
    """Draw the bars from ``y`` down."""
    first = moment.grid.cell(moment.ring.first) if order == "chronological" else 0
    step = (_WIDTH - _LEFT - 12) / moment.grid.cells
    for name, found, expected, role in _rows(moment):
        found = np.roll(found, -first)
        due = None if expected is None else np.roll(expected, -first)
        top = max(float(found.max()), 0.0 if due is None else float(due.max())) or 1.0
        svg.text(12, y + 20, name, bold=True, size=10.5)
        svg.text(12, y + 34, f"to {number(top, 3)}", fill="muted", size=10)
        path = "".join(
            f"M{coordinate(_LEFT + i * step)} {coordinate(y + _TALL)}v{coordinate(-value / top * _TALL)}"
            f"h{coordinate(max(step * 0.85, 0.4))}V{coordinate(y + _TALL)}z"
            for i, value in enumerate(found.tolist())
            if value > 0
        )
        if path:
            svg.path(path, fill=role)
        if due is not None:
            points = [(_LEFT + (i + 0.42) * step, y + _TALL - v / top * _TALL) for i, v in enumerate(due.tolist())]
            svg.polyline(points, stroke="ink", stroke_width=1.2, stroke_dasharray="4 3")
            svg.text(12, y + 47, "- - expected", fill="muted", size=10)
        svg.line(_LEFT, y + _TALL, _WIDTH - 12, y + _TALL)
        y += _ROW
