"""The reward that a model gives each word, as bars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlnb_widgets._core.svg import Svg

from .measured_bars import measured_tag

_WIDTH, _TALL, _EDGE, _LABEL, _NUMBER, _COLUMNS = 640.0, 18.0, 10.0, 62.0, 40.0, 2


@dataclass(frozen=True, repr=False)
class WordScores:
    """Bars of scores, in two columns on one scale, the largest first; the text leaves the scores out.

    Args:
        scores: by word.

    Example:
        >>> WordScores({"tea": -0.1, "please": 2.2})
        scores of please, tea
        the numbers, learned in this run, are in the picture
    """

    scores: Mapping[str, float]

    def __repr__(self) -> str:
        first = max(self.scores, key=lambda word: self.scores[word])
        rest = [word for word in self.scores if word != first]
        return f"scores of {', '.join([first, *rest])}\nthe numbers, learned in this run, are in the picture"

    def _repr_html_(self) -> str:
        return measured_tag(self._svg(), repr(self))

    def _svg(self) -> Svg:
        ordered = sorted(self.scores.items(), key=lambda item: -item[1])
        rows = -(-len(ordered) // _COLUMNS)
        svg = Svg(_WIDTH, rows * _TALL + 2 * _EDGE, title="score of each word")
        wide = (_WIDTH - 2 * _EDGE) / _COLUMNS
        low, high = min(0.0, *self.scores.values()), max(0.0, *self.scores.values())
        scale = (wide - _LABEL - 2 * _NUMBER) / max(high - low, 1e-9)
        for place, (word, score) in enumerate(ordered):
            left = _EDGE + place // rows * wide
            top = _EDGE + place % rows * _TALL
            zero = left + _LABEL + _NUMBER - low * scale
            svg.text(left + _LABEL - 8, top + 13, word, size=12, anchor="end")
            svg.rect(zero + min(score, 0) * scale, top + 3, abs(score) * scale, _TALL - 6, fill="c0", rx=2)
            svg.line(zero, top, zero, top + _TALL)
            end = zero + score * scale + (5 if score >= 0 else -5)
            svg.text(end, top + 13, f"{round(score, 2) + 0.0:.2f}", size=11, anchor="start" if score >= 0 else "end")
        return svg
