"""Scenes of grid worlds: FrozenLake, CliffWalking and rlnb's own, with the base that they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlnb_widgets._core.display import Mark
from rlnb_widgets.scenes.drawing import STROKE, box, disc, flag, line, paper, polygon, pose, stack, text
from rlnb_widgets.scenes.inputs import Floats, action_indices, indices
from rlnb_widgets.scenes.scene import Part, Scene

#: Screen angles of moves, clockwise from the right.
ANGLES = {"right": 0.0, "down": math.pi / 2, "left": math.pi, "up": -math.pi / 2}


def agent(cell: float) -> Part:
    """Return the agent: a round face, centred in its cell."""
    r = cell * 0.27
    eye, apart, up = cell * 0.045, r * 0.4, -r * 0.15
    return Part("agent", [disc(0, 0, r, "second"), *(disc(x, up, eye, "paper") for x in (-apart, apart))])


def direction_mark(cell: float) -> Part:
    """Return the mark of an action: a tip beside the agent that points where it wants to go."""
    near, far, half = cell * 0.37, cell * 0.49, cell * 0.12
    return Part("action", [polygon([(near, -half), (far, 0), (near, half)], "ink")])


def grid_lines(rows: int, columns: int, cell: float, x: float = 0, y: float = 0, role: str = "line") -> list[Mark]:
    """Return the lines between the cells of a grid with its corner at (x, y)."""
    across = [(x, y + r * cell, x + columns * cell, y + r * cell) for r in range(1, rows)]
    down = [(x + c * cell, y, x + c * cell, y + rows * cell) for c in range(1, columns)]
    return [line(*ends, role, STROKE / 2) for ends in (*across, *down)]


def _tile(letter: str, x: float, y: float, cell: float) -> list[Mark]:
    """Return the marks of one letter of a map, in the cell with its corner at (x, y)."""
    cx, cy = x + cell / 2, y + cell / 2
    if letter == "H":
        return [disc(cx, cy, cell * 0.37, "water")]
    if letter == "S":
        return [text(cx, cy, cell * 0.42, "S")]
    if letter == "G":
        return flag(x + cell * 0.36, y + cell * 0.84, cell * 0.66)
    if letter == "#":
        return [box(x, y, cell, cell, "muted")]
    if letter == "C":
        teeth, low, high = 2, y + cell * 0.34, y + cell * 0.12
        points = [(x, y + cell)]
        for k in range(teeth):
            points += [(x + cell * k / teeth, low), (x + cell * (k + 0.5) / teeth, high)]
        return [polygon([*points, (x + cell, low), (x + cell, y + cell)], "bad")]
    return []


_PLACES = {"H": " (hole)", "C": " (cliff)", "S": " (start)", "G": " (goal)"}


class GridWorld:
    """Draws one agent on a map of letters: F or . (free), # (wall), H (hole), C (cliff), S (start) and G (goal).

    ``words`` says where each action goes, a key of `ANGLES`. ``floor`` is the role of the cells, ``cell`` their size in
    scene units.

    Raises:
        ValueError: If the rows of the map are not equally long.

    Example:
        >>> import numpy as np
        >>> world = GridWorld("Corridor", ("SFG",), ("left", "right"))
        >>> world.pose(np.array([0, 1]), actions=np.array([1])).caption_at(0)
        'agent at row 0, column 0 (start), going right'
    """

    def __init__(
        self, name: str, rows: Sequence[str], words: Sequence[str], floor: str = "paper", cell: float | None = None
    ) -> None:
        widths = {len(r) for r in rows}
        if len(widths) != 1 or 0 in widths:
            raise ValueError(f"the rows of a map must be equally long and not empty, got {list(rows)}.")
        self.name, self.rows, self.words = name, tuple(rows), tuple(words)
        self.columns = widths.pop()
        self.cell = cell if cell is not None else 320 / max(len(self.rows), self.columns)
        self.width, self.height = self.columns * self.cell, len(self.rows) * self.cell
        self.parts = (agent(self.cell), direction_mark(self.cell))
        self.background = [
            paper(self.width, self.height),
            box(0, 0, self.width, self.height, floor),
            *grid_lines(len(self.rows), self.columns, self.cell, role="line" if floor == "paper" else "paper"),
            *(
                mark
                for r, row in enumerate(self.rows)
                for c, letter in enumerate(row)
                for mark in _tile(letter, c * self.cell, r * self.cell, self.cell)
            ),
        ]

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of states (indices [N] or [N, 1], or one-hot), with the actions' directions if given."""
        state = indices(observations, len(self.rows) * self.columns, f"{self.name} observations")
        action = action_indices(actions, len(self.words), len(state), self.name)
        row, column = np.divmod(state, self.columns)
        x, y = (column + 0.5) * self.cell, (row + 0.5) * self.cell
        shown = np.isfinite(state)
        poses = stack(
            len(state), pose(x, y, 0.0, shown), pose(x, y, turn(action, self.words), shown & np.isfinite(action))
        )
        return Scene(self.width, self.height, self.background, self.parts, poses, self._caption(state, action))

    def _caption(self, state: Floats, action: Floats) -> Callable[[int], str]:
        def caption(i: int) -> str:
            if np.isnan(state[i]):
                return "no observation"
            row, column = divmod(int(state[i]), self.columns)
            words = f"agent at row {row}, column {column}{_PLACES.get(self.rows[row][column], '')}"
            return words if np.isnan(action[i]) else f"{words}, going {self.words[int(action[i])]}"

        return caption


