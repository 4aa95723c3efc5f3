"""Positions of connection games as tensors: lines, winners, whose turn it is, boards as text; all over any batch."""

from __future__ import annotations

from functools import cache

import torch

#: What stands in a cell: nothing, or the number of the player whose piece it is.
EMPTY = -1
#: How the pieces of player 0 and player 1 are written.
SYMBOLS = ("X", "O")


def board_lines(rows: int, columns: int, connect: int) -> torch.Tensor:
    """List the lines of a board: across, down and along both diagonals.

    Args:
        rows: of the board.
        columns: of the board.
        connect: how many cells make a line.

    Returns:
        The cells of each line as ``row * columns + column``, int64 of shape ``[lines, connect]``.

    Raises:
        ValueError: If a size is not positive, or no line fits.

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
    """Tell which cell lies on which line, so that one matrix product counts the pieces of all lines of all boards.

    Args:
        rows: of the board.
        columns: of the board.
        connect: how many cells make a line.
        device: where the matrix lives; it is made once for each.

    Returns:
        Ones and zeros, float32 of shape ``[rows * columns, lines + 1]``; the last column is all the board.
    """
    lines = board_lines(rows, columns, connect)
    matrix = torch.zeros(rows * columns, len(lines) + 1)
    matrix[lines, torch.arange(len(lines)).unsqueeze(-1)] = 1.0
    matrix[:, -1] = 1.0
    return matrix.to(device)


def signed_board(board: torch.Tensor) -> torch.Tensor:
    """Write the pieces of player 0 as 1, those of player 1 as -1 and empty cells as 0.

    Args:
        board: ``[..., rows, columns]`` of -1, 0 and 1.

    Returns:
        float32 of shape ``[..., rows * columns]``.

    Example:
        >>> signed_board(torch.tensor([[-1, 0, 1]])).tolist()
        [0.0, 1.0, -1.0]
    """
    cells = board.flatten(-2).to(torch.float32)
    return (1 - 2 * cells).masked_fill_(cells < 0, 0.0)


def winner(board: torch.Tensor, connect: int) -> torch.Tensor:
    """Find who has a line.

    Args:
        board: positions, ``[..., rows, columns]`` of -1 (empty), 0 and 1.
        connect: how many cells make a line.

    Returns:
        0 or 1 where that player has a line, -1 where nobody has one and 2 where both have (no game comes to that);
        int64 of the batch shape.

    Example:
        >>> board = torch.tensor([[0, 0, 0], [1, 1, -1], [-1, -1, -1]])
        >>> winner(board, 3).item(), winner(board.flip(0)[1:], 2).tolist()
        (0, 2)
    """
    counts = signed_board(board) @ line_matrix(board.shape[-2], board.shape[-1], connect, board.device)
    low, high = torch.aminmax(counts[..., :-1], dim=-1)
    first, second = high == connect, low == -connect
    return first.long() + 2 * second.long() - 1


def to_move(board: torch.Tensor) -> torch.Tensor:
    """Tell whose turn it is: player 0 begins, and the two take turns.

    Args:
        board: positions, ``[..., rows, columns]``.

    Returns:
        0 or 1, int64 of the batch shape.

    Example:
        >>> to_move(torch.tensor([[-1, 0], [-1, -1]])).item()
        1
    """
    return (board != EMPTY).sum((-2, -1)) % 2


def choose_open(mask: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """Pick one of the open actions of each row: the one at a share of the way through them.

    Args:
        mask: True for an open action, ``[..., actions]``.
        share: in [0, 1), of the batch shape; uniform numbers make each open action as likely.

    Returns:
        The actions, int64 of the batch shape; 0 where nothing is open.

    Example:
        >>> choose_open(torch.tensor([[False, True, True]] * 2), torch.tensor([0.2, 0.7])).tolist()
        [1, 2]
    """
    rank = mask.cumsum(-1, dtype=torch.int32)
    count = rank[..., -1]
    nth = torch.minimum((share * count).to(torch.int32) + 1, count)  # the product may be rounded up to the count
    return (mask & (rank == nth.unsqueeze(-1))).to(torch.uint8).argmax(-1)


def board_text(board: torch.Tensor) -> str:
    """Write one board in letters: X for player 0, O for player 1, a dot for an empty cell.

    Args:
        board: ``[rows, columns]``.

    Returns:
        A line for each row.

    Example:
        >>> print(board_text(torch.tensor([[0, -1], [1, 0]])))
        X .
        O X
    """
    signs = {EMPTY: ".", 0: SYMBOLS[0], 1: SYMBOLS[1]}
    return "\n".join(" ".join(signs.get(cell, "?") for cell in row) for row in board.tolist())


__all__ = [
    "EMPTY", "SYMBOLS", "board_lines", "board_text", "choose_open", "line_matrix", "signed_board", "to_move", "winner",
]  # fmt: skip
