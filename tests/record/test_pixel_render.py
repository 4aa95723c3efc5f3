"""PixelRenderTransform: one env, batches from outside and from inside, and invalid uses."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch

from rlnb.envs import (
    CartPoleEnv,
    Compose,
    EnvCreator,
    GymEnv,
    ParallelEnv,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
)
from rlnb.record import CSVLogger, PixelRenderTransform, VideoRecorder, read_video
from tests.record.counting import Counting


def cartpole():
    return GymEnv("CartPole-v1", render_mode="rgb_array")


def small(image):
    return image[..., ::10, ::10, :]


def rendering():
    return cartpole().append_transform(PixelRenderTransform(preproc=small))


@pytest.mark.parametrize("by_rows", [True, False])
def test_the_images_are_those_of_from_pixels(by_rows):
    env, other = cartpole().append_transform(PixelRenderTransform()), GymEnv("CartPole-v1", from_pixels=True)
    assert env.observation_spec["pixels"] == other.observation_spec["pixels"] and env._fills_rows
    env.set_seed(0), other.set_seed(0)
    callback = None if by_rows else lambda step: None
    rollout = env.rollout(30, break_when_any_done=False, callback=callback)
    again = other.rollout(30, actions=rollout["action"], break_when_any_done=False)
    assert rollout["next", "done"].any()
    for key in ("pixels", ("next", "pixels")):
        assert torch.equal(rollout[key], again[key])


@pytest.mark.parametrize("make", [SerialEnv, ParallelEnv])
def test_around_a_batch_and_inside_of_it_the_images_are_the_same(make):
    inside = make(2, EnvCreator(rendering))
    outside = make(2, EnvCreator(cartpole)).append_transform(PixelRenderTransform(preproc=small))
    try:
        rollouts = []
        for env in (inside, outside):
            assert env.observation_spec["pixels"].shape == (2, 40, 60, 3)
            env.set_seed(0)
            actions = rollouts[0]["action"].movedim(1, 0) if rollouts else None
            rollouts.append(env.rollout(30, actions=actions, break_when_any_done=False))
        first, second = rollouts
        assert first["next", "done"].any()
        for key in ("pixels", ("next", "pixels")):
            assert torch.equal(first[key], second[key])
        assert not torch.equal(first["pixels"][0], first["pixels"][1])
        for env in (inside, outside):
            check_env_specs(env)
    finally:
        inside.close(), outside.close()
    assert inside.is_closed and outside.is_closed


@pytest.mark.parametrize("inside", [True, False])
def test_the_example_of_the_documentation(tmp_path, inside, missing):
    try:
        import av  # noqa: F401
    except ImportError:
        missing("av", "pip install 'rlnb[video]'")
    logger = CSVLogger("dummy", tmp_path, video_format="mp4")
    env = ParallelEnv(3, EnvCreator(rendering if inside else cartpole))
    env.start()
    if not inside:
        env = env.append_transform(PixelRenderTransform())
    env = env.append_transform(VideoRecorder(logger=logger, tag="pixels_record"))
    env.rollout(3)
    check_env_specs(env)
    env.rollout(10)
    env.transform.dump()
    env.close()
    assert read_video(logger.folder / "videos/pixels_record_0.mp4").shape[1:] == (
        (3, 80, 120) if inside else (3, 800, 1200)
    )


def test_options_and_other_methods():
    class Other(Counting):
        def picture(self, factor=1):
            return self.render(factor)

    env = TransformedEnv(Other(), PixelRenderTransform(["image"], render_method="picture", factor=3))
    rollout = env.rollout(3)
    assert torch.equal(rollout["image"], rollout["pixels"] * 3)


def test_an_env_of_a_batch_renders_itself():
    env = TransformedEnv(Counting((3,)), PixelRenderTransform("image"))
    check_env_specs(env)
    rollout = env.rollout(6, break_when_any_done=False)
    assert torch.equal(rollout["next", "image"], rollout["next", "pixels"])
    assert torch.equal(rollout["image"], rollout["pixels"]), "also after a reset of some envs"


def test_the_data_may_be_passed():
    class Stateless(Counting):
        def render(self, data):
            return data["pixels"].numpy() // 2

    env = TransformedEnv(Stateless(), PixelRenderTransform("image", pass_tensordict=True))
    check_env_specs(env)
    rollout = env.rollout(3)
    assert torch.equal(rollout["image"], rollout["pixels"] // 2)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_non_tensor_images_may_change_their_shape(batch):
    env = TransformedEnv(SerialEnv(2, cartpole) if batch else cartpole(), PixelRenderTransform(as_non_tensor=True))
    check_env_specs(env)
    rollout = env.rollout(3)
    images = rollout[0, 1]["pixels"] if batch else rollout[1]["pixels"]
    assert isinstance(images, np.ndarray) and images.shape == (400, 600, 3)
    height = itertools.count(10)
    chain = PixelRenderTransform(preproc=lambda image: image[: next(height)], as_non_tensor=True)
    rollout = TransformedEnv(cartpole(), chain).rollout(3)
    first = len(rollout[0]["pixels"])
    assert [len(step["next", "pixels"]) for step in rollout.unbind(0)] == [first + 1, first + 2, first + 3]


def test_text_is_non_tensor_data_by_itself():
    env = GymEnv("CliffWalking-v1", render_mode="ansi").append_transform(PixelRenderTransform("text"))
    check_env_specs(env)
    assert "x" in env.rollout(2)[0]["text"]


def test_an_env_that_runs_is_not_reset_when_it_is_added():
    env = cartpole()
    env.set_seed(0)
    data = env.reset()
    env = env.append_transform(PixelRenderTransform(preproc=small))
    state = torch.tensor(env.unwrapped.state, dtype=torch.float32)
    assert torch.equal(data["observation"], state)


def test_a_later_transform_looks_at_it_without_rendering_again(monkeypatch):
    env = TransformedEnv(cartpole(), Compose(PixelRenderTransform(preproc=small), StepCounter()))
    calls = []
    monkeypatch.setattr(env.base_env, "render", lambda: calls.append(1))
    assert env.transform[1].parent.observation_spec["pixels"].shape == (40, 60, 3)
    assert calls == []


def test_an_image_of_another_shape_is_refused():
    for callback in (None, lambda step: None):
        sizes = iter([10, 10, 10, 12])
        env = TransformedEnv(cartpole(), PixelRenderTransform(preproc=lambda image, s=sizes: image[: next(s)]))
        text = (
            "PixelRenderTransform writes images of one shape, [10, 600, 3], and render gave one of [12, 600, 3]. "
            "Fix: a preproc that scales them to one size, or as_non_tensor=True."
        )
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            env.rollout(5, callback=callback)


class Blank(Counting):
    def render(self):
        return None


def uneven():
    frames = iter(range(4, 90))
    env = SerialEnv(2, Counting)
    env._attribute = lambda name: lambda: [np.zeros((next(frames), 8, 3), np.uint8) for _ in range(2)]
    return env


REFUSED = [
    (
        lambda: PixelRenderTransform(["a", "b"]),
        ValueError,
        "PixelRenderTransform writes one entry, got out_keys=['a', 'b']. Fix: out_keys=['pixels'].",
    ),
    (
        lambda: GymEnv("CartPole-v1").append_transform(PixelRenderTransform()),
        RuntimeError,
        "CartPoleEnv was made without a render mode, so it renders nothing. "
        "Fix: GymEnv('CartPole-v1', render_mode='rgb_array').",
    ),
    (
        lambda: TransformedEnv(CartPoleEnv(), PixelRenderTransform()),
        AttributeError,
        "CartPoleEnv has no render method, so there are no frames of it. Fix: render an env of Gymnasium, "
        'GymEnv("CartPole-v1", render_mode="rgb_array").',
    ),
    (
        lambda: TransformedEnv(Blank(), PixelRenderTransform("image")),
        RuntimeError,
        "render() of Blank returned None, so there is no image. Fix: make the env with render_mode='rgb_array'.",
    ),
    (
        lambda: TransformedEnv(Counting(), PixelRenderTransform("image", preproc=str, as_non_tensor=False)),
        TypeError,
        "PixelRenderTransform(as_non_tensor=False) takes an image of numbers, and render gave a str. "
        "Fix: preproc=numpy.asarray, or as_non_tensor=True.",
    ),
    (
        lambda: TransformedEnv(uneven(), PixelRenderTransform("image")),
        ValueError,
        "PixelRenderTransform stacks the images of a batch, and these have different shapes: [[6, 8, 3], [7, 8, 3]]. "
        "Fix: put it into each env, with a preproc that returns one size.",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_what_is_refused(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_an_entry_of_the_env_is_not_overwritten():
    with pytest.raises(ValueError, match="PixelRenderTransform writes 'pixels'"):
        TransformedEnv(Counting(), PixelRenderTransform())
    with pytest.raises(NotImplementedError, match="PixelRenderTransform renders its env"):
        PixelRenderTransform()(Counting().rollout(2))
