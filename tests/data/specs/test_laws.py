"""Laws that every spec keeps, over generated specs, values and spaces."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

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
    space_from_spec,
    spec_from_space,
    violations,
)

law = settings(deadline=None, max_examples=60)

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)

shapes = st.lists(st.integers(1, 4), max_size=2).map(tuple)
leads = st.lists(st.integers(1, 3), max_size=2).map(tuple)


@st.composite
def bounded_floats(draw):
    shape = draw(shapes)
    dtype = draw(st.sampled_from(FLOATS))
    size = int(np.prod(shape))
    ends = st.one_of(st.floats(-100, 100, width=16), st.sampled_from([-np.inf, np.inf, -3.0e38, 3.0e38]))
    pairs = [sorted((draw(ends), draw(ends))) for _ in range(size if draw(st.booleans()) else 1)]
    low, high = (torch.tensor([pair[i] for pair in pairs], dtype=torch.float64) for i in (0, 1))
    low, high = low.clamp(max=100), high.clamp(min=-100)
    if dtype == torch.float16:
        low, high = low.nan_to_num(0, 60000, -60000).clamp(-60000), high.clamp(max=60000)
    if size == len(pairs):
        low, high = low.reshape(shape), high.reshape(shape)
    return Bounded(low, high, shape=shape, dtype=dtype)


@st.composite
def bounded_ints(draw):
    shape = draw(shapes)
    dtype = draw(st.sampled_from(INTS))
    info = torch.iinfo(dtype)
    size = int(np.prod(shape))
    ends = st.one_of(st.integers(info.min, info.max), st.sampled_from([info.min, info.max]), st.integers(0, 9))
    pairs = [sorted((draw(ends), draw(ends))) for _ in range(size if draw(st.booleans()) else 1)]
    low, high = (torch.tensor([pair[i] for pair in pairs], dtype=dtype) for i in (0, 1))
    if size == len(pairs):
        low, high = low.reshape(shape), high.reshape(shape)
    return Bounded(low, high, shape=shape, dtype=dtype)


@st.composite
def categoricals(draw):
    if draw(st.integers(0, 4)) == 0:
        return Categorical(draw(st.integers(1, 2)), shape=draw(shapes), dtype=torch.bool)
    return Categorical(
        draw(st.integers(1, 6)),
        shape=draw(shapes),
        dtype=draw(st.sampled_from(INTS)),
        start=draw(st.integers(0, 5)),
    )


@st.composite
def one_hots(draw):
    n = draw(st.integers(1, 6))
    dtype = draw(st.sampled_from((torch.bool, torch.float32, torch.int64, torch.uint8)))
    return OneHot(n, shape=(*draw(leads), n), dtype=dtype, start=draw(st.integers(-3, 3)))


nvecs = st.one_of(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.tuples(st.integers(1, 2), st.integers(1, 3)).flatmap(
        lambda rc: st.lists(st.lists(st.integers(1, 4), min_size=rc[1], max_size=rc[1]), min_size=rc[0], max_size=rc[0])
    ),
)


@st.composite
def multi_categoricals(draw):
    nvec = np.array(draw(nvecs))
    start = draw(st.integers(-3, 3)) + np.arange(nvec.size).reshape(nvec.shape)
    dtype = draw(st.sampled_from((torch.int32, torch.int64)))
    return MultiCategorical(nvec, shape=(*draw(leads), *nvec.shape), dtype=dtype, start=start)


@st.composite
def multi_one_hots(draw):
    nvec = np.array(draw(nvecs))
    dtype = draw(st.sampled_from((torch.bool, torch.float32, torch.int64)))
    return MultiOneHot(
        nvec, shape=(*draw(leads), int(nvec.sum())), dtype=dtype, start=np.arange(nvec.size).reshape(nvec.shape)
    )


unboundeds = st.builds(Unbounded, shapes, dtype=st.sampled_from((*FLOATS, *INTS, torch.bool)))
binaries = st.builds(
    lambda shape, dtype: Binary(shape=shape, dtype=dtype),
    shapes,
    st.sampled_from((torch.int8, torch.bool, torch.float32, torch.int64)),
)
leaves = st.one_of(
    bounded_floats(),
    bounded_ints(),
    unboundeds,
    categoricals(),
    one_hots(),
    multi_categoricals(),
    multi_one_hots(),
    binaries,
)


@st.composite
def composites(draw, depth=2):
    lead = draw(leads)
    spec = Composite(shape=lead)
    for name in draw(st.lists(st.sampled_from("abcde"), max_size=4, unique=True)):
        kind = draw(st.integers(0, 5))
        if kind == 0:
            spec.set(name, None)
        elif kind == 1 and depth:
            part = draw(composites(depth - 1))
            spec.set(name, part.expand(*lead, *part.shape))
        elif kind == 2:
            spec.set(name, NonTensor(shape=lead, example_data=name))
        else:
            part = draw(leaves)
            spec.set(name, part.expand(*lead, *part.shape))
    return spec


anything = st.one_of(leaves, composites())


def same(first, second):
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if set(first.keys()) != set(second.keys()) or first.batch_size != second.batch_size:
        return False
    return all(
        same(first.get(key), second.get(key)) if isinstance(first[key], torch.Tensor) else first[key] == second[key]
        for key in first.keys(True, True)
    )


# ---------------------------------------------------------------------------------------------------- drawing


@law
@given(leaves, st.integers(1, 20), st.integers(0, 2**31))
def test_one_draw_of_many_rows_equals_many_draws_of_one_row(spec, rows, seed):
    torch.manual_seed(seed)
    together = spec.rand((rows,))
    torch.manual_seed(seed)
    apart = torch.stack([spec.rand() for _ in range(rows)])
    assert torch.equal(together, apart)


@law
@given(anything, leads)
def test_draws_have_the_shape_and_lie_in_the_spec(spec, lead):
    for value in (spec.rand(lead), spec.sample(lead)):
        assert value.shape == torch.Size((*lead, *spec.shape))
        assert spec.is_in(value)
        assert violations(spec, value, leading=len(lead)) == []
    for blank in (spec.zero(lead), spec.one(lead), spec.zeros(lead), spec.ones(lead)):
        assert blank.shape == torch.Size((*lead, *spec.shape))


@law
@given(leaves)
def test_every_draw_of_a_finite_leaf_is_finite(spec):
    value = spec.rand((50,))
    assert not value.isnan().any()
    if not isinstance(spec, Bounded) or bool(spec.low.isfinite().all() and spec.high.isfinite().all()):
        assert bool(value.isfinite().all())


@pytest.mark.parametrize(
    "spec",
    [Categorical(4), Categorical(3, start=7), OneHot(4), Binary(2), MultiCategorical([3, 4]), MultiOneHot([3, 4])],
    ids=lambda spec: type(spec).__name__,
)
def test_draws_reach_every_choice_about_equally_often(spec):
    torch.manual_seed(0)
    rows, counts = torch.unique(spec.rand((6000,)), dim=0, return_counts=True)
    every = {"Categorical": spec.n if hasattr(spec, "n") else 0, "OneHot": 4, "Binary": 4}.get(type(spec).__name__, 12)
    assert len(rows) == every
    assert counts.min() > 0.8 * 6000 / every


# ---------------------------------------------------------------------------------------------------- checking

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=32), st.integers(-300, 300), st.sampled_from([0, 1, 0.5])
)


@st.composite
def leaf_and_value(draw):
    spec = draw(leaves)
    shape = (*draw(leads), *spec.shape)
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return spec, spec.rand(shape[: len(shape) - spec.ndim])
    raw = torch.tensor([draw(numbers) for _ in range(int(np.prod(shape)))], dtype=torch.float64).reshape(shape)
    dtype = spec.dtype if kind == 1 else draw(st.sampled_from((*FLOATS, *INTS, torch.bool)))
    if not dtype.is_floating_point:
        raw = raw.nan_to_num(0, 100, -100).clamp(-100, 100)
    return spec, raw.to(dtype)


@law
@given(leaf_and_value())
def test_projecting_gives_a_value_of_the_spec_and_leaves_such_values_alone(case):
    spec, value = case
    projected = spec.project(value)
    assert spec.is_in(projected)
    assert (projected is value) == spec.is_in(value)
    if not spec.is_in(value):
        assert not same(projected, value)


@law
@given(leaf_and_value())
def test_a_value_is_in_the_spec_exactly_when_there_is_no_violation(case):
    spec, value = case
    found = violations(spec, value)
    assert spec.is_in(value) == (not found)
    for violation in found:
        assert str(violation).startswith("value: ")
        assert violation.key == ()
        if violation.kind == "domain" and violation.value is not None:
            got = value[violation.index].item()
            assert got == violation.value or np.isnan(got)


@law
@given(composites(), leads, st.randoms(use_true_random=False))
def test_a_damaged_tensordict_is_not_in_the_spec_and_the_violation_names_the_key(spec, lead, random):
    data = spec.rand(lead)
    keys = [key for key in data.keys(True, True) if isinstance(data[key], torch.Tensor)]
    if not keys:
        return
    key = random.choice(keys)
    path = key if isinstance(key, tuple) else (key,)
    damaged = data.clone()
    if random.random() < 0.5:
        del damaged[key]
        kinds = {"missing"}
    else:
        damaged.set(key, torch.zeros((*data[key].shape, 7), dtype=data[key].dtype))
        kinds = {"shape"}
    assert not spec.is_in(damaged)
    found = violations(spec, damaged)
    assert {(v.key, v.kind) for v in found} == {(path, kind) for kind in kinds}
    with pytest.raises(AssertionError, match=r"missing|shape"):
        spec.assert_is_in(damaged)


# -------------------------------------------------------------------------------------------------- converting


@law
@given(leaves, leads)
def test_encoding_undoes_to_numpy(spec, lead):
    value = spec.rand(lead)
    assert same(spec.encode(spec.to_numpy(value)), value)


@law
@given(composites().filter(lambda spec: not any(isinstance(s, NonTensor) for s in spec.values(True, True))), leads)
def test_encoding_undoes_to_numpy_in_a_composite(spec, lead):
    keys = [key for key in spec.keys(True, True) if spec[key] is not None]
    if not keys or any(isinstance(s, Composite) and not s.keys() for s in spec.values(True)):
        return
    value = spec.rand(lead)
    assert same(spec.encode(spec.to_numpy(value)), value)


@law
@given(st.one_of(categoricals(), one_hots(), multi_categoricals(), multi_one_hots()), leads)
def test_one_hot_and_categorical_convert_into_one_another(spec, lead):
    value = spec.rand(lead)
    vectors, integers = spec.to_one_hot_spec(), spec.to_categorical_spec()
    hot, number = spec.to_one_hot(value), spec.to_categorical(value)
    if spec.dtype == vectors.dtype or spec.dtype == torch.int64:
        assert vectors.is_in(hot.to(vectors.dtype))
        assert integers.is_in(number.to(integers.dtype))
    if type(spec) is type(integers):
        back = vectors.to_categorical(hot)
        assert torch.equal(back.reshape(number.shape), number.to(torch.int64))
    else:
        assert torch.equal(integers.to_one_hot(number).reshape(hot.shape), hot != 0)


integers = st.sampled_from((np.int8, np.int32, np.int64))


@st.composite
def gym_spaces(draw, depth=2):
    kind = draw(st.integers(0, 6 if depth else 4))
    if kind == 0:
        shape = draw(shapes)
        dtype = draw(st.sampled_from((np.float32, np.float64, np.uint8, np.int8, np.int32, np.int64)))
        if np.issubdtype(dtype, np.integer):
            info = np.iinfo(dtype)
            low = np.array(draw(st.integers(info.min, 5) if info.min < 0 else st.just(0)))
            return spaces.Box(
                np.full(shape, low, dtype=dtype),
                np.full(shape, draw(st.integers(6, info.max)), dtype=dtype),
                shape,
                dtype=dtype,
            )
        ends = st.sampled_from([(-1.0, 1.0), (-np.inf, np.inf), (0.0, np.inf), (-np.inf, 2.5), (-3e38, 3e38)])
        size = int(np.prod(shape))
        pairs = [draw(ends) for _ in range(size)]
        low, high = (np.array([p[i] for p in pairs], dtype=dtype).reshape(shape) for i in (0, 1))
        return spaces.Box(low, high, shape, dtype=dtype)
    if kind == 1:
        return spaces.Discrete(draw(st.integers(1, 9)), start=draw(st.integers(-4, 4)), dtype=draw(integers))
    if kind in (2, 3):
        nvec = np.array(draw(nvecs))
        start = draw(st.integers(-4, 4)) + np.zeros(nvec.shape, dtype=np.int64)
        return spaces.MultiDiscrete(nvec, start=start, dtype=draw(integers))
    if kind == 4:
        shape = draw(st.one_of(st.integers(1, 5), st.tuples(st.integers(1, 3), st.integers(1, 3))))
        return spaces.MultiBinary(shape)
    parts = draw(st.lists(gym_spaces(depth - 1), min_size=1, max_size=3))
    if kind == 5:
        return spaces.Tuple(parts)
    return spaces.Dict({f"k{i}": part for i, part in enumerate(parts)})


@law
@given(gym_spaces(), st.booleans())
def test_a_space_survives_the_way_to_a_spec_and_back(space, categorical):
    spec = spec_from_space(space, categorical=categorical)
    back = space_from_spec(spec)
    assert back == space
    assert back.dtype == space.dtype
    assert spec_from_space(back, categorical=categorical) == spec


@law
@given(gym_spaces(), st.booleans(), st.integers(0, 2**31))
def test_samples_of_a_space_encode_into_its_spec_and_come_back(space, categorical, seed):
    space.seed(seed)
    spec = spec_from_space(space, categorical=categorical)
    sample = space.sample()
    value = spec.encode(sample)
    assert spec.is_in(value)
    assert space.contains(spec.to_numpy(value))
    np.testing.assert_equal(spec.to_numpy(value), sample)


@law
@given(leaves)
def test_what_to_numpy_gives_is_in_the_space_of_the_spec(spec):
    if spec.dtype == torch.bfloat16 or (isinstance(spec, Binary) and spec.dtype.is_floating_point):
        return
    if isinstance(spec, (Bounded, Unbounded)) and spec.dtype == torch.bool:
        return
    assert space_from_spec(spec).contains(spec.to_numpy(spec.rand()))


# ------------------------------------------------------------------------------------------------------- shapes


@law
@given(anything, leads)
def test_expanding_and_indexing_are_inverse(spec, lead):
    big = spec.expand(*lead, *spec.shape)
    assert big.shape == torch.Size((*lead, *spec.shape))
    assert big[(0,) * len(lead)] == spec
    assert big.is_in(big.rand())
    assert big.is_in(spec.rand(lead))


@law
@given(anything, st.integers(1, 3))
def test_stacking_equals_expanding(spec, count):
    stacked = torch.stack([spec] * count)
    assert stacked == spec.expand(count, *spec.shape)
    assert stacked == torch.stack([spec.clone() for _ in range(count)], 0)
    assert stacked.is_in(torch.stack([spec.rand() for _ in range(count)]))


@law
@given(anything, st.data())
def test_unsqueezing_and_squeezing_are_inverse(spec, data):
    fixed = getattr(type(spec), "_event_dims", 0)
    dim = data.draw(st.integers(0, spec.ndim - fixed))
    wider = spec.unsqueeze(dim)
    assert wider.shape == torch.Size((*spec.shape[:dim], 1, *spec.shape[dim:]))
    assert wider.squeeze(dim) == spec
    assert spec.unsqueeze(dim - spec.ndim - 1) == wider
    assert wider.squeeze().shape == torch.Size(
        [length for i, length in enumerate(spec.shape) if length != 1 or i >= spec.ndim - fixed]
    )


@law
@given(leaves, st.integers(2, 4), st.data())
def test_indexing_a_spec_indexes_its_values(spec, rows, data):
    big = spec.expand(rows, 3, *spec.shape)
    index = data.draw(
        st.sampled_from(
            [
                0,
                -1,
                slice(1, None),
                (slice(None), 2),
                (..., *[slice(None)] * (spec.ndim - spec._event_dims)),
                (None, 0),
                [0, 1],
                torch.tensor([1, 0]),
                (0, slice(0, 2)),
                (),
            ]
        )
    )
    value = big.rand()
    part = value[index]
    assert big[index].shape == part.shape
    assert big[index].is_in(part)


@law
@given(anything)
def test_copies_are_equal_and_pickling_keeps_everything(spec):
    for copy in (spec.clone(), pickle.loads(pickle.dumps(spec))):
        assert copy == spec
        assert repr(copy) == repr(spec)
        torch.manual_seed(0)
        first = spec.rand((2,))
        torch.manual_seed(0)
        assert same(copy.rand((2,)), first)
    assert spec.to("cpu").shape == spec.shape
    assert spec != object()
