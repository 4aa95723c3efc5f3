"""TensorDictMaxValueWriter: keeps the elements with the highest rank."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.forms import is_data
from rlnb.data.replay_buffers.indexing import Where, one
from rlnb.data.replay_buffers.stacking import split_batch
from rlnb.data.replay_buffers.storages import ListStorage, Storage
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
    """A writer that keeps the TensorDicts with the highest rank.

    While there is room every element is stored. Then a new one takes the place of the element with the lowest rank, if
    its own rank is higher. An element can be a step or a whole trajectory, of which the rank is reduced to one number.
    Elements that were written by others, or were there before, are ranked when this writer writes next.

    Args:
        rank_key: the entry that ranks elements. Default: ``("next", "reward")``.
        reduction: how an entry with several values becomes a rank: ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or
            ``"median"``.
        compilable: only False.

    Raises:
        ValueError: if there is no such reduction.

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
            raise ValueError(faults.unknown_reduction(reduction, list(REDUCTIONS)))
        self.rank_key: NestedKey = ("next", "reward") if rank_key is None else rank_key
        self.reduction = reduction
        self._ranks: list[tuple[float, int]] = []  # a heap: the lowest rank first
        self._ranked: tuple[int, ...] | None = None  # what the ring counted when the ranks were those of all elements

    def register_storage(self, storage: Storage) -> None:
        """Say which storage to write to; see :meth:`Writer.register_storage`.

        Raises:
            ValueError: if the storage has several dimensions, where a row is the elements of all envs.
        """
        if storage.ndim > 1:
            raise ValueError(faults.no_rank_of_rows(storage.ndim))
        super().register_storage(storage)
        self._ranked = None

    def rank(self, data: TensorDictBase) -> float:
        """Rank an element.

        Args:
            data: the element.

        Returns:
            Its rank.

        Raises:
            KeyError: if it has no entry ``rank_key``.
            TypeError: if it has no entries at all.
            ValueError: if the rank is NaN.
        """
        if not is_data(data):
            raise TypeError(faults.not_rankable(data, self.rank_key))
        values = data.get(self.rank_key, None)
        if values is None:
            raise KeyError(faults.needs_rank(self.rank_key, list(data.keys(True, True))))
        rank = float(REDUCTIONS[self.reduction](values.detach()))
        if rank != rank:
            raise ValueError(faults.rank_is_nan(self.rank_key))
        return rank

    def get_insert_index(self, data: TensorDictBase) -> int | None:
        """Say where an element would go.

        Args:
            data: the element.

        Returns:
            Its place; None if its rank is too low.
        """
        rank = self.rank(data)
        self._rank_all()
        return self._place(rank)

    def _place(self, rank: float) -> int | None:
        ring = self.storage.ring
        if not ring.is_full:
            return ring.cursor
        return self._ranks[0][1] if rank > self._ranks[0][0] else None

    def _counted(self) -> tuple[int, ...]:
        ring = self.storage.ring
        return ring.length, ring.written, ring.changes

    def _rank_all(self) -> None:
        """Rank the elements that are stored, unless this writer wrote them."""
        counted = self._counted()
        if self._ranked != counted:
            stored = self.storage.get(slice(None)) if len(self.storage) else []
            ranks = [(self.rank(item), place) for place, item in enumerate(_items(stored))]
            heapq.heapify(ranks)
            self._ranks, self._ranked = ranks, counted

    def add(self, data: Any) -> int | None:
        """Write an element if its rank is high enough; see :meth:`Writer.add`."""
        data = without_index(data)
        rank = self.rank(data)
        self._rank_all()
        place = self._write(data, rank)
        self.storage.ring.written += place is not None
        self._ranked = self._counted()
        return place

    def extend(self, data: Any) -> torch.Tensor:
        """Write the elements whose rank is high enough; see :meth:`Writer.extend`."""
        data = without_index(data)
        items = _items(data)
        # A list would keep the whole batch alive for each of its elements that stays.
        own = isinstance(self.storage, ListStorage) and not isinstance(data, list)
        ranks = [self.rank(item) for item in items]
        self._rank_all()
        self.storage.prepare(items, True)  # refuses all if one does not fit
        places = [self._write(item, rank, own) for item, rank in zip(items, ranks, strict=True)]
        self.storage.ring.written += sum(place is not None for place in places)
        self._ranked = self._counted()
        last = {place: i for i, place in enumerate(places) if place is not None}
        return torch.tensor([-1 if p is None or last[p] != i else p for i, p in enumerate(places)], dtype=torch.int64)

    def _write(self, item: Any, rank: float, own: bool = False) -> int | None:
        place, storage = self._place(rank), self.storage
        if place is None:
            return None
        item = item.clone() if own else item
        if not storage.is_full:
            storage.append(storage.prepare(item, False))
            storage.ring.written -= 1
            heapq.heappush(self._ranks, (rank, place))
        else:
            storage.overwrite(one(place), item)
            heapq.heapreplace(self._ranks, (rank, place))
        return place

    def overwrite(self, place: Where, data: Any) -> None:
        """Write over elements, whatever their ranks; see :meth:`Writer.overwrite`."""
        for item in [data] if place.position is not None else _items(data):
            self.rank(item)  # refuses what could not be ranked later
        super().overwrite(place, data)

    def _empty(self) -> None:
        self._ranks, self._ranked = [], None

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the ranks; see :meth:`Writer.state_dict`."""
        known = self._storage is not None and self._ranked == self._counted()
        return {**super().state_dict(), "ranks": [list(entry) for entry in self._ranks] if known else []}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Writer.load_state_dict`."""
        ranks = [(float(rank), int(place)) for rank, place in state_dict["ranks"]]
        if any(rank != rank for rank, _ in ranks):
            raise ValueError(faults.rank_is_nan(self.rank_key))
        heapq.heapify(ranks)
        known = self._storage is not None and sorted(place for _, place in ranks) == list(range(len(self.storage)))
        self._ranks, self._ranked = ranks, self._counted() if known else None

    def __repr__(self) -> str:
        return f"TensorDictMaxValueWriter(rank_key={self.rank_key!r}, reduction={self.reduction!r})"


def _items(data: Any) -> list[Any]:
    return data if isinstance(data, list) else split_batch(data)
