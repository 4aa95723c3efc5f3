"""MCTS-Solver: proven wins, losses and draws are backed up as bounds on the return of each node."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rlnb.search.games import Array
from rlnb.search.tree import SearchTree


class EdgeBounds(NamedTuple):
    """Bounds on the return of each action of some nodes, for the player who takes it; float64 ``[k, A]`` each.

    Attributes:
        lower: what the action gains at least; minus infinity for an illegal one.
        upper: what it gains at most; minus infinity for an illegal one.
    """

    lower: Array
    upper: Array


class Solver:
    """Keeps, for each node, between which bounds its return lies with best play, and backs proofs up.

    A new node has the bounds of the game, an end of an episode the bounds 0 and 0. A node gains at least what its best
    action gains at least, and at most what the action with the greatest upper bound gains. Where both bounds are equal
    the node is *proven*: a win, a loss or a draw in a game of two players, the greatest return with one. An action that
    cannot gain more than another one gains for certain is closed: the rule no longer selects it.

    This is MCTS-Solver with score bounds, so it holds for any rewards. It needs an env without chance: in a tree that
    holds one outcome of each action, a proof is about that outcome only.

    Source: M. Winands, Y. Björnsson and J.-T. Saito, "Monte-Carlo Tree Search Solver", CG 2008; T. Cazenave and
    A. Saffidine, "Score Bounded Monte-Carlo Tree Search", CG 2010.

    Args:
        low: no return is less, from any position, for any player; minus infinity if this is not known.
        high: no return is greater; infinity if this is not known.
        discount: of rewards, for each step.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> search = MCTS(TicTacToeEnv(), solver=True, seed=0).reset().run(5_000)
        >>> bool(search.solved), float(search.proven)
        (True, 0.0)
    """

    def __init__(self, low: float = -math.inf, high: float = math.inf, discount: float = 1.0) -> None:
        self.low, self.high, self.discount = low, high, discount

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of the game, which a new node has."""
        return self.low, self.high

    def edge_bounds(self, tree: SearchTree, rows: Array) -> EdgeBounds:
        """Compute the bounds of the actions of some nodes from those of the nodes that they lead to.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            The bounds.
        """
        flat = tree.flat
        children = flat.children[rows]
        known, after = children >= 0, (rows - rows % tree.capacity)[:, None] + np.maximum(children, 0)
        low, high = flat.lower[after], flat.upper[after]
        same = flat.to_play[after] == flat.to_play[rows][:, None]
        lower = flat.reward[after] + self.discount * np.where(same, low, -high)
        upper = flat.reward[after] + self.discount * np.where(same, high, -low)
        legal = flat.legal[rows]
        lower = np.where(legal, np.where(known, np.maximum(lower, self.low), self.low), -np.inf)
        upper = np.where(legal, np.where(known, np.minimum(upper, self.high), self.high), -np.inf)
        return EdgeBounds(lower, upper)

    def tightens(self, reward: Array, terminal: Array) -> Array:
        """Tell which new nodes say more of their parent than it knew.

        Args:
            reward: of the steps to them, ``[k]``.
            terminal: whether the episode ends there, ``[k]``.

        Returns:
            bool ``[k]``.
        """
        return terminal | (reward != 0) | (self.discount != 1)

    def update(self, tree: SearchTree, rows: Array) -> Array:
        """Compute the bounds of some nodes anew, and which of their actions are still open.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            Whether the bounds of each have changed, bool ``[k]``.
        """
        flat = tree.flat
        edges = self.edge_bounds(tree, rows)
        lower, upper = edges.lower.max(-1), edges.upper.max(-1)
        changed: Array = (lower != flat.lower[rows]) | (upper != flat.upper[rows])
        flat.lower[rows], flat.upper[rows] = lower, upper
        flat.open[rows] = edges.upper > lower[:, None]
        return changed

    def update_one(self, memory: Any, node: int, n_actions: int) -> bool:
        """Do :meth:`update` for one node of a single tree in which two players take turns, on plain numbers.

        Args:
            memory: the arrays of the tree as flat memory, see :class:`~rlnb.search.single.SingleTree`.
            node: which.
            n_actions: how many actions there are.

        Returns:
            Whether the bounds have changed.
        """
        first, discount, low, high = node * n_actions, self.discount, self.low, self.high
        lower, upper, tops = -math.inf, -math.inf, []
        for edge in range(first, first + n_actions):
            if not memory.legal[edge]:
                continue
            child, least, most = memory.children[edge], low, high
            if child >= 0:
                least = max(memory.reward[child] - discount * memory.upper[child], low)
                most = min(memory.reward[child] - discount * memory.lower[child], high)
            lower, upper = max(lower, least), max(upper, most)
            tops.append((edge, most))
        for edge, most in tops:
            memory.open[edge] = most > lower
        changed = bool(lower != memory.lower[node] or upper != memory.upper[node])
        memory.lower[node], memory.upper[node] = lower, upper
        return changed


__all__ = ["EdgeBounds", "Solver"]
