"""ConsumingSampler: every element is drawn a fixed number of times, and then no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.storages import Storage


class ConsumingSampler(Sampler):
    """A sampler that draws every element ``max_sample_count`` times at most.

    A batch has no element twice. Elements that were drawn often enough are consumed: they stay in the storage until
    they are written over, and are not drawn again. The last batch can be smaller than the others.

    Args:
        max_sample_count: how often each element is drawn.

    Raises:
        ValueError: If ``max_sample_count`` is not an integer of at least 1.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10), consume_after_n_samples=1, batch_size=4)
        >>> index = rb.extend(torch.arange(6))
        >>> [len(batch) for batch in rb], len(rb)
        ([4, 2], 0)
    """

    of_one_storage = True

    def __init__(self, max_sample_count: int = 1) -> None:
        super().__init__()
        if not isinstance(max_sample_count, int) or isinstance(max_sample_count, bool) or max_sample_count < 1:
            raise ValueError(faults.bad_size("max_sample_count", max_sample_count))
        self.max_sample_count = max_sample_count
        self._left = np.empty(0, dtype=np.int64)  # how often each element can still be drawn

    def available(self, storage: Storage) -> int:
        """Count the elements that can still be drawn; see :meth:`Sampler.available`."""
        return int(np.count_nonzero(self._counted(storage)))

    def _counted(self, storage: Storage) -> np.ndarray:
        """What is left of each element; elements that this sampler has not heard of are new."""
        length, known = len(storage), len(self._left)
        if known != length:
            new = np.full(max(length - known, 0), self.max_sample_count)
            self._left = np.concatenate([self._left[:length], new])
        return self._left

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Say whether an element is left; see :meth:`Sampler.can_sample`."""
        return self.available(storage) > 0

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose elements that are left; see :meth:`Sampler.sample`.

        Raises:
            RuntimeError: If there are none.
        """
        left = self._counted(storage)
        places = np.flatnonzero(left)
        if not len(places):
            raise RuntimeError(
                f"Cannot sample: every element has been drawn {self.max_sample_count} time(s), and "
                "consume_after_n_samples allows no more. Fix: buffer.extend(data) with new data first."
            )
        order = torch.randperm(len(places), generator=self._generator)[:batch_size].numpy()
        chosen = places[order]
        left[chosen] -= 1
        self._ran_out = not left.any()
        return storage.index(torch.from_numpy(chosen)), {}

    def add(self, index: Any, storage: Storage) -> None:
        """Count a new element; see :meth:`Sampler.add`."""
        if index is not None:
            self._renew(storage.positions(index), storage)

    def extend(self, index: torch.Tensor, storage: Storage) -> None:
        """Count new elements; see :meth:`Sampler.extend`."""
        self._renew(storage.positions(index), storage)

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Count elements that were written over as new; see :meth:`Sampler.mark_update`."""
        self._renew(storage.positions(index), storage)

    def _renew(self, positions: torch.Tensor, storage: Storage) -> None:
        self._counted(storage)[positions[positions >= 0].numpy()] = self.max_sample_count
        self._ran_out = False

    def _empty(self) -> None:
        super()._empty()
        self._left = np.empty(0, dtype=np.int64)

    def state_dict(self) -> dict[str, Any]:
        """Return how often each element can still be drawn; see :meth:`Sampler.state_dict`."""
        return {"left": torch.from_numpy(self._left.copy()), "ran_out": self._ran_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`.

        Raises:
            ValueError: If it is not the state of such a sampler; nothing is changed.
        """
        left = state_dict["left"].numpy().astype(np.int64)
        if left.ndim != 1 or (left < 0).any() or (left > self.max_sample_count).any():
            raise ValueError(
                f"The state must say how often each element can still be drawn, from 0 to {self.max_sample_count}. "
                "Nothing was changed. Fix: load it into a buffer with the consume_after_n_samples of the one saved."
            )
        self._left, self._ran_out = left.copy(), bool(state_dict["ran_out"])

    def __repr__(self) -> str:
        return f"ConsumingSampler(max_sample_count={self.max_sample_count})"
