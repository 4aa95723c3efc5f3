"""Two pendulums in one picture, a real one and one that a world model imagines, and the step at which they part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlnb_widgets import Flipbook
from rlnb_widgets._core.svg import Svg, image_tag

_WIDE, _ROD, _TOP, _LEFT, _STRIP, _HIGH = 660.0, 74.0, 112.0, 40.0, 232.0, 84.0


def turn(one: float, other: float) -> float:
    """Return how far two angles are apart, the shorter way round (rad).

    Example:
        >>> round(turn(3.1, -3.1), 2)
        0.08
    """
    return abs((one - other + math.pi) % (2 * math.pi) - math.pi)


@dataclass(frozen=True, repr=False)
class Rods:
    """A real and an imagined pendulum at one step; below, how far they are apart over time.

    Args:
        real: angles of the real one (rad; 0 is upright, and they grow anticlockwise), one for each step.
        dream: the same of the imagined one.
        t: which step is drawn.
        limit: from how far apart on they have parted (rad).
        parted: the first such step; None: they stay together.

    Example:
        >>> Rods([0.0, 0.5, 1.0], [0.0, 0.4, 0.3], t=1, limit=0.6, parted=2)
        step 1: reality at 29 degrees, the dream at 23, 6 apart; they part at step 2
    """

    real: Sequence[float]
    dream: Sequence[float]
    t: int
    limit: float
    parted: int | None

    def __repr__(self) -> str:
        one, other = self.real[self.t], self.dream[self.t]
        degrees = (f"{math.degrees(angle):.0f}" for angle in (one, other, turn(one, other)))
        end = "they stay together" if self.parted is None else f"they part at step {self.parted}"
        return "step {}: reality at {} degrees, the dream at {}, {} apart; {}".format(self.t, *degrees, end)

    def _repr_html_(self) -> str:
        return image_tag(str(self._svg()), repr(self))

    def _svg(self) -> Svg:
        svg = Svg(_WIDE, _STRIP + _HIGH + 34, title="A real and an imagined pendulum", desc=repr(self))
        self._rod(svg, _WIDE / 4, "reality", self.real[self.t], "c0")
        self._rod(svg, 3 * _WIDE / 4, "dream", self.dream[self.t], "c1", ghost=self.real[self.t])
        self._strip(svg)
        return svg

    def _rod(self, svg: Svg, x: float, name: str, angle: float, role: str, ghost: float | None = None) -> None:
        apart = ghost is not None and self.parted is not None and self.t >= self.parted
        svg.text(x, 18, f"{name}, apart since step {self.parted}" if apart else name, anchor="middle", bold=True,
                 fill="bad" if apart else "ink", size=13)  # fmt: skip
        svg.circle(x, _TOP, _ROD + 8, fill=None, stroke="line")
        if ghost is not None:  # where the real one is
            svg.line(x, _TOP, *_tip(x, ghost), stroke="c0", stroke_width=2, stroke_dasharray="4 4")
        svg.line(x, _TOP, *_tip(x, angle), stroke=role, stroke_width=10, stroke_linecap="round")
        svg.circle(x, _TOP, 4, fill="ink")

    def _strip(self, svg: Svg) -> None:
        right, low = _WIDE - 10, _STRIP + _HIGH
        wide = right - _LEFT

        def at(step: float, gap: float) -> tuple[float, float]:
            return _LEFT + wide * step / max(len(self.real) - 1, 1), low - _HIGH * gap / math.pi

        svg.text(_LEFT, _STRIP - 8, "degrees apart", size=11, fill="muted")
        for degrees in (0, 90, 180):
            y = at(0, math.radians(degrees))[1]
            svg.line(_LEFT, y, right, y, stroke="line")
            svg.text(_LEFT - 6, y + 4, degrees, size=10, fill="muted", anchor="end")
        y = at(0, self.limit)[1]
        svg.line(_LEFT, y, right, y, stroke="muted", stroke_dasharray="4 3")
        gaps = [turn(one, other) for one, other in zip(self.real, self.dream, strict=True)]
        svg.polyline([at(step, gap) for step, gap in enumerate(gaps)], stroke="c1", stroke_width=2)
        if self.parted is not None:
            x = at(self.parted, 0)[0]
            svg.line(x, _STRIP - 4, x, low, stroke="bad", stroke_width=2)
            words = f"they part: step {self.parted}"
            if x > _WIDE / 2:
                svg.text(x + 4, _STRIP - 8, words, fill="bad", bold=True, anchor="end")
            else:  # to the right of the title
                svg.text(max(x - 4, _LEFT + 100), _STRIP - 8, words, fill="bad", bold=True)
        x, y = at(self.t, gaps[self.t])
        svg.line(x, _STRIP, x, low, stroke="accent")
        svg.circle(x, y, 4, fill="accent")
        for step in (0, len(self.real) - 1):
            svg.text(at(step, 0)[0], low + 14, step, size=10, fill="muted", anchor="start" if step == 0 else "end")
        svg.text(_LEFT + wide / 2, low + 26, "step", size=10, fill="muted", anchor="middle")


def _tip(x: float, angle: float) -> tuple[float, float]:
    return x - _ROD * math.sin(angle), _TOP - _ROD * math.cos(angle)


def rods(real: Any, dream: Any, parted: int | None, limit: float, fps: float = 20.0) -> Flipbook:
    """Show a real and an imagined pendulum under one playhead, with the step at which they part.

    Args:
        real: angles of the real one, a tensor of shape ``[time]`` (rad).
        dream: those of the imagined one.
        parted: the step at which they part, or None.
        limit: from how far apart on they have parted (rad).
        fps: steps a second.

    Returns:
        A :class:`~rlnb_widgets.Flipbook` with a picture for each step.

    Example:
        >>> import torch
        >>> rods(torch.zeros(3), torch.tensor([0.0, 0.1, 1.0]), 2, 0.5)
        Flipbook: step 0 of 2
        step 0: reality at 0 degrees, the dream at 0, 0 apart; they part at step 2
    """
    one, other = real.flatten().tolist(), dream.flatten().tolist()
    pictures = [Rods(one, other, t, limit, parted) for t in range(len(one))]
    return Flipbook(pictures, unit="step", fps=fps)
