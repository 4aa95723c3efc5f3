"""The moving parts of the classic control envs are where physics and Gymnasium's renderer put them."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from rlnb_widgets.scenes import Scene, find_scene


def draw(name: str, rows: Any, actions: Any = None) -> Scene:
    spec = find_scene(name)
    assert spec is not None
    return spec.pose(np.asarray(rows, dtype=np.float64), actions)


def poses(scene: Scene, part: str) -> np.ndarray:
    return scene.poses[:, [p.name for p in scene.parts].index(part)]


def heads(scene: Scene, *names: str) -> list[tuple[bool, ...]]:
    """Return for each frame which of the arrow heads show."""
    return [
        tuple(bool(v) for v in row) for row in zip(*(np.isfinite(poses(scene, n)[:, 0]) for n in names), strict=True)
    ]


def test_cartpole_leans_right_for_positive_angles_and_moves_right_for_positive_x() -> None:
    scene = draw("CartPole-v1", [[0, 0, 0, 0], [1.2, 0, 0.2, 0], [-2.4, 0, -0.2, 0], [0, 0, math.pi, 0]])
    cart, pole = poses(scene, "cart"), poses(scene, "pole")
    np.testing.assert_allclose(pole[:, 2], [0, 0.2, -0.2, math.pi], atol=1e-6)
    np.testing.assert_array_equal(cart[:, 0], pole[:, 0])
    centre = scene.width / 2
    assert cart[0, 0] == centre
    assert cart[1, 0] - centre == pytest.approx((centre - cart[2, 0]) / 2, rel=1e-5)


def test_cartpole_limits_are_drawn_where_the_cart_is_at_the_limits() -> None:
    scene = draw("CartPole-v1", [[2.4, 0, 0, 0], [-2.4, 0, 0, 0]])
    limits = sorted(mark["points"][0][0] for mark in scene.background if mark.get("stroke") == "bad")
    np.testing.assert_allclose(limits, sorted(poses(scene, "cart")[:, 0]), atol=1e-4)


@pytest.mark.parametrize("actions", [[0, 1], [[1, 0], [0, 1]]])
def test_cartpole_push_points_the_way_of_the_action(actions: Any) -> None:
    scene = draw("CartPole-v1", np.zeros((3, 4)), np.asarray(actions))
    head = poses(scene, "arrow head")
    np.testing.assert_allclose(head[:2, 2], [math.pi, 0], atol=1e-6)
    assert head[0, 0] < scene.width / 2 < head[1, 0]
    assert np.isnan(head[2, 0])


def test_pendulum_grows_anticlockwise_from_upright() -> None:
    theta = np.array([0, 0.7, math.pi, -1.5])
    scene = draw("Pendulum-v1", np.stack([np.cos(theta), np.sin(theta), theta * 0], -1))
    np.testing.assert_allclose(np.cos(poses(scene, "rod")[:, 2]), np.cos(theta), atol=1e-6)
    np.testing.assert_allclose(np.sin(poses(scene, "rod")[:, 2]), -np.sin(theta), atol=1e-6)


def test_pendulum_torque_turns_the_rod_the_way_the_arrow_points() -> None:
    scene = draw("Pendulum-v1", [[-1, 0, 0]] * 5, np.array([[2.0], [-2.0], [0.0], [9.0], [1.0]]))
    clockwise, anticlockwise = "arc head clockwise", "arc head anticlockwise"
    assert heads(scene, clockwise, anticlockwise) == [
        (False, True),
        (True, False),
        (False, False),
        (False, True),
        (False, True),
    ]
    # A torque beyond the limit is drawn as the limit; half of it is half the arc.
    angle = poses(scene, anticlockwise)[:, 2]
    assert angle[3] == angle[0]
    start = -math.pi / 2 + math.radians(75)
    assert start - angle[4] == pytest.approx((start - angle[0]) / 2, rel=1e-5)


@pytest.mark.parametrize("name", ["MountainCar-v0", "MountainCarContinuous-v0"])
def test_mountain_car_stands_on_the_hill_and_tilts_with_it(name: str) -> None:
    x = np.linspace(-1.2, 0.6, 50)
    car = poses(draw(name, np.stack([x, x * 0], -1)), "car")
    scale = (car[-1, 0] - car[0, 0]) / 1.8
    height = np.sin(3 * x) * 0.45 + 0.55
    np.testing.assert_allclose(car[:, 1] - car[0, 1], -(height - height[0]) * scale, atol=1e-2)
    slope = np.gradient(car[:, 1].astype(float), car[:, 0].astype(float))
    np.testing.assert_allclose(np.tan(car[1:-1, 2]), slope[1:-1], atol=0.03)


@pytest.mark.parametrize(("name", "goal"), [("MountainCar-v0", 0.5), ("MountainCarContinuous-v0", 0.45)])
def test_mountain_car_at_the_goal_is_at_the_flag(name: str, goal: float) -> None:
    env = gym.make(name)
    assert env.unwrapped.goal_position == goal  # type: ignore[attr-defined]
    scene = draw(name, [[goal, 0]])
    pole = next(mark for mark in scene.background if mark.get("stroke") == "ink")
    np.testing.assert_allclose(poses(scene, "car")[0, :2], pole["points"][0], atol=1e-3)


def test_mountain_car_push() -> None:
    rows = [[-0.5236, 0]] * 3
    discrete = poses(draw("MountainCar-v0", rows, np.array([0, 1, 2])), "arrow head")
    continuous = poses(draw("MountainCarContinuous-v0", rows, np.array([[-1.0], [0.0], [1.0]])), "arrow head")
    np.testing.assert_array_equal(discrete, continuous)
    assert np.isnan(discrete[1, 0])
    assert discrete[0, 0] < discrete[2, 0]
    half = poses(draw("MountainCarContinuous-v0", rows, np.array([[0.5], [0.0], [1.0]])), "arrow head")
    assert half[0, 0] < half[2, 0]


def acrobot(angles: Any) -> np.ndarray:
    a = np.asarray(angles, dtype=float)
    return np.stack([np.cos(a[:, 0]), np.sin(a[:, 0]), np.cos(a[:, 1]), np.sin(a[:, 1]), a[:, 0] * 0, a[:, 0] * 0], -1)


def test_acrobot_links_hang_stand_and_bend() -> None:
    half = math.pi / 2
    scene = draw("Acrobot-v1", acrobot([(0, 0), (math.pi, 0), (half, 0), (half, half)]))
    centre, joint, second = scene.width / 2, poses(scene, "joint"), poses(scene, "link 2")
    length = joint[0, 1] - centre
    np.testing.assert_allclose(
        (joint[:, :2] - centre) / length, [(0, 1), (0, -1), (1, 0), (1, 0)], atol=1e-5
    )  # down, up, right, right
    tip = second[:, :2] + length * np.stack([-np.sin(second[:, 2]), np.cos(second[:, 2])], -1)
    np.testing.assert_allclose((tip - centre) / length, [(0, 2), (0, -2), (2, 0), (1, -1)], atol=1e-5)
    goal = next(mark for mark in scene.background if mark.get("stroke") == "good")
    assert goal["points"][0][1] == pytest.approx(centre - length)


def test_acrobot_torque_acts_at_the_joint() -> None:
    scene = draw("Acrobot-v1", acrobot([(0.5, 0.5)] * 3), np.array([0, 1, 2]))
    names = ("arc head clockwise", "arc head anticlockwise")
    assert heads(scene, *names) == [(True, False), (False, False), (False, True)]
    np.testing.assert_allclose(poses(scene, names[0])[0, :2], poses(scene, "joint")[0, :2])


@pytest.mark.parametrize(
    ("name", "size"),
    [("CartPole", 4), ("Pendulum", 3), ("MountainCar", 2), ("MountainCarContinuous", 2), ("Acrobot", 6)],
)
def test_rows_with_nan_hide_all_that_moves(name: str, size: int) -> None:
    rows = np.zeros((2, size))
    rows[1, size - 1] = np.nan
    actions = np.ones((2, 1)) if name in ("Pendulum", "MountainCarContinuous") else np.zeros(2)
    scene = draw(name, rows, actions)
    assert np.isfinite(scene.poses[0]).any()
    assert np.isnan(scene.poses[1]).all()
    assert scene.caption_at(1) == "no observation"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("CartPole", "[N, 4] (x, x_dot, theta, theta_dot)"),
        ("Pendulum", "[N, 3] (cos(theta), sin(theta), theta_dot)"),
        ("MountainCar", "[N, 2] (position, velocity)"),
        ("MountainCarContinuous", "[N, 2] (position, velocity)"),
        ("Acrobot", "[N, 6] (cos(theta1), sin(theta1), cos(theta2), sin(theta2), theta1_dot, theta2_dot)"),
    ],
)
def test_wrong_sizes_teach(name: str, fields: str) -> None:
    with pytest.raises(ValueError) as error:
        draw(name, np.zeros((8, 5)))
    assert str(error.value) == (
        f"{name} is drawn from observations of shape {fields}, got shape [8, 5]. "
        "Pass the observations as the env returns them, before any transform that picks or joins features."
    )


@pytest.mark.parametrize(
    ("name", "row", "action", "words"),
    [
        ("CartPole", [0, 0, 0, 0], [1], "cart at +0.00, pole upright, pushed right"),
        ("CartPole", [-1, 0, -0.1, 0], None, "cart at -1.00, pole leaning 5.7 degrees left"),
        ("Pendulum", [1, 0, 0], [[-1.0]], "rod upright, torque -1.00"),
        ("Pendulum", [0, -1, 0], None, "rod 90.0 degrees right"),
        ("MountainCar", [0.1, 0.02], [1], "car at +0.10 with speed +0.020, not pushed"),
        ("MountainCarContinuous", [0.1, 0], [[-0.25]], "car at +0.10 with speed +0.000, pushed left with force 0.25"),
        ("Acrobot", [-1, 0, 1, 0, 0, 0], [0], "tip 2.00 above the pivot; the goal is 1 above it; torque -1"),
    ],
)
def test_captions_say_what_is_drawn(name: str, row: list[float], action: Any, words: str) -> None:
    assert draw(name, [row], action).caption_at(0) == words


def rendered(name: str, state: list[float], colour: tuple[int, int, int]) -> tuple[float, float]:
    """Return (x, y) of the middle of what Gymnasium paints in `colour`, from the middle of its picture."""
    env = gym.make(name, render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    env.state = np.asarray(state, dtype=float)  # type: ignore[attr-defined]
    picture = np.asarray(env.render()).astype(int)
    env.close()
    rows, columns = np.nonzero((np.abs(picture - colour) < 4).all(axis=-1))
    assert len(rows) > 50
    return columns.mean() - picture.shape[1] / 2, rows.mean() - picture.shape[0] / 2


@pytest.mark.parametrize("theta", [0.4, -1.3, 2.5])
def test_pendulum_points_where_gymnasium_draws_it(theta: float) -> None:
    x, y = rendered("Pendulum-v1", [theta, 0], (204, 77, 77))
    angle = poses(draw("Pendulum-v1", [[math.cos(theta), math.sin(theta), 0]]), "rod")[0, 2]
    assert (math.sin(angle), -math.cos(angle)) == pytest.approx((x / math.hypot(x, y), y / math.hypot(x, y)), abs=0.05)


@pytest.mark.parametrize("theta", [0.2, -0.4])
def test_cartpole_leans_as_gymnasium_draws_it(theta: float) -> None:
    x, y = rendered("CartPole-v1", [0, 0, theta, 0], (202, 152, 101))
    below = 400 - 100 - 7.5 - 200  # the axle in Gymnasium's picture, from its middle
    angle = poses(draw("CartPole-v1", [[0, 0, theta, 0]]), "pole")[0, 2]
    assert math.atan2(x, below - y) == pytest.approx(angle, abs=0.03)


@pytest.mark.parametrize("angles", [(0.8, 0.6), (-1.0, -1.5), (3.0, 0.3)])
def test_acrobot_bends_as_gymnasium_draws_it(angles: tuple[float, float]) -> None:
    x, y = rendered("Acrobot-v1", [*angles, 0, 0], (0, 204, 204))
    scene = draw("Acrobot-v1", acrobot([angles]))
    joint, second = poses(scene, "joint")[0], poses(scene, "link 2")[0]
    centre = scene.width / 2
    length = math.dist(joint[:2], (centre, centre))
    middle_2 = joint[:2] + length / 2 * np.array([-math.sin(second[2]), math.cos(second[2])])
    mine = ((joint[:2] + centre) / 2 + middle_2) / 2 - centre
    scale = 500 / 4.4 / length
    assert (x, y) == pytest.approx(tuple(mine * scale), abs=8)  # its joints cover a part of the links
