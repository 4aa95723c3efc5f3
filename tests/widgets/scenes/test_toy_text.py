"""The grid worlds and Blackjack: cells, maps, decoding of states and encodings."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from rlnb_widgets.scenes import Scene, SceneSpec, find_scene
from rlnb_widgets.scenes.grid import MAPS, FrozenLake, GridWorld


def spec(env: Any) -> SceneSpec:
    found = find_scene(env)
    assert found is not None
    return found


def poses(scene: Scene, part: str) -> np.ndarray:
    return scene.poses[:, [p.name for p in scene.parts].index(part)]


@pytest.mark.parametrize(
    ("name", "rows", "columns"), [("FrozenLake-v1", 4, 4), ("FrozenLake8x8-v1", 8, 8), ("CliffWalking-v1", 4, 12)]
)
def test_every_state_is_its_cell_and_one_hot_is_the_same(name: str, rows: int, columns: int) -> None:
    states = np.arange(rows * columns)
    scene = spec(name).pose(states)
    cell = scene.width / columns
    agent = poses(scene, "agent")
    np.testing.assert_allclose(agent[:, 0], (states % columns + 0.5) * cell, rtol=1e-6)
    np.testing.assert_allclose(agent[:, 1], (states // columns + 0.5) * cell, rtol=1e-6)
    for dtype in (np.bool_, np.int64, np.float32):
        np.testing.assert_array_equal(spec(name).pose(np.eye(len(states), dtype=dtype)).poses, scene.poses)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1"])
def test_the_mark_points_where_the_action_moves_the_agent(name: str) -> None:
    kwargs = {"is_slippery": False} if name.startswith("Frozen") else {}
    env = gym.make(name, **kwargs).unwrapped
    env.reset(seed=0)
    start = 9 if name.startswith("Frozen") else 14  # a cell with free ones all around
    ahead = []
    for action in range(4):
        env.s = start  # type: ignore[attr-defined]
        ahead.append(env.step(action)[0])
    scene = spec(env).pose([start] * 4, actions=range(4))
    moved = poses(spec(env).pose(ahead), "agent")[:, :2] - poses(scene, "agent")[:, :2]
    angle = poses(scene, "action")[:, 2]
    np.testing.assert_allclose(np.cos(angle), np.sign(np.round(moved[:, 0])), atol=1e-6)
    np.testing.assert_allclose(np.sin(angle), np.sign(np.round(moved[:, 1])), atol=1e-6)


@pytest.mark.parametrize("size", ["4x4", "8x8"])
def test_gymnasium_has_the_same_maps(size: str) -> None:
    env = gym.make("FrozenLake-v1", map_name=size)
    fitted = spec(env)
    assert isinstance(fitted, FrozenLake)
    assert fitted.rows == MAPS[size]
    assert FrozenLake(MAPS[size]).rows == fitted.rows


@pytest.mark.parametrize("form", ["wrapped", "unwrapped", "not built"])
def test_frozen_lake_takes_the_map_of_its_env(form: str) -> None:
    rows = ["SFH", "FHG"]
    env: Any = gym.make("FrozenLake-v1", desc=rows)
    if form == "unwrapped":
        env = env.unwrapped
    if form == "not built":
        env = type("Stub", (), {"spec": env.spec})()  # a vector env has the arguments and no map
    scene = spec(env).pose([5])
    assert scene.caption_at(0) == "agent at row 1, column 2 (goal)"
    assert sum(mark.get("fill") == "water" for mark in scene.background) == 2
    assert scene.width / scene.height == pytest.approx(1.5)


def test_the_env_of_the_wrong_map_is_noticed() -> None:
    with pytest.raises(ValueError) as error:
        spec("FrozenLake-v1").pose(np.eye(64))
    assert str(error.value) == (
        "FrozenLake observations must be indices of shape [N] or [N, 1], or one-hot rows of shape [N, 16], "
        "got shape [64, 64]. Was the scene made for another map or env? Ask for it with find_scene(env)."
    )


def test_cliff_walking_has_the_cliff_of_the_env() -> None:
    cliff = gym.make("CliffWalking-v1").unwrapped._cliff  # type: ignore[attr-defined]
    scene = spec("CliffWalking-v1")
    assert isinstance(scene, GridWorld)
    np.testing.assert_array_equal(np.array([list(row) for row in scene.rows]) == "C", cliff)
    words = [scene.pose([s]).caption_at(0) for s in (36, 37, 47)]
    assert words == [
        "agent at row 3, column 0 (start)",
        "agent at row 3, column 1 (cliff)",
        "agent at row 3, column 11 (goal)",
    ]


@pytest.mark.parametrize("rows", [["SF", "G"], [], ["", ""]])
def test_a_map_that_is_no_rectangle_is_refused(rows: list[str]) -> None:
    with pytest.raises(ValueError) as error:
        FrozenLake(rows)
    assert str(error.value) == f"the rows of a map must be equally long and not empty, got {rows}."


def test_taxi_decodes_all_500_states_as_the_env_does() -> None:
    env = gym.make("Taxi-v4").unwrapped
    scene = spec(env).pose(np.arange(500))
    decoded = np.array([list(env.decode(s)) for s in range(500)])  # type: ignore[attr-defined]
    stations = np.array(env.locs)  # type: ignore[attr-defined]
    taxi, waiting, rider = (poses(scene, name) for name in ("taxi", "passenger", "rider"))
    corner, cell = taxi[0, :2], (taxi[24 * 20, :2] - taxi[0, :2]) / 4
    np.testing.assert_allclose((taxi[:, :2] - corner) / cell, decoded[:, [1, 0]], atol=1e-5)
    inside = decoded[:, 2] == 4
    np.testing.assert_array_equal(np.isnan(waiting[:, 0]), inside)
    np.testing.assert_array_equal(np.isnan(rider[:, 0]), ~inside)
    np.testing.assert_array_equal(rider[inside], taxi[inside])
    beside = stations[decoded[~inside, 2]][:, ::-1] + [-0.3, 0]
    np.testing.assert_allclose((waiting[~inside, :2] - corner) / cell, beside, atol=1e-5)
    goal = (poses(scene, "destination")[:, :2] - corner) / cell
    np.testing.assert_allclose(goal, stations[decoded[:, 3]][:, ::-1], atol=1e-5)


def test_taxi_one_hot_is_the_same() -> None:
    states, actions = np.arange(500), np.arange(500) % 6
    by_index = spec("Taxi-v3").pose(states, actions)
    by_row = spec("Taxi-v4").pose(np.eye(500, dtype=bool), np.eye(6)[actions])
    np.testing.assert_array_equal(by_index.poses, by_row.poses)


def test_taxi_walls_are_where_the_env_has_them() -> None:
    env = gym.make("Taxi-v4").unwrapped
    scene = spec(env).pose(np.arange(500))
    taxi = poses(scene, "taxi")
    step = taxi[20, 0] - taxi[0, 0]
    walls = [mark for mark in scene.background if mark["kind"] == "rect" and mark.get("fill") == "ink"]

    def blocked(row: int, column: int) -> bool:
        x, y = taxi[(row * 5 + column) * 20, :2] + [step / 2, 0]
        return any(m["x"] < x < m["x2"] and m["y"] < y < m["y"] + m["h"] for m in walls)

    for row in range(5):
        for column in range(4):
            state = env.encode(row, column, 0, 1)  # type: ignore[attr-defined]
            stays = env.P[state][2][0][1] == state  # type: ignore[attr-defined]
            assert blocked(row, column) == stays, (row, column)


def test_taxi_actions() -> None:
    scene = spec("Taxi-v4").pose([328] * 7, actions=range(6))
    mark, deed = poses(scene, "action"), poses(scene, "pick-up or drop-off")
    np.testing.assert_allclose(mark[:4, 2], [math.pi / 2, -math.pi / 2, 0, math.pi], rtol=1e-6)
    assert np.isnan(mark[4:, 0]).all()
    assert np.isfinite(deed[:, 0]).tolist() == [False] * 4 + [True] * 2 + [False]
    assert [scene.caption_at(i).partition("; ")[2].rpartition("; ")[2] for i in (0, 1, 2, 3, 4, 5)] == [
        "going down",
        "going up",
        "going right",
        "going left",
        "picking up",
        "dropping off",
    ]
    assert scene.caption_at(6) == "taxi at row 3, column 1; passenger at yellow, wants to go to red"


@pytest.mark.parametrize(("name", "n"), [("FrozenLake", 16), ("CliffWalking", 48), ("Taxi", 500)])
def test_nan_hides_all_that_moves_and_wrong_states_teach(name: str, n: int) -> None:
    one_hot = np.eye(n)[[1, 0]]
    one_hot[1] = np.nan
    for observations in (np.array([1, np.nan]), one_hot):
        scene = spec(name).pose(observations, actions=[1, 1])
        assert np.isfinite(scene.poses[0]).any()
        assert np.isnan(scene.poses[1]).all()
        assert scene.caption_at(1) == "no observation"
    with pytest.raises(ValueError) as error:
        spec(name).pose([0, n])
    expected = f"{name} observations must be whole numbers from 0 to {n - 1} (or NaN for nothing), got {n} at row 1."
    assert str(error.value) == expected


def shown(scene: Scene, i: int) -> set[str]:
    return {p.name for p, pose in zip(scene.parts, scene.poses[i], strict=True) if np.isfinite(pose).all()}


def test_blackjack_shows_its_numbers() -> None:
    rows = [(14, 10, 0), (8, 1, 0), (21, 7, 1), (26, 3, 0)]
    scene = spec("Blackjack-v1").pose(rows, actions=[1, 0, 1])
    assert [shown(scene, i) for i in range(4)] == [
        {"dealer 10", "tens 1", "ones 4", "hit"},
        {"dealer A", "ones 8", "stick"},
        {"dealer 7", "tens 2", "ones 1", "usable ace", "hit"},
        {"dealer 3", "tens 2", "ones 6", "bust"},
    ]
    assert scene.caption_at(2) == "player has 21 with a usable ace, dealer shows 7; hit"
    assert scene.caption_at(1) == "player has 8, dealer shows A; stick"
    columns = tuple(np.array(rows).T)
    one_hot = tuple(np.eye(n)[column] for n, column in zip((32, 11, 2), columns, strict=True))
    for observations in (columns, one_hot, np.array(rows)):
        np.testing.assert_array_equal(spec("Blackjack-v1").pose(observations, actions=[1, 0, 1]).poses, scene.poses)


def test_blackjack_refuses_columns_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"^Blackjack needs as many sums as cards and aces, got \[2, 1, 2\].$"):
        spec("Blackjack-v1").pose((np.array([1, 2]), np.array([1]), np.array([0, 1])))
    with pytest.raises(ValueError, match=r"^Blackjack dealer's card must be whole numbers from 0 to 10 \(or NaN"):
        spec("Blackjack-v1").pose([(14, 11, 0)])
