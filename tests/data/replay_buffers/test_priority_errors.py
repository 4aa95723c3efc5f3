"""Invalid priorities, and priority updates interrupted by Ctrl+C."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, ListStorage, PrioritizedReplayBuffer, PrioritizedSampler, ReplayBuffer
from rlnb.data.replay_buffers.sum_tree import SumTree
from tests.data.replay_buffers.interrupting import interrupted
from tests.data.replay_buffers.test_prioritized import buffer


@pytest.mark.parametrize(
    ("code", "call"),
    [
        (PrioritizedSampler._store_waiting, lambda rb: rb.update_priority(torch.arange(3), torch.ones(3))),
        (PrioritizedSampler._store, lambda rb: rb.update_priority(torch.arange(3), torch.ones(3))),
        (PrioritizedSampler._set_default, lambda rb: rb.extend(torch.arange(2000))),
        (SumTree.set, lambda rb: rb.extend(torch.arange(2000))),
        (SumTree._refresh, lambda rb: rb.sample()),
        (SumTree.clear, lambda rb: rb.empty()),
        (ReplayBuffer._empty, lambda rb: rb.empty()),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_an_interrupt_leaves_priorities_that_can_be_relied_on(code: Any, call: Callable[[Any], Any]) -> None:
    for at in range(40):
        rb = PrioritizedReplayBuffer(alpha=1.0, beta=1.0, eps=0.0, storage=ListStorage(5000), batch_size=64)
        rb.extend(torch.arange(1500))
        for i in range(33):  # the first of a size is stored, and 32 wait
            rb.update_priority(torch.arange(3), torch.tensor([2.0, 3.0, 4.0 + i]))
        reached = interrupted(lambda rb=rb: call(rb), code.__code__, at)
        assert max(rb.sample()) < len(rb) if len(rb) else True
        rb.update_priority(torch.arange(3), torch.tensor([2.0, 3.0, 4.0])) if len(rb) else rb.extend(torch.arange(7))
        found = rb.sampler.state_dict()["priorities"]
        assert len(found) == len(rb) and (found > 0).all()
        assert not len(rb) > 7 or found[:4].tolist() == [2.0, 3.0, 4.0, 1.0]
        tree = rb.sampler._tree
        assert tree.total() == pytest.approx(found.sum().item()) and tree.least() == found.min()
        if not reached:
            break
    assert 0 < at < 39


@pytest.mark.parametrize(
    "index", [torch.tensor([[0, 5]]), torch.tensor([[2, -1]]), (torch.tensor([0]), torch.tensor([7]))]
)
def test_coordinates_outside_are_not_items(index: Any) -> None:
    sampler = PrioritizedSampler(12, alpha=1.0, beta=1.0, eps=0.0)
    rb = ReplayBuffer(storage=LazyTensorStorage(12, ndim=2), sampler=sampler)
    rb.extend(torch.zeros(3, 4))  # three envs, four steps
    shown = re.escape(str(tuple(int(part) for part in (index if isinstance(index, tuple) else index[0]))))
    with pytest.raises(IndexError, match=rf"There is no item {shown}: 12 are stored"):
        rb.update_priority(index, torch.tensor([9.0]))
    assert sampler.state_dict()["priorities"].tolist() == [1.0] * 12


def test_an_index_has_as_many_coordinates_as_there_are_dimensions() -> None:
    with pytest.raises(IndexError) as caught:
        buffer(4).update_priority((torch.tensor([0]), torch.tensor([1])), torch.tensor([9.0]))
    assert str(caught.value) == (
        "Each item of the storage has 1 coordinate(s), and the index has 2. Nothing was changed. Fix: use the "
        'indices that came with a sample (sample["index"], or info["index"] with return_info=True).'
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0, 10.0])
def test_priorities_whose_sums_would_be_infinite_are_refused(alpha: float, dtype: torch.dtype) -> None:
    rb, most = buffer(10, alpha=alpha, eps=0.0), 1e290 ** (1 / max(alpha, 1))
    largest = min(most * 0.99, torch.finfo(dtype).max)
    for _ in range(3):
        rb.update_priority(torch.arange(10), torch.full((10,), largest, dtype=dtype))
        assert len(rb.sample()) == 6
    rb.add(TensorDict({"a": torch.tensor(0)}))
    for beyond in (most * 1.01, 1e308):
        if beyond <= torch.finfo(dtype).max:
            with pytest.raises(
                ValueError, match=re.escape(f"this alpha {most:.3g} is the largest allowed. Nothing was")
            ):
                rb.update_priority(torch.arange(10), torch.full((10,), beyond, dtype=dtype))
    assert len(rb.sample()) == 6


def test_what_takes_the_usual_way_is_checked_like_anything_else() -> None:
    """The third update of a size is noted by a shorter way than the first."""
    rb, index = buffer(4, eps=0.0), torch.arange(3)
    for priority in (3.0, 4.0, 5.0):
        rb.update_priority(index, torch.full((3,), priority))
    for bad in (-1.0, math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="priority"):
            rb.update_priority(index, torch.tensor([9.0, bad, 9.0]))
    for place in (-1, 4, 2**62, -(2**62)):
        with pytest.raises(IndexError, match=str(place)):
            rb.update_priority(torch.tensor([0, place, 1]), torch.full((3,), 9.0))
    rb.update_priority(index, torch.tensor([-0.0, 0.0, 5.0]))  # minus zero is no negative number
    assert rb.sampler.state_dict()["priorities"].tolist() == [0.0, 0.0, 5.0, 1.0]
