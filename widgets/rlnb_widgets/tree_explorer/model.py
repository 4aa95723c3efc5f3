"""From a search or a Tree to the plain values that every face shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlnb.data import Tree
from rlnb.search import MCTS
from rlnb_widgets._core.text import shorten
from rlnb_widgets.tree_explorer import faults, layout
from rlnb_widgets.tree_explorer.read_search import read_search
from rlnb_widgets.tree_explorer.read_tree import read_tree
from rlnb_widgets.tree_explorer.schema import Summary, TreeModel
from rlnb_widgets.tree_explorer.scores import improved_policy

__all__ = [
    "check_index",
    "check_source",
    "finished",
    "follow",
    "named",
    "read",
    "source_batch",
    "tree_model",
    "weights",
]

_MOST_NAME = 24


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


def tree_model(given: MCTS | Tree, index: int = 0, actions: Sequence[Any] | None = None) -> TreeModel:
    """Build the model.

    Args:
        given: a search with roots, or a Tree.
        index: which root of the search.
        actions: names of the actions.

    Returns:
        The tree as it is now.

    Raises:
        TypeError: if it is something else, or ``actions`` is no list.
        ValueError: if there is no root, or ``actions`` has not a name for each action.
        IndexError: if there is no such root.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> model = tree_model(MCTS(TicTacToeEnv(), seed=0).reset().run(simulations=20))
        >>> len(model.nodes), int(model.nodes.visits[0]), model.summary[0].visits
        (21, 21, 4)
    """
    return read(given, index, actions)[0]


def read(
    given: MCTS | Tree, index: int = 0, actions: Sequence[Any] | None = None
) -> tuple[TreeModel, Callable[[int], Tree]]:
    """Build the model, and what makes the Tree of a node; see :func:`tree_model`."""
    check_source(given)
    check_index(given, index)
    if not isinstance(given, MCTS):
        model, node_at = read_tree(given)
        return finished(named(model, actions)), node_at
    model = read_search(given, index)
    # A rule that the explorer does not know is asked itself.
    policy = given.rule.policy(given.nodes)[index] if model.rule is not None and not model.rule.formula else None
    return finished(named(model, actions), policy), lambda node: _viewed(given, index)(node)


def _viewed(search: MCTS, index: int) -> Callable[[int], Tree]:
    """A search as a Tree, whose nodes have the numbers that they have in the search."""
    return read_tree(search.tree(index))[1]


def named(model: TreeModel, actions: Sequence[Any] | None) -> TreeModel:
    """Give the actions names.

    Args:
        model: what was read.
        actions: a name for each action, or None.
    """
    if actions is None:
        return model
    if isinstance(actions, str) or not hasattr(actions, "__len__"):
        raise TypeError(faults.bad_names(actions, model.n_actions))
    fits = len(actions) >= model.n_actions if model.kind == "tree" else len(actions) == model.n_actions
    if not fits:
        raise ValueError(faults.bad_names(actions, model.n_actions))
    names = tuple(shorten(str(name), _MOST_NAME) for name in actions)
    return replace(model, n_actions=len(names), action_names=names)


def weights(model: TreeModel) -> np.ndarray:
    """Return how large each edge is: how often it was taken, or the size of its child in a tree without visits."""
    edges = model.edges
    if model.sized_by == "visits":
        return edges.visits.astype(np.float64)
    return np.where(edges.child >= 0, model.nodes.size[edges.child], 0).astype(np.float64)


def finished(model: TreeModel, policy: np.ndarray | None = None) -> TreeModel:
    """Add what is made of the columns.

    Args:
        model: what was read.
        policy: what the rule makes of the root, ``[A]``, where it must be asked for it.

    Returns:
        The model, whole.
    """
    edges, weight = model.edges, weights(model)
    way = layout.principal(edges.first, edges.child, weight)
    summary, best = _summary(model, weight, policy)
    notes = list(model.notes)
    if model.kind == "search" and model.nodes.terminal[0]:
        notes.append("The episode has ended at the root, so there is nothing to search.")
    return replace(
        model,
        principal=way,
        open=layout.open_nodes(way, edges.first, edges.child, weight),
        summary=summary,
        best=best,
        notes=tuple(notes),
    )


def _summary(model: TreeModel, weight: np.ndarray, policy: np.ndarray | None) -> tuple[tuple[Summary, ...], int]:
    """The rows of the root's actions, and the best of them."""
    edges, at = model.edges, model.edges.of(0)
    total = weight[: at.stop].sum()
    improved = None
    if model.rule is not None:
        improved = policy[edges.action[: at.stop]] if policy is not None else improved_policy(model.rule, model)
    rows: dict[int, Summary] = {}
    for edge in at:
        action, visits = int(edges.action[edge]), int(edges.visits[edge])
        mean = float(edges.value_sum[edge]) / visits if visits else None
        prior = float(edges.prior[edge]) if model.priors else None
        better = None if improved is None else float(improved[edge])
        share = float(weight[edge] / total) if total else 0.0
        rows.setdefault(action, Summary(action, True, visits, share, prior, better, mean))
    if model.kind == "search":
        for action in range(model.n_actions):
            rows.setdefault(action, Summary(action, False, 0, 0.0, 0.0, 0.0, None))
    summary = tuple(rows[action] for action in sorted(rows))
    return summary, _best(model, weight, improved)


def _best(model: TreeModel, weight: np.ndarray, improved: np.ndarray | None) -> int:
    """The action to play: the one visited most, of several that with the best value; by Gumbel's own order with it."""
    edges, at = model.edges, model.edges.of(0)
    if not len(at):
        return -1
    visits, mean = weight[: at.stop], edges.value_sum[: at.stop] / np.maximum(edges.visits[: at.stop], 1)
    value = np.where(edges.visits[: at.stop] > 0, mean, edges.prior[: at.stop] + model.values.low - 1)
    if model.rule is not None and model.rule.draws and improved is not None:
        actions = edges.action[: at.stop]
        visits = visits - np.asarray(model.rule.before)[actions]
        with np.errstate(divide="ignore"):
            value = np.asarray(model.rule.draws)[actions] + np.log(improved)
    return int(edges.action[: at.stop][np.where(visits == visits.max(), value, -np.inf).argmax()])


def follow(model: TreeModel, path: Sequence[Any]) -> int:
    """Find the node that some actions lead to.

    Args:
        model: what is shown.
        path: the actions, from the root on.

    Returns:
        The node.

    Raises:
        IndexError: if they leave the tree.
    """
    node, edges = 0, model.edges
    for step, action in enumerate(path):
        taken: dict[int, int] = {}
        for edge in edges.of(node):
            if edges.child[edge] >= 0:
                taken.setdefault(int(edges.action[edge]), int(edges.child[edge]))
        if action not in taken:
            raise IndexError(faults.no_path(list(path), step, action, list(taken), bool(model.nodes.terminal[node])))
        node = taken[action]
    return node
