"""Choice: values of one of several specs."""

from __future__ import annotations

import pickle
import re

import pytest
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict

from rlnb.data import Binary, Bounded, Categorical, Choice, Composite, NonTensor, OneHot, Unbounded


def raises(kind, text):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


LOW, HIGH = Bounded(-2, -1, (2,)), Bounded(3, 4, (2,))


@pytest.fixture
def spec():
    return Choice([LOW, HIGH])


def test_what_a_choice_is(spec):
    assert (spec.shape, spec.dtype, spec.device) == (torch.Size([2]), torch.float32, torch.device("cpu"))
    assert (spec.domain, spec.space, spec.num_choices) == (None, None, 2)
    assert spec == Choice([LOW.clone(), HIGH]) == spec.clone() == pickle.loads(pickle.dumps(spec))
    assert spec != Choice([HIGH, LOW]) and spec != LOW
    assert hash(spec) == hash(spec.clone())
    text = repr(Choice([Binary(1)]))
    assert text.startswith("Choice(\n    shape=torch.Size([1]),\n    choices={\n        0: Binary(\n")
    assert spec.to(torch.float64).rand().dtype == torch.float64


@pytest.mark.parametrize("lead", [(), (7,), (2, 3), (0,)])
def test_each_row_chooses_for_itself(spec, lead):
    torch.manual_seed(0)
    for each in (spec, spec.expand(5, 2), spec.unsqueeze(0), torch.stack([spec, spec])):
        value = each.rand(lead)
        assert value.shape == torch.Size((*lead, *each.shape))
        assert each.is_in(value) and each.violations(value) == []
        assert each.project(value) is value
        assert each.zero(lead).shape == each.one(lead).shape == value.shape
    value = spec.rand((50,))
    assert {LOW.is_in(row) for row in value} == {HIGH.is_in(row) for row in value} == {True, False}


def test_rows_are_drawn_one_after_the_other(spec):
    torch.manual_seed(4)
    together = spec.rand((9,))
    torch.manual_seed(4)
    assert torch.equal(together, torch.stack([spec.rand() for _ in range(9)]))


def test_a_row_must_be_in_one_choice_as_a_whole(spec):
    assert spec.is_in(torch.tensor([[-1.5, -1.5], [3.5, 3.5]]))
    assert not spec.is_in(torch.tensor([-1.5, 3.5]))
    bad = torch.tensor([[-1.5, -1.5], [3.5, 3.5], [0.0, -1.5]])
    (found,) = spec.violations(bad)
    assert (found.kind, found.index, found.value) == ("domain", (2, 0), 0.0)
    assert str(found) == (
        "value: 0 at index (0,) in row (2,) is outside every choice (the closest one, number 0, has [-2, -1]). Check "
        "how the value is computed, or take the nearest: spec.project(value)."
    )
    assert spec.project(bad).tolist() == [[-1.5, -1.5], [3.5, 3.5], [-1.0, -1.5]]
    assert spec.project(torch.tensor([2.0, 2.5])).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("value", [torch.zeros(3), torch.zeros(()), torch.zeros(2, dtype=torch.int64), 3, None])
def test_an_invalid_value_is_rejected_everywhere(spec, value):
    assert not spec.is_in(value)
    assert spec.violations(value)
    with pytest.raises(AssertionError):
        spec.assert_is_in(value)
    with pytest.raises(ValueError, match=r"Choice\.to_numpy"):
        spec.to_numpy(value)


def test_rows_that_are_missing_are_found(spec):
    big = spec.expand(5, 2)
    assert not big.is_in(torch.full((4, 2), -1.0))
    assert str(big.violations(torch.full((4, 2), -1.0))[0]).startswith("value: expected shape [5, 2], got [4, 2].")
    assert not Composite(a=big, shape=(5,)).is_in(TensorDict({"a": torch.full((5, 1), -1.0)}, batch_size=[5]))


