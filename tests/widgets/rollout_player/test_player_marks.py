"""Jump marks, episode numbers, and notes on turns in games, as the page receives them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rlnb_widgets import RolloutPlayer
from rlnb_widgets.rollout_player.episodes import episode_numbers, episodes
from rlnb_widgets.rollout_player.marks import jump_marks
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.rollout_player.turns import Turns
from tensordict import TensorDict

from tests.widgets.pages import settle


def steps(model, e=0):
    """The steps of each kind that occurs."""
    return {kind: np.flatnonzero(where[e]).tolist() for kind, where in jump_marks(model).items() if where[e].any()}


def test_ends_resets_and_changes_of_reward(tiny):
    td = tiny(reward=[0, 0, 0, 0, 7, 7], done=[0, 1, 0, 0, 0, 0])
    td["traj_ids"] = torch.tensor([0, 0, 1, 1, 2, 2])
    assert steps(player_model(td)) == {"done": [1], "reward change": [4], "reset": [2, 4]}


def test_a_reward_that_always_changes_is_no_place_to_jump_to(tiny):
    assert steps(player_model(tiny(reward=[1, 2, 3, 4, 5, 6], done=[0] * 6))) == {}
    assert steps(player_model(tiny(reward=[float("nan")] * 4, done=[0] * 4))) == {}


def test_compared_rollouts_have_their_first_difference(tiny):
    one, other = (tiny(reward=[0, 0, 0, 0], x=[0, 1, 2, last], done=[0] * 4) for last in (3, 4))
    model = player_model(one, compare=other)
    assert [steps(model, e)["first difference"] for e in (0, 1)] == [[3]] * 2


def test_an_agent_that_ends_or_starts_alone_is_a_mark_of_its_own():
    flags = torch.zeros(6, 2, 1, dtype=torch.bool)
    over, root = flags.clone(), flags.clone()
    over[1:3, 0] = over[3] = True
    root[2, 0] = True
    done = torch.tensor([0, 0, 0, 1, 0, 0]).bool()[:, None]
    agents = {"done": over, "reward": torch.zeros(6, 2, 1)}
    td = TensorDict({"agents": {"done": root}, "next": {"agents": agents, "done": done, "terminated": done}}, [6])
    assert steps(player_model(td)) == {"done": [3], "an agent ends or starts": [1, 3], "reset": [4]}


@pytest.mark.parametrize(
    ("code", "numbers"),
    [
        ([0, 1, 0, 2, 0, 5], [1, 1, 2, 2, 3, 3]),
        ([1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 6]),
        ([0, 0, 5, 6, 6, 6], [1, 1, 1, 0, 0, 0]),
        ([0, 5, 6, 6, 0, 5], [1, 1, 0, 0, 2, 2]),
        ([6, 0, 5, 6, 1, 5], [0, 1, 1, 0, 2, 3]),
    ],
)
def test_episodes_are_numbered_and_padding_is_none(code, numbers):
    codes = np.array([code], np.uint8)
    assert episode_numbers(episodes(codes, None), codes.shape).tolist() == [numbers]


def test_turns_are_numbered_words():
    turn, after = np.array([[0, 1, 0, 7]]), np.array([[1, 0, 0, 0]])
    rewards = (np.array([[0, 0, 1, 0]]), np.zeros((1, 4)))
    over = np.array([[False, False, True, True]])
    for game in (Turns(("X", "O"), ("x", "o"), turn, then, rewards) for then in (after, None)):
        words, now, then = game.numbered(over)
        assert [words[n][0] for n in now[0]] == ["X to move", "O to move", "X to move", "player 7 to move"]
        assert [words[n][1] for n in now[0]][:2] == ["x to move", "o to move"]
        inside = [""] * 2 if game.after is None else ["O to move", "X to move"]
        assert [words[n][0] for n in then[0]] == [*inside, "X has won", "a draw"]


def test_a_click_after_zooming_leads_to_the_step_under_it(browse, cartpole):
    def act(page):
        strips = page.locator(".rlnb-strips")
        strips.focus()
        for key in ("End", "+", "+"):
            page.keyboard.press(key)
        settle(page)
        wide = strips.bounding_box()["width"] - 140
        found = []
        for step in (90, 104, 119):
            strips.click(position={"x": 132 + wide * (step - 90 + 0.5) / 30, "y": 40})
            settle(page)
            found.append(int(page.get_attribute("[data-rlnb]", "data-t")))
        return found, page.locator(".rlnb-tip").inner_text()

    found, tip = browse(RolloutPlayer(cartpole, "CartPole-v1"), act)
    assert found == [90, 104, 119]
    assert tip.startswith("step 119\nreward 1")
