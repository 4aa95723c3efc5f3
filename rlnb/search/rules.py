"""Rules that select actions in a node: UCB1, UCB1-Tuned, PUCT and EXP3."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from rlnb.modules.mcts import formulas
from rlnb.search.games import Array
from rlnb.search.tree import SearchTree


class Rule(ABC):
    """Base class of rules: selects actions during a search, and the action to play after it.

    Attributes:
        fields: names of the arrays that the tree keeps for the rule, see ``rlnb.search.tree.RULE_FIELDS``.
        low: the least return.
        high: the greatest return.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> class LeastVisited(Rule):
        ...     def scores(self, tree, rows):
        ...         return np.where(tree.flat.open[rows], -tree.flat.edge_visits[rows].astype(float), -np.inf)
        >>> MCTS(TicTacToeEnv(), rule=LeastVisited(), seed=0).reset().run(18).visits.tolist()
        [2, 2, 2, 2, 2, 2, 2, 2, 2]
    """

    fields: tuple[str, ...] = ()
    low, high = -1.0, 1.0
    #: Attributes in the ``repr``.
    _shown: tuple[str, ...] = ("c",)

    def scale(self, low: float, high: float) -> None:
        """Set the range of the returns, from the least, ``low``, to the greatest, ``high``."""
        self.low, self.high = low, high

    @abstractmethod
    def scores(self, tree: SearchTree, rows: Array) -> Array:
        """Score the actions of some nodes.

        Args:
            tree: the trees.
            rows: rows of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            float64 ``[k, A]``; minus infinity for illegal or closed actions, infinity for actions to try first.
        """

    def start(self, tree: SearchTree, rng: np.random.Generator) -> None:  # noqa: B027 - most rules draw nothing
        """Prepare for a search from new roots.

        Args:
            tree: the trees, which have their roots.
            rng: random generator.
        """

    def choose(self, tree: SearchTree, rows: Array, depth: int, rng: np.random.Generator) -> Array:
        """Select an action in some nodes: the one with the best score, the first one among equals.

        Args:
            tree: the trees.
            rows: rows of the nodes in ``tree.flat``, ``[k]``.
            depth: depth of the nodes; 0 is a root.
            rng: random generator.

        Returns:
            The actions, int64 ``[k]``.
        """
        return self.scores(tree, rows).argmax(-1)

    def learn(self, tree: SearchTree, rows: Array, actions: Array, returns: Array) -> None:  # noqa: B027 - see start
        """Update the rule's arrays with returns, before the tree adds them to its own.

        Args:
            tree: the trees.
            rows: rows of the nodes where the actions were taken, ``[k]``.
            actions: the actions, ``[k]``.
            returns: their returns for the players who took them, ``[k]``.
        """

    def policy(self, tree: SearchTree) -> Array:
        """Return the policy that the search found at the roots, for training: the shares of the visits.

        Args:
            tree: the trees.

        Returns:
            Probabilities, float64 ``[B, A]``.
        """
        visits = tree.edge_visits[:, 0].astype(np.float64)
        total = visits.sum(-1, keepdims=True)
        return np.where(total > 0, visits / np.maximum(total, 1), tree.prior[:, 0])

    def best(self, tree: SearchTree) -> Array:
        """Return the action to play: the most visited open action, the one with the best value among equals.

        Args:
            tree: the trees.

        Returns:
            The actions, int64 ``[B]``.
        """
        visits, legal = tree.edge_visits[:, 0], tree.selectable(tree.roots)
        value = np.where(visits > 0, tree.edge_value_sum[:, 0] / np.maximum(visits, 1), tree.prior[:, 0] + self.low - 1)
        most = legal & (visits == np.where(legal, visits, -1).max(-1, keepdims=True))
        return np.where(most, value, -np.inf).argmax(-1)

    def __repr__(self) -> str:
        known = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name in self._shown)
        return f"{type(self).__name__}({known})"


class ScoreRule(Rule):
    """A rule whose score is a formula of the value, visits and prior of an action and the visits of the node.

    Args:
        c: exploration constant.

    Raises:
        ValueError: If ``c`` is negative, infinite or NaN.
    """

    #: Score of an action that was never taken. None: the formula gives one.
    unvisited: float | None = math.inf

    def __init__(self, c: float) -> None:
        if not (math.isfinite(c) and c >= 0):
            raise ValueError(f"{type(self).__name__}(c=...) must be a number of at least 0, got {c!r}.")
        self.c = c
        self._middle, self._half = 0.0, 1.0

    def scale(self, low: float, high: float) -> None:
        """Set the range of the returns, which scores map to [-1, 1]; see :meth:`Rule.scale`."""
        super().scale(low, high)
        self._middle, self._half = (low + high) / 2, (high - low) / 2

    def total_term(self, total: Any) -> Any:
        """Return the part of the formula that depends on the node alone: here the logarithm of its visits.

        ``total`` is a number or an array; :meth:`formula` takes the result as ``total``.
        """
        return math.log(total) if isinstance(total, int) else np.log(total)

    @abstractmethod
    def formula(self, value: Any, square: Any, visits: Any, total: Any, prior: Any) -> Any:
        """Score actions, given as numbers or as arrays.

        Args:
            value: mean return.
            square: mean of the squared returns, mapped to [0, 1]; 0 if the rule does not keep it.
            visits: visits of the action, at least 1 unless ``unvisited`` is None.
            total: what :meth:`total_term` returned.
            prior: prior probability.

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
        total = self.total_term(flat.visits[rows])[:, None]
        if self.unvisited is None:
            scores = self.formula(value, square, visits, total, flat.prior[rows])
        else:
            scores = self.formula(value, square, least, total, flat.prior[rows])
            scores[visits == 0] = self.unvisited
        scores[~flat.open[rows]] = -np.inf
        return scores


