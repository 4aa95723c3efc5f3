"""Helpers of the checkpoint tests: a disk that takes no time, and TED data with given episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    FlatStorageCheckpointer,
    H5StorageCheckpointer,
    LazyTensorStorage,
    NestedStorageCheckpointer,
    PrioritizedSampler,
    ReplayBuffer,
    TensorStorageCheckpointer,
)
from rlnb.data.replay_buffers.checkpointers import folder
from tests.data.ted.generators import same


@pytest.fixture(autouse=True, scope="module")
def no_disk() -> Iterator[None]:
    """Leave files to the system: to wait for the disk is what takes the time, and no test pulls the plug."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "sync", lambda path: None)
        yield


def steps_of(ends: Sequence[Sequence[bool]], first: int = 0) -> TensorDict:
    """TED data of several envs, shape ``[envs, steps]``, from where their episodes end.

    Observations are all different. What a step led to is what the next one starts from, unless an episode ends.
    """
    done = torch.tensor(ends, dtype=torch.bool)
    time = torch.arange(first, first + done.shape[1]).expand(done.shape) + 10_000 * torch.arange(len(ends))[:, None]
    after = torch.where(done, -time - 1, time + 1)

    def views(numbers: torch.Tensor) -> dict[str, Any]:
        return {
            "observation": numbers[..., None].expand(*numbers.shape, 3).float().clone(),
            "agents": TensorDict({"pixels": (numbers[..., None, None] % 251).to(torch.uint8)}, [*numbers.shape, 1]),
        }

    below = {**views(after), "reward": time[..., None] / 7, "done": done[..., None], "terminated": done[..., None]}
    root = {**views(time), "action": time.double(), "done": torch.zeros_like(done)[..., None]}
    return TensorDict({**root, "next": TensorDict(below, done.shape)}, done.shape)


MAKERS: dict[str, Any] = {
    "tensor": TensorStorageCheckpointer,
    "flat": FlatStorageCheckpointer,
    "nested": NestedStorageCheckpointer,
    "h5": H5StorageCheckpointer,
    "gzip": lambda: H5StorageCheckpointer(h5_kwargs={"compression": "gzip"}),
}


def buffer(name: str = "tensor", storage: Any = LazyTensorStorage) -> ReplayBuffer:
    return ReplayBuffer(storage=storage(12), checkpointer=MAKERS[name], sampler=PrioritizedSampler(12, 1.0, 1.0))


def filled(first: int, name: str = "tensor", storage: Any = LazyTensorStorage) -> ReplayBuffer:
    rb = buffer(name, storage)
    data = steps_of([[t % 4 == 3 for t in range(8)]], first)[0]
    index = rb.extend(data.select("observation", "action", ("next", "observation"), ("next", "done")))
    rb.update_priority(index, torch.arange(1.0, 9.0))
    return rb


def first_of(path: Path, name: str = "tensor") -> float:
    """Load what is there into a new buffer; say which buffer it was."""
    rb = buffer(name)
    rb.loads(path)
    first = int(rb[:]["action"][0])
    same(rb[:], filled(first, name)[:])
    assert rb.sampler.state_dict()["priorities"].tolist() == filled(first).sampler.state_dict()["priorities"].tolist()
    return first


def refused(rb: ReplayBuffer, path: Path) -> str:
    """Load what is refused; the buffer keeps what it had."""
    before = rb[:].clone() if len(rb) else None
    state = rb.storage.ring.cursor, len(rb), rb.storage.form, rb.storage.max_size
    priorities = rb.sampler.state_dict()["priorities"].tolist()
    with pytest.raises(ValueError) as caught:
        rb.loads(path)
    assert (rb.storage.ring.cursor, len(rb), rb.storage.form, rb.storage.max_size) == state
    assert rb.sampler.state_dict()["priorities"].tolist() == priorities
    if before is not None:
        same(rb[:], before)
    else:
        rb.extend(torch.zeros(1))  # it takes any data, as before
        rb.storage._forget_memory()
    return str(caught.value)
