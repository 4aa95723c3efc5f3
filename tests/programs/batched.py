"""Serial and parallel environments under one policy, with normalized observations and frames counted by a collector."""

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import Collector
from rlnb.envs import EnvCreator, GymEnv, ParallelEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv, VecNorm


def make_env(name="CartPole-v1"):
    return TransformedEnv(GymEnv(name), StepCounter(max_steps=30))


class Balance(nn.Module):
    def forward(self, observation):
        right = (observation[..., 2] > 0).long()
        return nn.functional.one_hot(right, 2)


def main() -> None:
    policy = TensorDictModule(Balance(), in_keys=["observation"], out_keys=["action"])
    rollouts = []
    for batched in (SerialEnv, ParallelEnv):
        env = TransformedEnv(batched(2, EnvCreator(make_env)), RewardSum())
        env.set_seed(0)
        env.reset()
        torch.manual_seed(0)
        rollouts.append(env.rollout(40, policy, break_when_any_done=False))
        assert env.batch_size == (2,) and rollouts[-1].shape == (2, 40)
        env.close()
    serial, parallel = rollouts
    assert (serial == parallel).all()
    assert serial["next", "truncated"].sum() + serial["next", "terminated"].sum() == serial["next", "done"].sum() > 0

    env = TransformedEnv(SerialEnv(2, [make_env, lambda: make_env()]), VecNorm(in_keys=["observation"], decay=0.99))
    collector = Collector(env, policy, frames_per_batch=40, total_frames=120, reset_at_each_iter=False)
    shapes = [data.shape for data in collector]
    assert shapes == [(2, 20)] * 3
    collector.shutdown()


if __name__ == "__main__":
    main()
