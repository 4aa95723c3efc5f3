"""Images: layout, scale, gray, size, crop, compared with torchvision; and errors for data that is not an image."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from torch.nn import functional

from rlnb.data import Bounded, Unbounded
from rlnb.envs import (
    CatFrames,
    CenterCrop,
    Compose,
    GrayScale,
    GymEnv,
    ObservationTransform,
    Resize,
    SerialEnv,
    ToTensorImage,
    TransformedEnv,
    check_env_specs,
)
from rlnb.envs.transforms.images import ShrinkGray
from tests.envs.transforms.cases_images import Pictures
from tests.examples import at_most


def apply(transform, value, key="pixels"):
    return transform(TensorDict({key: value}))[key]


# The defaults -------------------------------------------------------------------------------------------------------


class AddOne(ObservationTransform):
    """Adds one."""

    def _apply_transform(self, value):
        return value + 1


@pytest.mark.parametrize("keys", [["observation"], ["pixels"], ["observation", "pixels"]])
def test_observations_have_two_usual_names(keys):
    td = AddOne()(TensorDict({**{key: torch.zeros(2) for key in keys}, "state": torch.zeros(2)}))
    assert all(td[key].tolist() == [1, 1] for key in keys) and td["state"].tolist() == [0, 0]
    with pytest.raises(KeyError, match="no key 'observation' in the data that AddOne reads, which has 'state'"):
        AddOne()(TensorDict({"state": torch.zeros(2)}))


# ToTensorImage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_integers_are_scaled_and_channels_come_first(dtype, lead):
    image = torch.randint(0, 256, (*lead, 7, 5, 3)).to(dtype)
    out = apply(ToTensorImage(), image)
    assert out.shape == (*lead, 3, 7, 5) and out.dtype == torch.float32
    assert torch.equal(out, image.movedim(-1, -3).float() / 255)


@pytest.mark.parametrize(
    ("from_int", "dtype", "given", "expected"),
    [
        (None, torch.float32, torch.float64, 200.0),
        (None, torch.float64, torch.uint8, 200 / 255),
        (False, torch.float32, torch.uint8, 200.0),
        (False, torch.uint8, torch.uint8, 200),
        (True, torch.float32, torch.float32, 200 / 255),
    ],
)
def test_scaling_to_one_can_be_switched_on_and_off(from_int, dtype, given, expected):
    out = apply(ToTensorImage(from_int, dtype=dtype), torch.full((5, 5, 3), 200, dtype=given))
    assert out.dtype == dtype and torch.equal(out, torch.full((3, 5, 5), expected, dtype=dtype))


def test_unsqueeze_and_shape_tolerant():
    image = torch.zeros(6, 5, 3, dtype=torch.uint8)
    assert apply(ToTensorImage(unsqueeze=True), image).shape == (1, 3, 6, 5)
    tolerant = ToTensorImage(shape_tolerant=True)
    assert apply(tolerant, image).shape == (3, 6, 5)
    first = torch.full((3, 6, 5), 255, dtype=torch.uint8)
    assert torch.equal(apply(tolerant, first), torch.ones(3, 6, 5))
    with pytest.raises(ValueError) as error:
        apply(ToTensorImage(), first)
    assert str(error.value) == (
        "ToTensorImage takes images with the channels last, (..., H, W, C), and got shape (3, 6, 5) of dtype "
        "torch.uint8: the channels are already first. Fix: leave it out, or shape_tolerant=True, which keeps the "
        "layout of such images."
    )


def test_integers_cannot_hold_scaled_values():
    with pytest.raises(TypeError) as error:
        ToTensorImage(from_int=True, dtype=torch.uint8)
    assert str(error.value) == (
        "ToTensorImage scales integers to between 0 and 1, which torch.uint8 cannot hold. Fix: leave dtype out for "
        "floats, or from_int=False, which does not scale."
    )
    with pytest.raises(TypeError, match=r"which torch\.int64 cannot hold"):
        apply(ToTensorImage(dtype=torch.int64), torch.zeros(5, 5, 3, dtype=torch.uint8))


# GrayScale ----------------------------------------------------------------------------------------------------------


def test_gray_is_as_bright_as_the_eye_finds_it():
    image = torch.rand(2, 3, 4, 5)
    gray = apply(GrayScale(), image)
    expected = 0.2989 * image[:, 0] + 0.587 * image[:, 1] + 0.114 * image[:, 2]
    assert gray.shape == (2, 1, 4, 5)
    torch.testing.assert_close(gray[:, 0], expected)
    whole = torch.randint(0, 256, (3, 4, 5), dtype=torch.uint8)
    assert torch.equal(apply(GrayScale(), whole), apply(GrayScale(), whole.float()).to(torch.uint8))


def test_gray_wants_three_channels_first():
    with pytest.raises(ValueError) as error:
        apply(GrayScale(), torch.zeros(40, 60, 3, dtype=torch.uint8))
    assert str(error.value) == (
        "GrayScale takes images with the channels before rows and columns, (..., C, H, W), and got shape (40, 60, 3) "
        "of dtype torch.uint8: the channels are last, as envs return them. Fix: put ToTensorImage() before it, as in "
        "Compose(ToTensorImage(), GrayScale(...))."
    )
    with pytest.raises(ValueError) as error:
        apply(GrayScale(), torch.zeros(1, 6, 6))
    assert str(error.value) == (
        "GrayScale takes RGB images, (..., 3, H, W), and got shape (1, 6, 6) of dtype "
        "torch.float32, which has 1 channels. Fix: put it right after ToTensorImage(), before transforms that "
        "change the channels (such as CatFrames), and only once."
    )
    with pytest.raises(ValueError) as error:
        apply(GrayScale(), torch.zeros(6, 6))
    assert str(error.value) == (
        "GrayScale takes images of shape (..., C, H, W) and got shape (6, 6) of dtype torch.float32. Fix: "
        "in_keys=[...] names the entries that are images; add a missing channel dimension with "
        "UnsqueezeTransform(dim=-3, in_keys=[...])."
    )


# Resize and CenterCrop ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest", "nearest-exact"])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_resize_gives_each_image_what_it_gives_it_alone(mode, lead):
    images = torch.rand(*lead, 3, 40, 30)
    out = apply(Resize(12, 14, mode), images)
    assert out.shape == (*lead, 3, 12, 14)
    smooth = {"antialias": True} if mode in ("bilinear", "bicubic") else {}
    one = functional.interpolate(images.reshape(-1, 3, 40, 30), size=(12, 14), mode=mode, **smooth)
    torch.testing.assert_close(out.reshape(-1, 3, 12, 14), one)


def test_what_becomes_smaller_is_smoothed():
    lines = torch.zeros(1, 40, 40)
    lines[:, :, 7] = 1  # thin enough to get lost between the pixels that nearest looks at
    assert apply(Resize(8, interpolation="nearest"), lines).sum() == 0
    torch.testing.assert_close(apply(Resize(8), lines).mean(), lines.mean(), rtol=1e-2, atol=0)


def test_resize_rounds_integers_and_leaves_what_fits_alone():
    assert Resize(5).w == Resize(5).h == 5
    image = torch.randint(0, 256, (3, 20, 21), dtype=torch.uint8)
    expected = functional.interpolate(image[None].float(), size=(5, 6), mode="bicubic", antialias=True)[0]
    assert torch.equal(apply(Resize(5, 6, "bicubic"), image), expected.clamp(0, 255).round().to(torch.uint8))
    assert apply(Resize(20, 21), image) is image


@given(rows=st.integers(1, 12), columns=st.integers(1, 12), w=st.integers(1, 14), h=st.integers(1, 14))
def test_a_crop_is_the_middle_with_a_border_where_there_is_nothing(rows, columns, w, h):
    image = torch.arange(1, rows * columns + 1).float().reshape(1, rows, columns)
    out = CenterCrop(w, h)._apply_transform(image)
    assert out.shape == (1, w, h)
    kept = out[out != 0]
    assert len(kept) == min(rows, w) * min(columns, h)
    middle = image[:, (rows - 1) // 2 : rows // 2 + 1, (columns - 1) // 2 : columns // 2 + 1]
    assert any(value in kept for value in middle.flatten())
    left = image.shape[-1] - h
    if w == rows and left > 0:
        assert abs(2 * int(out[0, 0, 0] - 1) - left) <= 1


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Resize(0), "Resize takes w as a positive integer of pixels and got 0."),
        (lambda: Resize(3, 2.5), "Resize takes h as a positive integer of pixels and got 2.5."),
        (lambda: CenterCrop(-1), "CenterCrop takes w as a positive integer of pixels and got -1."),
        (
            lambda: Resize(3, interpolation="cubic"),
            "Resize has no interpolation 'cubic'. Legal: 'bilinear', 'bicubic', 'nearest', 'nearest-exact'.",
        ),
    ],
)
def test_sizes_that_are_none(make, text):
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == text


@pytest.mark.parametrize("transform", [Resize(5), CenterCrop(5)], ids=repr)
def test_images_of_envs_go_through_to_tensor_image_first(transform):
    with pytest.raises(ValueError, match=r"the channels are last, as envs return them. Fix: put ToTensorImage\(\)"):
        TransformedEnv(Pictures(), transform.clone())


# In an env ----------------------------------------------------------------------------------------------------------


def test_bounds_follow_the_image():
    env = TransformedEnv(Pictures((2,)), Compose(ToTensorImage(), GrayScale(), Resize(5, 7)))
    spec = env.observation_spec["pixels"]
    assert isinstance(spec, Bounded) and spec.shape == (2, 1, 5, 7) and spec.dtype == torch.float32
    torch.testing.assert_close(spec.high, torch.full((2, 1, 5, 7), 0.9999), rtol=1e-5, atol=0)
    white = apply(Compose(*(t.clone() for t in env.transform)), torch.full((2, 12, 10, 3), 255, dtype=torch.uint8))
    assert spec.is_in(white), "rounding stays within the bounds"
    cubic = TransformedEnv(Pictures(), Compose(ToTensorImage(), Resize(5, 7, "bicubic")))
    assert isinstance(cubic.observation_spec["pixels"], Unbounded)


def chain():
    return Compose(ToTensorImage(), GrayScale(), Resize(84), CatFrames(4, dim=-3))


def test_the_pixel_chain_of_a_gym_env():
    env = TransformedEnv(GymEnv("CartPole-v1", from_pixels=True, pixels_only=True), chain())
    check_env_specs(env, seed=0)
    env.set_seed(0)
    rollout = env.rollout(4)
    assert rollout["pixels"].shape == (4, 4, 84, 84) and rollout["pixels"].dtype == torch.float32
    base = GymEnv("CartPole-v1", from_pixels=True, pixels_only=True)
    base.set_seed(0)
    td, frames = base.reset(), []
    for step in rollout.unbind(0):
        frames.append(apply(Compose(ToTensorImage(), GrayScale(), Resize(84)), td["pixels"]))
        td = base._step_mdp(base.step(td.set("action", step["action"])))
    torch.testing.assert_close(rollout["pixels"][3], torch.cat(frames), rtol=0, atol=1e-6)


FUSED = [
    lambda: [ToTensorImage(), GrayScale()],
    lambda: [ToTensorImage(), GrayScale(), Resize(5, 7)],
    lambda: [ToTensorImage(), GrayScale(), Resize(20, 6)],
    lambda: [ToTensorImage(dtype=torch.float64), GrayScale(), Resize(5, 7)],
    lambda: [ToTensorImage(unsqueeze=True), GrayScale(), Resize(5, 7)],
    lambda: [ToTensorImage(False), GrayScale(), Resize(5, 7)],
    lambda: [ToTensorImage(shape_tolerant=True), GrayScale(), Resize(5, 7, "nearest")],
    lambda: [ToTensorImage(), GrayScale(out_keys=["gray"]), Resize(5, 7, in_keys=["gray"])],
]


@pytest.mark.parametrize("make", FUSED)
@pytest.mark.parametrize("batch_size", [(), (3,)], ids=str)
def test_an_env_gets_what_the_transforms_make_one_by_one(make, batch_size):
    env = TransformedEnv(Pictures(batch_size), Compose(*make()))
    env.set_seed(0)
    torch.manual_seed(0)
    found = env.rollout(4, break_when_any_done=False)
    base = Pictures(batch_size)
    base.set_seed(0)
    torch.manual_seed(0)
    plain = base.rollout(4, break_when_any_done=False)
    one_by_one = Compose(*make())
    expected = one_by_one(plain)
    for key in one_by_one[-1].out_keys:
        assert found[key].dtype == expected[key].dtype
        torch.testing.assert_close(found[key], expected[key], rtol=0, atol=1e-6 if found[key].max() <= 1 else 1e-3)
        assert env.observation_spec[key].is_in(found[..., 0][key])


def test_an_image_of_one_column():
    """Torch's own interpolation repeats the first row in results of one column."""
    for columns in (1, 4):
        image = torch.tensor([0.0, 1.0]).reshape(1, 2, 1).expand(1, 2, columns)
        found = Resize(3, 1)(TensorDict({"pixels": image}))["pixels"].flatten()
        torch.testing.assert_close(found, torch.tensor([0.0, 0.5, 1.0]))


