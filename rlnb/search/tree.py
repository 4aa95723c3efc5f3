"""The trees of a search as a struct of arrays that is filled in place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from rlnb.search.games import Array, Positions

#: Arrays with one number per node: dtype, and the value of rows without a node.
NODE_FIELDS: dict[str, tuple[Any, Any]] = {
    "parent": (np.int32, -1),
    "action": (np.int32, -1),
    "to_play": (np.int8, 0),
    "terminal": (np.bool_, False),
    "reward": (np.float64, 0.0),
    "evaluation": (np.float64, 0.0),
    "visits": (np.int64, 0),
    "value_sum": (np.float64, 0.0),
}
#: Arrays with one number per action of a node.
EDGE_FIELDS: dict[str, tuple[Any, Any]] = {
    "children": (np.int32, -1),
    "legal": (np.bool_, False),
    "prior": (np.float64, 0.0),
    "edge_visits": (np.int64, 0),
    "edge_value_sum": (np.float64, 0.0),
}
#: Additional arrays of some rules, with one number per action.
RULE_FIELDS: dict[str, tuple[Any, Any]] = {"edge_square_sum": (np.float64, 0.0), "log_weight": (np.float64, 0.0)}
#: Additional arrays of a solver: one number per node, and one per action.
SOLVER_NODE_FIELDS: dict[str, tuple[Any, Any]] = {"lower": (np.float64, 0.0), "upper": (np.float64, 0.0)}
SOLVER_EDGE_FIELDS: dict[str, tuple[Any, Any]] = {
    "open": (np.bool_, False),
    "edge_lower": (np.float64, 0.0),
    "edge_upper": (np.float64, 0.0),
}
#: Number of nodes that memory is reserved for at first.
FIRST_CAPACITY = 64


class SearchTree:
    """``B`` trees of at most ``N`` nodes with ``A`` actions each. Node 0 of a tree is its root.

    All values of a node are those of the player to move there. Its return is the discounted sum of the rewards that
    follow it.

    Args:
        batch: number of trees, B.
        n_actions: number of actions, A.
        state_shape: shape of the state of a node.
        state_dtype: dtype of the states.
        capacity: number of nodes that memory is reserved for, N; it grows by :meth:`reserve`.
        rule_fields: names of the additional arrays of the rule, from ``RULE_FIELDS``.
        solver: whether to keep the bounds of a solver.

    Attributes:
        count: number of nodes of each tree, int64 ``[B]``.
        parent: parent of the node, int32 ``[B, N]``; -1 for the root.
        action: action that led from the parent to the node, int32 ``[B, N]``; -1 for the root.
        to_play: player to move, int8 ``[B, N]``.
        terminal: whether the episode ends at the node, bool ``[B, N]``.
        reward: reward of the step to the node, for the player who made it, float64 ``[B, N]``.
        evaluation: estimated value of the node when it was added, float64 ``[B, N]``.
        visits: simulations that reached the node, the one that added it included, int64 ``[B, N]``.
        value_sum: sum of the returns that were backed up, float64 ``[B, N]``.
        children: node after each action, int32 ``[B, N, A]``; -1 if it was never taken.
        legal: whether each action is legal, bool ``[B, N, A]``.
        prior: probability of each action under the policy, float64 ``[B, N, A]``.
        edge_visits: visits of each action, int64 ``[B, N, A]``.
        edge_value_sum: sum of the returns of each action, its reward included, float64 ``[B, N, A]``.
        open: actions that the rule may select, bool ``[B, N, A]``: the legal ones except those that a solver closed.
            Without a solver it is ``legal`` itself.
        lower: with a solver, lower bound of the return of the node, float64 ``[B, N]``.
        upper: with a solver, upper bound, float64 ``[B, N]``; equal to ``lower`` if the node is proven.
        edge_lower: with a solver, lower bound of the return of each action, float64 ``[B, N, A]``.
        edge_upper: with a solver, upper bound, float64 ``[B, N, A]``.
        states: states of the game, ``[B, N, *state_shape]``.
        flat: the same arrays with the trees concatenated, ``[B * N, ...]``; node n of tree b is row ``b * N + n``.

    Example:
        >>> tree = SearchTree(2, 9, (), np.int64, capacity=16)
        >>> tree.edge_visits.shape, tree.flat.visits.shape, tree.count.tolist()
        ((2, 16, 9), (32,), [0, 0])
    """

    parent: Array
    action: Array
    to_play: Array
    terminal: Array
    reward: Array
    evaluation: Array
    visits: Array
    value_sum: Array
    children: Array
    legal: Array
    prior: Array
    edge_visits: Array
    edge_value_sum: Array
    open: Array
    lower: Array
    upper: Array
    edge_lower: Array
    edge_upper: Array
    states: Array

    def __init__(
        self,
        batch: int,
        n_actions: int,
        state_shape: tuple[int, ...],
        state_dtype: Any,
        *,
        capacity: int = FIRST_CAPACITY,
        rule_fields: tuple[str, ...] = (),
        solver: bool = False,
    ) -> None:
        self.solver = solver
        node_fields = NODE_FIELDS | SOLVER_NODE_FIELDS if solver else NODE_FIELDS
        edge_fields = EDGE_FIELDS | SOLVER_EDGE_FIELDS if solver else EDGE_FIELDS
        self.batch, self.n_actions, self.capacity = batch, n_actions, capacity
        self.count = np.zeros(batch, dtype=np.int64)
        self.layout: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
            **{name: (*kind, ()) for name, kind in node_fields.items()},
            **{name: (*kind, (n_actions,)) for name, kind in edge_fields.items()},
            **{name: (*RULE_FIELDS[name], (n_actions,)) for name in rule_fields},
            "states": (state_dtype, None if state_dtype is object else 0, state_shape),
        }
        self._allocate(capacity, {})

    def _allocate(self, capacity: int, before: dict[str, Array]) -> None:
        arrays = {}
        for name, (dtype, blank, shape) in self.layout.items():
            arrays[name] = np.full((self.batch, capacity, *shape), blank, dtype=dtype)
            if name in before:
                arrays[name][:, : self.capacity] = before[name]
        self.capacity = capacity
        self.arrays = arrays
        self.flat = SimpleNamespace(**{name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()})
        for name, array in arrays.items():
            setattr(self, name, array)
        if not self.solver:
            self.open, self.flat.open = self.legal, self.flat.legal
        #: Row of each root in ``flat``.
        self.roots = np.arange(self.batch) * capacity

    def reserve(self, nodes: int) -> bool:
        """Reserve memory to add ``nodes`` nodes to each tree; return whether the arrays were reallocated.

        They at least double, so the cost per node is constant.
        """
        need = int(self.count.max()) + nodes
        if need <= self.capacity:
            return False
        self._allocate(max(need, 2 * self.capacity), self.arrays)
        return True

    def add(
        self,
        trees: Array,
        positions: Positions,
        rewards: Array,
        prior: Array,
        value: Array,
        bounds: tuple[Array, Array] | None = None,
    ) -> Array:
        """Add a node to some trees, without visits and not yet linked to a parent.

        Args:
            trees: the trees, each at most once, ``[k]``.
            positions: the positions of the nodes, ``k`` of them.
            rewards: rewards of the steps to them, ``[k]``.
            prior: prior of their actions, ``[k, A]``.
            value: their estimated values, ``[k]``.
            bounds: lower and upper bounds of their actions from a solver, ``[k, A]`` each.

        Returns:
            The indices of the nodes, ``[k]``.
        """
        nodes = self.count[trees]
        rows, flat = trees * self.capacity + nodes, self.flat
        flat.states[rows] = positions.states
        flat.to_play[rows] = positions.to_play
        flat.legal[rows] = positions.legal
        flat.terminal[rows] = positions.terminal
        flat.reward[rows] = rewards
        flat.prior[rows] = prior
        flat.evaluation[rows] = value
        if bounds is not None:
            flat.edge_lower[rows], flat.edge_upper[rows] = bounds
            lower = flat.lower[rows] = bounds[0].max(-1)
            flat.upper[rows] = bounds[1].max(-1)
            flat.open[rows] = bounds[1] > lower[:, None]
        self.count[trees] += 1
        return nodes

    def selectable(self, rows: Array) -> Array:
        """Return the open actions of the nodes at ``rows``, all legal ones where none is open, bool ``[k, A]``."""
        open_ = self.flat.open[rows]
        if not self.solver:
            return open_
        return np.where(open_.any(-1, keepdims=True), open_, self.flat.legal[rows])

    def clear(self, tree: int, first: int = 0) -> None:
        """Remove the nodes of a tree from the node ``first`` on; by default all."""
        for name, (_, blank, _) in self.layout.items():
            self.arrays[name][tree, first : self.count[tree]] = blank
        self.count[tree] = first

    def keep_subtree(self, tree: int, node: int) -> None:
        """Make a node the root of its tree; keep its subtree and remove all other nodes."""
        parents = self.parent[tree, : self.count[tree]].tolist()
        kept = [False] * len(parents)
        kept[node] = True
        for i in range(node + 1, len(parents)):  # a child is always added after its parent
            kept[i] = kept[parents[i]] if parents[i] >= 0 else False
        old = np.flatnonzero(kept)
        new = np.full(len(parents) + 1, -1, dtype=np.int32)  # one more entry, so that -1 maps to -1
        new[old] = np.arange(len(old))
        for array in self.arrays.values():
            array[tree, : len(old)] = array[tree, old]
        self.parent[tree, : len(old)] = new[self.parent[tree, : len(old)]]
        self.children[tree, : len(old)] = new[self.children[tree, : len(old)]]
        self.parent[tree, 0], self.action[tree, 0], self.reward[tree, 0] = -1, -1, 0.0
        self.clear(tree, len(old))

    def path(self, node: int, tree: int = 0) -> list[int]:
        """List the actions that lead from the root of a tree, by its index, to a node; none for the root itself."""
        actions: list[int] = []
        while node > 0:
            actions.append(int(self.action[tree, node]))
            node = int(self.parent[tree, node])
        return actions[::-1]

    def value(self, node: int = 0, tree: int = 0) -> float:
        """Return the mean return of a node of a tree, for the player to move there; 0 without a visit."""
        return float(self.value_sum[tree, node]) / max(int(self.visits[tree, node]), 1)


__all__ = ["SearchTree"]
