"""Demonstrations and fresh experience drawn from one ensemble of buffers."""

import torch
from tensordict import TensorDict

from rlnb.data import (
    LazyTensorStorage,
    ReplayBuffer,
    ReplayBufferEnsemble,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from rlnb.envs.transforms import Compose, RenameTransform, ToTensorImage


def main() -> None:
    torch.manual_seed(0)
    demonstrations = TensorDictReplayBuffer(storage=LazyTensorStorage(20), batch_size=8)
    experience = TensorDictReplayBuffer(storage=LazyTensorStorage(20), batch_size=8)
    demonstrations.extend(
        TensorDict({"x": torch.zeros(20), "pixels": torch.zeros(20, 4, 4, 3, dtype=torch.uint8)}, [20])
    )
    experience.extend(
        TensorDict({"x": torch.ones(20), "pixels": torch.full((20, 4, 4, 3), 255, dtype=torch.uint8)}, [20])
    )
    both = ReplayBufferEnsemble(demonstrations, experience, batch_size=16, transform=Compose(ToTensorImage()))
    sample = both.sample()
    assert sample.numel() == 16
    assert sample["pixels"].shape[-3:] == (3, 4, 4) and sample["pixels"].dtype == torch.float32
    weighted = ReplayBufferEnsemble(
        demonstrations, experience, batch_size=64, sample_from_all=False, p=[0.0, 1.0], num_buffer_sampled=2
    )
    assert (weighted.sample()["x"] == 1).all()
    assert len(both[0]) == 20 and both[1] is experience

    passes = ReplayBuffer(
        storage=LazyTensorStorage(20),
        sampler=SamplerWithoutReplacement(),
        batch_size=5,
        transform=RenameTransform(["x"], ["y"]),
    )
    passes.extend(TensorDict({"x": torch.arange(20)}, [20]))
    seen = torch.cat([batch["y"] for batch in passes])
    assert sorted(seen.tolist()) == list(range(20))


if __name__ == "__main__":
    main()
