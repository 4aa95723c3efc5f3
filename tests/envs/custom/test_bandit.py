"""Bandits: means, rewards, pulls and invalid arguments."""

from __future__ import annotations

import pytest
import torch

from rlnb.envs import BanditEnv


def pull_each(env, times):
    """Pull arm i % k in row i, `times` times; return rewards [rows, times]."""
    k, rows = env.n_actions, env.batch_size[0]
    arms = torch.arange(rows) % k
    return env.rollout(times, lambda pulls: arms)["next", "reward"].squeeze(-1)


@pytest.mark.parametrize("std", [0.0, 0.5])
def test_gaussian_arms_have_their_mean_and_spread(std):
    means = torch.tensor([-1.0, 0.0, 2.0])
    env = BanditEnv(means, std=std, batch_size=[300], seed=0, max_steps=None, categorical_action_encoding=True)
    rewards = pull_each(env, 40).unflatten(0, (100, 3)).transpose(0, 1).flatten(1)  # [arms, pulls]
    torch.testing.assert_close(rewards.mean(-1), means, atol=0.04, rtol=0)
    torch.testing.assert_close(rewards.std(-1), torch.full((3,), std), atol=0.03, rtol=0)


def test_bernoulli_arms_pay_one_with_their_probability():
    means = [0.0, 0.3, 1.0]
    env = BanditEnv(
        means, rewards="bernoulli", batch_size=[300], seed=0, max_steps=None, categorical_action_encoding=True
    )
    rewards = pull_each(env, 40).unflatten(0, (100, 3)).transpose(0, 1).flatten(1)  # [arms, pulls]
    assert set(rewards.flatten().tolist()) == {0.0, 1.0}
    assert rewards.mean(-1).tolist() == pytest.approx(means, abs=0.03)
    assert rewards[0].sum() == 0 and rewards[2].sum() == 4000


def test_the_observation_counts_the_pulls():
    env = BanditEnv(n_arms=4, batch_size=[2, 3], seed=0)
    data = env.rollout(20)
    assert not data["observation"][..., 0, :].any()
    assert torch.equal(data["next", "observation"], data["action"].cumsum(-2))


def test_drawn_means_are_those_of_the_testbed_and_new_at_each_reset():
    env = BanditEnv(batch_size=[2000], seed=0)
    assert env.means is None
    env.reset()
    first = env.means
    assert first.shape == (2000, 10)
    assert first.mean().item() == pytest.approx(0, abs=0.03) and first.std().item() == pytest.approx(1, abs=0.03)
    env.rollout(5, auto_reset=False, tensordict=env.fake_tensordict().exclude("next"))
    assert torch.equal(env.means, first), "an episode does not change them"
    env.reset()
    assert not torch.equal(env.means, first)


def test_drawn_probabilities_are_uniform():
    env = BanditEnv(rewards="bernoulli", n_arms=2, batch_size=[4000], seed=0)
    env.reset()
    assert env.means.min() >= 0 and env.means.max() <= 1
    assert env.means.mean().item() == pytest.approx(0.5, abs=0.02)
    assert env.means.var().item() == pytest.approx(1 / 12, abs=0.005)


def test_given_means_stay():
    means = torch.randn(2, 5)
    env = BanditEnv(means, batch_size=[2])
    kept = means.clone()
    means.zero_()
    for _ in range(2):
        env.reset()
        assert torch.equal(env.means, kept)
    env.means.zero_()
    assert torch.equal(env.means, kept)


def test_episodes_end_by_truncation_alone():
    after = BanditEnv(max_steps=7).rollout(100)["next"]
    assert len(after) == 7 and after["truncated"][-1] and not after["terminated"].any()


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"rewards": "poisson"}, "rewards must be one of 'gaussian', 'bernoulli' and is 'poisson'."),
        ({"n_arms": 0}, "A bandit needs at least one arm, and n_arms is 0."),
        ({"means": []}, "A bandit needs at least one arm, and n_arms is 0."),
        ({"std": -1.0}, "std must be a standard deviation of 0 or more and is -1.0."),
        ({"means": [0.0, float("nan")]}, "means must be finite numbers."),
        (
            {"means": [0.5, 1.5], "rewards": "bernoulli"},
            "The means of Bernoulli arms are probabilities, from 0 to 1, and one is 1.5.",
        ),
        (
            {"means": torch.zeros(3, 4), "batch_size": [2]},
            "means must have shape [k] or [*batch_size, k], with the batch size (2,), and has (3, 4).",
        ),
        (
            {"means": torch.tensor(1.0)},
            "means must have shape [k] or [*batch_size, k], with the batch size (), and has ().",
        ),
    ],
)
def test_what_is_refused(kwargs, text):
    with pytest.raises(ValueError) as error:
        BanditEnv(**kwargs)
    assert str(error.value) == text
