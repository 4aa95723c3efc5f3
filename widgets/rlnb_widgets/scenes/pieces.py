"""Scene of board games whose pieces are of several kinds, move and are captured: chess, checkers, Go, Othello."""

from __future__ import annotations

from string import ascii_lowercase
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rlnb_widgets._core.colors import agent_role, letters_on
from rlnb_widgets._core.display import Mark
from rlnb_widgets.scenes.board import board_cells, poses_of
from rlnb_widgets.scenes.drawing import STROKE, box, disc, paper, pose, text
from rlnb_widgets.scenes.grid import grid_lines
from rlnb_widgets.scenes.scene import Part, Scene

Ints = npt.NDArray[np.int64]
_MARGIN = 26.0  # room for the names of rows and columns


class Piece(NamedTuple):
    """A kind of piece."""

    player: int  #: whose it is, 0 or 1
    letter: str  #: what it is called in captions
    sign: str = ""  #: what is written on it; a stone has none


class PieceBoard:
    """Draws positions of two players, whose pieces are told apart by colour and by the ring of the second player's.

    A frame stands around the cell of the last move.

    Args:
        rows: number of rows.
        columns: number of columns.
        pieces: the kinds of pieces.
        cells: ``"checkered"``, ``"plain"``, or ``"crossings"`` where pieces stand on the lines.
        upwards: whether rows are counted from the lowest one.

    Example:
        >>> board = PieceBoard(2, 3, (Piece(0, "x"), Piece(1, "o")))
        >>> scene = board.pose([[[0, -1, -1], [-1, -1, -1]], [[0, -1, -1], [-1, -1, 1]]])
        >>> scene.caption_at(1)
        'x . . / . . o; the last move was to c1'
    """

    reads = ("board",)

    def __init__(
        self,
        rows: int,
        columns: int,
        pieces: tuple[Piece, ...],
        cells: Literal["checkered", "plain", "crossings"] = "plain",
        upwards: bool = True,
    ) -> None:
        self.rows, self.columns, self.pieces, self.cells, self.upwards = rows, columns, pieces, cells, upwards
        self.cell = 420.0 / max(rows, columns)
        self.width, self.height = columns * self.cell + _MARGIN, rows * self.cell + _MARGIN
        self.background = [paper(self.width, self.height), *self._grid(), *self._names()]
        self.player = np.array([piece.player for piece in pieces])

    def sized(self, rows: int, columns: int) -> PieceBoard:
        """Return such a board of another size."""
        if (rows, columns) == (self.rows, self.columns):
            return self
        return PieceBoard(rows, columns, self.pieces, self.cells, self.upwards)

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of positions ``[N, rows, columns]`` of numbers of pieces, -1 for an empty cell."""
        boards = board_cells(observations, self.rows, self.columns).astype(np.int64)
        last = reached_cells(boards, self.player)
        parts = [Part("last move", [self._frame()])]
        poses = [pose(*self._centre(np.maximum(last, 0)), 0.0, last >= 0)]
        for number, piece in enumerate(self.pieces):
            there = boards == number
            most = int(there.sum(1).max(initial=0))  # as many as are needed: a large board has room for hundreds
            parts += [Part(f"{piece.letter} {k + 1}", self._marks(piece)) for k in range(most)]
            poses += poses_of(there, most, self._centre)

        letters = np.array([*(piece.letter for piece in self.pieces), "."])

        def caption(i: int) -> str:
            rows = letters[boards[i]].reshape(self.rows, self.columns)
            words = " / ".join(map(" ".join, rows))
            return words if last[i] < 0 else f"{words}; the last move was to {self.name_of(int(last[i]))}"

        return Scene(self.width, self.height, self.background, tuple(parts), np.stack(poses, axis=1), caption)

    def name_of(self, cell: int) -> str:
        """Return the name of a cell, such as e4."""
        row, column = divmod(cell, self.columns)
        return f"{self._letter(column)}{self.rows - row if self.upwards else row + 1}"

    def _letter(self, column: int) -> str:
        """Return the name of a column; players of Go leave out the i, and after the last letter come two."""
        letters = ascii_lowercase.replace("i", "") if self.cells == "crossings" else ascii_lowercase
        more, column = divmod(column, len(letters))
        return (letters[more - 1] if more else "") + letters[column]

    def _centre(self, cell: Any) -> tuple[Any, Any]:
        row, column = np.divmod(cell, self.columns)
        return (column + 0.5) * self.cell + _MARGIN, (row + 0.5) * self.cell

    def _frame(self) -> Mark:
        edge, width = self.cell * 0.94, min(STROKE, self.cell * 0.08)
        return box(-edge / 2, -edge / 2, edge, edge, stroke="ink", width=width, radius=self.cell * 0.1)

    def _grid(self) -> list[Mark]:
        cell, rows, columns = self.cell, self.rows, self.columns
        x = y = 0.0
        if self.cells == "crossings":  # the lines meet in the middle of the cells
            rows, columns, x, y = rows - 1, columns - 1, cell / 2, cell / 2
        edge = (x + _MARGIN, y, columns * cell, rows * cell)
        dark = (
            box(c * cell + _MARGIN, r * cell, cell, cell, "line")
            for r in range(rows)
            for c in range(columns)
            if self.cells == "checkered" and (rows - r + c) % 2
        )
        frame = box(*edge, stroke="muted", width=STROKE / 2)
        return [*dark, *grid_lines(rows, columns, cell, *edge[:2], role="muted"), frame]

    def _names(self) -> list[Mark]:
        size = min(16.0, self.cell * 0.7)
        down = [
            text(_MARGIN / 2, (r + 0.5) * self.cell, size, str(self.rows - r if self.upwards else r + 1))
            for r in range(self.rows)
        ]
        across = [
            text((c + 0.5) * self.cell + _MARGIN, self.height - _MARGIN / 2, size, self._letter(c))
            for c in range(self.columns)
        ]
        return down + across

    def _marks(self, piece: Piece) -> list[Mark]:
        radius, width = self.cell * 0.42, self.cell * 0.05
        role = agent_role(piece.player)
        stone = disc(0, 0, radius - width / 2, role, stroke="ink" if piece.player else None, width=width)
        if piece.sign:
            return [stone, text(0, 0, radius * 1.4, piece.sign, letters_on(role))]
        ring = disc(0, 0, radius * 0.45, stroke="paper", width=width * 1.5)
        return [stone, ring] if piece.player else [stone]


def reached_cells(boards: Ints, player: Ints) -> Ints:
    """Return the cell to which the last piece moved in each position, ``[N]``; -1 if the row above does not tell.

    It is the cell that was empty in the row above, or, if there is none, the one where a piece of the other player was.

    Args:
        boards: numbers of pieces, -1 for an empty cell, ``[N, cells]``.
        player: whose a piece is, by its number.

    Example:
        >>> boards = np.array([[0, -1, 1], [-1, 0, 1], [-1, -1, 0], [0, 0, -1]])
        >>> reached_cells(boards, np.array([0, 1])).tolist()
        [-1, 1, 2, -1]
    """
    found = np.full(len(boards), -1, np.int64)
    before, after = boards[:-1], boards[1:]
    placed = (after >= 0) & (before < 0)
    taken = (after >= 0) & (before >= 0) & (player[after] != player[before])
    move: npt.NDArray[np.bool_] = np.where(placed.any(1, keepdims=True), placed, taken)
    one = move.sum(1) == 1
    left = (after < 0) & (before >= 0)
    castled = (placed.sum(1) == 2) & (left.sum(1) == 2)
    # Of a king and a rook the king has the lower number.
    cell = np.where(castled, np.where(move, after, len(player)).argmin(1), move.argmax(1))
    found[1:] = np.where(one | castled, cell, -1)
    return found
