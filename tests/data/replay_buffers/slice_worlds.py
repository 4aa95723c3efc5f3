"""Buffers with episodes, and checks of their samples, for the tests of slices."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from tests.data.replay_buffers.test_samplers import chi_square_bound


def episodes(*lengths: int, first: int = 0) -> TensorDict:
    """Episodes one after another; "step" counts in each."""
    ids = torch.cat([torch.full((length,), first + i) for i, length in enumerate(lengths)])
    step = torch.cat([torch.arange(length) for length in lengths])
    done = torch.cat([torch.arange(length) == length - 1 for length in lengths])[:, None]
    below = {"done": done, "terminated": done.clone(), "truncated": torch.zeros_like(done)}
    return TensorDict({"episode": ids, "step": step, "next": TensorDict(below, [len(ids)])}, [len(ids)])


def buffer(sampler: SliceSampler, data: Any, size: int | None = None, seed: int = 0, **kwargs: Any) -> Any:
    """A buffer that holds data."""
    generator = torch.Generator().manual_seed(seed)
    storage = LazyTensorStorage(size or len(data))
    rb = TensorDictReplayBuffer(storage=storage, sampler=sampler, generator=generator, **kwargs)
    rb.extend(data)
    return rb


def pieces(sample: TensorDict) -> list[tuple[int, ...]]:
    """The indices of each slice, told apart by the marks of their last steps."""
    last = sample["next", "truncated"].flatten().nonzero().flatten() + 1
    return [tuple(part.tolist()) for part in torch.tensor_split(sample["index"], last[:-1])]


def evenly(counts: Counter[Any], expected: dict[Any, float]) -> bool:
    """Whether draws have the expected probabilities, by a chi-square test."""
    total = sum(counts.values())
    assert set(counts) <= set(expected)
    statistic = sum((counts[key] - total * p) ** 2 / (total * p) for key, p in expected.items())
    return statistic < chi_square_bound(len(expected) - 1)
