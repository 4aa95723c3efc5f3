"""Policies of losses: the keys that they write, composite actions, and policies without log-probabilities."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import (
    CompositeDistribution,
    InteractionType,
    NormalParamExtractor,
    TensorDictModule,
    set_composite_lp_aggregate,
)
from torch import nn
from torch.distributions import Categorical, kl_divergence

from rlnb.modules import Actor, Delta, IndependentNormal, ProbabilisticActor, TanhDelta
from rlnb.objectives import A2CLoss, ClipPPOLoss, IQLLoss, KLPENPPOLoss, PPOLoss, ReinforceLoss, SACLoss
from tests.objectives.golden.make import OBS, critic, qvalue, wave, with_advantage, with_old_policy

PPO = (PPOLoss, ClipPPOLoss, KLPENPPOLoss)
ACTION = [("action", "gear"), ("action", "steer")]
LOG_PROB = [("action", "gear_log_prob"), ("action", "steer_log_prob")]
ENTROPY = [("action", "gear_entropy"), ("action", "steer_entropy")]


def actor(action="action", observation="observation", **options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(OBS, 4), NormalParamExtractor())
    module = TensorDictModule(net, [observation], ["loc", "scale"])
    return ProbabilisticActor(
        module, ["loc", "scale"], [action], distribution_class=IndependentNormal, return_log_prob=True, **options
    )


@pytest.mark.parametrize("kind", [*PPO, A2CLoss, ReinforceLoss])
def test_the_key_of_the_log_probability_is_that_of_the_policy(kind):
    batch, value = with_old_policy(), critic()
    wanted = kind(actor(), value)(batch)
    loss = kind(actor(log_prob_key="lp"), value)
    assert loss.tensor_keys.sample_log_prob == "lp"
    found = loss(batch.clone().rename_key_("action_log_prob", "lp"))
    name = "loss_actor" if kind is ReinforceLoss else "loss_objective"
    assert torch.allclose(found[name], wanted[name])


def test_set_keys_goes_before_the_key_of_the_policy():
    batch, loss = with_advantage(), ClipPPOLoss(actor(log_prob_key="lp"), critic())
    with pytest.raises(KeyError, match="ClipPPOLoss needs the entry 'lp'; the policy writes it"):
        loss(batch)
    loss.set_keys(sample_log_prob="action_log_prob")
    assert torch.equal(loss(batch)["loss_objective"], ClipPPOLoss(actor(), critic())(batch)["loss_objective"])
    loss.set_keys(sample_log_prob=None)
    assert loss.tensor_keys.sample_log_prob == "lp"


def test_agents_need_no_keys_of_their_actions():
    policy = actor(("agents", "action"), ("agents", "observation"))
    loss = ClipPPOLoss(policy, critic())
    assert loss.tensor_keys.action == ("agents", "action")
    assert loss.tensor_keys.sample_log_prob == ("agents", "action_log_prob")
    keys = SACLoss(policy, qvalue(), target_entropy=-2.0).tensor_keys
    assert (keys.action, keys.log_prob) == (("agents", "action"), ("agents", "action_log_prob"))


# Deterministic policies ----------------------------------------------------------------------------------------------


STOCHASTIC = "Fix: ProbabilisticActor(module, in_keys=[...], distribution_class=..., return_log_prob=True)."
NEED_LOG_PROBS = {
    **{kind.__name__: lambda policy, kind=kind: kind(policy, critic()) for kind in (*PPO, A2CLoss, ReinforceLoss)},
    "SACLoss": lambda policy: SACLoss(policy, qvalue(), target_entropy=-2.0),
    "IQLLoss": lambda policy: IQLLoss(policy, qvalue(), critic()),
}


def fixed(kind):
    return ProbabilisticActor(
        TensorDictModule(nn.Linear(OBS, 2), ["observation"], ["param"]), {"param": "param"}, distribution_class=kind
    )


@pytest.mark.parametrize("name", NEED_LOG_PROBS)
def test_a_deterministic_policy_is_refused_where_the_loss_is_made(name):
    for policy, kind in [(Actor(nn.Linear(OBS, 2)), "Delta"), (fixed(Delta), "Delta"), (fixed(TanhDelta), "TanhDelta")]:
        with pytest.raises(TypeError) as info:
            NEED_LOG_PROBS[name](policy)
        assert str(info.value) == (
            f"{name} needs the log-probabilities of a stochastic policy, and got a deterministic one: the distribution "
            f"of this {type(policy).__name__} is a {kind}, which has all probability on one action. {STOCHASTIC}"
        )


@pytest.mark.parametrize("name", NEED_LOG_PROBS)
def test_a_function_that_makes_a_deterministic_policy_is_refused_at_the_first_call(name):
    loss = NEED_LOG_PROBS[name](fixed(lambda param: Delta(param)))
    with pytest.raises(TypeError, match=f"{name} needs the log-probabilities.* of this ProbabilisticActor is a Delta"):
        loss(with_old_policy().set("param", torch.zeros(24, 2)) if "KL" in name else with_advantage())


# Composite actions ---------------------------------------------------------------------------------------------------


class Heads(nn.Module):
    """Logits of a gear, and the parameters of two steering angles."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(OBS, 3 + 4)

    def forward(self, observation):
        logits, loc, scale = self.net(observation).split([3, 2, 2], -1)
        return logits, loc, scale.exp()


