"""The traversal that lists all violations of a spec in data."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    NonTensor,
    OneHot,
    Unbounded,
    Violation,
    violations,
)

CLIP = "Clip it with spec.project(value), or widen the bounds of the spec."


def test_every_problem_is_reported_at_once():
    spec = Composite(
        observation=Bounded(-1, 1, (2,)),
        pixels=Bounded(0, 255, (4,), dtype=torch.uint8),
        agent=Composite(action=OneHot(3), logits=Unbounded(3)),
        done=Categorical(2, (1,), dtype=torch.bool),
        text=NonTensor((), example_data="x"),
        note=None,
    )
    data = TensorDict(
        {
            "observation": torch.tensor([[0.0, 1.5], [float("nan"), 0.0], [0.0, 0.0]]),
            "pixels": torch.zeros(3, 4),
            "agent": {"action": torch.zeros(3, 3, dtype=torch.bool)},
            "done": torch.zeros(3, dtype=torch.bool),
            "reward": torch.zeros(3, 1),
        },
        batch_size=[3],
    )
    found = violations(spec, data)
    assert [(v.key, v.kind) for v in found] == [
        (("observation",), "domain"),
        (("pixels",), "dtype"),
        (("agent", "action"), "domain"),
        (("agent", "logits"), "missing"),
        (("done",), "shape"),
        (("text",), "missing"),
        (("reward",), "extra"),
    ]
    assert found[0] == Violation(
        ("observation",), "domain", "[-1, 1]", "1.5 at index (0, 1) (and 1 more)", (0, 1), 1.5, CLIP
    )
    assert [str(v) for v in found] == [
        f"observation: 1.5 at index (0, 1) (and 1 more) is outside [-1, 1]. {CLIP}",
        "pixels: expected dtype torch.uint8, got torch.float32. Cast it: value.to(torch.uint8).",
        "('agent', 'action'): [0, 0, 0] at index (0,) (and 2 more) is outside the one-hot vectors of length 3 (one "
        "entry is 1, the others are 0). Make it with spec.encode(i), or take the largest entry: spec.project(value).",
        "('agent', 'logits'): missing, expected a tensor of shape [3, 3] and dtype torch.float32. Write it before "
        "returning the data.",
        "done: expected shape [3, 1], got [3]. A trailing dimension of size 1 is missing: value.unsqueeze(-1).",
        "text: missing, expected non-tensor data of batch size [3]. Write it before returning the data.",
        "reward: not in the spec, which has 'observation', 'pixels', 'agent', 'done', 'text', 'note'. Remove it, or "
        "add it to the spec: spec['reward'] = ...",
    ]


def test_a_missing_composite_is_one_violation():
    spec = Composite(agent=Composite(a=Unbounded(1), b=Unbounded(1)))
    (found,) = violations(spec, TensorDict({}, batch_size=[2]))
    assert str(found) == (
        "agent: missing, expected a TensorDict of batch size [2]. Write it before returning the data."
    )


def test_a_leaf_where_a_tensordict_is_expected_and_the_reverse():
    spec = Composite(a=Composite(b=Unbounded(1)), c=Unbounded(1))
    data = TensorDict({"a": torch.zeros(1), "c": {"d": torch.zeros(1)}})
    assert [str(v) for v in violations(spec, data)] == [
        "a: expected type TensorDict, got Tensor. Wrap the tensors: TensorDict({...}, batch_size=...).",
        "c: expected type torch.Tensor, got TensorDict. Convert it with spec.encode(value).",
    ]


def test_the_batch_size_of_the_root_must_end_with_the_specs_shape():
    spec = Composite(a=Unbounded((2, 3)), shape=(2,))
    found = violations(spec, TensorDict({"a": torch.zeros(2, 3)}, batch_size=[]))
    assert [str(v) for v in found] == ["value: expected shape (batch size) [2], got []. Set it: td.batch_size = [2]."]


def test_a_nested_tensordict_may_name_more_of_its_dims():
    spec = Composite(agents=Composite(a=Unbounded((4, 3))))
    data = TensorDict({"agents": TensorDict({"a": torch.zeros(2, 4, 3)}, batch_size=[2, 4])}, batch_size=[2])
    assert spec.is_in(data)
    assert violations(spec, data) == []
    wrong = TensorDict({"agents": TensorDict({"a": torch.zeros(2, 4, 3)}, batch_size=[2])}, batch_size=[])
    assert not spec.is_in(wrong.set("agents", wrong["agents"]))


@pytest.mark.parametrize(("leading", "fits"), [(None, True), (2, True), (0, False), (1, False), (3, False)], ids=str)
def test_the_number_of_leading_dims_can_be_prescribed(leading, fits):
    value = torch.zeros(5, 4, 3)
    spec = Unbounded(3)
    assert (violations(spec, value, leading=leading) == []) == fits
    composite = Composite(a=spec)
    data = TensorDict({"a": value}, batch_size=[5, 4])
    assert (violations(composite, data, leading=leading) == []) == fits


def test_an_extra_batch_dim_is_found_when_none_is_allowed():
    (found,) = violations(Unbounded(3), torch.zeros(1, 3), leading=0)
    assert str(found) == (
        "value: expected shape [3], got [1, 3]. There is an extra dimension of size 1: value.squeeze(0)."
    )


LEAVES = [
    Bounded(torch.tensor([-1.0, -2, 0]), torch.tensor([1.0, 2, 5])),
    Categorical(4),
    Categorical(2, (1,), dtype=torch.bool),
    OneHot(4),
    MultiCategorical([2, 5]),
    Binary(3),
    Unbounded((2, 2)),
    NonTensor((), example_data="x"),
]


@given(
    st.lists(st.integers(1, 3), max_size=2).map(tuple),
    st.lists(st.integers(1, 3), max_size=1).map(tuple),
    st.integers(1, 5),
)
def test_the_time_dim_of_a_rollout_sits_behind_the_batch_dims(batch, lead, steps):
    spec = Composite({f"k{i}": leaf for i, leaf in enumerate(LEAVES)}).expand(*batch)
    spec["nested"] = spec.clone()
    steps_of = [spec.rand(lead) for _ in range(steps)]
    rollout = torch.stack(steps_of, len(lead) + len(batch))
    assert violations(spec, rollout, time_dim=True) == []
    assert violations(spec, rollout, time_dim=True, leading=len(lead)) == []


def test_a_domain_violation_in_a_rollout_is_found_at_its_own_time_and_bound():
    low = torch.tensor([[0.0, 0.0], [10.0, 10.0]])
    spec = Composite(a=Bounded(low, low + 5), shape=(2,))
    rollout = TensorDict({"a": (low + 1)[:, None].repeat(1, 7, 1)}, batch_size=[2, 7])
    assert violations(spec, rollout, time_dim=True) == []
    rollout["a"][1, 4, 0] = 3.0
    (found,) = violations(spec, rollout, time_dim=True)
    assert (found.index, found.value, found.expected) == ((1, 4, 0), 3.0, "[10, 15]")
    rollout["a"][1, 4, 0] = 16.0
    assert violations(spec, rollout, time_dim=True)[0].index == (1, 4, 0)


def test_a_rollout_whose_entry_lacks_the_time_dim_is_found():
    spec = Composite(a=Unbounded((2, 3)), b=Unbounded((2, 3)), shape=(2,))
    rollout = TensorDict({"a": torch.zeros(2, 5, 3), "b": torch.zeros(2, 5)}, batch_size=[2, 5])
    (found,) = violations(spec, rollout, time_dim=True)
    assert (found.key, found.kind, found.expected, found.got) == (("b",), "shape", "[2, 5, 3]", "[2, 5]")


def test_a_leafs_time_dim_is_a_leading_one():
    spec = Bounded(0, 1, (3,))
    value = torch.zeros(6, 3)
    value[4, 1] = 2
    (found,) = violations(spec, value, time_dim=True)
    assert found.index == (4, 1)


def test_nan_is_outside_of_bounds_and_inside_of_none():
    value = torch.tensor([0.0, float("nan")])
    (found,) = violations(Bounded(-math.inf, math.inf, (2,)), value)
    assert found.index == (1,)
    assert math.isnan(found.value)
    assert violations(Unbounded(2), value) == []


def test_a_wrong_dtype_does_not_hide_a_wrong_number_where_it_can_be_read():
    found = violations(Bounded(-1, 1, (2,)), torch.tensor([0.0, 5.0], dtype=torch.float64))
    assert [v.kind for v in found] == ["dtype", "domain"]
    found = violations(Categorical(3), torch.tensor(5, dtype=torch.int32))
    assert [v.kind for v in found] == ["dtype", "domain"]
    found = violations(Categorical(3), torch.tensor(0.5))
    assert [v.kind for v in found] == ["dtype"]


def test_a_violation_is_a_value():
    one = Violation(("a",), "missing", "x", "nothing")
    assert one == Violation(("a",), "missing", "x", "nothing")
    assert len({one, Violation(("a",), "missing", "x", "nothing")}) == 1
    with pytest.raises(FrozenInstanceError):
        one.kind = "extra"
    assert str(one) == "a: missing, expected x."
