"""Reference implementations of the board games in plain, slow Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict

from rlnb.envs import ConnectFourEnv, TicTacToeEnv

Board = tuple[tuple[int, ...], ...]

GAMES: dict[str, Callable[..., Any]] = {
    "tic-tac-toe": TicTacToeEnv,
    "Connect Four": ConnectFourEnv,
    "three on 4 x 5": partial(ConnectFourEnv, 4, 5, 3),
}


def as_position(*boards: Any) -> TensorDict:
    """A TensorDict with positions: of no batch dimension for one board."""
    tensor = torch.tensor(boards, dtype=torch.int32)
    return TensorDict({"board": tensor[0]}) if len(boards) == 1 else TensorDict({"board": tensor}, [len(boards)])


def empty(env: Any) -> Board:
    """A board without pieces."""
    return ((-1,) * env.columns,) * env.rows


def lines_of(board: Board, player: int, connect: int) -> int:
    """How many lines a player has, found by walking from every cell in four directions."""
    rows, columns, found = len(board), len(board[0]), 0
    for row in range(rows):
        for column in range(columns):
            for down, right in ((0, 1), (1, 0), (1, 1), (-1, 1)):
                cells = [(row + k * down, column + k * right) for k in range(connect)]
                if all(0 <= r < rows and 0 <= c < columns and board[r][c] == player for r, c in cells):
                    found += 1
    return found


def legal(env: Any, board: Board) -> list[int]:
    """The actions that have room."""
    if isinstance(env, TicTacToeEnv):
        return [k for k in range(9) if board[k // 3][k % 3] == -1]
    return [c for c in range(env.columns) if board[0][c] == -1]


def put(env: Any, board: Board, action: int, player: int) -> Board:
    """The board with one more piece."""
    if isinstance(env, TicTacToeEnv):
        row, column = divmod(action, 3)
    else:
        column = action
        row = max(r for r in range(env.rows) if board[r][column] == -1)
    rows = [list(line) for line in board]
    rows[row][column] = player
    return tuple(map(tuple, rows))


def outcome(env: Any, board: Board) -> int | None:
    """The player who has won, -1 for a draw, None while the game goes on."""
    for player in (0, 1):
        if lines_of(board, player, env.connect):
            return player
    return None if legal(env, board) else -1
