"""Copies, pickles and texts of trees without recursion, so that a tree may be deeper than Python's stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.map.tree.walk import structure_of

if TYPE_CHECKING:
    from rlnb.data.map.tree.node import Tree

#: How many levels of a tree its repr shows.
LEVELS = 3

_NO_BATCH = torch.Size(())

Parts = tuple[list[dict[str, Any]], list[Any], list[list[int] | None]]


def parts_of(data: TensorDict, levels: int | None = None) -> Parts:
    """Take the nodes of a tree apart, breadth first.

    A node with several parents is one part. Children that are no stack of single nodes stay an entry of their parent.

    Args:
        data: the TensorDict of the root, without batch dimensions.
        levels: how many levels below the root are taken apart; None for all.

    Returns:
        For each node its entries, with None as "subtree" where its children are parts, its device, and the numbers of
        these children.
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
        # A subtree that is taken apart is not read as an entry; what stays None here is filled in by join.
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


def join(cls: type[Tree], parts: Parts) -> TensorDict:
    """Undo :func:`parts_of`.

    Args:
        cls: the class of the nodes.
        parts: of a tree.

    Returns:
        The TensorDict of the root.
    """
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
    """Copy a node and all below it.

    Args:
        tree: a node without batch dimensions.
        copy_entry: copies an entry of a node.

    Returns:
        The copy of the node. It has no parent.
    """
    entries, devices, children = parts_of(tree._tensordict)
    done = [{name: None if v is None else copy_entry(v) for name, v in each.items()} for each in entries]
    return rebuilt(type(tree), (done, devices, children), others_of(tree))


def others_of(tree: Tree) -> dict[str, Any]:
    """The fields of a node that are no entries of its TensorDict, without its parents."""
    return {name: value for name, value in tree._non_tensordict.items() if name != "_parent"}


def rebuilt(cls: type[Tree], parts: Parts, others: dict[str, Any]) -> Tree:
    """Make a tree of its parts; see :func:`parts_of`."""
    return cls._from_tensordict(join(cls, parts), dict(others))


def plain(tree: Tree, locked: bool = False) -> bool:
    """Whether a tree can be taken apart: a single node, and unless ``locked`` says otherwise one that is not locked."""
    data = tree._tensordict
    return type(data) is TensorDict and not data.batch_dims and (locked or not data.is_locked)


def cut(tree: Tree) -> tuple[Tree, bool]:
    """Copy the first levels of a tree, without tensors being copied.

    Args:
        tree: a node without batch dimensions.

    Returns:
        The copy, and whether something below was left out. A node whose children are left out has a text in their
        place.
    """
    entries, devices, children = parts_of(tree._tensordict, LEVELS)
    short = False
    for each, below in zip(entries, children, strict=True):
        if below is None and "subtree" in each and _children_left(each["subtree"]):
            each["subtree"] = NonTensorData("...", batch_size=_NO_BATCH)
            short = True
    return rebuilt(type(tree), (entries, devices, children), others_of(tree)), short


def _children_left(stack: Any) -> bool:
    return getattr(stack, "batch_dims", 0) > 0


def size_of(tree: Tree) -> tuple[int, int]:
    """Count nodes and levels of a tree."""
    structure = structure_of(tree)
    return len(structure.rows()), structure.fold(lambda below: max(below, default=-1) + 1)
