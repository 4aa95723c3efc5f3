"""Laws of conversion: to and from numpy, Gymnasium's spaces, and between the encodings of a choice."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from hypothesis import assume, given
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
)
from tests.data.specs.generators import choices, composites, leads, leaves, nvecs, same, shapes


@given(leaves, leads)
def test_encoding_undoes_to_numpy(spec, lead):
    value = spec.rand(lead)
    assert same(spec.encode(spec.to_numpy(value)), value)


@given(composites().filter(lambda spec: not any(isinstance(s, NonTensor) for s in spec.values(True, True))), leads)
def test_encoding_undoes_to_numpy_in_a_composite(spec, lead):
    keys = [key for key in spec.keys(True, True) if spec[key] is not None]
    if not keys or any(isinstance(s, Composite) and not s.keys() for s in spec.values(True)):
        return
    value = spec.rand(lead)
    assert same(spec.encode(spec.to_numpy(value)), value)


@given(choices, leads)
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
                # Gymnasium fails to draw from a Box that reaches to the largest int64.
                np.full(shape, draw(st.integers(6, min(info.max, 2**63 - 2))), dtype=dtype),
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


@given(gym_spaces(), st.booleans())
def test_a_space_survives_the_way_to_a_spec_and_back(space, categorical):
    spec = spec_from_space(space, categorical=categorical)
    back = space_from_spec(spec)
    assert back == space
    assert back.dtype == space.dtype
    assert spec_from_space(back, categorical=categorical) == spec


@given(gym_spaces(), st.booleans(), st.integers(0, 2**31))
def test_samples_of_a_space_encode_into_its_spec_and_come_back(space, categorical, seed):
    space.seed(seed)
    spec = spec_from_space(space, categorical=categorical)
    sample = space.sample()
    value = spec.encode(sample)
    assert spec.is_in(value)
    assert space.contains(spec.to_numpy(value))
    np.testing.assert_equal(spec.to_numpy(value), sample)


@given(leaves)
def test_what_to_numpy_gives_is_in_the_space_of_the_spec(spec):
    if spec.dtype == torch.bfloat16 or (isinstance(spec, Binary) and spec.dtype.is_floating_point):
        return
    if isinstance(spec, (Bounded, Unbounded)) and spec.dtype == torch.bool:
        return
    assert space_from_spec(spec).contains(spec.to_numpy(spec.rand()))


@given(choices, leads)
def test_indexing_with_a_value_takes_the_numbers_that_it_chooses(spec, lead):
    value = spec.rand(lead)
    hot = spec.to_one_hot(value) != 0
    scores = torch.rand(hot.shape)
    taken = spec.index(value, scores)
    numbers = spec.to_categorical(value) if spec.to_categorical_spec() != spec else value
    assert taken.shape == numbers.shape
    assert torch.equal(taken.flatten(), scores[hot])
    assert torch.equal(
        spec.index(value, scores[(0,) * len(lead)]).flatten(), scores[(0,) * len(lead)].expand_as(hot)[hot]
    )


def one_row(spec):
    """The spec of one row of a batch of choices."""
    match spec:
        case Categorical():
            rows = spec.ndim
        case MultiCategorical():
            rows = spec._repeated()[0]
        case OneHot() | MultiOneHot() | Binary():
            rows = max(spec.ndim - 1, 0)
        case _:
            rows = 0
    return spec[(0,) * rows] if rows else spec


@given(leaves, st.booleans())
def test_all_values_of_one_row_are_listed_once(spec, use_mask):
    assume(spec.cardinality() <= 3000 and spec.shape.numel() > 0)
    batch, spec = spec, one_row(spec)
    alike = batch == spec.expand(batch.shape)
    assert batch.cardinality() == spec.cardinality()
    if alike:
        every = batch.enumerate(use_mask=use_mask)
        rows = every.reshape(len(every), -1, *spec.shape)
        assert torch.equal(rows, spec.enumerate(use_mask=use_mask).unsqueeze(1).expand_as(rows))
    every = spec.enumerate(use_mask=use_mask)
    assert every.shape == torch.Size((spec.cardinality(use_mask=use_mask), *spec.shape))
    assert every.dtype == spec.dtype
    assert len(every.unique(dim=0)) == len(every)
    free = spec.clone()
    if not use_mask and hasattr(spec, "update_mask"):
        free.update_mask(None)
    assert free.is_in(every)
    drawn = spec.rand((3,))
    assert all((every == row).reshape(len(every), -1).all(-1).any() for row in drawn)
    legal = sum(spec.is_in(row) for row in every)
    assert legal == spec.cardinality(use_mask=True)
