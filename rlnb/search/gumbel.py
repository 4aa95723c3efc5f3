"""Gumbel: planning with few simulations, by sequential halving at the root and a deterministic rule below it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from rlnb.search.games import Array
from rlnb.search.rules import Rule
from rlnb.search.tree import SearchTree

#: Shares of the prior below this count as this, so that they have a logarithm.
_TINY = np.finfo(np.float64).tiny
#: Values closer than this are not stretched to [0, 1].
_CLOSE = 1e-8


@cache
def considered_visits(considered: int, simulations: int, length: int) -> tuple[int, ...]:
    """Lay out sequential halving: how often the action that a simulation tries was tried before.

    In each of ``log2(considered)`` phases the actions left are tried equally often; then the better half goes on, two
    at the least.

    Source: Z. Karnin, T. Koren and O. Somekh, "Almost Optimal Exploration in Multi-Armed Bandits", ICML 2013, figure 3.

    Args:
        considered: how many actions there are in the first phase.
        simulations: the budget.
        length: how many numbers are wanted; beyond the budget the last phase goes on.

    Returns:
        The number of visits, for each simulation.

    Example:
        >>> considered_visits(4, 8, 8)
        (0, 0, 0, 0, 1, 1, 2, 2)
    """
    if considered <= 1:
        return tuple(range(length))
    phases = math.ceil(math.log2(considered))
    left, visits = considered, 0
    plan: list[int] = []
    while len(plan) < length:
        for _ in range(max(1, simulations // (phases * left))):
            plan += [visits] * left
            visits += 1
        left = max(2, left // 2)
    return tuple(plan[:length])


class Gumbel(Rule):
    """Gumbel AlphaZero: the root draws actions without replacement and halves them, so that play improves the policy.

    At the root the score is ``g + log(prior) + sigma(q)``, with one draw ``g`` from the Gumbel distribution for each
    action; sequential halving says which actions are compared. Below it the action is the one whose share of the visits
    is furthest below the improved policy, ``softmax(log(prior) + sigma(q))``. There ``q`` of an action never taken is
    an average of what is known of the node, and ``sigma(q) = (c_visit + most visits) * c_scale * q``, ``q`` stretched
    to [0, 1].

    Source: I. Danihelka et al., "Policy improvement by planning with Gumbel", ICLR 2022.

    Args:
        simulations: for how many simulations the halving is laid out.
        considered: how many actions of a root are tried at the most.
        c_visit: see above.
        c_scale: see above.
        noise: False leaves out the draws, for play without chance.

    Attributes:
        draws: a number for each action of each root, float64 ``[B, A]``.
        before: how often each action of a root had been taken when the search began, ``[B, A]``.

    Raises:
        ValueError: if a number is not positive.

    Example:
        >>> Gumbel(simulations=32)
        Gumbel(simulations=32, considered=16, c_visit=50.0, c_scale=0.1, noise=True)
    """

    def __init__(
        self,
        simulations: int,
        considered: int = 16,
        *,
        c_visit: float = 50.0,
        c_scale: float = 0.1,
        noise: bool = True,
    ) -> None:
        if simulations < 1 or considered < 1 or not (c_visit >= 0 and c_scale > 0):
            raise ValueError(
                f"Gumbel takes positive numbers, and got simulations={simulations!r}, considered={considered!r}, "
                f"c_visit={c_visit!r}, c_scale={c_scale!r}."
            )
        self.simulations, self.considered = simulations, considered
        self.c_visit, self.c_scale, self.noise = c_visit, c_scale, noise
        self.draws = self.before = np.zeros((0, 0))
        self._plan = np.zeros((0, 0), dtype=np.int64)

    def start(self, tree: SearchTree, rng: np.random.Generator) -> None:
        """Draw a number for each action of each root; see :meth:`Rule.start`."""
        shape = tree.edge_visits[:, 0].shape
        self.draws = rng.gumbel(size=shape) if self.noise else np.zeros(shape)
        self.before = tree.edge_visits[:, 0].copy()
        self._lay_out(self.simulations)

    def _lay_out(self, length: int) -> None:
        most = min(self.considered, self.draws.shape[-1])
        self._plan = np.array([considered_visits(m, self.simulations, length) for m in range(most + 1)])

    def completed(self, tree: SearchTree, rows: Array) -> Array:
        """Return ``sigma(q)`` of all actions of some nodes.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            float64 ``[k, A]``.
        """
        flat = tree.flat
        visits, legal, prior = flat.edge_visits[rows], flat.legal[rows], np.maximum(flat.prior[rows], _TINY)
        taken = visits > 0
        q = flat.edge_value_sum[rows] / np.maximum(visits, 1)
        weight = np.where(taken, prior, 0.0)
        known = (weight * q).sum(-1) / np.maximum(weight.sum(-1), _TINY)
        total = visits.sum(-1)
        mixed = (flat.evaluation[rows] + total * known) / (total + 1)
        q = np.where(taken, q, mixed[:, None])
        low = np.where(legal, q, np.inf).min(-1, keepdims=True)
        span = np.where(legal, q, -np.inf).max(-1, keepdims=True) - low
        scale = (self.c_visit + visits.max(-1, keepdims=True)) * self.c_scale
        return scale * (q - low) / np.maximum(span, _CLOSE)

    def logits(self, tree: SearchTree, rows: Array) -> Array:
        """Return ``log(prior) + sigma(q)``, the logits of the improved policy.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            float64 ``[k, A]``; minus infinity for what is illegal.
        """
        logits = np.log(np.maximum(tree.flat.prior[rows], _TINY)) + self.completed(tree, rows)
        return np.where(tree.flat.legal[rows], logits, -np.inf)

    def improved(self, tree: SearchTree, rows: Array) -> Array:
        """Return the improved policy of some nodes.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            Probabilities, float64 ``[k, A]``.
        """
        logits = self.logits(tree, rows)
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True)

    def scores(self, tree: SearchTree, rows: Array) -> Array:
        """Score the actions, those of a root as a root's; see :meth:`Rule.scores`."""
        root = rows % tree.capacity == 0
        visits = tree.flat.edge_visits[rows]
        scores = self.improved(tree, rows) - visits / (1 + visits.sum(-1, keepdims=True))
        scores[~tree.flat.open[rows]] = -np.inf
        if root.any():
            scores[root] = self._root_scores(tree, rows[root])
        return scores

    def _root_scores(self, tree: SearchTree, rows: Array) -> Array:
        trees = rows // tree.capacity
        visits = tree.flat.edge_visits[rows] - self.before[trees]
        turn = visits.sum(-1)
        if turn.max() >= self._plan.shape[-1]:
            self._lay_out(2 * int(turn.max()) + 1)
        considered = np.minimum(tree.flat.legal[rows].sum(-1), len(self._plan) - 1)
        wanted = self._plan[considered, turn][:, None]
        scores = self.draws[trees] + self.logits(tree, rows)
        # A closed action takes no more visits, so there may be no action with as many as are wanted: then the nearest.
        distance = np.where(tree.selectable(rows), np.abs(visits - wanted), np.iinfo(np.int64).max)
        return np.where(distance == distance.min(-1, keepdims=True), scores, -np.inf)

    def policy(self, tree: SearchTree) -> Array:
        """Return the improved policy of the roots; see :meth:`Rule.policy`."""
        return self.improved(tree, tree.roots)

    def best(self, tree: SearchTree) -> Array:
        """Return, of the open actions visited most, the one with the best score; see :meth:`Rule.best`."""
        visits = np.where(tree.selectable(tree.roots), tree.edge_visits[:, 0] - self.before, -1)
        scores = self.draws + self.logits(tree, tree.roots)
        return np.where(visits == visits.max(-1, keepdims=True), scores, -np.inf).argmax(-1)

    def _shown(self) -> tuple[str, ...]:
        return ("simulations", "considered", "c_visit", "c_scale", "noise")


__all__ = ["Gumbel", "considered_visits"]
