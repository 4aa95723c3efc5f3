"""Random specs and values for the laws, and what compares them."""

from __future__ import annotations

import numpy as np
import torch
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
)

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


def masked(draw, spec):
    """Half of the time, give the spec a mask that leaves each choice something."""
    if draw(st.booleans()):
        return spec
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    hot = spec.to_one_hot_spec()
    counts = hot.nvec.flatten().tolist() if isinstance(hot, MultiOneHot) else [hot.n]
    flat = torch.rand((hot.shape[:-1].numel(), sum(counts)), generator=generator) < 0.5
    begin = 0
    for count in counts:
        sure = torch.randint(begin, begin + count, (len(flat), 1), generator=generator)
        flat.scatter_(-1, sure, True)
        begin += count
    spec.update_mask(flat.reshape(hot.shape))
    return spec


@st.composite
def categoricals(draw):
    if draw(st.integers(0, 4)) == 0:
        return masked(draw, Categorical(draw(st.integers(1, 2)), shape=draw(shapes), dtype=torch.bool))
    n, start = draw(st.integers(1, 6)), draw(st.integers(0, 5))
    return masked(draw, Categorical(n, shape=draw(shapes), dtype=draw(st.sampled_from(INTS)), start=start))


@st.composite
def one_hots(draw):
    n = draw(st.integers(1, 6))
    dtype = draw(st.sampled_from((torch.bool, torch.float32, torch.int64, torch.uint8)))
    return masked(draw, OneHot(n, shape=(*draw(leads), n), dtype=dtype, start=draw(st.integers(-3, 3))))


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
    return masked(draw, MultiCategorical(nvec, shape=(*draw(leads), *nvec.shape), dtype=dtype, start=start))


@st.composite
def multi_one_hots(draw):
    nvec = np.array(draw(nvecs))
    dtype = draw(st.sampled_from((torch.bool, torch.float32, torch.int64)))
    start = np.arange(nvec.size).reshape(nvec.shape)
    return masked(draw, MultiOneHot(nvec, shape=(*draw(leads), int(nvec.sum())), dtype=dtype, start=start))


unboundeds = st.builds(Unbounded, shapes, dtype=st.sampled_from((*FLOATS, *INTS, torch.bool)))
binaries = st.builds(
    lambda shape, dtype: Binary(shape=shape, dtype=dtype),
    shapes,
    st.sampled_from((torch.int8, torch.bool, torch.float32, torch.int64)),
)
choices = st.one_of(categoricals(), one_hots(), multi_categoricals(), multi_one_hots())
leaves = st.one_of(bounded_floats(), bounded_ints(), unboundeds, choices, binaries)


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
