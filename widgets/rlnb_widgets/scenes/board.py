"""Scene of board games: pieces distinguished by shape, the last move, the next one and the winning line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb_widgets._core.colors import agent_role
from rlnb_widgets._core.display import Mark
from rlnb_widgets.scenes.drawing import box, disc, line, paper, polygon, pose, text
from rlnb_widgets.scenes.grid import grid_lines
from rlnb_widgets.scenes.inputs import Floats, action_indices
from rlnb_widgets.scenes.scene import Part, Scene

Ints = npt.NDArray[np.int64]
_LOOK_AHEAD = 256  # rows to search for the position before; if it is farther away, the position counts as a start
_SIGNS = ("X", "O")
_MOST_LINES = 2  # of each kind that are struck through at once
_TOP = 44.0  # room above the columns for their numbers and the mark of the next move


@dataclass(frozen=True)
class Target:
    """The area of the picture where an action can be chosen."""

    action: int  #: the action
    x: float  #: left edge
    y: float  #: upper edge
    width: float  #: of the place
    height: float  #: of the place
    label: str  #: what the place is called


class Board:
    """Draws positions of two players: X is player 0, O is player 1.

    ``connect`` pieces in a line win. With ``drops`` pieces are discs that fall into columns; otherwise signs in cells.

    Example:
        >>> scene = Board().pose([[[0, -1, -1], [1, 0, -1], [-1, -1, -1]]], actions=[8])
        >>> scene.caption_at(0)
        'X . . / O X . / . . .; O to move, to cell 8'
    """

    reads = ("board",)

    def __init__(self, rows: int = 3, columns: int = 3, connect: int = 3, drops: bool = False) -> None:
        self.rows, self.columns, self.connect, self.drops = rows, columns, connect, drops
        self.cell = min(96.0, 420.0 / max(rows, columns))
        self.top = _TOP if drops else 0.0
        self.width, self.height = columns * self.cell, rows * self.cell + self.top
        self.background = [paper(self.width, self.height), *(self._case() if drops else self._grid())]
        self.most = (rows * columns + 1) // 2
        self.parts = (*self._pieces(), self._last(), self._next(), *self._strikes())

    def for_env(self, env: Any) -> Board:
        """Return the scene of the size of `env`."""
        return Board(env.rows, env.columns, env.connect, self.drops)

    def targets(self) -> tuple[Target, ...]:
        """Return where each action can be chosen: the cells, or the columns."""
        if self.drops:
            return tuple(
                Target(c, c * self.cell, 0.0, self.cell, self.height, f"column {c}") for c in range(self.columns)
            )
        return tuple(
            Target(k, c * self.cell, r * self.cell, self.cell, self.cell, f"cell {k}, row {r}, column {c}")
            for k, (r, c) in enumerate(np.ndindex(self.rows, self.columns))
        )

    def words(self, board: Any) -> tuple[str, ...]:
        """Return for each target of one position, [rows, columns], what it is and what is there."""
        grid = np.asarray(board)
        if self.drops:
            free = (grid < 0).sum(0).tolist()
            return tuple(f"{t.label}, {f'{free[t.action]} free' if free[t.action] else 'full'}" for t in self.targets())
        signs = {-1: "empty", 0: _SIGNS[0], 1: _SIGNS[1]}
        return tuple(f"{t.label}, {signs[int(grid.flat[t.action])]}" for t in self.targets())

    # What it looks like -------------------------------------------------------------------------------------------

    def _grid(self) -> list[Mark]:
        size = self.cell * 0.16
        numbers = (text(t.x + size * 0.8, t.y + size * 0.9, size, str(t.action)) for t in self.targets())
        return [*grid_lines(self.rows, self.columns, self.cell, role="muted"), *numbers]

    def _case(self) -> list[Mark]:
        case = box(0, self.top, self.width, self.height - self.top, "case", radius=10)
        holes = (disc(*self._centre(cell), self.cell * 0.4, "paper") for cell in range(self.rows * self.columns))
        numbers = (text((c + 0.5) * self.cell, 12, min(18.0, self.cell / 2), str(c)) for c in range(self.columns))
        return [case, *holes, *numbers]

    def _centre(self, cell: Any) -> tuple[Any, Any]:
        row, column = np.divmod(cell, self.columns)
        return (column + 0.5) * self.cell, (row + 0.5) * self.cell + self.top

    def _pieces(self) -> tuple[Part, ...]:
        """Return the pieces of X, then those of O, the first of each in reading order first."""
        arm, width = self.cell * (0.15 if self.drops else 0.26), self.cell * (0.09 if self.drops else 0.1)
        roles = [agent_role(0), agent_role(1)]
        first, second = ["paper", "paper"] if self.drops else roles
        cross = [line(-arm, -y, arm, y, first, width) for y in (arm, -arm)]
        ring = [disc(0, 0, self.cell * (0.168 if self.drops else 0.28), stroke=second, width=width)]
        discs = [[disc(0, 0, self.cell * 0.4, role)] if self.drops else [] for role in roles]
        kinds = [(_SIGNS[0], [*discs[0], *cross]), (_SIGNS[1], [*discs[1], *ring])]
        return tuple(Part(f"{sign} {k + 1}", marks) for sign, marks in kinds for k in range(self.most))

    def _last(self) -> Part:
        half = self.cell * 0.45
        if self.drops:
            return Part("last move", [disc(0, 0, half, stroke="ink", width=self.cell * 0.06)])
        bar = box(-half / 2, self.cell * 0.38, half, self.cell * 0.05, "ink", radius=self.cell * 0.025)
        return Part("last move", [bar])

    def _next(self) -> Part:
        if self.drops:
            half = min(9.0, self.cell / 4)
            return Part("next move", [polygon([(-half, -half), (half, -half), (0, half)], "second")])
        return Part("next move", [disc(0, 0, self.cell * 0.08, "second")])

    def _strikes(self) -> tuple[Part, ...]:
        """Return the strokes through won lines: straight ones, then diagonal ones."""
        parts = []
        for name, length in (("line", 1.0), ("diagonal", math.sqrt(2.0))):
            half = ((self.connect - 1) / 2 + 0.3) * self.cell * length
            halo = line(-half, 0, half, 0, "paper", self.cell * 0.08)
            stroke = line(-half, 0, half, 0, "ink", self.cell * 0.04)
            parts += [Part(f"won {name} {k + 1}", [halo, stroke]) for k in range(_MOST_LINES)]
        return tuple(parts)

    # Where it is --------------------------------------------------------------------------------------------------

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of positions [N, rows, columns] of -1, 0 and 1, with the moves where actions are given.

        Invalid positions, such as padding, are drawn as an empty board.
        """
        boards, valid = self._boards(observations)
        n_actions = self.columns if self.drops else self.rows * self.columns
        action = action_indices(actions, n_actions, len(boards), "Board")
        target = self._target(boards, action)
        last = last_moves(boards, None if actions is None else target)
        x, y = self._centre(np.maximum(last, 0))
        won = won_lines(boards, self._lines())
        poses = [one for player in (0, 1) for one in poses_of(boards == player, self.most, self._centre)]
        poses += [pose(x, y, 0.0, last >= 0), self._next_pose(action, target), *self._strike_poses(won)]
        caption = self._caption(boards, valid, action, np.asarray(won.any(1)))
        return Scene(self.width, self.height, self.background, self.parts, np.stack(poses, axis=1), caption)

    def _lines(self) -> Ints:
        # Imported here, since scenes of other envs do not need torch.
        from rlnb.envs.custom.boards import board_lines

        return np.asarray(board_lines(self.rows, self.columns, self.connect).numpy())

    def _boards(self, observations: Any) -> tuple[Ints, npt.NDArray[np.bool_]]:
        boards = np.nan_to_num(board_cells(observations, self.rows, self.columns), nan=-2.0).astype(np.int64)
        ahead = (boards == 0).sum(1) - (boards == 1).sum(1)
        valid = (np.abs(boards) <= 1).all(1) & (ahead >= 0) & (ahead <= 1)
        return np.where(valid[:, None], boards, -1), valid

    def _target(self, boards: Ints, action: Floats) -> Floats:
        """Return the cell that each action puts a piece into, NaN for none."""
        if not self.drops:
            return action
        column = np.nan_to_num(action).astype(np.intp)
        grid = boards.reshape(-1, self.rows, self.columns)
        row = (grid[np.arange(len(grid)), :, column] < 0).sum(1) - 1
        return np.where(row >= 0, row * self.columns + action, np.nan)

    def _next_pose(self, action: Floats, target: Floats) -> npt.NDArray[np.float32]:
        if self.drops:
            return pose((action + 0.5) * self.cell, self.top - 12, 0.0, np.isfinite(action))
        return pose(*self._centre(np.nan_to_num(target)), 0.0, np.isfinite(target))

    def _strike_poses(self, won: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.float32]]:
        lines = self._lines()
        (x0, y0), (x1, y1) = self._centre(lines[:, 0]), self._centre(lines[:, -1])
        angle, diagonal = np.arctan2(y1 - y0, x1 - x0), (x0 != x1) & (y0 != y1)
        poses = []
        for kind in (~diagonal, diagonal):
            of_kind = won & kind
            first = np.argsort(~of_kind, axis=1, kind="stable")
            for k in range(_MOST_LINES):
                line = first[:, min(k, len(lines) - 1)]
                shown = of_kind.sum(1) > k
                poses.append(pose((x0 + x1)[line] / 2, (y0 + y1)[line] / 2, angle[line], shown))
        return poses

    def _caption(
        self, boards: Ints, valid: npt.NDArray[np.bool_], action: Floats, over: npt.NDArray[np.bool_]
    ) -> Callable[[int], str]:
        grid = boards.reshape(-1, self.rows, self.columns)

        def caption(i: int) -> str:
            if not valid[i]:
                return "no position"
            words = " / ".join(" ".join("XO."[cell] for cell in row) for row in grid[i].tolist())
            count = int((boards[i] >= 0).sum())
            if over[i]:
                return f"{words}; {_SIGNS[(count - 1) % 2]} has won"
            if count == boards.shape[1]:
                return f"{words}; a draw"
            words += f"; {_SIGNS[count % 2]} to move"
            return words if np.isnan(action[i]) else f"{words}, to {'column' if self.drops else 'cell'} {action[i]:.0f}"

        return caption


