"""Laws of shapes and copies: an operation on a spec corresponds to the same operation on its values."""

from __future__ import annotations

import pickle

import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import Composite
from tests.data.specs.generators import anything, leads, leaf_and_value, leaves, same


@given(anything, leads)
def test_expanding_and_indexing_are_inverse(spec, lead):
    big = spec.expand(*lead, *spec.shape)
    assert big.shape == torch.Size((*lead, *spec.shape))
    assert big[(0,) * len(lead)] == spec
    assert big.is_in(big.rand())
    assert big.is_in(spec.rand(lead))


@given(anything, st.integers(1, 3))
def test_stacking_equals_expanding(spec, count):
    stacked = torch.stack([spec] * count)
    assert stacked == spec.expand(count, *spec.shape)
    assert stacked == torch.stack([spec.clone() for _ in range(count)], 0)
    assert stacked.is_in(torch.stack([spec.rand() for _ in range(count)]))


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


def reshapings(spec):
    """Shape operations that the spec allows, each a function of a spec or of a value of exactly its shape."""
    count = spec.ndim - spec._event_dims
    lead, event = spec.shape[:count], spec.shape[count:]
    found = [
        lambda x: x.reshape(lead.numel(), *event),
        lambda x: x.reshape(1, *lead, 1, *event),
        lambda x: x.reshape((*reversed(lead), *event)),
        lambda x: x.view(lead.numel(), 1, *event),
        lambda x: x.unsqueeze(0).expand(2, *spec.shape),
        lambda x: torch.stack([x, x, x], count),
        lambda x: torch.unsqueeze(x, count),
        lambda x: torch.squeeze(x.unsqueeze(0), 0),
    ]
    for dim in range(count):
        found += [
            lambda x, dim=dim: x.flatten(0, dim),
            lambda x, dim=dim: x.unflatten(dim, (1, -1)),
            lambda x, dim=dim: x.unbind(dim)[-1],
            lambda x, dim=dim: torch.index_select(x, dim, torch.tensor([0, 0])),
            lambda x, dim=dim: x[(*[slice(None)] * dim, torch.arange(lead[dim]) >= 0)],
        ]
    return found


@given(leaf_and_value(), st.data())
def test_a_value_is_in_the_spec_exactly_when_it_is_in_the_reshaped_one(case, data):
    spec, value = case
    value = value[(0,) * (value.ndim - spec.ndim)]
    change = data.draw(st.sampled_from(reshapings(spec)))
    new, moved = change(spec), change(value)
    assert new.shape == moved.shape
    assert new.is_in(moved) == spec.is_in(value) or moved.numel() < value.numel()
    assert not spec.is_in(value) or new.is_in(moved)
    assert new.is_in(new.rand((2,)))
    if moved.numel() >= value.numel():
        assert same(new.project(moved), change(spec.project(value)))


@given(leaves, st.integers(1, 3), st.data())
def test_reshaping_there_and_back_changes_nothing(spec, rows, data):
    count = spec.ndim - spec._event_dims
    big = spec.expand(rows, 2, *spec.shape)
    assert big.flatten(0, 1).unflatten(0, (rows, 2)) == big
    assert big.reshape(-1, *spec.shape[count:]).reshape(big.shape) == big
    dim = data.draw(st.integers(0, count))
    parts = big.unbind(dim)
    assert len(parts) == big.shape[dim]
    assert big.unbind(0)[0] == spec.expand(2, *spec.shape)
    assert torch.stack([spec] * rows, dim).unbind(dim) == (spec,) * rows


@given(leaves, leaves)
def test_equal_leaves_have_equal_hashes(first, second):
    copy = pickle.loads(pickle.dumps(first))
    assert hash(copy) == hash(first)
    assert len({first, copy, first.clone(), first.expand(1, *first.shape)[0]}) == 1
    assert first != second or hash(first) == hash(second)
    assert {first: 1, second: 2}[second] == 2


def test_equal_composites_are_two_keys():
    assert len({Composite(), Composite()}) == 2
