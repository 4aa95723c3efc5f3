"""Laws of Composites and of lazy stacks, over generated ones."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import (
    Bounded,
    Categorical,
    Composite,
    OneHot,
    Stacked,
    StackedComposite,
    Unbounded,
    check_no_exclusive_keys,
    consolidate_spec,
    contains_lazy_spec,
    make_composite_from_td,
)
from tests.data.specs.generators import composites, leads, leaves, same


@st.composite
def members(draw, count=None):
    """Draw Composites of one shape that share some of their keys."""
    lead = draw(leads)
    count = draw(st.integers(1, 3)) if count is None else count
    found = []
    for _ in range(count):
        spec = draw(composites(1))
        flat = spec[(0,) * spec.ndim]
        found.append(flat.expand(*lead, *flat.shape))
    return found


@st.composite
def composite_stacks(draw):
    specs = draw(members())
    return StackedComposite(*specs, dim=draw(st.integers(0, specs[0].ndim)))


@st.composite
def leaf_stacks(draw):
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    make = draw(
        st.sampled_from(
            [
                lambda n: Bounded(-n - 1, n + 1, (2, n)),
                lambda n: Unbounded((2, n), dtype=torch.int32),
                lambda n: OneHot(n + 1, (2, n + 1)),
                lambda n: Categorical(n + 1, (2,)),
            ]
        )
    )
    specs = [make(size) for size in sizes]
    return Stacked(*specs, dim=draw(st.integers(0, specs[0].ndim - specs[0]._event_dims)))


stacks = st.one_of(composite_stacks(), leaf_stacks())


# ---------------------------------------------------------------------------------------------------------- composites


@given(composites(), leads)
def test_projecting_twice_is_projecting_once(spec, lead):
    once = spec.project(spec.one(lead))
    assert spec.is_in(once)
    assert spec.project(once) is once


@given(composites(), leaves, st.sampled_from(["a", "new", ("a", "new"), ("new", "deep", "er")]))
def test_what_was_set_is_there_and_what_was_deleted_is_not(spec, leaf, key):
    before = spec.clone()
    part = leaf.expand(*spec.shape, *leaf.shape)
    try:
        assert spec.set(key, part) is spec
    except ValueError:
        # A nested Composite may name more batch dims than the leaf has.
        assert spec == before
        return
    assert spec[key] is part and key in spec and spec.get(key) is part
    assert key in spec.keys(True, True)
    assert spec.is_in(spec.rand())
    del spec[key]
    assert key not in spec and spec.get(key) is None
    with pytest.raises(KeyError):
        spec.pop(key)


@given(composites())
def test_keys_and_items_and_values_agree(spec):
    for flags in ((), (True,), (True, True), (False, True)):
        keys = spec.keys(*flags)
        assert len(set(keys)) == len(keys)
        assert [key for key, _ in spec.items(*flags)] == keys
        assert all(spec[key] is value for key, value in zip(keys, spec.values(*flags), strict=True))
    assert set(spec.keys(True, True)) <= set(spec.keys(True))


@given(composites(), st.data())
def test_selected_and_excluded_keys_make_up_the_whole(spec, data):
    leaves = spec.keys(True, True)
    chosen = [key for key in leaves if data.draw(st.booleans())]
    assert spec.select(*chosen).keys(True, True) == chosen
    assert spec.exclude(*chosen).keys(True, True) == [key for key in leaves if key not in chosen]
    copy = spec.clone()
    moved = copy.separates(*chosen)
    assert (moved is None) == (not chosen)
    assert moved is None or set(moved.keys(True, True)) == set(chosen)
    assert copy.keys(True, True) == [key for key in leaves if key not in chosen]
    assert spec.keys(True, True) == leaves


@given(composites(), st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple))
def test_reshaping_moves_rows_and_nothing_else(spec, lead):
    big = spec.expand(*lead, *spec.shape)
    flat = big.reshape(-1, *spec.shape)
    count = torch.Size(lead).numel()
    assert flat == spec.expand(count, *spec.shape)
    assert flat.unflatten(0, lead) == big == flat.view(*lead, *spec.shape)
    assert flat.is_in(big.rand().reshape(-1, *spec.shape))
    assert len(flat.unbind(0)) == count and all(row == spec for row in flat.unbind(0))


@given(composites(), leads)
def test_the_spec_of_data_contains_it(spec, lead):
    data = spec.rand(lead)
    found = make_composite_from_td(data, unsqueeze_null_shapes=False)
    assert found.is_in(data) and found.violations(data) == []
    assert found.shape == data.batch_size
    assert set(found.keys(True, True)) == {key for key in spec.keys(True, True) if spec[key] is not None}
    variable = make_composite_from_td(data, unsqueeze_null_shapes=False, dynamic_shape=True)
    assert variable.is_in(data)


# --------------------------------------------------------------------------------------------------------- lazy stacks


@given(stacks, leads)
def test_draws_of_a_stack_are_in_it_and_each_part_in_its_member(spec, lead):
    value = spec.rand(lead)
    assert spec.is_in(value)
    assert spec.violations(value) == []
    assert spec.project(value) is value
    parts = spec._parts(value, len(lead) + spec.stack_dim)
    assert all(member.is_in(part) for member, part in zip(spec.specs, parts, strict=True))
    fixed = spec.project(spec.one(lead))
    assert spec.is_in(fixed) and spec.project(fixed) is fixed


@given(stacks)
def test_a_stack_is_its_members(spec):
    at = spec.stack_dim
    assert spec.shape[at] == len(spec.specs)
    assert spec.unbind(at) == spec.specs
    for i, member in enumerate(spec.specs):
        index = (slice(None),) * at + (i,)
        assert spec[index] is member
        assert spec.shape[:at] + spec.shape[at + 1 :] == torch.Size(
            [a if a == b else -1 for a, b in zip(member.shape, spec.shape[:at] + spec.shape[at + 1 :], strict=True)]
        )
    again = torch.stack(list(spec.specs), at)
    assert again.shape == spec.shape
    assert again == spec or not contains_lazy_spec(again) or all(m == spec.specs[0] for m in spec.specs)


@given(stacks, leads)
def test_expanding_and_indexing_a_stack_are_inverse(spec, lead):
    big = spec.expand(*lead, *spec.shape)
    assert big.shape == torch.Size((*lead, *spec.shape))
    assert big[(0,) * len(lead)] == spec
    assert big.is_in(big.rand()) and big.is_in(spec.rand(lead))


@given(stacks, st.data())
def test_unsqueezing_and_squeezing_a_stack_are_inverse(spec, data):
    dim = data.draw(st.integers(0, spec.ndim - spec._event_dims))
    wider = spec.unsqueeze(dim)
    assert wider.shape == torch.Size((*spec.shape[:dim], 1, *spec.shape[dim:]))
    assert wider.squeeze(dim) == spec
    assert wider.is_in(wider.rand((2,)))


@given(stacks)
def test_copies_of_a_stack_are_equal(spec):
    for copy in (spec.clone(), pickle.loads(pickle.dumps(spec))):
        assert copy == spec and repr(copy) == repr(spec)
        torch.manual_seed(0)
        first = spec.rand((2,))
        torch.manual_seed(0)
        second = copy.rand((2,))
        parts = (spec._parts(value, 1 + spec.stack_dim) for value in (first, second))
        assert all(same(one, other) for one, other in zip(*parts, strict=True))
    assert contains_lazy_spec(spec)


@given(composite_stacks())
def test_consolidating_leaves_no_exclusive_keys(spec):
    before = spec.clone()
    whole = consolidate_spec(spec)
    assert spec == before
    assert check_no_exclusive_keys(whole)
    assert check_no_exclusive_keys(spec) == (whole == spec)
    assert whole.shape == spec.shape
    names = {name for member in spec.specs for name in member.keys()}  # noqa: SIM118 - iterating is by rows
    assert set(whole.keys()) == names
    assert all(whole.is_in(whole.rand(lead)) for lead in ((), (2,)))


@given(composite_stacks(), st.sampled_from(["new", ("new", "deep"), "a"]))
def test_writing_to_a_stack_writes_to_all_members_or_none(spec, key):
    part = Unbounded((*spec.shape, 3))
    spec.set(key, part)
    assert spec[key] == part
    assert all(member[key] == Unbounded((*member.shape, 3)) for member in spec.specs)
    assert spec.is_in(spec.rand())
    del spec[key]
    assert key not in spec and all(key not in member for member in spec.specs)


@given(composite_stacks(), leads)
def test_a_stack_inside_a_composite(spec, lead):
    outer = Composite(s=spec, shape=spec.shape)
    value = outer.rand(lead)
    assert outer.is_in(value) and outer.violations(value, leading=len(lead)) == []
    assert outer.project(value) is value
    assert [key[1:] if len(key) > 2 else key[1] for key in outer.keys(True, True)] == spec.keys(True, True)
