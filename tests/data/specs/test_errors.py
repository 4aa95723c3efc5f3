"""The texts of errors of leaf specs, word for word."""

from __future__ import annotations

import re

import pytest
import torch

from rlnb.data import Binary, Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot, Unbounded


def exactly(text):
    return "^" + re.escape(text) + "$"


def raises(kind, text):
    return pytest.raises(kind, match=exactly(text))


DTYPES = (
    "torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, "
    "torch.uint8, torch.bool"
)

CONSTRUCTION = [
    (
        lambda: Bounded(-1, 1),
        ValueError,
        "Bounded needs a shape: pass shape=(3,) or shape=(), or bounds that have one.",
    ),
    (
        lambda: Bounded(low=-1, shape=(2,)),
        TypeError,
        "Bounded needs both low and high; use -torch.inf or torch.inf for a side without a bound.",
    ),
    (lambda: Bounded(float("nan"), 1, (2,)), ValueError, "the bounds of Bounded must be numbers, got NaN."),
    (
        lambda: Bounded([0, 2], [1, 1]),
        ValueError,
        "Bounded needs low <= high everywhere, got low=[0.0, 2.0], high=[1.0, 1.0].",
    ),
    (
        lambda: Bounded([0, 0], 1, shape=(3,)),
        ValueError,
        "the bounds of shapes [2] (low) and [] (high) do not fit the shape [3].",
    ),
    (
        lambda: Bounded(0, 300, shape=(2,), dtype=torch.uint8),
        ValueError,
        "the bounds 300 do not fit torch.uint8, which holds 0 to 255.",
    ),
    (
        lambda: Bounded(0, 1.5, shape=(2,), dtype=torch.int64),
        ValueError,
        "the bounds of a Bounded of torch.int64 must be whole numbers, got 1.5.",
    ),
    (
        lambda: Unbounded(3, dtype=torch.complex64),
        TypeError,
        f"a spec cannot have dtype torch.complex64. Supported: {DTYPES}.",
    ),
    (
        lambda: Unbounded(3, dtype="float33"),
        TypeError,
        f"a spec cannot have dtype float33. Supported: {DTYPES}.",
    ),
    (
        lambda: Unbounded((3, -2)),
        ValueError,
        "a shape has no negative sizes except -1 (a dim of variable size), got (3, -2). Give every dim its size.",
    ),
    (lambda: Categorical(0), ValueError, "Categorical needs at least one choice, got n=0."),
    (
        lambda: Categorical(3, dtype=torch.bool),
        ValueError,
        "Categorical: the choices {0, 1, 2} do not fit torch.bool, which holds 0 to 1. Use torch.int64.",
    ),
    (
        lambda: Categorical(4000, dtype=torch.float16),
        ValueError,
        "Categorical: the choices {0, ..., 3999} do not fit torch.float16, which holds -2048 to 2048. Use torch.int64.",
    ),
    (
        lambda: OneHot(3, shape=(3, 2)),
        ValueError,
        "OneHot(n=3) needs n >= 1 and a shape that ends with n, got shape [3, 2].",
    ),
    (
        lambda: MultiCategorical([2, 0]),
        ValueError,
        "MultiCategorical needs nvec as a list of positive numbers, got [2, 0].",
    ),
    (
        lambda: MultiCategorical([2, 3], shape=(3,)),
        ValueError,
        "MultiCategorical: the shape must end with the shape of nvec, [2], got [3].",
    ),
    (
        lambda: MultiCategorical([2, 3], start=[1, 2, 3]),
        ValueError,
        "MultiCategorical: start has shape [3], but nvec has shape [2].",
    ),
    (
        lambda: MultiCategorical([2, 300], dtype=torch.int8),
        ValueError,
        "MultiCategorical: the choices go from 0 to 299, but torch.int8 holds -128 to 127. Use torch.int64.",
    ),
    (
        lambda: MultiOneHot([2, 3], shape=(4,)),
        ValueError,
        "MultiOneHot: the shape must end with the sum of nvec, 5, got [4].",
    ),
    (lambda: Binary(), TypeError, "Binary needs n or shape: Binary(3) or Binary(shape=(2, 3))."),
    (
        lambda: Binary(3, shape=(2,)),
        ValueError,
        "Binary(n=3) needs a shape that ends with n, got shape [2].",
    ),
]


@pytest.mark.parametrize(("build", "kind", "text"), CONSTRUCTION, ids=[text[:40] for _, _, text in CONSTRUCTION])
def test_a_spec_that_makes_no_sense_is_refused(build, kind, text):
    with raises(kind, text):
        build()


CLIP = "Clip it with spec.project(value), or widen the bounds of the spec."
HOT = "Make it with spec.encode(i), or take the largest entry: spec.project(value)."
CHOICE = "Check how the value is computed, or give the spec more choices."

