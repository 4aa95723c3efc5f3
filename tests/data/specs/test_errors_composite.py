"""The texts of errors of Composites, of data that is not a tensor and of conversions of spaces, word for word."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tensordict import TensorDict

from rlnb.data import Bounded, Composite, NonTensor, OneHot, Unbounded, space_from_spec, spec_from_space


def raises(kind, text):
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


CONSTRUCTION = [
    (
        lambda: NonTensor(dtype=torch.float32),
        TypeError,
        "NonTensor has no dtype, got torch.float32. Leave it out.",
    ),
    (
        lambda: Composite(a=Unbounded((3, 2)), shape=(2,)),
        ValueError,
        "'a': expected a shape that begins with [2], the shape of the Composite, got [3, 2] (UnboundedContinuous). "
        "Give the spec a batch dimension: spec.expand(2, 3, 2).",
    ),
    (
        lambda: Composite({"a": {"b": Unbounded(3)}}, shape=(2,)),
        ValueError,
        "'b': expected a shape that begins with [2], the shape of the Composite, got [3] (UnboundedContinuous). "
        "Give the spec a batch dimension: spec.expand(2, 3).",
    ),
    (
        lambda: Composite(a=3),
        TypeError,
        "'a': expected a spec, a mapping of specs or None, got int.",
    ),
    (
        lambda: Composite([("a", None)]),
        TypeError,
        "Composite takes one mapping from keys to specs, and more specs as keyword arguments.",
    ),
    (
        lambda: Composite(shape=(2,), batch_size=(3,)),
        ValueError,
        "Composite got shape=(2,) and batch_size=(3,), which are two names of one argument. Give only one of them.",
    ),
    (
        lambda: Composite({1: Unbounded(2)}),
        TypeError,
        "a key is a string or a tuple of strings such as ('agents', 'action'), got 1.",
    ),
]


@pytest.mark.parametrize(("build", "kind", "text"), CONSTRUCTION, ids=[text[:40] for _, _, text in CONSTRUCTION])
def test_a_spec_that_makes_no_sense_is_refused(build, kind, text):
    with raises(kind, text):
        build()


VALUES = [
    (
        NonTensor(shape=()),
        torch.zeros(2),
        "value: expected type NonTensorData, got Tensor. Describe tensors with Unbounded or Bounded, TensorDicts with "
        "Composite.",
    ),
    (
        Composite(a=Unbounded(1)),
        torch.zeros(2),
        "value: expected type TensorDict, got Tensor. Wrap the tensors: TensorDict({...}, batch_size=...).",
    ),
]


@pytest.mark.parametrize(("spec", "value", "text"), VALUES, ids=[text[:50] for _, _, text in VALUES])
def test_a_value_that_does_not_fit_is_explained(spec, value, text):
    assert not spec.is_in(value)
    with raises(AssertionError, text):
        spec.assert_is_in(value)
    assert [str(violation) for violation in spec.violations(value)] == [text]


CHOICE = "Check how the value is computed, or give the spec more choices."
CALLS = [
    (
        lambda: NonTensor().type_check(torch.zeros(3)),
        TypeError,
        "value: expected data that is not a tensor (NonTensor), got a tensor of torch.float32.",
    ),
    (
        lambda: torch.stack([Composite(a=None), Composite(a=None, shape=(2,))]),
        ValueError,
        "torch.stack needs Composites of one shape: number 0 has [], number 1 has [2]. Expand them first: "
        "spec.expand(...).",
    ),
    (
        lambda: spec_from_space(spaces.Space()),
        TypeError,
        "there is no spec for a Space space. Convertible: Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple, "
        "OneOf, Text, Sequence, Graph. Wrap the environment so that its data has one of these.",
    ),
    (
        lambda: spec_from_space(spaces.Box(0, 9, (2,), dtype=np.uint16)),
        TypeError,
        "there is no spec for a Box of dtype uint16. Supported: float16, bfloat16, float32, float64, int8, int16, "
        "int32, int64, uint8, bool. Wrap the environment so that its data has one of these.",
    ),
    (
        lambda: space_from_spec(NonTensor()),
        TypeError,
        "there is no Gymnasium space for a NonTensor that does not describe its data. Describe the data of one row: "
        "NonTensor(shape=(), space=gymnasium.spaces.Text(...)).",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), CALLS, ids=[text[:50] for _, _, text in CALLS])
def test_a_call_that_cannot_work_says_why(call, kind, text):
    with raises(kind, text):
        call()


SPEC = Composite(observation=Bounded(-1, 1, (2,)), agent=Composite(action=OneHot(3)))
COMPOSITE_CALLS = [
    (
        lambda: SPEC["reward"],
        KeyError,
        "no key 'reward' in the spec, which has 'observation', ('agent', 'action'), 'agent'.",
    ),
    (
        lambda: SPEC["agent", "logits"],
        KeyError,
        "no key ('agent', 'logits') in the spec, which has 'observation', ('agent', 'action'), 'agent'.",
    ),
    (
        lambda: SPEC.select("reward"),
        KeyError,
        "no key 'reward' in the spec, which has 'observation', ('agent', 'action'), 'agent'.",
    ),
    (
        lambda: SPEC.clone().pop("reward"),
        KeyError,
        "no key 'reward' in the spec, which has 'observation', ('agent', 'action'), 'agent'.",
    ),
    (
        lambda: SPEC.encode({"observation": [0, 0], "agent": {"action": 1}, "reward": 2}),
        KeyError,
        "no key 'reward' in the spec, which has 'observation', 'agent'.",
    ),
    (
        lambda: SPEC.encode({"observation": [0, 0]}),
        KeyError,
        "no key 'agent' in the data, which has 'observation'.",
    ),
    (
        lambda: SPEC.encode({"observation": [0, 0], "agent": {"action": 3}}),
        ValueError,
        f"agent: action: OneHot.encode: value: 3 is outside {{0, 1, 2}}. {CHOICE}",
    ),
    (
        lambda: SPEC.encode({"observation": [[0, 0]], "agent": {"action": 2}}),
        ValueError,
        "Composite.encode: agent: expected the leading dimensions [1] of the entries before it, got []. Give all "
        "entries the same batch dimensions.",
    ),
    (
        lambda: SPEC.encode(3),
        TypeError,
        "Composite.encode: expected a dictionary with the keys ['observation', 'agent'], got int.",
    ),
    (
        lambda: SPEC.project(TensorDict({"observation": torch.zeros(2)})),
        KeyError,
        "no key 'agent' in the data, which has 'observation'.",
    ),
    (
        lambda: SPEC.type_check(SPEC.rand().set("observation", torch.zeros(2, dtype=torch.int64))),
        TypeError,
        "observation: expected dtype torch.float32 (BoundedContinuous), got torch.int64. "
        "Cast it: value.to(torch.float32).",
    ),
    (
        lambda: SPEC.expand(2)[0, 0],
        IndexError,
        "index (0, 0) has 2 dims, but only the 1 leading dims can be indexed.",
    ),
    (
        lambda: SPEC.expand(2).expand(3),
        ValueError,
        "Composite of shape [2] does not expand to [3]: the new shape must end with [2], where only dims of size 1 may "
        "change.",
    ),
    (
        lambda: SPEC.to(torch.int64),
        TypeError,
        "Composite.to changes floating entries only, got torch.int64. Change the entry itself.",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), COMPOSITE_CALLS, ids=[text[:50] for _, _, text in COMPOSITE_CALLS])
def test_a_composite_call_that_cannot_work_says_why(call, kind, text):
    with raises(kind, text):
        call()


@pytest.mark.parametrize(
    ("write", "action"),
    [
        (lambda spec: spec.set("new", Unbounded(2)), "set 'new'"),
        (lambda spec: spec.__setitem__(("agent", "new"), Unbounded(2)), "set ('agent', 'new')"),
        (lambda spec: spec["agent"].set("new", None), "set 'new'"),
        (lambda spec: spec.update({"new": Unbounded(2)}), "update it"),
        (lambda spec: spec.__delitem__("observation"), "delete 'observation'"),
        (lambda spec: spec.pop(("agent", "action")), "delete ('agent', 'action')"),
    ],
)
def test_a_locked_composite_refuses_writes_and_stays_what_it_was(write, action):
    spec = SPEC.clone().lock_()
    text = (
        f"cannot {action}: this Composite is locked, because its owner (such as an environment) relies on it. "
        "Change a copy, spec.clone(), or unlock it first: spec.unlock_()."
    )
    with raises(RuntimeError, text):
        write(spec)
    assert spec == SPEC
    assert spec.is_locked
    write(spec.clone())
    write(spec.unlock_())
    assert spec != SPEC
