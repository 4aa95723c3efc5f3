"""Display list of one lane of a domain with its samples: an interval, choices, cells or bits.

``lanes.js`` makes the same marks in the page, where samples and the tried value change.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlnb_widgets._core.display import Display
from rlnb_widgets._core.spec_domain import Lane
from rlnb_widgets.spec_explorer.ends import ends_of
from rlnb_widgets.spec_explorer.samples import LEVELS

Box = tuple[float, float, float, float]
BAR = 0.6  # opacity of the bars
MOST_CELLS, CELL = 24, 28.0


def draw_lane(display: Display, lane: Lane, levels: Sequence[int], box: Box) -> None:
    """Draw a lane in a low box (x, y, width, height), with bars of the given heights from 0 to 99."""
    draw = {"line": _line, "choices": _choices}.get(lane.kind, _cells)
    draw(display, lane, levels, box)


def _line(display: Display, lane: Lane, levels: Sequence[int], box: Box) -> None:
    x, y, w, h = box
    base, size = y + h - 2, min(5.0, h / 2)
    left, right = ends_of(lane)
    a, b = x + w * (0 if left is None else left), x + w * (1 if right is None else right)
    step = (b - a) / max(len(levels), 1)
    if any(levels):
        # Bars that touch are one outline, which keeps the SVG small and shows no seams between them.
        points = [(a, base)]
        for i, level in enumerate(levels):
            top = base - max((h - 2) * level / LEVELS, 1.0) if level else base
            points += [(a + i * step, top), (a + (i + 1) * step, top)]
        display.poly([*points, (b, base)], fill="accent", opacity=BAR)
    display.line(a, base, b, base, "ink", 1.5)
    for at, end, way in ((a, left, 1), (b, right, -1)):
        if end is None:
            wing = at + way * 5
            display.poly([(at - way * 2, base), (wing, base - size * 0.8), (wing, base + size * 0.8)], fill="ink")
        else:
            display.line(at, base - size, at, min(base + size, y + h), "ink", 1.5)


def _choices(display: Display, lane: Lane, levels: Sequence[int], box: Box) -> None:
    x, y, w, h = box
    step, base = w / lane.n, y + h - 3
    wide, r = min(step * 0.6, 16), min(3, h / 3, step * 0.4)
    display.line(x, base, x + w, base, "line", 1)
    for i in range(lane.n):
        middle = x + (i + 0.5) * step
        if i < len(levels) and levels[i]:
            tall = (h - 4) * levels[i] / LEVELS
            display.box(middle - wide / 2, base - tall, wide, tall, "accent", opacity=BAR)
        if i in lane.barred:
            display.glyph(middle, base, "cross", 2 * r, "bad")
        else:
            display.disc(middle, base, r * 0.85, "ink")


def _cells(display: Display, lane: Lane, levels: Sequence[int], box: Box) -> None:
    x, y, w, h = box
    n = min(lane.n, MOST_CELLS)
    step = min(w / n, max(CELL, h * 1.5))
    gap = 3.0 if lane.kind == "bits" and step > 6 else 0.0
    for i in range(n):
        left = x + i * step
        if i < len(levels) and levels[i]:
            display.box(left, y, step - gap, h, "accent", opacity=0.06 + 0.44 * levels[i] / LEVELS)
        display.box(left + 0.5, y + 0.5, step - gap - 1, h - 1, stroke="ink", opacity=0.8)
        if i in lane.barred and n == lane.n:
            display.line(left, y + h, left + step - gap, y, "bad", 1.6)
