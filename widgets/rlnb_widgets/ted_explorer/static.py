"""Static SVG of a TED explorer: both columns, with bounded height."""

from __future__ import annotations

from rlnb_widgets._core.dims import CHAR, write_shape
from rlnb_widgets._core.svg import Svg, coordinate
from rlnb_widgets._core.text import path_text, plural, shorten, visible
from rlnb_widgets.ted_explorer.explain import ted_words
from rlnb_widgets.ted_explorer.numbers import LEVELS
from rlnb_widgets.ted_explorer.schema import Carry, Cell, Row, TedModel, Thumb
from rlnb_widgets.ted_explorer.text import SPREAD, finding_lines, mark_text, range_text, ted_headline

WIDTH = 780
ROW = 26
MAX_ROWS = 40
MAX_FINDINGS = 6
MAX_LETTERS = 125
KEY, ROOT, NEXT, MARK = 14, 170, 420, 672
THUMB = 200  # from the left of a column to its tiny plot


def ted_svg(model: TedModel) -> Svg:
    """Draw the first rows, what ``step_mdp`` does with each, thumbnails, and the first findings."""
    shown = model.rows[:MAX_ROWS]
    more = len(model.rows) - len(shown)
    lines = [*model.notes, *finding_lines(model)]
    below = lines[:MAX_FINDINGS] + ([f"+{len(lines) - MAX_FINDINGS} more"] if len(lines) > MAX_FINDINGS else [])
    height = 66 + ROW * (len(shown) + bool(more)) + (18 * len(below) + 10 if below else 0)
    svg = Svg(WIDTH, height, title=f"TEDExplorer: {ted_headline(model)}", desc=ted_words(model))
    svg.text(KEY, 24, "TEDExplorer", size=13, bold=True)
    svg.text(KEY + 96, 24, ted_headline(model), fill="muted", size=12)
    _header(svg, model)
    y = 58.0
    for i, row in enumerate(shown):
        if i % 2:
            svg.rect(6, y, WIDTH - 12, ROW, fill="panel", rx=3)
        _row(svg, row, y + 12, model.is_ted)
        y += ROW
    if more:
        svg.text(KEY, y + 15, f"+{plural(more, 'more row')}", fill="muted")
        y += ROW
    for line in below:
        y += 18
        note = line in model.notes
        svg.text(KEY, y, shorten(line, MAX_LETTERS), fill="muted" if note else "bad", size=11)
    return svg


def _header(svg: Svg, model: TedModel) -> None:
    svg.text(KEY, 48, "key", fill="muted")
    svg.text(ROOT, 48, f"{'root[t]' if model.is_ted else 'entry'}, with {SPREAD}", fill="muted")
    if model.is_ted:
        svg.text(MARK, 48, "→ root[t+1]", fill="muted")
        svg.text(NEXT, 48, "next[t]", fill="muted")
    svg.line(6, 55, WIDTH - 6, 55)


def _row(svg: Svg, row: Row, y: float, is_ted: bool) -> None:
    depth = min(len(row.path) - 1, 6)
    svg.open(data_key=path_text(row.path))
    svg.text(KEY + 12 * depth, y, visible(row.path[-1], 24 - 2 * depth), bold=not row.leaf, size=12)
    _cell(svg, row.root, ROOT, y)
    if is_ted:
        _mark(svg, row.carry, y)
        _cell(svg, row.next, NEXT, y)
    svg.close()


def _cell(svg: Svg, cell: Cell | None, x: float, y: float) -> None:
    """Draw dtype and shape, the range below them, and a thumbnail beside them if there is room."""
    if cell is None:
        svg.text(x, y, "-", fill="muted", size=10)
        return
    if cell.dtype == "?":
        svg.text(x, y, shorten(cell.message, 38), fill="bad", size=10)
        return
    svg.text(x, y, cell.dtype[:12], fill="muted", size=10, mono=True)
    x_shape = x + (min(len(cell.dtype), 12) + 1) * CHAR
    end = write_shape(svg, cell.dims, x_shape, y)
    if cell.message.startswith("cannot"):
        svg.text(end + 6, y, shorten(cell.message, 26), fill="bad", size=9)
    elif cell.storage not in ("in memory", "non-tensor"):
        svg.text(end + 6, y, cell.storage, fill="warn", size=9)
    elif cell.thumb is not None and end < x + THUMB:
        _thumb(svg, cell.thumb, x + THUMB, y - 7, 40, 16)
    elif cell.preview:
        svg.text(end + 6, y, shorten(visible(cell.preview), 22), size=10)
    spread = shorten(range_text(cell), int(THUMB / CHAR) - 1)
    if spread:
        svg.text(x, y + 11, spread, size=10, mono=True)


