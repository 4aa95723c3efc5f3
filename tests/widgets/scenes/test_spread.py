"""The scene of SpreadEnv: positions, covered landmarks, collisions, moves, and its words."""

from __future__ import annotations

import numpy as np
import pytest
from rlnb_widgets import RolloutPlayer
from rlnb_widgets._core.colors import AGENTS, agent_role, letters_on
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.scenes import Scene, find_scene, scene_svg
from rlnb_widgets.scenes.spread import Spread

from rlnb.envs import MarlGroupMapType, SpreadEnv

#: Two agents and two landmarks on 2 x 3: agent 1 covers landmark 1, and both have collided.
STATE = np.array([[[0, 0, 1], [1, 2, 1], [0, 2, 0], [1, 2, 1]]])


def small() -> Spread:
    return Spread(2, 3, n_agents=2)


def part(scene: Scene, name: str) -> np.ndarray:
    return scene.poses[:, [p.name for p in scene.parts].index(name)]


def seen(scene: Scene, frame: int = 0) -> set[str]:
    shown = np.isfinite(scene.poses[frame]).all(-1)
    return {p.name for p, is_shown in zip(scene.parts, shown, strict=True) if is_shown}


def test_an_env_is_drawn_on_its_own_grid() -> None:
    spec = find_scene(SpreadEnv(4, (3, 7)))
    assert isinstance(spec, Spread)
    assert (spec.rows, spec.columns, spec.n_agents, spec.acts) == (3, 7, 4, ("agents", "action"))
    assert spec.width / 7 == pytest.approx(spec.height / 3)
    single = find_scene(SpreadEnv(2, group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT))
    assert isinstance(single, Spread) and single.acts == ("agent_0", "action")
    derived = type("Mine", (SpreadEnv,), {})
    assert isinstance(find_scene(derived()), Spread)


def test_everything_is_where_it_is() -> None:
    scene = small().pose(STATE)
    cell = scene.width / 3
    for name, row, column in [("agent 0", 0, 0), ("agent 1", 1, 2), ("landmark 0", 0, 2), ("landmark 1", 1, 2)]:
        np.testing.assert_allclose(part(scene, name)[0, :2], [(column + 0.5) * cell, (row + 0.5) * cell])
    assert seen(scene) == {
        "agent 0", "agent 1", "landmark 0", "landmark 1", "covered 1", "collision 0", "collision 1",
    }  # fmt: skip
    calm = STATE.copy()
    calm[..., 2] = 0
    assert seen(small().pose(calm)) == {"agent 0", "agent 1", "landmark 0", "landmark 1"}


@pytest.mark.parametrize("hot", [True, False])
@pytest.mark.parametrize("move", range(5))
def test_a_move_points_where_it_goes(move: int, hot: bool) -> None:
    action = np.array([[move, 0]])
    scene = small().pose(STATE, np.eye(5)[action] if hot else action)
    angle = part(scene, "action 0")[0, 2]
    assert np.isnan(part(scene, "action 1")).all(), "who stays points nowhere"
    down, right = [(0, 0), (0, -1), (1, 0), (0, 1), (-1, 0)][move]
    if move:
        np.testing.assert_allclose([np.sin(angle), np.cos(angle)], [down, right], atol=1e-6)
    else:
        assert np.isnan(angle)
    assert scene.caption_at(0).endswith(f"moves: {('stay', 'left', 'down', 'right', 'up')[move]}, stay")


def test_agents_are_told_apart() -> None:
    spec = Spread(6, 6, n_agents=12)
    agents = [p for p in spec.parts if p.name.startswith("agent ")]
    assert [p.marks[-1]["text"] for p in agents] == [str(k) for k in range(12)]
    looks = {(len(p.marks[0].get("points", ())), p.marks[0]["fill"]) for p in agents}
    assert len(looks) == 12
    assert [p.marks[0]["fill"] for p in agents[:4]] == [agent_role(k) for k in range(4)]
    order = [p.name.split()[0] for p in spec.parts]
    assert order.index("covered") < order.index("agent") < order.index("action"), "agents lie on what they cover"