def driver():
    torch.manual_seed(0)
    params = [("params", "gear", "logits"), ("params", "steer", "loc"), ("params", "steer", "scale")]
    return ProbabilisticActor(
        TensorDictModule(Heads(), ["observation"], params),
        in_keys=["params"],
        distribution_class=CompositeDistribution,
        distribution_kwargs={
            "distribution_map": {"gear": Categorical, "steer": IndependentNormal},
            "name_map": {"gear": ACTION[0], "steer": ACTION[1]},
        },
        default_interaction_type=InteractionType.RANDOM,
        return_log_prob=True,
    )


def driven(policy):
    """Steps of a policy that has changed since."""
    batch = policy(TensorDict({"observation": wave(12, OBS)}, [12])).detach()
    with torch.no_grad():
        for value in policy.parameters():
            value.add_(0.1 * wave(*value.shape, start=3.0))
    return batch.update({"advantage": wave(12, 1, start=1.0), "value_target": wave(12, 1, start=2.0)})


def by_hand(policy, batch):
    """Log-probabilities and entropies of the parts, and their old log-probabilities."""
    logits, loc, scale = policy[0].module(batch["observation"])
    gear, steer = Categorical(logits=logits), torch.distributions.Normal(loc, scale)
    now = [gear.log_prob(batch[ACTION[0]]), steer.log_prob(batch[ACTION[1]]).sum(-1)]
    old_gear = Categorical(logits=batch["params", "gear", "logits"])
    old_steer = torch.distributions.Normal(batch["params", "steer", "loc"], batch["params", "steer", "scale"])
    old = [old_gear.log_prob(batch[ACTION[0]]), old_steer.log_prob(batch[ACTION[1]]).sum(-1)]
    kl = kl_divergence(old_gear, gear) + kl_divergence(old_steer, steer).sum(-1)
    return now, old, [gear.entropy(), steer.entropy().sum(-1)], kl


@pytest.mark.parametrize("aggregate", [True, False])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", [*PPO, A2CLoss, ReinforceLoss])
def test_the_log_probability_of_a_composite_action_is_the_sum_of_those_of_its_parts(kind, named, aggregate):
    with set_composite_lp_aggregate(aggregate):
        policy = driver()
        batch = driven(policy)
        loss = kind(policy, critic())
        if named:
            loss.set_keys(action=ACTION)
            if not aggregate:
                loss.set_keys(sample_log_prob=LOG_PROB)
        assert loss.tensor_keys.action == ACTION
        assert loss.tensor_keys.sample_log_prob == ("sample_log_prob" if aggregate else LOG_PROB)
        now, old, entropies, kl = by_hand(policy, batch)
        terms = loss(batch)
    advantage, log_prob = batch["advantage"][:, 0], sum(now)
    ratio = (log_prob - sum(old)).exp()
    gain = {
        PPOLoss: ratio * advantage,
        ClipPPOLoss: torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage),
        KLPENPPOLoss: ratio * advantage - kl,
    }.get(kind, log_prob * advantage)
    assert torch.allclose(terms["loss_actor" if kind is ReinforceLoss else "loss_objective"], -gain.mean(), atol=1e-5)
    if kind is not ReinforceLoss:
        assert torch.allclose(terms["entropy"], sum(entropies).mean(), atol=1e-5)
        assert torch.allclose(terms["loss_entropy"], -0.01 * sum(entropies).mean(), atol=1e-5)
        if not aggregate:
            assert torch.allclose(terms["composite_entropy"][ENTROPY[1]], entropies[1])
    if kind in PPO:
        assert {*loss.in_keys} >= {*ACTION, *([] if aggregate else LOG_PROB)}


