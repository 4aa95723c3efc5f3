"""Scenes of boards: every piece in its place, the last move, the next one, the winning line; in any batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from rlnb_widgets import RolloutPlayer
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.scenes import find_scene, scene_svg
from rlnb_widgets.scenes.board import Board, last_moves
from tensordict import TensorDict

from rlnb.envs import ConnectFourEnv, TicTacToeEnv

GAMES = [TicTacToeEnv, ConnectFourEnv, lambda **k: ConnectFourEnv(4, 5, 3, **k)]
EVERY_GAME = pytest.mark.parametrize("make", GAMES, ids=["tic-tac-toe", "Connect Four", "three on 4 x 5"])


def shown(scene, part, i):
    """The pose of a part in a frame, None where it is hidden."""
    x, y, angle = scene.poses[i, [p.name for p in scene.parts].index(part)].tolist()
    return None if math.isnan(x) else (x, y, angle)


def board_of(spec, scene, i):
    """The position that is read back from a picture."""
    board = np.full((spec.rows, spec.columns), -1)
    for part in scene.parts:
        sign, _, number = part.name.partition(" ")
        pose = shown(scene, part.name, i) if sign in "XO" and number.isdigit() else None
        if pose:
            cell = int((pose[1] - spec.top) // spec.cell), int(pose[0] // spec.cell)
            assert board[cell] == -1, "no two pieces in one cell"
            board[cell] = "XO".index(sign)
    return board


@EVERY_GAME
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_the_player_draws_every_position(make, batch):
    env = make(seed=0)
    rollout = env.rollout(25, tensordict=TensorDict(batch_size=batch), break_when_any_done=False)
    frames = player_model(rollout, env).frames
    assert (frames.kind, frames.note) == ("scene", "")
    spec, scene = find_scene(env), frames.scene
    roots = rollout["board"].reshape(-1, env.rows, env.columns)
    after = rollout["next", "board"].reshape(-1, env.rows, env.columns)
    want = np.concatenate([roots.numpy(), after[torch.as_tensor(frames.extra).long()].numpy()])
    assert len(scene) == len(want)
    for i, board in enumerate(want):
        np.testing.assert_array_equal(board_of(spec, scene, i), board)
    acting = {scene.parts[p].name for p in frames.acting}
    assert acting == {"next move"}, "the last move and the won line are shown in frames of next too"


@EVERY_GAME
def test_the_last_move_is_that_of_the_step_before(make):
    env = make(seed=1)
    rollout = env.rollout(30, tensordict=TensorDict(batch_size=[4]), break_when_any_done=False)
    frames = player_model(rollout, env).frames
    spec, scene = find_scene(env), frames.scene
    flat = rollout.reshape(-1)
    moved = {}
    for step in range(len(flat)):
        before, after = flat["board"][step], flat["next", "board"][step]
        (cell,) = ((before != after).nonzero()).tolist()
        if (step + 1) % 30 and not flat["next", "done"][step]:
            moved[step + 1] = cell
        else:
            moved[len(flat) + frames.extra.tolist().index(step)] = cell
    for i in range(len(scene)):
        pose = shown(scene, "last move", i)
        found = None if pose is None else [int((pose[1] - spec.top) // spec.cell), int(pose[0] // spec.cell)]
        assert found == moved.get(i), i


def test_an_answer_is_the_last_move():
    env = TicTacToeEnv(single_player=True, seed=0)
    rollout = env.rollout(5)
    scene = player_model(rollout, env).frames.scene
    for t in range(1, len(rollout)):
        answer = ((rollout["board"][t] == 1) & (rollout["board"][t - 1] == -1)).nonzero()[0]
        x, y, _ = shown(scene, "last move", t)
        assert [int(y // 96), int(x // 96)] == answer.tolist()


def test_a_move_that_the_action_contradicts_is_none():
    boards = np.array([[-1, -1, -1], [-1, 0, -1]])
    assert last_moves(boards, np.array([1.0, np.nan])).tolist() == [-1, 1]
    assert last_moves(boards, np.array([2.0, np.nan])).tolist() == [-1, -1]
    assert last_moves(boards[::-1]).tolist() == [-1, -1] and last_moves(boards[:0]).tolist() == []


WON = {
    "across": ([[0, 0, 0], [1, 1, -1], [-1, -1, -1]], "won line 1", 0, (144, 48)),
    "down": ([[1, 0, -1], [1, 0, -1], [-1, 0, -1]], "won line 1", math.pi / 2, (144, 144)),
    "diagonal": ([[0, 1, -1], [1, 0, -1], [-1, -1, 0]], "won diagonal 1", math.pi / 4, (144, 144)),
    "other diagonal": ([[1, 0, 1], [0, 1, 0], [1, 0, -1]], "won diagonal 1", -math.pi / 4, (144, 144)),
}


@pytest.mark.parametrize("name", WON)
def test_the_line_that_wins_is_struck_through(name):
    board, part, angle, centre = WON[name]
    scene = Board().pose([board])
    x, y, turn = shown(scene, part, 0)
    assert (x, y) == pytest.approx(centre)
    assert math.sin(turn - angle) == pytest.approx(0, abs=1e-6), "a line has two ends, and either may be the first"
    assert [p.name for p in scene.parts if p.name.startswith("won") and shown(scene, p.name, 0)] == [part]
    assert scene.caption_at(0).endswith("has won")


def test_two_lines_at_once_are_both_struck_through():
    board = [[0, 0, 0], [0, 1, 1], [0, 1, 1]]
    scene = Board().pose([board])
    assert shown(scene, "won line 1", 0) and shown(scene, "won line 2", 0)


@pytest.mark.parametrize(("drops", "action", "place"), [(False, 5, (2.5, 1.5)), (True, 2, (2.5, None))])
def test_the_next_move_is_marked_where_it_goes(drops, action, place):
    spec = Board(3, 3, 3, drops)
    scene = spec.pose([[[-1] * 3] * 3] * 2, actions=[action])
    x, y, _ = shown(scene, "next move", 0)
    assert x == pytest.approx(place[0] * spec.cell)
    assert y == pytest.approx(place[1] * spec.cell) if place[1] else 0 < y < spec.top
    assert shown(scene, "next move", 1) is None
    assert scene.caption_at(0) == f". . . / . . . / . . .; X to move, to {'column' if drops else 'cell'} {action}"


def test_what_is_no_position_is_an_empty_board():
    scene = Board().pose(np.stack([np.zeros((3, 3)), np.full((3, 3), np.nan), np.full((3, 3), 7.0)]))
    assert [scene.caption_at(i) for i in range(3)] == ["no position"] * 3
    assert all(shown(scene, part.name, i) is None for part in scene.parts for i in range(3))


def test_boards_of_another_size_are_explained():
    env = ConnectFourEnv(4, 5, 3)
    frames = player_model(TicTacToeEnv(seed=0).rollout(3), env).frames
    assert frames.note == (
        "No frames: a board of 4 x 5 is drawn from positions of shape [N, 4, 5], got shape [4, 3, 3]."
    )
    frames = player_model(TicTacToeEnv(seed=0).rollout(3).exclude("board"), env).frames
    assert frames.note == 'No frames: the drawing needs "board", which the rollout does not have.'


@EVERY_GAME
def test_every_action_has_its_place(make):
    env = make()
    spec = find_scene(env)
    targets = spec.targets()
    assert [target.action for target in targets] == list(range(env.n_actions))
    area = sum(target.width * target.height for target in targets)
    assert area == pytest.approx(spec.width * spec.height), "they cover the picture"
    assert len(spec.words(np.full((env.rows, env.columns), -1))) == env.n_actions


def test_places_say_what_is_there():
    assert Board().words([[0, 1, -1], [-1] * 3, [-1] * 3])[:3] == (
        "cell 0, row 0, column 0, X", "cell 1, row 0, column 1, O", "cell 2, row 0, column 2, empty",
    )  # fmt: skip
    assert Board(2, 2, 2, drops=True).words([[-1, 0], [-1, 1]]) == ("column 0, 2 free", "column 1, full")


def test_pieces_differ_in_shape_not_in_colour_alone():
    for spec in (Board(), Board(6, 7, 4, drops=True)):
        kinds = [[mark["kind"] for mark in part.marks] for part in spec.parts if part.name in ("X 1", "O 1")]
        assert "poly" in kinds[0] and "poly" not in kinds[1] and "disc" in kinds[1]


def test_the_picture_is_the_same_every_time_and_fits():
    env = ConnectFourEnv(seed=0)
    rollout = env.rollout(20)
    pictures = [RolloutPlayer(rollout, env).to_svg() for _ in range(2)]
    assert pictures[0] == pictures[1]
    scene = player_model(rollout, env).frames.scene
    inside = np.isfinite(scene.poses[..., 0])
    assert scene.poses[..., 0][inside].min() >= 0 and scene.poses[..., 0][inside].max() <= scene.width
    assert scene_svg(scene, -1).startswith("<svg")
