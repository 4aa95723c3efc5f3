"""Bars of the static SVG: draws against expected draws, and priorities, in ring order."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.svg import Svg, coordinate
from rlnb_widgets._core.text import number
from rlnb_widgets.buffer_explorer.schema import Moment

_LEFT, _TALL, _ROW = 118.0, 44.0, 62.0


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


def draw_bars(svg: Svg, moment: Moment, order: str, y: float, width: float) -> None:
    """Draw the bars from ``y`` down."""
    first = moment.grid.cell(moment.ring.first) if order == "chronological" else 0
    step = (width - _LEFT - 12) / moment.grid.cells
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
        svg.line(_LEFT, y + _TALL, width - 12, y + _TALL)
        y += _ROW
