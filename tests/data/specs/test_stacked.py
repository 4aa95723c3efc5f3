"""Lazy stacks of specs that differ, and dense stacks of equal ones."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
import torch

from rlnb.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    LazyStackedCompositeSpec,
    LazyStackedTensorSpec,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    Unbounded,
)


def raises(kind, text):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


def walker():
    return Composite(x=Bounded(-1, 1, (3,)), gone=Unbounded(2), n=Composite(p=Unbounded(5), q=Binary(2)))


def flyer():
    return Composite(x=Bounded(-1, 1, (4,)), high=Categorical(3), n=Composite(q=Binary(2)))


@pytest.fixture
def spec():
    return torch.stack([walker(), flyer()])


# ------------------------------------------------------------------------------------------------------- dense stacks


@pytest.mark.parametrize("dim", [0, -1])
def test_equal_specs_stack_densely(dim):
    assert torch.stack([Categorical(3)] * 4, dim) == Categorical(3, shape=(4,))
    assert torch.stack([OneHot(3)] * 2) == OneHot(3, shape=(2, 3))
    stacked = torch.stack([walker(), walker(), walker()], dim)
    assert type(stacked) is Composite
    assert stacked == walker().expand(3)


def test_example_data_alone_does_not_make_a_stack_lazy():
    first, second = (Composite(t=NonTensor((), example_data=text)) for text in "ab")
    stacked = torch.stack([first, second])
    assert type(stacked) is Composite
    assert stacked.rand()["t"] == "a"


def test_an_equal_stack_of_lazy_stacks_keeps_its_members(spec):
    pair = torch.stack([spec, spec.clone()])
    assert type(pair) is StackedComposite
    assert (pair.shape, pair.stack_dim) == (torch.Size([2, 2]), 1)
    assert pair[0] == spec == pair[1]


# -------------------------------------------------------------------------------------------------------- leaf stacks


def test_the_old_names_are_the_new_classes():
    assert LazyStackedTensorSpec is Stacked
    assert LazyStackedCompositeSpec is StackedComposite


@pytest.mark.parametrize(
    ("dim", "shape", "at"), [(0, (2, 5, -1), 0), (1, (5, 2, -1), 1), (-1, (5, -1, 2), 2), (-2, (5, 2, -1), 1)]
)
def test_differing_sizes_show_as_minus_one(dim, shape, at):
    members = [Bounded(-1, 1, (5, 3)), Bounded(-1, 1, (5, 4))]
    spec = torch.stack(members, dim)
    assert isinstance(spec, Stacked)
    assert (spec.shape, spec.stack_dim) == (torch.Size(shape), at)
    assert spec.specs == tuple(members)
    assert (spec.dtype, spec.device, spec.domain) == (torch.float32, torch.device("cpu"), "continuous")
    assert spec.unbind(at) == tuple(members)
    assert spec[(slice(None),) * at + (1,)] is members[1]


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (0,)])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_value_of_differing_sizes_is_a_nested_tensor_of_the_members_values(lead, dim):
    spec = torch.stack([Bounded(-1, 0, (5, 3)), Bounded(2, 3, (5, 4))], dim)
    for value in (spec.rand(lead), spec.zero(lead), spec.one(lead)):
        parts = value.unbind()
        assert value.is_nested
        assert [part.shape for part in parts] == [torch.Size((*lead, 5, 3)), torch.Size((*lead, 5, 4))]
    value = spec.rand(lead)
    assert spec.is_in(value)
    assert spec.violations(value) == []
    assert spec.project(value) is value
    assert spec[(slice(None),) * dim + (1,)].is_in(value.unbind()[1])
    if 0 not in lead:
        assert not spec.is_in(spec.zero(lead))
        assert spec.is_in(spec.project(spec.zero(lead)))


@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_value_of_one_shape_is_a_plain_tensor(lead, dim):
    spec = torch.stack([Bounded(-1, 0, (3,)), Bounded(2, 3, (3,))], dim)
    assert spec.shape == torch.Size([2, 3] if dim == 0 else [3, 2])
    value = spec.rand(lead)
    assert value.shape == torch.Size((*lead, *spec.shape))
    assert spec.is_in(value)
    first, second = value.unbind(len(lead) + dim)
    assert bool((first <= 0).all() and (second >= 2).all())
    swapped = torch.stack([second, first], len(lead) + dim)
    assert not spec.is_in(swapped)
    assert spec.is_in(spec.project(swapped))
    assert not spec.is_in(value[..., :1])


@pytest.mark.parametrize("value", [torch.zeros(2, 3), torch.zeros(3), 5, [0.0], None])
def test_an_invalid_value_of_a_stack_is_rejected_everywhere(value):
    spec = torch.stack([Bounded(-1, 1, (3,)), Bounded(-1, 1, (4,))])
    assert not spec.is_in(value)
    (found,) = spec.violations(value)
    for call in (spec.project, spec.to_numpy):
        with pytest.raises(ValueError, match=re.escape(str(found))):
            call(value)


def test_python_sees_one_value_for_each_member():
    spec = torch.stack([Bounded(-1, 1, (3,)), Bounded(-1, 1, (2,))])
    value = spec.encode([[0, 0.5, 1], [-1, 0]])
    assert [part.tolist() for part in value.unbind()] == [[0, 0.5, 1], [-1, 0]]
    back = spec.to_numpy(value)
    assert isinstance(back, tuple)
    np.testing.assert_equal(back, (np.float32([0, 0.5, 1]), np.float32([-1, 0])))
    hot = torch.stack([OneHot(2), OneHot(3)])
    assert hot.to_numpy(hot.encode([1, 2])) == (1, 2)
    assert hot.encode([[1, 0], [2, 2]]).unbind()[1].tolist() == [[False, False, True]] * 2
    plain = torch.stack([Categorical(3), Categorical(5)])
    assert plain.encode([2, 4]).tolist() == [2, 4]
    assert plain.encode(torch.tensor([2, 4])).tolist() == [2, 4]


def test_counting_and_listing_the_values_of_a_stack():
    spec = torch.stack([Categorical(2), Categorical(3)])
    assert spec.cardinality() == 6
    assert spec.enumerate().tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert torch.stack([Unbounded(2), Unbounded(3)]).cardinality() == float("inf")
    both = torch.stack([Composite(a=Categorical(2)), Composite(b=Categorical(2))])
    assert both.cardinality() == 4
    assert both.is_in(both.enumerate())


def test_shape_operations_reach_the_members():
    spec = torch.stack([Bounded(-1, 1, (1, 3)), Bounded(-1, 1, (1, 4))])
    assert spec.expand(5, 2, 1, -1).shape == torch.Size([5, 2, 1, -1])
    assert spec.expand(5, 2, 6, -1)[0, 1].shape == torch.Size([6, 4])
    assert spec.unsqueeze(0).shape == torch.Size([1, 2, 1, -1])
    assert spec.unsqueeze(-1).shape == torch.Size([2, 1, -1, 1])
    assert spec.squeeze().shape == torch.Size([2, -1])
    assert spec[:, 0].shape == torch.Size([2, -1])
    assert spec[1:] == Bounded(-1, 1, (1, 1, 4))
    assert spec[[1, 0]].specs == (spec[1], spec[0])
    assert spec[torch.tensor([True, True])] == spec == spec[()] == spec[...]
    assert spec[None].stack_dim == 1
    assert spec[..., 0].shape == torch.Size([2, 1])
    assert Stacked(Unbounded(3), dim=0).squeeze(0) == Unbounded(3)
    assert Stacked(Unbounded(3), dim=0).expand(4, 3).shape == torch.Size([4, 3])


def test_copies_of_a_stack(spec):
    leaf = torch.stack([Bounded(-1, 1, (3,)), Bounded(-1, 1, (4,))])
    for each in (spec, leaf):
        assert pickle.loads(pickle.dumps(each)) == each.clone() == each
        assert repr(each.clone()) == repr(each)
        assert each != torch.stack([each[1], each[0]])
    assert torch.stack([Categorical(3), Categorical(4)]).to("meta").device == torch.device("meta")
    assert spec.exclude("x").to("meta")[1]["high"].device == torch.device("meta")
    assert leaf.to(torch.float64).dtype == torch.float64
    assert spec.to(torch.float64)["x"].dtype == torch.float64
    assert len({leaf, leaf.clone()}) == 1


STACK_ERRORS = [
    (lambda: torch.stack([OneHot(3), Categorical(3)]), "torch.stack needs specs of one kind: number 0 is OneHot, "
     "number 1 is Categorical."),
    (lambda: torch.stack([Unbounded(3), walker()]), None),
    (lambda: torch.stack([walker(), Unbounded(3)]), "torch.stack needs specs of one kind: number 0 is Composite, "
     "number 1 is UnboundedContinuous."),
    (lambda: torch.stack([Unbounded(3), Unbounded(3, dtype=torch.float64)]), "torch.stack needs specs of one dtype: "
     "number 0 is torch.float32, number 1 is torch.float64."),
    (lambda: torch.stack([Unbounded(3), Unbounded((3, 1))]), "torch.stack needs specs of one number of dims: number 0 "
     "is 1, number 1 is 2."),
    (lambda: torch.stack([walker(), flyer().expand(2)]), "torch.stack needs Composites of one shape: number 0 has [], "
     "number 1 has [2]. Expand them first: spec.expand(...)."),
    (lambda: torch.stack([NonTensor(2), NonTensor(3)]), "torch.stack: the shapes [2], [3] differ, and values of a "
     "NonTensor do not fit in a nested tensor. Stack Composites that hold them instead."),
    (lambda: StackedComposite(dim=0), "StackedComposite needs at least one spec, got none."),
    (lambda: torch.stack([Unbounded(3), Unbounded(4)]).expand(3, 4), "Stacked of shape [2, any] does not expand to "
     "[3, 4]: the new shape must end with [2, any], where only dims of size 1 may change, and -1 keeps a dim."),
    (lambda: torch.stack([Unbounded(3), Unbounded(4)]).encode([1]), "Stacked.encode: expected a list of 2 values, one "
     "for each member, got 1 in a list."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), STACK_ERRORS, ids=range(len(STACK_ERRORS)))
def test_a_stack_that_cannot_be_says_why(call, text):
    if text is None:
        with raises(TypeError, "Stacked needs leaf specs, and number 1 is a Composite."):
            call()
    else:
        with raises(ValueError, text):
            call()


@pytest.mark.parametrize("index", [2, -3, slice(0, 0), ([0], [0]), (0, 0)])
def test_an_index_that_picks_no_member_is_refused(index):
    with pytest.raises(IndexError):
        torch.stack([Categorical(3), Categorical(4)])[index]