VALUES = [
    (
        Bounded(-1, 1, (2, 3)),
        torch.tensor([[0.0, 0, 3.5], [0, -2, 0]]),
        f"value: 3.5 at index (0, 2) (and 1 more) is outside [-1, 1]. {CLIP}",
    ),
    (
        Bounded([0, 10], [1, 20]),
        torch.tensor([[1.0, 10], [0.5, float("nan")]]),
        f"value: nan at index (1, 1) is outside [10, 20]. {CLIP}",
    ),
    (
        Bounded(0, 5, (), dtype=torch.int64),
        torch.tensor(7),
        f"value: 7 is outside [0, 5]. {CLIP}",
    ),
    (
        Bounded(0, 1, (3,)),
        torch.zeros(4),
        "value: expected shape [3], got [4]. Change the data, or the shape of the spec.",
    ),
    (
        Bounded(0, 1, (1,)),
        torch.zeros(()),
        "value: expected shape [1], got []. A leading dimension is missing: value.unsqueeze(0).",
    ),
    (
        Bounded(0, 1, (4, 1)),
        torch.zeros(4),
        "value: expected shape [4, 1], got [4]. A trailing dimension of size 1 is missing: value.unsqueeze(-1).",
    ),
    (
        Bounded(0, 1, (2, 3)),
        torch.zeros(3),
        "value: expected shape [2, 3], got [3]. The batch dimensions [2] are missing: give one row for each, or "
        "value.expand([2, 3]).",
    ),
    (
        Bounded(0, 1, (2, 3)),
        torch.zeros(2, 1, 3),
        "value: expected shape [2, 2, 3], got [2, 1, 3]. Change the data, or the shape of the spec.",
    ),
    (
        Bounded(0, 1, (2, 3)),
        torch.zeros(6),
        "value: expected shape [2, 3], got [6]. The number of entries is right: value.reshape([2, 3]).",
    ),
    (
        Unbounded(2),
        torch.zeros(2, dtype=torch.float64),
        "value: expected dtype torch.float32, got torch.float64. Cast it: value.to(torch.float32).",
    ),
    (
        Unbounded(2),
        [0.0, 1.0],
        "value: expected type torch.Tensor, got list. Convert it with spec.encode(value).",
    ),
    (
        Unbounded(2),
        torch.zeros(2, device="meta"),
        "value: expected device cpu, got meta. Move it: value.to('cpu'), or the spec: spec.to('meta').",
    ),
    (Categorical(3), torch.tensor([0, 3]), f"value: 3 at index (1,) is outside {{0, 1, 2}}. {CHOICE}"),
    (Categorical(9, start=2), torch.tensor(1), f"value: 1 is outside {{2, ..., 10}}. {CHOICE}"),
    (
        Categorical(4, shape=(2,)),
        torch.zeros(2, 4, dtype=torch.int64),
        "value: expected shape [2, 2], got [2, 4]. Change the data, or the shape of the spec.",
    ),
    (
        OneHot(3),
        torch.tensor([[True, False, False], [True, True, False]]),
        "value: [1, 1, 0] at index (1,) is outside the one-hot vectors of length 3 (one entry is 1, the others are 0). "
        + HOT,
    ),
    (
        OneHot(3, dtype=torch.float32),
        torch.tensor([0.5, 0.5, 0.0]),
        "value: [0.5, 0.5, 0] is outside the one-hot vectors of length 3 (one entry is 1, the others are 0). " + HOT,
    ),
    (
        MultiCategorical([2, 3], start=[0, 1]),
        torch.tensor([1, 4]),
        f"value: 4 at index (1,) is outside {{1, 2, 3}}. {CHOICE}",
    ),
    (
        MultiCategorical([2, 3]),
        torch.tensor([0, 1, 0, 0, 1]),
        "value: expected shape [2], got [5]. One-hot vectors were given where integers are expected: "
        "spec.to_one_hot_spec().to_categorical(value).",
    ),
    (
        MultiOneHot([2, 3]),
        torch.tensor([True, False, False, False, False]),
        "value: [1, 0, 0, 0, 0] is outside the one-hot vectors of lengths [2, 3] in a row (one entry of each is 1, the "
        "others are 0). Make it with spec.encode(choices), or take the largest entries: spec.project(value).",
    ),
    (
        Binary(2),
        torch.tensor([0, 2], dtype=torch.int8),
        "value: 2 at index (1,) is outside {0, 1}. Threshold it first, for example (value > 0.5), or round it with "
        "spec.project(value).",
    ),
]


@pytest.mark.parametrize(("spec", "value", "text"), VALUES, ids=[text[:50] for _, _, text in VALUES])
def test_a_value_that_does_not_fit_is_explained(spec, value, text):
    assert not spec.is_in(value)
    with raises(AssertionError, text):
        spec.assert_is_in(value)
    assert [str(violation) for violation in spec.violations(value)] == [text]


