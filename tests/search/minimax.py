"""Exhaustive minimax for tic-tac-toe with independent rules: boards are strings of nine, "X" moves first."""

from __future__ import annotations

from functools import cache

import torch

LINES = ("012", "345", "678", "036", "147", "258", "048", "246")


@cache
def value(board: str) -> int:
    """What the player who is to move gets with perfect play: 1, 0 or -1."""
    if any(board[int(a)] == board[int(b)] == board[int(c)] != "." for a, b, c in LINES):
        return -1  # the one who moved last has the line
    return max((-value(after) for _, after in moves(board)), default=0)


def ended(board: str) -> bool:
    line = any(board[int(a)] == board[int(b)] == board[int(c)] != "." for a, b, c in LINES)
    return line or "." not in board


def moves(board: str) -> list[tuple[int, str]]:
    sign = "XO"[(9 - board.count(".")) % 2]
    return [(i, board[:i] + sign + board[i + 1 :]) for i in range(9) if board[i] == "."]


@cache
def optimal(board: str) -> frozenset[int]:
    return frozenset(i for i, after in moves(board) if -value(after) == value(board))


@cache
def positions() -> tuple[str, ...]:
    """All positions that games come to and that are not over."""
    found, front = {"." * 9}, ["." * 9]
    while front:
        front = [after for board in front for _, after in moves(board) if not ended(after)]
        front = sorted(set(front) - found)
        found.update(front)
    return tuple(sorted(found))


def tensor(boards: list[str] | tuple[str, ...]) -> torch.Tensor:
    """int32 [n, 3, 3], as TicTacToeEnv has it."""
    codes = {".": -1, "X": 0, "O": 1}
    return torch.tensor([[codes[c] for c in board] for board in boards], dtype=torch.int32).reshape(-1, 3, 3)
