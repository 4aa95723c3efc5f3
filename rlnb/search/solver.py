"""MCTS-Solver: proven wins, losses and draws are backed up as bounds on the return of each node."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rlnb.search.games import Array, Game, Positions
from rlnb.search.tree import SearchTree


class Bounds(NamedTuple):
    """Between which bounds the returns of actions lie, for the player who takes them; float64 ``[k, A]`` each.

    Attributes:
        lower: what each action gains at least; minus infinity for an illegal one.
        upper: what each action gains at most; minus infinity for an illegal one.
    """

    lower: Array
    upper: Array


class Solver:
    """Keeps, for each node, between which bounds its return lies with best play, and backs proofs up.

    An action that was never taken has the bounds of the game, or those that the game sees at a glance
    (:meth:`Game.outlook`); an end of an episode has the bounds 0 and 0. A node gains at least what its best action
    gains at least, and at most the greatest upper bound of its actions. Where both are equal the node is *proven*: a
    win, a loss or a draw in a game of two players, the greatest return with one. An action that cannot gain more than
    another one gains for certain is closed: the rule no longer selects it. So no simulation ends in a proven node.

    This is MCTS-Solver with score bounds, which hold for any rewards. It needs an env without chance: in a tree that
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
        >>> search = MCTS(TicTacToeEnv(), solver=True, seed=0).reset().run(10_000)
        >>> bool(search.solved), float(search.proven)
        (True, 0.0)
    """

    def __init__(self, low: float = -math.inf, high: float = math.inf, discount: float = 1.0) -> None:
        self.low, self.high, self.discount = low, high, discount

    def outlook(self, game: Game, positions: Positions) -> Bounds:
        """Return the bounds that the actions of new nodes have.

        Args:
            game: the rules.
            positions: the nodes, ``k`` of them.

        Returns:
            The bounds; 0 for all actions at an end of an episode.
        """
        seen = game.outlook(positions, self.discount)
        lower, upper = (self.low, self.high) if seen is None else (np.maximum(seen[0], self.low), seen[1])
        terminal = positions.terminal[:, None]
        return Bounds(
            np.where(terminal, 0.0, np.where(positions.legal, lower, -np.inf)),
            np.where(terminal, 0.0, np.where(positions.legal, np.minimum(upper, self.high), -np.inf)),
        )

    def tightens(self, tree: SearchTree, rows: Array) -> Array:
        """Tell which new nodes say more of the action that led to them than was known.

        Args:
            tree: the trees.
            rows: of the nodes in ``tree.flat``, ``[k]``.

        Returns:
            bool ``[k]``.
        """
        flat = tree.flat
        within = (flat.lower[rows] == self.low) & (flat.upper[rows] == self.high)
        return ~within | (flat.reward[rows] != 0) | (self.discount != 1)

    def update(self, tree: SearchTree, rows: Array, actions: Array, after: Array) -> Array:
        """Back the bounds of some nodes up to the nodes before them.

        Args:
            tree: the trees.
            rows: of the nodes before, in ``tree.flat``, ``[k]``.
            actions: that were taken there, ``[k]``.
            after: rows of the nodes that they lead to, ``[k]``.

        Returns:
            Whether the bounds of each node before have changed, bool ``[k]``.
        """
        flat = tree.flat
        same = flat.to_play[after] == flat.to_play[rows]
        low, high = flat.lower[after], flat.upper[after]
        least = flat.reward[after] + self.discount * np.where(same, low, -high)
        most = flat.reward[after] + self.discount * np.where(same, high, -low)
        flat.edge_lower[rows, actions] = np.maximum(least, flat.edge_lower[rows, actions])
        flat.edge_upper[rows, actions] = np.minimum(most, flat.edge_upper[rows, actions])
        lower, upper = flat.edge_lower[rows].max(-1), flat.edge_upper[rows].max(-1)
        changed: Array = (lower != flat.lower[rows]) | (upper != flat.upper[rows])
        flat.lower[rows], flat.upper[rows] = lower, upper
        flat.open[rows] = flat.edge_upper[rows] > lower[:, None]
        return changed

    def update_one(self, memory: Any, node: int, action: int, child: int, n_actions: int) -> bool:
        """Do :meth:`update` for one node of a single tree in which two players take turns, on plain numbers.

        Args:
            memory: the arrays of the tree as flat memory, see :class:`~rlnb.search.single.SingleTree`.
            node: the node before.
            action: that was taken there.
            child: the node that it leads to.
            n_actions: how many actions there are.

        Returns:
            Whether the bounds of the node before have changed.
        """
        first = node * n_actions
        edge, last = first + action, first + n_actions
        lowers, uppers, reward = memory.edge_lower, memory.edge_upper, memory.reward[child]
        lowers[edge] = max(lowers[edge], reward - self.discount * memory.upper[child])
        uppers[edge] = min(uppers[edge], reward - self.discount * memory.lower[child])
        tops = uppers[first:last].tolist()
        lower, upper = max(lowers[first:last].tolist()), max(tops)
        for place, top in enumerate(tops, first):
            memory.open[place] = top > lower
        changed = bool(lower != memory.lower[node] or upper != memory.upper[node])
        memory.lower[node], memory.upper[node] = lower, upper
        return changed


__all__ = ["Bounds", "Solver"]
