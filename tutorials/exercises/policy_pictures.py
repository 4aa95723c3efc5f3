"""Pictures of policy gradients: the slope of the return, the spread of its estimates, and curves of trainings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from rlnb_widgets._core.svg import Svg

from .curves import Curves, _ticks
from .measured_bars import measured_tag

_WIDTH, _EDGE, _LEFT, _TITLE, _AXIS = 660.0, 10.0, 34.0, 56.0, 34.0
_HIGH, _ROW, _BINS = 250.0, 74.0, 48
_REACH = 0.55  # how far the lines of slopes go on both sides of the point
_EPISODES = 40


@dataclass(frozen=True, repr=False)
class Trained:
    """Curves of a training, which differ a little between machines; the text leaves the numbers out.

    Args:
        panels: as of `Curves`.
        x: what the values are counted by.
        first: the x of the first value.
        every: the x from one value to the next.
        levels: as of `Curves`.

    Example:
        >>> Trained({"return": {"with a baseline": [20.0, 90.0]}}, x="update")
        return by update: with a baseline
        the numbers, measured in this run, are in the picture
    """

    panels: Mapping[str, Mapping[str, Sequence[float]]]
    x: str = "update"
    first: float = 1
    every: float = 1
    levels: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [f"{title} by {self.x}: {', '.join(curves)}" for title, curves in self.panels.items()]
        return "\n".join([*lines, "the numbers, measured in this run, are in the picture"])

    def _repr_html_(self) -> str:
        curves = Curves(self.panels, x=self.x, first=self.first, every=self.every, levels=self.levels)
        return measured_tag(curves._svg(), repr(self))


@dataclass(frozen=True, repr=False)
class Slope:
    """The mean return over a parameter, and the slopes that single episodes and all of them propose at one value of it.

    Args:
        theta: values of the parameter, ``[K]``, in order.
        returns: mean return of each.
        at: the value where the episodes were played.
        height: mean return there.
        slopes: what each episode proposes, ``[M]``.

    Example:
        >>> Slope(torch.arange(3.0), torch.tensor([1.0, 2.0, 4.0]), 1.0, 2.0, torch.tensor([0.0, 2.0]))
        mean return over theta from 0 to 2, and the slope at theta = 1 from 2 episodes
        the numbers, measured in this run, are in the picture
    """

    theta: torch.Tensor
    returns: torch.Tensor
    at: float
    height: float
    slopes: torch.Tensor

    def __repr__(self) -> str:
        low, high = float(self.theta[0]), float(self.theta[-1])
        words = f"mean return over theta from {low:g} to {high:g}, and the slope at theta = {self.at:g} "
        return words + f"from {len(self.slopes)} episodes\nthe numbers, measured in this run, are in the picture"

    def _repr_html_(self) -> str:
        return measured_tag(self._svg(), repr(self))

    def _svg(self) -> Svg:
        svg = Svg(_WIDTH, _TITLE + _HIGH + _AXIS, title="mean return over theta", desc=repr(self))
        left, wide = _EDGE + _LEFT, _WIDTH - 2 * _EDGE - _LEFT
        low, high = float(self.theta[0]), float(self.theta[-1])
        top = 1.1 * float(self.returns.max())

        def at(theta: float, value: float) -> tuple[float, float]:
            return left + (theta - low) / (high - low) * wide, _TITLE + (1 - value / top) * _HIGH

        keys = (("mean return at each θ", "c0", 2.0), ("slope from all episodes at one θ", "c1", 3.0))
        x = _EDGE
        for words, role, thick in (*keys, (f"slopes from {_EPISODES} single episodes", "muted", 1.0)):
            svg.line(x, 12, x + 22, 12, stroke=role, stroke_width=thick)
            svg.text(x + 28, 16, words, size=12)
            x += 28 + 6.2 * len(words) + 12
        for value in _ticks(0.0, top):
            svg.line(left, at(low, value)[1], left + wide, at(low, value)[1])
            svg.text(left - 5, at(low, value)[1] + 4, f"{value:.0f}", fill="muted", size=10, anchor="end")
        svg.text(_EDGE, _TITLE - 10, "mean return", bold=True, size=12)
        for theta in range(round(low), round(high) + 1):
            svg.text(at(theta, 0)[0], _TITLE + _HIGH + 14, theta, fill="muted", size=10, anchor="middle")
        svg.text(left + wide / 2, _TITLE + _HIGH + 28, "θ", fill="muted", size=12, anchor="middle")
        for slope in self.slopes[:_EPISODES].tolist():
            svg.polyline(self._tangent(slope, top, at), stroke="muted", stroke_width=1, stroke_opacity=0.45)
        curve = [at(t, r) for t, r in zip(self.theta.tolist(), self.returns.tolist(), strict=True)]
        svg.polyline(curve, stroke="c0", stroke_width=2, stroke_linejoin="round")
        mean = float(self.slopes.mean())
        svg.polyline(self._tangent(mean, top, at, 1.6), stroke="c1", stroke_width=3)
        svg.circle(*at(self.at, float(self.height)), 5, fill="c1")
        return svg

    def _tangent(
        self, slope: float, top: float, at: Callable[[float, float], tuple[float, float]], longer: float = 1.0
    ) -> list[tuple[float, float]]:
        height, reach = float(self.height), _REACH * longer
        if slope:  # within the picture
            reach = min(reach, min(height, top - height) / abs(slope))
        ends = ((self.at + side * reach, height + side * reach * slope) for side in (-1, 1))
        return [at(*end) for end in ends]


@dataclass(frozen=True, repr=False)
class Spread:
    """Histograms of estimates, a row for each kind, on one scale, with their mean and standard deviation.

    Args:
        estimates: by name, the estimates, ``[M]``.
        x: what is estimated.

    Example:
        >>> Spread({"plain": torch.randn(100), "with a baseline": torch.randn(100) / 2}, x="gradient")
        gradient: 100 estimates each, plain and with a baseline
        the numbers, measured in this run, are in the picture
    """

    estimates: Mapping[str, torch.Tensor]
    x: str = "gradient"

    def __repr__(self) -> str:
        count = len(next(iter(self.estimates.values())))
        words = f"{self.x}: {count:,} estimates each, {' and '.join(self.estimates)}"
        return f"{words}\nthe numbers, measured in this run, are in the picture"

    def _repr_html_(self) -> str:
        return measured_tag(self._svg(), repr(self))

    def _svg(self) -> Svg:
        rows = len(self.estimates)
        svg = Svg(_WIDTH, _EDGE + rows * _ROW + _AXIS, title=self.x, desc=repr(self))
        every = torch.cat([values.flatten() for values in self.estimates.values()]).double()
        low, high = (float(every.quantile(q)) for q in (0.005, 0.995))
        wide = _WIDTH - 2 * _EDGE

        def at(value: float) -> float:
            return _EDGE + (value - low) / ((high - low) or 1.0) * wide

        counts = {name: torch.histc(v.double(), _BINS, low, high) for name, v in self.estimates.items()}
        most = max(float(count.max()) for count in counts.values())
        bottom = _EDGE
        for place, (name, values) in enumerate(self.estimates.items()):
            bottom, role = _EDGE + (place + 1) * _ROW, f"c{place % 8}"
            for k, count in enumerate(counts[name].tolist()):
                tall = count / most * (_ROW - 26)
                svg.rect(_EDGE + k * wide / _BINS, bottom - tall, wide / _BINS - 1, tall, fill=role)
            svg.line(_EDGE, bottom, _EDGE + wide, bottom)
            if low < 0 < high:  # below the name
                svg.line(at(0.0), bottom - _ROW + 22, at(0.0), bottom, stroke="muted", stroke_dasharray="2 3")
            mean, deviation = float(values.mean()), float(values.std())
            svg.line(at(mean), bottom - _ROW + 22, at(mean), bottom, stroke="ink", stroke_width=2)
            svg.text(_EDGE, bottom - _ROW + 14, name, bold=True, size=12)
            words = f"mean {mean:.3g}, standard deviation {deviation:.3g}"
            svg.text(_EDGE + wide, bottom - _ROW + 14, words, fill="muted", size=12, anchor="end")
        for value, anchor in ((low, "start"), (high, "end")):
            svg.text(at(value), bottom + 14, f"{value:.3g}", fill="muted", size=10, anchor=anchor)
        if low < 0 < high:
            svg.text(at(0.0), bottom + 14, "0", fill="muted", size=10, anchor="middle")
        svg.text(_EDGE + wide / 2, bottom + 28, self.x, fill="muted", size=11, anchor="middle")
        return svg
