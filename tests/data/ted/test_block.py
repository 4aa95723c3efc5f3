"""The TED block: rows filled in place become a rollout."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlnb.data.ted import TEDBlock
from rlnb.data.ted import block as block_module

ROOT = {"observation": (torch.Size([2]), torch.float32), "done": (torch.Size([1]), torch.bool)}
NEXT = {"reward": (torch.Size([1]), torch.float32)}


def fill(block: TEDBlock, length: int) -> None:
    for t in range(length):
        block.next["observation"][t] = [t + 1, -t - 1]
        block.next["reward"][t] = t
        if t + 1 < length:
            if t + 1 == block.rows:
                block.grow()
            block.carry(t)


@pytest.mark.parametrize("batch", [(), (3,)])
def test_an_episode_is_carried_at_once_as_row_by_row(batch):
    blocks = [TEDBlock(ROOT, NEXT, max_rows=10, batch=batch) for _ in range(2)]
    for block in blocks:
        block.next["observation"][...] = np.arange(block.next["observation"].size).reshape(*batch, 10, 2)
        block.next["done"][...] = True
        block.root["observation"][...] = -1
    for t in range(3, 7):
        blocks[0].carry(t)
    blocks[1].carry_all(3, 8)
    for key in ROOT:
        assert np.array_equal(blocks[0].root[key], blocks[1].root[key])
    assert (blocks[1].root["observation"] == -1).reshape(*batch, 10, 2).all(-1).reshape(-1, 10)[0].tolist() == (
        [True] * 4 + [False] * 4 + [True] * 2
    )


@pytest.mark.parametrize("length", [1, 5, 16, 17, 40])
def test_rows_survive_growth(monkeypatch, length):
    monkeypatch.setattr(block_module, "_FIRST_BYTES", 1)
    block = TEDBlock(ROOT, NEXT, max_rows=40)
    assert block.rows == 16
    fill(block, length)
    data = block.to_tensordict(length)
    steps = torch.arange(length, dtype=torch.float32)
    assert data.batch_size == (length,) and data.names == ["time"]
    assert torch.equal(data["next", "observation"], torch.stack([steps + 1, -steps - 1], -1))
    assert torch.equal(data["observation"], torch.stack([steps, -steps], -1))
    assert torch.equal(data["next", "reward"], steps[:, None])
    assert not data["done"].any()


def test_end_signals_of_agents_are_carried_and_those_of_the_root_are_not():
    ends = {("agents", "done"): (torch.Size([2, 1]), torch.bool), "done": (torch.Size([1]), torch.bool)}
    block = TEDBlock(ends, {}, max_rows=2)
    block.next["agents", "done"][0], block.next["done"][0] = [[True], [False]], True
    block.carry(0)
    assert block.root["agents", "done"][1].tolist() == [[True], [False]] and not block.root["done"][1]


def test_a_short_rollout_does_not_hold_the_storage_of_a_long_one():
    block = TEDBlock(ROOT, NEXT, max_rows=1000)
    fill(block, 3)
    data = block.to_tensordict(3)
    assert data["observation"].untyped_storage().nbytes() == 3 * 2 * 4


def test_a_full_block_is_not_copied():
    block = TEDBlock(ROOT, NEXT, max_rows=3)
    fill(block, 3)
    data = block.to_tensordict(3)
    assert np.shares_memory(data["observation"].numpy(), block.root["observation"])


def test_row_views_are_the_block():
    block = TEDBlock(ROOT, NEXT, max_rows=2)
    block.root_row(1)["observation"][:] = 5
    assert block.root["observation"][1].tolist() == [5, 5]


def test_extra_entries_may_be_nested():
    block = TEDBlock(ROOT, NEXT, max_rows=2)
    data = block.to_tensordict(2, {"action": torch.ones(2), ("next", "value"): torch.ones(2)})
    assert data["next", "value"].shape == (2,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.int64, torch.bool, torch.float16])
def test_dtypes(dtype):
    block = TEDBlock({"x": (torch.Size([3]), dtype)}, {}, max_rows=4)
    assert block.to_tensordict(2)["x"].dtype == dtype
