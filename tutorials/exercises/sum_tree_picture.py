"""A sum tree, each node as wide as its sum: a number that is drawn is a place, and below it lies its leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlnb_widgets._core.svg import Svg, image_tag
from rlnb_widgets._core.text import number

_WIDTH, _TALL, _EDGE, _HEAD = 560, 26, 10, 24


@dataclass(frozen=True, repr=False)
class SumTreePicture:
    """The levels of a sum tree, a number drawn, and the leaf that somebody found.

    Args:
        levels: the sums, level by level, the root first; the leaves are the last.
        mass: the number drawn, from 0 to the sum of all.
        found: the leaf to be marked, if there is one.

    Example:
        >>> SumTreePicture([[4.0], [1.0, 3.0]], mass=2.5, found=0)
        4
        1 3
        2.5 lies above leaf 1; marked is leaf 0
    """

    levels: Sequence[Sequence[float]]
    mass: float
    found: int | None = None

    def __repr__(self) -> str:
        lines = [" ".join(number(value, 3) for value in level) for level in self.levels]
        marked = "" if self.found is None else f"; marked is leaf {self.found}"
        return "\n".join([*lines, f"{number(self.mass, 3)} lies above leaf {self._leaf()}{marked}"])

    def _leaf(self) -> int:
        total = 0.0
        for leaf, value in enumerate(self.levels[-1]):
            total += value
            if self.mass < total:
                return leaf
        return len(self.levels[-1]) - 1

    def _repr_html_(self) -> str:
        return image_tag(str(self._svg()), repr(self))

    def _svg(self) -> Svg:
        svg = Svg(_WIDTH, _HEAD + _TALL * (len(self.levels) + 1) + _EDGE, title="a sum tree")
        scale = (_WIDTH - 2 * _EDGE) / self.levels[0][0]
        svg.text(_EDGE, 15, "Each node is as wide as its sum. The line is the number drawn.", size=11, fill="muted")
        for depth, level in enumerate(self.levels):
            self._draw(svg, level, _HEAD + depth * _TALL, scale, last=depth == len(self.levels) - 1)
        x, bottom = _EDGE + self.mass * scale, _HEAD + len(self.levels) * _TALL
        svg.line(x, _HEAD - 4, x, bottom + 2, stroke="accent", stroke_width=2.5)
        svg.text(x, bottom + 16, number(self.mass, 3), fill="accent", anchor="middle", bold=True)
        return svg

    def _draw(self, svg: Svg, level: Sequence[float], top: float, scale: float, last: bool) -> None:
        left = float(_EDGE)
        for place, value in enumerate(level):
            wide = value * scale
            marked = last and place == self.found
            if wide:
                svg.rect(left, top, wide - 1, _TALL - 3, fill="bad" if marked else "panel", rx=2)
            if wide > 24:
                role = "paper" if marked else "ink"
                svg.text(left + wide / 2, top + 15, number(value, 3), anchor="middle", fill=role)
            left += wide
