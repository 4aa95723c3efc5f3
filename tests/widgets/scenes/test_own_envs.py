"""The scenes of rlnb's own envs are found by class, and drawn from their rollouts."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from rlnb_widgets import RolloutPlayer
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.scenes import Scene, find_scene, scene_svg
from rlnb_widgets.scenes.bandit import Bandit
from rlnb_widgets.scenes.cartpole import CartPole
from rlnb_widgets.scenes.grid import GridMap, GridWorld
from rlnb_widgets.scenes.mountain_car import MountainCar
from rlnb_widgets.scenes.pendulum import Pendulum, PendulumAngles

from rlnb.envs import BanditEnv, CartPoleEnv, GridWorldEnv, MountainCarEnv, PendulumEnv

ENVS: list[tuple[Any, type]] = [
    (BanditEnv, Bandit),
    (CartPoleEnv, CartPole),
    (GridWorldEnv, GridWorld),
    (MountainCarEnv, MountainCar),
    (PendulumEnv, PendulumAngles),
]


def poses(scene: Scene, part: str) -> np.ndarray:
    return scene.poses[:, [p.name for p in scene.parts].index(part)]


@pytest.mark.parametrize(("make", "kind"), ENVS)
def test_an_env_of_our_own_is_found_by_its_class(make: Any, kind: type) -> None:
    assert type(find_scene(make())) is kind
    derived = type("Mine", (make,), {})
    assert type(find_scene(derived())) is kind


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1", "MountainCar-v0"])
def test_a_class_of_the_same_name_elsewhere_is_not_taken_for_ours(name: str) -> None:
    inner = gym.make(name).unwrapped
    made_without_an_id = type(inner)()
    assert type(made_without_an_id).__name__ in {make.__name__ for make, _ in ENVS}
    assert find_scene(made_without_an_id) is None
    assert not isinstance(find_scene(gym.make("Pendulum-v1")), PendulumAngles)


@pytest.mark.parametrize("make", [make for make, _ in ENVS])
@pytest.mark.parametrize("batch", [None, 2])
def test_the_player_draws_their_rollouts(make: Any, batch: int | None) -> None:
    if make is PendulumEnv:
        env = make(None if batch is None else make.gen_params(batch_size=[batch]), seed=0)
    else:
        env = make(seed=0) if batch is None else make(batch_size=[batch], seed=0)
    rollout = env.rollout(12)
    frames = player_model(rollout, env).frames
    assert (frames.kind, frames.note) == ("scene", "")
    scene = frames.scene
    assert scene is not None and frames.acting, "the actions are drawn"
    assert len(scene) >= rollout.numel()
    shown = np.isfinite(scene.poses).all(axis=-1)
    x, y = scene.poses[..., 0][shown], scene.poses[..., 1][shown]
    assert 0 <= x.min() <= x.max() <= scene.width
    assert 0 <= y.min() <= y.max() <= scene.height
    assert RolloutPlayer(rollout, env).to_svg().startswith("<svg")


@pytest.mark.parametrize("categorical", [True, False])
def test_both_encodings_look_the_same(categorical: bool) -> None:
    env = CartPoleEnv(seed=0, categorical_action_encoding=categorical)
    data = env.rollout(5)
    spec = find_scene(env)
    assert spec is not None
    action = data["action"] if categorical else data["action"].argmax(-1)
    np.testing.assert_array_equal(
        spec.pose(data["observation"].numpy(), data["action"].numpy()).poses,
        spec.pose(data["observation"].numpy(), action.numpy()).poses,
    )


def test_the_pendulum_is_where_gymnasiums_would_be() -> None:
    th = np.linspace(-math.pi, math.pi, 9)
    rates, torque = np.zeros(9), np.linspace(-2, 2, 9)
    own = PendulumAngles().pose(np.stack([th, rates], -1), torque)
    other = Pendulum().pose(np.stack([np.cos(th), np.sin(th), rates], -1), torque)
    np.testing.assert_allclose(own.poses, other.poses, atol=1e-6)
    assert own.caption_at(6) == other.caption_at(6)


def test_a_pendulum_without_its_angle_is_explained() -> None:
    env = PendulumEnv(seed=0)
    frames = player_model(env.rollout(3).exclude("th"), env).frames
    assert frames.note == 'No frames: the drawing needs "th" and "thdot", which the rollout does not have.'


def test_a_grid_world_has_its_own_map() -> None:
    env = GridWorldEnv(("S#G", "..H"))
    spec = find_scene(env)
    assert isinstance(spec, GridWorld)
    scene = spec.pose(np.arange(6), np.array([0, 1, 2, 3, 0, 1]))
    cell = scene.width / 3
    walls = [mark for mark in scene.background if mark["kind"] == "rect" and mark["fill"] == "muted"]
    assert walls == [{"kind": "rect", "x": cell, "x2": 2 * cell, "y": 0, "h": cell, "fill": "muted"}]
    assert scene.caption_at(3) == "agent at row 1, column 0, going up"
    np.testing.assert_allclose(np.cos(poses(scene, "action")[:4, 2]), [-1, 0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(np.sin(poses(scene, "action")[:4, 2]), [0, 1, 0, -1], atol=1e-6)


def test_a_grid_worlds_name_alone_has_no_map() -> None:
    assert isinstance(find_scene("rlnb/GridWorld"), GridMap)
    frames = player_model(GridWorldEnv(seed=0).rollout(3), "rlnb/GridWorld").frames
    assert frames.note == (
        "No frames: a grid world is drawn on the map of its env, and only a name was given: pass the env itself."
    )


def test_an_arms_column_grows_with_its_pulls() -> None:
    pulls = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [2, 1, 0], [2, 2, 0], [2, 3, 0], [2, 4, 0]])
    scene = Bandit(3).pose(pulls, actions=[0, 1, 0, 1, 1, 1])
    tops = np.stack([poses(scene, f"arm {k}")[:, 1] for k in range(3)], -1)
    heights = poses(scene, "floor")[:, 1:2] - tops
    np.testing.assert_allclose(heights, pulls * heights.max() / 4, atol=1e-3)
    assert tops.min() > 0 and heights.max() > scene.height / 2
    mark = poses(scene, "pull")
    np.testing.assert_allclose(mark[0, 0], poses(scene, "arm 0")[0, 0])
    np.testing.assert_allclose(mark[1, 0], poses(scene, "arm 1")[0, 0])
    assert (mark[:6, 1] < tops[range(6), [0, 1, 0, 1, 1, 1]]).all(), "the mark is above its column"
    assert np.isnan(mark[6]).all(), "nothing was pulled yet in the last frame"
    assert scene.caption_at(5) == "5 pulls, most of arm 1 (3), pulling arm 1"


@pytest.mark.parametrize("arms", [1, 2, 10, 50])
def test_any_number_of_arms_fits(arms: int) -> None:
    scene = find_scene(BanditEnv(n_arms=arms)).pose(np.zeros((2, arms)), actions=np.array([arms - 1]))  # type: ignore[union-attr]
    assert len(scene.parts) == arms + 2
    labels = [mark["text"] for part in scene.parts for mark in part.marks if mark["kind"] == "text"]
    assert labels == ([str(k) for k in range(arms)] if arms <= 20 else [])
    assert scene_svg(scene, 0) != scene_svg(scene, 1)


def test_observations_that_are_no_pulls_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Bandit is drawn from observations of shape \[N, 3\]"):
        Bandit(3).pose(np.zeros((4, 2)))
    assert Bandit().pose(np.full((1, 2), np.nan)).caption_at(0) == "no observation"
    assert len(Bandit(3).pose(np.zeros((0, 3)))) == 0
