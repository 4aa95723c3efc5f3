"""Values of the cells of a map, drawn on the map: one picture for each set of values, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlnb_widgets._core.svg import Svg, image_tag

_CELL, _GAP, _HEAD, _EDGE = 34, 20, 26, 10
_STRONGEST = 0.6  # of the colour behind a number: on more than that the number is hard to read


@dataclass(frozen=True, repr=False)
class ValueMaps:
    """Maps with a number in each cell; the larger its absolute value, the stronger its colour.

    Args:
        desc: the map, one string of letters for each row; "G" is the goal, "H" a hole, "#" a wall.
        values: by title, a number for each cell, row by row (a tensor or a list); NaN where there is none.

    Example:
        >>> ValueMaps(["S.G"], {"true": [0.5, 1.0, 0.0], "yours": [0.5, -0.25, math.nan]})
        true
          0.50  1.00     G
        yours
          0.50 -0.25     G
    """

    desc: Sequence[str]
    values: Mapping[str, Sequence[float]]

    def __repr__(self) -> str:
        lines = []
        for title, numbers in self._numbers().items():
            lines.append(title)
            for row, letters in enumerate(self.desc):
                first = row * len(letters)
                words = (_word(letter, numbers[first + i]) for i, letter in enumerate(letters))
                lines.append("".join(f"{word:>6}" for word in words))
        return "\n".join(lines)

    def _numbers(self) -> dict[str, list[float]]:
        size = len(self.desc) * len(self.desc[0])
        found = {title: [float(number) for number in numbers] for title, numbers in self.values.items()}
        for title, numbers in found.items():
            if len(numbers) != size:
                raise ValueError(f"The map has {size} cells, and there are {len(numbers)} values of {title!r}.")
        return found

    def _repr_html_(self) -> str:
        return image_tag(str(self._svg()), repr(self))

    def _svg(self) -> Svg:
        numbers = self._numbers()
        wide, high = len(self.desc[0]) * _CELL, len(self.desc) * _CELL
        count = len(numbers)
        letters = "".join(self.desc)
        shown = [
            abs(v)
            for values in numbers.values()
            for v, letter in zip(values, letters, strict=True)
            if letter not in "GH#"
        ]
        largest = max((v for v in shown if math.isfinite(v)), default=0.0) or 1.0
        svg = Svg(count * wide + (count - 1) * _GAP + 2 * _EDGE, high + _HEAD + 2 * _EDGE, title=", ".join(numbers))
        for place, (title, values) in enumerate(numbers.items()):
            left = _EDGE + place * (wide + _GAP)
            svg.text(left, _EDGE + 14, title, size=13, bold=True)
            self._draw(svg, left, _EDGE + _HEAD, values, largest)
        return svg

    def _draw(self, svg: Svg, left: float, top: float, values: list[float], largest: float) -> None:
        for cell, value in enumerate(values):
            row, column = divmod(cell, len(self.desc[0]))
            letter, x, y = self.desc[row][column], left + column * _CELL, top + row * _CELL
            strength = _STRONGEST * abs(value) / largest if math.isfinite(value) and letter not in "GH#" else 0
            if strength:
                svg.rect(x, y, _CELL, _CELL, fill="bad" if value < 0 else "accent", fill_opacity=strength)
            if letter == "#":
                svg.rect(x, y, _CELL, _CELL, fill="muted")
            if letter != "#":
                word, role = _word(letter, value), "good" if letter == "G" else "ink"
                svg.text(x + _CELL / 2, y + _CELL / 2 + 4, word, fill=role, anchor="middle", bold=letter == "G")
        rows, columns = len(self.desc), len(self.desc[0])
        across = (f"M{left} {top + row * _CELL}h{columns * _CELL}" for row in range(rows + 1))
        down = (f"M{left + column * _CELL} {top}v{rows * _CELL}" for column in range(columns + 1))
        svg.path("".join((*across, *down)), stroke="line")


def _word(letter: str, value: float) -> str:
    if letter in "GH#":
        return letter
    return f"{value:.2f}".replace("-0.00", "0.00") if math.isfinite(value) else "."
