"""Collectors on several processes: synchronous ones for on-policy data, asynchronous ones for a replay buffer."""

import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import MultiAsyncCollector, MultiSyncCollector
from rlnb.data import LazyTensorStorage, ReplayBuffer
from rlnb.envs import GymEnv, StepCounter, TransformedEnv


def make_env():
    return TransformedEnv(GymEnv("Pendulum-v1"), StepCounter(max_steps=30))


class Torque(nn.Module):
    """Acts with its weight, whatever it sees."""

    def __init__(self):
        super().__init__()
        self.torque = nn.Parameter(torch.zeros(1))

    def forward(self, observation):
        return self.torque.expand(*observation.shape[:-1], 1)


def main() -> None:
    policy = TensorDictModule(Torque(), in_keys=["observation"], out_keys=["action"])
    collector = MultiSyncCollector(
        create_env_fn=[make_env] * 2, policy=policy, frames_per_batch=80, total_frames=240, cat_results="stack"
    )
    try:
        collector.set_seed(0)
        for i, batch in enumerate(collector):
            assert batch.shape == (2, 40)
            assert (batch["action"] == i / 2).all()
            ids = batch["collector", "traj_ids"]
            assert not set(ids[0].tolist()) & set(ids[1].tolist())
            with torch.no_grad():
                policy.module.torque += 0.5
            collector.update_policy_weights_()
        assert i == 2
    finally:
        collector.shutdown()

    buffer = ReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
    collector = MultiAsyncCollector([make_env] * 2, policy, frames_per_batch=40, total_frames=160)
    try:
        for batch in collector:
            assert batch.shape == (40,)
            buffer.extend(batch)
        assert len(buffer) == 160 and buffer.sample()["next", "reward"].shape == (32, 1)
    finally:
        collector.shutdown()


if __name__ == "__main__":
    main()
