"""The Gumbel rule for few simulations: sequential halving at the root, a deterministic rule below it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from rlnb.modules.mcts import formulas
from rlnb.search.games import Array
from rlnb.search.rules import Rule
from rlnb.search.tree import SearchTree

#: Factor of ``c_scale`` below the root in a search with a solver. Less weight on the sampled values spreads the visits
#: over the open actions, so that refutations are found and proven.
SOLVER_SCALE = 0.2


@cache
def considered_visits(considered: int, simulations: int, length: int) -> tuple[int, ...]:
    """Plan sequential halving: for each simulation, how often the action that it tries was tried before.

    In each of ``log2(considered)`` phases the remaining actions are tried equally often. Then the better half remains,
    at least two actions. The plan has ``length`` simulations; beyond the budget the last phase continues.

    Source: Z. Karnin, T. Koren and O. Somekh, "Almost Optimal Exploration in Multi-Armed Bandits", ICML 2013, figure 3.

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


def sigma(
    visits: Array,
    value_sum: Array,
    prior: Array,
    evaluation: Array,
    legal: Array,
    c_visit: float,
    c_scale: float | Array,
) -> Array:
    """Return ``sigma(q)`` of the actions of some nodes, float64 ``[k, A]``.

    An action never taken has the mixed value of its node. The columns of the actions are ``[k, A]``, ``evaluation`` is
    ``[k]``, and ``c_scale`` a number or ``[k, 1]``.
    """
    taken = visits > 0
    q = value_sum / np.maximum(visits, 1)
    share = np.where(taken, np.maximum(prior, formulas.TINY), 0.0)
    known = (share * q).sum(-1) / np.maximum(share.sum(-1), formulas.TINY)
    mixed = formulas.gumbel_mixed_value(evaluation, known, visits.sum(-1))
    q = np.where(taken, q, mixed[:, None])
    low = np.where(legal, q, np.inf).min(-1, keepdims=True)
    span = np.where(legal, q, -np.inf).max(-1, keepdims=True) - low
    weight = formulas.gumbel_weight(visits.max(-1, keepdims=True), c_visit, c_scale)
    return np.asarray(weight * formulas.gumbel_stretched(q, low, span))


