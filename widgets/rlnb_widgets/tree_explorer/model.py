"""Conversion of a search or a Tree to the model that all views show, and the model after some simulations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rlnb.data.map.tree.node import Tree
from rlnb.search.mcts import MCTS
from rlnb_widgets._core.text import shorten
from rlnb_widgets.tree_explorer import layout
from rlnb_widgets.tree_explorer.arguments import check_index, check_source
from rlnb_widgets.tree_explorer.read_search import read_search
from rlnb_widgets.tree_explorer.read_tree import read_tree
from rlnb_widgets.tree_explorer.schema import CHANGED, Nodes, Records, Summary, TreeModel
from rlnb_widgets.tree_explorer.scores import improved_policy

_MOST_NAME = 24


def tree_model(given: MCTS | Tree, index: int = 0, actions: Sequence[Any] | None = None) -> TreeModel:
    """Build the model of a root of a search, or of a Tree, as it is now.

    Raises:
        TypeError: If ``given`` is neither a search nor a Tree, or ``actions`` is not a list.
        ValueError: If there is no root, or ``actions`` does not have one name per action.
        IndexError: If there is no such root.

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
    """Build the model, and a function that returns the Tree of a node; see :func:`tree_model`."""
    check_source(given)
    check_index(given, index)
    if not isinstance(given, MCTS):
        model, node_at = read_tree(given)
        return finished(with_action_names(model, actions)), node_at
    model = read_search(given, index)
    # An unknown rule computes its policy itself.
    policy = given.rule.policy(given.nodes)[index] if model.rule is not None and not model.rule.formula else None
    # Nodes keep their numbers of the search. The Tree is made on demand, since it is slow to make.
    viewed = cache(lambda: read_tree(given.tree(index))[1])
    return finished(with_action_names(model, actions), policy), lambda node: viewed()(node)


def with_action_names(model: TreeModel, actions: Sequence[Any] | None) -> TreeModel:
    """Set the names of the actions; None keeps their numbers.

    Raises:
        TypeError: If ``actions`` is not a list.
        ValueError: If it does not have one name per action.
    """
    if actions is None:
        return model
    if isinstance(actions, str) or not hasattr(actions, "__len__"):
        raise TypeError(f"actions must be a list of names, one for each action, got a {type(actions).__name__}.")
    fits = len(actions) >= model.n_actions if model.kind == "tree" else len(actions) == model.n_actions
    if not fits:
        raise ValueError(
            f"actions has {len(actions)} names, and there are {model.n_actions} actions. "
            "Fix: give a name for each, in their order."
        )
    names = tuple(shorten(str(name), _MOST_NAME) for name in actions)
    return replace(model, n_actions=len(names), action_names=names)


def weights(model: TreeModel) -> np.ndarray:
    """Return the weight of each edge: its visits, or the size of its child in a tree without visits."""
    edges = model.edges
    if model.sized_by == "visits":
        return edges.visits.astype(np.float64)
    return np.where(edges.child >= 0, model.nodes.size[edges.child], 0).astype(np.float64)


def finished(model: TreeModel, policy: np.ndarray | None = None) -> TreeModel:
    """Add the fields that are computed from the columns: principal variation, open nodes and summary.

    ``policy`` is that of the root, ``[A]``, from a rule that the explorer does not know.
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
    """Return the summary of the root's actions, and the best action."""
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
    """Return the action to play: the most visited one, among equals the best by value, or by Gumbel's own score."""
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


def rewound(model: TreeModel, t: int) -> TreeModel:
    """Return the tree as it was after the first ``t`` recorded simulations; ``model`` itself if nothing is undone.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> from rlnb_widgets.tree_explorer.model import tree_model
        >>> model = tree_model(MCTS(TicTacToeEnv(), seed=0).reset().run(simulations=9, record=True))
        >>> [len(rewound(model, t).nodes) for t in (9, 5, 0)]
        [10, 6, 1]
    """
    records = model.records
    if records is None or t >= len(records):
        return model
    first = int(records.change_start[t])
    nodes = {name: getattr(model.nodes, name).copy() for name in ("visits", "value_sum", "evaluation")}
    edges = {name: getattr(model.edges, name).copy() for name in ("child", "visits", "value_sum")}
    if model.edges.extra is not None:
        edges["extra"] = model.edges.extra.copy()
    for place, (column, of_edge) in enumerate(CHANGED.values()):
        # In reverse order, so that of several changes of one number the oldest is undone last.
        at = (first + np.flatnonzero(records.name[first:] == place))[::-1]
        if len(at):
            where = records.change_edge[at] if of_edge else records.node[at]
            (edges if of_edge else nodes)[column][where] = records.before[at]
    return finished(_cut(model, records, t, nodes, edges))


def _cut(
    model: TreeModel, records: Records, t: int, nodes: dict[str, np.ndarray], edges: dict[str, np.ndarray]
) -> TreeModel:
    """Remove the nodes that were added later, which are the last ones, and lay out the rest."""
    n = len(model.nodes) - int(records.added[t:].sum())
    e = int(model.edges.first[n])
    old: dict[str, np.ndarray] = {**vars(model.nodes), **nodes, "size": nodes["visits"]}
    now = {name: array[:n] for name, array in old.items()}
    node, first = model.edges.node[:e], model.edges.first[: n + 1]
    now["start"], now["end"] = layout.spans(now["parent"], now["depth"], now["size"], node, edges["child"][:e])
    rule = model.rule
    if rule is not None and rule.plan:
        turn = int(edges["visits"][: first[1]].sum()) - sum(rule.before)
        rule = replace(rule, plan=rule.plan[: turn + 1])
    kept = {name: array[:e] for name, array in edges.items()}
    left = replace(
        model.edges,
        first=first,
        node=node,
        action=model.edges.action[:e],
        prior=model.edges.prior[:e],
        scores=None,
        **kept,
    )
    return replace(model, nodes=Nodes(**now), edges=left, rule=rule, notes=())
