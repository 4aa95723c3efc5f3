"""Material of the lessons on trees and search: tic-tac-toe positions with known values, and trees."""

from __future__ import annotations

import random

import torch
from exercises import positions
from exercises.game_trees import complete_tree, random_games, start_of, tree_of

from tests.search import minimax

START = ("..O", ".OX", "XX.")


def test_positions_and_their_worth_agree_with_another_minimax() -> None:
    found = positions.all_positions()
    assert sorted(found) == sorted(minimax.positions())
    for position in found:
        assert positions.worth(position) == minimax.value(position)
        assert set(positions.best_moves(position)) == set(minimax.optimal(position))


def test_rows_signs_and_boards_are_one_position() -> None:
    board = positions.board(START)
    assert board.dtype == torch.int32 and positions.signs(board) == "..O.OXXX."
    assert positions.to_move("..O.OXXX.") == "O" and positions.free("..O.OXXX.") == [0, 1, 3, 8]
    assert positions.after("..O.OXXX.", 8) == "..O.OXXXO"
    assert positions.in_rows("..O.OXXX.") == "`. . O`\n`. O X`\n`X X .`"
    assert torch.equal(start_of(START)["board"], board)


def test_a_playout_is_a_result_for_the_player_to_move() -> None:
    random.seed(0)
    # X is to move into the only free cell, which makes a line in the first position and none in the second.
    assert {positions.playout("XX.OOXOXO") for _ in range(9)} == {1}
    assert {positions.playout("XOXXOOOX.") for _ in range(9)} == {0}
    assert {positions.playout("XXXOO....") for _ in range(9)} == {-1}
    # Two cells are free, and nobody makes a line in them; with five anything may happen.
    assert {positions.playout("XXOOOXX..") for _ in range(9)} == {0}
    assert {positions.playout("XX.OO....") for _ in range(200)} == {-1, 0, 1}


def test_games_go_on_from_the_position_and_a_seed_gives_the_same() -> None:
    one, two = random_games(START, 5, seed=3), random_games(START, 5, seed=3)
    assert [td["action"].tolist() for td in one] == [td["action"].tolist() for td in two]
    for td in one:
        assert positions.signs(td[0]["board"]) == "..O.OXXX." and td["next", "done"][-1]


def test_a_complete_tree_has_every_game_that_goes_on_from_the_position() -> None:
    def games(position: str) -> list[list[int]]:
        below = [[move, *game] for move in positions.free(position) for game in games(positions.after(position, move))]
        return below or [[]]

    wanted = sorted(games("..O.OXXX."))
    for compact in (False, True):
        tree = complete_tree(START, compact=compact)
        assert sorted(tree.rollout_from_path(path)["action"].tolist() for path in tree.valid_paths()) == wanted
    played = tree_of(random_games(START, 12))
    found = [played.rollout_from_path(path)["action"].tolist() for path in played.valid_paths()]
    assert 1 < len(found) < len(wanted) and all(game in wanted for game in found)
