"""The three phases for a single tree of a connection game, on plain numbers: for one tree faster than arrays are.

The numbers are read and written in the memory of the tree's arrays. What is done is what ``phases`` does.
"""

from __future__ import annotations

import math
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from rlnb.search.connection import ConnectionGame
from rlnb.search.evaluation import RandomRollout
from rlnb.search.phases import Selected, Step
from rlnb.search.rules import ScoreRule
from rlnb.search.solver import Solver
from rlnb.search.tree import SearchTree

_TREE = np.zeros(1, dtype=np.int64)


class SingleTree:
    """The phases of a search in one tree, by a rule with a formula and with random rollouts.

    Args:
        tree: a batch of one.
        game: the rules.
        rule: selects the actions.
        evaluation: random rollouts.
        random: what the rollouts draw from.
        discount: of rewards, for each step.
        solver: keeps the bounds of the nodes; None where there are none.
    """

    def __init__(
        self,
        tree: SearchTree,
        game: ConnectionGame,
        rule: ScoreRule,
        evaluation: RandomRollout,
        random: Random,
        discount: float,
        solver: Solver | None = None,
    ) -> None:
        self.solver = solver
        self.tree, self.game, self.rule, self.evaluation = tree, game, rule, evaluation
        self.random, self.discount = random, discount
        self._arrays: Any = None
        self._view()

    def _view(self) -> None:
        """Look at the memory of the tree; it is elsewhere after the tree has grown."""
        arrays = self.tree.arrays
        if self._arrays is arrays:
            return
        self._arrays = arrays
        self.memory = SimpleNamespace(**{name: array.reshape(-1).data for name, array in arrays.items()})

    def _moves(self, node: int) -> list[int]:
        memory, gates = self.memory, self.game.boards.gates
        if self.solver is not None:
            first = node * self.tree.n_actions
            return [action for action, open_ in enumerate(memory.open[first : first + len(gates)]) if open_]
        occupied = memory.states[2 * node] | memory.states[2 * node + 1]
        return [action for action, gate in enumerate(gates) if not occupied & gate]

    def select(self) -> list[tuple[int, int]]:
        """Go down from the root; see :func:`rlnb.search.phases.select`.

        Returns:
            The pairs of node and action.
        """
        self._view()
        memory, n = self.memory, self.tree.n_actions
        edge_visits, edge_sum, prior, children = (
            memory.edge_visits, memory.edge_value_sum, memory.prior, memory.children,
        )  # fmt: skip
        squares = getattr(memory, "edge_square_sum", None)
        rule, formula, first = self.rule, self.rule.formula, self.rule.unvisited is not None
        node, path = 0, []
        while True:
            total, best, chosen, square = rule.of_total(memory.visits[node]), -np.inf, -1, 0.0
            for action in self._moves(node):
                edge = node * n + action
                visits = edge_visits[edge]
                if visits:
                    if squares is not None:
                        square = squares[edge] / visits
                    score = formula(edge_sum[edge] / visits, square, visits, total, prior[edge])
                elif first:
                    chosen = action
                    break
                else:
                    score = formula(0.0, 0.0, 0, total, prior[edge])
                if score > best:
                    best, chosen = score, action
            path.append((node, chosen))
            child = children[node * n + chosen]
            if child < 0 or memory.terminal[child]:
                return path
            node = child

    def expand(self, path: list[tuple[int, int]]) -> tuple[int, float]:
        """Play the last action, evaluate and add a node; see :func:`rlnb.search.phases.expand`.

        Args:
            path: by :meth:`select`.

        Returns:
            The node where the path ends and its value there.
        """
        memory, n, boards = self.memory, self.tree.n_actions, self.game.boards
        node, action = path[-1]
        child = memory.children[node * n + action]
        if child >= 0:
            return child, 0.0
        mine, theirs = memory.states[2 * node], memory.states[2 * node + 1]
        after = mine | boards.place(mine | theirs, action)
        won = bool(boards.won(after))
        moves = [a for a, gate in enumerate(boards.gates) if not (after | theirs) & gate]
        over = won or not moves
        child = int(self.tree.count[0])
        memory.states[2 * child], memory.states[2 * child + 1] = theirs, after
        memory.to_play[child] = 1 - memory.to_play[node]
        memory.terminal[child], memory.reward[child] = over, float(won)
        memory.parent[child], memory.action[child] = node, action
        for move in moves:
            memory.legal[child * n + move] = True
            memory.prior[child * n + move] = 0.0 if over else 1 / len(moves)
        settled = over if self.solver is None else self._see_bounds(child, theirs, after, [] if over else moves)
        value = memory.lower[child] if settled and not over else 0.0 if over else self._rollout(theirs, after)
        memory.evaluation[child] = value
        memory.children[node * n + action] = child
        self.tree.count[0] = child + 1
        return child, value

    def _see_bounds(self, child: int, mine: int, theirs: int, moves: list[int]) -> bool:
        """Write the bounds of a new node for a solver; without moves it is an end. Return whether it is proven."""
        memory, n, solver = self.memory, self.tree.n_actions, self.solver
        assert solver is not None
        if not moves:
            return True  # all bounds of an end are 0, as the memory is
        first = child * n
        for edge in range(first, first + n):
            memory.edge_lower[edge] = memory.edge_upper[edge] = -math.inf
        lower = upper = -math.inf
        bounds = self.game.outlook_one(mine, theirs, moves, self.discount)
        for move, (least, most) in zip(moves, bounds, strict=True):
            memory.edge_lower[first + move], memory.edge_upper[first + move] = least, most
            lower, upper = max(lower, least), max(upper, most)
        for move, (_, most) in zip(moves, bounds, strict=True):
            memory.open[first + move] = most > lower
        memory.lower[child], memory.upper[child] = lower, upper
        return lower == upper

    def _rollout(self, mine: int, theirs: int) -> float:
        play, random, discount = self.game.playout_one, self.random, self.discount
        total, rollouts, max_steps = 0.0, self.evaluation.rollouts, self.evaluation.max_steps
        for _ in range(rollouts):
            total += play(mine, theirs, random, discount, max_steps)
        return total / rollouts

    def back_up(self, path: list[tuple[int, int]], leaf: int, value: float) -> bool:
        """Add the return on the way back; see :func:`rlnb.search.phases.back_up`.

        Args:
            path: by :meth:`select`.
            leaf: where it ends.
            value: what was found there.

        Returns:
            Whether a solver changed the bounds of the root.
        """
        memory, n, discount, learns = self.memory, self.tree.n_actions, self.discount, self.rule.fields
        solver = self.solver
        tightened = solver is not None and (
            memory.lower[leaf] != solver.low or memory.upper[leaf] != solver.high or discount != 1
        )
        memory.visits[leaf] += 1
        memory.value_sum[leaf] += value
        for node, action in reversed(path):
            value = memory.reward[leaf] - discount * value
            edge = node * n + action
            if learns:
                self.rule.learn(self.tree, _TREE + node, _TREE + action, np.array([value]))
            memory.edge_visits[edge] += 1
            memory.edge_value_sum[edge] += value
            if solver is not None:
                if tightened:
                    tightened = solver.update_one(memory, node, action, leaf, n)
                value = min(max(value, memory.lower[node]), memory.upper[node])
            memory.visits[node] += 1
            memory.value_sum[node] += value
            leaf = node
        return tightened

    def selected(self, path: list[tuple[int, int]]) -> Selected:
        """Write a path as the phases for many trees do.

        Args:
            path: by :meth:`select`.

        Returns:
            The same path.
        """
        steps = []
        for node, action in path:
            nodes, actions = np.array([node]), np.array([action])
            steps.append(Step(_TREE, nodes, actions, self.tree.children[0, nodes, actions].astype(np.int64)))
        last = steps[-1]
        return Selected(_TREE, steps, last.nodes, last.actions, last.children)


def fits_single(batch: int, game: Any, rule: Any, evaluation: Any) -> bool:
    """Tell whether a search can be done on plain numbers.

    Args:
        batch: how many trees there are.
        game: the rules.
        rule: selects the actions.
        evaluation: of the leaves.

    Returns:
        True for one tree of a connection game with a formula and random rollouts, and nothing that was overridden.
    """
    plain = type(game) is ConnectionGame and type(evaluation) is RandomRollout and isinstance(rule, ScoreRule)
    return batch == 1 and plain and type(rule).choose is ScoreRule.choose and type(rule).scores is ScoreRule.scores


def single_tree(
    tree: SearchTree,
    game: Any,
    rule: Any,
    evaluation: Any,
    random: Random,
    discount: float,
    solver: Solver | None = None,
) -> SingleTree:
    """Make the phases of a search for which :func:`fits_single` is True."""
    game, rule, evaluation = cast(ConnectionGame, game), cast(ScoreRule, rule), cast(RandomRollout, evaluation)
    return SingleTree(tree, game, rule, evaluation, random, discount, solver)


__all__ = ["SingleTree", "fits_single", "single_tree"]
