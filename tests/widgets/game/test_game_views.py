"""The views of a game: text, SVG, page and the state sent to it; outdated messages are ignored."""

from __future__ import annotations

import json

import pytest
import torch
from rlnb_widgets import Game, play
from rlnb_widgets.game.actions import actions_of
from rlnb_widgets.scenes import find_scene

from rlnb.envs import BanditEnv, CartPoleEnv, ConnectFourEnv, GridWorldEnv, MountainCarEnv, TicTacToeEnv


def first_open(td):
    """The first legal action, with what was thought of all of them."""
    td["logits"] = -torch.arange(td["mask"].shape[-1]).float()
    return td.set("action", td["mask"].long().argmax(-1))


@pytest.fixture
def game():
    game = play(TicTacToeEnv(), first_open)
    game.act(4)
    return game


def click(game, what, **content):
    """What the page sends, if it has heard everything."""
    game._on_message(game, {"do": what, "asked": game._state["asked"], **content}, [])


def test_the_text_is_the_board(game):
    assert repr(game) == (
        "Game(TicTacToeEnv, you (X) against first_open (O), 2 moves)\n"
        "  O . .\n  . X .\n  . . .\n"
        "  O played 0. Your turn: X.\n"
        "  actions: 1, 2, 3, 5, 6, 7, 8"
    )
    game.act(2)
    game.act(6)
    assert repr(game).splitlines()[-1] == "  You (X) have won."


def test_the_text_of_an_env_that_is_played_alone():
    game = play(CartPoleEnv(), seed=0)
    assert "A new episode." in repr(game)
    game.act(1)
    lines = repr(game).splitlines()
    assert lines[0] == "Game(CartPoleEnv, 1 step, return 1)" and lines[1].startswith("  cart at +")
    assert lines[2:] == ["  Step 1: reward 1, return 1.", "  actions: 0 left, 1 right"]


@pytest.mark.parametrize("you", [0, 1])
def test_lost_won_drawn(you):
    who = Game(TicTacToeEnv(), first_open, you=you)
    for action in (8, 7, 3) if you == 0 else (8, 7, 6):
        if who.match.your_turn:
            who.act(action)
    assert who.match.winner == 1 - you
    assert f"{'OX'[you]} has won, and you have lost." in repr(who)


def test_words_say_what_to_press(game):
    words = game.explain()
    assert "arrow keys and Enter" in words and "U takes your last move back" in words
    alone = play(GridWorldEnv(["S.G"])).explain()
    assert "Press a button or a key: ← left, ↓ down, → right, ↑ up." in alone and "U takes" not in alone


def test_every_face_is_the_same_every_time():
    views = []
    for _ in range(2):
        game = play(ConnectFourEnv(), seed=3, you=1)
        game.act(3)
        bundle = game._repr_mimebundle_()[0]
        views.append((repr(game), game.to_svg(), game.to_html(), bundle["text/plain"], bundle["text/html"]))
    assert views[0] == views[1]
    assert views[0][1].startswith("<svg") and "a Python kernel answers the moves" in views[0][1]
    assert views[0][4].startswith('<img alt="Game(ConnectFourEnv')


def test_the_page_is_told_how_it_stands(game):
    head, state = game._head, game._state
    assert [target["action"] for target in head["targets"]] == list(range(9)) and head["two"]
    assert state["status"] == "O played 0. Your turn: X." and state["steps"] == 2
    assert state["legal"] == [k not in (0, 4) for k in range(9)]
    assert state["places"][4] == "cell 4, row 1, column 1, X"
    assert len(state["frames"]) == 2, "your move, then the answer"
    assert all(len(frame) == len(head["scene"]["parts"]) for frame in state["frames"])
    assert state["thought"]["words"][0] == "64%" and state["thought"]["words"][4] == ""
    assert state["can"] == {"take_back": True, "swap": True, "let_policy": True}
    json.dumps([head, state], allow_nan=False)