def _mark(svg: Svg, carry: Carry, y: float) -> None:
    text = mark_text(carry)
    if carry.kind != "carried":
        svg.text(MARK, y, text, fill="muted", size=10)
        return
    color = "muted" if carry.holds is None else "good" if carry.holds else "bad"
    svg.line(MARK, y - 4, MARK + 22, y - 4, stroke=color, stroke_width=1.5)
    svg.polygon([(MARK + 26, y - 4), (MARK + 20, y - 7.5), (MARK + 20, y - 0.5)], fill=color)
    if carry.holds:
        svg.polyline([(MARK + 30, y - 4), (MARK + 33, y - 1), (MARK + 39, y - 8)], stroke=color, stroke_width=1.8)
    elif carry.holds is False:
        svg.line(MARK + 30, y - 8, MARK + 37, y - 1, stroke=color, stroke_width=1.8)
        svg.line(MARK + 37, y - 8, MARK + 30, y - 1, stroke=color, stroke_width=1.8)
        svg.text(MARK + 42, y, shorten(str(list(carry.index)) if carry.index else "", 8), fill=color, size=9)


def _thumb(svg: Svg, thumb: Thumb, x: float, y: float, w: float, h: float) -> None:
    levels = thumb.levels
    if thumb.kind != "hist" and len(set(levels)) == 1 and levels[0] >= 0:  # a constant; by far the most frequent thumb
        svg.line(x, y + h / 2, x + w, y + h / 2, stroke="accent")
        return
    if thumb.kind == "spark":
        step = w / max(len(levels) - 1, 1)
        nan = float("nan")
        svg.polyline(
            [(x + i * step, nan if v < 0 else y + h - v / LEVELS * h) for i, v in enumerate(levels)], stroke_width=1
        )
        return
    if thumb.kind == "band":
        step = 2 * w / max(len(levels) - 2, 1)
        tops, floors = levels[1::2], levels[::2]
        edge = [(x + i * step, y + h - v / LEVELS * h) for i, v in enumerate(tops) if v >= 0]
        edge += [(x + i * step, y + h - v / LEVELS * h) for i, v in reversed(list(enumerate(floors))) if v >= 0]
        svg.polygon(edge, fill="accent", stroke="accent", stroke_width=1)
        return
    if thumb.kind == "hist":
        step = w / len(levels)
        for i, v in enumerate(levels):
            if v > 0:
                svg.rect(x + i * step, y + h - v / LEVELS * h, step - 0.3, v / LEVELS * h, fill="accent")
        return
    _heat(svg, thumb, x, y, w, h)


def _heat(svg: Svg, thumb: Thumb, x: float, y: float, w: float, h: float) -> None:
    """Draw a heat map as one path per shade, every second column, which keeps the SVG small."""
    columns = len(thumb.levels) // thumb.rows
    stride = 2 if columns > 12 else 1
    cell_w, cell_h = w / -(-columns // stride), h / thumb.rows
    shades: dict[int, list[str]] = {}
    for i, level in enumerate(thumb.levels):
        r, c = divmod(i, columns)
        if level >= 0 and c % stride == 0:
            left, top = coordinate(x + c // stride * cell_w), coordinate(y + r * cell_h)
            box = f"M{left} {top}h{coordinate(cell_w)}v{coordinate(cell_h)}h-{coordinate(cell_w)}"
            shades.setdefault(min(level * 4 // (LEVELS + 1), 3), []).append(box)
    for shade, boxes in sorted(shades.items()):
        svg.path(
            "".join(boxes), fill="accent", fill_opacity=(0.12, 0.38, 0.64, 0.92)[shade], shape_rendering="crispEdges"
        )
