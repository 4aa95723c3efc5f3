"""The material of the lesson on SAC: two hills of value, and pendulums that learn in a few tensor operations."""

from __future__ import annotations

import math

import pytest
import torch
from exercises.hills import LIMIT, Climbers, climb, hills, settle, torques
from exercises.swing import Critics, learn, swing

from rlnb.envs import PendulumEnv


def policy_loss(log_prob: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor, alpha: float) -> torch.Tensor:
    return (alpha * log_prob - torch.minimum(q1, q2)).mean()


def alpha_loss(log_alpha: torch.Tensor, log_prob: torch.Tensor, target: float) -> torch.Tensor:
    return -(log_alpha * (log_prob + target)).mean()


def test_pendulums_move_as_those_of_the_library() -> None:
    env = PendulumEnv(PendulumEnv.gen_params(batch_size=[64]), seed=0)
    td = env.reset()
    td["thdot"] = torch.linspace(-8, 8, 64)
    td["action"] = torch.linspace(2, -2, 64).unsqueeze(-1)
    th, thdot, reward = swing(td["th"], td["thdot"], td["action"].squeeze(-1))
    after = env.step(td)["next"]
    torch.testing.assert_close(th, after["th"])
    torch.testing.assert_close(thdot, after["thdot"])
    torch.testing.assert_close(reward, after["reward"].squeeze(-1))


def test_the_two_critics_are_different_functions_of_state_and_torque() -> None:
    torch.manual_seed(0)
    critics, state, torque = Critics(), torch.randn(5, 3), torch.randn(5, 1)
    one, two = critics(state, torque)
    assert one.shape == (5,) and not torch.allclose(one, two)
    assert torch.allclose(critics(state, torque)[0], one) and not torch.allclose(critics(state, -torque)[0], one)


def test_the_right_hill_is_higher_and_the_left_one_is_wider() -> None:
    x = torques()
    high = hills(x)
    assert x[0] == -LIMIT and x[-1] == LIMIT
    assert x[high.argmax()] == pytest.approx(1.2, abs=0.03)
    left = hills(x[x < 0])
    assert left.max() < high.max() and (left > 0.5 * left.max()).sum() > (high[x > 0] > 0.5 * high.max()).sum()


def test_densities_sum_to_one() -> None:
    area = torch.trapezoid(Climbers(2).densities(), torques())
    torch.testing.assert_close(area, torch.ones(2), atol=0.01, rtol=0)


def test_a_policy_climbs_and_a_hot_one_stays_wide() -> None:
    torch.manual_seed(0)
    means, densities = climb(policy_loss, (0.02, 1.0))
    assert means[0, -10:].mean() > means[0, :5].mean() + 0.1
    assert densities[0].max() > 4 * densities[1].max()


def test_the_temperature_settles_from_both_sides() -> None:
    torch.manual_seed(0)
    alphas, entropies = settle(alpha_loss, (0.05, 1.0), 0.5, steps=300)
    assert alphas[:, 0].tolist() == pytest.approx([0.05, 1.0])
    assert 0.5 < float(alphas[0, -1] / alphas[1, -1]) < 2
    assert entropies[:, -60:].mean().item() == pytest.approx(0.5, abs=0.3)
    assert entropies.max() < math.log(2 * LIMIT) + 0.3


def test_a_few_updates_give_a_mean_return_for_each_test() -> None:
    torch.manual_seed(0)
    seen = []

    def target(reward, terminated, q1, q2, log_prob, alpha, gamma):  # type: ignore[no-untyped-def]
        seen.append((reward.shape, terminated.dtype, q1.shape, log_prob.shape, float(alpha), gamma))
        return reward

    found = learn(target, updates=4, every=2)
    assert len(found) == 2 and all(-2000 < value < -100 for value in found)
    assert len(seen) == 4 and seen[0][:4] == ((128,), torch.bool, (128,), (128,))
    assert seen[0][4] == pytest.approx(0.2)
