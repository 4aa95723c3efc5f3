"""Transform: its keys, its override points, missing entries, and use as a module."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Bounded
from rlnb.envs import CartPoleEnv, Compose, DoubleToFloat, RenameTransform, Transform, TransformedEnv
from tests.envs.transforms.cases import Double, Numbers


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (None, []),
        ("reward", ["reward"]),
        (("nested", "reward"), [("nested", "reward")]),
        (["reward", ("nested", "reward")], ["reward", ("nested", "reward")]),
        ([("reward",)], ["reward"]),
    ],
)
def test_keys_are_spelled_in_one_way(given, keys):
    transform = Transform(given, in_keys_inv=given)
    assert transform.in_keys == transform.out_keys == transform.in_keys_inv == transform.out_keys_inv == keys
    assert transform.in_keys is not transform.out_keys


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: Transform("a", ["b", "c"]),
            ValueError,
            "Transform got 1 in_keys and 2 out_keys: they must pair up one by one. A nested key is one key: write "
            "[('nested', 'reward')] for a list of one.",
        ),
        (
            lambda: Transform(in_keys_inv=["a", "b"], out_keys_inv="a"),
            ValueError,
            "Transform got 2 in_keys_inv and 1 out_keys_inv: they must pair up one by one. A nested key is one key: "
            "write [('nested', 'reward')] for a list of one.",
        ),
        (
            lambda: Transform([3]),
            TypeError,
            "in_keys must be keys, each a string or a tuple of strings, got 3 of type int.",
        ),
        (
            lambda: Transform(3),
            TypeError,
            "in_keys must be keys, each a string or a tuple of strings, got 3 of type int.",
        ),
        (
            lambda: Transform(("a", 1)),
            TypeError,
            "in_keys must be keys, each a string or a tuple of strings, got 1 of type int.",
        ),
    ],
)
def test_keys_that_are_none_or_do_not_pair_up(make, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        make()


def test_what_an_own_transform_does_not_say(counter):
    env = TransformedEnv(counter(), Transform("observation"))
    with pytest.raises(NotImplementedError) as raised:
        env.reset()
    assert str(raised.value) == (
        "Transform has in_keys=['observation'], but does not define what to do with them. Fix: implement "
        "_apply_transform, "
        "which changes one value, or _call, which changes the data of a step."
    )
    with pytest.raises(NotImplementedError) as raised:
        Transform(in_keys_inv="action").inv(TensorDict({"action": 1}))
    assert str(raised.value) == (
        "Transform has in_keys_inv=['action'], but no inverse. Fix: leave in_keys_inv out, or implement "
        "_inv_apply_transform."
    )


class Recorder(Transform):
    """Notes what its methods are called with."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def _step(self, tensordict, next_tensordict):
        self.calls.append(("step", sorted(tensordict.keys()), sorted(next_tensordict.keys())))
        return next_tensordict

    def _reset(self, tensordict, tensordict_reset):
        self.calls.append(("reset", sorted(tensordict.keys()), sorted(tensordict_reset.keys())))
        return tensordict_reset

    def _inv_call(self, tensordict):
        self.calls.append(("inv", sorted(tensordict.keys())))
        return tensordict


def test_the_override_points_and_what_they_see(counter):
    env = TransformedEnv(counter(), Recorder())
    td = env.reset()
    env.step(env.rand_action(td))
    env.reset(TensorDict({"hint": 1}))
    root = ["done", "observation", "terminated"]
    assert env.transform.calls == [
        ("reset", [], root),
        ("inv", ["action", *root]),
        ("step", ["action", *root], ["done", "observation", "reward", "terminated"]),
        ("reset", ["hint"], root),
    ]


def test_a_value_is_changed_forwards_and_back():
    env = TransformedEnv(Numbers(), Double("velocity", "speed", "action", "push"))
    env.set_seed(0)
    td = env.reset()
    assert torch.equal(td["speed"], td["velocity"] * 2)
    assert env.action_keys == ["action"] or "push" in env.action_keys
    td["push"] = torch.tensor([0.5], dtype=torch.float64)
    td["action"] = torch.zeros(1, dtype=torch.float64)
    after = env.step(td)["next"]
    assert torch.allclose(after["position"], td["position"] + 0.25)