def test_encoding_takes_the_first_choice_that_fits(spec):
    assert spec.encode([3, 3.5]).tolist() == [3, 3.5]
    assert spec.to_numpy(spec.encode([-2, -1])).tolist() == [-2, -1]
    assert [row.tolist() for row in spec.to_numpy(torch.tensor([[-2.0, -1], [3, 4]]))] == [[-2, -1], [3, 4]]
    text = r"(?s)^Choice\.encode: none of the 2 choices accepts the value:\n  0: .*\n  1: "
    with pytest.raises(ValueError, match=text):
        spec.encode([0, 0])
    assert spec.encode([0, 0], check=False).tolist() == [0, 0]
    spec.type_check(torch.zeros(2))
    with pytest.raises(TypeError, match="expected dtype"):
        spec.type_check(torch.zeros(2, dtype=torch.int64))


def test_counting_and_listing():
    spec = Choice([Categorical(2), Categorical(3, start=10)])
    assert spec.cardinality() == 5
    assert spec.enumerate().tolist() == [0, 1, 10, 11, 12]
    assert spec.expand(2).cardinality() == 25
    with raises(ValueError, "Choice.enumerate: its [2] rows choose separately. List the values of one row: "
                            "spec[0].enumerate()."):  # fmt: skip
        spec.expand(2).enumerate()
    assert Choice([LOW, HIGH]).cardinality() == float("inf")


def test_fixed_data_can_be_chosen():
    spec = Choice([NonTensorData("left"), NonTensorData("right")])
    torch.manual_seed(0)
    assert {spec.rand().data for _ in range(20)} == {"left", "right"} == set(spec.rand((20,)).tolist())
    assert spec.is_in(spec.rand((4,))) and spec.is_in(NonTensorData("left"))
    assert not spec.is_in(NonTensorData("up")) and not spec.is_in(NonTensorStack("left", "up"))
    assert spec.cardinality() == 2 and spec.enumerate().tolist() == ["left", "right"]
    assert spec.to_numpy(NonTensorData("left")) == "left"
    with pytest.raises(ValueError, match=r"^Choice\.project"):
        spec.project(NonTensorData("up"))


@pytest.mark.parametrize("lead", [(), (6,)])
def test_composites_of_different_keys_can_be_chosen(lead):
    spec = Choice([Composite(a=Unbounded(3)), Composite(b=Unbounded(2), a=Binary(1))])
    value = spec.rand(lead)
    assert value.batch_size == torch.Size(lead)
    assert spec.is_in(value) and spec.violations(value) == []
    outer = Composite(c=spec.expand(4), shape=(4,))
    assert outer.is_in(outer.rand(lead)) and outer.violations(outer.rand(lead), leading=len(lead)) == []
    assert spec.is_in(spec.encode({"b": [0, 1], "a": [1]}))
    assert not spec.is_in(TensorDict({"b": torch.zeros(*lead, 2)}, batch_size=lead))


def test_the_time_dim_of_a_rollout(spec):
    batched = Composite(a=spec.expand(3, 2), shape=(3,))
    rollout = torch.stack([batched.rand() for _ in range(5)], 1)
    assert batched.violations(rollout, time_dim=True) == []
    rollout["a"][2, 4] = 0
    (found,) = batched.violations(rollout, time_dim=True)
    assert found.index == (2, 4, 0)


CONSTRUCTION = [
    (lambda: Choice([]), ValueError, "Choice needs at least one choice, got none."),
    (lambda: Choice(["a"]), TypeError, "Choice: number 0 is a str. A choice must be a spec, or data that is "
     "not a tensor: NonTensorData(data)."),
    (lambda: Choice([Categorical(3), OneHot(3)]), TypeError, "Choice needs choices of one class: number 0 is "
     "Categorical, number 1 is OneHot. Wrap each in a Composite of the same keys."),
    (lambda: Choice([Unbounded(3), Unbounded(4)]), ValueError, "Choice needs choices of one shape: number 0 has "
     "torch.Size([3]), number 1 has torch.Size([4])."),
    (lambda: Choice([Binary(2), Binary(2, dtype=torch.bool)]), ValueError, "Choice needs choices of one dtype: number "
     "0 has torch.int8, number 1 has torch.bool."),
    (lambda: Choice([NonTensor(1)])[0], IndexError, None),
]  # fmt: skip


@pytest.mark.parametrize(("build", "kind", "text"), CONSTRUCTION, ids=range(len(CONSTRUCTION)))
def test_a_choice_that_makes_no_sense_is_refused(build, kind, text):
    with pytest.raises(kind) if text is None else raises(kind, text):
        build()
