"""Values of the cells of a map, drawn on the map: one picture for each set of values, side by side."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rlnb_widgets._core.svg import Svg, image_tag

_CELL, _GAP, _HEAD, _EDGE = 34, 20, 26, 10
_WIDE = 44  # a cell that has room for arrows as well
_ROOM = 900  # of maps side by side; more of them come below
#: The actions of grid worlds in order, as (columns right, rows down) and as signs.
_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
_SIGNS = "<v>^"
_STRONGEST = 0.6  # of the colour behind a number: on more than that the number is hard to read


@dataclass(frozen=True, repr=False)
class ValueMaps:
    """Maps with a number in each cell; the larger its absolute value, the stronger its colour.

    Args:
        desc: the map, one string of letters for each row; "G" is the goal, "H" a hole, "C" a cliff, "#" a
            wall.
        values: by title, a number for each cell, row by row (a tensor or a list); NaN where there is none.
        arrows: by title, for each cell the actions that get an arrow: 0 is left, 1 down, 2 right and 3 up.
        largest: the absolute value with the strongest colour. Default: the largest that is shown.

    Example:
        >>> ValueMaps(["S.G"], {"true": [0.5, 1.0, 0.0], "yours": [0.5, -0.25, math.nan]})
        true
          0.50  1.00     G
        yours
          0.50 -0.25     G
        >>> ValueMaps(["S.G"], {"best": [0.5, 1.0, 0.0]}, arrows={"best": [[2], [2], []]})
        best
          0.50>  1.00>     G
    """

    desc: Sequence[str]
    values: Mapping[str, Sequence[float]]
    arrows: Mapping[str, Sequence[Collection[int]]] = field(default_factory=dict)
    largest: float | None = None

    def __repr__(self) -> str:
        lines = []
        for title, numbers in self._numbers().items():
            lines.append(title)
            for row, letters in enumerate(self.desc):
                first = row * len(letters)
                words = [_word(letter, numbers[first + i]) for i, letter in enumerate(letters)]
                if not self.arrows:
                    lines.append("".join(f"{word:>6}" for word in words))
                    continue
                signs = ("".join(_SIGNS[action] for action in self._moves(title, first + i)) for i in range(len(words)))
                lines.append("".join(f"{word:>6}{sign:1}" for word, sign in zip(words, signs, strict=True)).rstrip())
        return "\n".join(lines)

    def _moves(self, title: str, cell: int) -> list[int]:
        letters = "".join(self.desc)
        return [] if title not in self.arrows or letters[cell] in "GHC#" else sorted(self.arrows[title][cell])

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
        size = _WIDE if self.arrows else _CELL
        wide, high = len(self.desc[0]) * size, len(self.desc) * size
        count = len(numbers)
        letters = "".join(self.desc)
        shown = [
            abs(v)
            for values in numbers.values()
            for v, letter in zip(values, letters, strict=True)
            if letter not in "GHC#"
        ]
        largest = self.largest or max((v for v in shown if math.isfinite(v)), default=0.0) or 1.0
        across = min(count, max(1, (_ROOM + _GAP) // (wide + _GAP)))
        down = -(-count // across)
        tall = high + _HEAD + _EDGE
        svg = Svg(across * (wide + _GAP) - _GAP + 2 * _EDGE, down * tall + _EDGE, title=", ".join(numbers))
        for place, title in enumerate(numbers):
            left, top = _EDGE + place % across * (wide + _GAP), _EDGE + place // across * tall
            svg.text(left, top + 14, title, size=13, bold=True)
            self._draw(svg, left, top + _HEAD, title, largest)
        return svg

    def _draw(self, svg: Svg, left: float, top: float, title: str, largest: float) -> None:
        size = _WIDE if self.arrows else _CELL
        for cell, value in enumerate(self._numbers()[title]):
            row, column = divmod(cell, len(self.desc[0]))
            letter, x, y = self.desc[row][column], left + column * size, top + row * size
            strength = _STRONGEST * min(abs(value) / largest, 1) if math.isfinite(value) and letter not in "GHC#" else 0
            if strength:
                svg.rect(x, y, size, size, fill="bad" if value < 0 else "accent", fill_opacity=strength)
            if letter == "#":
                svg.rect(x, y, size, size, fill="muted")
            if letter != "#":
                word, role = _word(letter, value), "good" if letter == "G" else "bad" if letter == "C" else "ink"
                svg.text(x + size / 2, y + size / 2 + 4, word, fill=role, anchor="middle", bold=letter in "GC")
            for action in self._moves(title, cell):
                svg.polygon(_tip(x + size / 2, y + size / 2, size / 2 - 2, action), fill="ink")
        rows, columns = len(self.desc), len(self.desc[0])
        across = (f"M{left} {top + row * size}h{columns * size}" for row in range(rows + 1))
        down = (f"M{left + column * size} {top}v{rows * size}" for column in range(columns + 1))
        svg.path("".join((*across, *down)), stroke="line")


def _tip(x: float, y: float, far: float, action: int) -> list[tuple[float, float]]:
    """Return a triangle that points from the middle (x, y) of a cell to one of its sides."""
    (right, down), near, half = _MOVES[action], far - 5, 4.5
    base = (x + near * right, y + near * down)
    sides = [(base[0] + s * half * down, base[1] + s * half * right) for s in (-1, 1)]
    return [sides[0], (x + far * right, y + far * down), sides[1]]


def _word(letter: str, value: float) -> str:
    if letter in "GHC#":
        return letter
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}".replace("-0.00", "0.00") if math.isfinite(value) else "."
