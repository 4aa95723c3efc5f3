"""Batches of items: stacked and split, and entries of them set."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_non_tensor, lazy_stack
from torch.utils import _pytree as pytree

from rlnb._tensordict import set_entry
from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.columns import ObjectColumn
from rlnb.data.replay_buffers.forms.base import Form, Leaf
from rlnb.data.replay_buffers.forms.tree_form import form_of, is_data
from rlnb.data.ted.keys import NestedKey

_dtype = operator.attrgetter("dtype")


def stack_leaves(items: Sequence[Any], form: Form, lead: tuple[int, ...] = ()) -> list[Any]:
    """Stack the leaves of items of one form and batch dimensions ``lead``; raises ``ValueError`` if one differs."""
    try:
        columns = form._take_each_apart(items)
        stacked = [_stack(values, leaf.dtype is None) for values, leaf in zip(columns, form.leaves, strict=True)]
        # Checking after stacking takes half the time, because the tensors are in the cache by then.
        if all(map(_alike, columns, stacked, form.leaves, [lead] * len(columns))):
            return stacked
    except (LookupError, TypeError, AttributeError, RuntimeError):
        pass
    odd, cause = 0, "It cannot be stacked."
    for position, item in enumerate(items):
        try:
            form.take_apart(item, lead)
        except ValueError as error:
            odd, cause = position, str(error)
            break
    raise ValueError(
        f"A list stands for items that are stored one by one, and number {odd} of them does not fit. "
        f"{cause}\nIf the list itself is one PyTree of batches, give a tuple."
    )


def _alike(values: Sequence[Any], stacked: Any, leaf: Leaf, lead: tuple[int, ...]) -> bool:
    """Whether all values have the dtype of a leaf, and the first its shape; torch.stack checks the other shapes."""
    if leaf.dtype is None:
        return not any(isinstance(value, torch.Tensor) for value in values)
    if values[0].shape != (*lead, *leaf.shape) or stacked.dtype is not leaf.dtype:
        return False
    # torch.stack promotes dtypes: only bool beside others would go unnoticed in the dtype of the stack.
    return leaf.dtype is torch.bool or set(map(_dtype, values)) == {leaf.dtype}


def _stack(values: Sequence[Any], objects: bool) -> Any:
    if not objects:
        return torch.stack(tuple(values))
    column = ObjectColumn((len(values),))
    for i, value in enumerate(values):
        column.scatter(torch.tensor([i]), value)
    return column.rows(slice(None))


def stack_items(items: Sequence[Any]) -> Any:
    """Stack items into a batch if possible.

    TensorDicts that differ only in the shapes of their entries make a lazy stack. Items that are not tensors, or differ
    in another way, make a list.

    Example:
        >>> stack_items([torch.zeros(2), torch.ones(2)])
        tensor([[0., 0.],
                [1., 1.]])
        >>> stack_items(["a string!", 30])
        ['a string!', 30]
    """
    items = list(items)
    leaves = pytree.tree_leaves(items[0], is_leaf=is_data) if items else []
    if not leaves or not all(is_data(leaf) or isinstance(leaf, torch.Tensor) for leaf in leaves):
        return items
    try:
        form = form_of(items[0], 0)
        leaves = stack_leaves(items, form)
    except (TypeError, ValueError):
        return _stack_ragged(items)
    return form.build(leaves, torch.Size((len(items),)))


def _stack_ragged(items: list[Any]) -> Any:
    """Lazily stack copies of TensorDicts that differ only in shapes; return other items as a list."""
    looks = {
        (item.batch_size, frozenset((key, value.dtype) for key, value in item.items(True, True)))
        if type(item) is TensorDict and not any(map(is_non_tensor, item.values(True)))
        else None
        for item in items
    }
    return items if None in looks or len(looks) > 1 else lazy_stack([item.copy() for item in items])


def split_batch(data: Any) -> list[Any]:
    """Split a tensor, TensorDict or PyTree of equal first dimensions into its items, which are views.

    Example:
        >>> split_batch((torch.arange(2), torch.zeros(2, 1)))
        [(tensor(0), tensor([0.])), (tensor(1), tensor([0.]))]
    """
    if isinstance(data, LazyStackedTensorDict) and data.stack_dim == 0:
        return list(data.tensordicts)  # their shapes may differ
    lead = form_of(data, 0).lead(data, 1)
    form = form_of(data, 1)
    leaves = form.take_apart(data, lead)
    columns = [
        _each_object(leaf, lead[0]) if info.dtype is None else leaf.unbind(0)
        for leaf, info in zip(leaves, form.leaves, strict=True)
    ]
    if not columns:
        return [form.build([], torch.Size(())) for _ in range(lead[0])]
    return [form.build(values, torch.Size(())) for values in zip(*columns, strict=True)]


def _each_object(values: Any, count: int) -> list[Any]:
    column = ObjectColumn((count,))
    column.scatter(torch.arange(count), values)
    return [column.one(i) for i in range(count)]


def set_per_item(batch: Any, key: NestedKey, values: Any, value_dims: int = 0) -> None:
    """Set an entry of a new batch to one value for each item, repeated over the item's own dimensions, such as time.

    The batch size is ``[*lead, *item]``, and the values have the shape ``[*lead, *value]``, ``value_dims`` of its
    dimensions being those of a value. Values that are not a tensor are set unchanged.

    Example:
        >>> from tensordict import TensorDict
        >>> batch = TensorDict(batch_size=[2, 3])
        >>> set_per_item(batch, "index", torch.tensor([3, 4]))
        >>> batch["index"]
        tensor([[3, 3, 3],
                [4, 4, 4]])
    """
    is_tensor = isinstance(values, torch.Tensor)
    missing = len(batch.batch_size) - (values.ndim - value_dims) if is_tensor else 0
    if missing > 0:
        lead = values.ndim - value_dims
        own = values.shape[lead:]
        values = values.reshape((*values.shape[:lead], *[1] * missing, *own)).expand((*batch.batch_size, *own))
    if is_tensor and isinstance(batch, TensorDictBase):
        set_entry(batch, key, values)
    else:
        batch.set(key, values)


def with_entries(data: Any, entries: dict[NestedKey, Any]) -> Any:
    """Return a shallow copy of a TensorDict, or of a list of them, with new values of stored entries.

    The values have the batch size of ``data``; for a list, one value for each item.
    """
    if isinstance(data, list):
        values = {key: list(value) for key, value in entries.items()}
        return [with_entries(item, {key: value[i] for key, value in values.items()}) for i, item in enumerate(data)]
    if not isinstance(data, TensorDictBase):
        raise TypeError(f"Only TensorDicts have entries to set, and the buffer holds: {type(data).__name__}.")
    changed = data.copy()
    for key, value in entries.items():
        if key not in changed.keys(True):
            raise KeyError(errors.no_such_entry(key, list(data.keys(True, True))))
        changed.set(key, value)
    return changed
