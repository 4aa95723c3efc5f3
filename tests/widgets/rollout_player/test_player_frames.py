"""Frames: pixels, given images, drawings of the state, and none."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from rlnb_widgets import RolloutPlayer
from rlnb_widgets._core.images import as_rgb
from rlnb_widgets.rollout_player.frames import NO_FRAMES
from rlnb_widgets.rollout_player.model import player_model
from rlnb_widgets.rollout_player.pictures import encode_frames
from rlnb_widgets.scenes import scene_names
from tensordict import TensorDict

from rlnb.envs import GymEnv


def pixels(steps: int, offset: int = 0) -> torch.Tensor:
    frames = np.zeros((steps, 16, 24, 3), np.uint8)
    for t in range(steps):
        frames[t, :, :, 0] = 10 * (t + offset)
    return torch.as_tensor(frames)


def decoded(pictures, frame):
    return np.asarray(Image.open(io.BytesIO(pictures.data[pictures.index[frame]])).convert("RGB"))


def test_pixels_of_root_and_the_last_next():
    done = torch.tensor([0, 1, 0], dtype=torch.bool)[:, None]
    td = TensorDict({"pixels": pixels(3), "next": {"pixels": pixels(3, 1), "done": done, "terminated": done}}, [3])
    frames = player_model(td).frames
    assert (frames.kind, frames.extra.tolist(), frames.note) == ("pixels", [1, 2], "")
    # Frames 0 to 2 are the roots, 3 and 4 what the end of the episode and of the data led to.
    assert [int(decoded(frames.pictures, i)[0, 0, 0]) for i in range(5)] == [0, 10, 20, 20, 30]
    assert len(frames.pictures.data) == 4


def test_equal_frames_are_sent_once():
    pictures = encode_frames(lambda i: np.full((8, 8, 3), 7 * (i % 2), np.uint8), 1000, 10_000)
    assert len(pictures.data) == 2 and pictures.left_out == 0
    assert pictures.index[:4].tolist() == [0, 1, 0, 1]


def test_the_budget_holds_and_thinning_is_said():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 255, (50, 32, 32, 3), dtype=np.uint8)
    td = TensorDict({"pixels": torch.as_tensor(noise)}, [50])
    frames = player_model(td, max_bytes=20_000).frames
    assert sum(map(len, frames.pictures.data)) <= 20_000
    assert frames.pictures.left_out == 50 - len(frames.pictures.data) > 0
    assert frames.note == (
        f"Frames are thinned to {len(frames.pictures.data)} pictures: a frame that was left out shows the one before "
        "it. Raise max_bytes, or play a slice of the rollout, to see all."
    )
    assert (np.diff(frames.pictures.index[:50]) >= 0).all()


def test_large_frames_are_shrunk():
    pictures = encode_frames(lambda i: np.zeros((400, 600, 3), np.uint8), 2, 10**6)
    assert (pictures.width, pictures.height) == (300, 200)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((9, 12), np.uint8),
        ((9, 12, 1), np.uint8),
        ((1, 9, 12), np.uint8),
        ((3, 9, 12), np.float32),
        ((9, 12, 4), np.uint8),
    ],
)
def test_layouts_of_pictures(shape, dtype):
    value = 0.5 if dtype == np.float32 else 127
    rgb = as_rgb(np.full(shape, value, dtype))
    assert (rgb.shape, rgb.dtype, int(rgb[0, 0, 0])) == ((9, 12, 3), np.uint8, 127)


def test_what_is_no_picture_is_refused():
    with pytest.raises(ValueError, match=r"^a frame must have 1, 3 or 4 channels, got shape \[5, 6, 7\]\.$"):
        as_rgb(np.zeros((5, 6, 7)))


@pytest.mark.parametrize("more", [0, 1])
def test_given_frames(more):
    td = TensorDict({"next": {"done": torch.zeros(4, 1, dtype=torch.bool)}}, [4])
    frames = player_model(td, frames=list(pixels(4 + more).numpy())).frames
    assert frames.extra.tolist() == [3]
    assert int(decoded(frames.pictures, 4)[0, 0, 0]) == 10 * (3 + more)


def test_given_frames_of_a_batch():
    td = TensorDict({"next": {"done": torch.zeros(2, 4, 1, dtype=torch.bool)}}, [2, 4])
    given = torch.stack([pixels(4), pixels(4, 10)])
    frames = player_model(td, frames=given, envs=[1]).frames
    assert int(decoded(frames.pictures, 0)[0, 0, 0]) == 100


@pytest.mark.parametrize("count", [3, 6])
def test_given_frames_must_fit(count):
    td = TensorDict({"next": {"done": torch.zeros(4, 1, dtype=torch.bool)}}, [4])
    with pytest.raises(
        ValueError,
        match=rf"^frames must hold one picture a step, \[4, \.\.\.\] or one more at the end, got shape \[{count}, ",
    ):
        player_model(td, frames=pixels(count))


def test_without_frames_it_says_how_to_get_them(cartpole):
    frames = player_model(cartpole).frames
    assert (frames.kind, frames.note) == ("none", NO_FRAMES)


def test_an_env_without_a_drawing_is_not_run(cartpole):
    class Env:
        def __getattr__(self, name):
            if name in ("step", "reset", "render"):
                raise AssertionError("the env must not be touched")
            raise AttributeError(name)

    assert player_model(cartpole, Env()).frames.note.startswith(
        "No frames: there is no drawing for Env, and the env is"
    )


def test_the_state_is_drawn(cartpole):
    model = player_model(cartpole, "CartPole-v1")
    scene = model.frames.scene
    ends = [e.stop - 1 for e in model.episodes]
    assert model.frames.extra.tolist() == ends
    assert len(scene) == 120 + len(ends)
    cart = [part.name for part in scene.parts].index("cart")
    x = cartpole["observation"][:, 0].numpy()
    middle, units = np.polyfit(x, scene.poses[:120, cart, 0], 1)[::-1]
    last = cartpole["next", "observation"][ends, 0].numpy()
    np.testing.assert_allclose(scene.poses[120:, cart, 0], middle + units * last, atol=0.01)
    assert [s.label for s in model.strips[2:6]] == ["x", "x_dot", "theta", "theta_dot"]


def test_parts_that_act_are_known(cartpole):
    frames = player_model(cartpole, "CartPole-v1").frames
    assert frames.acting
    names = {frames.scene.parts[i].name for i in frames.acting}
    assert not names & {"cart", "pole", "axle"}
    assert player_model(cartpole.exclude("action"), "CartPole-v1").frames.acting == ()


def test_a_drawing_that_does_not_fit_says_why(tiny):
    note = player_model(tiny(done=[0, 0], observation=[[0.0], [1.0]]), "CartPole-v1").frames.note
    assert note.startswith("No frames: CartPole is drawn from observations of shape [N, 4]")
    note = player_model(tiny(done=[0, 0]), "CartPole-v1").frames.note
    assert note == 'No frames: the drawing needs "observation", which the rollout does not have.'


#: An id of every environment with a drawing; those with a "/" in their name need JAX, and share the drawing of another.
IDS = {
    "Acrobot": "Acrobot-v1", "Blackjack": "Blackjack-v1", "CartPole": "CartPole-v1", "CliffWalking": "CliffWalking-v1",
    "CliffWalkingSlippery": "CliffWalkingSlippery-v1", "FrozenLake": "FrozenLake-v1",
    "FrozenLake8x8": "FrozenLake8x8-v1", "MountainCar": "MountainCar-v0",
    "MountainCarContinuous": "MountainCarContinuous-v0", "Pendulum": "Pendulum-v1", "Taxi": "Taxi-v4",
}  # fmt: skip


def test_every_drawing_is_tried():
    # The example of register_scene adds "MyCartPole". What VMAS simulates is drawn in tests/widgets/scenes.
    gymnasiums = {name for name in scene_names() if "/" not in name and not name.startswith("mo-")}
    assert gymnasiums - {"MyCartPole", "vmas"} == set(IDS)


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("name", IDS.values())
def test_every_environment_with_a_drawing_is_drawn(name, categorical):
    env = GymEnv(name, categorical_action_encoding=categorical)
    env.set_seed(0)
    player = RolloutPlayer(env.rollout(10, break_when_any_done=False), env)
    assert repr(player).splitlines()[2].split(maxsplit=1) == ["frames", "drawn from the state"]
    frames = player.model.frames
    assert len(frames.scene) == 10 + len(frames.extra)
    assert np.isfinite(frames.scene.poses).all(-1).any(-1).all()
    assert frames.acting or name == "Acrobot-v1", "the actions are drawn"


@pytest.mark.parametrize("categorical", [False, True])
def test_blackjack_is_drawn_as_gymnasium_plays_it(categorical):
    env = GymEnv("Blackjack-v1", categorical_action_encoding=categorical)
    env.set_seed(3)
    td = env.rollout(12, break_when_any_done=False)
    model = player_model(td, env)

    def said(row):
        total, card, ace = (int(row[k] if categorical else row[k].argmax()) for k in "012")
        faces = ("A", *map(str, range(2, 11)))
        return f"player has {total}{' with a usable ace' if ace else ''}, dealer shows {faces[card - 1]}"

    scene, extra = model.frames.scene, model.frames.extra
    assert [scene.caption_at(t).partition(";")[0] for t in range(12)] == [said(td["observation"][t]) for t in range(12)]
    assert [scene.caption_at(12 + i) for i in range(len(extra))] == [said(td["next", "observation"][t]) for t in extra]
    assert [strip.label for strip in model.strips] == [
        "reward", "return so far", "player's sum", "dealer's card", "usable ace", "action",
    ]  # fmt: skip
    assert model.strips[2].data.ravel().tolist() == [int(said(row).split()[2].rstrip(",")) for row in td["observation"]]


def test_a_tuple_that_does_not_fit_says_why(tiny):
    td = tiny(done=[0, 0])
    td["observation"] = TensorDict({"0": torch.tensor([4, 5]), "1": torch.tensor([1, 1])}, [2])
    note = player_model(td, "CartPole-v1").frames.note
    assert note.startswith("No frames: CartPole is drawn from observations of shape [N, 4]")
    assert player_model(td, "Blackjack-v1").frames.kind == "none"


@pytest.mark.parametrize(("name", "size"), [("FrozenLake-v1", "4x4"), ("FrozenLake8x8-v1", "8x8")])
@pytest.mark.parametrize("categorical", [False, True])
def test_a_map_that_is_assumed_is_said(name, size, categorical):
    env = GymEnv(name, categorical_action_encoding=categorical)
    td = env.rollout(5)
    note = f"The default {size} map is assumed; pass the env itself to draw its own map."
    player = RolloutPlayer(td, name)
    assert player.model.frames.note == note
    assert repr(player).splitlines()[2].split(maxsplit=1) == ["frames", f"drawn from the state. {note}"]
    assert note in player.to_svg() and note in str(player._head)
    assert RolloutPlayer(td, env).model.frames.note == ""


def test_the_map_of_the_env_is_not_assumed():
    env = GymEnv("FrozenLake-v1", desc=["SFFF", "FFFF", "FFFF", "HFFG"], is_slippery=False)
    td = env.rollout(5)
    own, assumed = player_model(td, env).frames, player_model(td, "FrozenLake-v1").frames
    assert (own.note, assumed.note != "") == ("", True)
    assert own.scene.background != assumed.scene.background


def test_our_env_is_drawn():
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    td = env.rollout(60, break_when_any_done=False)
    model = player_model(td, env)
    assert model.frames.kind == "scene" and model.frames.acting
    assert model.strips[-1].kind == "band"
    assert {e.end for e in model.episodes} <= {"terminated", "open"} and len(model.episodes) > 1
