"""Positions of tic-tac-toe: from rows of signs to a board, and what each is worth if both sides play their best."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import torch

from rlnb.envs.custom.boards import board_lines

_SIGNS = ".XO"
_LINES = board_lines(3, 3, 3).tolist()


def board(rows: Sequence[str]) -> torch.Tensor:
    """Make a board of rows of signs.

    Args:
        rows: one string for each row, of ``"."`` for an empty cell, ``"X"`` and ``"O"``.

    Returns:
        int32 of shape ``[rows, columns]``, as the envs have it.

    Example:
        >>> board(["X.", ".O"]).tolist()
        [[0, -1], [-1, 1]]
    """
    return torch.tensor([[_SIGNS.index(sign) - 1 for sign in row] for row in rows], dtype=torch.int32)


def signs(board: torch.Tensor) -> str:
    """Write a board of tic-tac-toe as nine signs.

    Args:
        board: of shape ``[3, 3]``.

    Returns:
        Nine signs, row by row: what the functions below take.

    Example:
        >>> signs(torch.tensor([[0, 1, -1], [-1, -1, -1], [-1, -1, -1]]))
        'XO.......'
    """
    return "".join(_SIGNS[cell + 1] for cell in board.flatten().tolist())


def in_rows(position: str) -> str:
    """Write a position in three lines, each as code for a verdict.

    Example:
        >>> print(in_rows("XO......."))
        `X O .`
        `. . .`
        `. . .`
    """
    return "\n".join(f"`{' '.join(position[row : row + 3])}`" for row in (0, 3, 6))


def after(position: str, move: int) -> str:
    """Play a move.

    Args:
        position: nine signs.
        move: a free cell.

    Returns:
        The position after it.
    """
    return position[:move] + to_move(position) + position[move + 1 :]


def to_move(position: str) -> str:
    """Say who is to move, ``"X"`` or ``"O"``."""
    return "XO"[(9 - position.count(".")) % 2]


def free(position: str) -> list[int]:
    """List the moves; none if the game is over."""
    return [] if _has_line(position) else [cell for cell, sign in enumerate(position) if sign == "."]


def _has_line(position: str) -> bool:
    return any(position[a] != "." and position[a] == position[b] == position[c] for a, b, c in _LINES)


@cache
def worth(position: str) -> int:
    """Find what a position is worth to the player to move, if both sides play their best.

    Args:
        position: nine signs.

    Returns:
        1 for a win, 0 for a draw, -1 for a loss.

    Example:
        >>> worth("." * 9), worth("XX.OO....")
        (0, 1)
    """
    if _has_line(position):
        return -1
    return max((-worth(after(position, move)) for move in free(position)), default=0)


def best_moves(position: str) -> list[int]:
    """List the moves that keep what a position is worth.

    Example:
        >>> best_moves("XX.OO....")
        [2]
    """
    return [move for move in free(position) if -worth(after(position, move)) == worth(position)]


def playout(position: str) -> int:
    """Play random moves to the end.

    Args:
        position: nine signs; the game may be over.

    Returns:
        The result for the player to move in ``position``: 1 for a win, 0 for a draw, -1 for a loss.

    Example:
        >>> playout("XXXOO...."), playout("XOXXOOOX.")
        (-1, 0)
    """
    sign = 1
    while moves := free(position):
        position = after(position, random.choice(moves))
        sign = -sign
    return -sign if _has_line(position) else 0


def all_positions() -> list[str]:
    """List all positions in which somebody is to move, in the order in which they are met, from the empty board on.

    Example:
        >>> len(all_positions())
        4520
    """
    found = {"." * 9: None}
    for_now = list(found)
    while for_now:
        following = [after(position, move) for position in for_now for move in free(position)]
        for_now = [position for position in dict.fromkeys(following) if free(position)]
        found.update(dict.fromkeys(for_now))
    return list(found)
