"""Scenes are found by env, by what wraps it and by id, and fit real trajectories."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation, TimeLimit
from rlnb_widgets.scenes import Scene, SceneSpec, find_scene, register_scene, registry, scene_names, scene_svg
from rlnb_widgets.scenes.acrobot import Acrobot
from rlnb_widgets.scenes.cartpole import CartPole
from rlnb_widgets.scenes.grid import FrozenLake
from rlnb_widgets.scenes.mountain_car import MountainCar
from rlnb_widgets.scenes.pendulum import Pendulum
from rlnb_widgets.scenes.taxi import Taxi

IDS = (
    "Acrobot-v1",
    "Blackjack-v1",
    "CartPole-v1",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Taxi-v4",
)


@pytest.fixture
def scenes(monkeypatch: pytest.MonkeyPatch) -> dict[str, SceneSpec]:
    """A registry that the test may change."""
    copy = dict(registry._SCENES)
    monkeypatch.setattr(registry, "_SCENES", copy)
    return copy


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("CartPole-v1", CartPole),
        ("CartPole-v0", CartPole),
        ("CartPole-v99", CartPole),
        ("CartPole", CartPole),
        ("phys2d/CartPole-v1", CartPole),
        ("some_module:CartPole-v1", CartPole),
        ("Pendulum-v1", Pendulum),
        ("MountainCarContinuous-v0", MountainCar),
        ("Acrobot-v1", Acrobot),
        ("Taxi-v3", Taxi),
        ("FrozenLake8x8-v1", FrozenLake),
    ],
)
def test_an_id_of_any_version_is_found(name: str, kind: type) -> None:
    assert isinstance(find_scene(name), kind)


@pytest.mark.parametrize("thing", ["", "NoSuchEnv-v0", "CartPole-v1-mine", "mine/CartPole-v1", None, 3, object()])
def test_what_is_not_known_is_none(thing: Any) -> None:
    assert find_scene(thing) is None


class Holder:
    """An env of a library that keeps the Gymnasium env in `attribute`."""

    def __init__(self, attribute: str, env: Any) -> None:
        setattr(self, attribute, env)


def test_an_env_is_found_through_all_that_wraps_it() -> None:
    env = gym.make("FrozenLake-v1", desc=["SFH", "FHG"])
    held = Holder("_env", FlattenObservation(TimeLimit(env, 5)))
    for outer in (env, env.unwrapped, held, Holder("base_env", held), Holder("base_env", Holder("base_env", held))):
        found = find_scene(outer)
        assert isinstance(found, FrozenLake)
        assert found.rows == ("SFH", "FHG")


def test_a_name_alone_is_enough() -> None:
    assert isinstance(find_scene(Holder("env_name", "Pendulum-v1")), Pendulum)


def test_an_env_that_holds_itself_does_not_hang() -> None:
    loop = Holder("env_name", None)
    loop.base_env = loop  # type: ignore[attr-defined]
    assert find_scene(loop) is None


def test_an_env_whose_attributes_raise_has_no_scene() -> None:
    class Closed:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"{name}: the workers have not started")

    assert find_scene(Closed()) is None


def test_register_draws_all_versions_and_replaces(scenes: dict[str, SceneSpec]) -> None:
    first, second = CartPole(), CartPole()
    register_scene("Mine-v3", first)
    assert find_scene("Mine-v1") is first
    register_scene("Mine", second)
    assert find_scene("Mine-v3") is second
    assert "Mine" in scene_names()
    assert scenes["Mine"] is second


def test_register_refuses_what_does_not_draw(scenes: dict[str, SceneSpec]) -> None:
    with pytest.raises(TypeError) as error:
        register_scene("Mine", 3)  # type: ignore[arg-type]
    assert str(error.value) == (
        "a scene needs a method pose(observations, actions=None) that returns a Scene; int has none."
    )
    with pytest.raises(TypeError) as error:
        register_scene("Mine", CartPole)  # type: ignore[arg-type]
    assert str(error.value) == "register_scene needs an object, got the class CartPole; pass CartPole()."
    assert "Mine" not in scenes


def trajectory(env: Any, steps: int) -> tuple[list[Any], list[Any]]:
    """Return steps + 1 observations and steps actions, over resets."""
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    observations, actions = [observation], []
    for _ in range(steps):
        actions.append(env.action_space.sample())
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        if terminated or truncated:
            observation, _ = env.reset()
        observations.append(observation)
    return observations, actions


@pytest.mark.parametrize("name", IDS)
def test_real_trajectories_are_drawn_within_the_picture(name: str) -> None:
    env = gym.make(name)
    spec = find_scene(env)
    assert spec is not None
    observations, actions = trajectory(env, 300)
    scene = spec.pose(observations, np.stack(actions))
    assert scene.poses.shape == (301, len(scene.parts), 3)
    shown = np.isfinite(scene.poses).all(axis=-1)
    assert shown.sum(axis=1).all()
    x, y = scene.poses[..., 0][shown], scene.poses[..., 1][shown]
    assert 0 <= x.min() <= x.max() <= scene.width
    assert 0 <= y.min() <= y.max() <= scene.height
    assert scene.caption_at(0) != scene.caption_at(300) == scene.caption_at(-1)
    assert scene_svg(scene, 150) != scene_svg(scene, 0)


@pytest.mark.parametrize("name", [n for n in IDS if not n.startswith(("Blackjack", "Acro", "Cart", "Mount", "Pend"))])
def test_flattened_observations_are_drawn_alike(name: str) -> None:
    plain, flat = (trajectory(wrap(gym.make(name)), 50)[0] for wrap in (lambda e: e, FlattenObservation))
    spec = find_scene(name)
    assert spec is not None
    np.testing.assert_array_equal(spec.pose(plain).poses, spec.pose(flat).poses)


@pytest.mark.parametrize("name", IDS)
def test_many_frames_are_one_array(name: str) -> None:
    env = gym.make(name)
    spec = find_scene(env)
    assert spec is not None
    observations, actions = trajectory(env, 20)
    scene: Scene = spec.pose(np.resize(observations, (10_000, *np.shape(observations)[1:])))
    assert scene.poses.dtype == np.float32
    assert scene.poses.shape == (10_000, len(scene.parts), 3)
    with_actions = spec.pose(observations, np.stack(actions))
    assert with_actions.parts == scene.parts, "the parts do not depend on what is given"


def test_no_frames_make_an_empty_scene() -> None:
    spec = find_scene("CartPole-v1")
    assert spec is not None
    assert len(spec.pose(np.zeros((0, 4)))) == 0
