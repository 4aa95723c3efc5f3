"""Conversion of one tree of a search to columns, straight from the arrays of the search."""

from __future__ import annotations

from itertools import chain

import numpy as np

from rlnb.search.history import change_columns
from rlnb.search.mcts import MCTS
from rlnb_widgets.tree_explorer import layout
from rlnb_widgets.tree_explorer.schema import CHANGED, Edges, Nodes, Records, TreeModel, Values
from rlnb_widgets.tree_explorer.scores import known_rule, rule_facts

#: With more actions than this, those that were never taken are left out.
MOST_EDGES = 400_000
#: The most recorded simulations that are shown, and the most changes in them.
MOST_RECORDS, MOST_CHANGES = 2_000, 200_000

_EXTRA = ("edge_square_sum", "log_weight")


def read_search(search: MCTS, index: int) -> TreeModel:
    """Read one tree of a search; the model has columns only."""
    tree = search.nodes
    n = int(tree.count[index])
    columns = {name: array[index, :n] for name, array in tree.arrays.items() if name != "states"}
    # No action can be taken in a terminal node, whatever its mask says.
    legal = columns["legal"] & ~columns["terminal"][:, None]
    shown, notes = legal, []
    if int(legal.sum()) > MOST_EDGES:
        shown = columns["children"] >= 0
        notes.append(
            f"{int(legal.sum()):,} actions are too many to be shown; those that were never taken are left out."
        )
    if search.solver is not None and (columns["lower"] == columns["upper"]).any():
        notes.append(_proofs(columns["lower"], columns["upper"]))
    edges = _edges(search, index, columns, shown)
    records = _records(search, index, np.cumsum(shown.reshape(-1)) - 1, notes)
    return TreeModel(
        kind="search",
        name=type(search).__name__,
        n_actions=tree.n_actions,
        nodes=_nodes(columns, edges, legal),
        edges=edges,
        values=_values(search),
        sized_by="visits",
        rule=rule_facts(search.rule, index, columns["edge_visits"][0], int(legal[0].sum())),
        records=records,
        reused=int(search.reused[index]),
        notes=tuple(notes),
        index=index,
    )


def _edges(search: MCTS, index: int, columns: dict[str, np.ndarray], shown: np.ndarray) -> Edges:
    """Return the actions that are shown, bool ``[n, A]``, as edges."""
    tree = search.nodes
    node, action = np.nonzero(shown)
    rows = index * tree.capacity + np.arange(len(shown))
    return Edges(
        first=np.concatenate(([0], np.cumsum(shown.sum(1)))),
        node=node,
        action=action,
        child=columns["children"][shown],
        visits=columns["edge_visits"][shown],
        value_sum=columns["edge_value_sum"][shown],
        prior=columns["prior"][shown],
        extra=next((columns[name][shown] for name in _EXTRA if name in columns), None),
        scores=None if known_rule(search.rule) else search.rule.scores(tree, rows)[shown],
    )


def _nodes(columns: dict[str, np.ndarray], edges: Edges, legal: np.ndarray) -> Nodes:
    parent, visits = columns["parent"], columns["visits"]
    depth = layout.depths(parent)
    start, end = layout.spans(parent, depth, visits, edges.node, edges.child)
    copied = ("parent", "action", "to_play", "terminal", "visits", "value_sum", "evaluation", "reward")
    return Nodes(
        **{name: columns[name].copy() for name in copied},
        edge=layout.tree_edges(parent, edges.node, edges.child),
        depth=depth,
        shared=np.zeros(len(parent), dtype=bool),
        steps=(parent >= 0).astype(np.int64),
        legal=legal.sum(1),
        size=visits.copy(),
        start=start,
        end=end,
    )


def _values(search: MCTS) -> Values:
    low, high = search.value_range
    players = search.game.n_players == 2
    whom = " for the player who is to move at the root" if players else ""
    middle = 0.0 if players else (low + high) / 2
    return Values(float(low), float(high), middle, f"mean return of the action{whom}", players)


def _records(search: MCTS, index: int, edge_of: np.ndarray, notes: list[str]) -> Records:
    """Return the last recorded simulations; ``edge_of`` is the edge of each node and action, ``[n * A]``."""
    history, n_actions = search.history, search.nodes.n_actions
    past = [record for record in history.records[: history.position] if index in record.trees]
    records = past[-MOST_RECORDS:]
    found = change_columns(records, index, list(CHANGED))
    if len(found.record) > MOST_CHANGES:
        first = int(found.record[len(found.record) - MOST_CHANGES]) + 1
        keep = found.record >= first
        records = records[first:]
        found = type(found)(found.record[keep] - first, *(column[keep] for column in found[1:]))
    if len(records) < len(past):
        notes.append(f"The last {len(records):,} of {len(past):,} recorded simulations can be looked at one by one.")
    at = [record.trees.index(index) for record in records]
    paths = [record.paths[i] for record, i in zip(records, at, strict=True)]
    steps = np.array(list(chain.from_iterable(paths)), dtype=np.int64).reshape(-1, 2)
    of_edge = np.where(found.action >= 0, edge_of[found.node * n_actions + np.maximum(found.action, 0)], -1)
    return Records(
        first=records[0].number if records else search.simulations,
        of=len(past),
        path_start=np.cumsum([0, *map(len, paths)]),
        edge=edge_of[steps[:, 0] * n_actions + steps[:, 1]],
        leaf=np.array([record.leaves[i] for record, i in zip(records, at, strict=True)], dtype=np.int64),
        added=np.array([record.added[i] for record, i in zip(records, at, strict=True)], dtype=bool),
        value=np.array([record.values[i] for record, i in zip(records, at, strict=True)], dtype=np.float64),
        change_start=np.concatenate(([0], np.cumsum(np.bincount(found.record, minlength=len(records))))),
        phase=found.phase,
        name=found.name,
        node=found.node,
        change_edge=of_edge,
        before=found.before,
        after=found.after,
    )


def _proofs(lower: np.ndarray, upper: np.ndarray) -> str:
    """Describe what the solver has proven."""
    proven = int((lower == upper).sum())
    found = f"The solver has proven {proven:,} of {len(lower):,} nodes"
    if lower[0] == upper[0]:
        found += f", and the root: {lower[0]:g} with best play"
    return f"{found}. What is proven to be no better than another action is not selected, whatever its score."
