"""Modules of a policy and a value function: shared parameters, keys, heads, and slices of sequences."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.data import OneHot
from rlnb.envs import GymEnv
from rlnb.modules import (
    Actor,
    ActorCriticOperator,
    ActorCriticWrapper,
    ActorValueOperator,
    NormalParamExtractor,
    ProbabilisticActor,
    QValueActor,
    SafeModule,
    SafeProbabilisticTensorDictSequential,
    SafeSequential,
    TanhNormal,
    ValueOperator,
)
from rlnb.objectives import ClipPPOLoss

POLICY_KEYS = ["loc", "scale", "action", "action_log_prob"]


def common() -> SafeModule:
    return SafeModule(nn.Linear(4, 5), in_keys=["observation"], out_keys=["hidden"])


def policy(key: str = "hidden", size: int = 5) -> ProbabilisticActor:
    net = nn.Sequential(nn.Linear(size, 4), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, [key], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )


def critic() -> ValueOperator:
    return ValueOperator(nn.Bilinear(5, 2, 1), in_keys=["hidden", "action"])


def data() -> TensorDict:
    return TensorDict({"observation": torch.randn(3, 4)}, [3])


def test_policy_and_value_share_the_common_network() -> None:
    parts = common(), policy(), ValueOperator(nn.Linear(5, 1), in_keys=["hidden"])
    model = ActorValueOperator(*parts)
    assert model.in_keys == ["observation"]
    assert model.out_keys == ["hidden", *POLICY_KEYS, "state_value"]
    assert (model.get_policy_head(), model.get_value_head()) == parts[1:]
    actor, value = model.get_policy_operator(), model.get_value_operator()
    assert (actor.out_keys, value.out_keys) == (["hidden", *POLICY_KEYS], ["hidden", "state_value"])
    td = data()
    whole = model(td.clone())
    assert torch.equal(actor(td.clone())["action"], whole["action"])
    assert set(value(td.clone()).keys()) == {"observation", "hidden", "state_value"}
    dist = actor.get_dist(td.clone())
    assert isinstance(dist, TanhNormal)
    torch.testing.assert_close(dist.log_prob(whole["action"]), actor.log_prob(whole.select("observation", "action")))
    value(td.clone())["state_value"].sum().backward()
    assert parts[0].module.weight.grad is not None
    assert all(parameter.grad is None for parameter in parts[1].parameters())
    with torch.no_grad():
        parts[0].module.weight.zero_()
    assert not torch.equal(actor(td.clone())["loc"], whole["loc"])
    twin = copy.deepcopy(model)
    assert {id(p) for p in twin.get_policy_operator().parameters()} <= {id(p) for p in twin.parameters()}


def test_a_loss_of_both_reaches_the_shared_network() -> None:
    model = ActorValueOperator(common(), policy(), ValueOperator(nn.Linear(5, 1), in_keys=["hidden"]))
    td = model.get_policy_operator()(data()).detach()
    td.update({"advantage": torch.randn(3, 1), "value_target": torch.randn(3, 1)})
    terms = ClipPPOLoss(model.get_policy_operator(), model.get_value_operator())(td)
    (terms["loss_objective"] + terms["loss_critic"]).backward()
    assert model[0].module.weight.grad.abs().sum() > 0


def test_a_deterministic_policy_in_an_env() -> None:
    env = GymEnv("Pendulum-v1")
    model = ActorValueOperator(
        TensorDictModule(nn.Linear(3, 5), ["observation"], ["hidden"]),
        Actor(nn.Linear(5, 1), in_keys=["hidden"], spec=env.action_spec, safe=True),
        ValueOperator(nn.Linear(5, 1), in_keys=["hidden"]),
    )
    assert model.spec["action"] == model.get_policy_operator().spec["action"] == env.action_spec
    assert type(model.get_policy_operator()) is SafeSequential
    assert {"hidden", "action", "state_value"} <= set(env.rollout(3, model).keys())


def test_the_critic_values_the_action_of_the_policy() -> None:
    model = ActorCriticOperator(common(), policy(), critic())
    assert isinstance(model, ActorValueOperator)
    assert model.get_critic_operator() is model
    assert model.get_value_head().out_keys == ["state_action_value"]
    out = model(data())
    expected = model.get_value_head().module(out["hidden"], out["action"])
    assert torch.equal(out["state_action_value"], expected)
    assert model.get_policy_operator().out_keys == ["hidden", *POLICY_KEYS]


def test_wrapped_parts_are_the_ones_that_were_given() -> None:
    actor, value = policy("observation", 4), ValueOperator(nn.Linear(4, 1))
    model = ActorCriticWrapper(actor, value)
    assert model.get_policy_operator() is model.get_policy_head() is actor
    assert model.get_value_operator() is model.get_value_head() is value
    assert model.out_keys == [*POLICY_KEYS, "state_value"]


def test_texts_of_errors() -> None:
    with pytest.raises(TypeError) as error:
        ActorValueOperator(nn.Linear(4, 4), policy(), critic())
    assert str(error.value) == (
        "ActorValueOperator joins modules over TensorDicts, got a Linear. "
        "Fix: TensorDictModule(module, in_keys=['observation'], out_keys=['hidden'])."
    )
    with pytest.raises(ValueError) as error:
        ActorCriticOperator(common(), policy(), ValueOperator(nn.Linear(5, 1), in_keys=["hidden"]))
    assert str(error.value) == (
        "ActorCriticOperator takes a critic of states and actions, and the last module writes 'state_value', the value "
        "of a state. Fix: ActorValueOperator(common, policy, value), or "
        "ValueOperator(critic, in_keys=['hidden', 'action'])."
    )
    with pytest.raises(RuntimeError) as error:
        ActorCriticOperator(common(), policy(), critic()).get_value_operator()
    assert str(error.value) == (
        "ActorCriticOperator has a critic of states and actions, and no value of states. "
        "Fix: model.get_critic_operator()."
    )


# Slices ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "index", "kind", "out_keys"),
    [
        (policy, slice(-1), SafeSequential, ["loc", "scale"]),
        (policy, slice(1, None), SafeProbabilisticTensorDictSequential, ["action", "action_log_prob"]),
        (policy, slice(None), SafeProbabilisticTensorDictSequential, POLICY_KEYS),
        (policy, slice(0), SafeSequential, []),
        (lambda: QValueActor(nn.Linear(4, 2), spec=OneHot(2)), slice(1), SafeSequential, ["action_value"]),
        (lambda: SafeSequential(common(), critic()), slice(1), SafeSequential, ["hidden"]),
        (lambda: ActorCriticOperator(common(), policy(), critic()), slice(0, 3, 2), SafeSequential, None),
    ],
)
def test_slices_are_plain_sequences_of_the_same_modules(make: Any, index: slice, kind: Any, out_keys: Any) -> None:
    whole = make()
    part = whole[index]
    assert type(part) is kind
    assert out_keys is None or part.out_keys == out_keys
    assert all(a is b for a, b in zip(part.module, list(whole.module)[index], strict=True))


def test_a_slice_computes_what_its_part_of_the_whole_does() -> None:
    actor, td = policy(), TensorDict({"hidden": torch.randn(3, 5)}, [3])
    parameters = actor[:-1](td.clone())
    assert torch.equal(parameters["loc"], actor(td.clone())["loc"])
    assert torch.equal(actor[1:](parameters)["action"], actor(td)["action"])
    assert actor[0] is actor.module[0]
    assert SafeSequential(common(), partial_tolerant=True)[:].partial_tolerant
