"""The bit-board rules equal those of the env, and random play is uniform."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.envs import ConnectFourEnv, TicTacToeEnv
from rlnb.search import game_of
from rlnb.search.bit_boards import BitBoards
from rlnb.search.connection import ConnectionGame
from rlnb.search.env_game import EnvGame
from tests.search import minimax

ENVS = [TicTacToeEnv, ConnectFourEnv, lambda: ConnectFourEnv(2, 5, 2), lambda: ConnectFourEnv(7, 8, 5)]


@settings(max_examples=12)
@given(st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_the_bits_play_the_env(kind, seed):
    env = ENVS[kind]()
    game, slow = game_of(env), EnvGame(env)
    assert isinstance(game, ConnectionGame)
    fast, other = game.start(TensorDict(batch_size=[5])), slow.start(TensorDict(batch_size=[5]))
    rng = np.random.default_rng(seed)
    while True:
        assert np.array_equal(fast.legal, other.legal) and np.array_equal(fast.to_play, other.to_play)
        assert np.array_equal(fast.terminal, other.terminal)
        seen, want = game.observe(fast.states), slow.observe(other.states)
        for key in ("board", "turn", "mask"):
            assert torch.equal(seen[key], want[key]) and seen[key].dtype == want[key].dtype
        live = ~fast.terminal
        if not live.any():
            return
        actions = np.where(fast.legal, rng.random(fast.legal.shape), -1).argmax(-1)[live]
        fast, gained = game.step(fast.states[live], actions)
        other, want = slow.step(other.states[live], actions)
        assert np.array_equal(gained, want)


def test_a_root_is_read_from_any_position():
    boards = minimax.positions()
    env = TicTacToeEnv()
    td = env.reset(TensorDict({"board": minimax.tensor(boards)}, [len(boards)]))
    game = game_of(env)
    seen = game.observe(game.start(td).states)
    assert all(torch.equal(seen[key], td[key]) for key in ("board", "turn", "mask"))


@cache
def random_value(board):
    """What the player to move gets on average if both play at random."""
    if minimax.ended(board):
        return minimax.value(board)
    return float(np.mean([-random_value(after) for _, after in minimax.moves(board)]))


@pytest.mark.parametrize("board", [".........", "X...O....", "XO.OX....", "XXO.O.X.."])
def test_random_play_is_worth_what_it_is(board):
    n, want = 20_000, random_value(board)
    game = game_of(TicTacToeEnv())
    root = game.start(TensorDict({"board": minimax.tensor([board] * n)}, [n]))
    slow = [game.playout_one(*root.states[0].tolist(), Random(seed), 1.0, None) for seed in range(4000)]
    fast = game.playout(root, np.random.default_rng(0), 1.0, None)
    assert fast.mean() == pytest.approx(want, abs=4 / n**0.5)
    assert np.mean(slow) == pytest.approx(want, abs=4 / 4000**0.5)


def test_stones_fall_at_random_as_they_do_one_by_one():
    """Near the end of a game of Connect Four, where full columns matter, both kinds of random play agree."""
    env, n = ConnectFourEnv(4, 4, 3), 20_000
    board = torch.tensor([[-1, -1, -1, -1], [1, -1, -1, -1], [0, 0, -1, -1], [1, 1, 0, -1]], dtype=torch.int32)
    game = game_of(env)
    root = game.start(TensorDict({"board": board.expand(n, 4, 4)}, [n]))
    for discount, max_steps in ((1.0, None), (0.8, None), (1.0, 3)):
        rng, random = np.random.default_rng(1), Random(1)
        fast = game.playout(root, rng, discount, max_steps)
        slow = [game.playout_one(*root.states[0].tolist(), random, discount, max_steps) for _ in range(6000)]
        assert fast.mean() == pytest.approx(np.mean(slow), abs=0.03)
        assert fast.std() == pytest.approx(np.std(slow), abs=0.03)


def test_random_play_of_the_env_is_worth_the_same():
    n = 1500
    game = EnvGame(TicTacToeEnv())
    root = game.start(TensorDict({"board": minimax.tensor(["XO.OX...."] * n)}, [n]))
    want = random_value("XO.OX....")
    assert game.playout(root, np.random.default_rng(0), 1.0, None).mean() == pytest.approx(want, abs=0.08)


def test_boards_that_do_not_fit_a_word_are_played_by_the_env():
    assert isinstance(game_of(ConnectFourEnv(8, 8, 4)), EnvGame)
    assert isinstance(game_of(TicTacToeEnv(single_player=True)), EnvGame)

    class OtherRules(TicTacToeEnv):
        pass

    assert isinstance(game_of(OtherRules()), EnvGame)

    env = TicTacToeEnv()
    env._step = lambda tensordict: TicTacToeEnv._step(env, tensordict)
    assert isinstance(game_of(env), EnvGame)
    with pytest.raises(ValueError) as caught:
        BitBoards(8, 8, 4, gravity=True)
    assert str(caught.value) == "A board of 8 x 8 takes 72 bits, columns * (rows + 1), and a word has 64."
