"""A search plays tic-tac-toe as exhaustive minimax does: in every position, and in games."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import ConnectFourEnv, TicTacToeEnv
from rlnb.search import EXP3, MCTS, PUCT, UCB1, Gumbel, UCB1Tuned
from tests.pairwise import few
from tests.search import minimax


def search_all(boards, rule, seed, simulations):
    env = TicTacToeEnv()
    roots = env.reset(TensorDict({"board": minimax.tensor(boards)}, [len(boards)]))
    return MCTS(env, rule=rule, seed=seed, solver=False).reset(roots).run(simulations)


def wrong(boards, search):
    return [b for b, a in zip(boards, search.best_action.tolist(), strict=True) if a not in minimax.optimal(b)]


def classes():
    """One position of each class of positions that are turned or mirrored images of one another."""
    found = {}
    for board in minimax.positions():
        grid = np.array(list(board)).reshape(3, 3)
        images = ["".join(np.rot90(g, k).ravel()) for g in (grid, grid.T) for k in range(4)]
        found.setdefault(min(images), board)
    return list(found.values())


def test_there_are_as_many_positions_as_known():
    assert len(minimax.positions()) == 4520 and len(classes()) == 627
    assert minimax.value("." * 9) == 0


@pytest.mark.deep
def test_every_position_up_to_symmetry_is_played_optimally():
    early = [board for board in classes() if board.count(".") >= 7]  # the more is to come, the deeper one must look
    late = [board for board in classes() if board.count(".") < 7]
    assert wrong(early, search_all(early, UCB1(2.0), 0, 6000)) == []
    assert wrong(late, search_all(late, UCB1(2.0), 0, 1200)) == []


@pytest.mark.parametrize(
    ("rule", "positions"),
    [
        (PUCT(3.0), classes),
        pytest.param(PUCT(3.0), minimax.positions, marks=pytest.mark.deep),
        *(pytest.param(rule, classes, marks=pytest.mark.deep) for rule in (UCB1(2.0), UCB1Tuned())),
    ],
    ids=lambda value: value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value),
)
def test_every_position_is_played_optimally(rule, positions):
    boards = list(positions())
    simulations = 400
    while boards and simulations <= 102_400:  # those that were not are searched again, deeper
        boards = wrong(boards, search_all(boards, rule, 1, simulations))
        simulations *= 4
    assert boards == []


@pytest.mark.parametrize("rule", [UCB1Tuned(), PUCT(2.0), EXP3(0.3), Gumbel(300)], ids=repr)
def test_every_rule_sees_a_win_and_a_threat(rule):
    boards = ["XX.OO....", "X...O...X", "XX..O....", "OO.X.XX..", "X.O.X.O.."]
    assert wrong(boards, search_all(boards, rule, 0, 300)) == []


def play(opponent, player, games, seed):
    """Let the search play games as one player, all at once; return its results as a list of 1, 0 and -1."""
    env, results = TicTacToeEnv(), []
    rng = random.Random(seed)
    for game in range(games):
        td, mover = env.reset(), 0
        search = MCTS(env, rule=UCB1(2.0), seed=seed + game, solver=False)
        while True:
            if mover == player:
                action = int(search.reset(td).run(2000).best_action)
            else:
                board = "".join(".XO"[c + 1] for c in td["board"].flatten().tolist())
                action = opponent(board, rng)
            after = env.step(td.set("action", torch.tensor(action)))["next"]
            if after["done"]:
                results.append(
                    round(float(after[f"player{player}", "reward"] - after[f"player{1 - player}", "reward"]))
                )
                break
            td, mover = after.exclude("player0", "player1", "reward"), 1 - mover
    return results


def at_random(board, rng):
    return rng.choice([i for i, _ in minimax.moves(board)])


def perfect(board, rng):
    return rng.choice(sorted(minimax.optimal(board)))


@pytest.mark.parametrize("player", few([0, 1]))
def test_it_never_loses(player):
    assert set(play(perfect, player, 3, 5)) == {0}
    results = play(at_random, player, 2, 9)
    assert -1 not in results and 1 in results


def test_connect_four_sees_a_win_and_a_threat():
    env = ConnectFourEnv()
    boards = torch.full((2, 6, 7), -1, dtype=torch.int32)
    boards[0, 5, :3], boards[0, 4, :3] = 0, 1  # three in a row for the player to move
    boards[1, 5, 1:4], boards[1, 4, 1], boards[1, 5, 4] = 0, 1, 1  # three in a row for the other
    search = MCTS(env, seed=0).reset(env.reset(TensorDict({"board": boards}, [2]))).run(800)
    assert search.best_action.tolist() == [3, 0]
