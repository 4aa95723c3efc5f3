"""Lazy nodes: TensorDicts that view the rows of TreeArrays and create their entries on first access."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict

from rlnb.data.map.tree.arrays import TreeArrays

_LATER = object()
_NO_BATCH = torch.Size(())
# The type of dictionary that a TensorDict keeps its entries in.
_PLAIN: type = type(getattr(TensorDict(), "_tensordict", {}))


class NodeView:
    """The nodes of TreeArrays; a node is created once for as long as something holds it.

    Attributes:
        edited: whether a user replaced the children of a node, so that the arrays no longer hold the structure.
    """

    def __init__(self, arrays: TreeArrays) -> None:
        self.arrays, self.edited = arrays, False
        self._made: weakref.WeakValueDictionary[int, TensorDict] = weakref.WeakValueDictionary()
        self._kept: weakref.ref[_Kept] | None = None

    def root(self) -> TensorDict:
        """Return the root, which keeps alive all nodes that are created from now on."""
        root = self.node(0)
        kept = _Kept()
        entries: Any = root._tensordict
        entries.kept = kept
        self._kept = weakref.ref(kept)
        return root

    def node(self, row: int) -> TensorDict:
        """Return the node of a row: a TensorDict of batch size ``[]``, whose entries are created when they are read."""
        node = self._made.get(row)
        if node is None:
            node = TensorDict._new_unsafe({}, batch_size=_NO_BATCH, nested=False)
            node._tensordict = Entries(self, row)
            self._made[row] = node
            kept = self._kept() if self._kept is not None else None
            if kept is not None:
                kept[row] = node
        return node

    def if_alive(self, row: int) -> TensorDict | None:
        """Return a node if it exists, or if the root exists and so keeps it alive; else ``None``."""
        alive = self._kept is not None and self._kept() is not None
        return self.node(row) if alive else self._made.get(row)

    def seen(self, name: str) -> dict[int, Any]:
        """Return the values of a field that were read or written, by row. Writes of a user are not in the arrays."""
        found = {row: dict.get(node._tensordict, name, _LATER) for row, node in self._made.items()}
        return {row: value for row, value in found.items() if value is not _LATER}

    def names(self, row: int) -> list[str]:
        """List the fields that a node has, in the order of the class."""
        arrays = self.arrays
        names = ["count", "wins"]
        names += ["index"] if arrays.index is not None and arrays.children[row] else []
        names += ["hash"] if arrays.has_hashes else []
        names += ["node_id"]
        names += ["rollout"] if arrays.has_rollout(row) else []
        names += ["node_data"]
        names += ["subtree"] if arrays.children[row] else []
        return names + (["specs"] if arrays.specs is not None else [])

    def make(self, row: int, name: str) -> Any:
        """Create the value of a field."""
        from rlnb.data.map.tree.node import Tree  # which imports this module

        arrays = self.arrays
        if name == "subtree":
            nodes = [self.node(child) for child in arrays.children[row]]
            return Tree._from_tensordict(LazyStackedTensorDict(*nodes, stack_dim=0))
        if name in ("count", "wins"):
            return getattr(arrays, name)[row]
        if name in ("rollout", "node_data"):
            return getattr(arrays, name)(row)
        if name == "index":
            return torch.as_tensor(arrays.index[row])  # type: ignore[index]  # names() lists it only if it exists
        if name == "hash":
            value: Any = arrays.hashes[row]  # type: ignore[index]  # likewise
        else:
            value = row if name == "node_id" else arrays.specs
        return NonTensorData(value, batch_size=_NO_BATCH)


class _Kept(dict[int, TensorDict]):
    """The nodes created so far, by row; a dictionary that allows weak references."""

    __slots__ = ("__weakref__",)


class Entries(dict[str, Any]):
    """The entries of the node of a row; a value is created when it is first read."""

    def __init__(self, view: NodeView, row: int) -> None:
        super().__init__(dict.fromkeys(view.names(row), _LATER))
        self.view, self.row = view, row
        self.kept: _Kept | None = None

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if value is _LATER:
            value = self.view.make(self.row, key)
            super().__setitem__(key, value)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        self.view.edited |= key == "subtree"
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.view.edited |= key == "subtree"
        super().__delitem__(key)

    # The methods of dict skip these, and so would see placeholders; so would dict(entries), unless __iter__ is defined.
    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def copy(self) -> dict[str, Any]:
        """Copy all entries to a plain dictionary."""
        return dict(self)

    def pop(self, key: str, *default: Any) -> Any:
        """Remove an entry and return it."""
        value = self.get(key, *default) if default else self[key]
        if key in self:
            del self[key]
        return value

    get, items, values = Mapping.get, Mapping.items, Mapping.values  # type: ignore[assignment]
    update, setdefault = MutableMapping.update, MutableMapping.setdefault

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _PLAIN, (dict(self),)


def view_of(data: Any) -> tuple[NodeView, int] | None:
    """Return the view that a node belongs to, and its row, from its TensorDict.

    ``None`` for a node that is not backed by arrays, or whose arrays no longer hold the structure.
    """
    entries = getattr(data, "_tensordict", None)
    if type(entries) is not Entries or entries.view.edited:
        return None
    return entries.view, entries.row
