"""Storage: the base of what holds the elements of a buffer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.context import get_spawning_popen
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.checkpointers.checkpointed import Checkpointed
from rlnb.data.replay_buffers.indexing import Where, ravel, unravel, where
from rlnb.data.replay_buffers.ring import Ring

_MOST_COUNTED = 1 << 48  # steps that a loaded state may say were written


@dataclass(slots=True)
class Rows:
    """Data that was checked and can be written as it is.

    Attributes:
        count: how many rows; one for data without a dimension that counts them.
        parts: what is written: leaves of tensors, or a list of objects.
        single: whether the parts have no dimension that counts rows.
    """

    count: int
    parts: list[Any]
    single: bool = False


def refuse_compilable(compilable: bool) -> None:
    """Refuse ``compilable=True``, which promises TorchRL's users a storage that ``torch.compile`` can trace.

    Args:
        compilable: what was given.

    Raises:
        NotImplementedError: If it is True.
    """
    if compilable:
        raise NotImplementedError(
            "compilable=True is not available: storages write through numpy and locks, which torch.compile does not "
            "trace. Fix: leave it out, call the buffer outside of compiled functions, and compile the update of the "
            "networks alone."
        )


class Storage(Checkpointed, ABC):
    """The base of all storages.

    A storage holds elements in a ring. Its :attr:`ring` says where it is written next and how much is filled. Writers
    call :meth:`prepare`, which refuses what does not fit before anything is written, and then :meth:`append` or
    :meth:`overwrite`. Samplers read ``len(storage)`` and :attr:`shape`, and turn positions into indices with
    :meth:`index`. Buffers call :meth:`gather`.

    A subclass writes :meth:`prepare`, :meth:`_put`, :meth:`gather`, :meth:`read`, :meth:`overwrite`,
    :meth:`check_state` and :meth:`load_state_dict`.

    Args:
        max_size: how many elements there is room for.

    Attributes:
        ring: the cursor and the number of rows filled.
        ndim: how many dimensions count elements.

    Raises:
        ValueError: if ``max_size`` is no positive integer.
    """

    ndim: int = 1

    def __init__(self, max_size: int) -> None:
        if not isinstance(max_size, int) or isinstance(max_size, bool) or max_size < 1:
            raise ValueError(faults.bad_size("max_size", max_size))
        self.ring = Ring(max_size)

    # How much there is ------------------------------------------------------------------------------------------------

    @property
    def max_size(self) -> int:
        """How many elements there is room for."""
        return self.ring.size

    @property
    def shape(self) -> torch.Size:
        """The dimensions that count the elements that are filled; the first one grows."""
        return torch.Size((self.ring.length,))

    def __len__(self) -> int:
        return self.ring.length

    @property
    def is_full(self) -> bool:
        """Whether every place is filled, so that writing goes over the oldest elements."""
        return self.ring.is_full

    _is_full = property(lambda self: self.is_full)  # the name that programs for TorchRL read

    def contains(self, item: Any) -> Any:
        """Say whether there are such elements.

        Args:
            item: an index, or a tensor of indices; with several dimensions its last dimension holds the coordinates.

        Returns:
            True or False; for a tensor a mask.
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
        """Turn positions into an index.

        Args:
            positions: of elements, from 0 to ``len(storage) - 1``, shape ``[n]``; time-major with several dimensions.

        Returns:
            The same tensor; with several dimensions a tuple with a tensor for each.
        """
        return positions if self.ndim == 1 else unravel(positions, self.shape)

    def positions(self, index: Any) -> torch.Tensor:
        """Turn an index into positions; the inverse of :meth:`index`.

        Args:
            index: as :meth:`index` returns it, or a tensor whose last dimension holds the coordinates.

        Returns:
            The positions, shape ``[n]``.
        """
        return ravel(index, self.shape)

    @property
    def element_dims(self) -> int:
        """How many dimensions the batch size of an element has, such as one for trajectories; 0 for no TensorDict."""
        return 0

    # Writing ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, data: Any, many: bool) -> Rows:
        """Check data that is to be written.

        Args:
            data: one element, or several.
            many: whether it is several. A list is then a list of elements; all else is one batch.

        Returns:
            What can be written.

        Raises:
            ValueError: if the data does not fit what is stored.
        """

    @abstractmethod
    def _put(self, start: int, rows: Rows, first: int, last: int) -> None:
        """Write rows ``first`` to ``last - 1`` to the places from ``start`` on, all of which exist."""

    def _reserve(self, start: int, count: int) -> None:
        """Make sure that the places from ``start`` on can be written; raise ``OSError`` if not."""
        return

    def _forget_memory(self) -> None:
        """Be as before the first data, which could not be written."""
        return

    def _make_way(self, place: int, rows: Rows) -> None:
        """Prepare the places where rows are about to be written."""
        self._reserve(place, min(rows.count, self.ring.size))

    def append(self, rows: Rows) -> int:
        """Write at the cursor, and move it.

        Of more rows than there is room for, the last ones stay.

        Args:
            rows: what :meth:`prepare` returned.

        Returns:
            The cursor as it was: where the first row went.
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
                    self._forget_memory()  # or data that could not be written would decide what can be
                raise
            except KeyboardInterrupt:  # no row shall stay half of what it was
                if ring.written == written:
                    self._put_around(place, rows)
                    ring.advance(rows.count)
                raise
        return start

    def _put_around(self, place: int, rows: Rows) -> None:
        """Write the last rows that there is room for, and go on at the beginning where the end is reached."""
        first = max(rows.count - self.ring.size, 0)
        middle = min(rows.count, first + self.ring.size - place)
        self._put(place, rows, first, middle)
        if middle < rows.count:
            self._put(0, rows, middle, rows.count)

    @abstractmethod
    def overwrite(self, place: Where, data: Any) -> None:
        """Write over elements that are there; neither cursor nor length change.

        Args:
            place: which.
            data: one element or a batch, as :meth:`read` would return it.

        Raises:
            ValueError: if the data does not fit.
        """

    # Reading ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def gather(self, index: Any) -> Any:
        """Copy the elements that a sampler chose.

        Args:
            index: as :meth:`index` returns it; it is not checked.

        Returns:
            A batch of ``n`` elements; of a :class:`ListStorage` a list. :meth:`collate` and :meth:`elements` take it.
        """

    @abstractmethod
    def read(self, place: Where) -> Any:
        """Read elements.

        Args:
            place: which.

        Returns:
            The element or a batch of elements; a view of the memory where the place is one element or a span.
        """

    def where(self, index: Any) -> Where:
        """Find out which elements an index means.

        Args:
            index: see :func:`~rlnb.data.replay_buffers.indexing.where`.

        Returns:
            What it means.

        Raises:
            IndexError: if it is outside of what is filled.
        """
        return where(index, self.shape)

    def get(self, index: Any) -> Any:
        """Read elements by index, in the order of the storage.

        Args:
            index: an integer, slice, list, tensor or mask; with several dimensions also a tuple, time first.

        Returns:
            The element or a batch of elements.

        Raises:
            IndexError: if the index is outside of what is filled.
        """
        place = self.where(index)
        data = self.read(place)
        return self.elements(data) if place.position is None else data

    def set(self, index: Any, data: Any) -> None:
        """Write elements by index.

        An index of elements that are there writes over them; neither cursor nor length change. An index of the places
        that are filled next, such as ``range(n)`` of an empty storage, fills them as :meth:`append` does.

        Args:
            index: see :meth:`get`; for places that are not filled yet an integer, a range, a slice or a list.
            data: what :meth:`get` would return.

        Raises:
            IndexError: if the index is outside of what is filled, and does not go on from there.
            ValueError: if the data does not fit what is stored.
        """
        count = self._count_of_next(index)
        if count is None:
            self.overwrite(self.where(index), data)
            return
        rows = self.prepare(data, many=not isinstance(index, int))
        if rows.count != count:
            raise ValueError(faults.other_count(count, rows.count))
        self.append(rows)

    def _count_of_next(self, index: Any) -> int | None:
        """How many places an index means, if these are the next ones to be filled; None if it means others."""
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
        return

    def elements(self, data: Any) -> Any:
        """Make what a ``collate_fn`` gets of what :meth:`gather` returned.

        Args:
            data: what was gathered.

        Returns:
            The elements.
        """
        return data

    def collate(self, data: Any) -> Any:
        """Make a batch of what :meth:`gather` returned; the default ``collate_fn`` of buffers.

        Args:
            data: what was gathered.

        Returns:
            The batch.
        """
        return data

    # Life -------------------------------------------------------------------------------------------------------------

    def _can_be_shared(self) -> bool:
        """Whether a process that is started with this storage will see what others write."""
        return False

    def _not_shared(self) -> str:
        return (
            f"Cannot share a storage of type {type(self).__name__} between processes: the new process would get a "
            "copy, and nothing that one of the two writes would be seen by the other. Fix: use LazyMemmapStorage, and "
            "write the first batch before the process is started; or send the data, for example through a queue."
        )

    def __getstate__(self) -> dict[str, Any]:
        # multiprocessing pickles what it gives to a new process; a pickle for a file is a copy, as everybody expects.
        if get_spawning_popen() is not None and not self._can_be_shared():
            raise RuntimeError(self._not_shared())
        return vars(self)

    def _empty(self) -> None:
        """Forget all elements; the memory stays."""
        with self.ring.lock:
            self.ring.jump(0, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return the elements and the state of the ring.

        Returns:
            Plain values and tensors, which ``torch.save`` can write; the tensors share memory with the storage.
        """
        ring = self.ring
        return {"cursor": ring.cursor, "length": ring.length, "written": ring.written, "max_size": self.max_size}

    @abstractmethod
    def check_state(self, state_dict: dict[str, Any]) -> None:
        """Refuse what :meth:`load_state_dict` would refuse.

        Args:
            state_dict: the state.

        Raises:
            ValueError: if it does not fit.
        """

    @staticmethod
    def _counts_fit(state_dict: dict[str, Any], rows: int) -> bool:
        """Whether the state of a ring makes sense where there is room for so many rows."""
        cursor, length, written = (state_dict[name] for name in ("cursor", "length", "written"))
        whole = all(type(count) is int and 0 <= count < _MOST_COUNTED for count in (cursor, length, written))
        return whole and cursor < rows and length <= rows

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned.

        Args:
            state_dict: of a storage of the same kind, size and form.

        Raises:
            ValueError: if it does not fit; nothing was changed then.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(len={len(self)}, max_size={self.max_size})"
