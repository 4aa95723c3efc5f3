"""Validation of the arguments of the tree explorer."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlnb.data.map.tree.node import Tree
from rlnb.search.mcts import MCTS
from rlnb_widgets.tree_explorer.compare import UNNAMED
from rlnb_widgets.tree_explorer.schema import TreeModel

#: For classes that are often given by mistake, how to get a tree from them.
_FIXES = {
    "MCTSForest": "a forest holds many trees; take one, forest.get_tree(root)",
    "SearchTree": "give the search itself, TreeExplorer(search)",
    "TreeArrays": "TreeExplorer(Tree.from_arrays(arrays))",
    "TensorDict": "a rollout is grown into a tree by a forest: forest.extend(rollout), then forest.get_tree(root)",
}


def check_source(given: Any, name: str = "tree") -> None:
    """Check that an argument is a search with a root, or a Tree with a single root.

    Raises:
        TypeError: If it is neither a search nor a Tree.
        ValueError: If a search has no root, or a Tree is a stack of nodes.
    """
    if isinstance(given, MCTS):
        try:
            _ = given.nodes
        except RuntimeError:
            raise ValueError(
                f"{name} is a search without a root, so there is no tree to show. Fix: search.reset(), or "
                "search.reset(td) with what env.reset() or env.step() returned, then TreeExplorer(search)."
            ) from None
    elif not isinstance(given, Tree):
        got = f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}"
        usual = "search = MCTS(env).reset().run(simulations=100), then TreeExplorer(search)"
        fix = _FIXES.get(type(given).__name__, usual)
        raise TypeError(f"{name} must be a search (MCTS) or a Tree, got {got}. Fix: {fix}.")
    elif given.batch_dims:
        raise ValueError(
            f"The Tree is a stack of nodes of batch size {list(given.batch_size)}; give one node, the root of the tree "
            "to show. Fix: TreeExplorer(tree[0]), or the parent of these nodes."
        )


def check_names(names: Any, other: Any) -> tuple[str, str]:
    """Return the names of the two trees that are compared.

    Raises:
        ValueError: If they are not two different texts, or there is no second tree.
    """
    if names is None:
        return UNNAMED
    if other is None:
        raise ValueError(
            "names are those of two trees that are compared, and there is only one. Fix: give the second tree, "
            "TreeExplorer(search, other=search2, names=names)."
        )
    found = tuple(names) if isinstance(names, list | tuple) else ()
    if len(found) != 2 or not all(isinstance(name, str) and name for name in found) or found[0] == found[1]:
        raise ValueError(
            "names must be two different texts, the names of the tree and of the other one, got "
            f'{names!r}. Fix: names=("trained", "untrained").'
        )
    return found


def source_batch(given: Any) -> int:
    """Return the number of roots of a search or a Tree."""
    return given.nodes.batch if isinstance(given, MCTS) else 1


def check_index(given: Any, index: Any) -> None:
    """Check the index of a root of a search or a Tree.

    Raises:
        TypeError: If it is not an integer.
        IndexError: If there is no such root.
    """
    if type(index) is not int:
        raise TypeError(f"index, the root of the search to show, must be an integer, got {index!r}.")
    if not isinstance(given, MCTS) and index:
        raise IndexError(f"index={index} chooses among the roots of a search, and a Tree has one. Fix: leave it out.")
    batch = source_batch(given)
    if not 0 <= index < batch:
        roots = "1 root, number 0" if batch == 1 else f"{batch} roots, numbers 0 to {batch - 1}"
        raise IndexError(
            f"There is no root with index={index}: the search has {roots}. Fix: TreeExplorer(search, index=0)."
        )


def whole(value: Any, error: str, least: int | None = None) -> int:
    """Convert an integer of any type to an int. Raises ``ValueError(error)`` for others, or below ``least``."""
    number = _integer(value)
    if number is None or (least is not None and number < least):
        raise ValueError(error)
    return number


def _integer(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def node_of(model: TreeModel, where: Any) -> int:
    """Return the node with a number, or at the end of a path of actions, given by number or by name.

    Raises:
        IndexError: If there is no such node, or the path leaves the tree.
    """
    if getattr(where, "ndim", 0) == 1:
        where = np.asarray(where).tolist()
    if isinstance(where, (list, tuple)):
        return _follow(model, where)
    node = _integer(where)
    if node is None or not 0 <= node < len(model.nodes):
        raise IndexError(f"There is no node {where!r}: the tree has nodes 0 to {len(model.nodes) - 1}.")
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
            before = list(path[:step])
            at = f"The path {list(path)} leaves the tree at {f'the node after {before}' if step else 'the root'}: "
            if model.nodes.terminal[node] or not taken:
                why = "the episode ends there" if model.nodes.terminal[node] else "the tree goes no further there"
                raise IndexError(f"{at}{why}. Fix: end it there, select({before}).")
            raise IndexError(
                f"{at}action {given!r} was not taken there. Taken were {list(taken)}. "
                "Fix: choose one of them, or run more simulations."
            )
        node = taken[action]
    return node
