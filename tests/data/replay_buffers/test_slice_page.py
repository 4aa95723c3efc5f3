"""The documented examples of trajectories in buffers."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlnb.collectors import Collector, RandomPolicy
from rlnb.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, SliceSampler, TensorDictReplayBuffer
from rlnb.envs import GymEnv, RandomCropTensorDict, SerialEnv, StepCounter, TransformedEnv


def test_slices_of_a_single_env_as_on_the_page() -> None:
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    collector = Collector(env, RandomPolicy(env.action_spec), frames_per_batch=10, total_frames=-1)
    rb = ReplayBuffer(
        storage=LazyTensorStorage(100),
        sampler=SliceSampler(num_slices=8, traj_key=("collector", "traj_ids"), truncated_key=None, strict_length=False),
        batch_size=64,
    )
    for i, data in enumerate(collector):
        rb.extend(data)
        if i == 10:
            break
    assert len(rb) == 100, len(rb)
    assert rb[:]["next", "step_count"].shape == (100, 1)
    for _ in range(20):
        sample = rb.sample()
        assert len(sample) <= 64
        follows = sample["collector", "traj_ids"].diff() == 0
        step = sample["next", "step_count"].squeeze(-1).diff()
        runs = int((~(follows & (step == 1))).sum()) + 1
        assert runs <= 8
    collector.shutdown()


def test_slices_of_two_envs_as_on_the_page() -> None:
    env = TransformedEnv(SerialEnv(2, lambda: GymEnv("CartPole-v1")), StepCounter())
    collector = Collector(env, RandomPolicy(env.action_spec), frames_per_batch=1, total_frames=-1)
    rb = ReplayBuffer(
        storage=LazyTensorStorage(100, ndim=2),
        sampler=SliceSampler(num_slices=8, traj_key=("collector", "traj_ids"), truncated_key=None, strict_length=False),
        batch_size=64,
    )
    for i, data in enumerate(collector):
        rb.extend(data)
        if i == 100:
            break
    assert len(rb) == 100, len(rb)
    assert rb[:]["next", "step_count"].squeeze().shape == (50, 2)
    for _ in range(20):
        sample, info = rb.sample(return_info=True)
        time, which = info["index"]
        goes_on = (which.diff() == 0) & (time.diff() % 50 == 1)
        same = sample["collector", "traj_ids"].diff() == 0
        assert int((~goes_on).sum()) + 1 <= 8 and bool(same[goes_on].all() or (~goes_on).any())
        step = sample["next", "step_count"].squeeze(-1).diff()
        assert (step[goes_on & same] == 1).all()
    collector.shutdown()


def test_pieces_of_trajectories_as_rows_as_on_the_page() -> None:
    obs = torch.randn(100, 50, 1)
    data = TensorDict({"obs": obs[:-1], "next": {"obs": obs[1:]}}, [99])
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(1000))
    rb.extend(data)
    rb.append_transform(RandomCropTensorDict(sub_seq_len=10))
    sample = rb.sample(128)
    assert sample.batch_size == (10,) and sample["index"].shape == (10,)
    assert sample["obs"].shape == sample["next", "obs"].shape == (10, 50, 1)
    assert (sample["obs"] == obs[sample["index"]]).all()


def test_a_storage_counts_the_leading_dimension_trajectories_or_steps() -> None:
    data = TensorDict({"obs": torch.randn(6, 50, 1), "episode": torch.arange(6)[:, None].expand(6, 50)}, [6, 50])
    trajectories, steps = (TensorDictReplayBuffer(storage=LazyTensorStorage(300)) for _ in range(2))
    trajectories.extend(data)
    steps.extend(data.reshape(-1))
    assert len(trajectories) == 6 and len(steps) == 300
    assert trajectories.sample(4).batch_size == (4, 50) and steps.sample(4).batch_size == (4,)
    steps.set_sampler(SliceSampler(num_slices=4))
    assert (steps.sample(200)["episode"].view(4, 50).diff() == 0).all()  # whole trajectories
