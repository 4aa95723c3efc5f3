"""From a search or a Tree to the plain values that every face shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rlnb.data import Tree
from rlnb.search import MCTS
from rlnb_widgets._core.text import shorten
from rlnb_widgets.tree_explorer import faults, layout
from rlnb_widgets.tree_explorer.arguments import check_index, check_source
from rlnb_widgets.tree_explorer.read_search import read_search
from rlnb_widgets.tree_explorer.read_tree import read_tree
from rlnb_widgets.tree_explorer.schema import Summary, TreeModel
from rlnb_widgets.tree_explorer.scores import improved_policy

__all__ = [
    "finished",
    "named",
    "read",
    "tree_model",
    "weights",
]

_MOST_NAME = 24


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
    # The nodes have the numbers that they have in the search. Few ask for a Tree, and it takes long to make.
    viewed = cache(lambda: read_tree(given.tree(index))[1])
    return finished(named(model, actions), policy), lambda node: viewed()(node)


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
    mean = edges.value_sum / np.maximum(edges.visits, 1) if model.kind == "search" else np.zeros(len(edges))
    way = layout.principal(edges.first, edges.child, weight, mean)
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
