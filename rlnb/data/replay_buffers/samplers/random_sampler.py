"""RandomSampler: uniformly, with replacement."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.samplers.without_replacement import SamplerWithoutReplacement
from rlnb.data.replay_buffers.storages import Storage


class RandomSampler(Sampler):
    """A sampler that draws every element with the same probability, with replacement.

    Args:
        replacement: False makes a :class:`SamplerWithoutReplacement`, with ``drop_last`` and ``shuffle``.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=RandomSampler(), batch_size=4)
        >>> rb.extend(torch.arange(10))
        tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        >>> rb.sample().shape
        torch.Size([4])
    """

    def __new__(cls, *args: Any, replacement: bool = True, **kwargs: Any) -> Sampler:  # type: ignore[misc]  # on request
        """Make a sampler without replacement where that is asked for."""
        if cls is RandomSampler and not replacement:
            return SamplerWithoutReplacement(*args, **kwargs)
        return super().__new__(cls)

    def __init__(self, *, replacement: bool = True) -> None:
        super().__init__()
        if not replacement:
            raise TypeError(f"{type(self).__name__} draws with replacement. Fix: SamplerWithoutReplacement().")

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose elements; see :meth:`Sampler.sample`."""
        return storage.index(torch.randint(0, len(storage), (batch_size,), generator=self._generator)), {}
