"""Building blocks of scenes: paper, flags, and arrows and arcs whose length shows a number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb_widgets.scenes.inputs import Floats
from rlnb_widgets.scenes.scene import Part, Shape

#: The one stroke weight: a hairline at 160 pixels, clear at 480.
STROKE = 4.0

# A part moves but does not stretch, so an arrow of any length is this many stiff pieces that overlap.
_PIECES = 6
_HEAD = 15.0


def paper(width: float, height: float) -> Shape:
    """Return the background of a picture, so that it is readable on any page."""
    return Shape("rect", (0, 0, width, height), fill="paper")


def text(x: float, y: float, size: float, words: str, role: str = "muted") -> Shape:
    """Return words centred at (x, y)."""
    return Shape("text", (x, y, size), fill=role, text=words)


def flag(x: float, y: float, height: float) -> tuple[Shape, ...]:
    """Return a goal flag whose pole stands at (x, y)."""
    top, cloth = y - height, height * 0.5
    return (
        Shape("line", (x, y, x, top), stroke="ink", stroke_width=min(STROKE, height * 0.12)),
        Shape("polygon", (x, top, x + cloth * 1.4, top + cloth / 2, x, top + cloth), fill="good"),
    )


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
    shaft = Shape("rect", (0, -3, piece + 1, 6), fill="second")
    head = Shape("polygon", (0, -10, _HEAD, 0, 0, 10), fill="second")
    return (*(Part(f"arrow {k + 1}", (shaft,)) for k in range(_PIECES)), Part("arrow head", (head,)))


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
    band = Shape("polygon", tuple(np.concatenate(ring).round(2).ravel().tolist()), fill="second")
    parts = [Part(f"arc {k + 1}", (band,)) for k in range(_PIECES)]
    for name, turn in (("clockwise", 1.0), ("anticlockwise", -1.0)):
        tip = Shape("polygon", (radius - 10, 0, radius, turn * _HEAD, radius + 10, 0), fill="second")
        parts.append(Part(f"arc head {name}", (tip,)))
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
