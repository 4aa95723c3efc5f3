"""Curves that a lesson computed, such as rewards over steps or errors over episodes, as a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rlnb_widgets._core.svg import Svg, image_tag
from rlnb_widgets._core.text import number

_WIDTH, _EDGE, _TITLE, _HIGH, _AXIS = 660.0, 10.0, 26.0, 170.0, 36.0
_LEFT, _GAP, _KEY = 34.0, 16.0, 20.0
_MOST = 150  # points of a curve; more of them are averaged in blocks
_LEVEL: dict[str, Any] = {"stroke": "muted", "stroke_width": 1.5, "stroke_dasharray": "4 3"}
_DASHES = (None, "7 3", "2 3", "9 3 2 3")  # with the colours, so that no meaning rests on colour alone


@dataclass(frozen=True, repr=False)
class Curves:
    """Panels side by side, each with curves on one scale; a curve of many points is drawn as means of blocks.

    Args:
        panels: by title, by name of a curve, its values (a list or a tensor of shape ``[N]``). Curves of one name have
            one colour.
        x: what the values are counted by.
        first: the x of the first value.
        every: the x from one value to the next.
        levels: by title, a value to compare with, and what that is.
        limits: by title, the lowest and the highest value that is drawn. Default: what the values need, and 0.

    Example:
        >>> curves = {"greedy": [0.0, 1.0, 1.5], "random": [0.0, 0.1, -0.1]}
        >>> Curves({"reward": curves}, levels={"reward": (2.0, "best")})
        reward, over steps 1 to 3; best: 2.00
          greedy    0.00 ... 1.50
          random    0.00 ... -0.10
    """

    panels: Mapping[str, Mapping[str, Sequence[float]]]
    x: str = "step"
    first: float = 1
    every: float = 1
    levels: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = []
        for title, curves in self.panels.items():
            count = max(len(values) for values in curves.values())
            level = f"; {self.levels[title][1]}: {self.levels[title][0]:.2f}" if title in self.levels else ""
            last = self.first + (count - 1) * self.every
            lines.append(f"{title}, over {self.x}s {number(self.first)} to {number(last)}{level}")
            wide = max(map(len, curves))
            for name, values in curves.items():
                points = _thinned(values)[1]
                lines.append(f"  {name:{wide}}    {_word(points[0])} ... {_word(points[-1])}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return image_tag(str(self._svg()), repr(self))

    def _keys(self) -> list[str]:
        """Return the names of the curves, and then those of the levels."""
        return list(dict.fromkeys([*self._names(), *(words for _, words in self.levels.values())]))

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for curves in self.panels.values() for name in curves))

    def _svg(self) -> Svg:
        names = self._names()
        rows = _key_rows(self._keys())
        top = _EDGE + _KEY * len(rows)
        svg = Svg(_WIDTH, top + _TITLE + _HIGH + _AXIS, title=", ".join(self.panels), desc=repr(self))
        for row, found in enumerate(rows):
            for left, name in found:
                y = _EDGE + _KEY * row + 6
                svg.line(left, y, left + 24, y, **(_line(names.index(name)) if name in names else _LEVEL))
                svg.text(left + 30, y + 4, name, size=12)
        wide = (_WIDTH - 2 * _EDGE) / len(self.panels)
        for place, title in enumerate(self.panels):
            self._panel(svg, title, _EDGE + place * wide + _LEFT, top + _TITLE, wide - _LEFT - _GAP)
        return svg

    def _panel(self, svg: Svg, title: str, left: float, top: float, wide: float) -> None:
        curves, level = self.panels[title], self.levels.get(title)
        thin = {name: _thinned(values) for name, values in curves.items()}
        low, high = self.limits.get(title) or _limits([p for _, p in thin.values()], level)
        count = max(len(values) for values in curves.values())

        def at(i: float, y: float) -> tuple[float, float]:
            share = (min(max(y, low), high) - low) / (high - low) if math.isfinite(y) else math.nan
            return left + i / max(count - 1, 1) * wide, top + (1 - share) * _HIGH

        svg.text(left - _LEFT + 4, top - 10, title, size=13, bold=True)
        for y in _ticks(low, high):
            height = at(0, y)[1]
            svg.line(left, height, left + wide, height)
            svg.text(left - 5, height + 4, f"{y:,g}", fill="muted", size=10, anchor="end")
        for i in (0, (count - 1) // 2, count - 1):
            where = {0: "start", count - 1: "end"}.get(i, "middle")
            words = number(self.first + i * self.every)
            svg.text(at(i, low)[0], top + _HIGH + 14, words, fill="muted", size=10, anchor=where)
        svg.text(left + wide / 2, top + _HIGH + 27, self.x, fill="muted", size=10, anchor="middle")
        if level:
            height = at(0, level[0])[1]
            svg.line(left, height, left + wide, height, **_LEVEL)
        for name, (index, points) in thin.items():
            line = [at(i, y) for i, y in zip(index, points, strict=True)]
            svg.polyline(line, stroke_linejoin="round", **_line(self._names().index(name)))


def _line(place: int) -> dict[str, Any]:
    dash = _DASHES[place % len(_DASHES)]
    return {"stroke": f"c{place % 8}", "stroke_width": 2} | ({} if dash is None else {"stroke_dasharray": dash})


def _word(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00") if math.isfinite(value) else "no number"


def _thinned(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the places and means of blocks of values, at most `_MOST` of them."""
    numbers = np.array([float(value) for value in values])
    blocks = np.array_split(np.arange(len(numbers)), min(len(numbers), _MOST))
    places = [float(block.mean()) for block in blocks]
    places[0], places[-1] = 0.0, float(len(numbers) - 1)
    return places, [float(numbers[block].mean()) for block in blocks]


def _limits(curves: Sequence[Sequence[float]], level: tuple[float, str] | None) -> tuple[float, float]:
    shown = [y for points in curves for y in points if math.isfinite(y)] + ([level[0]] if level else []) + [0.0]
    low, high = min(shown), max(shown)
    if low == high:
        return 0.0, 1.0
    room = 0.06 * (high - low)
    return (low - room if low < 0 else 0.0), (high + room if high > 0 else 0.0)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from low to high, three to six of them."""
    power = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = next(s * power for s in (5, 2, 1) if (high - low) / (s * power) >= 2.5)
    return [round(k * step, 10) for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _key_rows(names: Sequence[str]) -> list[list[tuple[float, str]]]:
    """Place the names of the curves in rows: lists of (x, name)."""
    rows: list[list[tuple[float, str]]] = [[]]
    left = _EDGE
    for name in names:
        wide = 30 + 6.6 * len(name) + 22
        if rows[-1] and left + wide > _WIDTH:
            rows.append([])
            left = _EDGE
        rows[-1].append((left, name))
        left += wide
    return rows