@at_most(25)
@given(
    size=st.tuples(st.integers(1, 150), st.integers(1, 700)),
    target=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    seed=st.integers(0, 99),
)
def test_the_short_way_gives_what_the_long_way_gives(size, target, seed):
    """Frames of all sizes, also of those that are worked on in several strips."""
    frame = torch.randint(0, 256, (*size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    plain = Compose(ToTensorImage(shape_tolerant=True), GrayScale(), Resize(*target))
    short = ShrinkGray(size, target)
    torch.testing.assert_close(short(frame), apply(plain, frame), rtol=0, atol=1e-6)
    assert torch.equal(short(frame), short(frame)), "its memory is used again"


def test_a_transform_that_goes_leaves_its_neighbours_as_they_were():
    env = TransformedEnv(Pictures(), Compose(ToTensorImage(), GrayScale(), Resize(5)))
    env.reset()
    env.transform.pop(1)
    assert env.observation_spec["pixels"].shape == env.reset()["pixels"].shape == (3, 5, 5)
    env.transform.insert(1, GrayScale())
    env.transform.insert(2, CenterCrop(4))
    check_env_specs(env)
    assert env.transform[1].parent.reset()["pixels"].shape == (3, 12, 10)
    assert env.reset()["pixels"].shape == (1, 5, 5)


def test_white_stays_within_the_bounds():
    class White(Pictures):
        def _observe(self):
            return {**super()._observe(), "pixels": torch.full((12, 10, 3), 255, dtype=torch.uint8)}

    for size in range(1, 16):
        env = TransformedEnv(White(), Compose(ToTensorImage(), GrayScale(), Resize(size)))
        check_env_specs(env)


def test_the_pixel_chain_in_and_around_a_batch():
    inside = SerialEnv(2, lambda: TransformedEnv(Pictures(), chain()))
    around = TransformedEnv(SerialEnv(2, Pictures), chain())
    rollouts = []
    for env in (inside, around):
        check_env_specs(env)
        env.set_seed(3)
        torch.manual_seed(0)
        rollouts.append(env.rollout(15, break_when_any_done=False))
        env.close()
    assert torch.equal(rollouts[0]["pixels"], rollouts[1]["pixels"])
    assert rollouts[0]["next", "done"].sum() > 1


@pytest.mark.parametrize("size", [(40, 60), (30, 45), (84, 84), (500, 700)])
def test_bounds_that_are_the_same_in_every_pixel_stay_one_interval(size):
    spec = Resize(*size)._apply_to_spec(Bounded(-1.0, 1.0, shape=(1, 400, 600)))
    assert spec.shape == (1, *size) and len(spec.low.unique()) == len(spec.high.unique()) == 1
    for value in (-torch.ones(1, 400, 600), torch.ones(1, 400, 600)):
        assert spec.is_in(apply(Resize(*size), value))
    uneven = torch.arange(16.0).reshape(1, 4, 4)
    spec = Resize(2)._apply_to_spec(Bounded(-uneven, uneven, shape=(1, 4, 4)))
    assert torch.equal(spec.high, apply(Resize(2), uneven))
