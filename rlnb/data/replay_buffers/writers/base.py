"""Writer: the base of what decides where new elements go."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch

from rlnb.data.replay_buffers.checkpointers.state import Stateful
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.storages import Storage


class Writer(Stateful):
    """The base of all writers.

    A buffer registers its storage with its writer and then calls :meth:`add` and :meth:`extend`. A writer lets the
    storage check the data first (``storage.prepare``), so that bad data changes nothing.

    Args:
        compilable: only False: a writer cannot be traced by ``torch.compile``.

    Attributes:
        adds_index: whether TensorDicts read from the buffer shall say in ``"index"`` where they are stored.
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
        """Say which storage to write to.

        Args:
            storage: the storage.
        """
        self._storage = storage

    @property
    def storage(self) -> Storage:
        """The storage that is written to."""
        if self._storage is None:
            raise RuntimeError("The writer has no storage yet. Fix: writer.register_storage(storage).")
        return self._storage

    @abstractmethod
    def add(self, data: Any) -> Any:
        """Write one element.

        Args:
            data: the element.

        Returns:
            Its index: an integer; with several dimensions a tensor of shape ``[others, ndim]``, for one row is
            written. None if the element was not stored.
        """

    @abstractmethod
    def extend(self, data: Any) -> torch.Tensor:
        """Write several elements.

        Args:
            data: a list of elements, or a batch of them.

        Returns:
            Their indices, shape ``[n]``; with several dimensions ``[n, ndim]``. -1 for an element not stored.
        """

    def overwrite(self, place: Where, data: Any) -> None:
        """Write over elements that are there; the cursor stays.

        Args:
            place: which elements.
            data: the new ones.
        """
        self.storage.overwrite(place, data)

    @property
    def _cursor(self) -> int:
        """The row that is written next."""
        return self.storage.ring.cursor

    @property
    def _write_count(self) -> int:
        """How many rows were ever written."""
        return self.storage.ring.written

    def check_writable(self) -> None:
        """Refuse what changes the storage, for a writer that writes nothing.

        Raises:
            RuntimeError: if it is such a writer.
        """
        return

    def _empty(self) -> None:
        """Forget what was learned from the elements written."""
        return

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as plain values and tensors.

        Returns:
            The cursor and the number of rows ever written, and what a subclass adds.
        """
        if self._storage is None:
            return {}
        return {"_cursor": self._cursor, "_write_count": self._write_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned.

        Args:
            state_dict: the state. The cursor is loaded with the storage, which holds it.
        """
        return

    def __repr__(self) -> str:
        if self._storage is None:
            return f"{type(self).__name__}()"
        return f"{type(self).__name__}(cursor={self._cursor}, full_storage={self.storage.is_full})"
