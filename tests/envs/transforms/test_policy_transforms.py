"""KLRewardTransform, gSDENoise and DiscreteActionProjection: transforms for policies and their actions."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import distributions as d

from rlnb.data import Categorical, OneHot, Unbounded
from rlnb.envs import (
    CartPoleEnv,
    DiscreteActionProjection,
    GridWorldEnv,
    GymEnv,
    KLRewardTransform,
    PendulumEnv,
    RenameTransform,
    SerialEnv,
    TensorDictPrimer,
    TransformedEnv,
    gSDENoise,
)
from tests.envs.transforms.cases import Numbers
from tests.envs.transforms.cases_numbers import OneNormal, Push, actor, grid_of_numbers, one_hot_grid


def message(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


# KLRewardTransform --------------------------------------------------------------------------------------------------


def log_prob(weight, data):
    return d.Normal(data["position"][..., :1] * weight, 0.7).log_prob(data["action"]).sum(-1)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("batch_size", [(), (3,)])
def test_the_reward_less_the_divergence(written, batch_size):
    policy = actor(return_log_prob=True, default_interaction_type="random")
    transform = KLRewardTransform(policy, coef=2.0, out_keys=["corrected"], in_keys=["reward"])
    with torch.no_grad():
        policy[0].module.weight.fill_(0.9)
    env = TransformedEnv(Numbers(batch_size), transform)
    with torch.no_grad():
        found = env.rollout(10, policy if written else None, break_when_any_done=False)
    assert (found.get("action_log_prob", None) is not None) == written
    expected = found["next", "reward"] - 2 * (log_prob(0.9, found) - log_prob(0.5, found)).unsqueeze(-1).float()
    torch.testing.assert_close(found["next", "corrected"], expected)


def test_what_the_policy_wrote_counts_and_not_what_it_would_write_now():
    policy = actor(return_log_prob=True)
    transform = KLRewardTransform(policy)
    data = TensorDict({"position": torch.rand(4, 2).double(), "action": torch.rand(4, 1).double()}, [4])
    data["next", "reward"] = torch.zeros(4, 1)
    assert torch.equal(transform(data.clone())["next", "reward"], torch.zeros(4, 1))
    data["action_log_prob"] = log_prob(0.1, data)
    expected = (log_prob(0.5, data) - log_prob(0.1, data)).float().unsqueeze(-1)
    torch.testing.assert_close(transform(data)["next", "reward"], expected)


@pytest.mark.parametrize(("key", "given"), [("sample_log_prob", None), ("mine", "mine")])
def test_log_probabilities_under_other_names_with_a_last_dimension(key, given):
    transform = KLRewardTransform(actor(), log_prob_key=given, functional=False, device="cpu")
    data = TensorDict({"position": torch.rand(4, 2).double(), "action": torch.rand(4, 1).double()}, [4])
    data[key] = log_prob(0.1, data).unsqueeze(-1)
    data["next", "reward"] = torch.zeros(4, 1)
    expected = (log_prob(0.5, data) - log_prob(0.1, data)).float().unsqueeze(-1)
    torch.testing.assert_close(transform(data)["next", "reward"], expected)
    assert transform.frozen_actor[0].module.weight.device == torch.device("cpu")


def test_the_action_of_the_env_is_found():
    net = TensorDictModule(Push(), ["position"], ["loc", "scale"])
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["push"], distribution_class=OneNormal)
    policy = ProbabilisticTensorDictSequential(net, draw)
    transform = KLRewardTransform(policy, in_keys=["reward"], out_keys=["corrected"])
    with torch.no_grad():
        policy[0].module.weight.fill_(0.9)
    renamed = TransformedEnv(Numbers(), RenameTransform([], [], ["action"], ["push"]))
    with torch.no_grad():
        found = TransformedEnv(renamed, transform).rollout(5, policy)
    as_usual = found.select("position").update({"action": found["push"]})
    expected = found["next", "reward"] - (log_prob(0.9, as_usual) - log_prob(0.5, as_usual)).unsqueeze(-1).float()
    torch.testing.assert_close(found["next", "corrected"], expected)


def test_the_frozen_copy():
    policy = actor()
    transform = KLRewardTransform(policy)
    assert not any(parameter.requires_grad for parameter in transform.parameters())
    assert {name for name, _ in transform.named_parameters()} == {"frozen_actor.module.0.module.weight"}
    assert policy[0].module.weight.requires_grad
    assert all(parameter.requires_grad for parameter in KLRewardTransform(policy, requires_grad=True).parameters())
    env = TransformedEnv(Numbers(), transform)
    assert not hasattr(env.reward_spec, "low")


def test_bad_input_of_kl():
    with message(
        TypeError,
        "KLRewardTransform needs a policy with get_dist, which returns its distribution, and got a Push. Fix: a "
        "ProbabilisticTensorDictSequential.",
    ):
        KLRewardTransform(Push())
    net = TensorDictModule(Push(), ["position"], ["loc", "scale"])
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=d.Normal)
    env = TransformedEnv(Numbers(), KLRewardTransform(ProbabilisticTensorDictSequential(net, draw)))
    with message(
        ValueError,
        "The log-probability of 'action' must have the batch size of the data, (), and has (1,), that of the frozen "
        "copy (1,). Fix: torch.distributions.Independent(distribution, 1), which sums over the dimensions of an "
        "action.",
    ):
        env.rollout(2)
    data = TensorDict({"position": torch.rand(2).double(), "next": {"reward": torch.ones(1)}})
    with pytest.raises(KeyError, match="action"):
        KLRewardTransform(actor())(data)
    whole = Numbers()
    whole.reward_spec = Unbounded(shape=(1,), dtype=torch.int64)
    with message(
        TypeError,
        "KLRewardTransform needs floating-point rewards, and these have dtype torch.int64. Fix: put "
        "DTypeCastTransform(torch.int64, torch.float32, in_keys=['reward']) before it.",
    ):
        TransformedEnv(whole, KLRewardTransform(actor()))


# gSDENoise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch_size", "shape"), [((), None), ((4,), None), ((4,), (4,))])
def test_the_noise_stays_for_an_episode(batch_size, shape):
    env = TransformedEnv(Numbers(batch_size), gSDENoise(state_dim=3, action_dim=2, shape=shape))
    env.set_seed(0)
    found = env.rollout(40, break_when_any_done=False)
    noise, done = found["_eps_gSDE"], found["next", "done"][..., :-1, 0]
    assert noise.shape == (*batch_size, 40, 2, 3)
    same = (noise.narrow(len(batch_size), 1, 39) == noise.narrow(len(batch_size), 0, 39)).all(-1).all(-1)
    assert torch.equal(same, ~done) and done.any()
    starts = noise.narrow(len(batch_size), 1, 39)[done]
    assert 0.5 < starts.std() < 1.5


def test_a_placeholder_for_the_noise():
    noise = gSDENoise()
    assert isinstance(noise, TensorDictPrimer)
    td = TransformedEnv(PendulumEnv(), noise).reset()
    assert td["_eps_gSDE"].tolist() == [0.0]
    serial = TransformedEnv(SerialEnv(2, lambda: GymEnv("Pendulum-v1")), gSDENoise(3, 1))
    assert serial.reset()["_eps_gSDE"].shape == (2, 1, 3)
    with message(
        ValueError,
        "gSDENoise needs both state_dim and action_dim or neither, got state_dim=3 and action_dim=None.",
    ):
        gSDENoise(3)


# DiscreteActionProjection -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [one_hot_grid, grid_of_numbers])
@pytest.mark.parametrize("batch_size", [(), (3,)])
def test_actions_beyond_become_random_ones(make, batch_size):
    env = TransformedEnv(make(batch_size), DiscreteActionProjection(4, 7))
    kind = OneHot if make is one_hot_grid else Categorical
    assert isinstance(env.action_spec, kind) and env.action_spec.n == 7
    env.set_seed(0)
    seen = set()
    for choice in range(7):
        for _ in range(12):
            action = torch.full(batch_size, choice)
            if make is one_hot_grid:
                action = torch.nn.functional.one_hot(action, 7)
            td = TensorDict({"action": action.to(env.action_spec.dtype)}, batch_size)
            inner = env.transform.inv(td)["action"]
            assert env.base_env.action_spec.is_in(inner)
            inner = inner.int().argmax(-1) if make is one_hot_grid else inner
            if choice < 4:
                assert (inner == choice).all()
            else:
                seen |= set(inner.flatten().tolist())
    assert seen == {0, 1, 2, 3}


def test_the_projection_is_reproducible():
    env = TransformedEnv(one_hot_grid(), DiscreteActionProjection(4, 20))
    state = torch.get_rng_state()
    runs = []
    for _ in range(2):
        env.set_seed(1)
        runs.append(env.rollout(8, break_when_any_done=False)["next", "observation"])
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(torch.get_rng_state(), state)


def test_stored_actions_are_filled_up():
    td = TensorDict({"action": torch.eye(2, dtype=torch.int64)}, [2])
    out = DiscreteActionProjection(2, 5)(td.clone())["action"]
    assert out.tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert DiscreteActionProjection(2, 5)(TensorDict({"action": out}, [2]))["action"].shape == (2, 5)
    assert DiscreteActionProjection(2, 5, include_forward=False)(td.clone())["action"].shape == (2, 2)


def test_bad_input_of_the_projection():
    with message(
        ValueError,
        "max_actions=2 must be at least num_actions_effective=5, which must be at least 1.",
    ):
        DiscreteActionProjection(5, 2)
    with message(
        ValueError,
        "DiscreteActionProjection got num_actions_effective=3, but the env has 4 actions. Fix: "
        "DiscreteActionProjection(4, 7).",
    ):
        TransformedEnv(GridWorldEnv(), DiscreteActionProjection(3, 7))
    with message(
        TypeError,
        "DiscreteActionProjection needs discrete actions, one-hot or integers, and 'action' has a BoundedContinuous "
        "spec.",
    ):
        TransformedEnv(PendulumEnv(), DiscreteActionProjection(2, 3))
    env = TransformedEnv(CartPoleEnv(), DiscreteActionProjection(2, 3))
    with message(
        ValueError,
        "The action 'action' must be one-hot, with 3 entries, got shape (2,). Fix: "
        "torch.nn.functional.one_hot(number, 3).",
    ):
        env.transform.inv(env.reset().set("action", torch.tensor([1, 0])))
    with pytest.raises(ValueError, match="action"):
        env.step(env.reset().set("action", torch.tensor([1, 0])))