def board_cells(observations: Any, rows: int, columns: int) -> npt.NDArray[Any]:
    """Check the shape of positions ``[N, rows, columns]`` and return them as ``[N, cells]``.

    Example:
        >>> board_cells([[[0, 1]]], 1, 2).tolist()
        [[0, 1]]
    """
    array = np.asarray(observations)
    if array.ndim != 3 or array.shape[1:] != (rows, columns):
        raise ValueError(
            f"a board of {rows} x {columns} is drawn from positions of shape [N, {rows}, {columns}], "
            f"got shape {list(array.shape)}."
        )
    return array.reshape(len(array), rows * columns)


def poses_of(
    there: npt.NDArray[np.bool_], most: int, centre: Callable[[Any], tuple[Any, Any]]
) -> list[npt.NDArray[np.float32]]:
    """Return the poses of up to `most` pieces of one kind, which stand where ``there``, bool ``[N, cells]``.

    Example:
        >>> poses_of(np.array([[True, False, True]]), 3, lambda cell: (10 * cell, 0))[1].tolist()
        [[20.0, 0.0, 0.0]]
    """
    cells, count = np.argsort(~there, axis=1, kind="stable"), there.sum(1)
    return [pose(*centre(cells[:, k]), 0.0, k < count) for k in range(most)]