def turn(action: Floats, moves: Sequence[str]) -> Floats:
    """Return the screen angle of each action, NaN for a missing one or one that goes nowhere.

    Example:
        >>> turn(np.array([1.0, np.nan, 0.0]), ("stay", "right"))
        array([ 0., nan, nan])
    """
    table = np.array([ANGLES.get(move, np.nan) for move in (*moves, "")])
    return table[np.nan_to_num(action, nan=-1).astype(np.intp)]


#: Gymnasium's maps by name.
MAPS: dict[str, tuple[str, ...]] = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}


class FrozenLake(GridWorld):
    """Draws FrozenLake from its state index, on the map of its env, or on Gymnasium's map ``map_name``.

    Example:
        >>> import numpy as np
        >>> FrozenLake().pose(np.array([5])).caption_at(0)
        'agent at row 1, column 1 (hole)'
    """

    def __init__(self, rows: Sequence[str] | None = None, map_name: str = "4x4") -> None:
        self.note = ""
        if rows is None:
            rows = MAPS[map_name]
            self.note = f"The default {map_name} map is assumed; pass the env itself to draw its own map."
        super().__init__("FrozenLake", rows, ("left", "down", "right", "up"), floor="ice")

    def for_env(self, env: Any) -> FrozenLake:
        """Return the scene with the map of `env`: its own ``desc``, or the map that it was made with."""
        desc = getattr(getattr(env, "unwrapped", env), "desc", None)
        kwargs = getattr(getattr(env, "spec", None), "kwargs", None) or {}
        if desc is None:
            desc = kwargs.get("desc")
        if desc is None:
            return FrozenLake(MAPS[kwargs["map_name"]]) if kwargs.get("map_name") in MAPS else self
        return FrozenLake(["".join(row) for row in np.asarray(desc).astype(str)])


class CliffWalking(GridWorld):
    """Draws CliffWalking from its state index.

    Example:
        >>> import numpy as np
        >>> CliffWalking().pose(np.array([36]), actions=np.array([0])).caption_at(0)
        'agent at row 3, column 0 (start), going up'
    """

    def __init__(self) -> None:
        rows = ("F" * 12, "F" * 12, "F" * 12, "S" + "C" * 10 + "G")
        super().__init__("CliffWalking", rows, ("up", "right", "down", "left"), "ground", 40)


class GridMap:
    """Draws a GridWorldEnv from the index of the agent's cell, on the map of its env.

    Example:
        >>> class Env:
        ...     desc = ("S.G", ".#H")
        >>> GridMap().for_env(Env()).pose([1], actions=[2]).caption_at(0)
        'agent at row 0, column 1, going right'
    """

    def for_env(self, env: Any) -> GridWorld:
        """Return the scene with the map of `env`, its ``desc``."""
        return GridWorld("GridWorld", env.desc, ("left", "down", "right", "up"))

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Raise ``ValueError``: without the env there is no map."""
        raise ValueError("a grid world is drawn on the map of its env, and only a name was given: pass the env itself.")
