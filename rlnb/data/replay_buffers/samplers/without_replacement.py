"""SamplerWithoutReplacement: every element once in a pass."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.samplers.base import Info, Sampler
from rlnb.data.replay_buffers.storages import Storage


def is_order(order: Any, count: int) -> bool:
    """Say whether a loaded state has an order of elements, or of some of them.

    Args:
        order: what the state has.
        count: how many elements there are.

    Returns:
        True if it is a tensor of integers from 0 to ``count - 1`` without a repetition.

    Example:
        >>> is_order(torch.tensor([2, 0]), 3), is_order(torch.tensor([2, 2]), 3)
        (True, False)
    """
    if not isinstance(order, torch.Tensor) or order.dtype != torch.int64 or order.ndim != 1:
        return False
    return not len(order) or (int(order.min()) >= 0 and int(order.max()) < count and len(order.unique()) == len(order))


class SamplerWithoutReplacement(Sampler):
    """A sampler that draws every element once before it draws one again.

    Elements that are added during a pass are part of it. An element that is written over keeps its turn. A batch that
    is larger than the storage has every element once, with a warning.

    Args:
        drop_last: whether the last batch of a pass is left out if it is not full. Otherwise it is given as it is,
            smaller than the others.
        shuffle: whether the order is random, anew in each pass.
        replacement: taken, so that ``RandomSampler(replacement=False)`` makes one; it makes no difference.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> sampler = SamplerWithoutReplacement(shuffle=False)
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=sampler, batch_size=4)
        >>> rb.extend(torch.arange(10, 20))
        tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        >>> list(rb)
        [tensor([10, 11, 12, 13]), tensor([14, 15, 16, 17]), tensor([18, 19])]
    """

    of_one_storage = True

    def __init__(self, drop_last: bool = False, shuffle: bool = True, *, replacement: bool = False) -> None:
        super().__init__()
        self.drop_last, self.shuffle = drop_last, shuffle
        self._forget()

    def _forget(self) -> None:
        self._order = torch.empty(0, dtype=torch.int64)  # of this pass
        self._next = 0  # where in it
        self._known = 0  # how many elements it is about

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose the next elements of the pass; see :meth:`Sampler.sample`.

        Raises:
            ValueError: If the batch is larger than the storage and ``drop_last`` leaves out what is not full.
        """
        length = len(storage)
        if batch_size > length:
            if self.drop_last:
                raise ValueError(faults.too_many_without_replacement(batch_size, length))
            warnings.warn(
                f"A batch of {batch_size} was asked for, and the buffer holds {length} elements: without replacement "
                f"the batch has {length}. Wait until the buffer holds more, or use RandomSampler(), which draws with "
                "replacement.",
                UserWarning,
                stacklevel=2,
            )
        self._follow(length)
        if len(self._order) - self._next < (batch_size if self.drop_last else 1):
            self._begin(length)
        end = min(self._next + batch_size, len(self._order))
        chosen, self._next = self._order[self._next : end], end
        left = len(self._order) - end
        self._ran_out = left < batch_size if self.drop_last else left == 0
        return storage.index(chosen), {}

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Say whether a batch can be drawn; see :meth:`Sampler.can_sample`."""
        return len(storage) > 0 and not (self.drop_last and batch_size > len(storage))

    def _begin(self, length: int) -> None:
        self._order, self._next, self._known = self._some(0, length), 0, length

    def _some(self, start: int, end: int) -> torch.Tensor:
        if not self.shuffle:
            return torch.arange(start, end)
        return start + torch.randperm(end - start, generator=self._generator)

    def _follow(self, length: int) -> None:
        """Take in elements that came since; begin anew if there are fewer."""
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
        """Return what is left of the pass; see :meth:`Sampler.state_dict`."""
        left = self._order[self._next :].clone()
        return {"order": left, "known": self._known, "ran_out": self._ran_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Sampler.load_state_dict`.

        Raises:
            ValueError: If it is not a state of this sampler; nothing is changed.
        """
        order, known = state_dict["order"], state_dict["known"]
        if type(known) is not int or not is_order(order, known):
            raise ValueError(faults.no_pass("SamplerWithoutReplacement", known, "elements"))
        self._order, self._next = order.clone(), 0
        self._known, self._ran_out = known, bool(state_dict["ran_out"])

    def __repr__(self) -> str:
        return f"SamplerWithoutReplacement(drop_last={self.drop_last}, shuffle={self.shuffle})"
