"""Tic-tac-toe and Connect Four on bit boards, without TensorDicts."""

from __future__ import annotations

from random import Random
from typing import Any, TypeGuard

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.envs.custom.board_game import BoardGameEnv
from rlnb.envs.custom.connect_four import ConnectFourEnv
from rlnb.envs.custom.tic_tac_toe import TicTacToeEnv
from rlnb.envs.rows import replaced_methods
from rlnb.search.bit_boards import WORD, BitBoards
from rlnb.search.games import Array, Game, Positions


class ConnectionGame(Game):
    """The rules of a board game env as functions of bit boards.

    A state is two uint64: the stones of the player to move, and those of the other player.

    Args:
        env: the env, tic-tac-toe or Connect Four. It validates the roots, and is never stepped.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> game = ConnectionGame(TicTacToeEnv())
        >>> root = game.start(None)
        >>> positions, rewards = game.step(root.states, np.array([4]))
        >>> positions.to_play.tolist(), rewards.tolist(), int(positions.legal.sum())
        ([1], [0.0], 8)
    """

    n_players = 2
    state_shape = (2,)
    state_dtype = np.uint64
    returns = (-1.0, 1.0)

    def __init__(self, env: BoardGameEnv) -> None:
        self.env = env
        gravity = isinstance(env, ConnectFourEnv)
        self.boards = BitBoards(env.rows, env.columns, env.connect, gravity=gravity)
        self.n_actions = env.n_actions
        self.most_positions = 3 ** (env.rows * env.columns)
        # Cells column by column from the bottom, the order in which `_ranks` draws times for falling stones.
        order = np.arange(env.rows * env.columns).reshape(env.rows, env.columns)
        self._fall_order = order[::-1].T.reshape(-1)

    @staticmethod
    def fits(env: Any) -> TypeGuard[BoardGameEnv]:
        """Return whether an env plays such a game, for two players and on a board that fits into a word.

        A subclass, or an env on which a method is replaced, may have other rules, so it does not count.
        """
        known = type(env) in (TicTacToeEnv, ConnectFourEnv) and not env.single_player and not replaced_methods(env)
        return known and env.columns * (env.rows + 1) <= WORD

    def start(self, tensordict: TensorDictBase | None) -> Positions:
        """Read boards; see :meth:`Game.start`. The env rejects boards that are not positions of the game."""
        given = None if tensordict is None else tensordict.select("board", "turn", strict=False)
        board = self.env.reset(given)["board"].reshape(-1, self.env.rows * self.env.columns).cpu().numpy()
        stones = np.stack([self.boards.pack(board == player) for player in (0, 1)])
        turn = (board >= 0).sum(-1) % 2
        rows = np.arange(len(board))
        return self._positions(np.stack((stones[turn, rows], stones[1 - turn, rows]), -1), turn, None)

    def step(self, states: Array, actions: Array) -> tuple[Positions, Array]:
        """Play moves; see :meth:`Game.step`."""
        mine, theirs = states[:, 0], states[:, 1]
        occupied = mine | theirs
        after = mine | self.boards.place_all(occupied, actions)
        won: Array = self.boards.won_all(after)
        turn = (np.bitwise_count(occupied) + 1) % 2
        return self._positions(np.stack((theirs, after), -1), turn, won), won.astype(np.float64)

    def step_one(self, mine: int, theirs: int, action: int) -> tuple[int, int, list[int], bool]:
        """Do :meth:`step` for a single position on Python numbers; ``mine`` and ``theirs`` are stones.

        Returns the stones of the player to move next and of the other one, the free actions, and whether the move wins.
        """
        boards = self.boards
        after = mine | boards.place(mine | theirs, action)
        return theirs, after, boards.moves(after | theirs), bool(boards.won(after))

    def _positions(self, states: Array, turn: Array, won: Array | None) -> Positions:
        legal = self.boards.legal_all(states[:, 0] | states[:, 1])
        over: Array = ~np.atleast_1d(legal.any(-1))
        if won is not None:
            over |= won
        return Positions(states, turn.astype(np.int8), legal, over)

    def outlook(self, positions: Positions, discount: float) -> tuple[Array, Array]:
        """Find lines that either player can complete with one move; see :meth:`Game.outlook`.

        Completing a line wins. Otherwise, if the other player threatens to complete one, every action that does not
        block the threat loses. An action that fills the board without a line is a draw.
        """
        mine, theirs, legal = positions.states[:, 0], positions.states[:, 1], positions.legal
        occupied = mine | theirs
        bits = self.boards.place_each(occupied)
        wins = self.boards.won_all(mine[:, None] | bits) & legal
        threats = self.boards.won_all(theirs[:, None] | bits) & legal
        drawn = legal & ((occupied[:, None] | bits) == self.boards.full)
        left = threats.sum(-1, keepdims=True) > threats  # a threat that the action does not block
        lost = left & ~wins.any(-1, keepdims=True) & legal
        lower = np.where(wins, 1.0, np.where(drawn, 0.0, -1.0))
        upper = np.where(lost, -discount, np.where(drawn & ~wins, 0.0, 1.0))
        return np.where(lost, -discount, lower), upper

    def outlook_one(self, mine: int, theirs: int, moves: list[int], discount: float) -> list[tuple[float, float]]:
        """Do :meth:`outlook` for a single position; return (lower, upper) for each of the legal ``moves``."""
        boards, occupied = self.boards, mine | theirs
        won = boards.table.__getitem__ if boards.table else boards.fold
        bits = [boards.place(occupied, action) for action in moves]
        wins = [bool(won(mine | bit)) for bit in bits]
        draw = occupied | bits[0] == boards.full
        if any(wins):
            return [(1.0, 1.0) if win else (0.0, 0.0) if draw else (-1.0, 1.0) for win in wins]
        threats = [bool(won(theirs | bit)) for bit in bits]
        n, lost = sum(threats), (-discount, -discount)
        if draw:
            return [(0.0, 0.0)] * len(moves)
        return [lost if n > threat else (-1.0, 1.0) for threat in threats]

    def playout(self, positions: Positions, rng: np.random.Generator, discount: float, max_steps: int | None) -> Array:
        """Play to the end without a loop over the moves; see :meth:`Game.playout`.

        Each free cell draws the time at which it is filled, and the order of the times is the order of the moves.
        With gravity a cell is filled an exponential time after the cell below it. Since the exponential distribution is
        memoryless, every move is then a uniform choice among the columns with room.
        """
        mine, theirs = self.boards.spread(positions.states[:, 0]), self.boards.spread(positions.states[:, 1])
        free = ~(mine | theirs)
        rank = self._ranks(free, rng)
        sign = np.where(free, 1 - 2 * (rank & 1), mine.astype(np.int8) - theirs).astype(np.int8)
        lines = self.boards.lines
        owner = sign[:, lines].sum(-1, dtype=np.int8)
        completed = np.where(np.abs(owner) == self.boards.connect, rank[:, lines].max(-1), np.int8(127))
        first = completed.argmin(-1)
        rows = np.arange(len(sign))
        moves = completed[rows, first]
        value = np.where(moves < 127, np.sign(owner[rows, first]), 0).astype(np.float64)
        if max_steps is not None:
            value[moves >= max_steps] = 0.0
        return value if discount == 1 else value * discount ** moves.astype(np.float64)

    def _ranks(self, free: Array, rng: np.random.Generator) -> Array:
        """Draw the order in which free cells are filled, int8 from 0; -1 for cells with a stone."""
        if self.boards.gravity:
            waits = np.where(free[:, self._fall_order], rng.standard_exponential(free.shape), 0.0)
            grid = waits.reshape(-1, self.boards.columns, self.boards.rows).cumsum(-1)
            times = np.empty(free.shape)
            times[:, self._fall_order] = grid.reshape(free.shape)
        else:
            times = rng.random(free.shape)
        times[~free] = -1.0
        order = times.argsort(-1)
        rank = np.empty(free.shape, dtype=np.int8)
        occupied = free.shape[-1] - free.sum(-1, keepdims=True)
        np.put_along_axis(rank, order, (np.arange(free.shape[-1]) - occupied).astype(np.int8), -1)
        return np.maximum(rank, np.int8(-1))

    def playout_one(self, mine: int, theirs: int, random: Random, discount: float, max_steps: int | None) -> float:
        """Play one position to the end on Python integers, which for one position are faster than arrays.

        ``mine`` are the stones of the player to move, whose return is returned.
        """
        boards, draw = self.boards, random.random
        won, place = boards.table.__getitem__ if boards.table else boards.fold, boards.place
        gates, occupied = boards.gates, mine | theirs
        actions = boards.moves(occupied)
        sign, steps = 1.0, 0
        while actions and steps != max_steps:
            i = int(draw() * len(actions))
            action = actions[i]
            bit = place(occupied, action)
            mine |= bit
            if won(mine):
                return sign * discount**steps
            occupied |= bit
            if bit == gates[action]:
                actions[i] = actions[-1]
                actions.pop()
            mine, theirs, sign, steps = theirs, mine, -sign, steps + 1
        return 0.0

    def observe(self, states: Array) -> TensorDictBase:
        """Return boards, turns and masks; see :meth:`Game.observe`."""
        mine, theirs = self.boards.spread(states[:, 0]), self.boards.spread(states[:, 1])
        free = ~(mine | theirs)
        turn = ((~free).sum(-1, keepdims=True) % 2).astype(np.int32)
        board = np.where(free, -1, np.where(mine, turn, 1 - turn)).astype(np.int32)
        legal = self.boards.legal_all(states[:, 0] | states[:, 1])
        data = {
            "board": torch.from_numpy(board.reshape(-1, self.boards.rows, self.boards.columns)),
            "turn": torch.from_numpy(turn),
            "mask": torch.from_numpy(legal),
        }
        return TensorDict(data, batch_size=[len(states)], device=self.env.device)


__all__ = ["ConnectionGame"]
