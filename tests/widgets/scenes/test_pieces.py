"""Boards with pieces that move and capture: positions, the last move, labels."""

from __future__ import annotations

import numpy as np
import pytest
from rlnb_widgets.scenes import find_scene, scene_svg
from rlnb_widgets.scenes.pieces import Piece, PieceBoard, reached_cells

KING, ROOK, PAWN = 0, 1, 2
WHITE = (Piece(0, "K"), Piece(0, "R"), Piece(0, "P"))
BLACK = (Piece(1, "k"), Piece(1, "r"), Piece(1, "p"))
PLAYER = np.array([0, 0, 0, 1, 1, 1])
EMPTY = -1


def last_of(before, after):
    return reached_cells(np.array([before, after]), PLAYER).tolist()[1]


MOVES = {
    "a move": ([PAWN, EMPTY, EMPTY], [EMPTY, PAWN, EMPTY], 1),
    "a capture": ([PAWN, EMPTY, 3 + ROOK], [EMPTY, EMPTY, PAWN], 2),
    "a capture that promotes": ([PAWN, EMPTY, 3 + ROOK], [EMPTY, EMPTY, ROOK], 2),
    "a promotion": ([PAWN, EMPTY], [EMPTY, ROOK], 1),
    "en passant": ([PAWN, 3 + PAWN, EMPTY], [EMPTY, EMPTY, PAWN], 2),
    "castling": ([KING, EMPTY, EMPTY, ROOK], [EMPTY, ROOK, KING, EMPTY], 2),
    "castling of black": ([3 + ROOK, EMPTY, EMPTY, 3 + KING], [EMPTY, 3 + KING, 3 + ROOK, EMPTY], 1),
    "stones that are taken": ([PAWN, 3 + PAWN, 3 + PAWN, EMPTY], [PAWN, EMPTY, EMPTY, PAWN], 3),
    "stones that change sides": ([PAWN, 3 + PAWN, 3 + PAWN, EMPTY], [PAWN, PAWN, PAWN, PAWN], 3),
    "no move": ([PAWN, EMPTY], [PAWN, EMPTY], -1),
    "another game": ([PAWN, EMPTY, EMPTY, EMPTY], [EMPTY, 3 + PAWN, PAWN, KING], -1),
}


@pytest.mark.parametrize("name", MOVES)
def test_the_last_move(name):
    before, after, cell = MOVES[name]
    assert last_of(before, after) == cell


def test_pieces_stand_in_the_middle_of_their_cells():
    board = PieceBoard(2, 4, (*WHITE, *BLACK), "checkered")
    positions = np.full((3, 2, 4), EMPTY)
    positions[0, 1, 3] = positions[1, 0, 3] = PAWN
    positions[2, 0, :2] = 3 + KING
    scene = board.pose(positions)
    assert [part.name for part in scene.parts] == ["last move", "P 1", "k 1", "k 2"]  # no more than are needed
    cell, margin = 420 / 4, scene.width - 420
    pawn = scene.poses[:, 1]
    assert pawn[0].tolist() == [margin + 3.5 * cell, 1.5 * cell, 0] and pawn[1].tolist() == [
        margin + 3.5 * cell,
        52.5,
        0,
    ]
    assert np.isnan(pawn[2]).all() and np.isnan(scene.poses[:2, 2:, 0]).all()
    assert (scene.poses[2, 2:, 0] - margin).tolist() == [cell / 2, cell * 1.5]
    assert np.isnan(scene.poses[0, 0, 0]) and scene.poses[1, 0].tolist() == pawn[1].tolist()  # the frame of the move
    assert scene.caption_at(0) == ". . . . / . . . P"
    assert scene.caption_at(1) == ". . . P / . . . .; the last move was to d2"
    assert scene.caption_at(2) == "k k . . / . . . ."


def test_cells_have_the_names_that_players_use():
    chess, othello, go = (
        PieceBoard(8, 8, WHITE),
        PieceBoard(8, 8, WHITE, upwards=False),
        PieceBoard(19, 19, WHITE, "crossings"),
    )
    assert [chess.name_of(cell) for cell in (0, 7, 56, 36)] == ["a8", "h8", "a1", "e4"]
    assert [othello.name_of(cell) for cell in (0, 63)] == ["a1", "h8"]
    assert [go.name_of(cell) for cell in (0, 7, 8, 360)] == ["a19", "h19", "j19", "t1"]
    assert PieceBoard(1, 27, WHITE).name_of(26) == "aa1"


def test_no_position_is_drawn_too():
    scene = PieceBoard(2, 2, WHITE).pose(np.empty((0, 2, 2)))
    assert len(scene) == 0 and [part.name for part in scene.parts] == ["last move"]


def test_positions_of_another_size_are_refused():
    with pytest.raises(ValueError) as error:
        PieceBoard(2, 2, WHITE).pose(np.zeros((1, 3, 2)))
    assert str(error.value) == ("a board of 2 x 2 is drawn from positions of shape [N, 2, 2], got shape [1, 3, 2].")


def test_the_pieces_of_chess_have_signs_and_the_second_player_a_ring():
    spec = find_scene("pyspiel/chess")
    seen = np.zeros((1, 2, 20, 8, 8))
    seen[:, :, 0, 0, 4] = seen[:, :, 1, 7, 4] = 1  # the first row is that of White
    scene = spec.pose(seen)
    assert scene.caption_at(0).startswith(". . . . k . . . / ") and scene.caption_at(0).endswith(" / . . . . K . . .")
    king, other = (part.marks for part in scene.parts[1:])
    assert [part.name for part in scene.parts[1:]] == ["K 1", "k 1"]
    assert king[1]["text"] == other[1]["text"] == "♚\ufe0e" and king[0]["fill"] != other[0]["fill"]
    assert king[0]["stroke"] == "ink" and "stroke" not in other[0]  # White is player 1 of OpenSpiel
    assert "♚" in scene_svg(scene, 0)
