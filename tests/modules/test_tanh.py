"""TanhModule: its interval, its keys, its place in a rollout, and errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.data import Bounded, Categorical, Composite, Unbounded
from rlnb.envs import GymEnv
from rlnb.modules import OrnsteinUhlenbeckProcessModule, TanhModule

SPEC = Bounded(-2.0, torch.tensor([1.0, 4.0]), (2,))
FINITE = st.floats(-50, 50)


@given(low=FINITE, width=st.floats(0, 50), value=FINITE)
def test_the_interval(low: float, width: float, value: float) -> None:
    x = torch.tensor([value], dtype=torch.float64)
    ends = torch.tensor([low, low + width], dtype=torch.float64)
    y = TanhModule(["x"], low=ends[0], high=ends[1])(x)
    torch.testing.assert_close((y - low), width * (1 + x.tanh()) / 2)
    assert y.dtype == torch.float64


def test_bounds_of_a_spec_a_tensor_or_the_unit_interval() -> None:
    far = torch.tensor([[-100.0, 100.0]])
    for module, ends in [
        (TanhModule(["param"], ["action"], spec=SPEC), [-2, 4]),
        (TanhModule("param", "action", spec=Composite(action=SPEC)), [-2, 4]),
        (TanhModule(["param"], ["action"], low=[-3, 0], high=5), [-3, 5]),
        (TanhModule(["param"], ["action"], high=3), [-1, 3]),
        (TanhModule(["param"], ["action"]), [-1, 1]),
    ]:
        data = module(TensorDict({"param": far}, [1]))
        assert data["action"].tolist() == [ends] and data["param"] is far
        assert module.in_keys == ["param"] and module.out_keys == ["action"]
        inner = TensorDict({"param": far / 100}, [1])
        assert (module(inner)["action"] != torch.tensor(ends)).all()


def test_outputs_that_are_clamped_can_be_inverted() -> None:
    far = torch.tensor([-100.0, 100.0])
    assert TanhModule(["x"], high=3.0)(far).tolist() == [-1, 3]
    kept = TanhModule(["x"], high=3.0, clamp=True)(far)
    assert (((kept - 1) / 2).atanh().abs() < 10).all() and kept.tolist() == pytest.approx([-1, 3], abs=1e-5)


def test_several_nested_entries_overwrite_themselves() -> None:
    spec = Composite(agents=Composite(speed=Bounded(0.0, 1.0, (2,)), turn=Bounded(-9.0, 9.0, (2,))))
    module = TanhModule([("agents", "speed"), ("agents", "turn")], spec=spec)
    far = torch.full((3, 2), 100.0)
    data = module(TensorDict({"agents": {"speed": -far, "turn": far}}, [3]))
    assert (data["agents", "speed"] == 0).all() and (data["agents", "turn"] == 9).all()
    assert sorted(module.state_dict()) == [
        f"agents_{name}_{end}" for name in ("speed", "turn") for end in ("high", "low")
    ]


def test_the_last_part_of_a_policy() -> None:
    env = GymEnv("Pendulum-v1")
    net = TensorDictModule(nn.Linear(3, 1), ["observation"], ["param"])
    policy = TensorDictSequential(net, TanhModule(["param"], ["action"], spec=env.action_spec))
    data = env.rollout(5, policy)
    torch.testing.assert_close(data["action"], 2 * data["param"].tanh())
    noise = OrnsteinUhlenbeckProcessModule(spec=policy[-1].spec.clone())
    assert noise.spec["action"] == env.action_spec


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: TanhModule(["x"], spec=Categorical(3)),
            ValueError,
            "TanhModule maps to an interval of real numbers, and the spec of 'x' is a Categorical of dtype "
            "torch.int64. Fix: a Bounded action, or TanhModule(..., low=-1.0, high=1.0) without a spec.",
        ),
        (lambda: TanhModule(["x"], spec=Unbounded((2,))), ValueError, None),
        (
            lambda: TanhModule(["x"], spec=SPEC, low=-1.0),
            ValueError,
            "TanhModule got low=-1.0, and the spec of 'x' has another one: [-2.0, -2.0]. Fix: leave low out.",
        ),
        (
            lambda: TanhModule(["x"], low=2, high=1),
            ValueError,
            "TanhModule got a low of 2.0, which is above the high of 1.0. Fix: low=-1.0, high=1.0.",
        ),
        (
            lambda: TanhModule(["x", "y"], ["action"]),
            ValueError,
            "TanhModule writes one output for each input, got the inputs ['x', 'y'] and the outputs ['action']. "
            "Fix: out_keys=['action'] for in_keys=['param'].",
        ),
        (
            lambda: TanhModule(["param"])(TensorDict({"observation": torch.ones(2)})),
            KeyError,
            "TanhModule reads 'param', and the data has: 'observation'. A network before it should write that entry. "
            "Fix: TensorDictModule(net, in_keys=['observation'], out_keys=['param']).",
        ),
    ],
)
def test_texts_of_errors(make, error, text) -> None:
    with pytest.raises(error) as info:
        make()
    assert text is None or info.value.args[0] == text
