"""Specs from data, and exclusive keys of lazy stacks."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, lazy_stack, tensorclass

import rlnb.data
import rlnb.envs.utils
from rlnb.data import (
    Bounded,
    Categorical,
    Choice,
    Composite,
    NonTensor,
    OneHot,
    StackedComposite,
    Unbounded,
    check_no_exclusive_keys,
    consolidate_spec,
    contains_lazy_spec,
    make_composite_from_td,
)


def test_where_the_helpers_are_found():
    assert rlnb.envs.utils.make_composite_from_td is rlnb.data.make_composite_from_td
    assert rlnb.envs.utils.check_no_exclusive_keys is rlnb.data.check_no_exclusive_keys
    assert {"make_composite_from_td", "check_no_exclusive_keys"} <= set(rlnb.envs.utils.__all__)
    assert {"consolidate_spec", "contains_lazy_spec"} <= set(rlnb.data.__all__)


def data():
    return TensorDict(
        {
            "observation": torch.rand(4, 3),
            "pixels": torch.zeros(4, 8, 8, dtype=torch.uint8),
            "flag": torch.zeros(4, dtype=torch.bool),
            "next": TensorDict({"reward": torch.rand(4, 5, 1)}, batch_size=[4, 5]),
            "text": NonTensorData("go", batch_size=[4]),
            "words": NonTensorStack("a", "b", "c", "d"),
        },
        batch_size=[4],
    )


def test_a_spec_from_data():
    spec = make_composite_from_td(data())
    assert spec == Composite(
        observation=Unbounded((4, 3)),
        pixels=Unbounded((4, 8, 8), dtype=torch.uint8),
        flag=Unbounded((4,), dtype=torch.bool),
        next=Composite(reward=Unbounded((4, 5, 1)), shape=(4, 5)),
        text=NonTensor((4,), example_data="go"),
        words=NonTensor((4,), example_data="a"),
        shape=(4,),
    )
    assert spec.is_in(data())
    assert bool((spec.zero()["observation"] == 0).all())


def test_single_numbers_get_a_dim_unless_told_otherwise():
    single = TensorDict({"reward": torch.tensor(1.0), "n": {"done": torch.tensor(True)}})
    spec = make_composite_from_td(single)
    assert spec["reward"].shape == spec["n", "done"].shape == torch.Size([1])
    exact = make_composite_from_td(single, unsqueeze_null_shapes=False)
    assert exact["reward"].shape == torch.Size([]) and exact.is_in(single)


def test_sizes_can_be_left_open():
    spec = make_composite_from_td(data(), dynamic_shape=True)
    assert spec["observation"].shape == torch.Size([4, -1])
    assert spec["pixels"].shape == torch.Size([4, 8, -1])
    assert spec["flag"].shape == torch.Size([4])
    assert spec["next", "reward"].shape == torch.Size([4, 5, -1])
    assert spec.is_in(data().set("observation", torch.zeros(4, 9)))


@tensorclass
class Point:
    """Some data."""

    x: torch.Tensor


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_spec_from_a_tensorclass_or_a_lazy_stack():
    point = Point(x=torch.zeros(3, 2), batch_size=[3])
    spec = make_composite_from_td(point)
    assert spec.data_cls is Point and spec.is_in(point)
    rows = [TensorDict({"a": torch.zeros(size), "n": torch.tensor(size)}) for size in (3, 4)]
    for stack in (lazy_stack(rows), lazy_stack([lazy_stack(rows), lazy_stack(rows[::-1])], 1)):
        spec = make_composite_from_td(stack)
        assert isinstance(spec, StackedComposite)
        assert spec.is_in(stack) and spec.shape == stack.batch_size
    same = lazy_stack([rows[0], rows[0].clone()])
    assert make_composite_from_td(same) == make_composite_from_td(torch.stack(list(same.unbind(0))))
    nested = TensorDict({"a": torch.nested.nested_tensor([torch.zeros(3), torch.zeros(4)])})
    assert make_composite_from_td(nested)["a"].shape == torch.Size([2, -1])
    assert make_composite_from_td(nested).is_in(nested)


def test_only_a_tensordict_makes_a_composite():
    text = "make_composite_from_td: expected a TensorDict, got a Tensor. Wrap tensors: TensorDict({...}, "
    text += "batch_size=...)."
    with pytest.raises(TypeError, match="^" + re.escape(text) + "$"):
        make_composite_from_td(torch.zeros(3))


def stack():
    first = Composite(x=Bounded(-1, 1, (3,)), box=Bounded(0, 1, (2, 2)), n=Composite(p=Unbounded(5)))
    other = Composite(
        x=Bounded(-1, 1, (3,)), hot=OneHot(4), k=Categorical(3), t=NonTensor(()), n=Composite(q=Unbounded(2)),
        deep=Composite(a=Unbounded(3), b=None), many=Composite(c=Unbounded((6, 2)), shape=(6,)), none=None,
    )  # fmt: skip
    return torch.stack([first, other])


def test_consolidating_adds_empty_entries_for_exclusive_keys():
    spec = stack()
    before = spec.clone()
    whole = consolidate_spec(spec)
    assert spec == before
    assert whole.exclusive_keys() == [[], []]
    assert whole[1]["box"] == Bounded(0, 1, (0, 0))
    assert whole[0]["n", "q"].shape == whole[1]["n", "p"].shape == torch.Size([0])
    assert whole[0]["deep", "a"].shape == torch.Size([0]) and whole[0]["deep", "b"] is None
    assert whole[0]["many"].shape == torch.Size([6]) and whole[0]["many", "c"].shape == torch.Size([6, 0])
    assert whole[0]["none"] is None
    assert (whole[0]["hot"], whole[0]["k"], whole[0]["t"]) == (OneHot(4), Categorical(3), NonTensor(()))
    assert whole["box"].shape == torch.Size([2, -1, -1])
    value = whole.rand((3,))
    assert whole.is_in(value) and spec.is_in(value)
    assert value.unbind(1)[1]["box"].shape == torch.Size([3, 0, 0])


def test_how_deep_consolidating_goes():
    inside = Composite(s=stack(), shape=(2,))
    assert not check_no_exclusive_keys(consolidate_spec(inside, recurse_through_entries=False))
    assert check_no_exclusive_keys(consolidate_spec(inside))
    assert consolidate_spec(stack(), recurse_through_entries=False)["n"].exclusive_keys() == [["p"], ["q"]]
    apart = torch.stack([Composite(s=stack(), shape=(2,)), Composite(u=None, shape=(2,))])
    shallow = consolidate_spec(apart, recurse_through_stack=False)
    assert shallow[0]["s"].exclusive_keys() != [[], []]
    assert check_no_exclusive_keys(consolidate_spec(apart))
    assert consolidate_spec(Composite(a=Unbounded(3))) == Composite(a=Unbounded(3))


def test_checking_for_exclusive_keys():
    assert not check_no_exclusive_keys(stack())
    assert check_no_exclusive_keys(Composite(s=stack(), shape=(2,)), recurse=False)
    assert not check_no_exclusive_keys(Composite(s=stack(), shape=(2,)))
    inner = stack().select("x", "n")
    assert not check_no_exclusive_keys(inner) and check_no_exclusive_keys(inner, recurse=False)
    assert check_no_exclusive_keys(stack().select("x"))
    assert check_no_exclusive_keys(Unbounded(3)) and check_no_exclusive_keys(Composite(a=None))


@pytest.mark.parametrize(
    ("spec", "lazy"),
    [
        (stack(), True),
        (Composite(s=stack()), True),
        (Composite(n=Composite(a=torch.stack([Categorical(2), Categorical(3)]), b=None)), True),
        (torch.stack([Unbounded(2), Unbounded(3)]), True),
        (Choice([Composite(s=stack()), Composite(a=None)]), True),
        (Composite(a=Unbounded(3), b=Composite(c=None)), False),
        (torch.stack([Unbounded(2), Unbounded(2)]), False),
        (Unbounded(3), False),
    ],
    ids=range(8),
)
def test_finding_lazy_stacks(spec, lazy):
    assert contains_lazy_spec(spec) is lazy
