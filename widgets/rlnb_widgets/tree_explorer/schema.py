"""The plain values that every face of the explorer shows: nodes, actions and simulations as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

__all__ = ["CHANGED", "Edges", "Kind", "Nodes", "Parting", "Records", "RuleFacts", "Summary", "TreeModel", "Values"]

Kind = Literal["search", "tree"]

#: What a simulation changes, by its name in a ``SearchTree``: the column that it is in, and whether that is of edges.
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
        parent: -1 at the root; of a node that several lead to, the first one, ``[n]``.
        action: that led there from the parent; -1 at the root, ``[n]``.
        edge: by which the node is drawn, the first one from its parent; -1 at the root, ``[n]``.
        depth: steps from the root, ``[n]``.
        to_play: who is to move, ``[n]``.
        terminal: whether the episode ends there, ``[n]``.
        shared: whether several nodes or actions lead there, ``[n]``.
        steps: how many steps of the env led there from the parent, ``[n]``; 0 at the root.
        legal: how many actions are legal, ``[n]``.
        visits: how often simulations came there, ``[n]``.
        value_sum: sum of the returns, ``[n]``.
        evaluation: what the node was said to be worth when it was added, ``[n]``.
        reward: of the step that led there, ``[n]``.
        size: what the area of a node stands for, ``[n]``; see :attr:`TreeModel.sized_by`.
        start: where a node begins in the icicle, ``[n]`` in [0, 1]; the root is all of it.
        end: where it ends, ``[n]``.
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
    """The legal actions of all nodes, ``e`` of them, those of a node one after another in the order of the actions.

    Args:
        first: the first edge of each node, ``[n + 1]``.
        node: where it begins, ``[e]``.
        action: which, ``[e]``.
        child: where it leads; -1 if it was never taken, ``[e]``.
        visits: how often it was taken, ``[e]``.
        value_sum: sum of the returns after it, for the player who takes it, ``[e]``.
        prior: probability that the policy gives it, ``[e]``.
        extra: what the rule keeps besides, ``[e]``: the sum of squared returns of UCB1-Tuned, the logarithm of the
            weight of EXP3; None if it keeps nothing.
        scores: what a rule scores that the explorer does not know the formula of, ``[e]``.
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
    """The rule of a search, and all numbers that its score needs besides those of nodes and edges.

    Args:
        name: its class.
        text: the rule as it prints itself.
        formula: the score, with names; empty if it is not known.
        c_name: what its constant of exploration is called; empty if it has none that is known.
        c: the constant.
        c_high: where the slider of it ends.
        params: the others, by name.
        draws: of Gumbel, a number for each action of the root.
        before: of Gumbel, the visits of the root's actions when the search began.
        plan: of Gumbel, how often the actions were tried before that a simulation compares, by simulation.
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
    """What values are, and between what they lie.

    Args:
        low: the least.
        high: the greatest.
        middle: where the colours change from one to the other.
        what: the value that a node is drawn with, in words.
        players: whether values are those of the player who is to move, so that they change their sign.
    """

    low: float
    high: float
    middle: float
    what: str
    players: bool


@dataclass(frozen=True, eq=False)
class Records:
    """The recorded simulations that led to the tree as it is, the last ``r`` of them.

    Args:
        first: the number of the first one.
        of: how many were recorded.
        path_start: where the path of each begins among the steps, ``[r + 1]``.
        edge: the edges of the paths, one after another.
        leaf: where each path ends, ``[r]``.
        added: whether that node was new, ``[r]``.
        value: what it was said to be worth, ``[r]``.
        change_start: where the changes of each begin, ``[r + 1]``.
        phase: of each change: 0 expand, 1 back up.
        name: of each change, as a place in :data:`CHANGED`.
        node: of each change.
        change_edge: of each change; -1 for a number of the node.
        before: the number until then.
        after: the number since then.
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
        action: which.
        legal: whether it is.
        visits: how often it was taken.
        share: of all visits.
        prior: probability that the policy gives it; None in a tree without one.
        improved: what the search makes of it; None likewise.
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
class Parting:
    """The first place where the best ways down two trees part.

    Args:
        path: actions that lead there.
        node: the place in this tree.
        other: the same in the other one.
        action: what is best here; -1 if this tree goes no further.
        other_action: what is best in the other.
    """

    path: tuple[int, ...]
    node: int
    other: int
    action: int
    other_action: int


@dataclass(frozen=True, eq=False)
class TreeModel:
    """What is shown.

    Args:
        kind: ``"search"`` or ``"tree"``.
        name: the class of what was given.
        n_actions: how many actions there are.
        nodes: the nodes.
        edges: their actions.
        values: what values are.
        sized_by: what areas stand for: ``"visits"``, or ``"nodes"`` below one where nothing was visited.
        rule: of a search.
        records: of a search.
        redo: how many simulations were taken back that can be done again.
        reused: nodes that were kept when the root advanced; they are the first ones.
        priors: whether there are priors.
        notes: what the reader should know.
        index: which of several roots.
        action_names: their names; None for their numbers.
        advanced: the action by which the root advanced, and how many nodes there were before; None if it did not
            before the explorer's eyes.
        principal: from the root on by the action visited most.
        open: the nodes that are drawn at first, parents before children.
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
        """Return the mean return of the action that leads to a node, as the player sees it who is to move at the root.

        That is the value which a node is drawn with: where an episode ends there is nothing to come, and the reward
        belongs to the action. Of the root it is the mean of all. NaN without a visit.
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
