"""ListStorage: a storage of any Python objects, in a list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, is_tensorclass
from torch.utils import _pytree as pytree

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.forms.base import Form
from rlnb.data.replay_buffers.forms.tree_form import form_of, is_data
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.ring import finish
from rlnb.data.replay_buffers.stacking import split_batch, stack_items
from rlnb.data.replay_buffers.storages.base import Rows, Storage, refuse_compilable

_FEW_ROWS = 4  # with fewer rows of each block in a batch, on average, rows are gathered one by one


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
            return first.block.form.element_dims
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
            positions = place.positions(1).tolist()
            items = self.prepare(data, many=True).parts
            if len(items) != len(positions):
                raise ValueError(errors.other_count(len(positions), len(items)))
            finish(lambda: self._put_each(positions, items))

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
        return [self._items[i] for i in place.positions(1).tolist()]

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


@dataclass(slots=True, eq=False)
class RowBlock:
    """A batch of TensorDicts or tensors, stored whole as columns. Rows of blocks of one ``kind`` can be stacked."""

    form: Form
    columns: list[Column]
    kind: Any


@dataclass(slots=True, eq=False)
class BlockRow:
    """A row of a block; stands in a list for an item that has not been accessed yet. Afterwards, ``item`` keeps it."""

    block: RowBlock
    position: int
    item: Any = None


def split_rows(data: Any) -> list[Any]:
    """Split a batch into rows, or into items if it is not a plain TensorDict or tensor.

    Example:
        >>> rows = split_rows(torch.arange(100))
        >>> item_of(rows[7]), stack_rows(rows[:3])
        (tensor(7), tensor([0, 1, 2]))
    """
    if not (type(data) in (TensorDict, torch.Tensor) or is_tensorclass(data)):
        return split_batch(data)
    form = form_of(data, 1)
    leaves = form.take_apart(data, form.lead(data, 1))
    if not leaves or not all(map(_is_plain, leaves)):
        return split_batch(data)
    looks = json.dumps([form.describe(), [str(leaf.device) for leaf in leaves]])
    block = RowBlock(form, [Column(leaf, 1) for leaf in leaves], (type(data), looks))
    return [BlockRow(block, position) for position in range(len(data))]


def _is_plain(leaf: Any) -> bool:
    """Whether gathering the rows of a leaf gives the same as stacking them, including gradients."""
    return (
        type(leaf) is torch.Tensor
        and leaf.layout is torch.strided
        and not (leaf.requires_grad or leaf.is_conj() or leaf.is_neg())
    )


def item_of(entry: Any, keep: bool = True) -> Any:
    """Return the item of an entry of the list; with ``keep``, it is always the same object, which may be changed."""
    if type(entry) is not BlockRow:
        return entry
    item = entry.item
    if item is None:
        columns = entry.block.columns
        item = entry.block.form.build([column.one(entry.position) for column in columns], torch.Size(()))
        if keep:
            entry.item = item
    return item


def stack_rows(rows: Sequence[Any]) -> Any:
    """Stack rows whose items have not been accessed; None if one is not such a row, or their forms differ."""
    # An item that was accessed may have been changed since.
    if any(type(row) is not BlockRow or row.item is not None for row in rows):
        return None
    block, lead = rows[0].block, torch.Size((len(rows),))
    places: dict[RowBlock, list[int]] = {}  # the places in the batch of the rows of each block
    for place, row in enumerate(rows):
        places.setdefault(row.block, []).append(place)
    if any(other.kind != block.kind for other in places):
        return None
    if len(places) * _FEW_ROWS > len(rows):
        columns = zip(*[row.block.columns for row in rows], strict=True)
        positions = [row.position for row in rows]
        return block.form.build([_stack(each, positions) for each in columns], lead)
    index = [np.array([rows[place].position for place in own]) for own in places.values()]
    if len(index) == 1:
        return block.form.build([column.take(torch.from_numpy(index[0])) for column in block.columns], lead)
    back = np.empty(len(rows), np.int64)
    back[np.concatenate(list(places.values()))] = np.arange(len(rows))
    columns = zip(*[each.columns for each in places], strict=True)
    return block.form.build([_gather(each, index, back) for each in columns], lead)


def _stack(columns: Sequence[Column], positions: Sequence[int]) -> torch.Tensor:
    """Gather one leaf of single rows."""
    if columns[0].flat_array is None:
        return torch.stack([column.one(i) for column, i in zip(columns, positions, strict=True)])
    rows = [column.flat_array[i : i + 1] for column, i in zip(columns, positions, strict=True)]  # type: ignore[index] # all are alike
    return torch.from_numpy(np.concatenate(rows))


def _gather(columns: Sequence[Column], index: Sequence[np.ndarray], back: np.ndarray) -> torch.Tensor:
    """Gather one leaf from several blocks: each block at once, then everything in the order of the batch."""
    if columns[0].flat_array is None:
        parts = [column.take(torch.from_numpy(own)) for column, own in zip(columns, index, strict=True)]
        return torch.cat(parts).index_select(0, torch.from_numpy(back).to(parts[0].device))
    arrays = [column.flat_array.take(own, 0) for column, own in zip(columns, index, strict=True)]  # type: ignore[union-attr] # all are alike
    return torch.from_numpy(np.concatenate(arrays).take(back, 0))