class UCB1(ScoreRule):
    """UCB1 in trees (UCT): the mean return plus a bonus for rarely taken actions.

    Actions never taken come first, in order. The score is
    ``value + c * sqrt(log(visits of the node) / visits of the action)``, :func:`rlnb.modules.mcts.formulas.ucb1`.

    Source: L. Kocsis and C. Szepesvari, "Bandit Based Monte-Carlo Planning", ECML 2006.

    Args:
        c: exploration constant.

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
    """UCB1-Tuned: like UCB1, but explores actions less if their returns vary little. Returns are mapped to [0, 1].

    The score is :func:`rlnb.modules.mcts.formulas.ucb1_tuned`.

    Args:
        c: constant of the confidence term of the variance.

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
        """Add the squared returns; see :meth:`Rule.learn`."""
        tree.flat.edge_square_sum[rows, actions] += ((returns - self.low) / (self.high - self.low)) ** 2


class PUCT(ScoreRule):
    """PUCT, as in AlphaZero: the mean return plus a bonus for rarely taken actions that the policy rates high.

    The score is ``value + c * prior * sqrt(visits of the node) / (1 + visits of the action)``,
    :func:`rlnb.modules.mcts.formulas.puct`. With a ``base`` the constant grows with the visits:
    ``c + log((visits + base + 1) / base)``.

    Args:
        c: exploration constant.
        base: number of visits after which the constant grows; AlphaZero uses 19652. None (the default): it is constant.
        first_play: value of an action that was never taken, in the range of the returns.

    Raises:
        ValueError: If ``c`` is negative, infinite or NaN, or ``base`` is not positive.

    Example:
        >>> PUCT(c=2.0, base=19652)
        PUCT(c=2.0, base=19652, first_play=0.0)
    """

    unvisited = None
    _shown = ("c", "base", "first_play")

    def __init__(self, c: float = 1.25, base: float | None = None, first_play: float = 0.0) -> None:
        super().__init__(c)
        if base is not None and not base > 0:
            raise ValueError(f"PUCT(base=...) must be a positive number of visits or None, got {base!r}.")
        self.base, self.first_play = base, first_play

    def total_term(self, total: Any) -> Any:
        """Return the square root of the visits times the constant; see :meth:`ScoreRule.total_term`."""
        constant = self.c if self.base is None else formulas.puct_constant(total, self.c, self.base)
        return formulas.sqrt(total) * constant

    def formula(self, value: Any, square: Any, visits: Any, total: Any, prior: Any) -> Any:
        """Score actions; see :meth:`ScoreRule.formula`."""
        if isinstance(visits, np.ndarray):
            value = np.where(visits > 0, value, self.first_play)
        elif not visits:
            value = self.first_play
        return formulas.puct((value - self._middle) / self._half, visits, total, prior, 1.0)


class EXP3(Rule):
    """EXP3: draws actions by weights that grow with their returns; for opponents and rewards that change.

    An action is drawn with the probability ``(1 - gamma) * weight / sum of weights + gamma / actions``,
    :func:`rlnb.modules.mcts.formulas.exp3`. Its weight is then multiplied by
    ``exp(gamma * gain / probability / actions)``, where the gain is the return mapped to [0, 1].

    Args:
        gamma: share of uniform exploration, above 0 and at most 1.

    Raises:
        ValueError: If ``gamma`` is not in (0, 1].

    Example:
        >>> EXP3(gamma=0.2)
        EXP3(gamma=0.2)
    """

    fields = ("log_weight",)
    _shown = ("gamma",)

    def __init__(self, gamma: float = 0.1) -> None:
        if not 0 < gamma <= 1:
            raise ValueError(
                f"EXP3(gamma=...), the share of uniform choices, must be above 0 and at most 1, got {gamma!r}."
            )
        self.gamma = gamma

    def probabilities(self, tree: SearchTree, rows: Array) -> Array:
        """Return the probability of each action of the nodes at ``rows``, ``[k, A]``; 0 for illegal or closed ones."""
        legal = tree.selectable(rows)
        share = formulas.softmax(np.where(legal, tree.flat.log_weight[rows], -np.inf))
        return np.where(legal, formulas.exp3(share, legal.sum(-1, keepdims=True), self.gamma), 0.0)

    def scores(self, tree: SearchTree, rows: Array) -> Array:
        """Return the probabilities as scores; see :meth:`Rule.scores`."""
        return np.where(tree.selectable(rows), self.probabilities(tree, rows), -np.inf)

    def choose(self, tree: SearchTree, rows: Array, depth: int, rng: np.random.Generator) -> Array:
        """Draw an action in each node; see :meth:`Rule.choose`."""
        edges = self.probabilities(tree, rows).cumsum(-1)
        drawn = rng.random((len(rows), 1)) * edges[:, -1:]
        return (edges > drawn).argmax(-1)

    def learn(self, tree: SearchTree, rows: Array, actions: Array, returns: Array) -> None:
        """Update the weights of the actions; see :meth:`Rule.learn`."""
        chances = self.probabilities(tree, rows)[np.arange(len(rows)), actions]
        gain = (returns - self.low) / (self.high - self.low)
        tree.flat.log_weight[rows, actions] += self.gamma * gain / chances / tree.selectable(rows).sum(-1)


__all__ = ["EXP3", "PUCT", "UCB1", "Rule", "ScoreRule", "UCB1Tuned"]
