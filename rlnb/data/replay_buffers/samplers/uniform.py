"""Samplers that draw items uniformly: with replacement, without it, and a limited number of times."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.storages.base import Storage


class RandomSampler(Sampler):
    """Draws items uniformly, with replacement.

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
        """Make a sampler without replacement if ``replacement`` is False."""
        if cls is RandomSampler and not replacement:
            return SamplerWithoutReplacement(*args, **kwargs)
        return super().__new__(cls)

    def __init__(self, *, replacement: bool = True) -> None:
        super().__init__()
        if not replacement:
            raise TypeError(f"{type(self).__name__} draws with replacement. Fix: SamplerWithoutReplacement().")

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose items; see :meth:`Sampler.sample`."""
        return storage.index(torch.randint(0, len(storage), (batch_size,), generator=self._generator)), {}


class SamplerWithoutReplacement(Sampler):
    """Draws every item once in each epoch.

    Items added during an epoch become part of it. An item that is overwritten keeps its place in the order. A batch
    larger than the storage contains every item once, with a warning.

    Args:
        drop_last: whether to leave out the last batch of an epoch if it is smaller than the others.
        shuffle: whether the order is random, and a new one in each epoch.
        replacement: ignored; accepted so that ``RandomSampler(replacement=False)`` makes this class.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> sampler = SamplerWithoutReplacement(shuffle=False)
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=4)
        >>> rb.extend(torch.arange(10, 20))
        tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        >>> list(rb)
        [tensor([10, 11, 12, 13]), tensor([14, 15, 16, 17]), tensor([18, 19])]
    """

    exclusive = True

    def __init__(self, drop_last: bool = False, shuffle: bool = True, *, replacement: bool = False) -> None:
        super().__init__()
        self.drop_last, self.shuffle = drop_last, shuffle
        self._forget()

    def _forget(self) -> None:
        self._order = torch.empty(0, dtype=torch.int64)  # of this epoch
        self._next = 0  # position in it
        self._known = 0  # number of items that the order was made for

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose the next items of the epoch; ``drop_last`` raises ``ValueError`` for more than are stored."""
        length = len(storage)
        if batch_size > length:
            if self.drop_last:
                raise ValueError(
                    f"Cannot draw {batch_size} of {length} items without replacement, and drop_last=True leaves out "
                    f"smaller batches. Fix: drop_last=False, a batch size of at most {length}, or RandomSampler(), "
                    "which draws with replacement."
                )
            warnings.warn(
                f"A batch of {batch_size} was requested, and the buffer holds {length} items: without replacement "
                f"the batch has {length}. Wait until the buffer holds more, or use RandomSampler(), which draws with "
                "replacement.",
                UserWarning,
                stacklevel=2,
            )
        self._follow(length)
        if len(self._order) - self._next < (batch_size if self.drop_last else 1):
            self._order = torch.randperm(length, generator=self._generator) if self.shuffle else torch.arange(length)
            self._next, self._known = 0, length
        end = min(self._next + batch_size, len(self._order))
        chosen, self._next = self._order[self._next : end], end
        left = len(self._order) - end
        self._ran_out = left < batch_size if self.drop_last else left == 0
        return storage.index(chosen), {}

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Check whether a batch can be drawn; see :meth:`Sampler.can_sample`."""
        return len(storage) > 0 and not (self.drop_last and batch_size > len(storage))

    def _follow(self, length: int) -> None:
        """Add items written since the last sample to the epoch; start a new epoch if there are fewer items."""
        if length < self._known:
            self._forget()
        elif 0 < self._known < length and self._next < len(self._order):
            rest = torch.cat([self._order[self._next :], torch.arange(self._known, length)])
            if self.shuffle:
                rest = rest[torch.randperm(len(rest), generator=self._generator)]
            self._order, self._next, self._known = rest, 0, length

    def _empty(self) -> None:
        super()._empty()
        self._forget()

    def state_dict(self) -> dict[str, Any]:
        """Return the rest of the epoch; see :meth:`Sampler.state_dict`."""
        left = self._order[self._next :].clone()
        return {"order": left, "known": self._known, "ran_out": self._ran_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`."""
        known = state_dict["known"]
        self._order = checked_order(state_dict["order"], known, "SamplerWithoutReplacement", "items")
        self._next, self._known, self._ran_out = 0, known, bool(state_dict["ran_out"])

    def __repr__(self) -> str:
        return f"SamplerWithoutReplacement(drop_last={self.drop_last}, shuffle={self.shuffle})"