def test_the_same_in_words() -> None:
    assert small().pose(STATE).caption_at(0) == "0 . x / . . 1*; 1 of 2 landmarks covered; agents 0, 1 have collided"
    places = [[[0, k, 0] for k in range(12)] + [[0, 12 + k, 0] for k in range(12)]]
    cells = Spread(1, 24, n_agents=12).pose(np.array(places)).caption_at(0).partition(";")[0]
    assert cells.split() == [*map(str, range(12)), *"x" * 12]


@pytest.mark.parametrize("nothing", [np.zeros((1, 4, 3)), np.full((1, 4, 3), np.nan), np.full((1, 4, 3), -1)])
def test_padding_is_an_empty_grid(nothing: np.ndarray) -> None:
    scene = small().pose(nothing, np.array([[1, 2]]))
    assert seen(scene) == set() and scene.caption_at(0) == "no state"
    assert len(small().pose(np.zeros((0, 4, 3)))) == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError) as error:
        small().pose(np.zeros((5, 6, 3)))
    assert str(error.value) == (
        "2 agents and as many landmarks are drawn from states of shape [N, 4, 3] (row, column, mark), got shape "
        "[5, 6, 3]. Was the scene made for another env? Ask for it with find_scene(env)."
    )
    with pytest.raises(ValueError) as error:
        small().pose(STATE + 2)
    assert str(error.value) == (
        "a state has a place outside the grid of 2 x 3. The grid is that of the env: pass the env itself."
    )
    with pytest.raises(ValueError) as error:
        small().pose(STATE, np.zeros((1, 3)))
    assert str(error.value) == (
        "the actions of 2 agents are indices of shape [N, 2], or one-hot of shape [N, 2, 5], got shape [1, 3]."
    )


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("group_map", MarlGroupMapType)
def test_the_player_draws_rollouts(batch: int | None, categorical: bool, group_map: MarlGroupMapType) -> None:
    env = SpreadEnv(
        batch_size=None if batch is None else [batch], categorical_action_encoding=categorical, group_map=group_map,
        agent_done=True, seed=0, max_steps=5,
    )  # fmt: skip
    rollout = env.rollout(12, break_when_any_done=False)
    frames = player_model(rollout, env).frames
    assert (frames.kind, frames.note) == ("scene", "")
    scene = frames.scene
    assert scene is not None and len(scene) >= rollout.numel()
    shown = np.isfinite(scene.poses).all(axis=-1)
    x, y = scene.poses[..., 0][shown], scene.poses[..., 1][shown]
    assert 0 <= x.min() <= x.max() <= scene.width and 0 <= y.min() <= y.max() <= scene.height
    for k in range(3):
        at = part(scene, f"agent {k}")[: rollout.numel(), :2] * env.columns / scene.width - 0.5
        want = rollout["state"].reshape(-1, 6, 3)[:, k, :2].flip(-1).numpy()
        np.testing.assert_allclose(at, want, atol=1e-5)
    assert RolloutPlayer(rollout, env).to_svg().startswith("<svg")


def test_the_numbers_of_agents_are_readable_on_their_colours() -> None:
    agents = [part for part in Spread(n_agents=len(AGENTS)).parts if part.name.startswith("agent ")]
    assert len(agents) == len(AGENTS)
    for k, agent in enumerate(agents):
        body, number = agent.marks
        assert (body["fill"], number["text"], number["fill"]) == (agent_role(k), str(k), letters_on(agent_role(k)))


def test_frames_differ() -> None:
    env = SpreadEnv(seed=0)
    rollout = env.rollout(3)
    spec = find_scene(env)
    assert spec is not None
    scene = spec.pose(rollout["state"].numpy(), rollout["agents", "action"].numpy())
    assert scene_svg(scene, 0) != scene_svg(scene, 1)
    assert "<title>" in scene_svg(scene, 0)
