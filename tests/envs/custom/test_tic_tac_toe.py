"""Tic-tac-toe: all games, the documented entries, and every rejected input, word for word."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import TicTacToeEnv
from rlnb.envs.custom.boards import winner
from tests.envs.custom.games import as_position

START = [[-1] * 3] * 3


def play(env, actions):
    """Play a game and return the last step."""
    td = env.reset()
    for action in actions:
        td = env.step(td.set("action", torch.tensor(action)))
        last, td = td, env._step_mdp(td)
    return last["next"]


def test_all_games_are_played():
    """5,478 positions and 255,168 games, counted by steps of whole batches."""
    env = TicTacToeEnv()
    board, ways = torch.full((1, 3, 3), -1, dtype=torch.int32), torch.ones(1, dtype=torch.int64)
    positions, results = 1, torch.zeros(3, dtype=torch.int64)
    while len(board):
        parent, action = env._open(board).nonzero(as_tuple=True)
        after = env.step(TensorDict({"board": board[parent], "action": action}, [len(parent)]))["next"]
        unique, group = after["board"].flatten(1).unique(dim=0, return_inverse=True)
        total = torch.zeros(len(unique), dtype=torch.int64).index_add_(0, group, ways[parent])
        over = torch.zeros(len(unique), dtype=torch.bool).index_put_((group,), after["done"].squeeze(-1))
        unique = unique.reshape(-1, 3, 3)
        positions += len(unique)
        results.index_add_(0, winner(unique[over], 3) + 1, total[over])
        board, ways = unique[~over], total[~over]
    assert positions == 5_478
    assert results.tolist() == [46_080, 131_184, 77_904]  # draws, then games that X and O win
    assert results.sum() == 255_168


def test_after_a_draw_both_players_have_no_reward():
    after = play(TicTacToeEnv(), [0, 1, 2, 4, 3, 5, 7, 6, 8])
    assert after["done"] and after["terminated"] and not after["mask"].any() and after["turn"] == 1
    assert after["player0", "reward"] == after["player1", "reward"] == 0


@pytest.mark.parametrize(("actions", "who"), [([0, 3, 1, 4, 2], 0), ([0, 3, 1, 4, 8, 5], 1), ([0, 1, 4, 2, 8], 0)])
def test_a_line_pays_its_player(actions, who):
    after = play(TicTacToeEnv(), actions)
    assert [after[name, "reward"].item() for name in ("player0", "player1")] == [1 - who, who]
    assert after["done"] and after["mask"].sum() == 9 - len(actions), "the mask tells of room, over or not"


def refusal(what, td):
    with pytest.raises(ValueError) as caught:
        getattr(TicTacToeEnv(), what)(td)
    return str(caught.value)


def test_an_occupied_cell_is_refused_with_its_place():
    boards = [START, START, [[-1, -1, -1], [-1, 0, -1], [-1, -1, -1]]]
    td = as_position(*boards).set("action", torch.tensor([4, 0, 4]))
    assert refusal("step", td) == (
        "TicTacToeEnv.step got the illegal action 4 at index (2,): the cell at row 1, column 1 is occupied by player 0 "
        "(X).\n. . .\n. X .\n. . .\n"
        'The legal actions are [0, 1, 2, 3, 5, 6, 7, 8]. Fix: choose where "mask" is True.'
    )
    td = td.reshape(3, 1)
    assert "the illegal action 4 at index (2, 0): the cell" in refusal("step", td)


@pytest.mark.parametrize("action", [-1, 9, 100])
def test_a_number_that_is_not_an_action_is_rejected(action):
    text = refusal("step", as_position(START).set("action", torch.tensor(action)))
    assert text == (
        f"TicTacToeEnv.step got the action {action}: the actions of tic-tac-toe are 0 to 8.\n. . .\n. . .\n. . .\n"
        'The legal actions are [0, 1, 2, 3, 4, 5, 6, 7, 8]. Fix: choose where "mask" is True.'
    )


WON = [[0, 0, 0], [1, 1, -1], [-1, -1, -1]]
FULL = [[0, 1, 0], [0, 1, 1], [1, 0, 0]]


def test_a_finished_game_is_not_gone_on_with():
    assert refusal("step", as_position(WON).set("action", torch.tensor(8))) == (
        "TicTacToeEnv.step got a finished position: the game is over, as player 0 (X) has won.\nX X X\nO O .\n. . .\n"
        'Fix: stop at "done", or let env.maybe_reset(...) or rollout(..., break_when_any_done=False) reset.'
    )
    assert "the game is over, as the board is full." in refusal(
        "step", as_position(START, FULL).set("action", torch.tensor([0, 0]))
    )
    assert refusal("reset", as_position(START, WON)) == (
        "TicTacToeEnv.reset cannot start from a finished position at index (1,): the game is over, as player 0 (X) has "
        'won.\nX X X\nO O .\n. . .\nFix: reset without "board" starts a new game.'
    )


MALFORMED = {
    "counts": (
        [[0, 0, 1], [0, 1, 0], [-1, 0, -1]],
        "player 0 begins and the two take turns, so there are as many X as O or one more, and here are 5 X and 2 O.",
    ),
    "too many O": (
        [[1, -1, -1], [-1, -1, -1], [-1, -1, -1]],
        "player 0 begins and the two take turns, so there are as many X as O or one more, and here are 0 X and 1 O.",
    ),
    "values": (
        [[-1, 2, -1], [-1, -1, -1], [-1, -1, -1]],
        "a cell is -1 (empty), 0 or 1 (a player's piece), and row 0, column 1 has 2.",
    ),
    "values that cancel": (
        [[-2, -1, 3], [-1, 0, 1], [-1, -1, -1]],
        "a cell is -1 (empty), 0 or 1 (a player's piece), and row 0, column 0 has -2.",
    ),
    "both have won": (
        [[0, 0, 0], [1, 1, 1], [-1, -1, -1]],
        "the game ends with the first line of 3, and both players have one.",
    ),
    "moved on": (
        [[0, 0, 0], [1, 1, -1], [1, -1, -1]],
        "the game ends with the first line of 3, and player 1 (O) has moved after player 0 (X) had won.",
    ),
    "moved on after O": (
        [[1, 1, 1], [0, 0, -1], [0, 0, -1]],
        "the game ends with the first line of 3, and player 0 (X) has moved after player 1 (O) had won.",
    ),
}


@pytest.mark.parametrize("what", ["reset", "step"])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_positions_are_refused_with_the_rule(name, what):
    board, rule = MALFORMED[name]
    td = as_position(START, board).set("action", torch.tensor([0, 8]))
    start = "TicTacToeEnv.reset cannot start from" if what == "reset" else "TicTacToeEnv.step got"
    text = refusal(what, td)
    assert text.startswith(f"{start} a malformed position at index (1,): {rule}\n")
    assert text.endswith("\nFix: positions come from env.reset() and from env.step(...).")


@pytest.mark.parametrize("what", ["reset", "step"])
def test_a_wrong_turn_is_refused(what):
    td = as_position(START).update({"turn": torch.tensor([1], dtype=torch.int32), "action": torch.tensor(0)})
    assert 'with 0 X and 0 O it is the turn of player 0, and "turn" says 1.' in refusal(what, td)


def test_a_refused_step_changes_nothing():
    td = as_position(START, WON).set("action", torch.tensor([0, 8]))
    before = td.clone()
    refusal("step", td)
    assert set(td.keys()) == set(before.keys()) and (td == before).all()
