"""What the user gives, checked before anything is done with it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlnb.data import Tree
from rlnb.search import MCTS
from rlnb_widgets.tree_explorer import faults
from rlnb_widgets.tree_explorer.schema import TreeModel

__all__ = ["check_index", "check_source", "node_of", "source_batch", "whole"]


def check_source(given: Any, name: str = "tree") -> None:
    """Refuse what is neither a search with a root nor a Tree of one root.

    Args:
        given: what the user gave.
        name: of the argument.

    Raises:
        TypeError: if it is something else.
        ValueError: if there is no root, or a stack of them.
    """
    if isinstance(given, MCTS):
        try:
            _ = given.nodes
        except RuntimeError:
            raise ValueError(faults.no_roots(name)) from None
    elif not isinstance(given, Tree):
        raise TypeError(faults.not_a_tree(given, name))
    elif given.batch_dims:
        raise ValueError(faults.stacked(given.batch_size))


def source_batch(given: Any) -> int:
    """Return how many roots a search or a Tree has."""
    return given.nodes.batch if isinstance(given, MCTS) else 1


def check_index(given: Any, index: Any) -> None:
    """Refuse an index that names no root.

    Args:
        given: a search or a Tree.
        index: what the user gave.

    Raises:
        TypeError: if it is no integer.
        IndexError: if there is no such root.
    """
    if type(index) is not int:
        raise TypeError(faults.bad_index(index, 0))
    if not isinstance(given, MCTS) and index:
        raise IndexError(faults.index_of_tree(index))
    if not 0 <= index < source_batch(given):
        raise IndexError(faults.bad_index(index, source_batch(given)))


def whole(value: Any, fault: Callable[[Any], str], least: int | None = None) -> int:
    """Return an integer of any kind as an int.

    Args:
        value: what the user gave.
        fault: what is said of it where it is none.
        least: the least that it may be.

    Raises:
        ValueError: if it is none.
    """
    number = _integer(value)
    if number is None or (least is not None and number < least):
        raise ValueError(fault(value))
    return number


def _integer(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def node_of(model: TreeModel, where: Any) -> int:
    """Find a node.

    Args:
        model: what is shown.
        where: its number, or the actions that lead there from the root, by number or by name.

    Raises:
        IndexError: if there is no such node, or the actions leave the tree.
    """
    if getattr(where, "ndim", 0) == 1:
        where = np.asarray(where).tolist()
    if isinstance(where, (list, tuple)):
        return _follow(model, where)
    node = _integer(where)
    if node is None or not 0 <= node < len(model.nodes):
        raise IndexError(faults.bad_node(where, len(model.nodes)))
    return node


def _follow(model: TreeModel, path: Sequence[Any]) -> int:
    node, edges, names = 0, model.edges, list(model.action_names or ())
    for step, given in enumerate(path):
        action = names.index(given) if given in names else given
        taken: dict[int, int] = {}
        for edge in edges.of(node):
            if edges.child[edge] >= 0:
                taken.setdefault(int(edges.action[edge]), int(edges.child[edge]))
        if action not in taken:
            raise IndexError(faults.no_path(list(path), step, given, list(taken), bool(model.nodes.terminal[node])))
        node = taken[action]
    return node
