"""Material of the lessons that train networks: PPO as a black box, and DQN agents with parts switched off."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from exercises.black_box import PPO, learn_with
from exercises.dqn_runs import GAMMA, double_target, q_target, td_loss, train
from exercises.e07_dqn import overestimates, parts

from rlnb.envs import CartPoleEnv


def test_the_black_box_uses_each_batch_as_often_as_it_says_and_its_losses_reach_both_networks() -> None:
    torch.manual_seed(0)
    envs = CartPoleEnv(batch_size=[4], categorical_action_encoding=True, seed=0)
    ppo = PPO(epochs=2, minibatch=10)
    batch = envs.rollout(8, ppo.policy, break_when_any_done=False)
    losses = list(ppo.losses(batch))
    assert len(losses) == 2 * 4
    losses[0].backward()
    trained = [weight for weight in ppo.parameters() if weight.requires_grad]
    assert len(trained) == 12 and all(weight.grad is not None for weight in trained)


def test_a_step_that_does_nothing_leaves_the_returns_where_they_are() -> None:
    steps = []
    frames, returns = learn_with(lambda optimizer, loss: steps.append(loss.shape), batches=2)
    assert len(steps) == 2 * 4 * 4
    assert len(frames) == len(returns) and frames == sorted(frames) and frames[-1] <= 2048
    assert sum(returns) / len(returns) < 40


def test_targets_of_q_learning_and_of_double_q_learning() -> None:
    reward, terminated = torch.tensor([1.0, 2.0]), torch.tensor([False, True])
    own, lagging = torch.tensor([[1.0, 5.0], [9.0, 9.0]]), torch.tensor([[4.0, 2.0], [9.0, 9.0]])
    assert q_target(reward, terminated, own, lagging, 0.5).tolist() == [3.0, 2.0]
    assert double_target(reward, terminated, own, lagging, 0.5).tolist() == [2.0, 2.0]
    assert td_loss(own, torch.tensor([1, 0]), torch.tensor([4.5, 9.0])).item() == pytest.approx(0.125 / 2)


def test_the_maximum_overestimates_and_double_does_not() -> None:
    assert overestimates(q_target) == pytest.approx(1.54, abs=0.03)
    assert overestimates(double_target) == pytest.approx(0, abs=0.03)


def test_without_a_target_network_the_values_exceed_what_is_possible() -> None:
    options: dict[str, Any] = {"agents": 2, "frames": 2048}
    whole, chasing = train(**options), train(interval=1, **options)
    assert len(whole.returns) == len(whole.values) == 4
    assert max(whole.values) < 1 / (1 - GAMMA) < max(chasing.values)


def test_an_agent_without_a_replay_buffer_sees_its_last_steps_only() -> None:
    seen: list[int] = []

    def loss(values: torch.Tensor, action: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        seen.append(len(values[0].unique(dim=0)))
        return td_loss(values, action, target)

    for replay in (True, False):
        seen.clear()
        train(loss=loss, replay=replay, agents=1, frames=1088)
        # 128 draws with replacement out of 1024 steps, or out of 128: about 120 or 81 different ones.
        assert (seen[0] > 105) is replay


@pytest.mark.parametrize("trained", [0, 2])
def test_a_comparison_that_is_stopped_shows_what_was_trained_to_the_end(
    trained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(agents=1, frames=1024)
    runs = iter([run] * trained)

    def until_stopped(**_: Any) -> Any:
        for found in runs:
            return found
        raise KeyboardInterrupt

    monkeypatch.setattr("exercises.e07_dqn.train", until_stopped)
    picture = parts()
    if trained:
        assert picture is not None and list(picture.panels["mean return"]) == ["all parts", "no replay buffer"]
    else:
        assert picture is None
