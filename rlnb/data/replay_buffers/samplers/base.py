"""Sampler: the base of what chooses elements."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from typing import Any

import torch

from rlnb.data.replay_buffers.checkpointers.state import Stateful
from rlnb.data.replay_buffers.storages import Storage

Info = dict[Any, Any]


class Sampler(Stateful):
    """The base of all samplers.

    A subclass writes :meth:`sample`: it draws positions from 0 to ``len(storage) - 1``, with ``self._generator``, and
    turns them into an index with ``storage.index(positions)``. What it says in its ``info`` goes into the sample of a
    :class:`~rlnb.data.TensorDictReplayBuffer`, entry by entry; a key may be nested. :meth:`add`, :meth:`extend` and
    :meth:`mark_update` tell it which elements changed.

    Attributes:
        has_priorities: whether :meth:`update_priority` does anything.
        of_one_storage: whether it remembers elements, so that no two buffers can have it.
        steps_per_item: the number of stored items that become one item of a batch, because a transform joins them.
    """

    steps_per_item: int = 1
    has_priorities: bool = False
    of_one_storage: bool = False
    _of: weakref.ref[Storage] | None = None  # the storage whose elements it remembers
    _taken = False  # whether the buffer of that storage still has it

    def __init__(self) -> None:
        self._generator: torch.Generator | None = None
        self._ran_out = False

    @abstractmethod
    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, Info]:
        """Choose elements.

        Args:
            storage: where they are; not empty.
            batch_size: how many.

        Returns:
            Their index, as ``storage.index`` returns it, and what else there is to say about them.
        """

    @property
    def ran_out(self) -> bool:
        """Whether the last sample was the end of a pass; iteration over a buffer stops there."""
        return self._ran_out

    @ran_out.setter
    def ran_out(self, value: bool) -> None:
        self._ran_out = value

    @property
    def default_priority(self) -> float:
        """The priority of a new element; 1 for samplers without priorities."""
        return 1.0

    def available(self, storage: Storage) -> int:
        """Count the elements that can be drawn, which is the length of a buffer.

        Args:
            storage: where they are.

        Returns:
            How many: all that are stored, except for a sampler that consumes them.
        """
        return len(storage)

    def can_sample(self, storage: Storage, batch_size: int) -> bool:
        """Say whether a batch can be drawn.

        Args:
            storage: where the elements are.
            batch_size: how many.

        Returns:
            False for an empty storage, and where :meth:`sample` would raise an error.
        """
        return len(storage) > 0

    def add(self, index: Any, storage: Storage) -> None:
        """Hear that an element was written.

        Args:
            index: of the element, as the writer returned it.
            storage: where it is.
        """
        return

    def extend(self, index: torch.Tensor, storage: Storage) -> None:
        """Hear that elements were written.

        Args:
            index: of the elements, as the writer returned it.
            storage: where they are.
        """
        return

    def mark_update(self, index: Any, storage: Storage) -> None:
        """Hear that elements were written over.

        Args:
            index: of the elements.
            storage: where they are.
        """
        return

    def update_priority(self, index: Any, priority: Any, *, storage: Storage | None = None) -> None:
        """Change priorities; samplers without priorities do nothing.

        Args:
            index: of the elements.
            priority: one for each, or one for all.
            storage: where they are; needed with several dimensions.
        """
        return

    def check_priority(self, priority: Any, count: int) -> None:
        """Refuse priorities that :meth:`update_priority` would refuse.

        Args:
            priority: the priorities.
            count: for how many elements.

        Raises:
            ValueError: if one is no priority.
        """
        return

    def _begin_with(self, storage: Storage) -> None:
        """Belong to a buffer; what is remembered of another storage is forgotten."""
        if self._of is not None and self._of() is not storage:
            self._empty()
        self._of, self._taken = weakref.ref(storage), True

    def _empty(self) -> None:
        """Forget what was learned from the elements written."""
        self._ran_out = False

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as plain values and tensors.

        Returns:
            The state; empty for a sampler without.
        """
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned.

        Args:
            state_dict: the state.
        """
        return

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_of": None, "_taken": False}  # a copy is of another storage

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
