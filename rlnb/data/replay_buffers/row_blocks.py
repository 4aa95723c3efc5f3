"""BlockRow blocks of a ListStorage: batches stored whole, whose rows become items only when they are accessed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, is_tensorclass

from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.forms.base import Form
from rlnb.data.replay_buffers.forms.tree_form import form_of
from rlnb.data.replay_buffers.stacking import split_batch

_FEW_ROWS = 4  # with fewer rows of each block in a batch, on average, rows are gathered one by one


class RowBlock:
    """A batch of TensorDicts or tensors, as columns. Rows of blocks of an equal ``kind`` can be stacked."""

    __slots__ = ("_form", "columns", "kind")

    def __init__(self, form: Form, leaves: Sequence[torch.Tensor], kind: Any) -> None:
        self._form, self.kind = form, kind
        self.columns = [Column(leaf, 1) for leaf in leaves]

    @property
    def element_dims(self) -> int:
        """Number of batch dimensions of an item."""
        return self._form.element_dims

    def item(self, position: int) -> Any:
        """Return the item of a row; it shares the memory of the batch."""
        return self._form.build([column.one(position) for column in self.columns], torch.Size(()))

    def build(self, leaves: Sequence[torch.Tensor], count: int) -> Any:
        """Make a batch of leaves of shape ``[count, *leaf.shape]``."""
        return self._form.build(leaves, torch.Size((count,)))


class BlockRow:
    """A row of a block; stands in a list for an item that nobody has accessed yet. Afterwards, ``item`` keeps it."""

    __slots__ = ("block", "item", "position")

    def __init__(self, block: RowBlock, position: int) -> None:
        self.block, self.position = block, position
        self.item: Any = None


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
    block = RowBlock(form, leaves, (type(data), looks))
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
        item = entry.block.item(entry.position)
        if keep:
            entry.item = item
    return item


def stack_rows(rows: Sequence[Any]) -> Any:
    """Stack rows whose items nobody has accessed; None if one is not such a row, or their forms differ."""
    # An item that was accessed may have been changed since.
    if any(type(row) is not BlockRow or row.item is not None for row in rows):
        return None
    block = rows[0].block
    places: dict[RowBlock, list[int]] = {}  # the places in the batch of the rows of each block
    for place, row in enumerate(rows):
        places.setdefault(row.block, []).append(place)
    if any(other.kind != block.kind for other in places):
        return None
    if len(places) * _FEW_ROWS > len(rows):
        columns = zip(*[row.block.columns for row in rows], strict=True)
        positions = [row.position for row in rows]
        return block.build([_stack(each, positions) for each in columns], len(rows))
    index = [np.array([rows[place].position for place in own]) for own in places.values()]
    if len(index) == 1:
        return block.build([column.take(torch.from_numpy(index[0])) for column in block.columns], len(rows))
    back = np.empty(len(rows), np.int64)
    back[np.concatenate(list(places.values()))] = np.arange(len(rows))
    columns = zip(*[each.columns for each in places], strict=True)
    return block.build([_gather(each, index, back) for each in columns], len(rows))


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
