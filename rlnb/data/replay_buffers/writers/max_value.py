"""TensorDictMaxValueWriter: keeps the items with the highest rank."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.forms.tree_form import is_data
from rlnb.data.replay_buffers.indexing import Where, one
from rlnb.data.replay_buffers.stacking import split_batch
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.list_storage import ListStorage
from rlnb.data.replay_buffers.writers.base import Writer
from rlnb.data.replay_buffers.writers.round_robin import without_index
from rlnb.data.ted.keys import NestedKey

REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": torch.sum,
    "mean": lambda values: values.to(torch.get_default_dtype()).mean(),
    "max": torch.amax,
    "min": torch.amin,
    "median": torch.median,
}


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
        """Set the storage to write to; see :meth:`Writer.register_storage`.

        Raises:
            ValueError: If the storage has several dimensions, where a row holds the items of all envs.
        """
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
        """Return the place where an item would be written; None if its rank is too low."""
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
