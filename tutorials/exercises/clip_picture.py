"""PPO's clipped objective over the ratio, for both signs of the advantage, above the ratios of a real batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from rlnb_widgets._core.svg import Svg

from .measured_bars import measured_tag

_WIDTH, _EDGE, _LEFT, _GAP = 660.0, 10.0, 92.0, 24.0
_TOP, _HIGH, _ROW, _BINS = 56.0, 96.0, 50.0, 40
_LOW, _MOST = 0.4, 1.6  # the ratios that are drawn; those beyond are counted at the edge


@dataclass(frozen=True, repr=False)
class ClipPicture:
    """The objective of a step over its ratio, and histograms of the ratios of a batch, by the sign of the advantage.

    Args:
        ratios: by name, such as ``"epoch 1"``, the ratios of the steps, ``[M]``.
        advantage: the advantages of the steps, ``[M]``.
        epsilon: how far from 1 the objective still changes. None: it is not clipped.

    Example:
        >>> ratio, advantage = torch.tensor([1.0, 1.3]), torch.tensor([1.0, -1.0])
        >>> ClipPicture({"epoch 1": ratio}, advantage, epsilon=0.2)
        objective over the ratio, clipped at 0.8 and 1.2; the ratios of 2 steps after epoch 1
        the numbers, measured in this run, are in the picture
    """

    ratios: Mapping[str, torch.Tensor]
    advantage: torch.Tensor
    epsilon: float | None = 0.2

    def __repr__(self) -> str:
        clip = "not clipped" if self.epsilon is None else f"clipped at {1 - self.epsilon:g} and {1 + self.epsilon:g}"
        words = f"objective over the ratio, {clip}; the ratios of {len(self.advantage):,} steps after "
        return words + f"{', '.join(self.ratios)}\nthe numbers, measured in this run, are in the picture"

    def _repr_html_(self) -> str:
        return measured_tag(self._svg(), repr(self))

    def _svg(self) -> Svg:
        tall = _TOP + _HIGH + _ROW * len(self.ratios) + 36
        svg = Svg(_WIDTH, tall, title="the objective over the ratio", desc=repr(self))
        if self.epsilon is None:
            keys: list[tuple[str, str, str | None]] = [("objective, not clipped", "c0", None)]
        else:
            keys = [("clipped objective", "c0", None), ("without the clip", "muted", "4 3")]
        x = _EDGE
        for words, role, dash in keys:
            svg.line(x, 12, x + 22, 12, stroke=role, stroke_width=2, stroke_dasharray=dash)
            svg.text(x + 28, 16, words, size=12)
            x += 28 + 6.6 * len(words) + 18
        if self.epsilon is not None:
            svg.rect(x, 6, 12, 12, fill="highlight")
            svg.text(x + 18, 16, "no gradient here: the step has moved far enough", size=12)
        wide = (_WIDTH - 2 * _EDGE - _LEFT - _GAP) / 2
        for place, sign in enumerate((1, -1)):
            self._panel(svg, sign, _EDGE + _LEFT + place * (wide + _GAP), wide)
        for row, name in enumerate(self.ratios):
            svg.text(_EDGE, _TOP + _HIGH + (row + 1) * _ROW - 12, name, size=12)
        return svg

    def _panel(self, svg: Svg, sign: int, left: float, wide: float) -> None:
        bottom = _TOP + _HIGH + _ROW * len(self.ratios)

        def at(ratio: float) -> float:
            return left + (ratio - _LOW) / (_MOST - _LOW) * wide

        def height(ratio: float) -> float:  # of an advantage of 1, or of -1
            share = (ratio - _LOW) / (_MOST - _LOW)
            return _TOP + (1 - share if sign > 0 else share) * _HIGH

        words = "better than expected, advantage > 0" if sign > 0 else "worse than expected, advantage < 0"
        svg.text(left, 40, words, bold=True, size=12)
        edge = None if self.epsilon is None else 1 + sign * self.epsilon
        if edge is not None:
            start, end = (edge, _MOST) if sign > 0 else (_LOW, edge)
            svg.rect(at(start), _TOP, at(end) - at(start), bottom - _TOP, fill="highlight")
        for ratio in (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6):
            strong = {"stroke": "muted"} if ratio == 1.0 else {}
            svg.line(at(ratio), _TOP, at(ratio), bottom, **strong)
            svg.text(at(ratio), bottom + 14, f"{ratio:g}", fill="muted", size=10, anchor="middle")
        svg.text(left + wide / 2, bottom + 28, "ratio", fill="muted", size=11, anchor="middle")
        ends = [(r, height(r)) for r in (_LOW, _MOST)]
        if edge is None:
            svg.polyline([(at(r), y) for r, y in ends], stroke="c0", stroke_width=2.5)
        else:
            svg.polyline([(at(r), y) for r, y in ends], stroke="muted", stroke_width=1.5, stroke_dasharray="4 3")
            bent = [(min(r, edge) if sign > 0 else max(r, edge)) for r in (_LOW, edge, _MOST)]
            svg.polyline(
                [(at(r), height(value)) for r, value in zip((_LOW, edge, _MOST), bent, strict=True)],
                stroke="c0",
                stroke_width=2.5,
            )
        mine = self.advantage.flatten() * sign > 0
        for row, ratios in enumerate(self.ratios.values()):
            base = _TOP + _HIGH + (row + 1) * _ROW
            found = ratios.flatten()[mine].double()
            counts = torch.histc(found.clamp(_LOW, _MOST), _BINS, _LOW, _MOST)
            scale = (_ROW - 20) / max(float(counts.max()), 1.0)
            for k, count in enumerate(counts.tolist()):
                if count:
                    tall = max(count * scale, 1.0)  # a single step can be seen, too
                    svg.rect(left + k * wide / _BINS, base - tall, wide / _BINS - 0.5, tall, fill="c1")
            svg.line(left, base, left + wide, base)
            span = f"{float(found.min()):.2f} to {float(found.max()):.2f}" if len(found) else "no steps"
            svg.text(left + wide - 2, base - _ROW + 14, span, fill="muted", size=10, anchor="end")