def test_clicks_do_what_they_say(game):
    click(game, "act", action=2)
    assert game.match.movers == ["you", "policy"] * 2
    click(game, "take_back")
    assert game._state["steps"] == 2 and len(game._state["frames"]) == 1
    assert game._state["status"] == "Your last move is taken back. Your turn: X."
    click(game, "act", action=2)
    assert game._state["status"].startswith("O played ")
    click(game, "take_back")
    click(game, "swap")
    assert game.match.you == 1 and game._state["steps"] == 3 and game._state["status"].startswith("X played ")
    click(game, "let_policy")
    click(game, "new")
    assert game._state["steps"] == 1 and game.match.you == 1


def test_a_refused_click_is_explained_and_nothing_happens(game):
    asked = game._state["asked"]
    click(game, "act", action=4)
    assert "the cell at row 1, column 1 is occupied by player 0 (X)" in game._state["problem"]
    assert game._state["steps"] == 2 and game._state["asked"] > asked
    click(game, "act", action=1)
    assert game._state["problem"] == "" and game._state["steps"] == 4


@pytest.mark.parametrize(
    "content",
    [
        {"do": "act", "action": 1, "asked": -1},
        {"do": "act", "action": 1},
        {"do": "__class__", "asked": 1},
        {"do": ["act"], "asked": 1},
        "act",
        None,
    ],
    ids=str,
)
def test_what_is_out_of_date_or_nonsense_is_not_done(game, content):
    game._on_message(game, content, [])
    assert game._state["steps"] == 2 and game._state["problem"] == ""


@pytest.mark.parametrize("action", [None, "3", 1.5, [1], 99, -1, True])
def test_an_action_that_is_none_is_not_taken(game, action):
    click(game, "act", action=action)
    assert game.match.movers == ["you", "policy"]
    words = game._state["problem"]
    assert words.startswith("The actions are 0 to 8" if type(action) is int else "An action must be an integer")


def test_a_policy_that_fails_is_shown_as_text():
    def policy(board, turn, mask):
        raise ValueError("<script>alert(1)</script>")

    game = play(TicTacToeEnv(), policy, seed=0)
    game.act(4)
    assert game._state["problem"].endswith("ValueError: <script>alert(1)</script>")
    assert "<script>alert" not in game.to_html() and "<script>alert" not in game.to_svg()
    assert repr(game).endswith("problem: " + game._state["problem"])


def test_an_env_without_a_drawing_is_played_all_the_same():
    class Mine(GridWorldEnv):
        """A class of ours, whose drawing is not looked for."""

    game = play(Mine(["S.G"]))
    game._spec = None
    game._change("act", 2)
    assert game._state["frames"] == [] and game._state["steps"] == 1
    assert "There is no drawing for Mine; add one with register_scene." in game.explain()
    assert game.to_svg().startswith("<svg") and "Step 1" in repr(game)


NAMED = [
    (CartPoleEnv(), ["left", "right"], [("ArrowLeft", "0"), ("ArrowRight", "1")]),
    (MountainCarEnv(), ["left", "none", "right"], [("ArrowLeft", "0"), ("ArrowDown", "1"), ("ArrowRight", "2")]),
    (GridWorldEnv(), ["left", "down", "right", "up"], None),
    (BanditEnv(n_arms=12), [str(k) for k in range(12)], [*[(str(k),) for k in range(10)], (), ()]),
    (ConnectFourEnv(), [str(k) for k in range(7)], [(str(k),) for k in range(7)]),
]


@pytest.mark.parametrize(("env", "names", "keys"), NAMED, ids=lambda value: type(value).__name__)
def test_actions_have_names_and_keys(env, names, keys):
    found = actions_of(find_scene(env), len(names))
    assert [action.name for action in found] == names
    if keys is not None:
        assert [action.keys for action in found] == keys
    used = [key for action in found for key in action.keys]
    assert len(used) == len(set(used))
    assert play(env).match.n_actions == len(names)


def test_an_unknown_argument_lists_those_there_are():
    with pytest.raises(TypeError, match="Game has no argument 'side'; it takes env, policy, you, start, seed"):
        Game(TicTacToeEnv(), side=1)


def test_a_seed_makes_the_game_certain():
    boards = []
    for _ in range(2):
        game = play(TicTacToeEnv(), seed=4)
        game.act(0)
        game.let_policy()
        boards.append(game.rollout["next", "board"])
    assert torch.equal(*boards)
