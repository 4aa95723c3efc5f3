"""REINFORCE on CartPole: a collector, a categorical policy, and rewards to go of each batch."""

import torch
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import nn
from torch.distributions import OneHotCategorical

from rlnb.collectors import Collector
from rlnb.envs import Compose, GymEnv, RewardSum, StepCounter, TransformedEnv


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(StepCounter(max_steps=100), RewardSum()))
    env.set_seed(0)
    net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    policy = ProbabilisticTensorDictSequential(
        TensorDictModule(net, in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits"], out_keys=["action"], distribution_class=OneHotCategorical, return_log_prob=True
        ),
    )
    collector = Collector(env, policy, frames_per_batch=200, total_frames=600, split_trajs=False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    before = net[0].weight.detach().clone()
    frames = 0
    for data in collector:
        frames += data.numel()
        done, reward = data["next", "done"].squeeze(-1), data["next", "reward"].squeeze(-1)
        to_go, running = torch.zeros_like(reward), torch.zeros(())
        for t in reversed(range(len(reward))):
            running = reward[t] + 0.99 * running * ~done[t]
            to_go[t] = running
        log_prob = policy.get_dist(data).log_prob(data["action"])
        loss = -(log_prob * (to_go - to_go.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        collector.update_policy_weights_()
        returns = data["next", "episode_reward"][data["next", "done"]]
        assert len(returns) and (returns == data["next", "step_count"][data["next", "done"]]).all()
    collector.shutdown()
    assert frames == 600
    assert not torch.equal(before, net[0].weight)


if __name__ == "__main__":
    main()
