"""Connect Four for two players, batched and stateless."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlnb.envs.custom.board_game import BoardGameEnv
from rlnb.envs.custom.boards import EMPTY


class ConnectFourEnv(BoardGameEnv):
    """Connect Four: two players take turns to drop discs into columns, and four in a line win.

    The action is the column; the disc falls to its lowest free cell. Row 0 is the top row. The env is stateless. Its
    entries and errors are those of :class:`~rlnb.envs.custom.board_game.BoardGameEnv`. Random actions are legal.

    Args:
        rows: number of rows of the board.
        columns: number of columns of the board.
        connect: the number of discs in a line that win.
        single_player: the learner is player 0, and the env answers each move with a random legal one.
        batch_size, device, seed: see :class:`~rlnb.envs.custom.board_game.BoardGameEnv`.

    Raises:
        ValueError: If a size is not positive, or no line fits on the board.

    Example:
        >>> from rlnb.envs.custom.boards import board_text
        >>> env = ConnectFourEnv(rows=4, columns=5, connect=3)
        >>> rollout = env.rollout(20, lambda board, turn, mask: turn.squeeze(-1).long())
        >>> print(board_text(rollout[-1]["next", "board"]))
        . . . . .
        X . . . .
        X O . . .
        X O . . .
        >>> rollout["next", "player0", "reward"].flatten().tolist()
        [0.0, 0.0, 0.0, 0.0, 1.0]
    """

    name = "Connect Four"

    def __init__(
        self,
        rows: int = 6,
        columns: int = 7,
        connect: int = 4,
        *,
        single_player: bool = False,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(rows, columns, connect, columns, single_player, batch_size, device, seed)

    def _open(self, board: torch.Tensor) -> torch.Tensor:
        return board[..., 0, :] == EMPTY

    def _cell_of(self, board: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        column = board.gather(-1, action[..., None, None].expand(*board.shape[:-1], 1))
        row = (column == EMPTY).sum((-2, -1)) - 1  # the lowest free one; -1 where the column is full
        return row * self.columns + action

    def _why_illegal(self, board: torch.Tensor, action: int) -> str:
        return f"column {action} is full"

    def _floating(self, board: torch.Tensor) -> torch.Tensor:
        return ((board[:, :-1] != EMPTY) & (board[:, 1:] == EMPTY)).flatten(1).any(-1)