class Shifted(Transform):
    """Adds one to a value, and to the bounds of its spec."""

    def _apply_transform(self, value):
        return value + 1

    def _apply_to_spec(self, spec):
        return Bounded(spec.low + 1, spec.high + 1, shape=spec.shape, dtype=spec.dtype)


def test_a_spec_is_changed_as_its_value_is():
    env = TransformedEnv(Numbers((2,)), Shifted("position", "moved"))
    spec = env.observation_spec["moved"]
    assert (spec.shape, spec.low.unique().item(), spec.high.unique().item()) == ((2, 2), -99, 101)
    assert env.observation_spec["position"].low.unique().item() == -100


# Missing entries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "hint"),
    [
        ("reset", "If only steps return it: transform.set_missing_tolerance(True)."),
        ("forward", "The keys are those that the transforms before this one leave."),
    ],
)
def test_a_missing_entry(moment, hint):
    transform = Double("positoin")
    with pytest.raises(KeyError) as raised:
        if moment == "reset":
            TransformedEnv(Numbers(), transform).reset()
        else:
            transform(TensorDict({"position": 1, "velocity": 2}))
    more = ", 'done', 'terminated', 'truncated'" if moment == "reset" else ""
    assert str(raised.value) == (
        f"no key 'positoin' in the data that Double reads, which has 'position', 'velocity'{more}. "
        f"Did you mean 'position'? {hint}"
    )


def test_what_steps_alone_give_may_be_missing_at_a_reset():
    env = TransformedEnv(CartPoleEnv(), Double("reward"))
    assert "reward" not in env.reset()
    assert env.rollout(2)["next", "reward"].flatten().tolist() == [2, 2]


def test_missing_entries_can_be_tolerated():
    chain = Compose(Double("nothing"), RenameTransform("nobody", "somebody"))
    chain.set_missing_tolerance(True)
    env = TransformedEnv(Numbers(), chain)
    env.set_seed(0)
    assert "somebody" not in env.rollout(3)["next"]
    with pytest.raises(KeyError, match="no key 'nothing' in the data that Double reads"):
        chain.set_missing_tolerance(False)
        env.reset()


def test_a_state_that_a_reset_reads_is_changed_back(counter):
    seen = []

    def look(env):
        return TensorDict({"observation": torch.zeros(1)})

    env = counter(reset=look)
    env.state_spec = Bounded(0, 9, shape=(1,))
    inner_reset = env._reset
    env._reset = lambda tensordict=None, **kwargs: (seen.append(tensordict), inner_reset(tensordict, **kwargs))[1]
    made = TransformedEnv(env, Compose(Double(in_keys_inv="state"), RenameTransform([], [], "state", "outer")))
    given = TensorDict({"outer": torch.tensor([4.0]), "_reset": torch.tensor([True])})
    made.reset(given)
    assert seen[0]["state"].item() == 2.0
    assert made.state_keys == ["outer"]


# As a module --------------------------------------------------------------------------------------------------------


def test_called_with_tensors():
    double = Double(["a", "b"], ["c", "d"])
    first, second = double(a=torch.ones(2), b=torch.zeros(2))
    assert first.tolist() == [2, 2] and second.tolist() == [0, 0]
    assert DoubleToFloat("a")(torch.ones(1, dtype=torch.float64)).dtype == torch.float32


def test_next_is_a_key_like_any_other():
    td = TensorDict({"a": torch.ones(4, 1), "next": {"a": torch.ones(4, 1)}}, [4])
    out = Double(["a", ("next", "a")])(td)
    assert out is td
    assert out["a"].unique().item() == out["next", "a"].unique().item() == 2


def test_parameters_of_a_transform_learn():
    class Scale(Transform):
        def __init__(self):
            super().__init__("velocity")
            self.weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

        def _apply_transform(self, value):
            return value * self.weight

    env = TransformedEnv(Numbers(), Scale())
    env.set_seed(0)
    env.rollout(3)["next", "velocity"].sum().backward()
    assert env.transform.weight.grad is not None
    assert list(env.state_dict()) == ["weight"]
