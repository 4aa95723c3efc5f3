"""Off-policy control of Pendulum: a bounded action, noise for exploration, a critic and its slow target."""

from copy import deepcopy

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
from rlnb.envs import (
    Compose,
    DoubleToFloat,
    ExplorationType,
    GymEnv,
    RewardSum,
    TransformedEnv,
    exploration_type,
    set_exploration_type,
)


class Actor(nn.Module):
    def __init__(self, net, spec):
        super().__init__()
        self.net, self.action_spec = net, spec

    def forward(self, observation):
        action = 2 * self.net(observation).tanh()
        if exploration_type() == ExplorationType.RANDOM:
            action = self.action_spec.project(action + 0.3 * torch.randn_like(action))
        return action


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(DoubleToFloat(), RewardSum()))
    env.set_seed(0)
    low, high = env.action_spec.space.low, env.action_spec.space.high
    assert low.item() == -2 and high.item() == 2
    actor = Actor(nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1)), env.action_spec)
    policy = TensorDictModule(actor, in_keys=["observation"], out_keys=["action"])
    critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    target = deepcopy(critic).requires_grad_(False)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(1_000), batch_size=32)
    collector = Collector(
        env,
        policy,
        frames_per_batch=50,
        total_frames=250,
        init_random_frames=100,
        exploration_type=ExplorationType.RANDOM,
    )
    for data in collector:
        assert env.action_spec.is_in(data["action"])
        buffer.extend(data)
        for _ in range(2):
            batch = buffer.sample()
            with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
                after = actor(batch["next", "observation"])
                bootstrap = target(torch.cat([batch["next", "observation"], after], -1))
                goal = batch["next", "reward"] + 0.99 * bootstrap * ~batch["next", "terminated"]
            loss = (critic(torch.cat([batch["observation"], batch["action"]], -1)) - goal).pow(2).mean()
            with set_exploration_type(ExplorationType.DETERMINISTIC):
                loss = loss - critic(torch.cat([batch["observation"], actor(batch["observation"])], -1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
                slow.lerp_(fast.detach(), 0.01)
    collector.shutdown()
    assert len(buffer) == 250
    with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
        env.set_seed(1)
        first = env.rollout(20, policy)
        env.set_seed(1)
        assert (env.rollout(20, policy)["action"] == first["action"]).all()


if __name__ == "__main__":
    main()
