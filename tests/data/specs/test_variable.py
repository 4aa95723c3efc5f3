"""Dims of variable size: -1 in the shape of a spec."""

from __future__ import annotations

import pickle
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import Binary, Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, Unbounded
from rlnb.data.specs.variable import map_size


def row_bounds(shape):
    low = torch.tensor([[[0.0], [-1.0]], [[5.0], [-9.0]]])
    return Bounded(low, low + 2, shape=shape)


# How to make a spec of two rows of any size; the -1 is replaced to get one of a known size.
MAKERS = {
    "Unbounded": lambda k: Unbounded((2, k, 3)),
    "Bounded": lambda k: Bounded(-1, [1, 2, 3], shape=(2, k, 3)),
    "Bounded by row": lambda k: row_bounds((2, 2, k)),
    "BoundedDiscrete": lambda k: Bounded(0, 9, shape=(2, k), dtype=torch.int64),
    "Categorical": lambda k: Categorical(5, shape=(2, k)),
    "Categorical with a mask": lambda k: Categorical(3, shape=(2, k), mask=torch.tensor([True, False, True])),
    "Categorical with rows of a mask": lambda k: Categorical(
        3, shape=(2, k), mask=torch.tensor([[[True, False, True]], [[False, True, False]]])
    ),
    "OneHot": lambda k: OneHot(4, shape=(2, k, 4), start=1),
    "MultiCategorical": lambda k: MultiCategorical([2, 3], shape=(2, k, 2)),
    "MultiCategorical with a mask": lambda k: MultiCategorical(
        [2, 3], shape=(2, k, 2), mask=torch.tensor([True, False, True, True, False])
    ),
    "MultiOneHot": lambda k: MultiOneHot([2, 3], shape=(2, k, 5)),
    "Binary": lambda k: Binary(shape=(2, k)),
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@makers
def test_values_of_any_size_fit(make):
    spec = make(-1)
    at = list(spec.shape).index(-1)
    for size in (0, 1, 2, 7):
        fixed = make(max(size, 1))
        for lead in ((), (4,)):
            value = fixed.rand(lead).narrow(at - spec.ndim, 0, size)
            assert spec.is_in(value)
            assert spec.violations(value, leading=len(lead)) == []
            assert spec.project(value) is value
            assert torch.equal(spec.encode(spec.to_numpy(value)), value)
    wrong = make(3).rand().unsqueeze(0)
    assert not spec.is_in(wrong.squeeze(0)[0])
    assert not spec.is_in(torch.cat([wrong, wrong], 1 if at else 2))


@makers
def test_blanks_and_draws_have_size_one_there(make):
    spec, one = make(-1), make(1)
    for name in ("rand", "zero", "one"):
        value = getattr(spec, name)((3,))
        assert value.shape == torch.Size((3, *one.shape))
    torch.manual_seed(0)
    together = spec.rand((6,))
    torch.manual_seed(0)
    assert torch.equal(together, torch.stack([spec.rand() for _ in range(6)]))
    assert spec.is_in(together)


@makers
def test_copies_are_equal_and_differ_from_a_known_size(make):
    spec = make(-1)
    for copy in (spec.clone(), pickle.loads(pickle.dumps(spec)), spec.to("cpu"), make(-1)):
        assert copy == spec and repr(copy) == repr(spec) and hash(copy) == hash(spec)
    assert spec != make(1) and spec != make(2)
    assert "-1" in repr(spec)
    rows = isinstance(spec, (Categorical, OneHot, MultiCategorical, MultiOneHot))
    assert spec.cardinality() == (make(1).cardinality() if rows else float("inf"))


OPERATIONS = {
    "[0]": lambda x: x[0],
    "[:, ...]": lambda x: x[:, ...],
    "[1:]": lambda x: x[1:],
    "[None]": lambda x: x[None],
    "[[1, 0]]": lambda x: x[[1, 0]],
    "[mask]": lambda x: x[torch.tensor([True, False])],
    "unsqueeze": lambda x: x.unsqueeze(0),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
    "unbind": lambda x: x.unbind(0)[1],
    "stack": lambda x: torch.stack([x, x], 1),
    "unflatten": lambda x: x.unflatten(0, (1, 2)),
    "index_select": lambda x: torch.index_select(x, 0, torch.tensor([1])),
}


@given(st.sampled_from(list(MAKERS)), st.sampled_from(list(OPERATIONS)), st.integers(1, 4))
def test_shape_operations_do_the_same_to_values_of_any_size(kind, operation, size):
    change = OPERATIONS[operation]
    spec, fixed = MAKERS[kind](-1), MAKERS[kind](size)
    new = change(spec)
    value = fixed.rand((1,))[0]
    assert new.is_in(change(value))
    assert new.is_in(change(fixed).rand((2,)))
    assert new.shape == torch.Size(-1 if a == -1 else b for a, b in zip(new.shape, change(fixed).shape, strict=True))
    assert -1 in new.shape


@makers
def test_expanding_keeps_the_variable_dim(make):
    spec = make(-1)
    big = spec.expand(5, *spec.shape)
    assert big.shape == torch.Size((5, *spec.shape))
    assert big[3] == spec
    assert big.is_in(make(4).rand((5,)))
    with pytest.raises(ValueError, match=r"does not expand to .*, where only dims of size 1 may change\.$"):
        spec.expand([6 if length == -1 else length for length in spec.shape])


def test_merging_with_a_variable_dim_gives_one_where_the_domain_is_the_same():
    assert Unbounded((3, -1, 2)).flatten(0, 1).shape == torch.Size([-1, 2])
    assert Bounded(0, 1, (3, -1)).reshape(-1).is_in(torch.zeros(6))
    assert Unbounded((3, -1)).unflatten(1, (2, -1)).shape == torch.Size([3, 2, -1])
    assert OneHot(4, (2, -1, 4), mask=torch.tensor([True, False, True, True])).flatten(0, 1).mask.shape == (1, 4)
    assert Bounded([[0.0], [1.0]], 2, shape=(2, -1))[1].low.tolist() == [1]
    with pytest.raises(ValueError, match=r"variable size of \[2, any\] cannot be merged .* differs along them\.$"):
        Bounded([[0.0], [1.0]], 2, shape=(2, -1)).flatten()
    assert Bounded([[0.0], [1.0]], 2, shape=(2, -1)).unflatten(1, (-1, 1)).low.tolist() == [[[0]], [[1]]]
    assert map_size(lambda tensor: tensor[:, 0], torch.Size([3, -1, 2])) == torch.Size([3, 2])


TEXTS = [
    (
        Unbounded((3, -1, 2)),
        torch.zeros(4, 7, 2),
        "value: expected shape [3, any, 2], got [4, 7, 2]. Change the data, or the shape of the spec.",
    ),
    (
        Unbounded((3, -1)),
        torch.zeros(6),
        "value: expected shape [3, any], got [6]. The batch dimensions [3] are missing: give one row for each.",
    ),
    (
        Bounded([[0.0], [1.0]], 3, shape=(2, -1)),
        torch.tensor([[0.0, 0, 0], [1, 2, 0]]),
        "value: 0 at index (1, 2) is "
        "outside [1, 3]. Clip it with spec.project(value), or widen the bounds of the spec.",
    ),
    (
        OneHot(3, (-1, 3)),
        torch.tensor([0, 1]),
        "value: expected shape [any, 3], got [2]. An integer was given where a "
        "one-hot vector of length 3 is expected: spec.encode(value).",
    ),
    (
        Composite(a=Unbounded((2, -1)), shape=(2,)),
        TensorDict({"a": torch.zeros(2)}, [2]),
        "a: expected shape [2, any], got [2]. The batch dimensions [2] are missing: give one row for each.",
    ),
]


@pytest.mark.parametrize(("spec", "value", "text"), TEXTS, ids=range(len(TEXTS)))
def test_an_error_says_any(spec, value, text):
    assert not spec.is_in(value)
    assert text in [str(violation) for violation in spec.violations(value, leading=None if spec.dtype is None else 0)]


def test_a_composite_of_variable_batch_size():
    spec = Composite(a=Bounded(0, 1, (-1, 3)), b=Composite(c=Categorical(4, (-1,)), shape=(-1,)), shape=(-1,))
    assert spec.zero().batch_size == torch.Size([1])
    for size in (1, 5):
        data = TensorDict({"a": torch.rand(size, 3), "b": {"c": torch.zeros(size, dtype=torch.int64)}}, [size])
        data["b"].batch_size = [size]
        assert spec.is_in(data) and spec.violations(data) == []
        assert spec.encode({"a": data["a"], "b": {"c": data["b", "c"]}}).batch_size == data.batch_size
    assert spec[0].shape == torch.Size([]) and spec[0]["a"].shape == torch.Size([3])
    assert spec.unsqueeze(0).shape == torch.Size([1, -1])
    assert spec.expand(2, -1)["b", "c"].shape == torch.Size([2, -1])


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: Unbounded((3, -1)).unbind(1),
            ValueError,
            "UnboundedContinuous.unbind: dim 1 is of variable size: [3, any].",
        ),
        (
            lambda: Unbounded((-1,), dtype=torch.bool).enumerate(),
            ValueError,
            "UnboundedDiscrete has infinitely many values, "
            "and at most 16,777,216 can be listed. Draw some instead: spec.rand((n,)).",
        ),
        (
            lambda: Binary(shape=(-1,)).enumerate(),
            ValueError,
            "Binary has infinitely many values, and at most "
            "16,777,216 can be listed. Draw some instead: spec.rand((n,)).",
        ),
        (
            lambda: (
                MultiCategorical([[2, 3], [4, 5]], shape=(-1, 2, 2)).to_one_hot_spec().shape[0] == -1
                and Unbounded((2, -2))
            ),
            ValueError,
            "a shape has no negative sizes except -1 (a dim of variable size), got (2, -2). Give every dim its size.",
        ),
    ],
)
def test_what_a_variable_dim_cannot_do(call, kind, text):
    with pytest.raises(kind, match="^" + re.escape(text) + "$"):
        call()
