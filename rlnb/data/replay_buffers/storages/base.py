"""Storage: base class of what holds the items of a replay buffer."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import get_spawning_popen
from typing import Any, ClassVar

import numpy as np
import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.checkpointers.base import Hook, ListStorageCheckpointer, StorageCheckpointerBase
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving
from rlnb.data.replay_buffers.indexing import Where, ravel, unravel, where
from rlnb.data.replay_buffers.ring import Ring

_MAX_WRITTEN = 1 << 48  # largest number of written rows that a loaded state may claim


@dataclass(slots=True)
class Rows:
    """Data that was checked and is ready to be written.

    Attributes:
        count: number of rows; 1 for data without a dimension that counts rows.
        parts: what is written: leaves of tensors, or a list of objects.
        single: whether the parts have no dimension that counts rows.
    """

    count: int
    parts: list[Any]
    single: bool = False


def refuse_compilable(compilable: bool) -> None:
    """Reject ``compilable=True``: in TorchRL it makes a storage that ``torch.compile`` can trace."""
    if compilable:
        raise NotImplementedError(
            "compilable=True is not available: storages write through numpy and locks, which torch.compile does not "
            "trace. Fix: leave it out, call the buffer outside of compiled functions, and compile the update of the "
            "networks alone."
        )


class Storage(ABC):
    """Base class of all storages.

    A storage holds items in a ring, and its :attr:`ring` knows where it is written next and how much of it is filled. A
    writer calls :meth:`prepare`, which rejects data that does not fit before anything is written, and then
    :meth:`append` or :meth:`overwrite`. A sampler reads ``len(storage)`` and :attr:`shape`, and turns positions into an
    index with :meth:`index`. A buffer calls :meth:`gather`.

    A subclass implements :meth:`prepare`, :meth:`_put`, :meth:`gather`, :meth:`read`, :meth:`overwrite`,
    :meth:`check_state` and :meth:`load_state_dict`.

    Args:
        max_size: number of items there is room for.

    Attributes:
        ring: the cursor and the number of rows filled.
        ndim: number of dimensions that count items.

    Raises:
        ValueError: If ``max_size`` is not a positive integer.

    Example:
        >>> from rlnb.data import ListStorage
        >>> storage: Storage = ListStorage(3)
        >>> storage.append(storage.prepare(["a", "b"], many=True))
        0
        >>> len(storage), storage[1], storage.ring.cursor
        (2, 'b', 2)
    """

    ndim: int = 1
    _default_checkpointer: ClassVar[type[StorageCheckpointerBase]] = ListStorageCheckpointer
    _checkpointer: StorageCheckpointerBase | None = None

    def __init__(self, max_size: int) -> None:
        if not isinstance(max_size, int) or isinstance(max_size, bool) or max_size < 1:
            raise ValueError(errors.bad_size("max_size", max_size))
        self.ring = Ring(max_size)

    # Size and index ---------------------------------------------------------------------------------------------------

    @property
    def max_size(self) -> int:
        """Number of items there is room for."""
        return self.ring.size

    @property
    def shape(self) -> torch.Size:
        """The dimensions that count the items stored; the first one grows."""
        return torch.Size((self.ring.length,))

    def __len__(self) -> int:
        return self.ring.length

    @property
    def is_full(self) -> bool:
        """Whether every place is filled, so that new items overwrite the oldest."""
        return self.ring.is_full

    _is_full = property(lambda self: self.is_full)  # the name that programs written for TorchRL use

    def contains(self, item: Any) -> Any:
        """Check whether items are stored.

        Args:
            item: an index, or a tensor of indices. With several dimensions, the last dimension of a tensor holds the
                coordinates.

        Returns:
            True or False; for a tensor a mask with one value for each index.
        """
        index = torch.as_tensor(item)
        shape = torch.as_tensor(self.shape if self.ndim > 1 else len(self))
        inside = (index >= -shape) & (index < shape)
        inside = inside.all(-1) if self.ndim > 1 else inside
        return inside if isinstance(item, torch.Tensor) else bool(inside.all())

    def __contains__(self, item: Any) -> bool:
        return bool(torch.as_tensor(self.contains(item)).all())

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.shape[0] if self.ndim > 1 else len(self)))

    def index(self, positions: torch.Tensor) -> Any:
        """Turn positions of items into an index.

        Args:
            positions: int64 ``[n]``, from 0 to the number of items - 1; time-major with several dimensions.

        Returns:
            The same tensor; with several dimensions a tuple with a tensor for each.
        """
        return positions if self.ndim == 1 else unravel(positions, self.shape)

    def positions(self, index: Any) -> torch.Tensor:
        """Turn an index into positions; the inverse of :meth:`index`.

        Args:
            index: as :meth:`index` returns it. With several dimensions also a tensor whose last dimension holds the
                coordinates.

        Returns:
            The positions, int64 ``[n]``.
        """
        return ravel(index, self.shape)

    @property
    def element_dims(self) -> int:
        """Number of batch dimensions of an item, such as 1 for trajectories; 0 for data that is not a TensorDict."""
        return 0

    # Writing ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, data: Any, many: bool) -> Rows:
        """Check data, and return it ready to be written.

        Args:
            data: one item, or several.
            many: whether it is several. A list is then a list of items; anything else is one batch.

        Raises:
            ValueError: If the data does not fit what is stored.
        """

    @abstractmethod
    def _put(self, start: int, rows: Rows, first: int, last: int) -> None:
        """Write rows ``first`` to ``last - 1`` to the places from ``start`` on, without wrapping around."""

    def _reserve(self, start: int, count: int) -> None:
        """Make sure that the places from ``start`` on can be written; raise ``OSError`` otherwise."""
        return

    def _forget_memory(self) -> None:
        """Return to the state before the first data, which could not be written."""
        return

    def _make_way(self, place: int, rows: Rows) -> None:
        """Prepare the places where rows are about to be written."""
        self._reserve(place, min(rows.count, self.ring.size))

    def append(self, rows: Rows) -> int:
        """Write rows at the cursor, and advance it.

        Args:
            rows: what :meth:`prepare` returned. Of more rows than there is room for, the last ones are kept.

        Returns:
            The place where the first row was written.
        """
        ring = self.ring
        if not rows.count:
            return ring.cursor
        with ring.lock:
            start = ring.cursor
            place = (start + max(rows.count - ring.size, 0)) % ring.size
            self._make_way(place, rows)
            written = ring.written
            try:
                self._put_around(place, rows)
                ring.advance(rows.count)
            except Exception:
                if not written and ring.alone:
                    self._forget_memory()  # or data that was not written would define keys and shapes
                raise
            except KeyboardInterrupt:  # leave no row half written
                if ring.written == written:
                    self._put_around(place, rows)
                    ring.advance(rows.count)
                raise
        return start

    def _put_around(self, place: int, rows: Rows) -> None:
        """Write the last rows that there is room for, and wrap around at the end."""
        first = max(rows.count - self.ring.size, 0)
        middle = min(rows.count, first + self.ring.size - place)
        self._put(place, rows, first, middle)
        if middle < rows.count:
            self._put(0, rows, middle, rows.count)

    @abstractmethod
    def overwrite(self, place: Where, data: Any) -> None:
        """Overwrite stored items; cursor and length stay.

        Args:
            place: the items, as :meth:`where` returns it.
            data: what :meth:`read` of the place would return.

        Raises:
            ValueError: If the data does not fit.
        """

    # Reading ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def gather(self, index: Any) -> Any:
        """Copy the items that a sampler chose.

        Args:
            index: as :meth:`index` returns it; it is not checked.

        Returns:
            A batch of ``n`` items; a list in a :class:`ListStorage`. Pass it to :meth:`collate` or :meth:`elements`.
        """

    @abstractmethod
    def read(self, place: Where) -> Any:
        """Read an item or a batch of items.

        Args:
            place: the items, as :meth:`where` returns it.

        Returns:
            The data; a view of the memory if the place is a single item or a span.
        """

    def where(self, index: Any) -> Where:
        """Resolve an index, such as :meth:`get` takes, to a place; raises ``IndexError`` if it is out of range."""
        return where(index, self.shape)

    def get(self, index: Any) -> Any:
        """Read an item or a batch of items.

        Args:
            index: an integer, slice, list, tensor or mask; with several dimensions also a tuple, time first.

        Raises:
            IndexError: If the index is out of range.
        """
        place = self.where(index)
        data = self.read(place)
        return self.elements(data) if place.position is None else data

    def set(self, index: Any, data: Any) -> None:
        """Write items by index.

        The index of stored items overwrites them; cursor and length stay. The index of the places that are filled next,
        such as ``range(n)`` of an empty storage, fills them as :meth:`append` does.

        Args:
            index: see :meth:`get`; for places that are not filled yet an integer, a range, a slice or a list.
            data: what :meth:`get` would return.

        Raises:
            IndexError: If the index is neither that of stored items nor that of the next places.
            ValueError: If the data does not fit what is stored.
        """
        count = self._count_of_next(index)
        if count is None:
            self.overwrite(self.where(index), data)
            return
        rows = self.prepare(data, many=not isinstance(index, int))
        if rows.count != count:
            raise ValueError(errors.other_count(count, rows.count))
        self.append(rows)

    def _count_of_next(self, index: Any) -> int | None:
        """Count the places of an index, if they are the next to be filled; None otherwise."""
        start, size = self.ring.length, self.ring.size
        if isinstance(index, slice):
            index = range(*index.indices(size)) if index.stop is not None else ()
        elif isinstance(index, int) and not isinstance(index, bool):
            index = (index,)
        elif isinstance(index, (list, torch.Tensor, np.ndarray)):
            array = np.asarray(index)
            index = array.tolist() if array.ndim == 1 and array.dtype.kind in "iu" else ()
        elif not isinstance(index, range):
            return None
        there = len(index) and index[0] == start and index[-1] == start + len(index) - 1 < size
        return len(index) if there and list(index) == list(range(start, start + len(index))) else None

    def __getitem__(self, index: Any) -> Any:
        return self.get(index)

    def __setitem__(self, index: Any, data: Any) -> None:
        self.set(index, data)

    def elements(self, data: Any) -> Any:
        """Turn the result of :meth:`gather` into the argument of a ``collate_fn``."""
        return data

    def collate(self, data: Any) -> Any:
        """Turn the result of :meth:`gather` into a batch; the default ``collate_fn`` of buffers."""
        return data

    # Copies, sharing and states ---------------------------------------------------------------------------------------

    def _can_be_shared(self) -> bool:
        """Whether a process that is started with this storage sees what others write."""
        return False

    def _not_shared(self) -> str:
        return (
            f"Cannot share a storage of type {type(self).__name__} between processes: the new process would get a "
            "copy, and nothing that one of the two writes would be seen by the other. Fix: use LazyMemmapStorage, and "
            "write the first batch before the process is started; or send the data, for example through a queue."
        )

    def __getstate__(self) -> dict[str, Any]:
        # Only pickles for a new process are refused; any other pickle is a plain copy.
        if get_spawning_popen() is not None and not self._can_be_shared():
            raise RuntimeError(self._not_shared())
        return vars(self)

    def _empty(self) -> None:
        """Remove all items; the memory stays allocated."""
        with self.ring.lock:
            self.ring.jump(0, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return the items, as tensors that share memory with the storage, and the state of the ring."""
        ring = self.ring
        return {"cursor": ring.cursor, "length": ring.length, "written": ring.written, "max_size": self.max_size}

    @abstractmethod
    def check_state(self, state_dict: dict[str, Any]) -> None:
        """Raise the ``ValueError`` that :meth:`load_state_dict` would raise."""

    @staticmethod
    def _counts_fit(state_dict: dict[str, Any], rows: int) -> bool:
        """Whether the state of a ring is valid for a number of rows."""
        cursor, length, written = (state_dict[name] for name in ("cursor", "length", "written"))
        whole = all(type(count) is int and 0 <= count < _MAX_WRITTEN for count in (cursor, length, written))
        return whole and cursor < rows and length <= rows

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that :meth:`state_dict` returned.

        Args:
            state_dict: that of a storage of the same kind, size and form.

        Raises:
            ValueError: If it does not fit; nothing is changed then.
        """

    # Checkpoints ------------------------------------------------------------------------------------------------------

    @property
    def checkpointer(self) -> StorageCheckpointerBase:
        """Saves the items in a folder and loads them. It can be set; None restores the default."""
        if self._checkpointer is None:
            self._checkpointer = self._default_checkpointer()
        return self._checkpointer

    @checkpointer.setter
    def checkpointer(self, value: StorageCheckpointerBase | Callable[[], StorageCheckpointerBase] | None) -> None:
        made = value() if callable(value) else value
        if made is not None and not isinstance(made, StorageCheckpointerBase):
            what = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
            raise TypeError(
                f"checkpointer must be a StorageCheckpointerBase or a function that makes one, got {what}. "
                "Fix: checkpointer=TensorStorageCheckpointer()."
            )
        self._checkpointer = made

    def register_save_hook(self, hook: Hook) -> None:
        """Register a function such as :class:`~rlnb.data.TED2Flat` that changes data before it is saved.

        See :meth:`~rlnb.data.StorageCheckpointerBase.register_save_hook`.
        """
        self.checkpointer.register_save_hook(hook)

    def register_load_hook(self, hook: Hook) -> None:
        """Register a function such as :class:`~rlnb.data.Flat2TED` that changes data after it is loaded.

        See :meth:`~rlnb.data.StorageCheckpointerBase.register_load_hook`.
        """
        self.checkpointer.register_load_hook(hook)

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save the items in a folder.

        Args:
            path: the folder, which is created if needed. A previous checkpoint there is replaced.

        Raises:
            NotImplementedError: If this kind of storage cannot be saved.
            OSError: If the checkpoint cannot be written; a previous one is kept.
        """
        with saving(path) as folder:
            self.checkpointer.dumps(self, folder / "storage")

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved in a folder.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If it is damaged or does not fit; nothing is changed then.
        """
        with loading(path) as folder:
            self.checkpointer.loads(self, folder / "storage")

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Alias of :meth:`dumps`."""
        self.dumps(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Alias of :meth:`dumps`."""
        self.dumps(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Alias of :meth:`loads`."""
        self.loads(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(len={len(self)}, max_size={self.max_size})"
