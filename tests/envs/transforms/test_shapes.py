"""Flatten, unsqueeze, squeeze and permute: values, specs, inverses, and missing dimensions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import Bounded, OneHot
from rlnb.envs import (
    FlattenObservation,
    GridWorldEnv,
    GymEnv,
    PermuteTransform,
    SqueezeTransform,
    TransformedEnv,
    UnsqueezeTransform,
    check_env_specs,
)
from tests.envs.transforms.cases import Numbers
from tests.envs.transforms.cases_images import Pictures


def shaped(transform, shape, batch=()):
    """The shape that a value has afterwards."""
    return tuple(transform(TensorDict({"x": torch.zeros(*batch, *shape)}, batch))["x"].shape)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize(
    ("make", "before", "after"),
    [
        (lambda: FlattenObservation(-2, -1, "x"), (3, 4, 5), (3, 20)),
        (lambda: FlattenObservation(-3, -2, "x"), (3, 4, 5), (12, 5)),
        (lambda: FlattenObservation(0, 1, "x", allow_positive_dim=True), (3, 4, 5), (12, 5)),
        (lambda: FlattenObservation(0, -1, "x", allow_positive_dim=True), (3, 4, 5), (60,)),
        (lambda: UnsqueezeTransform(-1, in_keys="x"), (3, 4), (3, 4, 1)),
        (lambda: UnsqueezeTransform(-3, in_keys="x"), (3, 4), (1, 3, 4)),
        (lambda: UnsqueezeTransform(1, in_keys="x", allow_positive_dim=True), (3, 4), (3, 1, 4)),
        (lambda: SqueezeTransform(-2, in_keys="x"), (3, 1, 4), (3, 4)),
        (lambda: SqueezeTransform(0, in_keys="x", allow_positive_dim=True), (1, 4), (4,)),
        (lambda: PermuteTransform([-1, -3, -2], "x"), (3, 4, 5), (5, 3, 4)),
        (lambda: PermuteTransform([-1, -2], "x"), (3, 4, 5), (3, 5, 4)),
    ],
)
def test_shapes(make, before, after, batch):
    assert shaped(make(), before, batch) == (*batch, *after)


@given(data=st.data(), n=st.integers(1, 4))
def test_a_permutation_and_its_inverse(data, n):
    dims = data.draw(st.permutations(range(-n, 0)))
    value = torch.arange(2 * 2 * 3 * 4 * 5).reshape(2, 2, 3, 4, 5)
    td = TensorDict({"x": value}, [2])
    permute = PermuteTransform(dims, "x", in_keys_inv="x")
    out = permute(td.copy())
    expected = value.permute(*range(5 - n), *(5 + dim for dim in dims))
    assert torch.equal(out["x"], expected)
    assert torch.equal(permute.inv(out)["x"], value)


def test_inverses_of_actions():
    base = Numbers((2,))
    env = TransformedEnv(base, UnsqueezeTransform(-2, in_keys_inv="action", out_keys_inv="push"))
    spec = env.full_action_spec["push"]
    assert isinstance(spec, Bounded) and spec.shape == (2, 1, 1) and spec.high.flatten().tolist() == [1, 1]
    check_env_specs(env)
    squeezed = TransformedEnv(Numbers((2,)), SqueezeTransform(-1, in_keys_inv="action"))
    assert squeezed.action_spec.shape == (2,)
    check_env_specs(squeezed)
    td = squeezed.reset().set("action", torch.tensor([0.5, -0.25], dtype=torch.float64))
    assert squeezed.transform.inv(td)["action"].tolist() == [[0.5], [-0.25]]


def test_a_choice_stays_a_choice():
    env = TransformedEnv(GridWorldEnv(["S.", ".G"]), UnsqueezeTransform(-1, in_keys="observation"))
    spec = env.observation_spec["observation"]
    assert spec.shape[-1] == 1
    check_env_specs(env)
    base = GymEnv("CartPole-v1")
    assert isinstance(base.action_spec, OneHot)
    with pytest.raises(ValueError) as error:
        TransformedEnv(base, UnsqueezeTransform(-1, in_keys_inv="action"))
    assert str(error.value) == (
        "UnsqueezeTransform would change the shape of an input of the env that is a OneHot of shape (2,): its last "
        "dimension is the encoding of one choice. Fix: leave it out of in_keys_inv, or use an env with "
        "categorical_action_encoding=True."
    )


def test_images_are_what_is_flattened_by_default():
    env = TransformedEnv(Pictures((2,)), FlattenObservation(-3, -1))
    assert env.observation_spec["pixels"].shape == (2, 360)
    image = torch.arange(360).reshape(12, 10, 3)
    out = FlattenObservation(-3, -1)(TensorDict({"pixels": image}))["pixels"]
    assert out.tolist() == list(range(360))


COUNT = (
    "counted from the front, where batch and time dimensions come and go. Fix: count from the end; -1 is the last "
    "dimension, or allow_positive_dim=True to count after the batch."
)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: FlattenObservation(0, -1), f"FlattenObservation got first_dim=0, {COUNT}"),
        (lambda: FlattenObservation(-2, 1), f"FlattenObservation got last_dim=1, {COUNT}"),
        (
            lambda: FlattenObservation(-1, -2),
            "FlattenObservation merges the dimensions from first_dim to last_dim, and first_dim=-1 comes after "
            "last_dim=-2. Fix: FlattenObservation(-2, -1).",
        ),
        (lambda: UnsqueezeTransform(0, in_keys="x"), f"UnsqueezeTransform got dim=0, {COUNT}"),
        (lambda: SqueezeTransform(1, in_keys="x"), f"SqueezeTransform got dim=1, {COUNT}"),
        (
            lambda: SqueezeTransform(-1),
            "SqueezeTransform has neither in_keys nor in_keys_inv, so it would change nothing. Fix: "
            "SqueezeTransform(..., in_keys=['observation']).",
        ),
        (
            lambda: PermuteTransform([-1, -3], "x"),
            "PermuteTransform takes the last dimensions, negative and each once, in their new order, and got [-1, -3]. "
            "Fix: [-1, -3, -2] puts the last of three dimensions first.",
        ),
        (
            lambda: shaped(PermuteTransform([-1, -3, -2], "x"), (4, 5), (2,)),
            "PermuteTransform permutes the last 3 dimensions, and the value has shape (2, 4, 5), whose first 1 "
            "are batch dimensions. Fix: fewer dims, or other in_keys.",
        ),
        (
            lambda: shaped(SqueezeTransform(-2, in_keys="x"), (4,), (1,)),
            "SqueezeTransform got dimension -2, and the value has shape (1, 4), whose first 1 are batch "
            "dimensions. Fix: a dimension from -1 to -1, or other in_keys.",
        ),
    ],
    ids=range(9),
)
def test_what_is_refused(make, text):
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == text
