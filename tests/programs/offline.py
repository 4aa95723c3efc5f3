"""Rollouts stored on disk, loaded again, and split into trajectories for behavioural cloning."""

import tempfile

import torch
from torch import nn

from rlnb.collectors.utils import split_trajectories
from rlnb.data import LazyMemmapStorage, ReplayBuffer, SliceSamplerWithoutReplacement
from rlnb.envs import GymEnv


def main() -> None:
    torch.manual_seed(0)
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env.set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        buffer = ReplayBuffer(storage=LazyMemmapStorage(500, scratch_dir=folder + "/data"), batch_size=16)
        for _ in range(8):
            buffer.extend(env.rollout(100))
        buffer.dumps(folder + "/saved")
        again = ReplayBuffer(storage=LazyMemmapStorage(500), batch_size=16)
        again.loads(folder + "/saved")
        assert len(again) == len(buffer) > 50
        assert (again[:]["observation"] == buffer[:]["observation"]).all()
        net = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        losses = []
        for _ in range(60):
            batch = again.sample()
            loss = nn.functional.cross_entropy(net(batch["observation"]), batch["action"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert all(0 < loss < 5 for loss in losses)
        whole = again[:]
        trajectories = split_trajectories(whole, done_key="done")
        assert trajectories.shape[0] == 8 and trajectories["mask"].sum() == len(again)

        slices = ReplayBuffer(
            storage=again.storage,
            sampler=SliceSamplerWithoutReplacement(slice_len=5, end_key=("next", "done"), strict_length=True),
            batch_size=10,
        )
        sample = slices.sample().reshape(-1, 5)
        assert not sample["next", "done"][:, :-2].any() or sample.shape[0] == 2


if __name__ == "__main__":
    main()
