"""Methods that every spec has, including counting and conversion between encodings of choices."""

from __future__ import annotations

import inspect
import math
import re

import pytest
import torch
from tensordict import TensorDict

import rlnb.data
from rlnb.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Unbounded,
)

SPECS = [
    Bounded(-1, 1, (2, 3)),
    Bounded(0, 9, (2,), dtype=torch.int64),
    Unbounded((2, 3)),
    Unbounded(2, dtype=torch.uint8),
    Categorical(3, (2,)),
    OneHot(3, (2, 3)),
    MultiCategorical([2, 3], (2, 2)),
    MultiOneHot([2, 3], (2, 5)),
    Binary(3, (2, 3)),
    Composite(a=Bounded(-1, 1, (2, 3)), b=OneHot(3, (2, 3)), shape=(2,)),
]
everyone = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)


@everyone
def test_every_spec_has_the_common_interface(spec):
    assert spec.shape[0] == 2
    assert spec.domain in ("continuous", "discrete", "composite")
    assert spec.device == (None if isinstance(spec, Composite) else torch.device("cpu"))
    assert (spec.space is None) == isinstance(spec, Composite)
    torch.manual_seed(0)
    value = spec.rand()
    assert spec.is_in(value) and spec.contains(value)
    assert spec.project(value) is value
    assert spec.assert_is_in(value) is None and spec.type_check(value) is None
    assert spec.zero((3,)).shape == spec.ones((3,)).shape == torch.Size((3, *spec.shape))
    assert spec.clone() == spec
    assert spec.cpu() == spec.to("cpu") and spec.cpu().device == torch.device("cpu")
    assert spec[1] == spec.unbind(0)[0] == spec.squeeze()[0]
    assert spec.expand(4, *spec.shape)[0] == spec.unsqueeze(0).squeeze(0) == spec
    torch.manual_seed(1)
    drawn = spec.sample((2,))
    torch.manual_seed(1)
    assert bool((spec.rand((2,)) == drawn).all())
    for ignore_device in (True, False):
        assert bool((spec.encode(value, ignore_device=ignore_device) == value).all())


@everyone
def test_torch_functions_take_specs(spec):
    assert torch.stack([spec, spec], 1)[:, 0] == spec
    assert torch.unsqueeze(spec, 0).shape == torch.Size((1, *spec.shape))
    assert torch.squeeze(torch.unsqueeze(spec, 0), 0) == torch.squeeze(spec) == spec
    assert torch.index_select(spec, 0, torch.tensor([1, 1, 0])).shape == torch.Size((3, *spec.shape[1:]))
    with pytest.raises(TypeError, match=r"no implementation found for 'torch\.cat'|Multiple dispatch failed"):
        torch.cat([spec, spec])


def test_a_value_stays_where_it_is_if_the_device_is_ignored():
    there = torch.zeros(2, device="meta")
    assert Unbounded(2).encode(there, check=False, ignore_device=True).device == torch.device("meta")
    assert Unbounded(2, device="meta").encode([0.0, 1.0], check=False).device == torch.device("meta")
    assert Unbounded(2, device="meta").encode(torch.zeros(2), ignore_device=True).device == torch.device("cpu")
    assert OneHot(3, device="meta").encode(1, ignore_device=True).tolist() == [False, True, False]
    both = Composite(a=Unbounded(2, device="meta")).encode({"a": torch.ones(2)}, ignore_device=True)
    assert both["a"].device == torch.device("cpu")


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (Categorical(3), 3),
        (Categorical(3, (2, 2)), 3),
        (Categorical(1, dtype=torch.bool), 1),
        (OneHot(4), 4),
        (OneHot(4, (3, 4)), 4),
        (MultiCategorical([2, 3]), 6),
        (MultiCategorical([2, 3], (2, 2)), 6),
        (MultiOneHot([2, 3], (2, 5)), 6),
        (Binary(4), 16),
        (Binary(3, (2, 3)), 8),
        (Bounded(0, [1, 2], dtype=torch.int8), 6),
        (Bounded(0, 1, ()), math.inf),
        (Unbounded(2, dtype=torch.bool), 4),
        (Unbounded((), dtype=torch.int8), 256),
        (Unbounded(()), math.inf),
        (NonTensor(()), math.inf),
        (Categorical(2, (0,)), 2),
        (Composite(), 1),
        (Composite(a=Categorical(3), b={"c": Binary(2)}, d=None), 12),
        (Composite(a=Categorical(3), b=Unbounded(1)), math.inf),
        (Composite(a=Categorical(3, (2,)), b=Categorical(2, (2,)), shape=(2,)), 6),
    ],
    ids=str,
)
def test_the_number_of_values(spec, count):
    assert spec.cardinality() == count
    if count < math.inf:
        every = spec.enumerate()
        assert every.shape == torch.Size((count, *spec.shape))
        assert spec.is_in(every)


