"""Display lists of a spec explorer: domains with random samples, small and large, and the table; its static view.

The page draws all lanes of the same form with one list: samples and tried values are columns by name, and the numbers
that a line shows are parameters. The lanes of a domain stand side by side, or in the details one below the other.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from rlnb_widgets._core.display import Column, Columns, Display, Number, Param
from rlnb_widgets._core.display_svg import WIDTH, Part, stacked
from rlnb_widgets._core.spec_domain import Domain, Lane
from rlnb_widgets._core.spec_entries import Path
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.table import CHAR, draw_shape, lines_display, table_display
from rlnb_widgets._core.text import path_text, plural, shorten, visible
from rlnb_widgets.spec_explorer.ends import ends_of
from rlnb_widgets.spec_explorer.explain import spec_words
from rlnb_widgets.spec_explorer.samples import BINS, LEVELS, Samples
from rlnb_widgets.spec_explorer.schema import Row, SpecModel
from rlnb_widgets.spec_explorer.text import difference_lines, spec_headline

#: Height of the domain in a row of the page.
TINY = 20.0
MAX_ROWS, MAX_FINDINGS = 28, 8
BAR = 0.85  # opacity of the bars: 3 to 1 on a row that is selected, too
_GAP = 0.14  # share of a lane between it and the next one
_CELLS = 6  # at least so many cells would have room in a lane
_ROW, _NODE = 38.0, 24.0  # height of a row, and of one with entries below it
_CLASS, _DOMAIN, _SPACE = 164.0, 352.0, 560.0


def draw_lane(display: Display, lane: Lane, levels: Any, h: float, strip: float) -> None:
    """Draw a lane, ``h`` pixels high, in a frame from 0 to 1, with bars of samples from 0 to 99.

    Args:
        display: The list.
        lane: The lane.
        levels: Column of the heights of the bars. None: no bars.
        h: Height.
        strip: Height of cells, at the bottom.
    """
    if lane.kind == "line":
        _line(display, lane, levels, h)
    elif lane.kind == "choices":
        _choices(display, lane, levels, h)
    else:
        _cells(display, lane, levels, h, strip)


def _bars(display: Display, levels: Any, h: float) -> None:
    if levels is not None:
        display.bars(levels, 0, h, LEVELS, "accent", most=28 if h > TINY else 16, opacity=BAR)


def _line(display: Display, lane: Lane, levels: Any, h: float) -> None:
    base, size = h - 3, min(5.0, h / 2)
    left, right = ends_of(lane)
    a, b = 0.0 if left is None else left, 1.0 if right is None else right
    with display.part(a, b, (0, 1 if a == b else BINS)):
        _bars(display, levels, base)
    display.line(a, base, b, base, "ink", 1.5)
    for at, end, arrow in ((a, left, "left"), (b, right, "right")):
        if end is None:
            display.glyph(at, base, arrow, 7)
        else:
            display.line(at, base - size, at, base + 3, "ink", 1.5)


def _choices(display: Display, lane: Lane, levels: Any, h: float) -> None:
    base = h - 4
    with display.part(0, 1, (0, lane.n)):
        display.line(0, base, lane.n, base)
        _bars(display, levels, base)
        for i in range(lane.n):
            if i in lane.barred:
                display.glyph(i + 0.5, base, "cross", 6, "bad")
            else:
                display.disc(i + 0.5, base, 2.5, "ink")


def _cells(display: Display, lane: Lane, levels: Any, h: float, strip: float) -> None:
    count, top = cells_of(lane), h - strip
    with display.part(0, min(count / _CELLS, 1), (0, count)):
        _bars(display, levels, top - 1)
        for i in range(count):
            grow = -1.5 if lane.kind == "bits" else 0
            display.rect(i, i + 1, top + 0.5, strip - 1, stroke="ink", opacity=0.8, grow=grow)
            if i in lane.barred and count == lane.n:
                display.glyph(i + 0.5, top + strip / 2, "cross", 6, "bad")


def cells_of(lane: Lane) -> int:
    """Return how many cells of a lane are drawn; more than 24 are drawn together."""
    return min(lane.n, BINS)


def lane_form(lane: Lane) -> Hashable:
    """Return what the pictures of a lane in the page depend on: lanes of one form have the same ones."""
    if lane.kind == "line":
        ends = (None if end is None else round(end, 6) for end in ends_of(lane))
        return (lane.kind, *ends, _has_scale(lane))
    return (lane.kind, lane.n, lane.start, lane.barred)


def domain_display(lane: Lane, column: Column = str, columns: Columns | None = None) -> Display:
    """Draw a lane for a row of the page; its samples are the column ``levels``."""
    display = Display(TINY, columns)
    with display.frame(4, 4):
        draw_lane(display, lane, column("levels"), TINY, 8)
    return display


def _beside(display: Display, lanes: Sequence[Lane], column: Column, h: float) -> None:
    gap = _GAP if len(lanes) > 1 else 0
    for i, lane in enumerate(lanes):
        with display.part(i, i + 1 - gap, (0, 1)):
            draw_lane(display, lane, column(f"levels{i}"), h, 8)


def lane_height(lanes: Sequence[Lane]) -> float:
    """Return the height of one of the lanes of the large picture: a few have more room each."""
    return {1: 96.0, 2: 56.0}.get(len(lanes), 36.0)


def large_display(lane: Lane, tall: float, column: Column = str, columns: Columns | None = None) -> Display:
    """Draw a lane ``tall`` pixels high, for the details of the page.

    Samples are the column ``levels``, tried values ``legal`` and ``illegal``; the numbers at the ends of a line are the
    parameters ``low`` and ``high``. A hit area has the number, the choice or the cell under the pointer as its value.
    """
    display, h = Display(tall, columns), tall - 20
    strip = min(24.0, h / 2)
    domain: tuple[Number, Number] = (Param("low"), Param("high"))
    right, y = 1.0, h - 3
    with display.moved(2), display.frame(10, 10):
        draw_lane(display, lane, column("levels"), h, strip)
        if lane.kind != "line":
            count = lane.n if lane.kind == "choices" else cells_of(lane)
            domain = (0, count)
            if lane.kind != "choices":
                right, y = min(count / _CELLS, 1.0), h - strip / 2
            with display.part(0, right, domain):
                _names(display, lane, count, h + 12)
        with display.part(0, right, (0, 1) if lane.kind == "line" else domain):
            display.glyphs(column("legal"), y, "diamond", 10, "good")
            display.glyphs(column("illegal"), y, "cross", 9, "bad")
        with display.part(0, right, domain):
            if lane.kind == "line" and _has_scale(lane):
                display.axis(h + 4, room=40)
            display.hit(*domain, 0, h)
    return display


def _has_scale(lane: Lane) -> bool:
    return math.isfinite(lane.view[1] - lane.view[0])


def _names(display: Display, lane: Lane, count: int, y: float) -> None:
    if count < lane.n:
        display.text(0, y, f"{lane.n} places", fill="muted")
        return
    for i in range(0, count, max(math.ceil(count / 9), 1)):
        display.text(i + 0.5, y, lane.start + i, fill="muted", anchor="middle")


def sampled_text(domain: Domain) -> str:
    """Return a domain in one line where its samples could pass for data, with a word about them; else nothing.

    Example:
        >>> sampled_text(Domain("any", "any float32", (Lane("line"),)))
        'any float32 · random draws'
    """
    one_line = len(domain.lanes) == 1 and domain.lanes[0].kind == "line"
    return f"{domain.text} · random draws" if one_line else ""


def rows_display(model: SpecModel, samples: Mapping[Path, Samples]) -> Display:
    """Draw the first rows with domain, samples and gymnasium space."""
    heads = [(0.0, "key"), (_CLASS, "spec"), (_DOMAIN, "domain"), (_SPACE, "gymnasium space")]

    def draw(display: Display, row: Row) -> None:
        _key(display, model, row)
        _class(display, row)
        _domain(display, row.cell.domain, samples.get(row.path))
        _space(display, row)

    # The kind of a difference is written below the key.
    return table_display(heads, model.opening, MAX_ROWS, lambda r: _ROW if r.leaf or r.differences else _NODE, draw)


def _key(display: Display, model: SpecModel, row: Row) -> None:
    whole = len(model.opening) == len(model.rows)
    x = 12.0 * min(len(row.path), 6) if whole else 0.0
    key = visible(row.path[-1]) if row.path else model.name
    ink = "bad" if row.differences else "ink"
    display.text(x, 16, key, bold=not row.leaf, size=12, fill=ink, within=_CLASS - x - 8)
    if row.differences:
        display.text(x, 30, row.differences[0].kind, fill="bad", size=10)
    elif not whole and len(row.path) > 1:
        display.text(0, 30, path_text(row.path[:-1]), fill="muted", size=10, within=_CLASS - 8)


def _class(display: Display, row: Row) -> None:
    cell = row.cell
    display.text(_CLASS, 16, cell.kind, size=12)
    x, y = (_CLASS, 30) if row.leaf else (_CLASS + 7.2 * len(cell.kind) + 8, 16)
    if cell.dtype:
        display.text(x, y, cell.dtype, fill="muted", size=10, mono=True)
    if cell.dtype or cell.dims:
        draw_shape(display, cell.dims, x + (CHAR * (len(cell.dtype) + 1) if cell.dtype else 0), y)


def _domain(display: Display, domain: Domain, samples: Samples | None) -> None:
    lanes = domain.lanes
    levels = {f"levels{i}": np.array(level) for i, level in enumerate(samples.levels if samples else ())}
    if lanes:
        with display.moved(2), display.frame(_DOMAIN + 4, WIDTH - _SPACE + 14, (0, len(lanes))):
            _beside(display, lanes, levels.get, 16)
    text = (levels and sampled_text(domain)) or domain.text
    words = shorten(visible(text, 200), int((_SPACE - _DOMAIN) / CHAR) - 1)
    display.text(_DOMAIN, 31 if lanes else 16, words, fill="muted", size=10, mono=True)


def _space(display: Display, row: Row) -> None:
    cell, room = row.cell, WIDTH - _SPACE
    if cell.why:
        display.text(_SPACE, 16, "none", fill="muted", size=10, mono=True)
        if row.leaf:
            display.text(_SPACE, 30, cell.why, fill="muted", size=10, within=room)
        return
    text = visible(cell.space.partition("(")[0] if cell.domain.kind == "composite" else cell.space, 400)
    for i, line in enumerate(textwrap.wrap(text, int(room / CHAR), max_lines=2, placeholder="…")):
        display.text(_SPACE, 16 + 14 * i, line, size=10, mono=True)


def spec_svg(model: SpecModel, samples: Mapping[Path, Samples], seed: int) -> Svg:
    """Return the static view: the first rows, and the first differences."""
    parts: list[Part] = [rows_display(model, samples)]
    if drawn := {s.draws for s in samples.values() if s.draws}:
        draws = plural(max(drawn), "draw") if len(drawn) == 1 else "draws"  # large values are drawn less often
        parts.append(f"Bars: {draws} of rand() with seed {seed}, not data of an environment.")
    if lines := difference_lines(model):
        parts.append(lines_display([(line, "bad") for line in lines], MAX_FINDINGS))
    return stacked(f"SpecExplorer: {spec_headline(model)}", spec_words(model), parts, {})
