"""Drawing of one lane of a domain with its samples: an interval, ticks, cells or bits."""

from __future__ import annotations

from collections.abc import Sequence

from rlnb_widgets._core.svg import Svg, box_path
from rlnb_widgets.spec_explorer.ends import ends_of
from rlnb_widgets.spec_explorer.samples import LEVELS
from rlnb_widgets.spec_explorer.schema import Lane

Box = tuple[float, float, float, float]
BAR = 0.6  # opacity of the bars


def draw_lane(svg: Svg, lane: Lane, levels: Sequence[int], box: Box) -> None:
    """Draw a lane in a box (x, y, width, height), with bars of the given heights from 0 to 99."""
    if lane.kind == "line":
        _line(svg, lane, levels, box)
    elif lane.kind == "choices":
        _choices(svg, lane, levels, box)
    else:
        _cells(svg, lane, levels, box)


def _line(svg: Svg, lane: Lane, levels: Sequence[int], box: Box) -> None:
    x, y, w, h = box
    base = y + h - 1.5
    left, right = ends_of(lane)
    a, b = x + w * (0 if left is None else left), x + w * (1 if right is None else right)
    _bars(svg, levels, (a, y, b - a, h - 1.5))
    svg.line(a, base, b, base, stroke="ink", stroke_width=1.4)
    size = min(4.0, h / 2)
    for at, end, way in ((a, left, 1), (b, right, -1)):
        if end is not None:
            svg.line(at, base - size, at, min(base + size, y + h), stroke="ink", stroke_width=1.4)
        else:
            svg.polygon([(at - way * 2, base), (at + way * 4, base - size * 0.8), (at + way * 4, base + size * 0.8)])


def _bars(svg: Svg, levels: Sequence[int], box: Box) -> None:
    """Draw all bars as one path, which keeps the SVG small."""
    if not any(levels):
        return
    x, y, w, h = box
    step = w / len(levels)
    parts = []
    for i, level in enumerate(levels):
        if level:
            tall = max(h * level / LEVELS, 0.6)
            parts.append(box_path(x + i * step, y + h - tall, step, tall))
    svg.path("".join(parts), fill="accent", fill_opacity=BAR)


def _choices(svg: Svg, lane: Lane, levels: Sequence[int], box: Box) -> None:
    x, y, w, h = box
    step, base = w / lane.n, y + h - 2.5
    svg.line(x, base, x + w, base, stroke="line")
    for i in range(lane.n):
        middle = x + (i + 0.5) * step
        if i < len(levels) and levels[i]:
            tall = (h - 3) * levels[i] / LEVELS
            wide = min(step * 0.6, 12)
            svg.rect(middle - wide / 2, base - tall, wide, tall, fill="accent", fill_opacity=BAR)
        if i in lane.barred:
            _cross(svg, middle, base, min(2.5, h / 3, step * 0.4))
        else:
            svg.circle(middle, base, min(2.4, h / 3, step * 0.4))


def _cells(svg: Svg, lane: Lane, levels: Sequence[int], box: Box) -> None:
    x, y, w, h = box
    n = min(lane.n, max(len(levels), 24))
    step = min(w / n, 28.0)
    gap = 2.0 if lane.kind == "bits" and step > 6 else 0.0
    for i in range(n):
        left = x + i * step
        if i < len(levels) and levels[i]:
            svg.rect(left, y, step - gap, h, fill="accent", fill_opacity=0.06 + 0.44 * levels[i] / LEVELS)
        svg.rect(left, y, step - gap, h, fill=None, stroke="ink", stroke_width=0.8)
        if i in lane.barred and n == lane.n:
            svg.line(left, y + h, left + step - gap, y, stroke="bad", stroke_width=1.4)


def _cross(svg: Svg, x: float, y: float, r: float) -> None:
    svg.line(x - r, y - r, x + r, y + r, stroke="bad", stroke_width=1.4)
    svg.line(x - r, y + r, x + r, y - r, stroke="bad", stroke_width=1.4)
