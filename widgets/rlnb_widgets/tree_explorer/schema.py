"""Data model of the tree explorer: nodes, edges and recorded simulations as columns, shown by all views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

__all__ = [
    "CHANGED",
    "Edges",
    "Kind",
    "Nodes",
    "Records",
    "RuleFacts",
    "Summary",
    "TreeDivergence",
    "TreeModel",
    "Values",
]

Kind = Literal["search", "tree"]

#: The arrays of a ``SearchTree`` that simulations change: the column of each, and whether it is a column of edges.
CHANGED: dict[str, tuple[str, bool]] = {
    "visits": ("visits", False),
    "value_sum": ("value_sum", False),
    "evaluation": ("evaluation", False),
    "children": ("child", True),
    "edge_visits": ("visits", True),
    "edge_value_sum": ("value_sum", True),
    "edge_square_sum": ("extra", True),
    "log_weight": ("extra", True),
}


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes, ``n`` of them; a parent comes before its children, and the root is node 0.

    Args:
        parent: parent, ``[n]``; -1 for the root, the first one for a node with several parents.
        action: action that led from the parent to the node, ``[n]``; -1 for the root.
        edge: edge by which the node is drawn, the first one from its parent, ``[n]``; -1 for the root.
        depth: depth, 0 for the root, ``[n]``.
        to_play: player to move, ``[n]``.
        terminal: whether the episode ends there, ``[n]``.
        shared: whether several edges lead there, ``[n]``.
        steps: number of steps of the env from the parent, ``[n]``; 0 for the root.
        legal: number of legal actions, ``[n]``.
        visits: number of simulations that reached the node, ``[n]``.
        value_sum: sum of the returns, ``[n]``.
        evaluation: estimated value when the node was added, ``[n]``.
        reward: reward of the step to the node, ``[n]``.
        size: quantity that the area of a node shows, ``[n]``; see :attr:`TreeModel.sized_by`.
        start: start in the icicle, in [0, 1], ``[n]``; the root covers all of it.
        end: end in the icicle, ``[n]``.
    """

    parent: np.ndarray
    action: np.ndarray
    edge: np.ndarray
    depth: np.ndarray
    to_play: np.ndarray
    terminal: np.ndarray
    shared: np.ndarray
    steps: np.ndarray
    legal: np.ndarray
    visits: np.ndarray
    value_sum: np.ndarray
    evaluation: np.ndarray
    reward: np.ndarray
    size: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def __len__(self) -> int:
        return len(self.parent)

    def mean(self, node: int) -> float:
        """Return the mean of the returns of a node; 0 without a visit."""
        return float(self.value_sum[node]) / max(float(self.visits[node]), 1.0)


@dataclass(frozen=True, eq=False)
class Edges:
    """The legal actions of all nodes, ``e`` of them, sorted by node and action.

    Args:
        first: first edge of each node, ``[n + 1]``.
        node: node where the edge starts, ``[e]``.
        action: the action, ``[e]``.
        child: node that the edge leads to, ``[e]``; -1 if the action was never taken.
        visits: visits, ``[e]``.
        value_sum: sum of the returns for the player who takes the action, ``[e]``.
        prior: probability under the policy, ``[e]``.
        extra: additional array of the rule, ``[e]``: the sum of squared returns for UCB1-Tuned, the logarithm of the
            weight for EXP3; None for other rules.
        scores: scores of a rule whose formula the explorer does not know, ``[e]``; None for other rules.
    """

    first: np.ndarray
    node: np.ndarray
    action: np.ndarray
    child: np.ndarray
    visits: np.ndarray
    value_sum: np.ndarray
    prior: np.ndarray
    extra: np.ndarray | None = None
    scores: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.action)

    def of(self, node: int) -> range:
        """Return the edges of a node."""
        return range(int(self.first[node]), int(self.first[node + 1]))


@dataclass(frozen=True)
class RuleFacts:
    """The rule of a search, and the numbers that its score needs besides those of nodes and edges.

    Args:
        name: name of its class.
        text: its ``repr``.
        formula: formula of the score with names; empty if it is not known.
        c_name: name of its exploration constant; empty if it is not known.
        c: the exploration constant.
        c_high: upper end of the slider.
        params: its other parameters, by name.
        draws: for Gumbel, the draw of each action of the root.
        before: for Gumbel, the visits of the root's actions when the search began.
        plan: for Gumbel, by simulation, the number of earlier visits of the actions that are compared.
    """

    name: str
    text: str
    formula: str = ""
    c_name: str = ""
    c: float = 0.0
    c_high: float = 0.0
    params: dict[str, Any] = field(default_factory=dict)
    draws: tuple[float, ...] = ()
    before: tuple[int, ...] = ()
    plan: tuple[int, ...] = ()


@dataclass(frozen=True)
class Values:
    """The meaning and the range of values.

    Args:
        low: the least value.
        high: the greatest value.
        middle: the value at which the colour scale is neutral.
        what: description of the value that colours show.
        players: whether values are those of the player to move, so that their sign changes from move to move.
    """

    low: float
    high: float
    middle: float
    what: str
    players: bool


