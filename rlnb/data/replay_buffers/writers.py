"""Writers: choose the places of new items in a storage."""

from __future__ import annotations

import heapq
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from tensordict import TensorDict, TensorDictBase, is_tensorclass

from rlnb._tensordict import raw_entries
from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.forms.tree_form import is_data
from rlnb.data.replay_buffers.indexing import Where, one
from rlnb.data.replay_buffers.stacking import split_batch
from rlnb.data.replay_buffers.stateful import Stateful
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.list_storage import ListStorage
from rlnb.data.ted.keys import NestedKey

__all__ = [
    "ImmutableDatasetWriter",
    "RoundRobinWriter",
    "TensorDictMaxValueWriter",
    "TensorDictRoundRobinWriter",
    "Writer",
]

INDEX_KEY = "index"
REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": torch.sum,
    "mean": lambda values: values.to(torch.get_default_dtype()).mean(),
    "max": torch.amax,
    "min": torch.amin,
    "median": torch.median,
}


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
        """Set the storage to write to. A buffer does this for its writer.

        Args:
            storage: the storage of the buffer.

        Raises:
            ValueError: If the writer cannot write to such a storage.
        """
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

        Args:
            data: the item; with several dimensions one step of all envs, ``[others]``.

        Returns:
            Its index: an integer; with several dimensions a tensor of shape ``[others, ndim]``, because a whole row is
            written. None if the item was not stored.
        """

    @abstractmethod
    def extend(self, data: Any) -> torch.Tensor:
        """Write several items.

        Args:
            data: a list of items, or a batch of them, time first with several dimensions.

        Returns:
            Their indices, shape ``[n]``; with several dimensions ``[n, ndim]``. -1 for an item that was not stored.
        """

    def overwrite(self, place: Where, data: Any) -> None:
        """Overwrite stored items; the cursor stays.

        Args:
            place: the items, as :meth:`Storage.where` returns it.
            data: what :meth:`Storage.read` of the place would return.
        """
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


class RoundRobinWriter(Writer):
    """Writes items in order, and overwrites the oldest once the storage is full.

    Args:
        compilable: only False: ``torch.compile`` cannot trace a writer.
        track_generations: only False: the number of writes to each place is not counted.

    Raises:
        NotImplementedError: If one of them is True.

    Example:
        >>> from rlnb.data import ListStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=ListStorage(3), writer=RoundRobinWriter())
        >>> rb.extend(["a", "b", "c", "d"])
        tensor([0, 1, 2, 0])
        >>> rb[:], rb.writer
        (['d', 'b', 'c'], RoundRobinWriter(cursor=1, full_storage=True))
    """

    def __init__(self, compilable: bool = False, *, track_generations: bool = False) -> None:
        super().__init__(compilable)
        if track_generations:
            raise NotImplementedError(
                f"A {type(self).__name__} does not count how often each place was written, so track_generations=True "
                "cannot be kept. Fix: leave it out; buffer.write_count counts all writes."
            )

    def add(self, data: Any) -> Any:
        """Write one item at the cursor; see :meth:`Writer.add`."""
        storage = self.storage
        start = storage.append(storage.prepare(data, False))
        return start if storage.ndim == 1 else self._index(start, 1)

    def extend(self, data: Any) -> torch.Tensor:
        """Write several items, the first at the cursor; see :meth:`Writer.extend`."""
        storage = self.storage
        rows = storage.prepare(data, True)
        return self._index(storage.append(rows), rows.count)

    def _index(self, start: int, count: int) -> torch.Tensor:
        """Return the indices of consecutive rows."""
        storage = self.storage
        size = storage.ring.size
        index = torch.arange(start, start + count)
        if start + count > size:
            index %= size
        if storage.ndim == 1:
            return index
        others = storage.shape[1:]
        width = math.prod(others)
        positions = (index[:, None] * width + torch.arange(width)).reshape(-1)
        return torch.stack(storage.index(positions), -1)


class TensorDictRoundRobinWriter(RoundRobinWriter):
    """A :class:`RoundRobinWriter` for TensorDicts whose samples contain their index.

    What is read from the buffer has an entry ``"index"``. The entry is not stored, because the place of an item is its
    index: an ``"index"`` in new data, such as data sampled before, is left out.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(5), writer=TensorDictRoundRobinWriter())
        >>> rb.extend(TensorDict({"a": torch.zeros(3)}, [3]))
        tensor([0, 1, 2])
        >>> rb[1:]["index"]
        tensor([1, 2])
    """

    adds_index = True

    def add(self, data: Any) -> Any:
        """Write one item at the cursor; see :meth:`Writer.add`."""
        return super().add(without_index(data))

    def extend(self, data: Any) -> torch.Tensor:
        """Write several items, the first at the cursor; see :meth:`Writer.extend`."""
        return super().extend(without_index(data))


def without_index(data: Any) -> Any:
    """Remove the entry ``"index"`` from a TensorDict or a list of them; rejects tensorclasses without such a field."""
    if isinstance(data, TensorDictBase):
        names = raw_entries(data) if type(data) is TensorDict else data.keys()
        return data.exclude(INDEX_KEY) if INDEX_KEY in names else data
    if isinstance(data, list):
        return [without_index(item) for item in data]
    if is_tensorclass(data) and INDEX_KEY not in type(data).__dataclass_fields__:
        name = type(data).__name__
        raise TypeError(
            f"Samples of this buffer have their index in 'index', and the tensorclass {name} has no such field. "
            f"Nothing was written. Fix: ReplayBuffer(...) with its default writer, which returns each {name} "
            f"unchanged; or a field 'index: torch.Tensor | None = None' in {name}."
        )
    return data


class ImmutableDatasetWriter(Writer):
    """The writer of read-only buffers: every write raises an error.

    Example:
        >>> import torch
        >>> from rlnb.data import ReplayBuffer, TensorStorage
        >>> rb = ReplayBuffer(storage=TensorStorage(torch.arange(3)), writer=ImmutableDatasetWriter())
        >>> rb.add(torch.tensor(1))
        Traceback (most recent call last):
        ...
        RuntimeError: This buffer is read-only: its writer is an ImmutableDatasetWriter. Fix: ...
    """

    def check_writable(self) -> NoReturn:
        """Raise ``RuntimeError``."""
        raise RuntimeError(
            "This buffer is read-only: its writer is an ImmutableDatasetWriter. "
            "Fix: buffer.set_writer(RoundRobinWriter()) to make it writable."
        )

    def add(self, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :meth:`Writer.add`."""
        self.check_writable()

    def extend(self, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :meth:`Writer.extend`."""
        self.check_writable()

    def overwrite(self, place: Where, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :meth:`Writer.overwrite`."""
        self.check_writable()

    def __repr__(self) -> str:
        return "ImmutableDatasetWriter()"


class TensorDictMaxValueWriter(Writer):
    """Keeps the TensorDicts with the highest rank.

    While there is room, every item is stored. Then a new item replaces the one with the lowest rank, if its own rank is
    higher. An item can be a step or a whole trajectory, whose ranks are reduced to one number. Items that were stored
    without this writer are ranked when it writes next.

    Args:
        rank_key: the entry that ranks items. Default: ``("next", "reward")``.
        reduction: how an entry with several values becomes a rank: ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or
            ``"median"``.
        compilable: only False.

    Raises:
        ValueError: If the reduction is unknown.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> rb = TensorDictReplayBuffer(storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter("score"))
        >>> rb.extend(TensorDict({"score": torch.tensor([1.0, 5.0, 3.0, 2.0])}, [4]))
        tensor([-1,  1,  0, -1])
        >>> rb[:]["score"]
        tensor([3., 5.])
    """

    adds_index = True

    def __init__(self, rank_key: NestedKey | None = None, reduction: str = "sum", *, compilable: bool = False) -> None:
        super().__init__(compilable)
        if reduction not in REDUCTIONS:
            raise ValueError(errors.unknown_reduction(reduction, list(REDUCTIONS)))
        self.rank_key: NestedKey = ("next", "reward") if rank_key is None else rank_key
        self.reduction = reduction
        self._ranks: list[tuple[float, int]] = []  # a heap of (rank, place): the lowest rank first
        self._ranked: tuple[int, ...] | None = None  # counters of the ring when all items were ranked

    def register_storage(self, storage: Storage) -> None:
        """Set the storage; raises ``ValueError`` for several dimensions, where a row holds the items of all envs."""
        if storage.ndim > 1:
            raise ValueError(
                f"A TensorDictMaxValueWriter ranks single items, and this storage has {storage.ndim} dimensions: what "
                "is written there is a row, the steps of all envs. Fix: a storage with ndim=1, whose items are steps "
                "or trajectories; or a TensorDictRoundRobinWriter."
            )
        super().register_storage(storage)
        self._ranked = None

    def rank(self, data: TensorDictBase) -> float:
        """Compute the rank of an item.

        Args:
            data: one item, a TensorDict with the entry ``rank_key``.

        Returns:
            The entry, reduced to one number.

        Raises:
            KeyError: If it has no entry ``rank_key``.
            TypeError: If it is not a TensorDict.
            ValueError: If the rank is NaN.
        """
        if not is_data(data):
            raise TypeError(
                f"Items are ranked by their entry {self.rank_key!r}, and a {type(data).__name__} has no entries. "
                "Nothing was written. Fix: write TensorDicts, or give the buffer another writer."
            )
        values = data.get(self.rank_key, None)
        if values is None:
            raise KeyError(
                f"Items are ranked by {self.rank_key!r}, which the data does not have; it has "
                f"{errors.listed(data.keys(True, True))}. Nothing was written. "
                "Fix: TensorDictMaxValueWriter(rank_key=...) with one of these."
            )
        rank = float(REDUCTIONS[self.reduction](values.detach()))
        self._check_rank(rank)
        return rank

    def _check_rank(self, rank: float) -> None:
        if rank != rank:
            raise ValueError(
                f"The rank of an item, {self.rank_key!r}, is NaN, which cannot be compared. Nothing was written."
            )

    def get_insert_index(self, data: TensorDictBase) -> int | None:
        """Return the place where an item would be written.

        Args:
            data: one item; see :meth:`rank`.

        Returns:
            The place, at the cursor while there is room; None if the rank of the item is too low.
        """
        rank = self.rank(data)
        self._rank_all()
        return self._place(rank)

    def _place(self, rank: float) -> int | None:
        ring = self.storage.ring
        if not ring.is_full:
            return ring.cursor
        return self._ranks[0][1] if rank > self._ranks[0][0] else None

    def _counters(self) -> tuple[int, ...]:
        ring = self.storage.ring
        return ring.length, ring.written, ring.changes

    def _rank_all(self) -> None:
        """Rank the stored items, unless this writer wrote all of them."""
        counters = self._counters()
        if self._ranked != counters:
            stored = self.storage.get(slice(None)) if len(self.storage) else []
            ranks = [(self.rank(item), place) for place, item in enumerate(_items(stored))]
            heapq.heapify(ranks)
            self._ranks, self._ranked = ranks, counters

    def add(self, data: Any) -> int | None:
        """Write an item if its rank is high enough; see :meth:`Writer.add`."""
        data = without_index(data)
        rank = self.rank(data)
        self._rank_all()
        place = self._write(data, rank)
        self.storage.ring.written += place is not None
        self._ranked = self._counters()
        return place

    def extend(self, data: Any) -> torch.Tensor:
        """Write the items whose rank is high enough; see :meth:`Writer.extend`."""
        data = without_index(data)
        items = _items(data)
        # In a list, each item that stays would keep the memory of its whole batch.
        clone = isinstance(self.storage, ListStorage) and not isinstance(data, list)
        ranks = [self.rank(item) for item in items]
        self._rank_all()
        self.storage.prepare(items, True)  # rejects all if one does not fit
        places = [self._write(item, rank, clone) for item, rank in zip(items, ranks, strict=True)]
        self.storage.ring.written += sum(place is not None for place in places)
        self._ranked = self._counters()
        last = {place: i for i, place in enumerate(places) if place is not None}
        return torch.tensor([-1 if p is None or last[p] != i else p for i, p in enumerate(places)], dtype=torch.int64)

    def _write(self, item: Any, rank: float, clone: bool = False) -> int | None:
        place, storage = self._place(rank), self.storage
        if place is None:
            return None
        item = item.clone() if clone else item
        if not storage.is_full:
            storage.append(storage.prepare(item, False))
            storage.ring.written -= 1
            heapq.heappush(self._ranks, (rank, place))
        else:
            storage.overwrite(one(place), item)
            heapq.heapreplace(self._ranks, (rank, place))
        return place

    def overwrite(self, place: Where, data: Any) -> None:
        """Overwrite items, whatever their ranks; see :meth:`Writer.overwrite`."""
        for item in [data] if place.position is not None else _items(data):
            self.rank(item)  # rejects items that could not be ranked later
        super().overwrite(place, data)

    def _empty(self) -> None:
        self._ranks, self._ranked = [], None

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the ranks; see :meth:`Writer.state_dict`."""
        known = self._storage is not None and self._ranked == self._counters()
        return {**super().state_dict(), "ranks": [list(entry) for entry in self._ranks] if known else []}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Writer.load_state_dict`."""
        ranks = [(float(rank), int(place)) for rank, place in state_dict["ranks"]]
        for rank, _ in ranks:
            self._check_rank(rank)
        heapq.heapify(ranks)
        known = self._storage is not None and sorted(place for _, place in ranks) == list(range(len(self.storage)))
        self._ranks, self._ranked = ranks, self._counters() if known else None

    def __repr__(self) -> str:
        return f"TensorDictMaxValueWriter(rank_key={self.rank_key!r}, reduction={self.reduction!r})"


def _items(data: Any) -> list[Any]:
    return data if isinstance(data, list) else split_batch(data)
