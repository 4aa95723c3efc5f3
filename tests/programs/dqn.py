"""Deep Q-learning on CartPole: prioritized replay, n-step returns and a target network."""

from copy import deepcopy

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, MultiStep, TensorDictPrioritizedReplayBuffer
from rlnb.envs import GymEnv, RewardScaling, StepCounter, TransformedEnv


class Greedy(nn.Module):
    """One-hot argmax, random with probability epsilon."""

    def __init__(self, net, epsilon):
        super().__init__()
        self.net, self.epsilon = net, epsilon

    def forward(self, observation):
        values = self.net(observation)
        choice = torch.where(
            torch.rand(values.shape[:-1]) < self.epsilon, torch.randint(2, values.shape[:-1]), values.argmax(-1)
        )
        return nn.functional.one_hot(choice, 2)


def main() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(GymEnv("CartPole-v1"))
    env.append_transform(RewardScaling(loc=0.0, scale=0.1))
    env.append_transform(StepCounter())
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    target = deepcopy(net).requires_grad_(False)
    policy = TensorDictModule(Greedy(net, 0.2), in_keys=["observation"], out_keys=["action"])
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=0.7, beta=0.5, storage=LazyTensorStorage(1_000), batch_size=32, priority_key="td_error", prefetch=1
    )
    collector = Collector(
        env,
        policy,
        frames_per_batch=64,
        total_frames=512,
        init_random_frames=64,
        postproc=MultiStep(gamma=0.99, n_steps=3),
    )
    collector.set_seed(1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses = []
    for i, data in enumerate(collector):
        buffer.extend(data.reshape(-1))
        batch = buffer.sample()
        with torch.no_grad():
            bootstrap = target(batch["next", "observation"]).max(-1, keepdim=True).values
            goal = batch["next", "reward"] + batch["gamma"] * bootstrap * ~batch["next", "terminated"]
        chosen = (net(batch["observation"]) * batch["action"]).sum(-1, keepdim=True)
        error = (goal - chosen).abs()
        loss = (batch["_weight"].unsqueeze(-1) * error**2).mean() if "_weight" in batch.keys() else (error**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch["td_error"] = error.detach().squeeze(-1)
        buffer.update_tensordict_priority(batch)
        losses.append(loss.item())
        if i % 4 == 0:
            target.load_state_dict(net.state_dict())
    collector.shutdown()
    assert len(losses) == 8 and all(loss == loss for loss in losses)
    assert len(buffer) == 512


if __name__ == "__main__":
    main()
