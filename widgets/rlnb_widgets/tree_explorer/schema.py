"""Data model of the tree explorer: nodes, edges and recorded simulations as columns, shown by all views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

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
    """The nodes, ``n`` of them; a parent comes before its children, and the root is node 0."""

    parent: np.ndarray  #: parent, ``[n]``; -1 for the root, the first one for a node with several parents
    action: np.ndarray  #: action that led from the parent to the node, ``[n]``; -1 for the root
    edge: np.ndarray  #: edge by which the node is drawn, the first one from its parent, ``[n]``; -1 for the root
    depth: np.ndarray  #: depth, 0 for the root, ``[n]``
    to_play: np.ndarray  #: player to move, ``[n]``
    terminal: np.ndarray  #: whether the episode ends there, ``[n]``
    shared: np.ndarray  #: whether several edges lead there, ``[n]``
    steps: np.ndarray  #: number of steps of the env from the parent, ``[n]``; 0 for the root
    legal: np.ndarray  #: number of legal actions, ``[n]``
    visits: np.ndarray  #: number of simulations that reached the node, ``[n]``
    value_sum: np.ndarray  #: sum of the returns, ``[n]``
    evaluation: np.ndarray  #: estimated value when the node was added, ``[n]``
    reward: np.ndarray  #: reward of the step to the node, ``[n]``
    size: np.ndarray  #: quantity that the area of a node shows, ``[n]``; see :attr:`TreeModel.sized_by`
    start: np.ndarray  #: start in the icicle, in [0, 1], ``[n]``; the root covers all of it
    end: np.ndarray  #: end in the icicle, ``[n]``

    def __len__(self) -> int:
        return len(self.parent)

    def mean(self, node: int) -> float:
        """Return the mean of the returns of a node; 0 without a visit."""
        return float(self.value_sum[node]) / max(float(self.visits[node]), 1.0)


@dataclass(frozen=True, eq=False)
class Edges:
    """The legal actions of all nodes, ``e`` of them, sorted by node and action."""

    first: np.ndarray  #: first edge of each node, ``[n + 1]``
    node: np.ndarray  #: node where the edge starts, ``[e]``
    action: np.ndarray  #: the action, ``[e]``
    child: np.ndarray  #: node that the edge leads to, ``[e]``; -1 if the action was never taken
    visits: np.ndarray  #: visits, ``[e]``
    value_sum: np.ndarray  #: sum of the returns for the player who takes the action, ``[e]``
    prior: np.ndarray  #: probability under the policy, ``[e]``
    #: additional array of the rule, ``[e]``: the sum of squared returns for UCB1-Tuned, the logarithm of the weight for
    #: EXP3; None for other rules
    extra: np.ndarray | None = None
    #: scores of a rule whose formula the explorer does not know, ``[e]``; None for other rules
    scores: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.action)

    def of(self, node: int) -> range:
        """Return the edges of a node."""
        return range(int(self.first[node]), int(self.first[node + 1]))


@dataclass(frozen=True)
class RuleFacts:
    """The rule of a search, and the numbers that its score needs besides those of nodes and edges."""

    name: str  #: name of its class
    text: str  #: its ``repr``
    formula: str = ""  #: formula of the score with names; empty if it is not known
    at_root: str = ""  #: the formula at the root, where it is another one
    variance: str = ""  #: formula of ``V``, where the score has one
    letters: str = ""  #: meaning of the names
    c_name: str = ""  #: name of its exploration constant; empty if it is not known
    c: float = 0.0  #: the exploration constant
    c_high: float = 0.0  #: upper end of the slider
    params: dict[str, Any] = field(default_factory=dict)  #: its other parameters, by name
    draws: tuple[float, ...] = ()  #: for Gumbel, the draw of each action of the root
    before: tuple[int, ...] = ()  #: for Gumbel, the visits of the root's actions when the search began
    #: for Gumbel, by simulation, the number of earlier visits of the actions that are compared
    plan: tuple[int, ...] = ()

    def formula_at(self, node: int) -> str:
        """Return the formula of the score of the actions of a node."""
        return self.at_root if self.at_root and not node else self.formula


@dataclass(frozen=True)
class Values:
    """The meaning and the range of values."""

    low: float  #: the least value
    high: float  #: the greatest value
    middle: float  #: the value at which the colour scale is neutral
    what: str  #: description of the value that colours show
    players: bool  #: whether values are those of the player to move, so that their sign changes from move to move


@dataclass(frozen=True, eq=False)
class Records:
    """The last ``r`` recorded simulations."""

    first: int  #: number of the first one
    of: int  #: number of simulations that were recorded
    path_start: np.ndarray  #: start of each path in ``edge``, ``[r + 1]``
    edge: np.ndarray  #: edges of all paths, concatenated
    leaf: np.ndarray  #: last node of each path, ``[r]``
    added: np.ndarray  #: whether that node was new, ``[r]``
    value: np.ndarray  #: its estimated value, ``[r]``
    change_start: np.ndarray  #: start of the changes of each simulation, ``[r + 1]``
    phase: np.ndarray  #: phase of each change: 0 expand, 1 back up
    name: np.ndarray  #: array of each change, as an index into :data:`CHANGED`
    node: np.ndarray  #: node of each change
    change_edge: np.ndarray  #: edge of each change; -1 for a number of the node
    before: np.ndarray  #: number before each change
    after: np.ndarray  #: number after each change

    def __len__(self) -> int:
        return len(self.leaf)


@dataclass(frozen=True)
class Summary:
    """An action of the root."""

    action: int  #: index of the action
    legal: bool  #: whether it is legal
    visits: int  #: its visits
    share: float  #: share of all visits
    prior: float | None  #: probability under the policy; None for a tree without priors
    improved: float | None  #: probability under the improved policy; None for a tree without a rule
    value: float | None  #: mean return for the player who takes it; None if it was never taken


@dataclass(frozen=True)
class TreeDivergence:
    """The node at which the principal variations of two trees diverge."""

    path: tuple[int, ...]  #: actions that lead there
    node: int  #: the node in this tree
    other: int  #: the node in the other tree
    action: int  #: the best action in this tree; -1 if its variation ends here
    other_action: int  #: the best action in the other tree; -1 if its variation ends here


@dataclass(frozen=True, eq=False)
class TreeModel:
    """The data that the explorer shows."""

    kind: Kind  #: ``"search"`` or ``"tree"``
    name: str  #: name of the class of the search or tree
    n_actions: int  #: number of actions
    nodes: Nodes  #: the nodes
    edges: Edges  #: the actions of the nodes
    values: Values  #: meaning and range of values
    #: quantity that areas show: ``"visits"``, or ``"nodes"`` at and below a node in a tree without visits
    sized_by: Literal["visits", "nodes"]
    rule: RuleFacts | None = None  #: rule of a search
    records: Records | None = None  #: recorded simulations of a search
    reused: int = 0  #: number of nodes that were kept when the root advanced; they come first
    priors: bool = True  #: whether there are priors
    notes: tuple[str, ...] = ()  #: notes for the reader
    index: int = 0  #: index of the root of a search
    action_names: tuple[str, ...] | None = None  #: names of the actions. None: their numbers.
    #: the action by which the root advanced, and the number of nodes before. None: the root did not advance by
    #: :meth:`TreeExplorer.advance`.
    advanced: tuple[int, int] | None = None
    principal: tuple[int, ...] = ()  #: nodes of the principal variation
    open: tuple[int, ...] = ()  #: nodes that are drawn at first, parents before children
    summary: tuple[Summary, ...] = ()  #: the actions of the root
    best: int = -1  #: the action to play; -1 without one

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
