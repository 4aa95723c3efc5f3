"""Base class of two-player board games that are won by a line of pieces, batched and stateless."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import END_KEYS
from rlnb.envs.base import EnvBase
from rlnb.envs.custom.boards import EMPTY, SYMBOLS, board_text, choose_open, line_matrix, signed_board, winner
from rlnb.envs.custom.tensor_env import seed_generator

PLAYERS = ("player0", "player1")


class BoardGameEnv(EnvBase):
    """A stateless game of two players: reads a position from the TensorDict and returns the next one.

    The entries are

    - "board", int32 ``[..., rows, columns]``: -1 for an empty cell, else the player whose piece is there;
    - "turn", int32 ``[..., 1]``: the player to move, 0 or 1; player 0 begins;
    - "mask", bool ``[..., actions]``: where there is room for a piece. It may be True although the game is over;
    - ("player0", "reward") and ("player1", "reward"), float32 ``[..., 1]``: 1 for the player who completes a line with
      this move, else 0. The difference of the two is the reward of a zero-sum game;
    - "terminated" and "done": a player has a line, or the board is full. "truncated" is always False.

    Inputs may have any batch size. A reset with a "board" starts there ("turn" follows from the number of pieces)
    unless there is also a "_reset" mask, which requests empty boards. Every step checks the whole batch first: the
    position can arise in the game, it is not over, and the action is legal. Otherwise nothing is played, and the error
    names the first row, the rule and the position.

    A subclass sets ``name`` and implements ``_open``, ``_cell_of`` and ``_why_illegal``.

    Args:
        rows: number of rows of the board.
        columns: number of columns of the board.
        connect: the number of pieces in a line that win.
        n_actions: the number of actions.
        single_player: the env plays for player 1, drawing from the legal moves. A step is then two moves.
        batch_size: the number of boards that a reset without a TensorDict makes, as a shape. Default: a single board,
            without a batch dimension. Any env takes more: ``env.reset(TensorDict(batch_size=[1024]))``.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        seed: as for :meth:`set_seed`. ``None`` (the default) seeds with unpredictable numbers.

    Attributes:
        generator: generator of the moves of player 1 with ``single_player``. Torch's global generator is not used.
    """

    batch_locked = False
    name = "the game"

    def __init__(
        self,
        rows: int,
        columns: int,
        connect: int,
        n_actions: int,
        single_player: bool = False,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
    ) -> None:
        line_matrix(rows, columns, connect, torch.device("cpu"))  # raises if the board has no lines
        super().__init__(device, batch_size)
        self.rows, self.columns, self.connect, self.n_actions = rows, columns, connect, n_actions
        self.single_player = single_player
        # Always on the CPU, so that a seed gives the same games on every device.
        self.generator = torch.Generator()
        self._seed: int | None = None
        self._make_specs()
        self.set_seed(seed)

    def _make_specs(self) -> None:
        batch, device = self.batch_size, self.device
        board = Bounded(-1, 1, shape=(*batch, self.rows, self.columns), dtype=torch.int32, device=device)
        turn = Categorical(2, shape=(*batch, 1), dtype=torch.int32, device=device)
        mask = Binary(self.n_actions, shape=(*batch, self.n_actions), dtype=torch.bool, device=device)
        self.observation_spec = Composite({"board": board, "turn": turn, "mask": mask}, shape=batch)
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Categorical(self.n_actions, shape=batch, device=device)
        reward = Unbounded(shape=(*batch, 1), device=device)
        rewards = {player: Composite({"reward": reward.clone()}, shape=batch) for player in PLAYERS}
        self.reward_spec = Composite(rewards, shape=batch)
        self.add_truncated_keys()

    # For subclasses -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _open(self, board: torch.Tensor) -> torch.Tensor:
        """Find the actions with room on boards ``[n, rows, columns]``: bool ``[n, actions]``, a new tensor."""

    @abstractmethod
    def _cell_of(self, board: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Find the cell, ``row * columns + column``, in which the piece of each action ``[n]`` lands."""

    @abstractmethod
    def _why_illegal(self, board: torch.Tensor, action: int) -> str:
        """Explain why there is no room for an action on a board ``[rows, columns]``; part of an error text."""

    def _floating(self, board: torch.Tensor) -> torch.Tensor | None:
        """Find boards ``[n, rows, columns]`` with a piece that floats. ``None`` if pieces may be anywhere."""
        return None

    # Reset --------------------------------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        if kwargs:
            name = type(self).__name__
            raise TypeError(f"{name}.reset takes a TensorDict and nothing else, and got {sorted(kwargs)}.")
        self._seed = None
        if tensordict is None or tensordict.get("_reset", None) is not None or tensordict.get("board", None) is None:
            batch = self.batch_size if tensordict is None else tensordict.batch_size
            size = (batch.numel(), self.rows, self.columns)
            board = torch.full(size, EMPTY, dtype=torch.int32, device=self.device)
        else:
            batch, board = tensordict.batch_size, self._start(tensordict).clone()
        turn = (board != EMPTY).flatten(1).sum(-1, dtype=torch.int32) % 2
        data = self._position(board, turn, self._open(board), batch)
        data.update({key: torch.zeros((*batch, 1), dtype=torch.bool, device=board.device) for key in END_KEYS})
        return fast_tensordict(data, batch, self.device)

    def _start(self, tensordict: TensorDictBase) -> torch.Tensor:
        """Read and validate positions to start from."""
        board = self._board_of(tensordict)
        counts = self._counts(board)
        bad = self._malformed(tensordict, board, counts) | self._has_line(counts) | ~self._open(board).any(-1)
        if self.single_player:
            bad |= counts[:, -1] != 0
        if bool(bad.any()):
            raise ValueError(why_refused(self, "reset", tensordict, board))
        return board

    def _position(
        self, board: torch.Tensor, turn: torch.Tensor, mask: torch.Tensor, batch: torch.Size
    ) -> dict[str, Any]:
        """Return the observations of positions ``[n, ...]`` in the shape of the batch."""
        return {
            "board": board.reshape(*batch, self.rows, self.columns),
            "turn": turn.to(torch.int32).reshape(*batch, 1),
            "mask": mask.reshape(*batch, self.n_actions),
        }

    # Step ---------------------------------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        board = self._board_of(tensordict)
        action = tensordict.get("action").reshape(-1)
        counts = self._counts(board)
        bad = self._malformed(tensordict, board, counts) | self._has_line(counts)
        bad |= (action < 0) | (action >= self.n_actions)
        action = action.to(torch.int64).clamp(0, self.n_actions - 1)
        bad |= ~self._open(board).gather(1, action.unsqueeze(-1)).squeeze(-1)
        if self.single_player:
            bad |= counts[:, -1] != 0
        if bool(bad.any()):
            raise ValueError(why_refused(self, "step", tensordict, board))
        player = counts[:, -1]
        board, counts = self._put(board, counts, action, player)
        won = self._has_line(counts)
        winners = (won & (player == 0), won & (player == 1))
        mask = self._open(board)
        if self.single_player:
            board, counts, answer_won = self._answer(board, counts, mask, ~won & mask.any(-1))
            winners, mask = (won, answer_won), self._open(board)
        return self._result(board, counts[:, -1], mask, winners, tensordict.batch_size)

    def _put(
        self, board: torch.Tensor, counts: torch.Tensor, action: torch.Tensor, player: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the boards with one more piece each, and their counts."""
        cell = self._cell_of(board, action).unsqueeze(-1)
        board = board.clone()
        board.view(len(board), -1).scatter_(1, cell, player.to(board.dtype).unsqueeze(-1))
        return board, counts + self._matrix(board.device)[cell.squeeze(-1)] * (1 - 2 * player).unsqueeze(-1)

    def _answer(
        self, board: torch.Tensor, counts: torch.Tensor, mask: torch.Tensor, goes_on: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Play a random legal move for player 1 where the game goes on. Also returns where that wins."""
        share = torch.rand(len(board), generator=self.generator).to(board.device)
        # A full board has no room, so the move is made on an empty one and discarded below.
        room = torch.where(mask.any(-1)[:, None, None], board, EMPTY)
        after, after_counts = self._put(room, counts, choose_open(mask, share), torch.ones_like(counts[:, -1]))
        won = goes_on & self._has_line(after_counts)
        return (
            torch.where(goes_on[:, None, None], after, board),
            torch.where(goes_on[:, None], after_counts, counts),
            won,
        )

    def _result(
        self,
        board: torch.Tensor,
        turn: torch.Tensor,
        mask: torch.Tensor,
        winners: tuple[torch.Tensor, torch.Tensor],
        batch: torch.Size,
    ) -> TensorDictBase:
        end = winners[0] | winners[1] | ~mask.any(-1)
        column = (*batch, 1)
        data = self._position(board, turn, mask, batch)
        data["done"] = end.reshape(column)
        # Each signal gets its own memory: writing to one in place must not change another.
        data["terminated"] = end.reshape(column).clone()
        data["truncated"] = torch.zeros(column, dtype=torch.bool, device=board.device)
        for name, won in zip(PLAYERS, winners, strict=True):
            data[name] = {"reward": won.to(torch.float32).reshape(column)}
        return fast_tensordict(data, batch, self.device)

    # Positions ----------------------------------------------------------------------------------------------------

    def _matrix(self, device: torch.device) -> torch.Tensor:
        return line_matrix(self.rows, self.columns, self.connect, device)

    def _counts(self, board: torch.Tensor) -> torch.Tensor:
        """Sum pieces, X as 1 and O as -1, along each line and, in the last column, on the whole board: the turn."""
        return signed_board(board) @ self._matrix(board.device)

    def _has_line(self, counts: torch.Tensor) -> torch.Tensor:
        return counts[:, :-1].abs().amax(-1) == self.connect

    def _board_of(self, tensordict: TensorDictBase) -> torch.Tensor:
        """Read the boards as ``[n, rows, columns]``, or raise if they are missing or have a wrong shape or dtype."""
        board, name = tensordict.get("board", None), type(self).__name__
        size = (self.rows, self.columns)
        shape = (*tensordict.batch_size, *size)
        if board is None:
            raise KeyError(
                f"{name} keeps no state: step reads 'board' from the TensorDict, and found "
                f"{sorted(map(str, tensordict.keys()))}. Fix: start from env.reset(), or from step_mdp(previous)."
            )
        integer = not board.dtype.is_floating_point and board.dtype != torch.bool
        if board.shape != shape or not integer:
            if integer and tuple(board.shape[-2:]) == size:
                hint = (
                    "The dimensions in front of a board are the batch size of the TensorDict. "
                    f'Fix: TensorDict({{"board": board}}, batch_size={list(board.shape[:-2])}).'
                )
            else:
                hint = (
                    f"A board is {self.rows} x {self.columns}: -1 for an empty cell, 0 and 1 for the players' pieces."
                )
            raise ValueError(
                f"{name} takes a 'board' of shape {shape} and an integer dtype, and got {tuple(board.shape)} and "
                f"{board.dtype}. {hint}"
            )
        return board.to(torch.int32).reshape(-1, self.rows, self.columns)

    def _malformed(self, tensordict: TensorDictBase, board: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Find positions that no game can reach, as far as that shows without replaying it."""
        flat, difference = board.flatten(1), counts[:, -1]
        low, high = torch.aminmax(flat, dim=1)
        bad = (low < EMPTY) | (high > 1) | (difference < 0) | (difference > 1)
        turn = tensordict.get("turn", None)
        if turn is not None:
            bad |= turn.reshape(-1) != difference
        floating = self._floating(board)
        return bad if floating is None else bad | floating

    # Random moves, seeds ------------------------------------------------------------------------------------------

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a random legal action, uniform over those that "mask" allows.

        Without "mask" and "board" in ``tensordict``, the action is drawn from all actions.
        """
        if tensordict is None:
            return super().rand_action()
        mask = tensordict.get("mask", None)
        if mask is None and tensordict.get("board", None) is not None:
            mask = self._open(self._board_of(tensordict)).reshape(*tensordict.batch_size, self.n_actions)
        if mask is None:
            return super().rand_action(tensordict)
        with self.own_randomness():
            share = torch.rand(tensordict.batch_size, device="cpu")
        return tensordict.set("action", choose_open(mask, share.to(mask.device)))

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed  # pending until a reset draws with it, so that check_env_specs can restore it
        # Random actions are drawn with this seed; the moves of player 1 must not copy them.
        own = None if seed is None else int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])
        seed_generator(self.generator, own)


# Errors ---------------------------------------------------------------------------------------------------------------


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
        return f"{start}a position of the other player", rule, "Fix: pass a position with as many X as O."
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
