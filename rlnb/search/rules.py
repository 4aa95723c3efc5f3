"""The rules that select an action in a node: UCB1, UCB1-Tuned, PUCT and EXP3."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from rlnb.modules.mcts import formulas
from rlnb.search.games import Array
from rlnb.search.tree import SearchTree


class Rule(ABC):
    """How a search selects actions, and how it plays in the end.

    Attributes:
        fields: what the tree keeps for the rule, see ``rlnb.search.tree.RULE_FIELDS``.
        low: the least return.
        high: the greatest return.
    """

    fields: tuple[str, ...] = ()
    low, high = -1.0, 1.0

    def scale(self, low: float, high: float) -> None:
        """Say between what the returns lie.

        Args:
            low: the least.
            high: the greatest.
        """
        self.low, self.high = low, high

    @abstractmethod
    def scores(self, tree: SearchTree, rows: Array) -> Array:
        """Score the actions of some nodes.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            float64 ``[k, A]``; minus infinity for what is illegal or closed, infinity for what is to be tried first.
        """

    def start(self, tree: SearchTree, rng: np.random.Generator) -> None:  # noqa: B027 - most rules draw nothing
        """Prepare for a search from new roots.

        Args:
            tree: the trees; their roots are there.
            rng: what is drawn from.
        """

    def choose(self, tree: SearchTree, rows: Array, depth: int, rng: np.random.Generator) -> Array:
        """Select an action in some nodes: the best score, and of several the first action.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.
            depth: of the nodes; 0 is a root.
            rng: what is drawn from.

        Returns:
            The actions, int64 ``[k]``.
        """
        return self.scores(tree, rows).argmax(-1)

    def learn(self, tree: SearchTree, rows: Array, actions: Array, returns: Array) -> None:  # noqa: B027 - see start
        """Take note of returns, before they are counted.

        Args:
            tree: the trees.
            rows: of the nodes where actions were taken, ``[k]``.
            actions: which, ``[k]``.
            returns: what came of them, for the player who took them, ``[k]``.
        """

    def policy(self, tree: SearchTree) -> Array:
        """Return the policy that a search found, for training: the shares of the visits.

        Args:
            tree: the trees.

        Returns:
            Probabilities, float64 ``[B, A]``.
        """
        visits = tree.edge_visits[:, 0].astype(np.float64)
        total = visits.sum(-1, keepdims=True)
        return np.where(total > 0, visits / np.maximum(total, 1), tree.prior[:, 0])

    def best(self, tree: SearchTree) -> Array:
        """Return the action to play: the open one visited most, and of several the one with the best value.

        Args:
            tree: the trees.

        Returns:
            int64 ``[B]``.
        """
        visits, legal = tree.edge_visits[:, 0], tree.selectable(tree.roots)
        value = np.where(visits > 0, tree.edge_value_sum[:, 0] / np.maximum(visits, 1), tree.prior[:, 0] + self.low - 1)
        most = legal & (visits == np.where(legal, visits, -1).max(-1, keepdims=True))
        return np.where(most, value, -np.inf).argmax(-1)

    def __repr__(self) -> str:
        known = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name in self._shown())
        return f"{type(self).__name__}({known})"

    def _shown(self) -> tuple[str, ...]:
        return ("c",)


class ScoreRule(Rule):
    """A rule whose score is a formula of value, visits, prior and the visits of the node.

    Args:
        c: how much is explored.
    """

    #: The score of an action that was never taken; None where the formula knows one.
    unvisited: float | None = math.inf

    def __init__(self, c: float) -> None:
        if not (math.isfinite(c) and c >= 0):
            raise ValueError(f"{type(self).__name__}(c=...) is a number from 0 on, and is {c!r}.")
        self.c = c
        self._middle, self._half = 0.0, 1.0

    def scale(self, low: float, high: float) -> None:
        """Say between what the returns lie; see :meth:`Rule.scale`. Values are scored as if from -1 to 1."""
        super().scale(low, high)
        self._middle, self._half = (low + high) / 2, (high - low) / 2

    def of_total(self, total: float) -> Any:
        """Return what the formula wants of the visits of a node: their logarithm."""
        return math.log(total)

    def of_totals(self, totals: Array) -> Array:
        """Do :meth:`of_total` for an array."""
        return np.log(totals)

    @abstractmethod
    def formula(self, value: Any, square: Any, visits: Any, total: Any, prior: Any) -> Any:
        """Score actions; numbers or arrays.

        Args:
            value: mean return.
            square: mean square of the returns mapped to [0, 1]; 0 if the rule does not keep it.
            visits: how often each was taken, at least once unless ``unvisited`` is None.
            total: what :meth:`of_total` returned.
            prior: the probability of each.

        Returns:
            The scores.
        """

    def scores(self, tree: SearchTree, rows: Array) -> Array:
        """Score the actions; see :meth:`Rule.scores`."""
        flat = tree.flat
        visits = flat.edge_visits[rows]
        least = np.maximum(visits, 1)
        value = flat.edge_value_sum[rows] / least
        square = flat.edge_square_sum[rows] / least if self.fields else 0.0
        total = self.of_totals(flat.visits[rows])[:, None]
        if self.unvisited is None:
            scores = self.formula(value, square, visits, total, flat.prior[rows])
        else:
            scores = self.formula(value, square, least, total, flat.prior[rows])
            scores[visits == 0] = self.unvisited
        scores[~flat.open[rows]] = -np.inf
        return scores


class UCB1(ScoreRule):
    """UCB1 in trees (UCT): the mean return, and more for actions that were seldom taken.

    Actions never taken come first, in their order. The score is
    ``value + c * sqrt(log(visits of the node) / visits of the action)``.

    Source: L. Kocsis and C. Szepesvari, "Bandit Based Monte-Carlo Planning", ECML 2006; the formula:
    :func:`rlnb.modules.mcts.formulas.ucb1`.

    Args:
        c: how much is explored.

    Example:
        >>> UCB1()
        UCB1(c=1.4142135623730951)
    """

    def __init__(self, c: float = math.sqrt(2)) -> None:
        super().__init__(c)

    def formula(self, value: Any, square: Any, visits: Any, total: Any, prior: Any) -> Any:
        """Score actions; see :meth:`ScoreRule.formula`."""
        return formulas.ucb1((value - self._middle) / self._half, visits, total, self.c)


class UCB1Tuned(ScoreRule):
    """UCB1-Tuned: as UCB1, and actions whose returns vary little are explored less. Returns are mapped to [0, 1].

    Source: :func:`rlnb.modules.mcts.formulas.ucb1_tuned`.

    Args:
        c: how much is added to the variance for what was not seen yet.

    Example:
        >>> UCB1Tuned(c=1.0)
        UCB1Tuned(c=1.0)
    """

    fields = ("edge_square_sum",)

    def __init__(self, c: float = 2.0) -> None:
        super().__init__(c)

    def formula(self, value: Any, square: Any, visits: Any, total: Any, prior: Any) -> Any:
        """Score actions; see :meth:`ScoreRule.formula`."""
        return formulas.ucb1_tuned((value - self.low) / (self.high - self.low), square, visits, total, self.c)

    def learn(self, tree: SearchTree, rows: Array, actions: Array, returns: Array) -> None:
        """Add the squares of returns; see :meth:`Rule.learn`."""
        tree.flat.edge_square_sum[rows, actions] += ((returns - self.low) / (self.high - self.low)) ** 2


class PUCT(ScoreRule):
    """PUCT, as in AlphaZero: the mean return, and more for actions that the policy likes and that were seldom taken.

    The score is ``value + c * prior * sqrt(visits of the node) / (1 + visits of the action)``. With a ``base`` the
    constant grows with the visits: ``c + log((visits + base + 1) / base)``.

    Source: :func:`rlnb.modules.mcts.formulas.puct`.

    Args:
        c: how much is explored.
        base: None (the default), or how many visits it takes until the constant grows; AlphaZero has 19652.
        first_play: the value, within the range of returns, of an action that was never taken.

    Example:
        >>> PUCT(c=2.0, base=19652)
        PUCT(c=2.0, base=19652, first_play=0.0)
    """

    unvisited = None

    def __init__(self, c: float = 1.25, base: float | None = None, first_play: float = 0.0) -> None:
        super().__init__(c)
        if base is not None and not base > 0:
            raise ValueError(f"PUCT(base=...) is a positive number of visits or None, and is {base!r}.")
        self.base, self.first_play = base, first_play

    def of_total(self, total: float) -> Any:
        """Return the square root of the visits times the constant."""
        return math.sqrt(total) * (
            self.c if self.base is None else self.c + math.log((total + self.base + 1) / self.base)
        )

    def of_totals(self, totals: Array) -> Array:
        """Do :meth:`of_total` for an array."""
        return np.sqrt(totals) * (
            self.c if self.base is None else self.c + np.log((totals + self.base + 1) / self.base)
        )

    def formula(self, value: Any, square: Any, visits: Any, total: Any, prior: Any) -> Any:
        """Score actions; see :meth:`ScoreRule.formula`."""
        if isinstance(visits, np.ndarray):
            value = np.where(visits > 0, value, self.first_play)
        elif not visits:
            value = self.first_play
        return formulas.puct((value - self._middle) / self._half, visits, total, prior, 1.0)

    def _shown(self) -> tuple[str, ...]:
        return ("c", "base", "first_play")


class EXP3(Rule):
    """EXP3: draws actions by weights that grow with what they gained; for opponents and rewards that change.

    An action is drawn with the probability ``(1 - gamma) * weight / sum of weights + gamma / actions``; its weight is
    then multiplied by ``exp(gamma * gain / probability / actions)``, where the gain is the return mapped to [0, 1].

    Source: :func:`rlnb.modules.mcts.formulas.exp3`.

    Args:
        gamma: how much of the choice is uniform, above 0 and at most 1.

    Example:
        >>> EXP3(gamma=0.2)
        EXP3(gamma=0.2)
    """

    fields = ("log_weight",)

    def __init__(self, gamma: float = 0.1) -> None:
        if not 0 < gamma <= 1:
            raise ValueError(
                f"EXP3(gamma=...) is the share of uniform choices, above 0 and at most 1, and is {gamma!r}."
            )
        self.gamma = gamma

    def probabilities(self, tree: SearchTree, rows: Array) -> Array:
        """Return how likely each action is drawn.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            float64 ``[k, A]``; 0 for what is illegal or closed.
        """
        legal = tree.selectable(rows)
        logs = np.where(legal, tree.flat.log_weight[rows], -np.inf)
        weights = np.exp(logs - logs.max(-1, keepdims=True))  # as shares they are the same, and none is too large
        share = weights / weights.sum(-1, keepdims=True)
        return np.where(legal, formulas.exp3(share, legal.sum(-1, keepdims=True), self.gamma), 0.0)

    def scores(self, tree: SearchTree, rows: Array) -> Array:
        """Score the actions by their probabilities; see :meth:`Rule.scores`."""
        return np.where(tree.selectable(rows), self.probabilities(tree, rows), -np.inf)

    def choose(self, tree: SearchTree, rows: Array, depth: int, rng: np.random.Generator) -> Array:
        """Draw an action in some nodes; see :meth:`Rule.choose`."""
        edges = self.probabilities(tree, rows).cumsum(-1)
        drawn = rng.random((len(rows), 1)) * edges[:, -1:]
        return (edges > drawn).argmax(-1)

    def learn(self, tree: SearchTree, rows: Array, actions: Array, returns: Array) -> None:
        """Let the weights of actions grow; see :meth:`Rule.learn`."""
        chances = self.probabilities(tree, rows)[np.arange(len(rows)), actions]
        gain = (returns - self.low) / (self.high - self.low)
        tree.flat.log_weight[rows, actions] += self.gamma * gain / chances / tree.selectable(rows).sum(-1)

    def _shown(self) -> tuple[str, ...]:
        return ("gamma",)


__all__ = ["EXP3", "PUCT", "UCB1", "Rule", "ScoreRule", "UCB1Tuned"]
