"""Copying, pickling and showing trees without recursion, so that a tree may be deeper than Python's stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, TensorDictBase

from rlnb._tensordict import fast_tensordict
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
        # None is a placeholder: _put_together fills in the subtree.
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


def _put_together(cls: type[Tree], parts: Parts) -> TensorDict:
    """Undo :func:`take_apart`: return the TensorDict of the root."""
    entries, devices, children = parts
    nodes: list[TensorDict] = []
    for each, device in zip(entries, devices, strict=True):
        nodes.append(fast_tensordict(each, _NO_BATCH, device))
    for node, below in zip(nodes, children, strict=True):
        if below is not None:
            stored: Any = node._tensordict
            stack = LazyStackedTensorDict(*[nodes[child] for child in below], stack_dim=0)
            stored["subtree"] = cls._from_tensordict(stack)
    return nodes[0]


def copied(tree: Tree, copy_entry: Callable[[Any], Any]) -> Tree:
    """Copy a node without batch dimensions, and its subtree; the copy has no parent."""
    entries, devices, children = take_apart(tree._tensordict)
    done = [{name: None if v is None else copy_entry(v) for name, v in each.items()} for each in entries]
    return rebuilt(type(tree), (done, devices, children), others_of(tree))


def others_of(tree: Tree) -> dict[str, Any]:
    """Return the fields that the tensorclass keeps beside its TensorDict, without the parents."""
    return {name: value for name, value in tree._non_tensordict.items() if name != "_parent"}


def rebuilt(cls: type[Tree], parts: Parts, others: dict[str, Any]) -> Tree:
    """Make a tree from its parts; see :func:`take_apart`."""
    return cls._from_tensordict(_put_together(cls, parts), dict(others))


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


def size_of(tree: Tree) -> tuple[int, int]:
    """Count the nodes and the levels of a tree."""
    structure = structure_of(tree)
    return len(structure.rows()), structure.fold(lambda below: max(below, default=-1) + 1)
