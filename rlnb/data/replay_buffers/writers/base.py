"""Writer: base class of what chooses the places of new items."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch

from rlnb.data.replay_buffers.checkpointers.state import Stateful
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.storages.base import Storage


class Writer(Stateful):
    """Base class of all writers.

    A buffer registers its storage with its writer and then calls :meth:`add` and :meth:`extend`. A writer lets the
    storage check the data first (``storage.prepare``), so that data that does not fit changes nothing.

    Args:
        compilable: only False: ``torch.compile`` cannot trace a writer.

    Attributes:
        adds_index: whether TensorDicts read from the buffer get an entry ``"index"``.

    Example:
        >>> from rlnb.data import ListStorage, ReplayBuffer, RoundRobinWriter
        >>> class Even(RoundRobinWriter):
        ...     def extend(self, data):
        ...         return super().extend([number for number in data if number % 2 == 0])
        >>> rb = ReplayBuffer(storage=ListStorage(5), writer=Even())
        >>> rb.extend([1, 2, 3, 4])
        tensor([0, 1])
    """

    adds_index: bool = False

    def __init__(self, compilable: bool = False) -> None:
        if compilable:
            raise NotImplementedError(
                f"torch.compile cannot trace a {type(self).__name__}, which takes locks and writes NumPy views, so "
                "compilable=True cannot be kept. Fix: leave compilable out."
            )
        self._storage: Storage | None = None

    def register_storage(self, storage: Storage) -> None:
        """Set the storage to write to."""
        self._storage = storage

    @property
    def storage(self) -> Storage:
        """The storage to write to."""
        if self._storage is None:
            raise RuntimeError("The writer has no storage yet. Fix: writer.register_storage(storage).")
        return self._storage

    def _check_free_for(self, storage: Storage) -> None:
        """Raise ``ValueError`` if the writer writes to another storage: its buffer would then write to this one."""
        if self._storage is not None and self._storage is not storage:
            raise ValueError(
                f"This {type(self).__name__} writes for another buffer, which would then write here. "
                "Fix: make a new writer for each buffer."
            )

    @abstractmethod
    def add(self, data: Any) -> Any:
        """Write one item.

        Returns:
            Its index: an integer; with several dimensions a tensor of shape ``[others, ndim]``, because a whole row is
            written. None if the item was not stored.
        """

    @abstractmethod
    def extend(self, data: Any) -> torch.Tensor:
        """Write several items: a list of them, or a batch.

        Returns:
            Their indices, shape ``[n]``; with several dimensions ``[n, ndim]``. -1 for an item that was not stored.
        """

    def overwrite(self, place: Where, data: Any) -> None:
        """Overwrite stored items; the cursor stays."""
        self.storage.overwrite(place, data)

    @property
    def _cursor(self) -> int:
        """The row that is written next."""
        return self.storage.ring.cursor

    @property
    def _write_count(self) -> int:
        """Number of rows written so far."""
        return self.storage.ring.written

    def check_writable(self) -> None:
        """Raise ``RuntimeError`` if the writer is read-only."""
        return

    def _empty(self) -> None:
        """Forget all items."""
        return

    def state_dict(self) -> dict[str, Any]:
        """Return the cursor, the number of rows written and the state of a subclass, as plain values and tensors."""
        if self._storage is None:
            return {}
        return {"_cursor": self._cursor, "_write_count": self._write_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned, except for the cursor, which is loaded with the storage."""
        return

    def __repr__(self) -> str:
        if self._storage is None:
            return f"{type(self).__name__}()"
        return f"{type(self).__name__}(cursor={self._cursor}, full_storage={self.storage.is_full})"
