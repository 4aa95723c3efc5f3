"""Small buffers with known contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer


def make_steps(lengths: Sequence[int], last_ends: bool = True, ids: bool = False) -> TensorDict:
    """Episodes one after another.

    Args:
        lengths: steps of each.
        last_ends: whether the last one ends.
        ids: whether there is an entry "episode".
    """
    total = sum(lengths)
    done = torch.zeros(total, 1, dtype=torch.bool)
    done[torch.tensor(lengths).cumsum(0) - 1] = True
    done[-1] = last_ends
    found: dict[str, Any] = {"observation": torch.arange(total * 2.0).reshape(total, 2), "next": {"done": done}}
    if ids:
        found["episode"] = torch.repeat_interleave(torch.tensor(lengths))
    return TensorDict(found, [total])


def make_buffer(size: int = 10, **kwargs: Any) -> TensorDictReplayBuffer:
    """A buffer with room for some rows."""
    ndim = kwargs.pop("ndim", 1)
    generator = torch.Generator().manual_seed(0)
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(size, ndim=ndim), **{"batch_size": 4, "generator": generator, **kwargs}
    )


@pytest.fixture
def steps() -> Callable[..., TensorDict]:
    """``steps(lengths, last_ends, ids)``; see :func:`make_steps`."""
    return make_steps


@pytest.fixture
def buffer() -> Callable[..., TensorDictReplayBuffer]:
    """``buffer(size, **kwargs)``; see :func:`make_buffer`."""
    return make_buffer
