"""What a training run measured: curves over its rounds, and games won, drawn and lost, as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import number

from .measured_bars import measured_tag

_WIDTH, _EDGE = 640, 10
_HIGH, _TITLE, _AXIS, _LEFT, _GAP = 130, 22, 30, 34, 16
_TALL, _LABEL = 24, 250
_OUTCOMES = (("won", "c0"), ("drawn", "c7"), ("lost", "c1"))


@dataclass(frozen=True, repr=False)
class MeasuredCurves:
    """Curves side by side, each on a scale of its own from 0; the text face leaves the numbers out.

    Args:
        curves: by name, the points (round, value), in order.
        levels: by name of a curve, a value to compare it with, and what that is.
        high: by name of a curve, the top of its scale; else it is the largest value.

    Example:
        >>> MeasuredCurves({"loss": [(1, 0.9), (2, 0.4)]}, levels={"loss": (1.0, "a guess")})
        loss: rounds 1 to 2, beside a guess
        the numbers, measured in this run, are in the picture
    """

    curves: Mapping[str, Sequence[tuple[float, float]]]
    levels: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = []
        for name, points in self.curves.items():
            beside = f", beside {self.levels[name][1]}" if name in self.levels else ""
            lines.append(f"{name}: rounds {number(points[0][0])} to {number(points[-1][0])}{beside}")
        return "\n".join([*lines, "the numbers, measured in this run, are in the picture"])

    def _repr_html_(self) -> str:
        return measured_tag(self._svg(), repr(self))

    def _svg(self) -> Svg:
        svg = Svg(_WIDTH, _TITLE + _HIGH + _AXIS + _EDGE, title=", ".join(self.curves))
        wide = (_WIDTH - 2 * _EDGE) / len(self.curves)
        for place, name in enumerate(self.curves):
            self._panel(svg, name, _EDGE + place * wide + _LEFT, wide - _LEFT - _GAP)
        return svg

    def _panel(self, svg: Svg, name: str, left: float, wide: float) -> None:
        points, level = self.curves[name], self.levels.get(name)
        values = [value for _, value in points] + ([level[0]] if level else [])
        high = self.high.get(name, max(values) * 1.05 or 1.0)
        first, last = points[0][0], points[-1][0]
        bottom = _TITLE + _HIGH

        def at(x: float, y: float) -> tuple[float, float]:
            return left + (x - first) / max(last - first, 1) * wide, bottom - y / high * _HIGH

        svg.text(left - _LEFT + 8, 14, name, bold=True)
        for share in (0.0, 0.5, 1.0):
            _, y = at(first, share * high)
            svg.line(left, y, left + wide, y)
            svg.text(left - 5, y + 4, number(share * high, 2), fill="muted", size=10, anchor="end")
        for x in (first, last):
            svg.text(at(x, 0)[0], bottom + 14, number(x), fill="muted", size=10, anchor="middle")
        svg.text(left + wide / 2, bottom + 14, "round", fill="muted", size=10, anchor="middle")
        if level:
            _, y = at(first, level[0])
            svg.line(left, y, left + wide, y, stroke="muted", stroke_dasharray="4 3")
            svg.text(left + wide, y + (13 if y < _TITLE + 16 else -4), level[1], fill="muted", size=10, anchor="end")
        svg.polyline([at(x, y) for x, y in points], stroke="accent", stroke_width=2)
        for x, y in points:
            svg.circle(*at(x, y), 2.5, fill="accent")


@dataclass(frozen=True, repr=False)
class MeasuredGames:
    """Games won, drawn and lost, a bar for each pairing; the text face leaves the numbers out.

    Args:
        results: by pairing, how many games were won, drawn and lost.

    Example:
        >>> MeasuredGames({"trained against random moves": (95, 1, 4)})
        trained against random moves: 100 games
        won, drawn and lost, measured in this run, are in the picture
    """

    results: Mapping[str, Sequence[int]]

    def __repr__(self) -> str:
        lines = [f"{name}: {sum(found)} games" for name, found in self.results.items()]
        return "\n".join([*lines, "won, drawn and lost, measured in this run, are in the picture"])

    def _repr_html_(self) -> str:
        return measured_tag(self._svg(), repr(self))

    def _svg(self) -> Svg:
        top = _EDGE + 20
        svg = Svg(_WIDTH, top + _TALL * len(self.results) + _EDGE, title="games won, drawn and lost")
        left = float(_LABEL)
        for word, role in _OUTCOMES:
            svg.rect(left, _EDGE, 10, 10, fill=role, rx=2)
            svg.text(left + 15, _EDGE + 9, word, fill="muted")
            left += 70
        for row, (name, found) in enumerate(self.results.items()):
            y, left = top + row * _TALL, float(_LABEL)
            scale = (_WIDTH - _LABEL - _EDGE) / sum(found)
            svg.text(_LABEL - 8, y + 15, name, anchor="end")
            for count, (_, role) in zip(found, _OUTCOMES, strict=True):
                wide = count * scale
                svg.rect(left, y + 2, wide - 1, _TALL - 6, fill=role, rx=2)
                if wide > 30:
                    svg.text(left + 6, y + 15, str(count), fill="paper", bold=True)
                left += wide
        middle = _LABEL + (_WIDTH - _LABEL - _EDGE) / 2
        for row in range(len(self.results) + 1):  # between the bars, where it crosses no number
            svg.line(middle, top + row * _TALL - 5, middle, top + row * _TALL + 3, stroke="ink", stroke_width=1.5)
        return svg
