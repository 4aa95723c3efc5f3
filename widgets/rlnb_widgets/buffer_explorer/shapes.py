"""Geometry of the ring: slots, angles, and the shapes of cells and arcs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlnb_widgets._core.svg import coordinate
from rlnb_widgets.buffer_explorer.schema import Moment

_GAP, _MOST_GAPS = 0.12, 128


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
        gap = _GAP if self.cells <= _MOST_GAPS else 0.0
        return 2 * math.pi * slot / self.cells, 2 * math.pi * (slot + 1 - gap) / self.cells

    def angle(self, row: float) -> float:
        """Return the start of a row."""
        # By cells where each is a row, so that both begin at the same place.
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
