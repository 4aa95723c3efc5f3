"""Static SVG of a spec explorer: the tree with its domains, with bounded height."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from rlnb_widgets._core.dims import CHAR, write_shape
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import draw_display
from rlnb_widgets._core.spec_domain import Lane
from rlnb_widgets._core.spec_entries import Path
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import path_text, plural, shorten, visible
from rlnb_widgets.spec_explorer.explain import spec_words
from rlnb_widgets.spec_explorer.samples import Samples
from rlnb_widgets.spec_explorer.scene import draw_lane
from rlnb_widgets.spec_explorer.schema import Row, SpecModel
from rlnb_widgets.spec_explorer.text import difference_lines, label, spec_headline

WIDTH = 940
ROW, NODE = 38, 24  # height of a leaf row, and of a row with children
MAX_ROWS = 28
MAX_FINDINGS = 8
MAX_DRAWN = 8
KEY, CLASS, DOMAIN, SPACE = 14, 214, 462, 696
LETTER = 7.2  # width of a letter of a class name
PICTURE = (200.0, 14.0)
GAP = 10.0


def spec_svg(model: SpecModel, samples: Mapping[Path, Samples], seed: int) -> Svg:
    """Draw the first rows with domain, samples and gymnasium space, and the first differences."""
    rows = model.opening
    shown = rows[:MAX_ROWS]
    more = len(rows) - len(shown)
    lines = difference_lines(model)
    below = lines[:MAX_FINDINGS] + ([f"+{len(lines) - MAX_FINDINGS} more"] if len(lines) > MAX_FINDINGS else [])
    height = 66 + sum(map(_height, shown)) + (22 if more else 0) + (18 * len(below) + 10 if below else 0)
    svg = Svg(WIDTH, height, title=f"SpecExplorer: {spec_headline(model)}", desc=spec_words(model))
    svg.text(KEY, 24, "SpecExplorer", size=13, bold=True)
    svg.text(KEY + 100, 24, spec_headline(model), fill="muted", size=12)
    drawn = max((s.draws for s in samples.values()), default=0)
    columns = ((KEY, "key"), (CLASS, "spec"), (DOMAIN, _domain_head(drawn, seed)), (SPACE, "gymnasium space"))
    for x, title in columns:
        svg.text(x, 48, title, fill="muted")
    svg.line(6, 55, WIDTH - 6, 55)
    y = 58.0
    for i, row in enumerate(shown):
        if i % 2:
            svg.rect(6, y, WIDTH - 12, _height(row), fill="panel", rx=3)
        _row(svg, model, row, samples.get(row.path), y)
        y += _height(row)
    if more:
        svg.text(KEY, y + 15, f"+{plural(more, 'more row')}", fill="muted")
        y += 22
    for line in below:
        y += 18
        svg.text(KEY, y, shorten(line, 150), fill="bad")
    return svg


def _height(row: Row) -> int:
    # the kind of a difference is written below the key
    return ROW if row.leaf or row.differences else NODE


def _domain_head(drawn: int, seed: int) -> str:
    return f"domain, {plural(drawn, 'random sample')} (seed {seed})" if drawn else "domain"


def _row(svg: Svg, model: SpecModel, row: Row, samples: Samples | None, y: float) -> None:
    whole = len(model.opening) == len(model.rows)
    depth = min(len(row.path), 6) if whole else 0
    cell = row.cell
    svg.open(data_key=label(model, row))
    ink = "bad" if row.differences else "ink"
    key = visible(row.path[-1], 26 - 2 * depth) if row.path else model.name
    svg.text(KEY + 12 * depth, y + 16, key, bold=not row.leaf, size=12, fill=ink)
    if row.differences:
        svg.text(KEY + 12 * depth, y + 30, row.differences[0].kind, fill="bad", size=10)
    elif not whole and len(row.path) > 1:
        svg.text(KEY, y + 30, shorten(path_text(row.path[:-1]), 32), fill="muted", size=10)
    svg.text(CLASS, y + 16, cell.kind, size=12)
    x, below = (CLASS, y + 30) if row.leaf else (CLASS + LETTER * len(cell.kind) + 8, y + 16)
    svg.text(x, below, cell.dtype, fill="muted", size=10, mono=True)
    if cell.dtype or cell.dims:
        write_shape(svg, cell.dims, x + (CHAR * (len(cell.dtype) + 1) if cell.dtype else 0), below)
    lanes = cell.domain.lanes
    text_y = y + 30 if lanes else y + 16
    _lanes(svg, lanes, samples, y)
    svg.text(DOMAIN, text_y, shorten(visible(cell.domain.text, 200), 38), fill="muted", size=10, mono=True)
    _space(svg, row, y)
    svg.close()


def _lanes(svg: Svg, lanes: tuple[Lane, ...], samples: Samples | None, y: float) -> None:
    drawn, display = lanes[:MAX_DRAWN], Display(PICTURE[1] + 8)
    width, height = PICTURE
    each = (width + GAP) / max(len(drawn), 1)
    for i, lane in enumerate(drawn):
        levels = samples.levels[i] if samples is not None and i < len(samples.levels) else ()
        draw_lane(display, lane, levels, (DOMAIN + i * each, 4, each - GAP, height))
    if drawn:
        draw_display(svg, display, y=y, margin=0)


def _space(svg: Svg, row: Row, y: float) -> None:
    cell = row.cell
    if cell.why:
        svg.text(SPACE, y + 16, "none", fill="muted", size=10, mono=True)
        if row.leaf:
            svg.text(SPACE, y + 30, shorten(cell.why, 46), fill="muted", size=9)
        return
    text = visible(cell.space.partition("(")[0] if cell.domain.kind == "composite" else cell.space, 400)
    for i, line in enumerate(textwrap.wrap(text, 39, max_lines=2, placeholder="…")):
        svg.text(SPACE, y + 16 + 14 * i, line, size=10, mono=True)
