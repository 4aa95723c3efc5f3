"""What a search found, by root: visits, values, a policy, and the action to play."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from rlnb.search.games import Array
from rlnb.search.rules import Rule
from rlnb.search.solver import Solver
from rlnb.search.tree import SearchTree


class ActionRow(NamedTuple):
    """What a tree knows of one action of a node.

    Attributes:
        action: which.
        legal: whether it is.
        visits: how often it was taken.
        value: mean return for the player who takes it; 0 if it was never taken.
        prior: probability that the policy gives it.
        score: what the rule selects by.
        child: the node it leads to; -1 if it was never taken.
        lower: what it gains at least, by the proofs of a solver; None without one, or if the action is illegal.
        upper: what it gains at most, likewise; the return is proven where both are equal.
    """

    action: int
    legal: bool
    visits: int
    value: float
    prior: float
    score: float
    child: int
    lower: float | None = None
    upper: float | None = None


class SearchResults:
    """The results of a search, as arrays over the batch of its roots: ``[*batch, A]``, or ``[A]`` for a single root."""

    rule: Rule
    solver: Solver | None
    _shape: tuple[int, ...]

    @property
    @abstractmethod
    def nodes(self) -> SearchTree:
        """The trees."""

    def _shaped(self, array: Array) -> Array:
        return array.reshape((*self._shape, *array.shape[1:])).copy()

    @property
    def visits(self) -> Array:
        """How often each action of a root was taken, int64 ``[*batch, A]``."""
        return self._shaped(self.nodes.edge_visits[:, 0])

    @property
    def q_values(self) -> Array:
        """Mean return of each action of a root, float64 ``[*batch, A]``; NaN for what was never taken.

        With a solver it is within the bounds that are proven.
        """
        nodes = self.nodes
        known = nodes.edge_visits[:, 0] > 0
        if self.solver is not None:
            known |= nodes.legal[:, 0] & (nodes.edge_lower[:, 0] == nodes.edge_upper[:, 0])
        return self._shaped(np.where(known, self._means(nodes.roots), np.nan))

    @property
    def value(self) -> Array:
        """Mean return of a root for the player who is to move, float64 ``[*batch]``; where it is proven, the return."""
        nodes = self.nodes
        means = nodes.value_sum[:, 0] / nodes.visits[:, 0]
        if self.solver is not None:
            means = np.minimum(np.maximum(means, nodes.lower[:, 0]), nodes.upper[:, 0])
        return self._shaped(means)

    @property
    def solved(self) -> Array:
        """Whether a solver has proven the return of a root with best play, bool ``[*batch]``."""
        return self._shaped(~np.isnan(self._proven()))

    @property
    def proven(self) -> Array:
        """The proven return of a root with best play, float64 ``[*batch]``; NaN where it is not known.

        It is for the player who is to move; in a game with one winner 1 is a win, 0 a draw and -1 a loss.
        """
        return self._shaped(self._proven())

    def _proven(self) -> Array:
        nodes = self.nodes
        if self.solver is None:
            return np.full(nodes.batch, np.nan)
        lower, upper = nodes.lower[:, 0], nodes.upper[:, 0]
        return np.where(lower == upper, lower, np.nan)

    def _means(self, rows: Array) -> Array:
        """Mean returns of the actions of some nodes, 0 without a visit; with a solver within their bounds."""
        flat = self.nodes.flat
        means: Array = flat.edge_value_sum[rows] / np.maximum(flat.edge_visits[rows], 1)
        if self.solver is not None:
            lower, upper = flat.edge_lower[rows], flat.edge_upper[rows]
            means = np.where(flat.legal[rows], np.minimum(np.maximum(means, lower), upper), means)
        return means

    def _worthy(self, rows: Array) -> Array:
        """Which actions of some nodes may be the best, bool ``[k, A]``: with a solver, those not proven to be worse."""
        flat = self.nodes.flat
        if self.solver is None:
            legal: Array = flat.legal[rows]
            return legal
        lower, upper = flat.lower[rows][:, None], flat.upper[rows][:, None]
        best = flat.edge_lower[rows] == lower  # where the node is proven, only what is proven to be as good
        return flat.legal[rows] & np.where(lower == upper, best, flat.edge_upper[rows] >= lower)

    @property
    def prior(self) -> Array:
        """Probability that the policy gives each action of a root, noise included, float64 ``[*batch, A]``."""
        return self._shaped(self.nodes.prior[:, 0])

    @property
    def policy(self) -> Array:
        """What the search makes of the prior, float64 ``[*batch, A]``: visits as shares, or the improved policy.

        With a solver, actions that are proven to be worse than another one have probability 0.
        """
        policy = self.rule.policy(self.nodes)
        if self.solver is not None:
            worthy = self._worthy(self.nodes.roots)
            policy = np.where(worthy, policy, 0.0)
            total = policy.sum(-1, keepdims=True)
            policy = np.where(total > 0, policy / np.where(total > 0, total, 1), worthy / worthy.sum(-1, keepdims=True))
        return self._shaped(policy)

    @property
    def best_action(self) -> Array:
        """The action to play, int64 ``[*batch]``.

        With a solver: a proven best one if there is one, or if no other one promises more than it gains for certain.
        """
        nodes = self.nodes
        best = self.rule.best(nodes)
        if self.solver is not None:
            trees, certain = np.arange(nodes.batch), nodes.edge_lower[:, 0] == nodes.lower[:, :1]
            settle = (self._means(nodes.roots)[trees, best] <= nodes.lower[:, 0]) | ~nodes.open[:, 0].any(-1)
            # Of actions that gain the same for certain, the one after which random play, or the network, found most.
            means = nodes.edge_value_sum[:, 0] / np.maximum(nodes.edge_visits[:, 0], 1)
            best = np.where(settle, np.where(certain, means, -np.inf).argmax(-1), best)
        return self._shaped(best)

    def table(self, node: int = 0, tree: int = 0) -> list[ActionRow]:
        """List what is known of the actions of a node.

        Args:
            node: which; 0 is the root.
            tree: in which tree.

        Returns:
            A row for each action.
        """
        nodes = self.nodes
        rows = np.array([tree * nodes.capacity + node])
        lower, upper = self._bounds_of(rows)
        columns: tuple[Any, ...] = (
            range(nodes.n_actions),
            nodes.legal[tree, node].tolist(),
            nodes.edge_visits[tree, node].tolist(),
            self._means(rows)[0].tolist(),
            nodes.prior[tree, node].tolist(),
            self.rule.scores(nodes, rows)[0].tolist(),
            nodes.children[tree, node].tolist(),
            lower,
            upper,
        )
        return [ActionRow(*row) for row in zip(*columns, strict=True)]

    def _bounds_of(self, rows: Array) -> list[list[float | None]]:
        """The bounds of the actions of a node, lower and upper."""
        legal = self.nodes.flat.legal[rows][0].tolist()
        if self.solver is None:
            return [[None] * len(legal)] * 2
        bounds = self.nodes.flat.edge_lower[rows][0], self.nodes.flat.edge_upper[rows][0]
        return [[b if ok else None for b, ok in zip(bound.tolist(), legal, strict=True)] for bound in bounds]

    def principal_variation(self, tree: int = 0) -> list[int]:
        """List the actions that are visited most, of several the one with the best value, from the root on.

        With a solver those that are proven to be worse than another one are left out.

        Args:
            tree: in which tree.

        Returns:
            The actions; none if nothing was visited.
        """
        nodes, node, actions = self.nodes, 0, []
        while nodes.edge_visits[tree, node].any():
            rows = np.array([tree * nodes.capacity + node])
            visits, mean = np.where(self._worthy(rows)[0], nodes.edge_visits[tree, node], -1), self._means(rows)[0]
            actions.append(int(np.where(visits == visits.max(), mean, -np.inf).argmax()))
            node = int(nodes.children[tree, node, actions[-1]])
        return actions


__all__ = ["ActionRow", "SearchResults"]
