"""Checkpoints written by an earlier version of the library still load, bit for bit.

The files in ``saved_checkpoints`` are not to be written anew. A new format gets a folder of its own, or the clear error
of a format that is no longer read.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from rlnb.data import (
    FlatStorageCheckpointer,
    LazyTensorStorage,
    NestedStorageCheckpointer,
    PrioritizedSampler,
    ReplayBuffer,
    TensorStorageCheckpointer,
)

SAVED = Path(__file__).parent / "saved_checkpoints"
FORMAT = SAVED / "3"  # what this version reads
CHECKPOINTERS = {
    "tensor": TensorStorageCheckpointer,
    "flat": FlatStorageCheckpointer,
    "nested": NestedStorageCheckpointer,
}


def make_buffer(kind: str) -> ReplayBuffer:
    return ReplayBuffer(
        storage=LazyTensorStorage(6),
        sampler=PrioritizedSampler(6, alpha=0.7, beta=0.5),
        checkpointer=CHECKPOINTERS[kind](),
        batch_size=2,
    )


def make_steps(kind: str) -> TensorDict:
    """Return eight steps of three trajectories: the last two overwrite the first two."""
    observation = torch.tensor([0.0, 1, 2, 10, 11, 12, 20, 21])
    done = torch.tensor([0, 0, 1, 0, 0, 1, 0, 0], dtype=torch.bool).unsqueeze(-1)
    below = TensorDict({"observation": observation + 1, "done": done, "reward": observation.view(8, 1) / 4}, [8])
    steps = TensorDict({"observation": observation, "action": torch.arange(8, dtype=torch.int16), "next": below}, [8])
    if kind != "nested":  # which holds tensors only
        steps["label"] = NonTensorStack(*(f"step {number}" for number in range(8)))
    return steps


def fill(buffer: ReplayBuffer, kind: str) -> None:
    steps = make_steps(kind)
    buffer.extend(steps[:6])
    buffer.extend(steps[6:])
    buffer.update_priority(torch.arange(6), torch.arange(1.0, 7.0))


@pytest.mark.parametrize("kind", CHECKPOINTERS)
def test_a_checkpoint_of_the_second_format_is_refused(kind: str, tmp_path: Path) -> None:
    buffer = make_buffer(kind)
    with pytest.raises(ValueError, match=r"has the format 'rlnb-checkpoint-2'.*Fix: load it with the version that"):
        buffer.loads(shutil.copytree(SAVED / "2" / kind, tmp_path / kind))
    assert len(buffer) == 0


@pytest.mark.parametrize("kind", CHECKPOINTERS)
def test_a_checkpoint_of_before_still_loads(kind: str, tmp_path: Path) -> None:
    folder = shutil.copytree(FORMAT / kind, tmp_path / kind)
    expected, loaded = make_buffer(kind), make_buffer(kind)
    fill(expected, kind)
    loaded.loads(folder)
    assert len(loaded) == 6 and bool((loaded[:].exclude("label") == expected[:].exclude("label")).all())
    if kind != "nested":
        assert loaded[:]["label"] == expected[:]["label"] == [f"step {number}" for number in (6, 7, 2, 3, 4, 5)]
    torch.testing.assert_close(loaded.sampler.state_dict(), expected.sampler.state_dict(), rtol=0, atol=0)
    more = make_steps(kind)[:1]
    assert loaded.extend(more).tolist() == expected.extend(more).tolist() == [2]
