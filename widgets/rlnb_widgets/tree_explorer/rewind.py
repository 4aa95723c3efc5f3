"""The tree as it was before some of its recorded simulations, by undoing their changes in the columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlnb_widgets.tree_explorer import layout
from rlnb_widgets.tree_explorer.model import finished
from rlnb_widgets.tree_explorer.schema import CHANGED, Nodes, Records, TreeModel


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
