"""Ensembles for tests, and their member buffers."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data import (
    LazyTensorStorage,
    ReplayBufferEnsemble,
    TensorDictReplayBuffer,
)
from tests.data.replay_buffers.worlds import Make, as_tensordict


def member(first: int, count: int = 10, make: Make = as_tensordict, **kwargs: Any) -> TensorDictReplayBuffer:
    """A buffer of the numbers from ``first`` on."""
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(count), **kwargs)
    rb.extend(make(torch.arange(first, first + count)))
    return rb


def three(**kwargs: Any) -> ReplayBufferEnsemble:
    """An ensemble whose members hold 0 to 9, 100 to 109 and 200 to 209."""
    return ReplayBufferEnsemble(member(0), member(100), member(200), **kwargs)