@dataclass(frozen=True, eq=False)
class Records:
    """The last ``r`` recorded simulations.

    Args:
        first: number of the first one.
        of: number of simulations that were recorded.
        path_start: start of each path in ``edge``, ``[r + 1]``.
        edge: edges of all paths, concatenated.
        leaf: last node of each path, ``[r]``.
        added: whether that node was new, ``[r]``.
        value: its estimated value, ``[r]``.
        change_start: start of the changes of each simulation, ``[r + 1]``.
        phase: phase of each change: 0 expand, 1 back up.
        name: array of each change, as an index into :data:`CHANGED`.
        node: node of each change.
        change_edge: edge of each change; -1 for a number of the node.
        before: number before each change.
        after: number after each change.
    """

    first: int
    of: int
    path_start: np.ndarray
    edge: np.ndarray
    leaf: np.ndarray
    added: np.ndarray
    value: np.ndarray
    change_start: np.ndarray
    phase: np.ndarray
    name: np.ndarray
    node: np.ndarray
    change_edge: np.ndarray
    before: np.ndarray
    after: np.ndarray

    def __len__(self) -> int:
        return len(self.leaf)


@dataclass(frozen=True)
class Summary:
    """An action of the root.

    Args:
        action: index of the action.
        legal: whether it is legal.
        visits: its visits.
        share: share of all visits.
        prior: probability under the policy; None for a tree without priors.
        improved: probability under the improved policy; None for a tree without a rule.
        value: mean return for the player who takes it; None if it was never taken.
    """

    action: int
    legal: bool
    visits: int
    share: float
    prior: float | None
    improved: float | None
    value: float | None


@dataclass(frozen=True)
class TreeDivergence:
    """The node at which the principal variations of two trees diverge.

    Args:
        path: actions that lead there.
        node: the node in this tree.
        other: the node in the other tree.
        action: the best action in this tree; -1 if its variation ends here.
        other_action: the best action in the other tree; -1 if its variation ends here.
    """

    path: tuple[int, ...]
    node: int
    other: int
    action: int
    other_action: int


@dataclass(frozen=True, eq=False)
class TreeModel:
    """The data that the explorer shows.

    Args:
        kind: ``"search"`` or ``"tree"``.
        name: name of the class of the search or tree.
        n_actions: number of actions.
        nodes: the nodes.
        edges: the actions of the nodes.
        values: meaning and range of values.
        sized_by: quantity that areas show: ``"visits"``, or ``"nodes"`` at and below a node in a tree without visits.
        rule: rule of a search.
        records: recorded simulations of a search.
        redo: number of simulations that were undone and can be redone.
        reused: number of nodes that were kept when the root advanced; they come first.
        priors: whether there are priors.
        notes: notes for the reader.
        index: index of the root of a search.
        action_names: names of the actions. None: their numbers.
        advanced: the action by which the root advanced, and the number of nodes before. None: the root did not advance
            by :meth:`TreeExplorer.advance`.
        principal: nodes of the principal variation.
        open: nodes that are drawn at first, parents before children.
        summary: the actions of the root.
        best: the action to play; -1 without one.
    """

    kind: Kind
    name: str
    n_actions: int
    nodes: Nodes
    edges: Edges
    values: Values
    sized_by: Literal["visits", "nodes"]
    rule: RuleFacts | None = None
    records: Records | None = None
    redo: int = 0
    reused: int = 0
    priors: bool = True
    notes: tuple[str, ...] = ()
    index: int = 0
    action_names: tuple[str, ...] | None = None
    advanced: tuple[int, int] | None = None
    principal: tuple[int, ...] = ()
    open: tuple[int, ...] = ()
    summary: tuple[Summary, ...] = ()
    best: int = -1

    def action_text(self, action: int) -> str:
        """Return the name of an action, or its number."""
        return str(action) if self.action_names is None or action < 0 else self.action_names[action]

    def drawn_value(self, node: int) -> float:
        """Return the mean return of the action that leads to a node, for the player to move at the root.

        This value gives a node its colour: a terminal node has no return itself, its reward belongs to the action. For
        the root it is the mean of its own returns. NaN without a visit.
        """
        nodes, edges, edge = self.nodes, self.edges, int(self.nodes.edge[node])
        taker = 0 if edge < 0 else int(nodes.parent[node])
        total, visits = (
            (nodes.value_sum[0], nodes.visits[0]) if edge < 0 else (edges.value_sum[edge], edges.visits[edge])
        )
        if not visits:
            return float("nan")
        sign = -1 if self.values.players and nodes.to_play[taker] != nodes.to_play[0] else 1
        return sign * float(total) / float(visits)

    def path(self, node: int) -> list[int]:
        """List the actions that lead from the root to a node."""
        actions: list[int] = []
        while node > 0:
            actions.append(int(self.nodes.action[node]))
            node = int(self.nodes.parent[node])
        return actions[::-1]
