"""Positions of connection games as batched tensors: lines, winners, turns and boards as text."""

from __future__ import annotations

from functools import cache

import torch

#: The value of an empty cell. Other cells hold the number of the player whose piece it is.
EMPTY = -1
#: Symbols of the pieces of player 0 and player 1.
SYMBOLS = ("X", "O")


def board_lines(rows: int, columns: int, connect: int) -> torch.Tensor:
    """List the lines of ``connect`` cells of a board, across, down and along both diagonals: ``[lines, connect]``.

    A cell is ``row * columns + column``, int64. ValueError: If a size is not positive, or no line fits.

    Example:
        >>> len(board_lines(3, 3, 3)), len(board_lines(6, 7, 4))
        (8, 69)
    """
    if min(rows, columns, connect) < 1 or connect > max(rows, columns):
        raise ValueError(
            f"A board of {rows} x {columns} has no line of {connect}: rows and columns are positive, and connect is "
            f"from 1 to the longer of them."
        )
    lines = {
        tuple(sorted((row + k * down) * columns + column + k * right for k in range(connect)))
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
        for row in range(rows)
        for column in range(columns)
        if row + (connect - 1) * down < rows and 0 <= column + (connect - 1) * right < columns
    }
    return torch.tensor(sorted(lines))


@cache
def line_matrix(rows: int, columns: int, connect: int, device: torch.device) -> torch.Tensor:
    """Make the incidence matrix of cells and lines: one product with it counts the pieces on all lines of all boards.

    It has ones and zeros, float32 of shape ``[rows * columns, lines + 1]``. The last column is the whole board.
    """
    lines = board_lines(rows, columns, connect)
    matrix = torch.zeros(rows * columns, len(lines) + 1)
    matrix[lines, torch.arange(len(lines)).unsqueeze(-1)] = 1.0
    matrix[:, -1] = 1.0
    return matrix.to(device)


def signed_board(board: torch.Tensor) -> torch.Tensor:
    """Encode player 0 as 1, player 1 as -1 and empty cells as 0: boards to float32 ``[..., rows * columns]``.

    Example:
        >>> signed_board(torch.tensor([[-1, 0, 1]])).tolist()
        [0.0, 1.0, -1.0]
    """
    cells = board.flatten(-2).to(torch.float32)
    return (1 - 2 * cells).masked_fill_(cells < 0, 0.0)


def winner(board: torch.Tensor, connect: int) -> torch.Tensor:
    """Find the player who has a line of ``connect`` pieces on boards ``[..., rows, columns]``.

    It is -1 for neither player and 2 for both (which no game reaches), int64 of the batch shape.

    Example:
        >>> board = torch.tensor([[0, 0, 0], [1, 1, -1], [-1, -1, -1]])
        >>> winner(board, 3).item(), winner(board.flip(0)[1:], 2).tolist()
        (0, 2)
    """
    counts = signed_board(board) @ line_matrix(board.shape[-2], board.shape[-1], connect, board.device)
    low, high = torch.aminmax(counts[..., :-1], dim=-1)
    first, second = high == connect, low == -connect
    return first.long() + 2 * second.long() - 1


def choose_open(mask: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Pick one of the open actions of each row ``[..., actions]`` of a mask, 0 if nothing is open.

    ``share`` is its quantile among them, in [0, 1), of the batch shape: uniform numbers pick uniformly.

    Example:
        >>> choose_open(torch.tensor([[False, True, True]] * 2), torch.tensor([0.2, 0.7])).tolist()
        [1, 2]
    """
    rank = mask.cumsum(-1, dtype=torch.int32)
    count = rank[..., -1]
    nth = torch.minimum((share * count).to(torch.int32) + 1, count)  # the product may be rounded up to the count
    return (mask & (rank == nth.unsqueeze(-1))).to(torch.uint8).argmax(-1)


def board_text(board: torch.Tensor) -> str:
    """Format a board ``[rows, columns]`` as text: X for player 0, O for player 1, a dot for an empty cell.

    Example:
        >>> print(board_text(torch.tensor([[0, -1], [1, 0]])))
        X .
        O X
    """
    signs = {EMPTY: ".", 0: SYMBOLS[0], 1: SYMBOLS[1]}
    return "\n".join(" ".join(signs.get(cell, "?") for cell in row) for row in board.tolist())