@pytest.mark.parametrize("kind", [ClipPPOLoss, A2CLoss])
def test_each_part_of_an_action_may_have_its_own_entropy_coefficient(kind):
    policy = driver()
    batch = driven(policy)
    loss = kind(policy, critic(), entropy_coeff=dict(zip(ENTROPY, (0.1, 0.02), strict=True)))
    gear, steer = by_hand(policy, batch)[2]
    terms = loss(batch)
    assert torch.allclose(terms["loss_entropy"], -(0.1 * gear + 0.02 * steer).mean(), atol=1e-5)
    assert torch.allclose(terms["entropy"], (gear + steer).mean(), atol=1e-5)


def test_a_composite_action_may_have_one_part():
    policy = ProbabilisticActor(
        TensorDictModule(nn.Linear(OBS, 3), ["observation"], [("params", "gear", "logits")]),
        in_keys=["params"],
        distribution_class=CompositeDistribution,
        distribution_kwargs={"distribution_map": {"gear": Categorical}, "name_map": {"gear": ACTION[0]}},
        return_log_prob=True,
    )
    batch = driven(policy)
    old = Categorical(logits=batch["params", "gear", "logits"]).log_prob(batch[ACTION[0]])
    now = Categorical(logits=policy[0].module(batch["observation"])).log_prob(batch[ACTION[0]])
    loss = PPOLoss(policy, critic())
    assert (loss.tensor_keys.action, loss.tensor_keys.sample_log_prob) == (ACTION[0], LOG_PROB[0])
    wanted = -((now - old).exp() * batch["advantage"][:, 0]).mean()
    assert torch.allclose(loss(batch)["loss_objective"], wanted)


def test_a_part_of_an_action_that_is_missing_is_named():
    policy = driver()
    batch = driven(policy)
    for key, text in [(ACTION[1], "Fix: set_keys"), (LOG_PROB[0], "return_log_prob=True")]:
        with pytest.raises(KeyError) as info:
            ClipPPOLoss(policy, critic())(batch.exclude(key))
        assert f"ClipPPOLoss needs the entry {key!r}; the policy writes it while data is collected. " in str(info.value)
        assert text in str(info.value)


def test_entropy_coefficients_that_do_not_fit_the_policy_are_refused():
    policy = driver()
    batch = driven(policy)
    with pytest.raises(ValueError) as info:
        ClipPPOLoss(policy, critic(), entropy_coeff={ENTROPY[0]: 0.1})(batch)
    assert str(info.value) == (
        "ClipPPOLoss needs one entropy_coeff for each part of the action, and got ('action', 'gear_entropy') where the "
        "parts are ('action', 'gear_entropy'), ('action', 'steer_entropy'). "
        "Fix: entropy_coeff={('action', 'gear_entropy'): 0.01, ...}, or one number for all."
    )
    with pytest.raises(ValueError) as info:
        ClipPPOLoss(actor(), critic(), entropy_coeff={"action_entropy": 0.1})(with_advantage())
    assert str(info.value) == (
        "ClipPPOLoss got a dictionary as entropy_coeff, for the parts of a composite action, and its policy has one "
        "entropy. Fix: entropy_coeff=0.01, or for a composite action set_composite_lp_aggregate(False).set() before "
        "the policy is made."
    )
