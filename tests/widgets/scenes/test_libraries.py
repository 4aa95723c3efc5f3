"""Scenes of other libraries' envs, from observations in their format; tests/libs uses the real libraries."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rlnb_widgets.scenes import find_scene, scene_svg
from rlnb_widgets.scenes.vmas import MARKS, VmasAgents

ONE = {"player_1": ["player_1"], "player_2": ["player_2"]}


def tictactoe(**kwargs):
    names = ["player_1", "player_2"]
    return SimpleNamespace(
        libname="pettingzoo", task="classic/tictactoe_v3", agent_names=names, group_map={"player": names}, **kwargs
    )


def test_tic_tac_toe_of_pettingzoo_counts_down_the_columns():
    spec = find_scene(tictactoe())
    assert spec.reads == (("player", "observation", "observation"),) and spec.acts == ("player", "action")
    seen = np.zeros((2, 2, 3, 3, 2))
    seen[:, 0, 0, 1, 0] = seen[:, 1, 0, 1, 1] = 1  # the first player chose 1: below the upper left corner
    scene = spec.pose(seen, actions=np.array([[0, 5]]))
    assert scene.caption_at(0) == ". . . / X . . / . . .; O to move, to cell 7"
    assert scene.caption_at(1) == ". . . / X . . / . . .; O to move"
    one_hot = np.zeros((1, 2, 9))
    one_hot[0, 1, 5] = 1
    assert spec.pose(seen[:1], one_hot).caption_at(0).endswith("to cell 7")
    assert "<title>" in scene_svg(scene, 0)


def test_the_first_player_is_found_in_any_group():
    env = tictactoe()
    env.group_map = ONE
    assert find_scene(env).reads == (("player_1", "observation", "observation"),)
    env.group_map = {"all": ["player_2", "player_1"]}
    spec = find_scene(env)
    seen = np.zeros((1, 2, 3, 3, 2))
    seen[:, 1, 0, 0, 0] = seen[:, 0, 0, 0, 1] = 1
    assert spec.pose(seen).caption_at(0) == "X . . / . . . / . . .; O to move"


def test_connect_four_of_openspiel_starts_at_the_bottom():
    env = SimpleNamespace(
        libname="pyspiel", env_name="connect_four", agent_names=["player_0", "player_1"],
        group_map={"agents": ["player_0", "player_1"]},
    )  # fmt: skip
    seen = np.zeros((1, 2, 3, 6, 7))
    seen[:, :, 0, 0, 2] = 1
    caption = find_scene(env).pose(seen, np.array([[0, 6]])).caption_at(0)
    assert caption == " / ".join([". . . . . . ."] * 5) + " / . . X . . . .; O to move, to column 6"


def test_a_board_of_openspiel_has_the_size_of_the_env():
    names = ["player_0", "player_1"]
    env = SimpleNamespace(
        libname="pyspiel", env_name="go", agent_names=names, group_map={"agents": names},
        observation_spec={("agents", "observation"): torch.zeros(2, 4, 5, 5)},
    )  # fmt: skip
    spec, seen = find_scene(env), np.zeros((1, 2, 4, 5, 5))
    seen[:, :, 0, 0, 1] = seen[:, :, 1, 3, 4] = 1  # the first row is the lowest one
    assert spec.acts == ("agents", "no action")
    scene = spec.pose(seen)
    assert scene.caption_at(0) == ". . . . . / . . . . o / . . . . . / . . . . . / . x . . ."
    assert "<title>" in scene_svg(scene, 0)


def test_games_without_a_drawing_have_none():
    assert find_scene(SimpleNamespace(libname="pyspiel", env_name="hex")) is None
    assert find_scene(SimpleNamespace(libname="gymnasium", env_name="CartPole-v1")) is not None


def vmas(name, **groups):
    return SimpleNamespace(libname="vmas", env_name=name, group_map=groups)


def places(scene, i=0):
    """Where the parts are, in a plane with its origin in the middle and y up; the scale is that of one unit."""
    return {
        part.name: ((pose[0] - 200).item(), (200 - pose[1]).item())
        for part, pose in zip(scene.parts, scene.poses[i], strict=True)
    }


def test_vmas_goals_of_each_agent():
    spec = find_scene(vmas("navigation", agents=["agent_0", "agent_1"]))
    scene = spec.pose([[[0.5, 1, 0, 0, 0.5, 1.5], [-1, 0, 0, 0, 0, 0.25]]])
    unit = 180
    want = {"goal 0": (0, -0.5), "goal 1": (-1, -0.25), "agent 0": (0.5, 1), "agent 1": (-1, 0)}
    for name, (x, y) in want.items():
        assert places(scene)[name] == pytest.approx((x * unit, y * unit), abs=0.01), name
    assert scene.caption_at(0) == (
        "agent 0 at (0.50, 1.00), agent 1 at (-1.00, 0.00); goal 0 at (0.00, -0.50), goal 1 at (-1.00, -0.25)"
    )


def test_vmas_worlds_fit_the_picture_and_padding_is_hidden():
    scene = find_scene(vmas("wheel", agents=["a"])).pose([[[8.0, -2.0, 0]], [[np.nan, 0, 0]]])
    assert places(scene)["agent 0"] == pytest.approx((180, -45), abs=0.01)
    assert np.isnan(scene.poses[1]).all()


def test_vmas_groups_with_different_observations():
    spec = find_scene(vmas("simple_tag", adversary=["adversary_0", "adversary_1"], agent=["agent_0"]))
    assert spec.reads == (("adversary", "observation"), ("agent", "observation"))
    seen = np.ones((1, 1, 14))
    seen[..., :2] = 7  # the velocity comes first in this scenario
    scene = spec.pose((np.zeros((1, 2, 16)), seen))
    assert places(scene)["agent 2"] == pytest.approx((180, 180))


def test_what_does_not_fit_is_explained():
    spec = VmasAgents([2], MARKS["flocking"])
    with pytest.raises(ValueError) as error:
        spec.pose(np.zeros((3, 2)))
    assert str(error.value) == (
        "agents are drawn from observations of shape [N, n_agents, size] for each group, got shapes [[3, 2]]."
    )
    with pytest.raises(ValueError) as error:
        spec.pose(np.zeros((3, 4, 6)))
    assert str(error.value) == "2 agents are drawn, got observations of 4."
    with pytest.raises(ValueError) as error:
        find_scene(vmas("simple", agents=["agent_0"])).pose(np.zeros((1, 1, 4)))
    assert str(error.value) == ("the observations of simple do not tell where the agents are. Use env.render().")
    short = spec.pose(np.zeros((1, 2, 4)))
    assert np.isnan(short.poses[0, 0]).all(), "without the target in the observation there is no target"
