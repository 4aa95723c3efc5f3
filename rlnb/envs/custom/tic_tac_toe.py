"""Tic-tac-toe for two players, batched and stateless."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlnb.envs.custom.board_game import BoardGameEnv
from rlnb.envs.custom.boards import EMPTY, SYMBOLS

_SIDE = 3


class TicTacToeEnv(BoardGameEnv):
    """Tic-tac-toe: two players take turns to mark one of nine cells, and three in a line win.

    The action is the cell, ``3 * row + column``. The env is stateless. Its entries and errors are those of
    :class:`~rlnb.envs.custom.board_game.BoardGameEnv`. Random actions are legal.

    Args:
        single_player: the learner is player 0, and the env answers each move with a random legal one.
        batch_size, device, seed: see :class:`~rlnb.envs.custom.board_game.BoardGameEnv`.

    Example:
        >>> from tensordict import TensorDict
        >>> env = TicTacToeEnv(seed=0)
        >>> rollout = env.rollout(9)
        >>> rollout["next", "done"].flatten().tolist().index(True) == len(rollout) - 1
        True
        >>> position = TensorDict({"board": torch.tensor([[0, 0, -1], [1, 1, -1], [-1, -1, -1]], dtype=torch.int32)})
        >>> td = env.reset(position)
        >>> td["turn"].item(), td["mask"].long().tolist()
        (0, [0, 0, 1, 0, 0, 1, 1, 1, 1])
        >>> env.step(td.set("action", torch.tensor(2)))["next", "player0", "reward"]
        tensor([1.])
        >>> env.rollout(9, tensordict=TensorDict(batch_size=[512]), break_when_any_done=False).batch_size
        torch.Size([512, 9])
    """

    name = "tic-tac-toe"

    def __init__(
        self,
        *,
        single_player: bool = False,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(_SIDE, _SIDE, _SIDE, _SIDE**2, single_player, batch_size, device, seed)

    def _open(self, board: torch.Tensor) -> torch.Tensor:
        return (board == EMPTY).flatten(-2)

    def _cell_of(self, board: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return action

    def _why_illegal(self, board: torch.Tensor, action: int) -> str:
        row, column = divmod(action, _SIDE)
        player = int(board[row, column])
        return f"the cell at row {row}, column {column} is occupied by player {player} ({SYMBOLS[player]})"
