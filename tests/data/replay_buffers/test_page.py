"""The documented examples of buffers, storages and writers, except those of sharing and slices."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from rlnb.data.replay_buffers import LazyMemmapStorage, ListStorage, ReplayBuffer, TensorStorage


def test_any_object_goes_into_a_list() -> None:
    rb = ReplayBuffer(storage=ListStorage(10))
    rb.add("a string!")  # first element will be a string
    rb.extend([30, None])  # element [1] is an int, [2] is None
    assert rb[:] == ["a string!", 30, None] and rb[1] == 30


def test_a_container_that_is_given() -> None:
    container = torch.empty(10, 3, 64, 64, dtype=torch.uint8)
    rb = ReplayBuffer(storage=TensorStorage(container))
    img = torch.randint(255, (3, 64, 64), dtype=torch.uint8)
    assert rb.add(img) == 0 and (container[0] == img).all() and (rb[0] == img).all()


@pytest.fixture
def rb_td() -> ReplayBuffer:
    rb = ReplayBuffer(storage=LazyMemmapStorage(10), batch_size=1)
    image = torch.randint(255, (3, 64, 64), dtype=torch.uint8)
    rb.add(TensorDict({"img": image, "labels": torch.randint(100, ())}, batch_size=[]))
    return rb


def test_memory_is_made_when_the_first_data_comes(rb_td: ReplayBuffer) -> None:
    assert rb_td.storage.column("img").tensor.shape == (10, 3, 64, 64) and len(rb_td) == 1
    rb_pytree = ReplayBuffer(storage=LazyMemmapStorage(10))
    rb_pytree.extend({"a": {"b": torch.randn(3), "c": [torch.zeros(3, 2), (torch.ones(3, 10),)]}})
    assert len(rb_pytree) == 3  # the replay buffer has 3 elements!
    with pytest.raises(ValueError, match="lead with"):
        rb_pytree.extend({"a": {"b": torch.randn(3), "c": [torch.zeros(2, 2), (torch.ones(3, 10),)]}})
    assert len(rb_pytree) == 3


def test_reading(rb_td: ReplayBuffer) -> None:
    first_elt = rb_td[0]
    storage = rb_td[:]  # returns all valid elements from the buffer
    sample = rb_td.sample(128)
    assert (first_elt.batch_size, storage.batch_size, sample.batch_size) == ((), (1,), (128,))
    assert (sample["img"] == first_elt["img"]).all() and (storage["labels"] == first_elt["labels"]).all()
    batches = iter(rb_td)  # batch-size was set in the constructor to 1; RandomSampler never runs out
    assert [next(batches).batch_size for _ in range(3)] == [(1,)] * 3


def test_a_state_in_a_file(rb_td: ReplayBuffer, tmp_path: Path) -> None:
    torch.save(rb_td.state_dict(), tmp_path / "state.pt")
    other = ReplayBuffer(storage=LazyMemmapStorage(10), batch_size=1)
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert (other[:] == rb_td[:]).all() and len(other) == 1