class ConsumingSampler(Sampler):
    """Draws every item at most ``max_sample_count`` times.

    A batch contains no item twice. An item that was drawn often enough is consumed: it stays in the storage until it is
    overwritten, but is not drawn again. The last batch can be smaller than the others.

    Args:
        max_sample_count: how often each item is drawn.

    Raises:
        ValueError: If ``max_sample_count`` is not an integer of at least 1.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10), consume_after_n_samples=1, batch_size=4)
        >>> index = rb.extend(torch.arange(6))
        >>> [len(batch) for batch in rb], len(rb)
        ([4, 2], 0)
    """

    exclusive = True

    def __init__(self, max_sample_count: int = 1) -> None:
        super().__init__()
        if not isinstance(max_sample_count, int) or isinstance(max_sample_count, bool) or max_sample_count < 1:
            raise ValueError(errors.bad_size("max_sample_count", max_sample_count))
        self.max_sample_count = max_sample_count
        self._left = np.empty(0, dtype=np.int64)  # how often each item can still be drawn

    def available(self, storage: Storage) -> int:
        """Count the items that can still be drawn; see :meth:`Sampler.available`."""
        return int(np.count_nonzero(self._counts(storage)))

    def _counts(self, storage: Storage) -> np.ndarray:
        """How often each item can still be drawn; items written without notice count as new."""
        length, known = len(storage), len(self._left)
        if known != length:
            new = np.full(max(length - known, 0), self.max_sample_count)
            self._left = np.concatenate([self._left[:length], new])
        return self._left

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Check whether an item is left; see :meth:`Sampler.can_sample`."""
        return self.available(storage) > 0

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose items that are left; raises ``RuntimeError`` if there are none. See :meth:`Sampler.sample`."""
        left = self._counts(storage)
        places = np.flatnonzero(left)
        if not len(places):
            raise RuntimeError(
                f"Cannot sample: every item has been drawn {self.max_sample_count} time(s), and "
                "consume_after_n_samples allows no more. Fix: buffer.extend(data) with new data first."
            )
        order = torch.randperm(len(places), generator=self._generator)[:batch_size].numpy()
        chosen = places[order]
        left[chosen] -= 1
        self._ran_out = not left.any()
        return storage.index(torch.from_numpy(chosen)), {}

    def add(self, index: Any, storage: Storage) -> None:
        """Count a new item; see :meth:`Sampler.add`."""
        if index is not None:
            self._renew(storage.positions(index), storage)

    def extend(self, index: torch.Tensor, storage: Storage) -> None:
        """Count new items; see :meth:`Sampler.extend`."""
        self._renew(storage.positions(index), storage)

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Count overwritten items as new; see :meth:`Sampler.mark_update`."""
        self._renew(storage.positions(index), storage)

    def _renew(self, positions: torch.Tensor, storage: Storage) -> None:
        self._counts(storage)[positions[positions >= 0].numpy()] = self.max_sample_count
        self._ran_out = False

    def _empty(self) -> None:
        super()._empty()
        self._left = np.empty(0, dtype=np.int64)

    def state_dict(self) -> dict[str, Any]:
        """Return how often each item can still be drawn; see :meth:`Sampler.state_dict`."""
        return {"left": torch.from_numpy(self._left.copy()), "ran_out": self._ran_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`."""
        left = state_dict["left"].numpy().astype(np.int64)
        if left.ndim != 1 or (left < 0).any() or (left > self.max_sample_count).any():
            raise ValueError(
                f"The state must say how often each item can still be drawn, from 0 to {self.max_sample_count}. "
                "Nothing was changed. Fix: load it into a buffer with the consume_after_n_samples of the one saved."
            )
        self._left, self._ran_out = left.copy(), bool(state_dict["ran_out"])

    def __repr__(self) -> str:
        return f"ConsumingSampler(max_sample_count={self.max_sample_count})"


def checked_order(order: Any, count: Any, sampler: str, what: str) -> torch.Tensor:
    """Return a copy of the order in a loaded state, if it names each of ``count`` items at most once."""
    known = type(count) is int and isinstance(order, torch.Tensor) and order.dtype == torch.int64 and order.ndim == 1
    if not known or (len(order) and (order.min() < 0 or order.max() >= count or len(order.unique()) < len(order))):
        raise ValueError(
            f"The state of a {sampler} must name each of {str(count)[:20]} {what} at most once, and this one "
            "does not. Nothing was changed. Fix: load what state_dict() of such a sampler returned."
        )
    return order.clone()
