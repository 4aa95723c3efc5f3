"""Rules of the board games, in words: explains the first illegal position or move of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorDictBase

from rlnb.envs.custom.boards import EMPTY, SYMBOLS, board_text, winner

if TYPE_CHECKING:
    from rlnb.envs.custom.board_game import BoardGameEnv


def why_refused(env: BoardGameEnv, what: str, tensordict: TensorDictBase, boards: torch.Tensor) -> str:
    """Explain which rule the first illegal position or move of a batch breaks.

    ``boards`` are the positions in the input of a "reset" or "step" (``what``), ``[n, rows, columns]``. At least one of
    them, or the move in it, is illegal.
    """
    turns = tensordict.get("turn", None)
    actions = tensordict.get("action").reshape(-1).tolist() if what == "step" else [None] * len(boards)
    given = [None] * len(boards) if turns is None else turns.reshape(-1).tolist()
    for i, (board, turn, action) in enumerate(zip(boards.cpu(), given, actions, strict=True)):
        found = _explain(env, board, turn, action)
        if found is not None:
            at = tuple(torch.unravel_index(torch.tensor(i), tensordict.batch_size)) if tensordict.batch_size else ()
            where = f" at index {tuple(int(k) for k in at)}" if at else ""
            who, verb = type(env).__name__, "got" if what == "step" else "cannot start"
            return f"{who}.{what} {verb} {found[0]}{where}: {found[1]}\n{board_text(board)}\n{found[2]}"
    raise AssertionError("every position and move is legal")


def _explain(
    env: BoardGameEnv, board: torch.Tensor, turn: int | None, action: int | None
) -> tuple[str, str, str] | None:
    """Name what is wrong with one position or move, the rule it breaks, and the fix. None if it is legal."""
    start = "from " if action is None else ""
    rule = _broken_rule(env, board, turn)
    if rule is not None:
        return f"{start}a malformed position", rule, "Fix: positions come from env.reset() and from env.step(...)."
    who, n = int(winner(board, env.connect)), len(env._open(board[None])[0])
    mask = env._open(board[None])[0]
    if who >= 0 or not mask.any():
        how = f"player {who} ({SYMBOLS[who]}) has won" if who >= 0 else "the board is full"
        fix = (
            'Fix: reset without "board" starts a new game.'
            if action is None
            else 'Fix: stop at "done", or let env.maybe_reset(...) or rollout(..., break_when_any_done=False) reset.'
        )
        return f"{start}a finished position", f"the game is over, as {how}.", fix
    if env.single_player and int((board != EMPTY).sum()) % 2:
        rule = "with single_player=True the learner is player 0, and here player 1 (O) is to move."
        return f"{start}a position of the other player", rule, "Fix: hand in a position with as many X as O."
    if action is None or (0 <= action < n and mask[action]):
        return None
    legal = f'The legal actions are {mask.nonzero().flatten().tolist()}. Fix: choose where "mask" is True.'
    if not 0 <= action < n:
        return f"the action {action}", f"the actions of {env.name} are 0 to {n - 1}.", legal
    return f"the illegal action {action}", f"{env._why_illegal(board, action)}.", legal


def _broken_rule(env: BoardGameEnv, board: torch.Tensor, turn: int | None) -> str | None:
    """Name the rule by which a position cannot arise in a game. None if it can."""
    odd = ((board < EMPTY) | (board > 1)).nonzero()
    if len(odd):
        row, column = odd[0].tolist()
        value = int(board[row, column])
        return f"a cell is -1 (empty), 0 or 1 (a player's piece), and row {row}, column {column} has {value}."
    counts = [int((board == player).sum()) for player in (0, 1)]
    if counts[0] - counts[1] not in (0, 1):
        return (
            "player 0 begins and the two take turns, so there are as many X as O or one more, "
            f"and here are {counts[0]} X and {counts[1]} O."
        )
    if turn is not None and turn != counts[0] - counts[1]:
        return (
            f"with {counts[0]} X and {counts[1]} O it is the turn of player {counts[0] - counts[1]}, "
            f'and "turn" says {turn}.'
        )
    floating = env._floating(board[None])
    if floating is not None and bool(floating):
        row, column = ((board[:-1] != EMPTY) & (board[1:] == EMPTY)).nonzero()[0].tolist()
        return f"a disc falls to the lowest free cell, and the one at row {row}, column {column} has none below it."
    who = int(winner(board, env.connect))
    if who == 2:
        return f"the game ends with the first line of {env.connect}, and both players have one."
    if who >= 0 and who == counts[0] - counts[1]:
        return (
            f"the game ends with the first line of {env.connect}, and player {1 - who} ({SYMBOLS[1 - who]}) has moved "
            f"after player {who} ({SYMBOLS[who]}) had won."
        )
    return None
