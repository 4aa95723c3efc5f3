"""Bit boards of connection games, for a single position as an integer and for arrays of positions."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb.envs.custom.boards import board_lines

#: A board of at most this many bits looks up lines in a table with an entry for each set of stones.
TABLE_BITS = 16
#: Sets of stones are 64-bit integers.
WORD = 64


class BitBoards:
    """The geometry of a board on which a line of stones wins: cells, moves and lines.

    A cell is a bit: ``column * (rows + 1) + height`` from the bottom. The bit above each column is always empty, so
    that no line continues from one column into the next. Stones are Python integers or uint64 arrays.

    Args:
        rows: number of rows.
        columns: number of columns.
        connect: number of stones in a line that win.
        gravity: True: an action is a column, and a stone falls to its lowest free cell. False: an action is a cell,
            ``row * columns + column`` with row 0 at the top.

    Raises:
        ValueError: If the board has more than 64 bits.

    Example:
        >>> boards = BitBoards(3, 3, 3, gravity=False)
        >>> top_row = boards.place(0, 0) | boards.place(0, 1) | boards.place(0, 2)
        >>> bool(boards.won(top_row)), bool(boards.won(top_row ^ boards.place(0, 1)))
        (True, False)
    """

    def __init__(self, rows: int, columns: int, connect: int, *, gravity: bool) -> None:
        self.rows, self.columns, self.connect, self.gravity = rows, columns, connect, gravity
        self.n_bits = columns * (rows + 1)
        if self.n_bits > WORD:
            raise ValueError(
                f"A board of {rows} x {columns} takes {self.n_bits} bits, columns * (rows + 1), and a word has {WORD}."
            )
        self.n_actions = columns if gravity else rows * columns
        # The bit of each cell, row by row from the top.
        self.bits = [c * (rows + 1) + rows - 1 - r for r in range(rows) for c in range(columns)]
        self.cells = [1 << bit for bit in self.bits]
        self.bottoms = [1 << c * (rows + 1) for c in range(columns)]
        self.column_masks = [((1 << rows) - 1) << c * (rows + 1) for c in range(columns)]
        #: The cell that must be free for each action: the top of the column, or the cell itself.
        self.gates = self.cells[:columns] if gravity else self.cells
        self.full = sum(self.cells)
        self.shifts = self._shifts()

    def _shifts(self) -> list[list[int]]:
        """List for each direction the shifts that leave only complete lines of a set of stones; see :meth:`fold`."""
        folds, length = [], 1
        while length < self.connect:
            fold = min(length, self.connect - length)
            folds.append(fold)
            length += fold
        return [[fold * step for fold in folds] for step in (1, self.rows + 1, self.rows, self.rows + 2)]

    def moves(self, occupied: int) -> list[int]:
        """List the actions that have room."""
        return [action for action, gate in enumerate(self.gates) if not occupied & gate]

    def place(self, occupied: int, action: int) -> int:
        """Return the bit that a legal move sets; ``occupied`` are all stones."""
        if self.gravity:
            return (occupied + self.bottoms[action]) & self.column_masks[action]
        return self.cells[action]

    def place_all(self, occupied: npt.NDArray[Any], action: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Do :meth:`place` for arrays of positions and moves; uint64 ``[k]``."""
        if self.gravity:
            return (occupied + self._bottoms[action]) & self._columns[action]
        return self._cells[action]

    def place_each(self, occupied: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Do :meth:`place` for every action of every position; uint64 ``[k, actions]``, arbitrary for illegal ones."""
        if self.gravity:
            return (occupied[:, None] + self._bottoms) & self._columns
        return np.broadcast_to(self._cells, (len(occupied), self.n_actions))

    def fold(self, stones: Any) -> Any:
        """Find lines in the stones of one player by shifting and intersecting; the result is not 0 if there is one."""
        lines = stones ^ stones  # 0, of the type of the stones
        for shifts in self.shifts:
            left = stones
            for shift in shifts:
                left = left & (left >> shift)
            lines = lines | left
        return lines

    def won(self, stones: int) -> Any:
        """Return whether the stones of a player, an integer, have a line."""
        return self.fold(stones) if self.table is None else self.table[stones]

    def won_all(self, stones: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Do :meth:`won` for an array of positions; bool ``[k]``."""
        return np.asarray(self.fold(stones) != 0 if self._table is None else self._table[stones])

    def legal_all(self, occupied: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Do :meth:`moves` for an array of positions; bool ``[k, actions]``."""
        return (occupied[:, None] & self._gates) == 0

    def spread(self, stones: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert stones, uint64 ``[k]``, to booleans ``[k, rows * columns]``, row 0 at the top."""
        return (stones[:, None] & self._cells) != 0

    def pack(self, stones: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert booleans to stones; the inverse of :meth:`spread`."""
        return np.where(stones, self._cells, np.uint64(0)).sum(-1, dtype=np.uint64)

    @cached_property
    def table(self) -> bytes | None:
        """Whether each set of stones has a line; None for a large board."""
        return None if self._table is None else self._table.tobytes()

    @cached_property
    def _table(self) -> npt.NDArray[Any] | None:
        if self.n_bits > TABLE_BITS:
            return None
        return self.fold(np.arange(1 << self.n_bits, dtype=np.uint64)) != 0

    @cached_property
    def lines(self) -> npt.NDArray[Any]:
        """The cells of each line, int64 ``[lines, connect]``, as ``row * columns + column``."""
        return board_lines(self.rows, self.columns, self.connect).numpy()

    @cached_property
    def _cells(self) -> npt.NDArray[Any]:
        return np.array(self.cells, dtype=np.uint64)

    @cached_property
    def _gates(self) -> npt.NDArray[Any]:
        return np.array(self.gates, dtype=np.uint64)

    @cached_property
    def _bottoms(self) -> npt.NDArray[Any]:
        return np.array(self.bottoms, dtype=np.uint64)

    @cached_property
    def _columns(self) -> npt.NDArray[Any]:
        return np.array(self.column_masks, dtype=np.uint64)


__all__ = ["BitBoards"]
