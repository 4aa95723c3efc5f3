"""Connect Four: discs fall, the known numbers of positions, and moves in full columns are rejected."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.envs import ConnectFourEnv
from tests.envs.custom.games import as_position, empty, put


def test_the_number_of_games_after_each_move_is_the_known_one():
    """7 ** n at first, less the full columns from the seventh move on, less the games won before from the eighth on."""
    env = ConnectFourEnv()
    board, ways, counts = torch.full((1, 6, 7), -1, dtype=torch.int32), torch.ones(1, dtype=torch.int64), [1]
    while True:
        parent, action = env._open(board).nonzero(as_tuple=True)
        counts.append(int(ways[parent].sum()))
        if len(counts) == 9:
            break
        after = env.step(TensorDict({"board": board[parent], "action": action}, [len(parent)]))["next"]
        goes_on = ~after["done"].squeeze(-1)
        left = after["board"][goes_on]
        # Equal positions are counted once each: their games are as many.
        _, group, first = _unique(left)
        ways = torch.zeros(len(first), dtype=torch.int64).index_add_(0, group, ways[parent][goes_on])
        board = left[first]
    assert counts == [1, 7, 49, 343, 2401, 16807, 117649, 823536, 5673234]


def _unique(boards):
    """Group equal boards by a number: each column is one of 7 bits, a one above the discs and their players below.

    It is the sum of bits for the discs, for those of player 1, and for the floors, which all boards have.
    """
    bits = 1 << (torch.arange(7) * 7 + torch.arange(6).flip(0)[:, None])
    unique, group = ((boards + 1) * bits).sum((-2, -1)).unique(return_inverse=True)
    first = torch.full((len(unique),), len(boards)).scatter_reduce_(0, group, torch.arange(len(boards)), "amin")
    return unique, group, first


@given(st.lists(st.integers(0, 4), max_size=20))
def test_discs_lie_on_one_another(moves):
    env = ConnectFourEnv(4, 5, 4)
    board = empty(env)
    for n, column in enumerate(moves):
        tensor = torch.tensor(board)
        free = sum(row[column] == -1 for row in board)
        assert env._cell_of(tensor, torch.tensor(column)).item() == (free - 1) * 5 + column
        assert env._open(tensor)[column].item() is (free > 0)
        if free:
            board = put(env, board, column, n % 2)


LAST_MOVES = {
    "across": ([0, 0, 1, 1, 2, 2, 3], 0),
    "down": ([0, 1, 0, 1, 0, 1, 6, 1], 1),
    "diagonal up": ([0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3], 0),
    "diagonal down": ([6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3], 0),
}


@pytest.mark.parametrize("name", LAST_MOVES)
def test_four_in_each_direction_win(name):
    moves, who = LAST_MOVES[name]
    env = ConnectFourEnv()
    iterator = iter(moves)
    data = env.rollout(42, lambda board, turn, mask: torch.tensor(next(iterator)))
    assert len(data) == len(moves), "the last move ends the game, and no earlier one"
    assert [data["next", f"player{k}", "reward"].flatten().tolist()[-1] for k in (0, 1)] == [1 - who, who]


def test_a_line_does_not_go_round_the_edge():
    board = [[-1] * 7 for _ in range(6)]
    board[5] = [0, 0, -1, 1, 1, 1, 0]
    board[4] = [0, -1, -1, -1, 1, -1, -1]
    td = ConnectFourEnv().reset(as_position(board))
    assert not td["done"] and td["turn"] == 0


def refusal(board, action=None, **size):
    env, td = ConnectFourEnv(**size), as_position([[-1] * len(board[0])] * len(board), board)
    with pytest.raises(ValueError) as caught:
        env.reset(td) if action is None else env.step(td.set("action", torch.tensor([0, action])))
    return str(caught.value)


def test_a_full_column_is_refused():
    board = [[0, -1, -1], [1, -1, -1], [0, 1, -1]]
    assert refusal(board, 0, rows=3, columns=3, connect=3) == (
        "ConnectFourEnv.step got the illegal action 0 at index (1,): column 0 is full.\nX . .\nO . .\nX O .\n"
        'The legal actions are [1, 2]. Fix: choose where "mask" is True.'
    )


@pytest.mark.parametrize("action", [None, 2])
def test_floating_discs_are_refused(action):
    board = [[-1, -1, -1], [0, -1, -1], [-1, 1, -1]]
    assert (
        "a malformed position at index (1,): a disc falls to the lowest free cell, and the one at row 1, column 0 has "
        "none below it.\n. . .\nX . .\n. O .\n"
    ) in refusal(board, action, rows=3, columns=3, connect=3)


def test_a_finished_game_is_refused():
    board = [[-1, -1, -1], [-1, 1, 1], [0, 0, 0]]
    assert "the game is over, as player 0 (X) has won." in refusal(board, 0, rows=3, columns=3, connect=3)
    assert "the game is over, as player 0 (X) has won." in refusal(board, rows=3, columns=3, connect=3)


def test_the_env_has_no_answer_on_a_full_board():
    """On 1 x 3 the learner fills the board; beside it a game goes on."""
    env = ConnectFourEnv(1, 3, 3, single_player=True)
    td = as_position([[0, 1, -1]], [[-1, -1, -1]]).set("action", torch.tensor([2, 0]))
    after = env.step(td)["next"]
    assert after["board"][0].tolist() == [[0, 1, 0]] and after["done"].tolist() == [[True], [False]]
    assert (after["board"][1] >= 0).sum() == 2 and after["turn"].tolist() == [[1], [0]]
