"""A recurrent Q-network: states carried by the env, slices of episodes replayed through the network."""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from rlnb.collectors import Collector
from rlnb.data import LazyMemmapStorage, ReplayBuffer, SliceSampler
from rlnb.envs import Compose, GymEnv, InitTracker, StepCounter, TransformedEnv
from rlnb.modules import GRUModule, set_recurrent_mode
from rlnb.modules.utils import get_primers_from_module


class OneHotArgmax(nn.Module):
    def forward(self, values):
        return nn.functional.one_hot(values.argmax(-1), values.shape[-1])


def main() -> None:
    torch.manual_seed(0)
    embed = TensorDictModule(nn.Linear(4, 16), in_keys=["observation"], out_keys=["embed"])
    gru = GRUModule(input_size=16, hidden_size=16, in_key="embed", out_key="features")
    values = TensorDictModule(nn.Linear(16, 2), in_keys=["features"], out_keys=["action_value"])
    choose = TensorDictModule(OneHotArgmax(), in_keys=["action_value"], out_keys=["action"])
    policy = TensorDictSequential(embed, gru, values, choose)
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(InitTracker(), StepCounter(50)))
    env.append_transform(get_primers_from_module(policy))
    env.set_seed(0)
    rollout = env.rollout(20, policy)
    assert rollout["is_init"][0] and not rollout["is_init"][1:].any()
    assert rollout["next", "recurrent_state"].shape[1:] == (1, 16)

    buffer = ReplayBuffer(
        storage=LazyMemmapStorage(1_000),
        sampler=SliceSampler(slice_len=4, traj_key=("collector", "traj_ids")),
        batch_size=32,
    )
    collector = Collector(env, policy, frames_per_batch=100, total_frames=300)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    train = TensorDictSequential(embed, gru, values)
    for data in collector:
        buffer.extend(data.reshape(-1))
        batch = buffer.sample().reshape(-1, 4)
        assert (batch["collector", "traj_ids"] == batch["collector", "traj_ids"][:, :1]).all()
        assert (batch["step_count"].diff(dim=1) == 1).all()
        with set_recurrent_mode(True):
            found = train(batch.exclude("features", "action_value"))
        loss = (found["action_value"].max(-1).values - batch["next", "reward"].squeeze(-1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    collector.shutdown()
    assert len(buffer) == 300


if __name__ == "__main__":
    main()
