"""SearchTree: the trees of a search as a struct of arrays, filled in place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from rlnb.search.games import Array, Positions

#: What is kept of each node: dtype, and what stands where there is no node yet.
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
#: What is kept of each action of a node.
EDGE_FIELDS: dict[str, tuple[Any, Any]] = {
    "children": (np.int32, -1),
    "legal": (np.bool_, False),
    "prior": (np.float64, 0.0),
    "edge_visits": (np.int64, 0),
    "edge_value_sum": (np.float64, 0.0),
}
#: What some rules keep besides, of each action.
RULE_FIELDS: dict[str, tuple[Any, Any]] = {
    "edge_square_sum": (np.float64, 0.0),
    "log_weight": (np.float64, 0.0),
}
#: What a solver keeps besides: of each node, and of each action.
SOLVER_NODE_FIELDS: dict[str, tuple[Any, Any]] = {"lower": (np.float64, 0.0), "upper": (np.float64, 0.0)}
SOLVER_EDGE_FIELDS: dict[str, tuple[Any, Any]] = {
    "open": (np.bool_, False),
    "edge_lower": (np.float64, 0.0),
    "edge_upper": (np.float64, 0.0),
}
#: How much is made room for where nobody says how much is needed.
FIRST_CAPACITY = 64


class SearchTree:
    """``B`` trees of at most ``N`` nodes with ``A`` actions each. Node 0 of a tree is its root.

    All values of a node are those of the player who is to move there. A return is what is gained from the node on.

    Args:
        batch: how many trees, B.
        n_actions: A.
        state_shape: of the state of a node.
        state_dtype: of the states.
        capacity: N; it grows by :meth:`reserve`.
        rule_fields: which of ``RULE_FIELDS`` are kept.
        solver: whether a solver keeps bounds.

    Attributes:
        count: how many nodes each tree has, int64 ``[B]``.
        parent: node before, int32 ``[B, N]``; -1 at the root.
        action: which led there from the parent, int32 ``[B, N]``; -1 at the root.
        to_play: who is to move, int8 ``[B, N]``.
        terminal: whether the episode ends there, bool ``[B, N]``.
        reward: of the step to the node, for the player who made it, float64 ``[B, N]``.
        evaluation: what the node was said to be worth when it was added, float64 ``[B, N]``.
        visits: how many simulations came to the node, the one that added it included, int64 ``[B, N]``.
        value_sum: sum of the returns that were backed up, float64 ``[B, N]``.
        children: node after each action, int32 ``[B, N, A]``; -1 where it was never taken.
        legal: which actions are, bool ``[B, N, A]``.
        prior: probability that the policy gives each, float64 ``[B, N, A]``.
        edge_visits: how often each was taken, int64 ``[B, N, A]``.
        edge_value_sum: sum of the returns after each, its reward included, float64 ``[B, N, A]``.
        open: actions that the rule may select, bool ``[B, N, A]``: the legal ones, without those that a solver closed.
            Without a solver it is ``legal`` itself.
        lower: with a solver, what the return of the node is at least, float64 ``[B, N]``.
        upper: with a solver, what it is at most, float64 ``[B, N]``; equal to ``lower`` where the node is proven.
        edge_lower: with a solver, what each action gains at least, float64 ``[B, N, A]``.
        edge_upper: with a solver, what each action gains at most, float64 ``[B, N, A]``.
        states: of the nodes, ``[B, N, *state_shape]``.
        flat: all of these with the trees one after the other, ``[B * N, ...]``: row ``tree * N + node``.

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
        self.flat = SimpleNamespace(
            **{name: array.reshape(-1, *array.shape[2:]) for name, array in arrays.items()},
        )
        for name, array in arrays.items():
            setattr(self, name, array)
        if not self.solver:
            self.open, self.flat.open = self.legal, self.flat.legal
        #: The row of each root.
        self.roots = np.arange(self.batch) * capacity

    def reserve(self, nodes: int) -> bool:
        """Make room.

        Args:
            nodes: how many more nodes each tree may get.

        Returns:
            Whether the arrays are new ones. They at least double, so that growing costs no more than filling.
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
        """Add a node to some trees, with nothing that leads to it and no visit.

        Args:
            trees: which, each at most once, ``[k]``.
            positions: one for each.
            rewards: of the steps to them, ``[k]``.
            prior: of the actions, ``[k, A]``.
            value: what they are said to be worth, ``[k]``.
            bounds: lower and upper ones of their actions, from a solver, ``[k, A]`` each.

        Returns:
            The nodes, ``[k]``.
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
        """Return which actions of some nodes are open; all legal ones where none is.

        Args:
            rows: of the nodes in ``flat``, ``[k]``.

        Returns:
            bool ``[k, A]``.
        """
        open_ = self.flat.open[rows]
        if not self.solver:
            return open_
        return np.where(open_.any(-1, keepdims=True), open_, self.flat.legal[rows])

    def clear(self, tree: int, first: int = 0) -> None:
        """Drop the last nodes of a tree.

        Args:
            tree: which.
            first: the first of the nodes that are dropped.
        """
        for name, (_, blank, _) in self.layout.items():
            self.arrays[name][tree, first : self.count[tree]] = blank
        self.count[tree] = first

    def keep_subtree(self, tree: int, node: int) -> None:
        """Make a node the root of its tree, with all below it, and drop the rest.

        Args:
            tree: which.
            node: the new root.
        """
        parents = self.parent[tree, : self.count[tree]].tolist()
        kept = [False] * len(parents)
        kept[node] = True
        for i in range(node + 1, len(parents)):  # a child is always added after its parent
            kept[i] = kept[parents[i]] if parents[i] >= 0 else False
        old = np.flatnonzero(kept)
        new = np.full(len(parents) + 1, -1, dtype=np.int32)  # the last one is what -1 leads to
        new[old] = np.arange(len(old))
        for array in self.arrays.values():
            array[tree, : len(old)] = array[tree, old]
        self.parent[tree, : len(old)] = new[self.parent[tree, : len(old)]]
        self.children[tree, : len(old)] = new[self.children[tree, : len(old)]]
        self.parent[tree, 0], self.action[tree, 0], self.reward[tree, 0] = -1, -1, 0.0
        self.clear(tree, len(old))

    def path(self, node: int, tree: int = 0) -> list[int]:
        """List the actions that lead from the root to a node.

        Args:
            node: which.
            tree: in which tree.

        Returns:
            The actions; none for the root.
        """
        actions: list[int] = []
        while node > 0:
            actions.append(int(self.action[tree, node]))
            node = int(self.parent[tree, node])
        return actions[::-1]

    def value(self, node: int = 0, tree: int = 0) -> float:
        """Return the mean of the returns of a node.

        Args:
            node: which.
            tree: in which tree.

        Returns:
            The mean, for the player who is to move there; 0 without a visit.
        """
        return float(self.value_sum[tree, node]) / max(int(self.visits[tree, node]), 1)


__all__ = ["SearchTree"]