class Gumbel(Rule):
    """Gumbel AlphaZero: samples actions of the root without replacement and halves them, which improves the policy.

    At the root the score is ``g + log(prior) + sigma(q)``, with one draw ``g`` from the Gumbel distribution per action;
    sequential halving decides which actions are compared. Below the root the rule selects the action whose share of
    the visits is furthest below the improved policy, ``softmax(log(prior) + sigma(q))``. An action never taken has the
    value :func:`rlnb.modules.mcts.formulas.gumbel_mixed_value`. ``sigma(q)`` is
    :func:`~rlnb.modules.mcts.formulas.gumbel_weight` times :func:`~rlnb.modules.mcts.formulas.gumbel_stretched`.
    With a solver ``c_scale`` is multiplied by ``SOLVER_SCALE`` below the root.

    Source: I. Danihelka et al., "Policy improvement by planning with Gumbel", ICLR 2022.

    Args:
        simulations: number of simulations that the halving is planned for.
        considered: the most actions of a root that are tried.
        c_visit: constant added to the visits in ``sigma``.
        c_scale: scale of the values in ``sigma``.
        noise: whether to draw ``g``. False: ``g`` is 0, for deterministic play.

    Attributes:
        draws: ``g`` of each action of each root, float64 ``[B, A]``.
        before: visits of each action of a root when the search began, ``[B, A]``.
        scale_below: factor of ``c_scale`` below the root: ``SOLVER_SCALE`` with a solver, else 1.

    Raises:
        ValueError: If a number is not positive.

    Example:
        >>> Gumbel(simulations=32)
        Gumbel(simulations=32, considered=16, c_visit=50.0, c_scale=0.1, noise=True)
    """

    _shown = ("simulations", "considered", "c_visit", "c_scale", "noise")

    def __init__(
        self, simulations: int, considered: int = 16, *, c_visit: float = 50.0, c_scale: float = 0.1, noise: bool = True
    ) -> None:
        if simulations < 1 or considered < 1 or not (c_visit >= 0 and c_scale > 0):
            raise ValueError(
                f"Gumbel takes positive numbers, got simulations={simulations!r}, considered={considered!r}, "
                f"c_visit={c_visit!r}, c_scale={c_scale!r}."
            )
        self.simulations, self.considered = simulations, considered
        self.c_visit, self.c_scale, self.noise = c_visit, c_scale, noise
        self.draws = self.before = np.zeros((0, 0))
        self.scale_below = 1.0
        self._plan = np.zeros((0, 0), dtype=np.int64)

    def start(self, tree: SearchTree, rng: np.random.Generator) -> None:
        """Draw ``g`` for each action of each root and plan the halving; see :meth:`Rule.start`."""
        shape = tree.edge_visits[:, 0].shape
        self.draws = rng.gumbel(size=shape) if self.noise else np.zeros(shape)
        self.before = tree.edge_visits[:, 0].copy()
        self.scale_below = SOLVER_SCALE if tree.solver else 1.0
        self._make_plan(self.simulations)

    def _make_plan(self, length: int) -> None:
        most = min(self.considered, self.draws.shape[-1])
        self._plan = np.array([considered_visits(m, self.simulations, length) for m in range(most + 1)])

    def completed(self, tree: SearchTree, rows: Array) -> Array:
        """Return ``sigma(q)`` of all actions of the nodes at ``rows`` of ``tree.flat``, float64 ``[k, A]``."""
        flat = tree.flat
        c_scale = np.where(rows % tree.capacity == 0, self.c_scale, self.c_scale * self.scale_below)[:, None]
        return sigma(
            flat.edge_visits[rows], flat.edge_value_sum[rows], flat.prior[rows], flat.evaluation[rows],
            flat.legal[rows], self.c_visit, c_scale,
        )  # fmt: skip

    def logits(self, tree: SearchTree, rows: Array) -> Array:
        """Return ``log(prior) + sigma(q)``, the logits of the improved policy, ``[k, A]``; -inf for illegal actions."""
        logits = formulas.gumbel_logit(tree.flat.prior[rows], self.completed(tree, rows))
        return np.where(tree.flat.legal[rows], logits, -np.inf)

    def improved(self, tree: SearchTree, rows: Array) -> Array:
        """Return the improved policy of the nodes at ``rows`` of ``tree.flat``, float64 ``[k, A]``."""
        return formulas.softmax(self.logits(tree, rows))

    def scores(self, tree: SearchTree, rows: Array) -> Array:
        """Score the actions, those of roots by sequential halving; see :meth:`Rule.scores`."""
        root = rows % tree.capacity == 0
        visits = tree.flat.edge_visits[rows]
        scores = formulas.gumbel_score(self.improved(tree, rows), visits, visits.sum(-1, keepdims=True))
        scores[~tree.flat.open[rows]] = -np.inf
        if root.any():
            scores[root] = self._root_scores(tree, rows[root])
        return scores

    def _root_scores(self, tree: SearchTree, rows: Array) -> Array:
        trees = rows // tree.capacity
        visits = tree.flat.edge_visits[rows] - self.before[trees]
        turn = visits.sum(-1)
        if turn.max() >= self._plan.shape[-1]:
            self._make_plan(2 * int(turn.max()) + 1)
        considered = np.minimum(tree.flat.legal[rows].sum(-1), len(self._plan) - 1)
        wanted = self._plan[considered, turn][:, None]
        scores = self.draws[trees] + self.logits(tree, rows)
        # A closed action takes no more visits, so perhaps no action has the wanted number; then take the nearest.
        distance = np.where(tree.selectable(rows), np.abs(visits - wanted), np.iinfo(np.int64).max)
        return np.where(distance == distance.min(-1, keepdims=True), scores, -np.inf)

    def policy(self, tree: SearchTree) -> Array:
        """Return the improved policy of the roots; see :meth:`Rule.policy`."""
        return self.improved(tree, tree.roots)

    def best(self, tree: SearchTree) -> Array:
        """Return the action with the best score among the most visited open actions; see :meth:`Rule.best`."""
        visits = np.where(tree.selectable(tree.roots), tree.edge_visits[:, 0] - self.before, -1)
        scores = self.draws + self.logits(tree, tree.roots)
        return np.where(visits == visits.max(-1, keepdims=True), scores, -np.inf).argmax(-1)


__all__ = ["Gumbel", "considered_visits", "sigma"]
