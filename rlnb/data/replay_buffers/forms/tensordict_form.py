"""Form of TensorDicts and tensorclasses."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase, is_non_tensor, is_tensorclass

from rlnb._tensordict import fast_tensordict, raw_entries, raw_entries_of_each
from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.forms.base import Form, Leaf
from rlnb.data.replay_buffers.forms.structure import dtype_name, empty_tensor, read_shape
from rlnb.data.ted.keys import NestedKey, as_key
from rlnb.data.ted.leaves import is_branch, leaf_keys

MOST_EMPTY = 1 << 16  # largest batch size that is believed without a tensor of that size


class _Node:
    """TensorDict within the form: its entries in order (``None`` for a leaf) and its batch size in one item."""

    __slots__ = ("batch", "entries", "get", "is_flat")

    def __init__(self, entries: dict[str, _Node | None], batch: torch.Size) -> None:
        self.entries, self.batch = entries, batch
        self.is_flat = len(entries) > 1 and not any(entries.values())
        # Getting all entries at once takes half the time, but returns no tuple for a single one.
        self.get = operator.itemgetter(*entries) if len(entries) > 1 else self._get_few

    def _get_few(self, entries: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(entries[name] for name in self.entries)


class TensorDictForm(Form):
    """Form of TensorDicts: their keys, and the batch size of each nested one; see :class:`Form`.

    Example:
        >>> form = TensorDictForm(TensorDict({"a": torch.zeros(3, 2)}, [3]), ndim=1)
        >>> form.leaves
        [Leaf(key='a', shape=torch.Size([2]), dtype=torch.float32)]
        >>> form.build([torch.ones(5, 2)], torch.Size([5])).batch_size
        torch.Size([5])
    """

    def __init__(self, data: Any, ndim: int) -> None:
        self._class: type | None = type(data) if is_tensorclass(data) else None
        leaves: list[Leaf] = []
        self._root = _node(_plain(data), ndim, (), leaves)
        self._learn(leaves)
        self.element_dims = len(self._root.batch)

    def _take_apart(self, data: Any) -> list[Any]:
        out: list[Any] = []
        _collect(self._root, _entries(data), out)
        return out

    def _take_each_apart(self, items: Sequence[Any]) -> list[tuple[Any, ...]]:
        out: list[tuple[Any, ...]] = []
        _collect_columns(self._root, items, out)
        return out

    def build(self, leaves: Sequence[Any], lead: torch.Size) -> Any:
        """Put leaves together into a TensorDict of batch size ``[*lead, *element]``; see :meth:`Form.build`."""
        data = self._fill(self._root, iter(leaves), lead)
        return data if self._class is None else self._class.from_tensordict(data)  # type: ignore[attr-defined]  # a tensorclass

    def skeleton(self, lead: tuple[int, ...]) -> TensorDictBase:
        """Build a batch, a TensorDict also for a tensorclass, without non-tensor data. Its tensors take no memory."""
        leaves = [
            NonTensorData(None) if leaf.dtype is None else torch.empty((), dtype=leaf.dtype).expand(*lead, *leaf.shape)
            for leaf in self.leaves
        ]
        data = self._fill(self._root, iter(leaves), torch.Size(lead))
        return data.exclude(*(leaf.key for leaf in self.leaves if leaf.dtype is None))

    def _fill(self, node: _Node, leaves: Any, lead: torch.Size) -> TensorDict:
        source = {
            name: next(leaves) if child is None else self._fill(child, leaves, lead)
            for name, child in node.entries.items()
        }
        return fast_tensordict(source, lead + node.batch if node.batch else lead, self.device)

    def lead(self, data: Any, ndim: int) -> torch.Size:
        """Read the first dimensions of the batch size; see :meth:`Form.lead`."""
        batch: torch.Size = data.batch_size
        if len(batch) < ndim:
            raise ValueError(errors.too_few_dims(f"a {type(data).__name__} of batch size {list(batch)}", ndim))
        return batch[:ndim]

    def describe(self) -> dict[str, Any]:
        """Describe the form; see :meth:`Form.describe`."""
        return {"kind": "tensordict", "root": _describe(self._root, iter(self.leaves))}

    def _keys(self, data: Any) -> list[NestedKey]:
        if not (isinstance(data, TensorDictBase) or is_tensorclass(data)):
            return []
        return leaf_keys(_plain(data))


def _plain(data: Any) -> TensorDictBase:
    """Return the TensorDict of a tensorclass; a TensorDict as it is."""
    if is_tensorclass(data):
        return data.to_tensordict(retain_none=False)
    if not isinstance(data, TensorDictBase):
        raise TypeError("no TensorDict")
    return data


def _entries(data: Any) -> Mapping[str, Any]:
    """Return the entries of a TensorDict or tensorclass."""
    try:
        return raw_entries(data if type(data) is TensorDict else _plain(data))
    except RuntimeError as error:  # a lazy stack whose rows have different shapes
        raise ValueError(
            "The rows of this lazily stacked TensorDict have entries of different shapes, and contiguous memory holds "
            f"one. Nothing was written. ({str(error).splitlines()[0]})\n"
            "Fix: pad them (tensordict.pad_sequence), or use ListStorage, which holds rows of any shape."
        ) from error


def _node(data: TensorDictBase, ndim: int, path: tuple[str, ...], leaves: list[Leaf]) -> _Node:
    entries: dict[str, _Node | None] = {}
    for name, value in _entries(data).items():
        here = (*path, name)
        if isinstance(value, torch.Tensor):
            entries[name] = None
            leaves.append(Leaf(as_key(here), value.shape[ndim:], value.dtype))
        elif is_branch(value) or (is_tensorclass(value) and not is_non_tensor(value)):
            entries[name] = _node(_plain(value), ndim, here, leaves)
        else:
            entries[name] = None
            leaves.append(Leaf(as_key(here), torch.Size(()), None))
    return _Node(entries, data.batch_size[ndim:])


def _collect(node: _Node, entries: Any, out: list[Any]) -> None:
    """Append the leaves of a subtree; raises ``KeyError`` if the keys differ."""
    if len(entries) != len(node.entries):
        raise KeyError("other entries than are stored")
    values = node.get(entries)
    if node.is_flat:
        out += values
        return
    for child, value in zip(node.entries.values(), values, strict=True):
        if child is None:
            out.append(value)
        else:
            _collect(child, _entries(value), out)


def _collect_columns(node: _Node, items: Sequence[Any], out: list[tuple[Any, ...]]) -> None:
    """Append, for each leaf of a subtree, that leaf of every item; see :func:`_collect`."""
    entries = raw_entries_of_each(items) or list(map(_entries, items))
    if set(map(len, entries)) != {len(node.entries)}:
        raise KeyError("other entries than are stored")
    columns = zip(*map(node.get, entries), strict=True)
    for child, column in zip(node.entries.values(), columns, strict=True):
        if child is None:
            out.append(column)
        else:
            _collect_columns(child, column, out)


def _describe(node: _Node, leaves: Any) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, child in node.entries.items():
        if child is not None:
            entries[name] = _describe(child, leaves)
        else:
            leaf = next(leaves)
            entries[name] = [list(leaf.shape), leaf.dtype and dtype_name(leaf.dtype)]
    return {"batch": list(node.batch), "entries": entries}


def empty_tensordict(plain: dict[str, Any]) -> TensorDict:
    """Make an item from the ``"root"`` of its description; see :meth:`Form.describe`. Its tensors take no memory."""
    batch = read_shape(plain["batch"])
    entries: dict[str, Any] = {}
    for name, value in plain["entries"].items():
        if isinstance(value, dict):
            entries[name] = empty_tensordict(value)
        else:
            shape, dtype = value
            entries[name] = NonTensorData(None) if dtype is None else empty_tensor(shape, dtype)
    data = TensorDict(entries, batch)  # raises for entries of other batch sizes
    if batch.numel() > MOST_EMPTY and not list(data.keys(True, True)):
        raise ValueError(f"a TensorDict of batch size {list(batch)} without a tensor")
    return data
