"""ListStorage: a storage of any Python objects, in a list."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.forms.tree_form import is_data
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.row_blocks import BlockRow, item_of, split_rows, stack_rows
from rlnb.data.replay_buffers.stacking import stack_items
from rlnb.data.replay_buffers.storages.base import Rows, Storage, refuse_compilable


class ListStorage(Storage):
    """A storage of any Python objects.

    It is the slowest storage, and the only one without requirements on the data. Samples are stacked if possible
    (tensors of one shape, TensorDicts and PyTrees of these), and are lists otherwise. Stored items share memory with
    the data that was given, as the items of a list do.

    Args:
        max_size: number of items there is room for. Default: no limit.
        compilable: accepted for code written for TorchRL; only False.

    Raises:
        ValueError: If ``max_size`` is not a positive integer.
        NotImplementedError: If ``compilable`` is True.

    Example:
        >>> from rlnb.data import ReplayBuffer
        >>> rb = ReplayBuffer(storage=ListStorage(10))
        >>> rb.add("a string!")
        0
        >>> rb.extend([30, None])
        tensor([1, 2])
        >>> rb[:]
        ['a string!', 30, None]
    """

    def __init__(self, max_size: int | None = None, *, compilable: bool = False) -> None:
        refuse_compilable(compilable)
        super().__init__(torch.iinfo(torch.int64).max if max_size is None else max_size)
        self._items: list[Any] = []

    @property
    def element_dims(self) -> int:
        """Number of batch dimensions of the first item; see :class:`Storage`."""
        if not self._items:
            return 0
        first = self._items[0]
        if type(first) is BlockRow:
            return first.block.element_dims
        return len(first.batch_size) if is_data(first) else 0

    def prepare(self, data: Any, many: bool) -> Rows:
        """Split a batch into items; see :meth:`Storage.prepare`."""
        if not many:
            return Rows(1, [data])
        items = data if isinstance(data, list) else _split(data)
        return Rows(len(items), items)

    def _put(self, start: int, rows: Rows, first: int, last: int) -> None:
        missing = start - len(self._items)
        if missing > 0:  # if there are more rows than room, the first one kept may go beyond the current end
            self._items += [None] * missing
        self._items[start : start + last - first] = rows.parts[first:last]

    def overwrite(self, place: Where, data: Any) -> None:
        """Overwrite items; see :meth:`Storage.overwrite`."""
        with self.ring.lock:
            self.ring.changes += 1
            if place.position is not None:
                self._items[place.position] = data
                return
            positions = self._positions(place)
            items = self.prepare(data, many=True).parts
            if len(items) != len(positions):
                raise ValueError(errors.other_count(len(positions), len(items)))
            try:
                self._put_each(positions, items)
            except KeyboardInterrupt:  # leave no batch half written
                self._put_each(positions, items)
                raise

    def _put_each(self, positions: list[int], items: list[Any]) -> None:
        for position, item in zip(positions, items, strict=True):
            self._items[position] = item

    def gather(self, index: Any) -> list[Any]:
        """Return a list for :meth:`elements` or :meth:`collate`; see :meth:`Storage.gather`."""
        items = self._items
        return [items[i] for i in index.tolist()]

    def read(self, place: Where) -> Any:
        """Read an item, or a list of several as :meth:`gather` returns it; see :meth:`Storage.read`."""
        if place.position is not None:
            return item_of(self._items[place.position])
        return [self._items[i] for i in self._positions(place)]

    def _positions(self, place: Where) -> list[int]:
        if place.span is not None:
            return list(range(place.span.start, place.span.stop))
        assert place.flat is not None
        positions: list[int] = place.flat.tolist()
        return positions

    def elements(self, data: Any) -> Any:
        """Return a list of the items; see :meth:`Storage.elements`."""
        return [item_of(item) for item in data] if isinstance(data, list) and BlockRow in set(map(type, data)) else data

    def collate(self, data: Any) -> Any:
        """Stack items if possible; see :meth:`Storage.collate`."""
        batch = stack_rows(data) if data and type(data[0]) is BlockRow else None
        return stack_items(self.elements(data)) if batch is None else batch

    def _empty(self) -> None:
        with self.ring.lock:
            super()._empty()
            self._items = []

    def state_dict(self) -> dict[str, Any]:
        """Return the items and the state of the ring; see :meth:`Storage.state_dict`."""
        return {**super().state_dict(), "items": [item_of(item, keep=False) for item in self._items]}

    def check_state(self, state_dict: dict[str, Any]) -> None:
        """Reject a state without items, or with more than there is room for; see :meth:`Storage.check_state`."""
        items = state_dict.get("items")
        if items is None or len(items) != state_dict["length"] or not self._counts_fit(state_dict, self.max_size):
            raise ValueError(errors.other_state("ListStorage", state_dict, self.max_size))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; see :meth:`Storage.load_state_dict`."""
        self.check_state(state_dict)
        with self.ring.lock:
            self._items = list(state_dict["items"])
            self.ring.jump(state_dict["cursor"], state_dict["length"], state_dict["written"])


def _split(data: Any) -> list[Any]:
    """Split a batch, or any other iterable, into items."""
    if is_data(data) or isinstance(data, torch.Tensor) or not pytree.tree_is_leaf(data):
        return split_rows(data)
    try:
        return list(data)
    except TypeError:
        raise TypeError(
            "extend needs several items: a list, a TensorDict, a tensor or a tuple of tensors, and got: "
            f"{type(data).__name__}. Nothing was written. Fix: buffer.add(data) stores one item, of any kind."
        ) from None
