"""Building blocks of scenes: marks, flags, and arrows and arcs whose length shows a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb_widgets._core.display import Display, Mark
from rlnb_widgets.scenes.inputs import Floats
from rlnb_widgets.scenes.scene import Part

#: The one stroke weight: a hairline at 160 pixels, clear at 480.
STROKE = 4.0

# A part moves but does not stretch, so an arrow of any length is this many stiff pieces that overlap.
_PIECES = 6
_HEAD = 15.0


def _mark(draw: Callable[..., None], *at: Any, stroke: str | None = None, width: float = STROKE, **style: Any) -> Mark:
    """Return the mark that a method of `Display` adds."""
    outline = {} if stroke is None else {"stroke": stroke, "width": width}
    draw(display := Display(0), *at, **outline, **style)
    return display.marks[0]


def box(x: float, y: float, w: float, h: float, fill: str | None = None, **style: Any) -> Mark:
    """Return a rectangle; ``style`` holds the role ``stroke`` of its outline, its ``width`` and ``radius``."""
    return _mark(Display.box, x, y, w, h, fill, **style)


def disc(x: float, y: float, r: float, fill: str | None = None, **style: Any) -> Mark:
    """Return a disc around (x, y); ``style`` holds the role ``stroke`` of its outline, and its ``width``."""
    return _mark(Display.disc, x, y, r, fill, **style)


def line(x: float, y: float, x2: float, y2: float, stroke: str, width: float = STROKE) -> Mark:
    """Return a line with round ends."""
    return _mark(Display.line, x, y, x2, y2, stroke=stroke, width=width, round=True)


def polygon(points: Sequence[Sequence[float]], fill: str | None = None, **style: Any) -> Mark:
    """Return a polygon through points (x, y) with round corners; ``style`` as for `disc`."""
    return _mark(Display.poly, points, fill, **style, closed=True, round=True)


def text(x: float, y: float, size: float, words: str, role: str = "muted") -> Mark:
    """Return words centred at (x, y)."""
    # Letters reach from their baseline to 0.72 of their size.
    return _mark(Display.text, x, y + 0.36 * size, words, role, size, anchor="middle", bold=True)


def paper(width: float, height: float) -> Mark:
    """Return the background of a picture, so that it is readable on any page."""
    return box(0, 0, width, height, "paper")


def flag(x: float, y: float, height: float) -> list[Mark]:
    """Return a goal flag whose pole stands at (x, y)."""
    top, cloth = y - height, height * 0.5
    return [
        line(x, y, x, top, "ink", min(STROKE, height * 0.12)),
        polygon([(x, top), (x + cloth * 1.4, top + cloth / 2), (x, top + cloth)], "good"),
    ]


def pose(x: Any, y: Any, angle: Any, shown: npt.NDArray[np.bool_] | bool = True) -> npt.NDArray[np.float32]:
    """Return poses [N, 3] from broadcastable columns, NaN where not `shown`."""
    columns = np.broadcast_arrays(x, y, angle, shown)
    out = np.stack(columns[:3], axis=-1).astype(np.float32)
    out[~columns[3]] = np.nan
    return out


def stack(frames: int, *poses: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return poses [N, P, 3] from one [N, 3] (or [1, 3]) per part."""
    return np.stack([np.broadcast_to(p, (frames, 3)) for p in poses], axis=1)


def arrow_parts(length: float) -> tuple[Part, ...]:
    """Return the pieces of a straight arrow that is at most `length` long and points right at angle 0."""
    piece = (length - _HEAD) / _PIECES
    # Each piece reaches a little under the next, or hairlines of paper would show between them.
    shaft = box(0, -3, piece + 1, 6, "second")
    head = polygon([(0, -10), (_HEAD, 0), (0, 10)], "second")
    return (*(Part(f"arrow {k + 1}", [shaft]) for k in range(_PIECES)), Part("arrow head", [head]))


def arrow_poses(value: Floats, x: Any, y: Any, angle: Any, length: float) -> tuple[npt.NDArray[np.float32], ...]:
    """Return the poses of :func:`arrow_parts` for arrows that start at (x, y), one [N, 3] array per part.

    ``value`` is the signed share of the full length, in [-1, 1], [N]; 0 and NaN hide the arrow. ``angle`` is the
    direction of positive values in radians, clockwise on the screen.
    """
    heading = angle + np.where(value < 0, math.pi, 0.0)
    cos, sin = np.cos(heading), np.sin(heading)
    shown = np.nan_to_num(value) != 0
    piece = (length - _HEAD) / _PIECES
    shaft = np.abs(value) * (length - _HEAD)
    out = []
    for k in range(_PIECES):
        along = (shaft - piece) * k / (_PIECES - 1)
        out.append(pose(x + along * cos, y + along * sin, heading, shown & (np.nan_to_num(shaft) >= piece)))
    return (*out, pose(x + shaft * cos, y + shaft * sin, heading, shown))


def arc_parts(radius: float, sweep: float) -> tuple[Part, ...]:
    """Return the pieces of a round arrow of at most `sweep` radians, drawn clockwise and anticlockwise."""
    step = sweep / _PIECES
    # Each band reaches a little under the next, or hairlines of paper would show between them.
    angles = np.linspace(-0.02, step + 0.02, 5)
    ring = [np.stack([r * np.cos(a), r * np.sin(a)], -1) for r, a in ((radius + 3, angles), (radius - 3, angles[::-1]))]
    band = polygon(np.concatenate(ring).round(2).tolist(), "second")
    parts = [Part(f"arc {k + 1}", [band]) for k in range(_PIECES)]
    for name, turn in (("clockwise", 1.0), ("anticlockwise", -1.0)):
        tip = polygon([(radius - 10, 0), (radius, turn * _HEAD), (radius + 10, 0)], "second")
        parts.append(Part(f"arc head {name}", [tip]))
    return tuple(parts)


def arc_poses(value: Floats, x: Any, y: Any, start: Any, sweep: float) -> tuple[npt.NDArray[np.float32], ...]:
    """Return the poses of :func:`arc_parts` for arcs around (x, y), one [N, 3] array per part.

    ``value`` is the signed share of the full sweep, in [-1, 1], [N]; positive values turn clockwise on the screen from
    the angle ``start``, 0 and NaN hide the arc.
    """
    step = sweep / _PIECES
    size = np.abs(value) * sweep
    shown = np.nan_to_num(value) != 0
    sign = np.sign(value)
    out = []
    for k in range(_PIECES):
        # The band grows clockwise from its pose; mirrored, it starts one step further on.
        along = (size - step) * k / (_PIECES - 1)
        angle = start + np.where(sign < 0, -along - step, along)
        out.append(pose(x, y, angle, shown & (np.nan_to_num(size) >= step)))
    end = start + sign * size
    return (*out, pose(x, y, end, shown & (sign > 0)), pose(x, y, end, shown & (sign < 0)))
