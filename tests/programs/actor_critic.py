"""Clipped policy gradients on a batch of environments, with advantages computed over time in a loop of our own."""

import torch
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import nn
from torch.distributions import Categorical

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from rlnb.envs import (
    Compose,
    DoubleToFloat,
    ExplorationType,
    GymEnv,
    ObservationNorm,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    set_exploration_type,
)


def advantages(data, value, next_value, gamma=0.99, lmbda=0.95):
    done, terminated = data["next", "done"].float(), data["next", "terminated"].float()
    delta = data["next", "reward"] + gamma * next_value * (1 - terminated) - value
    found, last = torch.zeros_like(delta), 0.0
    for t in reversed(range(delta.shape[1])):
        last = delta[:, t] + gamma * lmbda * (1 - done[:, t]) * last
        found[:, t] = last
    return found


def main() -> None:
    torch.manual_seed(0)
    make = lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)  # noqa: E731 - as users write it
    transforms = Compose(ObservationNorm(in_keys=["observation"]), DoubleToFloat(), StepCounter(100), RewardSum())
    env = TransformedEnv(SerialEnv(2, make), transforms)
    env.transform[0].init_stats(num_iter=50, reduce_dim=[0, 1], cat_dim=1)
    env.set_seed(0)
    actor = ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)), ["observation"], ["logits"]),
        ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical, return_log_prob=True),
    )
    critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    collector = Collector(env, actor, frames_per_batch=128, total_frames=256, device="cpu")
    buffer = ReplayBuffer(storage=LazyTensorStorage(128), sampler=SamplerWithoutReplacement(), batch_size=32)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
    updates = 0
    for data in collector:
        assert data.shape == (2, 64)
        with torch.no_grad():
            data["advantage"] = advantages(data, critic(data["observation"]), critic(data["next", "observation"]))
            data["goal"] = data["advantage"] + critic(data["observation"])
        buffer.extend(data.reshape(-1))
        key = "action_log_prob" if "action_log_prob" in data.keys() else "sample_log_prob"
        for batch in buffer:
            ratio = (actor.get_dist(batch).log_prob(batch["action"]) - batch[key]).exp().unsqueeze(-1)
            gain = torch.min(ratio * batch["advantage"], ratio.clamp(0.8, 1.2) * batch["advantage"]).mean()
            loss = (critic(batch["observation"]) - batch["goal"]).pow(2).mean() - gain
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 1.0)
            optimizer.step()
            updates += 1
        buffer.empty()
    collector.shutdown(close_env=False)
    assert updates == 8
    with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
        evaluation = env.rollout(50, actor, break_when_any_done=True)
    assert evaluation["next", "episode_reward"].max() == evaluation["next", "step_count"].max()
    env.close()


if __name__ == "__main__":
    main()
