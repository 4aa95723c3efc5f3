"""Behaviour of specs that programs written for TorchRL rely on."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, lazy_stack

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
from rlnb.data.specs.boxes import ContinuousBox
from rlnb.data.specs.sampling import _product_above

# --- dtypes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def double():
    torch.set_default_dtype(torch.double)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
def test_without_a_dtype_a_spec_of_floats_has_the_default_one():
    assert Unbounded(2).dtype == Bounded(0, 1, (2,)).dtype == torch.float64
    assert Bounded(np.zeros(2, np.float32), torch.ones(2)).dtype == torch.float64
    assert Bounded(0, 1, (2,), dtype=torch.float32).dtype == torch.float32
    assert (OneHot(2).dtype, Binary(2).dtype) == (torch.bool, torch.int8)


@pytest.mark.parametrize("bounds", [(np.zeros(2), np.ones(2)), (torch.zeros(2).int(), torch.ones(2).int())])
def test_the_dtype_of_bounds_does_not_decide(bounds):
    assert Bounded(*bounds).dtype == torch.float32


def test_choices_may_be_floats():
    spec = Categorical(3, shape=(2,), dtype=torch.float32, mask=[True, True, False])
    assert spec.is_in(spec.rand((50,)))
    assert spec.is_in(torch.tensor([0.0, 1.0]))
    assert [spec.is_in(torch.tensor([value, 0.0])) for value in (0.5, 2.0, float("nan"), float("inf"))] == [False] * 4
    assert spec.project(torch.tensor([1.4, 7.0])).tolist() == [1.0, 1.0]
    assert spec.to_one_hot(torch.tensor([0.0, 1.0])).int().tolist() == [[1, 0, 0], [0, 1, 0]]
    assert spec.to_numpy(torch.tensor([0.0, 1.0])).dtype == np.int64
    assert Categorical(3).to(torch.float32) == Categorical(3, dtype=torch.float32)
    several = MultiCategorical([2, 3], dtype=torch.float64)
    assert several.is_in(several.rand((50,)))
    assert [several.is_in(torch.tensor(v).double()) for v in ([1.0, 2.0], [1.0, 1.5], [2.0, 0.0])] == [
        True,
        False,
        False,
    ]
    with pytest.raises(ValueError, match=r"holds -256 to 256\. Use torch\.int64\.$"):
        Categorical(300, dtype=torch.bfloat16)


# --- large integers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("high", [2**53 + 7, 2**62 + 3, 2**63 - 1])
def test_floats_are_projected_exactly_into_wide_integer_bounds(high):
    spec = Bounded(high - 4, high, (4,), dtype=torch.int64)
    value = torch.tensor([1e30, float("inf"), -1e30, float("-inf")], dtype=torch.float64)
    assert spec.project(value).tolist() == [high, high, high - 4, high - 4]


def test_all_of_very_many_choices_are_drawn_alike():
    torch.manual_seed(0)
    drawn = MultiCategorical([2**62, 3]).rand((3000,))
    assert 0.45 < (drawn[:, 0] % 2).float().mean() < 0.55
    assert drawn[:, 1].bincount(minlength=3).min() > 900
    thirds = MultiCategorical([3 * 2**61, 3]).rand((6000,))[:, 0].div(2**61, rounding_mode="floor").bincount()
    assert thirds.min() > 1850  # a remainder of 64 bits gives 2250, 2250, 1500
    assert MultiCategorical([2**62, 2**61], start=[2**61, 0]).rand((100,))[:, 0].min() >= 2**61


def test_the_upper_half_of_a_product():
    numbers = np.random.default_rng(0).integers(0, 2**64, (2, 500), dtype=np.uint64)
    numbers[:, 0] = 2**64 - 1
    expected = [int(a) * int(b) >> 64 for a, b in numbers.T]
    assert _product_above(*numbers).tolist() == expected


# --- bounds that are assigned -----------------------------------------------------------------------------------------


def test_bounds_may_be_assigned():
    spec = Bounded(-1, 1, (2,))
    spec.space.low = torch.tensor([0.0, -3.0])
    assert spec.low.tolist() == [0, -3]
    assert spec.project(torch.full((2,), -9.0)).tolist() == [0, -3]
    assert spec.rand((200,)).min(0).values[1] < -1
    assert not spec.is_in(torch.tensor([-0.5, 0.0]))
    spec.space.low, spec.space.high = 5, 6  # 5 lies above the old upper bound
    assert spec.is_in(spec.rand((5,)))
    spec.high.fill_(10)
    assert spec.is_in(torch.full((2,), 9.0))
    spec.space = ContinuousBox(torch.zeros(2), torch.ones(2))
    assert spec == Bounded(0, 1, (2,))


def test_bounds_that_make_no_sense_are_refused_where_they_are_used():
    spec = Bounded(0, 1, (2,))
    spec.space.low = 5
    with pytest.raises(ValueError, match="needs low <= high everywhere"):
        spec.rand()
    spec.space.low = 0
    with pytest.raises(ValueError, match=r"do not fit the shape \[2\]"):
        spec.space.low = torch.zeros(3)
    assert spec == Bounded(0, 1, (2,))
    with pytest.raises(AttributeError, match="an Unbounded has no bounds"):
        Unbounded(2).space.low = 0


def test_bounds_of_inference_mode_work():
    with torch.inference_mode():
        spec = Bounded(0, 1, (2,))
        assert spec.is_in(spec.rand())


def test_a_box_is_pickled_without_its_spec():
    box = Bounded(0, 1, (2,)).space
    assert pickle.loads(pickle.dumps(box)) == copy.deepcopy(box) == box


def test_shape_dtype_and_device_may_be_assigned():
    spec = Bounded(0, 255, (2,))
    spec.dtype = torch.uint8
    assert spec == Bounded(0, 255, (2,), dtype=torch.uint8)
    assert type(spec).__name__ == "BoundedDiscrete"
    spec.shape = (3, 2)
    assert spec == Bounded(0, 255, (3, 2), dtype=torch.uint8)
    free = Unbounded(3)
    free.shape = (4, 5)
    free.device = "meta"
    assert free == Unbounded((4, 5), device="meta")
    choice = OneHot(3)
    with pytest.raises(ValueError, match="does not reshape"):
        choice.shape = (4,)
    assert choice == OneHot(3)
    choice.shape = (2, 3)
    assert choice.make_neg_dim(0).shape == (-1, 3)
    assert choice.is_in(OneHot(3).rand((7,)))
    with pytest.raises(ValueError, match="differs along dim 0"):
        Bounded([0, 1], [2, 2]).make_neg_dim(0)


@pytest.mark.parametrize("other", [3, 4], ids=["dense", "lazy"])
def test_assignments_reach_the_entries_of_composites_and_the_members_of_stacks(other):
    walker = Composite(a=Unbounded((2, 3)), n=Categorical(3, (2,)), shape=(2,))
    spec = torch.stack([walker, Composite(a=Unbounded((2, other)), n=Categorical(other, (2,)), shape=(2,))], 1)
    before = spec.clone()
    spec.dtype = torch.float64
    assert (spec["a"].dtype, spec["n"].dtype) == (torch.float64, torch.int64)
    assert spec == before.to(torch.float64)
    assert spec.make_neg_dim(0).shape == (-1, 2)
    assert spec.is_in(before.to(torch.float64)[:1].expand(7, 2).rand())
    assert not before.is_in(before.to(torch.float64).rand())
    uneven = Composite(a=Bounded([[0, 0, 0], [0, 0, 1]], 2, (2, 3)), shape=(2,))
    unchanged = uneven.clone()
    with pytest.raises(ValueError, match="differs along dim 0"):
        uneven.make_neg_dim(0)
    assert uneven == unchanged
    before.lock_()
    with pytest.raises(RuntimeError, match="cannot change its dims or dtypes: this Composite is locked"):
        before.make_neg_dim(0)


def test_assignments_reach_the_members_of_a_stack_of_leaves():
    spec = torch.stack([Bounded(0, 1, (2, 3)), Bounded(0, 2, (2, 3))])
    with pytest.raises(ValueError, match="the members are stacked along dim 0"):
        spec.make_neg_dim(0)
    assert spec.make_neg_dim(1).shape == (2, -1, 3)
    assert spec.is_in(torch.zeros(2, 7, 3))
    spec.dtype = torch.float64
    assert spec[1] == Bounded(0, 2, (2, 3), dtype=torch.float64).make_neg_dim(0)


# --- arguments --------------------------------------------------------------------------------------------------------


def test_no_leading_sizes_may_be_written_as_none():
    for spec in (
        Unbounded(2),
        OneHot(3),
        Categorical(3, mask=[True, False, True]),
        Composite(a=Unbounded(2)),
        NonTensor(()),
        torch.stack([Categorical(2), Categorical(3)]),
    ):
        assert spec.is_in(spec.rand(None))
        assert spec.zero(None).shape == spec.one(None).shape == spec.shape


def test_arguments_have_the_names_of_torchrl():
    spec = Bounded(0, 1, (2,))
    assert spec.is_in(val=spec.project(val=torch.full((2,), 9.0)))
    assert spec.contains(item=spec.encode(val=[0.0, 1.0]))
    with pytest.raises(ValueError, match="outside"):
        spec.to_numpy(torch.full((2,), 9.0), safe=True)
    assert spec.to_numpy(torch.full((2,), 9.0), safe=False).tolist() == [9, 9]
    scores = torch.tensor([1.0, 2.0, 3.0])
    assert Categorical(3).index(index=torch.tensor(1), tensor_to_index=scores) == 2
    assert Categorical(3).to_one_hot(val=torch.tensor(1)).int().tolist() == [0, 1, 0]


def test_keys_of_one_name():
    spec = Composite({("a",): Unbounded(1)}, b={"c": Unbounded(2)})
    spec["d",] = Unbounded(3)
    assert spec["a",] is spec["a"]
    names, every = spec.keys(), spec.keys(True)
    assert ("a",) in names and ("b", ("c",)) in every and () not in names and 3 not in names
    assert ("d",) in spec
    del spec["d",]
    assert spec.keys() == ["a", "b"]
    assert spec.keys(True, True, is_leaf=lambda kind: True) == ["a", "b"]
    static = Composite(a=Composite(x=None, step_mdp_static=True), b=None)
    assert static.keys(step_mdp_static_only=True) == ["a"]
    assert static.clone()["a"].step_mdp_static


def test_masks_with_a_row_for_each_choice():
    rows = torch.tensor([[True, False, True], [False, True, False]])
    spec = MultiCategorical([3, 3], mask=rows)
    assert spec == MultiCategorical([3, 3], mask=rows.flatten())
    assert MultiOneHot([3, 3], mask=rows).mask.tolist() == rows.flatten().tolist()
    # The short row is filled up with what does not count.
    spec = MultiCategorical([2, 3], shape=(4, 2), mask=rows)
    assert spec.mask.tolist() == [[True, False, False, True, False]] * 4
    spec.update_mask(rows.expand(4, 2, 3))
    assert spec.enumerate(use_mask=True).tolist() == [[[0, 1]] * 4]
    with pytest.raises(ValueError, match="expected a mask of shape"):
        spec.update_mask(torch.ones(3, 3, dtype=torch.bool))


def test_what_cannot_be_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"^OneHot\(use_register=True\) would number"):
        OneHot(3, use_register=True)
    with pytest.raises(NotImplementedError, match=r"^Composite\(names=\['time'\]\)"):
        Composite(a=Unbounded((3, 1)), shape=(3,), names=["time"])
    assert Composite(names=Unbounded(1)).keys() == ["names"]
    assert OneHot(3, (3,), None, torch.bool, False) == OneHot(3)


def test_data_that_is_not_a_tensor_row_by_row():
    batched = NonTensor((3,), example_data="x", batched=True)
    assert isinstance(batched.zero(), NonTensorStack)
    assert batched.zero((2,)).tolist() == [["x"] * 3] * 2
    assert batched.is_in(batched.rand((2,)))
    halves = NonTensor((3, 2), example_data="x", feature_dims=1).zero()
    assert isinstance(halves, NonTensorStack)
    assert halves.batch_size == (3, 2)
    assert isinstance(halves[0], NonTensorData)
    assert isinstance(NonTensor((3,), example_data="x").zero(), NonTensorData)
    assert NonTensor((0,), batched=True).zero().batch_size == (0,)
    with pytest.raises(ValueError, match="Leave one of them out"):
        NonTensor((3,), batched=True, feature_dims=1)


# --- Composites -------------------------------------------------------------------------------------------------------


def test_a_nested_composite_without_batch_dims_is_expanded():
    spec = Composite(agents=Composite(observation=Unbounded(2), deep={"x": Categorical(3)}), shape=(3,))
    assert spec["agents"].shape == (3,)
    assert spec["agents", "observation"].shape == (3, 2)
    assert spec["agents", "deep", "x"].shape == (3,)
    member = Composite(observation=Unbounded((3, 2)))
    assert Composite(agents=member, shape=(3,))["agents"] == Composite(observation=Unbounded((3, 2)), shape=(3,))
    assert member.shape == ()
    deeper = Composite(x=Unbounded((3, 4, 1)), shape=(3,))
    assert Composite(a=deeper, shape=(3, 4))["a"].shape == (3, 4)


@pytest.mark.parametrize(
    ("member", "shape"),
    [
        (Composite(a=Unbounded((3, 2)), b=Unbounded(2)), (3,)),  # some lead with the batch size, some do not
        (Composite(a=Unbounded((2, 2)), shape=(2,)), (3,)),
        (Composite(a=Unbounded((3, 5)), shape=(3,)), (3, 4)),
        (Composite(a=Unbounded((3, 5)), shape=(3, 5)), (3, 4)),
    ],
)
def test_a_nested_composite_of_another_batch_size_is_refused(member, shape):
    with pytest.raises(ValueError, match=re.escape(f"'agents': expected a shape that begins with {list(shape)}")):
        Composite(agents=member, shape=shape)


def test_data_may_leave_out_trailing_dims_of_size_1():
    spec = Composite(done=Categorical(2, (4, 1), dtype=torch.bool), shape=(4, 1))
    data = TensorDict({"done": torch.zeros(4, 1, dtype=torch.bool)}, [4])
    both = Composite(inner=spec, x=Unbounded((4, 2)), shape=(4,))
    for described, value in ((spec, data), (both, both.zero().set("inner", data))):
        assert described.is_in(value)
        assert described.violations(value) == described.violations(value, leading=0) == []
        assert described.project(value) is value
    assert both.is_in(both.zero().set("inner", data).expand(5, 4))
    # The batch size of the root is what rollouts are stacked along.
    assert not Composite(x=Unbounded(4), shape=(4,)).is_in(TensorDict({"x": torch.zeros(4)}, []))


def test_what_is_locked_together_is_unlocked_together():
    spec = Composite(a=Composite(b=Unbounded(1))).lock_()
    text = "cannot unlock this Composite: the one that holds it is still locked"
    with pytest.raises(RuntimeError, match=text):
        spec["a"].unlock_()
    assert spec["a"].is_locked
    for free in (copy.deepcopy(spec), pickle.loads(pickle.dumps(spec)), spec.clone()):
        free["a"].unlock_()
    member = spec["a"]
    spec.unlock_()
    member["c"] = Unbounded(1)
    # One whose owner is gone, or open, is free.
    owner = Composite(a=member).lock_()
    del owner
    member.unlock_()
    alone = Composite(a=Composite()).lock_(recurse=False)
    alone["a"]["b"] = Unbounded(1)
    stack = torch.stack([Composite(a=Composite(b=Unbounded(n))) for n in (1, 2)]).lock_()
    with pytest.raises(RuntimeError, match=text):
        stack["a"].unlock_()


def test_a_stack_has_the_size_of_its_first_dim_and_gives_up_exclusive_keys():
    spec = torch.stack([Composite(a=Unbounded((3, 1)), b=None, shape=(3,)), Composite(a=None, shape=(3,))], 1)
    assert (len(spec), spec.dim, spec.stack_dim) == (3, 1, 1)
    leaves = torch.stack([Categorical(2), Categorical(3)])
    assert (len(leaves), leaves.dim) == (2, 0)
    del spec["b"]
    assert spec.exclusive_keys() == [[], []]
    with pytest.raises(KeyError, match="no key 'b'"):
        del spec["b"]
    with pytest.raises(RuntimeError, match="locked"):
        del spec.lock_()["a"]
    other = torch.stack([Composite(x=None), Composite(x=None, y=Unbounded(1))])
    assert "1 ->" in other.repr_exclusive_keys() and "y: Unbounded" in other.repr_exclusive_keys()
    assert other.repr_exclusive_keys() in repr(other)


def test_a_stack_projects_in_place():
    spec = torch.stack([Composite(a=Bounded(0, high, (2,))) for high in (1, 2)])
    for data in (
        TensorDict({"a": torch.full((2, 2), 5.0)}, [2]),
        lazy_stack([TensorDict({"a": torch.full((2,), 5.0)}) for _ in range(2)]),
        TensorDict({"a": torch.full((3, 2, 2), 5.0)}, [3, 2]),
    ):
        assert spec.project(data) is data
        assert data["a"].reshape(-1, 2, 2)[0].tolist() == [[1, 1], [2, 2]]


def test_entries_are_written_into_data_that_is_there():
    spec = Composite(a=Unbounded((3, 2)), n={"b": Bounded(5, 6, (3, 1))}, shape=(3,))
    data = TensorDict({"n": {"other": torch.zeros(3)}}, [3])
    assert spec.ones_update(data) is data
    assert data["a"].tolist() == [[1, 1]] * 3
    assert spec.zeros_update(data)["n", "b"].tolist() == [[0]] * 3
    assert spec["n"].is_in(spec.rand_update(data)["n"])
    assert "other" in data["n"]
    assert spec.zeros_update(TensorDict({}, [4, 3]))["a"].shape == (4, 3, 2)


def test_dtypes_of_some_keys_are_checked():
    spec = Composite(a=Unbounded(1), b=Unbounded(1))
    data = TensorDict({"a": torch.zeros(1), "b": torch.zeros(1, dtype=torch.int32)})
    spec.type_check(data, selected_keys=["a"])
    with pytest.raises(TypeError, match=r"^b: expected dtype torch\.float32"):
        spec.type_check(data)
