"""Blocks: batches kept as they came, whose rows become elements when somebody asks for one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, is_tensorclass

from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.forms import Form, form_of
from rlnb.data.replay_buffers.stacking import split_batch

# From blocks that have fewer rows of a batch than this, on average, one row after another is gathered.
_FEW_ROWS = 4


class Block:
    """A batch of TensorDicts or tensors, taken apart.

    Args:
        form: what its elements look like.
        leaves: shape ``[n, *leaf.shape]`` each.
        kind: blocks that can be put together have the same.

    Attributes:
        columns: the leaves.
        kind: the same.
    """

    __slots__ = ("_form", "columns", "kind")

    def __init__(self, form: Form, leaves: Sequence[torch.Tensor], kind: Any) -> None:
        self._form, self.kind = form, kind
        self.columns = [Column(leaf, 1) for leaf in leaves]

    @property
    def element_dims(self) -> int:
        """How many dimensions the batch size of an element has."""
        return self._form.element_dims

    def element(self, position: int) -> Any:
        """Cut an element out; it shares the memory of the batch.

        Args:
            position: of the row.

        Returns:
            The element.
        """
        return self._form.build([column.one(position) for column in self.columns], torch.Size(()))

    def build(self, leaves: Sequence[torch.Tensor], count: int) -> Any:
        """Make a batch of leaves.

        Args:
            leaves: shape ``[count, *leaf.shape]`` each.
            count: how many rows they have.

        Returns:
            The batch.
        """
        return self._form.build(leaves, torch.Size((count,)))


class Row:
    """A row of a block, in place of the element that it is until that is asked for.

    Args:
        block: which has it.
        position: where it is there.

    Attributes:
        block: the same.
        position: the same.
        element: the element, from then on.
    """

    __slots__ = ("block", "element", "position")

    def __init__(self, block: Block, position: int) -> None:
        self.block, self.position = block, position
        self.element: Any = None


def rows_of(data: Any) -> list[Any]:
    """Split a batch into rows, or into elements where it is no plain TensorDict or tensor.

    Args:
        data: see :func:`~rlnb.data.replay_buffers.stacking.split_batch`.

    Returns:
        A row or an element for each element of the batch.

    Raises:
        ValueError: if the tensors lead with different dimensions, or have none.

    Example:
        >>> rows = rows_of(torch.arange(100))
        >>> element_of(rows[7]), stack_rows(rows[:3])
        (tensor(7), tensor([0, 1, 2]))
    """
    if not (type(data) in (TensorDict, torch.Tensor) or is_tensorclass(data)):
        return split_batch(data)
    form = form_of(data, 1)
    leaves = form.take_apart(data, form.lead(data, 1))
    if not leaves or not all(map(_is_plain, leaves)):
        return split_batch(data)
    looks = json.dumps([form.describe(), [str(leaf.device) for leaf in leaves]])
    block = Block(form, leaves, (type(data), looks))
    return [Row(block, position) for position in range(len(data))]


def _is_plain(leaf: Any) -> bool:
    """Whether gathering a leaf's rows gives the same as stacking them, gradients and all."""
    return (
        type(leaf) is torch.Tensor
        and leaf.layout is torch.strided
        and not (leaf.requires_grad or leaf.is_conj() or leaf.is_neg())
    )


def element_of(item: Any, keep: bool = True) -> Any:
    """Return the element that a row stands for.

    Args:
        item: a row, or an element.
        keep: whether it is the same element each time, for somebody who may change it.

    Returns:
        The element.
    """
    if type(item) is not Row:
        return item
    element = item.element
    if element is None:
        element = item.block.element(item.position)
        if keep:
            item.element = element
    return element


def stack_rows(rows: Sequence[Any]) -> Any:
    """Stack rows whose elements nobody has asked for.

    Args:
        rows: at least one.

    Returns:
        The batch; None if one is something else, or looks different.
    """
    # An element that somebody has may have other entries by now.
    if any(type(row) is not Row or row.element is not None for row in rows):
        return None
    block = rows[0].block
    places: dict[Block, list[int]] = {}  # of each block, its places in the batch
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
    """Gather one leaf from several blocks: all of a block at once, and then in the order asked for."""
    if columns[0].flat_array is None:
        parts = [column.take(torch.from_numpy(own)) for column, own in zip(columns, index, strict=True)]
        return torch.cat(parts).index_select(0, torch.from_numpy(back).to(parts[0].device))
    arrays = [column.flat_array.take(own, 0) for column, own in zip(columns, index, strict=True)]  # type: ignore[union-attr] # all are alike
    return torch.from_numpy(np.concatenate(arrays).take(back, 0))
