"""Parent links: weak references from a node to its parent, kept beside the data of the tensorclass."""

from __future__ import annotations

import copy
import functools
import weakref
from typing import Any

import torch
from tensordict import NonTensorData, TensorDictBase, is_non_tensor, tensorclass

from rlnb.data.map.tree import copying
from rlnb.data.map.tree.view import view_of


class ParentLink(weakref.ref[TensorDictBase]):
    """A weak reference to the TensorDict of a parent, together with the links ``above`` it, of the parent itself.

    A link is not copied or saved: nodes of a copied or loaded tree get their links when they are reached from their
    parent.
    """

    __slots__ = ("above",)
    above: ParentLink | list[ParentLink] | None

    def __new__(cls, parent: TensorDictBase, above: Any = None) -> ParentLink:
        """Create the weak reference, which is immutable."""
        link = super().__new__(cls, parent)
        link.above = above
        return link

    def __init__(self, parent: TensorDictBase, above: Any = None) -> None:
        super().__init__(parent)  # type: ignore[call-arg]  # missing in typeshed

    def __copy__(self) -> ParentLink:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def as_links(value: Any) -> Any:
    """Convert the parents that a user sets to a link, a list of links, or ``None`` if no parent is alive.

    ``value`` is a tree, a weak reference to one or to its TensorDict, a list of these, or ``None``.

    Raises:
        TypeError: If the value is of another type.
    """
    if value is None or isinstance(value, ParentLink):
        return value
    if isinstance(value, (list, tuple)):
        links = [link for link in map(as_links, value) if link is not None]
        return links or None
    target = value() if isinstance(value, weakref.ref) else value
    if target is None:
        return None
    data = getattr(target, "__dict__", {}).get("_tensordict", target)
    if isinstance(data, dict):  # of a TensorDict, whose own entries have that name
        data = target
    if not isinstance(data, TensorDictBase):
        raise TypeError(
            f"The parent of a node must be a Tree or a weak reference to one, got a {type(target).__name__}. "
            "Fix: Tree(..., _parent=weakref.ref(parent), batch_size=[])."
        )
    return ParentLink(data, getattr(target, "_parent", None) if target is not data else None)


def linked(cls: Any) -> Any:
    """Class decorator: make a tensorclass whose nodes link to their parents and whose trees may be of any depth.

    The field ``_parent`` is kept beside the data and set when a child is accessed through its parent. Links take no
    part in ``stack``, ``clone``, ``save`` and ``state_dict``, so these work for nodes that have parents. Methods are
    wrapped here and not written in the class body, because they extend those that ``tensorclass`` generates.
    """
    cls = tensorclass(cls)
    _without_recursion(cls)
    plain_set = cls.set

    @functools.wraps(plain_set)
    def set_(self: Any, key: Any, value: Any, inplace: bool = False, non_blocking: bool = False) -> Any:
        if key not in ("_parent", ("_parent",)):
            if key in ("hash", "node_id") and isinstance(value, int):
                value = NonTensorData(value, batch_size=self.batch_size)  # else a tensor replaces the number
            return plain_set(self, key, value, inplace, non_blocking)
        links = as_links(value)
        self.__dict__["_non_tensordict"].pop("_parent", None)
        if links is not None:
            self.__dict__["_non_tensordict"]["_parent"] = links
        return self

    def without_links(method: Any) -> Any:
        """Wrap a method so that it does not see the links."""

        @functools.wraps(method)
        def hidden(self: Any, *args: Any, **kwargs: Any) -> Any:
            others = self.__dict__["_non_tensordict"]
            links = others.pop("_parent", None)
            if kwargs.get("inplace") and view_of(self.__dict__["_tensordict"]) is not None:
                # A node with several parents is one object with several places in the directory.
                kwargs["copy_existing"] = True
            try:
                return method(self, *args, **kwargs)
            finally:
                if links is not None:
                    others["_parent"] = links

        return hidden

    for name in ("__getstate__", "_memmap_", "to_dict"):
        setattr(cls, name, without_links(getattr(cls, name)))
    cls.set = set_
    cls.subtree = _Subtree(cls.__dict__["subtree"])
    return cls


def _without_recursion(cls: Any) -> None:
    """Replace ``clone``, ``deepcopy``, pickling and ``repr``, which tensordict implements by recursion over levels."""
    plain_clone, plain_reduce, plain_repr = cls.clone, cls.__reduce_ex__, cls.__repr__

    @functools.wraps(plain_clone)
    def clone(self: Any, recurse: bool = True, **kwargs: Any) -> Any:
        if kwargs or not copying.is_plain(self, locked=True):
            return plain_clone(self, recurse, **kwargs)
        return copying.copied(self, lambda entry: _cloned(entry, recurse))

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        if not copying.is_plain(self):
            return self.clone()
        twin = copying.copied(self, lambda entry: copy.deepcopy(entry, memo) if is_non_tensor(entry) else entry.clone())
        memo[id(self)] = twin
        return twin

    def reduce_ex(self: Any, protocol: Any) -> Any:
        if not copying.is_plain(self):
            return plain_reduce(self, protocol)
        return copying.rebuilt, (cls, copying.take_apart(self._tensordict), copying.others_of(self))

    def repr_(self: Any) -> str:
        if not copying.is_plain(self, locked=True):
            return plain_repr(self)
        top, short = copying.cut(self)
        if not short:
            return plain_repr(top)
        nodes, levels = copying.size_of(self)
        return f"{plain_repr(top)}\n# the first {copying.LEVELS} levels of {levels}; {nodes:,} nodes in all"

    cls.clone, cls.__deepcopy__, cls.__reduce_ex__, cls.__repr__ = clone, deepcopy, reduce_ex, repr_


def _cloned(entry: Any, recurse: bool) -> Any:
    """Clone an entry as TensorDict does."""
    if isinstance(entry, torch.Tensor):
        return entry.clone() if recurse else entry
    return entry.clone(recurse)


class _Subtree:
    """Descriptor of the field ``subtree``: children that are read through it get a link to their parent."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        children = self._plain.__get__(node, owner)
        if node is None or children is None:
            return children
        # Children of a tree made from a plain TensorDict are a TensorDict as well.
        data = children if isinstance(children, TensorDictBase) else children.__dict__["_tensordict"]
        above = ParentLink(node.__dict__["_tensordict"], node._parent)
        return type(node)._from_tensordict(data, {"_parent": above})
