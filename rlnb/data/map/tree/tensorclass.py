"""The tensorclass behind trees: links to parents, and copying, pickling and showing without recursion over levels."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, TensorDictBase, is_non_tensor, tensorclass

from rlnb._tensordict import fast_tensordict
from rlnb.data.map.tree.view import view_of
from rlnb.data.map.tree.walk import structure_of

if TYPE_CHECKING:
    from rlnb.data.map.tree.node import Tree

#: Number of levels that the repr of a tree shows.
LEVELS = 3

_NO_BATCH = torch.Size(())

Parts = tuple[list[dict[str, Any]], list[Any], list[list[int] | None]]


def take_apart(data: TensorDict, levels: int | None = None) -> Parts:
    """Take the nodes of a tree apart, breadth first, down to some levels below the root.

    A node with several parents is one part. Children that are not a stack of single nodes stay an entry of their
    parent.

    Returns:
        For each node its entries (``None`` as ``"subtree"`` if its children are parts), its device, and the numbers of
        those children.
    """
    nodes, numbers = [data], {id(data): 0}
    entries: list[dict[str, Any]] = []
    children: list[list[int] | None] = []
    depth, last = 0, 1
    for row, node in enumerate(nodes):
        if row == last:
            depth, last = depth + 1, len(nodes)
        below = _children(node) if levels is None or depth < levels else None
        stored: Any = node._tensordict
        # None is a placeholder: rebuilt fills in the subtree.
        entries.append({name: None if name == "subtree" and below is not None else stored[name] for name in stored})
        for child in below or ():
            if id(child) not in numbers:
                numbers[id(child)] = len(nodes)
                nodes.append(child)
        children.append(None if below is None else [numbers[id(child)] for child in below])
    return entries, [node.device for node in nodes], children


def _children(node: TensorDict) -> list[TensorDict] | None:
    stored: Any = node._tensordict
    if "subtree" not in stored:
        return None
    stack = stored["subtree"]
    data = stack if isinstance(stack, TensorDictBase) else stack._tensordict
    if not isinstance(data, LazyStackedTensorDict) or data.batch_dims != 1:
        return None
    return data.tensordicts if all(type(child) is TensorDict for child in data.tensordicts) else None


def copied(tree: Tree, copy_entry: Callable[[Any], Any]) -> Tree:
    """Copy a node without batch dimensions, and its subtree; the copy has no parent."""
    entries, devices, children = take_apart(tree._tensordict)
    done = [{name: None if v is None else copy_entry(v) for name, v in each.items()} for each in entries]
    return rebuilt(type(tree), (done, devices, children), others_of(tree))


def others_of(tree: Tree) -> dict[str, Any]:
    """Return the fields that the tensorclass keeps beside its TensorDict, without the parents."""
    return {name: value for name, value in tree._non_tensordict.items() if name != "_parent"}


def rebuilt(cls: type[Tree], parts: Parts, others: dict[str, Any]) -> Tree:
    """Undo :func:`take_apart`."""
    entries, devices, children = parts
    nodes = [fast_tensordict(each, _NO_BATCH, device) for each, device in zip(entries, devices, strict=True)]
    for node, below in zip(nodes, children, strict=True):
        if below is not None:
            stored: Any = node._tensordict
            stack = LazyStackedTensorDict(*[nodes[child] for child in below], stack_dim=0)
            stored["subtree"] = cls._from_tensordict(stack)
    return cls._from_tensordict(nodes[0], dict(others))


def is_plain(tree: Tree, locked: bool = False) -> bool:
    """Whether a node can be taken apart: it has no batch dimensions and, unless ``locked``, is not locked."""
    data = tree._tensordict
    return type(data) is TensorDict and not data.batch_dims and (locked or not data.is_locked)


def cut(tree: Tree) -> tuple[Tree, bool]:
    """Copy the first levels of a tree; the copy shares its tensors.

    Returns:
        The copy, and whether a deeper level was left out. In the copy, ``"..."`` takes the place of such children.
    """
    entries, devices, children = take_apart(tree._tensordict, LEVELS)
    short = False
    for each, below in zip(entries, children, strict=True):
        if below is None and "subtree" in each and getattr(each["subtree"], "batch_dims", 0) > 0:
            each["subtree"] = NonTensorData("...", batch_size=_NO_BATCH)
            short = True
    return rebuilt(type(tree), (entries, devices, children), others_of(tree)), short


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
        if kwargs or not is_plain(self, locked=True):
            return plain_clone(self, recurse, **kwargs)
        return copied(self, lambda entry: _cloned(entry, recurse))

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        if not is_plain(self):
            return self.clone()
        twin = copied(self, lambda entry: copy.deepcopy(entry, memo) if is_non_tensor(entry) else entry.clone())
        memo[id(self)] = twin
        return twin

    def reduce_ex(self: Any, protocol: Any) -> Any:
        if not is_plain(self):
            return plain_reduce(self, protocol)
        entries, devices, children = take_apart(self._tensordict)
        compact = [{name: _compact(entry) for name, entry in each.items()} for each in entries]
        return rebuilt, (cls, (compact, devices, children), others_of(self))

    def repr_(self: Any) -> str:
        if not is_plain(self, locked=True):
            return plain_repr(self)
        top, short = cut(self)
        if not short:
            return plain_repr(top)
        structure = structure_of(self)
        nodes, levels = len(structure.rows()), self.max_length()
        return f"{plain_repr(top)}\n# the first {LEVELS} levels of {levels}; {nodes:,} nodes in all"

    cls.clone, cls.__deepcopy__, cls.__reduce_ex__, cls.__repr__ = clone, deepcopy, reduce_ex, repr_


def _cloned(entry: Any, recurse: bool) -> Any:
    """Clone an entry as TensorDict does."""
    if isinstance(entry, torch.Tensor):
        return entry.clone() if recurse else entry
    return entry.clone(recurse)


def _compact(entry: Any) -> Any:
    """Copy views of larger memory: ``pickle`` would write all of it with each node. Shared memory stays."""
    if isinstance(entry, torch.Tensor):
        is_view = entry.layout == torch.strided and entry.untyped_storage().nbytes() > entry.nbytes
        return entry.clone() if is_view and not entry.is_shared() else entry
    if isinstance(entry, TensorDictBase) and not is_non_tensor(entry):
        return entry.apply(_compact, filter_empty=False, propagate_lock=True)
    return entry


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
