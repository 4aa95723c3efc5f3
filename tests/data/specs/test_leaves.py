"""Single leaf specs: construction, drawing, projection, conversion."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tensordict import NonTensorData, NonTensorStack

import rlnb.data
from rlnb.data import (
    Binary,
    Bounded,
    BoundedContinuous,
    BoundedDiscrete,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    TensorSpec,
    Unbounded,
    UnboundedContinuous,
    UnboundedDiscrete,
    space_from_spec,
    spec_from_space,
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BoundedTensorSpec", "Bounded"),
        ("UnboundedContinuousTensorSpec", "UnboundedContinuous"),
        ("UnboundedDiscreteTensorSpec", "UnboundedDiscrete"),
        ("DiscreteTensorSpec", "Categorical"),
        ("OneHotDiscreteTensorSpec", "OneHot"),
        ("MultiDiscreteTensorSpec", "MultiCategorical"),
        ("MultiOneHotDiscreteTensorSpec", "MultiOneHot"),
        ("BinaryDiscreteTensorSpec", "Binary"),
        ("NonTensorSpec", "NonTensor"),
        ("CompositeSpec", "Composite"),
    ],
)
def test_old_names_are_the_new_classes(old, new):
    assert getattr(rlnb.data, old) is getattr(rlnb.data, new)
    assert issubclass(getattr(rlnb.data, new), TensorSpec)
    assert old in rlnb.data.__all__ and new in rlnb.data.__all__


@pytest.mark.parametrize(
    ("spec", "kind", "shape", "dtype", "domain"),
    [
        (Bounded(-1, 1, 3), BoundedContinuous, (3,), torch.float32, "continuous"),
        (Bounded([0, 1], [2, 3]), BoundedContinuous, (2,), torch.float32, "continuous"),
        (Bounded(np.zeros(2), np.ones(2)), BoundedContinuous, (2,), torch.float32, "continuous"),
        (Bounded(0, 5, (2,), dtype="int32"), BoundedDiscrete, (2,), torch.int32, "discrete"),
        (Bounded(0, 5, (2,)).to(torch.int64), BoundedDiscrete, (2,), torch.int64, "discrete"),
        (BoundedDiscrete(0, 5, (2,)), BoundedDiscrete, (2,), torch.int64, "discrete"),
        (BoundedContinuous(0, 5, (2,), dtype=torch.int64), BoundedDiscrete, (2,), torch.int64, "discrete"),
        (Unbounded(), UnboundedContinuous, (1,), torch.float32, "continuous"),
        (Unbounded((2, 3), dtype=torch.uint8), UnboundedDiscrete, (2, 3), torch.uint8, "discrete"),
        (UnboundedDiscrete(), UnboundedDiscrete, (1,), torch.int64, "discrete"),
        (UnboundedContinuous(2, dtype=torch.int64), UnboundedDiscrete, (2,), torch.int64, "discrete"),
        (Categorical(4), Categorical, (), torch.int64, "discrete"),
        (OneHot(4), OneHot, (4,), torch.bool, "discrete"),
        (MultiCategorical([3, 4]), MultiCategorical, (2,), torch.int64, "discrete"),
        (MultiCategorical([[2, 3], [4, 5]]), MultiCategorical, (2, 2), torch.int64, "discrete"),
        (MultiOneHot([3, 4]), MultiOneHot, (7,), torch.bool, "discrete"),
        (MultiOneHot([[2, 3], [4, 5]]), MultiOneHot, (14,), torch.bool, "discrete"),
        (Binary(3), Binary, (3,), torch.int8, "discrete"),
        (Binary(shape=()), Binary, (), torch.int8, "discrete"),
        (NonTensor(), NonTensor, (1,), None, None),
        (Composite(), Composite, (), None, "composite"),
    ],
)
def test_what_a_constructor_makes(spec, kind, shape, dtype, domain):
    assert type(spec) is kind
    assert spec.shape == torch.Size(shape)
    assert spec.ndim == spec.ndimension() == len(shape)
    assert spec.dtype == dtype
    assert spec.domain == domain
    assert spec.device == (None if dtype is None else torch.device("cpu"))


def test_bounds_are_copied_from_what_the_caller_gave():
    low = torch.zeros(2)
    array = np.ones(2, dtype=np.float32)
    spec = Bounded(low, array)
    low += 5
    array += 5
    assert spec == Bounded(torch.zeros(2), torch.ones(2))
    value = torch.zeros(2, dtype=torch.int64)
    counts = MultiCategorical(value + 2)
    assert counts.nvec.tolist() == [2, 2]


def test_the_boxes_of_specs():
    assert Bounded([0, 1], [2, 3]).space.low.tolist() == [0, 1]
    assert Bounded([0, 1], [2, 3]).space.maximum.tolist() == [2, 3]
    assert Unbounded(2).space.high.tolist() == [math.inf, math.inf]
    assert Unbounded(1, dtype=torch.uint8).space.low.item() == 0
    assert repr(Categorical(3).space) == "CategoricalBox(n=3)"
    assert repr(OneHot(3, start=2).space) == "CategoricalBox(n=3, start=2)"
    assert repr(MultiOneHot([2, 3]).space) == "BoxList(boxes=[CategoricalBox(n=2), CategoricalBox(n=3)])"
    assert MultiCategorical([2, 3]).expand(5, 2).space == MultiCategorical([2, 3]).space
    assert len(MultiCategorical([[2, 3], [4, 5]]).space) == 2
    assert MultiCategorical([[2, 3], [4, 5]]).space[1][0].n == 4
    assert MultiCategorical([[2, 3], [4, 5]])[1, 0].space.n == 4


def test_specs_differ_in_what_they_say():
    every = [
        Bounded(0, 1, (2,)),
        Bounded(0, 2, (2,)),
        Bounded(0, 1, (3,)),
        Bounded(0, 1, (2,), dtype=torch.float64),
        Unbounded(2, device="meta"),
        Unbounded(2),
        Categorical(2),
        Categorical(2, start=1),
        Categorical(3),
        OneHot(2),
        OneHot(2, start=1),
        MultiCategorical([2, 3]),
        MultiCategorical([3, 2]),
        MultiCategorical([2, 3], start=[0, 1]),
        MultiOneHot([2, 3]),
        MultiOneHot([3, 2]),
        Binary(2),
        NonTensor(example_data="a"),
        NonTensor(example_data="b"),
        Composite(),
        Composite(a=None),
        Composite(shape=(2,)),
        Composite(device="meta"),
    ]
    for i, first in enumerate(every):
        for j, second in enumerate(every):
            assert (first == second) == (i == j)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_draws_between_bounds_fill_the_interval(dtype):
    torch.manual_seed(0)
    value = Bounded(-2, 6, (4,), dtype=dtype).rand((2000,)).double()
    assert value.min() >= -2 and value.max() <= 6
    assert abs(value.mean() - 2) < 0.15
    assert abs(value.std() - 8 / math.sqrt(12)) < 0.1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_unbounded_draws_are_standard_normal(dtype):
    torch.manual_seed(0)
    value = Unbounded(100, dtype=dtype).rand((400,)).double()
    assert abs(value.mean()) < 0.02
    assert abs(value.std() - 1) < 0.02
    assert abs((value.abs() < 1).double().mean() - 0.6827) < 0.01


def test_draws_beside_an_infinite_bound_are_shaped_as_gymnasium_does():
    torch.manual_seed(0)
    inf = math.inf
    spec = Bounded([0, -inf, -inf, 2], [inf, 5, inf, 4], dtype=torch.float64)
    value = spec.rand((20000,))
    assert torch.allclose(value.mean(0), torch.tensor([1.0, 4.0, 0.0, 3.0], dtype=torch.float64), atol=0.05)
    assert torch.allclose(value.std(0), torch.tensor([1.0, 1.0, 1.0, 2 / math.sqrt(12)]).double(), atol=0.05)
    assert bool(value.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8])
def test_discrete_bounds_are_both_reached(dtype):
    torch.manual_seed(0)
    same = Bounded(3, 5, (2,), dtype=dtype).rand((200,))
    assert sorted(set(same.flatten().tolist())) == [3, 4, 5]
    rows = Bounded(torch.tensor([0, 7]), torch.tensor([1, 9]), dtype=dtype).rand((300,))
    assert sorted(set(rows[:, 0].tolist())) == [0, 1]
    assert sorted(set(rows[:, 1].tolist())) == [7, 8, 9]


def test_wide_integer_bounds_are_covered_without_wrapping():
    torch.manual_seed(0)
    ends = torch.iinfo(torch.int64)
    whole = Bounded(torch.tensor([ends.min, 0]), torch.tensor([ends.max, ends.max]))
    value = whole.rand((500,))
    assert whole.is_in(value)
    assert value[:, 0].min() < ends.min // 2 and value[:, 0].max() > ends.max // 2
    assert value[:, 1].min() >= 0 and value[:, 1].max() > ends.max // 2


@pytest.mark.parametrize(
    "spec", [Bounded(-1, 1, (0, 3)), OneHot(3, (0, 3)), Categorical(3, (0,)), MultiCategorical([2], (0, 1)), Binary(0)]
)
def test_an_empty_shape_is_legal(spec):
    value = spec.rand((2,))
    assert value.numel() == 0
    assert spec.is_in(value)
    assert spec.project(value) is value


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (Bounded([-1, 0], [1, 5]), [-3.0, 9.0], [-1.0, 5.0]),
        (Bounded([1, -5], [2, -4]), [math.nan, math.nan], [1.0, -4.0]),
        (Bounded(0, 10, (2,), dtype=torch.int64), torch.tensor([2.6, -math.inf]), [3, 0]),
        (Bounded(0, 255, (2,), dtype=torch.uint8), torch.tensor([300, -7]), [255, 0]),
        (Unbounded(2, dtype=torch.int8), torch.tensor([1e9, math.nan]), [127, 0]),
        (Categorical(3, start=2), torch.tensor(9), 4),
        (Categorical(3, start=2), torch.tensor(-math.inf), 2),
        (Categorical(2, dtype=torch.bool), torch.tensor([0.2, 7.0]), [False, True]),
        (OneHot(3), torch.tensor([0.1, 0.7, math.nan]), [False, True, False]),
        (OneHot(3), torch.tensor([False, True, True]), [False, True, False]),
        (OneHot(3, dtype=torch.int64), torch.tensor([-5, -1, -2]), [0, 1, 0]),
        (MultiCategorical([2, 3]), torch.tensor([5, -1]), [1, 0]),
        (MultiOneHot([2, 3]), torch.tensor([0.1, 0.3, 9, 1, 2]), [False, True, True, False, False]),
        (Binary(4), torch.tensor([0.4, 0.6, math.nan, -3]), [0, 1, 0, 0]),
    ],
)
def test_the_nearest_value(spec, value, expected):
    value = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    found = spec.project(value)
    assert found.tolist() == expected
    assert found.dtype == spec.dtype


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (Bounded(0, 9, (2,)), [1, 2], [1.0, 2.0]),
        (Bounded(0, 9, (2,)), np.array([[1.5, 2]], dtype=np.float64), [[1.5, 2.0]]),
        (Bounded(0, 9, (), dtype=torch.int64), 3.0, 3),
        (Unbounded(2), [torch.tensor(1.0), 2], [1.0, 2.0]),
        (Unbounded(()), np.float64(0.25), 0.25),
        (Categorical(2, (1,), dtype=torch.bool), [True], [True]),
        (Categorical(2, (), dtype=torch.bool), 1, True),
        (Categorical(5, start=3), np.int64(4), 4),
        (OneHot(3), 1, [False, True, False]),
        (OneHot(3, start=5), np.array([5, 7]), [[True, False, False], [False, False, True]]),
        (OneHot(3), torch.tensor([0, 1, 0]), [[True, False, False], [False, True, False], [True, False, False]]),
        (OneHot(3), torch.tensor([0.0, 1.0, 0.0]), [False, True, False]),
        (OneHot(2, (3, 2)), [0, 1, 1], [[True, False], [False, True], [False, True]]),
        (MultiCategorical([2, 3]), (1, 2), [1, 2]),
        (MultiOneHot([2, 3]), [1, 2], [False, True, False, False, True]),
        (MultiOneHot([2, 3], dtype=torch.float32, start=[1, 0]), [1, 0], [1.0, 0, 1, 0, 0]),
        (MultiOneHot([[1, 2], [1, 1]]), [[0, 1], [0, 0]], [True, False, True, True, True]),
        (Binary(3), [True, False, True], [1, 0, 1]),
    ],
)
def test_encoding(spec, value, expected):
    found = spec.encode(value)
    assert found.tolist() == expected
    assert found.dtype == spec.dtype
    assert spec.is_in(found)


def test_encoding_can_skip_the_check_of_the_domain():
    assert Bounded(-1, 1, (1,)).encode([5.0], check=False).tolist() == [5]
    assert OneHot(2).encode([True, True], check=False).tolist() == [True, True]
    with pytest.raises(ValueError, match="is outside"):
        OneHot(2).encode(4, check=False)


def test_encoding_does_not_alias_the_arrays_of_an_environment():
    array = np.zeros(2, dtype=np.float32)
    value = Unbounded(2).encode(array)
    array += 1
    assert value.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("spec", "value", "kind", "expected"),
    [
        (OneHot(3, start=1), [0, 1, 0], np.int64, 2),
        (Categorical(3), 2, np.int64, 2),
        (Categorical(2, dtype=torch.bool), True, np.int64, 1),
        (MultiOneHot([2, 3], start=[0, 5]), [0, 1, 1, 0, 0], np.ndarray, [1, 5]),
        (Bounded(0, 1, (1,)), [0.5], np.ndarray, [0.5]),
        (Unbounded(1, dtype=torch.bfloat16), [0.5], np.ndarray, [0.5]),
    ],
)
def test_what_an_environment_is_given(spec, value, kind, expected):
    given = spec.to_numpy(torch.tensor(value, dtype=spec.dtype))
    assert isinstance(given, kind)
    assert given.tolist() == expected


def test_conversion_of_specs_between_encodings():
    assert OneHot(3, (2, 3), start=4).to_categorical_spec() == Categorical(3, (2,), start=4)
    assert Categorical(3, (2,), start=4).to_one_hot_spec() == OneHot(3, (2, 3), start=4)
    assert MultiOneHot([2, 3], (4, 5)).to_categorical_spec() == MultiCategorical([2, 3], (4, 2))
    assert MultiCategorical([2, 3], (4, 2)).to_one_hot_spec() == MultiOneHot([2, 3], (4, 5))
    assert MultiCategorical([[2, 3], [4, 5]]).to_one_hot_spec() == MultiOneHot([[2, 3], [4, 5]])
    assert OneHot(3).to_one_hot_spec() == OneHot(3)
    assert Categorical(3).to_categorical_spec() == Categorical(3)


def test_non_tensor_data():
    spec = NonTensor((2,), example_data={"a": 1})
    value = spec.rand((3,))
    assert isinstance(value, NonTensorData)
    assert value.batch_size == torch.Size([3, 2])
    assert value.data == {"a": 1}
    assert spec.is_in(value) and spec.is_in("anything")
    assert not spec.is_in(torch.zeros(2)) and not spec.is_in(NonTensorData(1, batch_size=[3]))
    assert not spec.is_in(Composite(a=Unbounded(1)).rand())
    assert spec.to_numpy(spec.encode("go")) == "go"
    rows = NonTensorStack(NonTensorData("a"), NonTensorData("b"))
    assert spec.is_in(rows)
    assert spec.encode(rows) is rows
    assert spec.to_numpy(rows) == ["a", "b"]
    assert torch.stack([spec, NonTensor((2,), example_data="b")]).shape == torch.Size([2, 2])
    assert spec.to(torch.float64) is spec
    with pytest.raises(ValueError, match=r"^NonTensor\.project: value: expected type NonTensorData"):
        spec.project(torch.zeros(2))


@pytest.mark.parametrize(
    ("space", "spec"),
    [
        (spaces.Box(-1, 1, (2,), dtype=np.float32), Bounded(-1, 1, (2,))),
        (spaces.Box(-np.inf, np.inf, (2,), dtype=np.float64), Unbounded(2, dtype=torch.float64)),
        (spaces.Box(0, 255, (4, 4, 3), dtype=np.uint8), Bounded(0, 255, (4, 4, 3), dtype=torch.uint8)),
        (spaces.Box(0.0, np.inf, (2,), dtype=np.float32), Bounded(0, math.inf, (2,))),
        (spaces.Discrete(3, start=2), OneHot(3, dtype=torch.int64, start=2)),
        (spaces.Discrete(3, dtype=np.int8), OneHot(3, dtype=torch.int8)),
        (spaces.MultiDiscrete([2, 3]), MultiOneHot([2, 3], dtype=torch.int64)),
        (spaces.MultiDiscrete([2, 3], dtype=np.int32), MultiOneHot([2, 3], dtype=torch.int32)),
        (spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [0, 0]]),
         MultiOneHot([[2, 3], [4, 5]], dtype=torch.int64, start=[[1, 1], [0, 0]])),
        (spaces.MultiBinary(3), Binary(3)),
        (spaces.MultiBinary([2, 3]), Binary(shape=(2, 3))),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Dict(c=spaces.MultiBinary(1))),
         Composite(a=OneHot(2, dtype=torch.int64), b={"c": Binary(1)})),
        (spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(1)]),
         Composite({"0": OneHot(2, dtype=torch.int64), "1": Binary(1)})),
    ],
)  # fmt: skip
def test_the_spec_of_a_space(space, spec):
    assert spec_from_space(space) == spec
    assert space_from_spec(spec) == space


def test_categorical_specs_of_spaces():
    space = spaces.Dict(a=spaces.Discrete(3, start=1), b=spaces.MultiDiscrete([2, 3], dtype=np.int32))
    spec = spec_from_space(space, categorical=True)
    assert spec == Composite(a=Categorical(3, start=1), b=MultiCategorical([2, 3], dtype=torch.int32))


def test_a_device_goes_to_every_leaf():
    spec = spec_from_space(spaces.Dict(a=spaces.Discrete(3), b=spaces.MultiBinary(2)), device="meta")
    assert spec.device == spec["a"].device == spec["b"].device == torch.device("meta")


def test_batched_choices_become_a_multi_discrete_space():
    assert space_from_spec(OneHot(3, (2, 3), start=1)) == spaces.MultiDiscrete([3, 3], start=[1, 1])
    assert space_from_spec(Categorical(3, (2,))) == spaces.MultiDiscrete([3, 3])
    assert space_from_spec(Composite(a=Binary(2), n=None)) == spaces.Dict(a=spaces.MultiBinary(2))


def test_gradients_pass_through_projection_and_not_into_numpy():
    spec = Bounded(-1, 1, (2,))
    value = torch.zeros(2, requires_grad=True)
    assert spec.to_numpy(value).tolist() == [0, 0]
    wild = torch.tensor([3.0, 0.5], requires_grad=True)
    spec.project(wild).sum().backward()
    assert wild.grad.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (OneHot(3, dtype=torch.int64), [0, 2, 0]),
        (OneHot(3, dtype=torch.int64), [0, -1, 0]),
        (OneHot(3, dtype=torch.float32), [0.0, 0.5, 0.0]),
        (OneHot(3, dtype=torch.float32), [1.0, math.nan, 0.0]),
        (MultiOneHot([2, 3], dtype=torch.int64), [2, 0, 0, 1, 0]),
        (MultiOneHot([2, 3], dtype=torch.float32), [1.0, 0.0, 0.0, 0.5, 0.0]),
        (MultiOneHot([2, 3], dtype=torch.float32), [1.0, 0.0, 0.0, math.nan, 0.0]),
        (MultiOneHot([2, 3]), [True, True, True, False, False]),
        (MultiOneHot([2, 3]), [True, False, True, True, False]),
        (Binary(2, dtype=torch.float32), [0.5, 1.0]),
        (Categorical(1, dtype=torch.bool), True),
    ],
)
def test_what_only_resembles_a_choice_is_not_one(spec, value):
    value = torch.tensor(value, dtype=spec.dtype)
    assert not spec.is_in(value)
    assert [violation.kind for violation in spec.violations(value)] == ["domain"]
    assert spec.is_in(spec.project(value))
