"""Sampler: base class of what chooses the items of a sample."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from typing import Any

import torch

from rlnb.data.replay_buffers.stateful import Stateful
from rlnb.data.replay_buffers.storages.base import Storage

Info = dict[Any, Any]


class Sampler(Stateful):
    """Base class of all samplers.

    A subclass implements :meth:`sample`: it draws positions from 0 to ``len(storage) - 1``, with ``self._generator``,
    and turns them into an index with ``storage.index(positions)``. A :class:`~rlnb.data.TensorDictReplayBuffer` writes
    the entries of its info into the batch; their keys may be nested. The buffer calls :meth:`add`, :meth:`extend` and
    :meth:`mark_update` whenever items change.

    Attributes:
        has_priorities: whether :meth:`update_priority` has an effect.
        exclusive: whether the sampler keeps data about the items, so that two buffers cannot use it.
        steps_per_item: number of stored steps that one item of a batch consists of, if a transform joins them.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> class Newest(Sampler):
        ...     def sample(self, storage, batch_size):
        ...         return storage.index(torch.arange(len(storage) - batch_size, len(storage))), {}
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=Newest(), batch_size=2)
        >>> index = rb.extend(torch.arange(5))
        >>> rb.sample()
        tensor([3, 4])
    """

    steps_per_item: int = 1
    has_priorities: bool = False
    exclusive: bool = False
    _storage_ref: weakref.ref[Storage] | None = None  # the storage whose items it keeps data about
    _attached = False  # whether the buffer of that storage still uses it

    def __init__(self) -> None:
        self._generator: torch.Generator | None = None
        self._ran_out = False

    @abstractmethod
    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose items.

        Args:
            storage: holds the items; not empty.
            batch_size: number of items.

        Returns:
            Their index, as ``storage.index`` returns it, and the info: further entries by key.
        """

    @property
    def ran_out(self) -> bool:
        """Whether the last sample ended an epoch; iteration over the buffer stops there."""
        return self._ran_out

    @ran_out.setter
    def ran_out(self, value: bool) -> None:
        self._ran_out = value

    @property
    def default_priority(self) -> float:
        """Priority of a new item; 1 for samplers without priorities."""
        return 1.0

    def available(self, storage: Storage) -> int:
        """Count the items of a storage that can be drawn: all, unless the sampler consumes them.

        This is the length of the buffer.
        """
        return len(storage)

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Check whether a batch can be drawn, so that :meth:`sample` would not raise an error.

        Args:
            storage: holds the items; may be empty.
            batch_size: number of items.
        """
        return len(storage) > 0

    def add(self, index: Any, storage: Storage) -> None:
        """Notify the sampler of an item that was written.

        Args:
            index: what the writer's ``add`` returned; None if the item was not stored.
            storage: holds the item.
        """
        return

    def extend(self, index: torch.Tensor, storage: Storage) -> None:
        """Notify the sampler of items that were written.

        Args:
            index: what the writer's ``extend`` returned; -1 for an item that was not stored.
            storage: holds the items.
        """
        return

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Notify the sampler of items that were overwritten.

        Args:
            index: of the items, as ``storage.index`` returns it.
            storage: holds the items.
        """
        return

    def update_priority(self, index: Any, priority: Any, *, storage: Storage | None = None) -> None:
        """Change priorities; no effect in samplers without priorities.

        Args:
            index: of the items.
            priority: one for each item, or one for all.
            storage: holds the items; required if it has several dimensions.
        """
        return

    def check_priority(self, priority: Any, count: int) -> None:
        """Raise ``ValueError`` if a priority, of each of ``count`` items or of all, is not finite and >= 0."""
        return

    def _check_free_for(self, storage: Storage) -> None:
        """Raise ``ValueError`` if the sampler keeps data about the items of another buffer."""
        other = self._storage_ref() if self._attached and self._storage_ref is not None else None
        if self.exclusive and other is not None and other is not storage:
            raise ValueError(
                f"This {type(self).__name__} samples for another buffer, and would mix up the items of the two. "
                "Fix: make a new sampler for each buffer."
            )

    def _attach(self, storage: Storage) -> None:
        """Start to sample for the buffer of a storage; forget the items of any other storage."""
        if self._storage_ref is not None and self._storage_ref() is not storage:
            self._empty()
        self._storage_ref, self._attached = weakref.ref(storage), True

    def _empty(self) -> None:
        """Forget all items."""
        self._ran_out = False

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as plain values and tensors; empty for a stateless sampler."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state.

        Args:
            state_dict: what :meth:`state_dict` of a sampler of the same class returned.

        Raises:
            ValueError: If it is anything else; nothing is changed then.
        """
        return

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_storage_ref": None, "_attached": False}  # a copy serves a copy of the storage

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
