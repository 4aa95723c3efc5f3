"""MCTS-Solver: proven wins, losses and draws, backed up as bounds on the return of each node."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rlnb.search.games import Array, Game, Positions
from rlnb.search.tree import SearchTree


class Bounds(NamedTuple):
    """Bounds on the returns of actions for the player who takes them, float64 ``[k, A]`` each."""

    lower: Array  #: lower bounds; minus infinity for illegal actions
    upper: Array  #: upper bounds; minus infinity for illegal actions


class Solver:
    """Keeps bounds on the return of each node under best play, and backs up proofs.

    An action that was never taken has the bounds of the game, or tighter ones that the game finds without a search
    (:meth:`Game.outlook`). A terminal node has the bounds 0 and 0. The lower bound of a node is the greatest lower
    bound of its actions, its upper bound the greatest upper bound. Where both are equal the node is *proven*: a win, a
    loss or a draw in a game of two players, the greatest return with one player. An action whose upper bound does not
    exceed the lower bound of its node is closed: the rule no longer selects it. So no simulation ends in a proven node.

    This is MCTS-Solver with score bounds, which work with any rewards. The env must be deterministic: the tree holds
    one outcome of each action, and a proof covers only that outcome.

    Source: M. Winands, Y. Björnsson and J.-T. Saito, "Monte-Carlo Tree Search Solver", CG 2008; T. Cazenave and
    A. Saffidine, "Score Bounded Monte-Carlo Tree Search", CG 2010.

    Args:
        low: least return from any position for any player; minus infinity if it is not known.
        high: greatest return; infinity if it is not known.
        discount: discount of rewards per step.

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
        """Return the first bounds of the actions of new nodes; 0 for all actions of a terminal node."""
        seen = game.outlook(positions, self.discount)
        lower, upper = (self.low, self.high) if seen is None else (np.maximum(seen[0], self.low), seen[1])
        terminal = positions.terminal[:, None]
        return Bounds(
            np.where(terminal, 0.0, np.where(positions.legal, lower, -np.inf)),
            np.where(terminal, 0.0, np.where(positions.legal, np.minimum(upper, self.high), -np.inf)),
        )

    def tightens(self, tree: SearchTree, rows: Array) -> Array:
        """Return which new nodes tighten the bounds of the action that led to them, bool ``[k]``."""
        flat = tree.flat
        within = (flat.lower[rows] == self.low) & (flat.upper[rows] == self.high)
        return ~within | (flat.reward[rows] != 0) | (self.discount != 1)

    def update(self, tree: SearchTree, rows: Array, actions: Array, after: Array) -> Array:
        """Back up the bounds of nodes to their parents, the nodes at ``rows`` of ``tree.flat``, ``[k]``.

        The ``actions`` of the parents lead to the nodes at ``after``. Returns whether the bounds of each parent have
        changed, bool ``[k]``.
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
        """Do :meth:`update` for one node of a single tree in which two players alternate, on Python numbers.

        ``memory`` holds memory views of the tree's arrays, see :class:`~rlnb.search.scalar_phases.ScalarPhases`.
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