def test_the_order_of_all_values():
    assert Categorical(3, start=5).enumerate().tolist() == [5, 6, 7]
    assert OneHot(2, (1, 2), dtype=torch.int64).enumerate().tolist() == [[[1, 0]], [[0, 1]]]
    assert MultiCategorical([2, 2], start=[0, 4]).enumerate().tolist() == [[0, 4], [0, 5], [1, 4], [1, 5]]
    assert MultiOneHot([1, 2]).enumerate().int().tolist() == [[1, 1, 0], [1, 0, 1]]
    assert Bounded([-1, 0], [0, 0], dtype=torch.int32).enumerate().tolist() == [[-1, 0], [0, 0]]
    assert Unbounded((), dtype=torch.uint8).enumerate().tolist() == list(range(256))
    both = Composite(a=Categorical(2), b=Composite(c=Categorical(3, mask=[True, False, True])))
    every = both.enumerate()
    assert isinstance(every, TensorDict) and every.batch_size == every["b"].batch_size == torch.Size([6])
    assert every["a"].tolist() == [0, 0, 0, 1, 1, 1]
    assert every["b", "c"].tolist() == [0, 1, 2, 0, 1, 2]
    legal = both.enumerate(use_mask=True)
    assert both.is_in(legal) and not both.is_in(every)
    assert legal["a"].tolist() == [0, 0, 1, 1] and legal["b", "c"].tolist() == [0, 2, 0, 2]
    assert both.cardinality(use_mask=True) == 4


@pytest.mark.parametrize(
    ("spec", "many"),
    [
        (Unbounded(1), "UnboundedContinuous has infinitely many values"),
        (Bounded(0, 1, (1,)), "BoundedContinuous has infinitely many values"),
        (MultiCategorical([10] * 9), "MultiCategorical has 1,000,000,000 values"),
        (Bounded(0, 255, (84, 84), dtype=torch.uint8), "BoundedDiscrete has more than 10^15 values"),
    ],
)
def test_too_many_values_are_not_listed(spec, many):
    text = f"{many}, and at most 16,777,216 can be listed. Draw some instead: spec.rand((n,))."
    with pytest.raises(ValueError, match="^" + re.escape(text) + "$"):
        spec.enumerate()


BITS = Binary(2, dtype=torch.int8)


@pytest.mark.parametrize(
    ("spec", "value", "number", "vector"),
    [
        (Categorical(3, start=1), torch.tensor([3, 1]), [3, 1], [[0, 0, 1], [1, 0, 0]]),
        (Categorical(2, dtype=torch.bool), torch.tensor(True), True, [0, 1]),
        (OneHot(3, start=1), torch.tensor([False, False, True]), 3, [0, 0, 1]),
        (MultiCategorical([2, 3]), torch.tensor([1, 2]), [1, 2], [0, 1, 0, 0, 1]),
        (MultiCategorical([2, 3])[1], torch.tensor(2), 2, [0, 0, 1]),
        (MultiCategorical([[1, 2], [3, 1]]), torch.tensor([[0, 1], [2, 0]]), [[0, 1], [2, 0]], [1, 0, 1, 0, 0, 1, 1]),
        (MultiOneHot([2, 2]), torch.tensor([False, True, True, False]), [1, 0], [0, 1, 1, 0]),
        (BITS, torch.tensor([1, 0], dtype=torch.int8), [1, 0], [[0, 1], [1, 0]]),
    ],
)
def test_choices_as_integers_and_as_vectors(spec, value, number, vector):
    assert spec.to_categorical(value).tolist() == number
    assert spec.to_one_hot(value).int().tolist() == vector
    assert spec.to_categorical(value, safe=False).tolist() == number
    assert spec.to_one_hot(value, safe=False).int().tolist() == vector
    assert spec.to_one_hot_spec().shape == torch.Size(
        [*torch.tensor(vector).shape[spec.to_one_hot(value).ndim - spec.to_one_hot_spec().ndim :]]
    )
    assert spec.to_categorical_spec().is_in(spec.to_categorical(value).to(spec.to_categorical_spec().dtype))
    assert spec.to_one_hot_spec().is_in(spec.to_one_hot(value))


