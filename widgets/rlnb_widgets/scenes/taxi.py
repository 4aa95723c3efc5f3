"""Scene of Taxi: the town with its walls, the four stations, the taxi and its passenger."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.display import Mark
from rlnb_widgets.scenes.drawing import STROKE, box, disc, flag, paper, polygon, pose, stack, text
from rlnb_widgets.scenes.grid import direction_mark, grid_lines, turn
from rlnb_widgets.scenes.inputs import action_indices, indices
from rlnb_widgets.scenes.scene import Part, Scene

# The map as Gymnasium prints it: a bar is a wall, a colon a gap.
_MAP = ("|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |")
_CELL, _MARGIN = 60.0, 10.0
_SIZE = 5 * _CELL + 2 * _MARGIN
#: Letter, role and name of each station, in the order of the passenger's and the destination's index.
_STATIONS = (("R", "bad", "red"), ("G", "good", "green"), ("Y", "yellow", "yellow"), ("B", "accent", "blue"))
_WORDS = ("going down", "going up", "going right", "going left", "picking up", "dropping off")


_CELLS = {letter: (r, c // 2) for r, row in enumerate(_MAP) for c, letter in enumerate(row)}
_AT = np.array([_CELLS[letter] for letter, *_ in _STATIONS], dtype=np.float64)  # row and column of each station


def _centre(row: Any, column: Any) -> tuple[Any, Any]:
    return _MARGIN + (column + 0.5) * _CELL, _MARGIN + (row + 0.5) * _CELL


def _walls() -> list[Mark]:
    return [
        box(_MARGIN + c // 2 * _CELL - 4, _MARGIN + r * _CELL - 4, 8, _CELL + 8, "ink", radius=4)
        for r, row in enumerate(_MAP)
        for c, letter in enumerate(row)
        if letter == "|" and 0 < c < len(row) - 1
    ]


def _stations() -> list[Mark]:
    out = []
    for (letter, role, _), (row, column) in zip(_STATIONS, _AT, strict=True):
        x, y = _centre(row, column)
        out += [box(x - 22, y - 22, 44, 44, stroke=role, radius=6), text(x, y, 26, letter, role)]
    return out


_FRAME = box(_MARGIN, _MARGIN, 5 * _CELL, 5 * _CELL, stroke="ink", radius=6)
_WHEELS = [disc(x, 14, 6, "ink") for x in (-12, 12)]
_CABIN = polygon([(-14, -2), (-9, -15), (9, -15), (14, -2)], "paper", stroke="ink")
_CAB = Part("taxi", [*_WHEELS, _CABIN, box(-23, -3, 46, 15, "yellow", stroke="ink", width=STROKE / 2, radius=5)])
_RIDER = Part("rider", [disc(0, -8, 5, "second")])
_BODY = polygon([(-9, 20), (-5, 4), (5, 4), (9, 20)], "second", stroke="ink", width=STROKE / 2)
_PASSENGER = Part("passenger", [_BODY, disc(0, -1, 7, "second", stroke="ink", width=STROKE / 2)])
_DESTINATION = Part("destination", flag(14, 0, 25))
_DEED = Part("pick-up or drop-off", [disc(0, 0, 27, stroke="second")])


class Taxi:
    """Draws Taxi from its state index: ((row * 5 + column) * 5 + passenger) * 4 + destination.

    Example:
        >>> import numpy as np
        >>> Taxi().pose(np.array([328])).caption_at(0)
        'taxi at row 3, column 1; passenger at yellow, wants to go to red'
    """

    parts = (_CAB, _RIDER, _PASSENGER, _DESTINATION, _DEED, direction_mark(_CELL))
    background = (paper(_SIZE, _SIZE), *grid_lines(5, 5, _CELL, _MARGIN, _MARGIN), *_stations(), *_walls(), _FRAME)

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of states (indices [N] or [N, 1], or one-hot [N, 500]), with the actions if given."""
        state = indices(observations, 500, "Taxi observations")
        action = action_indices(actions, 6, len(state), "Taxi")
        shown = np.isfinite(state)
        code = np.where(shown, state, 0).astype(np.intp)
        place, destination = np.divmod(code, 4)
        place, passenger = np.divmod(place, 5)
        row, column = np.divmod(place, 5)
        x, y = _centre(row, column)
        riding = passenger == 4
        # A passenger waits in the left half of the station, and the destination's flag stands in the right half.
        px, py = _centre(*_AT[np.where(riding, 0, passenger)].T)
        gx, gy = _centre(*_AT[destination].T)
        drives = np.isfinite(action) & (action < 4)
        heading = turn(np.where(drives, action, np.nan), ("down", "up", "right", "left"))
        poses = stack(
            len(state),
            pose(x, y, 0.0, shown),
            pose(x, y, 0.0, shown & riding),
            pose(px - 18, py, 0.0, shown & ~riding),
            pose(gx, gy, 0.0, shown),
            pose(x, y, 0.0, shown & np.isfinite(action) & ~drives),
            pose(x, y, heading, shown & drives),
        )

        def caption(i: int) -> str:
            if not shown[i]:
                return "no observation"
            where = "in the taxi" if riding[i] else f"at {_STATIONS[passenger[i]][2]}"
            goal = _STATIONS[destination[i]][2]
            words = f"taxi at row {row[i]}, column {column[i]}; passenger {where}, wants to go to {goal}"
            return words if np.isnan(action[i]) else f"{words}; {_WORDS[int(action[i])]}"

        return Scene(_SIZE, _SIZE, self.background, self.parts, poses, caption)