def last_moves(boards: Ints, played: Floats | None = None) -> Ints:
    """Return the cell of the last move of each position, [N]; -1 if the position before is not found.

    It is the piece that the position before lacks. That is the one in the row above or, since players append the last
    positions of episodes at the end, the first earlier one that no other row continues. ``played`` holds the cell that
    is played in each position, NaN for none; moves that contradict it do not count.

    Example:
        >>> boards = np.array([[-1, -1], [-1, 0], [-1, -1], [1, 0]])
        >>> last_moves(boards).tolist()
        [-1, 1, -1, 0]
    """
    count = (boards >= 0).sum(1)
    found = np.full(len(boards), -1, np.int64)
    if len(boards) > 1:
        found[1:] = _between(boards[:-1], boards[1:], count[:-1], None if played is None else played[:-1])
    goes_on = np.append(found[1:] >= 0, False)
    open_rows, start = np.flatnonzero(~goes_on), 0
    for i in np.flatnonzero((found < 0) & (count > 0)):
        rows = open_rows[start : start + _LOOK_AHEAD]
        rows = rows[rows < i]
        cells = _between(boards[rows], boards[[i]], count[rows], None if played is None else played[rows])
        if (cells >= 0).any():
            k = int((cells >= 0).argmax())
            found[i], start = cells[k], start + k + 1
    return found


def _between(before: Ints, after: Ints, count: Ints, played: Floats | None) -> Ints:
    """Return the last cell put from `before` to `after`, a move or a move and its answer later; -1 for none."""
    new, mover = before != after, (count % 2)[:, None]
    move, answer = new & (after == mover), new & (after == 1 - mover)
    legal = (move.sum(1) == 1) & (answer.sum(1) <= 1) & ~(new & (before >= 0)).any(1)
    if played is not None:
        legal &= played == move.argmax(1)
    return np.where(legal, np.where(answer.any(1, keepdims=True), answer, move).argmax(1), -1)


def won_lines(boards: Ints, lines: Ints) -> npt.NDArray[np.bool_]:
    """Return which lines [L, connect] are full of one player's pieces, bool [N, L].

    Example:
        >>> won_lines(np.array([[1, 1, 0]]), np.array([[0, 1], [1, 2]])).tolist()
        [[True, False]]
    """
    pieces: Any = boards[:, lines]
    return np.asarray((pieces[..., 0] >= 0) & (pieces == pieces[..., :1]).all(-1))
