"""Bounds of all kinds: scalars and tensors, infinite sides, the ends of integer dtypes, small floats, casts."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

from rlnb.data import Bounded, BoundedContinuous, BoundedDiscrete, Unbounded

INF = math.inf
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, [1, 2]),
        ([0, 0], torch.tensor([1.0, 2.0])),
        (torch.tensor(0.0), np.array([1, 2], dtype=np.float32)),
        (torch.zeros(1), torch.tensor([1, 2], dtype=torch.float32)),
    ],
)
def test_numbers_lists_arrays_and_tensors_are_bounds(low, high):
    assert Bounded(low, high, dtype=torch.float32) == Bounded([0, 0], [1, 2], shape=(2,))
    assert Bounded(torch.tensor(0.0), torch.tensor(1.0), shape=(3,)) == Bounded(0, 1, (3,))
    with pytest.raises(ValueError, match=r"^Bounded needs a shape: "):
        Bounded(torch.tensor(0.0), torch.tensor(1.0))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("low", "high"), [(0, INF), (-INF, 0), (-INF, INF), (-3, INF), (2, 2), (-0.5, 0.25)])
def test_draws_between_any_bounds_are_finite_and_legal(dtype, low, high):
    torch.manual_seed(0)
    spec = Bounded(low, high, (3,), dtype=dtype)
    value = spec.rand((300,))
    assert value.dtype == dtype
    assert bool(value.isfinite().all())
    assert spec.is_in(value)
    assert value.unique().numel() == 1 if low == high else value.unique().numel() > 30
    if low == -3:
        assert value.double().mean() == pytest.approx(-2, abs=0.15), "exponential away from the bound, of mean 1"


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool])
def test_a_single_value_between_equal_bounds(dtype):
    spec = Bounded(1, 1, (2,), dtype=dtype)
    assert spec.rand((4,)).tolist() == spec.one((4,)).tolist()
    assert spec.is_in(spec.one()) and not spec.is_in(spec.zero())
    assert spec.project(spec.zero()).tolist() == spec.one().tolist()
    assert spec.cardinality() == (INF if dtype.is_floating_point else 1)


@pytest.mark.parametrize("dtype", INTS)
def test_the_ends_of_an_integer_dtype_are_bounds(dtype):
    info = torch.iinfo(dtype)
    torch.manual_seed(0)
    whole = Bounded(info.min, info.max, (2,), dtype=dtype)
    assert type(whole) is BoundedDiscrete
    assert whole.cardinality() == (info.max - info.min + 1) ** 2
    ends = torch.tensor([info.min, info.max], dtype=dtype)
    assert whole.is_in(ends) and whole.project(ends) is ends
    assert whole.project(torch.tensor([-INF, INF])).tolist() == [info.min, info.max]
    assert whole.encode([info.min, info.max]).tolist() == [info.min, info.max]
    drawn = whole.rand((400,)).double()
    middle = (info.max + info.min) / 2
    assert (drawn > middle).double().mean() == pytest.approx(0.5, abs=0.06)
    for low in (info.min, info.max - 1):
        two = Bounded(low, low + 1, (1,), dtype=dtype)
        assert sorted(two.rand((60,)).unique().tolist()) == two.enumerate().flatten().tolist() == [low, low + 1]
        assert not two.is_in(torch.tensor([low + 1 if low < 0 else low - 1], dtype=dtype)) or low == info.min


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_floats_are_checked_drawn_and_converted(dtype):
    for spec in (Bounded(-2, 3, (4,), dtype=dtype), Unbounded(4, dtype=dtype)):
        value = spec.rand((5,))
        assert value.dtype == spec.dtype == dtype
        assert spec.is_in(value) and not spec.is_in(value.float())
        assert spec.project(value.float() * 1000).dtype == dtype
        back = spec.encode(spec.to_numpy(value))
        assert torch.equal(back, value)
        assert spec.to(torch.float32).is_in(torch.from_numpy(spec.to_numpy(value)).float())


def test_casting_a_spec_casts_its_bounds():
    spec = Bounded([-1, 0], [1, 5])
    whole = spec.to(torch.int64)
    assert type(whole) is BoundedDiscrete and whole.high.tolist() == [1, 5]
    assert whole.to(torch.float32) == spec and type(whole.to(torch.float32)) is BoundedContinuous
    assert Bounded(-INF, INF, (1,)).to(torch.int8) == Bounded(-128, 127, (1,), dtype=torch.int8)
    assert Bounded(0, 1e6, (1,)).to(torch.float16).high.item() == INF
    half = Bounded(0.1, 0.5, (1,)).to(torch.bfloat16)
    assert half.is_in(half.rand((50,)))
    assert spec.to(torch.float32) is spec
    with pytest.raises(
        ValueError, match=r"^the bounds of a Bounded of torch.int64 must be whole numbers, got \[0.5\]\.$"
    ):
        Bounded(0.5, 1, (1,)).to(torch.int64)
    with pytest.raises(ValueError, match=r"^the bounds \[-1\] do not fit torch.uint8, which holds 0 to 255\.$"):
        Bounded(-1, 1, (1,), dtype=torch.int64).to(torch.uint8)


IMAGE = torch.zeros(3, 4, 4)
IMAGE[1, 2, 3] = 2


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: Bounded(1, 0, (2,)), "Bounded needs low <= high everywhere, got low=1.0, high=0.0."),
        (lambda: Bounded(IMAGE, 1), "Bounded needs low <= high everywhere, got low=2, high=1 at index (1, 2, 3)."),
        (
            lambda: Bounded(INF, INF, (1,)),
            "no number of torch.float32 lies between the bounds of Bounded, low=inf, high=inf. Use -torch.inf for "
            "a low without a bound, torch.inf for a high without one.",
        ),
        (
            lambda: Bounded(1e6, 1e7, (1,)).to(torch.float16),
            "no number of torch.float16 lies between the bounds of Bounded, low=[inf], high=[inf]. Use -torch.inf for "
            "a low without a bound, torch.inf for a high without one.",
        ),
    ],
)
def test_bounds_with_nothing_between_them_are_refused(build, text):
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        build()


def test_zero_and_minus_zero_are_one_bound():
    assert Bounded(0.0, 1, (2,)) == Bounded(-0.0, 1, (2,))
    assert hash(Bounded(0.0, 1, (2,))) == hash(Bounded(-0.0, 1, (2,)))
    assert hash(Bounded(-INF, INF, (2,))) == hash(Bounded(-INF, INF, (2,)))
