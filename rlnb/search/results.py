"""What a search found, by root: visits, values, a policy, and the action to play."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from rlnb.search.games import Array
from rlnb.search.rules import Rule
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
    """

    action: int
    legal: bool
    visits: int
    value: float
    prior: float
    score: float
    child: int


class SearchResults:
    """The results of a search, as arrays over the batch of its roots: ``[*batch, A]``, or ``[A]`` for a single root."""

    rule: Rule
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
        """Mean return of each action of a root, float64 ``[*batch, A]``; NaN for what was never taken."""
        visits = self.nodes.edge_visits[:, 0]
        means = self.nodes.edge_value_sum[:, 0] / np.maximum(visits, 1)
        return self._shaped(np.where(visits > 0, means, np.nan))

    @property
    def value(self) -> Array:
        """Mean return of a root for the player who is to move, float64 ``[*batch]``."""
        return self._shaped(self.nodes.value_sum[:, 0] / self.nodes.visits[:, 0])

    @property
    def prior(self) -> Array:
        """Probability that the policy gives each action of a root, noise included, float64 ``[*batch, A]``."""
        return self._shaped(self.nodes.prior[:, 0])

    @property
    def policy(self) -> Array:
        """What the search makes of the prior, float64 ``[*batch, A]``: visits as shares, or the improved policy."""
        return self._shaped(self.rule.policy(self.nodes))

    @property
    def best_action(self) -> Array:
        """The action to play, int64 ``[*batch]``."""
        return self._shaped(self.rule.best(self.nodes))

    def table(self, node: int = 0, tree: int = 0) -> list[ActionRow]:
        """List what is known of the actions of a node.

        Args:
            node: which; 0 is the root.
            tree: in which tree.

        Returns:
            A row for each action.
        """
        nodes = self.nodes
        scores = self.rule.scores(nodes, np.array([tree * nodes.capacity + node]))[0]
        visits, sums = nodes.edge_visits[tree, node], nodes.edge_value_sum[tree, node]
        columns: tuple[Any, ...] = (
            range(nodes.n_actions),
            nodes.legal[tree, node].tolist(),
            visits.tolist(),
            (sums / np.maximum(visits, 1)).tolist(),
            nodes.prior[tree, node].tolist(),
            scores.tolist(),
            nodes.children[tree, node].tolist(),
        )
        return [ActionRow(*row) for row in zip(*columns, strict=True)]

    def principal_variation(self, tree: int = 0) -> list[int]:
        """List the actions that are visited most, of several the one with the best value, from the root on.

        Args:
            tree: in which tree.

        Returns:
            The actions; none if nothing was visited.
        """
        nodes, node, actions = self.nodes, 0, []
        while nodes.edge_visits[tree, node].any():
            visits = nodes.edge_visits[tree, node]
            mean = nodes.edge_value_sum[tree, node] / np.maximum(visits, 1)
            actions.append(int(np.where(visits == visits.max(), mean, -np.inf).argmax()))
            node = int(nodes.children[tree, node, actions[-1]])
        return actions


__all__ = ["ActionRow", "SearchResults"]