@pytest.mark.parametrize("spec", [Categorical(3), MultiCategorical([2, 3]), Binary(2)], ids=lambda s: type(s).__name__)
def test_a_conversion_is_safe_unless_told_otherwise(spec):
    name = type(spec).__name__
    wrong = torch.full(spec.shape, 7, dtype=spec.dtype)
    with pytest.raises(ValueError, match=rf"^{name}\.to_.*: value: 7 .*is outside"):
        spec.to_one_hot(wrong)
    assert not spec.to_one_hot(wrong, safe=False).any()


INDEXING = [
    (
        lambda: Categorical(3).index(torch.tensor(1), torch.zeros(4)),
        ValueError,
        "Categorical.index: expected a tensor with a number for each choice, so 3 along its last dim, got shape [4].",
    ),
    (
        lambda: Categorical(3).index(torch.tensor([1, 2]), torch.zeros(4, 3)),
        ValueError,
        "Categorical.index: the leading dims "
        "[2] of the choices do not fit those of the tensor, [4]. Give both the same batch dimensions.",
    ),
    (
        lambda: OneHot(3).index(torch.tensor([True, True, False]), torch.zeros(3)),
        ValueError,
        "OneHot.index: value: [1, 1, 0] is outside the one-hot vectors of length 3 (one entry is 1, the others are 0). "
        "Make it with spec.encode(i), or take the largest entry: spec.project(value).",
    ),
    (
        lambda: Bounded(0, 1, (2,)).index(0, torch.zeros(2)),
        TypeError,
        "BoundedContinuous.index: its values do not choose anything. "
        "Specs of choices: Categorical, OneHot, MultiCategorical, MultiOneHot.",
    ),
    (
        lambda: OneHot(4, (6, 4)).reshape(24),
        ValueError,
        "OneHot of shape [6, 4] does not reshape to [24]: give a shape with the "
        "same number of entries ending with [4], the encoding.",
    ),
    (
        lambda: Unbounded((2, 3)).view(4, 2),
        ValueError,
        "UnboundedContinuous of shape [2, 3] does not reshape to [4, 2]: give a shape with the same number of entries.",
    ),
    (
        lambda: OneHot(4, (6, 4)).flatten(),
        IndexError,
        "OneHot.flatten: dim -1 is out of range for 2 dims; legal: 0 to 0 (the "
        "last 1 dims hold the encoding and cannot be changed).",
    ),
    (
        lambda: Unbounded((2, 3)).flatten(1, 0),
        ValueError,
        "UnboundedContinuous.flatten: start_dim 1 comes after end_dim 0. Swap them.",
    ),
    (
        lambda: Unbounded((6, 3)).unflatten(0, (2, 4)),
        ValueError,
        "UnboundedContinuous.unflatten: dim 0 of the shape [6, 3] "
        "cannot be split into [2, 4]: the product of the sizes must be the size of the dim.",
    ),
    (
        lambda: Composite(a=Unbounded((6, 3)), shape=(6,)).reshape(4),
        ValueError,
        "Composite of shape [6] does not reshape to [4]: give a shape with the same number of entries.",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), INDEXING, ids=[text[:40] for _, _, text in INDEXING])
def test_errors_name_what_does_not_fit(call, kind, text):
    with pytest.raises(kind, match="^" + re.escape(text) + "$"):
        call()


def test_a_composite_is_reshaped_with_all_of_its_entries():
    spec = Composite(a=Unbounded((6, 3)), b={"c": OneHot(4, (6, 2, 4))}, d=None, shape=(6,))
    for new in (spec.reshape(2, 3), spec.view(2, -1), spec.unflatten(0, (2, 3))):
        assert new.shape == torch.Size([2, 3]) and new["b"].shape[:2] == torch.Size([2, 3])[: new["b"].ndim]
        assert new["a"].shape == torch.Size([2, 3, 3]) and new["b", "c"].shape == torch.Size([2, 3, 2, 4])
        assert new.flatten(0, 1) == spec
        assert new.is_in(new.rand())


@pytest.mark.parametrize("name", sorted(rlnb.data.__all__))
def test_a_public_name_says_what_it_is(name):
    thing = getattr(rlnb.data, name)
    assert inspect.getdoc(thing), name