ENCODINGS = [
    (
        OneHot(3),
        torch.tensor(1),
        "value: expected dtype torch.bool, got torch.int64. Cast it: value.to(torch.bool).",
    ),
    (
        OneHot(3),
        torch.tensor(1),
        "value: expected shape [3], got []. An integer was given where a one-hot vector of length 3 is expected: "
        "spec.encode(value).",
    ),
    (
        MultiOneHot([2, 3]),
        torch.tensor([1, 2]),
        "value: expected shape [5], got [2]. Integers were given where one-hot vectors of lengths [2, 3] are expected: "
        "spec.encode(value).",
    ),
    (
        Categorical(3, shape=(4,)),
        torch.eye(3, dtype=torch.int64)[[0, 1, 2, 0]],
        "value: expected shape [4], got [4, 3]. A one-hot vector was given where an integer is expected: "
        "spec.to_one_hot_spec().to_categorical(value).",
    ),
]


@pytest.mark.parametrize(("spec", "value", "text"), ENCODINGS, ids=[text[:60] for _, _, text in ENCODINGS])
def test_the_wrong_encoding_of_a_choice_is_named(spec, value, text):
    assert text in [str(violation) for violation in spec.violations(value)] or text in [
        str(violation) for violation in spec.violations(value, leading=0)
    ]


CALLS = [
    (
        lambda: OneHot(3).encode(5),
        ValueError,
        f"OneHot.encode: value: 5 is outside {{0, 1, 2}}. {CHOICE}",
    ),
    (
        lambda: OneHot(3).to_numpy(torch.tensor(1)),
        ValueError,
        "OneHot.to_numpy: value: expected shape [3], got []. An integer was given where a one-hot vector of length 3 "
        "is expected: spec.encode(value).",
    ),
    (
        lambda: OneHot(3).to_numpy(torch.zeros(3, dtype=torch.bool)),
        ValueError,
        "OneHot.to_numpy: value: [0, 0, 0] is outside the one-hot vectors of length 3 (one entry is 1, the others are "
        f"0). {HOT}",
    ),
    (
        lambda: Categorical(3).to_one_hot(torch.tensor(4)),
        ValueError,
        f"Categorical.to_one_hot: value: 4 is outside {{0, 1, 2}}. {CHOICE}",
    ),
    (
        lambda: OneHot(3).to_categorical(torch.ones(3)),
        ValueError,
        "OneHot.to_categorical: value: [1, 1, 1] is outside the one-hot vectors of length 3 (one entry is 1, the "
        f"others are 0). {HOT}",
    ),
    (
        lambda: Bounded(-1, 1, (3,)).encode([5, 5, 5]),
        ValueError,
        f"BoundedContinuous.encode: value: 5 at index (0,) (and 2 more) is outside [-1, 1]. {CLIP}",
    ),
    (
        lambda: Categorical(4).encode(2.5),
        ValueError,
        "Categorical.encode: value: 2.5 at index () cannot be written as torch.int64. Round it first, or give the "
        "spec another dtype.",
    ),
    (
        lambda: Bounded(0, 255, (2,), dtype=torch.uint8).encode([1, 256]),
        ValueError,
        "BoundedDiscrete.encode: value: 256 at index (1,) cannot be written as torch.uint8. Round it first, or give "
        "the spec another dtype.",
    ),
    (
        lambda: Unbounded(3).project(torch.zeros(2)),
        ValueError,
        "UnboundedContinuous.project: value: expected shape [3], got [2]. Change the data, or the shape of the spec.",
    ),
    (
        lambda: Bounded(-1, 1, (3,)).type_check(torch.zeros(3, dtype=torch.int64), "action"),
        TypeError,
        "action: expected dtype torch.float32 (BoundedContinuous), got torch.int64. Cast it: value.to(torch.float32).",
    ),
    (
        lambda: OneHot(3).expand(2),
        ValueError,
        "OneHot of shape [3] does not expand to [2]: the new shape must end with [3], where only dims of size 1 may "
        "change.",
    ),
    (
        lambda: OneHot(3).unsqueeze(-1),
        IndexError,
        "OneHot.unsqueeze: dim -1 is out of range for 1 dims; legal: 0 to 0 (the last 1 dims hold the encoding and "
        "cannot be changed).",
    ),
    (
        lambda: Unbounded(3).squeeze(1),
        IndexError,
        "UnboundedContinuous.squeeze: dim 1 is out of range for 1 dims; legal: 0 to 0.",
    ),
    (lambda: Categorical(3)[0], IndexError, "index 0 has 1 dims, but only the 0 leading dims can be indexed."),
    (
        lambda: torch.stack([OneHot(3), Categorical(3)]),
        ValueError,
        "torch.stack needs specs of one kind: number 0 is OneHot, number 1 is Categorical.",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), CALLS, ids=[text[:50] for _, _, text in CALLS])
def test_a_call_that_cannot_work_says_why(call, kind, text):
    with raises(kind, text):
        call()


def test_an_object_that_is_not_a_number_is_rejected_with_the_reason():
    with pytest.raises(TypeError) as caught:
        Unbounded(2).encode(["a", "b"])
    text = str(caught.value)
    assert text.startswith(
        "UnboundedContinuous.encode: a list cannot be converted to a tensor of dtype torch.float32 ("
    )
    assert text.endswith("). Give numbers, lists of numbers, arrays or tensors.")
