"""The phases of a simulation in a single tree of a connection game, on Python numbers in place of arrays.

This is a second implementation of :mod:`rlnb.search.phases`, and must give the same trees. It is kept for its speed:
with one root, numpy's overhead per call exceeds the work of a simulation. Measured per simulation, scalar against
arrays: tic-tac-toe 21 against 173 us, with a solver 33 against 228 us; Connect Four 40 against 209 us, with a solver 60
against 284 us.
"""

from __future__ import annotations

import math
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from rlnb.search.connection import ConnectionGame
from rlnb.search.evaluation import Evaluation, RandomRollout
from rlnb.search.games import Array, Game
from rlnb.search.phases import Level, Selected
from rlnb.search.rules import Rule, ScoreRule
from rlnb.search.solver import Solver
from rlnb.search.tree import SearchTree

_TREE = np.zeros(1, dtype=np.int64)

#: A path as (node, action) pairs, starting at the root.
Path = list[tuple[int, int]]


class ScalarPhases:
    """The phases of a search in one tree, by a rule with a formula and with random rollouts.

    The methods are those of :class:`~rlnb.search.phases.Phases`, and read and write the memory of the same arrays.
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
        self.tree, self.game, self.rule, self.evaluation = tree, game, rule, evaluation
        self.random, self.discount, self.solver = random, discount, solver
        self._arrays: Any = None
        self._view()

    @classmethod
    def of(
        cls,
        tree: SearchTree,
        game: Game,
        rule: Rule,
        evaluation: Evaluation,
        random: Random,
        discount: float,
        solver: Solver | None,
    ) -> ScalarPhases | None:
        """Make the scalar phases of a search, or return None if the search needs arrays.

        They serve one tree of a connection game, a rule with a formula, and random rollouts. A subclass may override
        what is computed here directly, so none is accepted.
        """
        plain = tree.batch == 1 and type(game) is ConnectionGame and type(evaluation) is RandomRollout
        if not (plain and isinstance(rule, ScoreRule)):
            return None
        if type(rule).choose is not ScoreRule.choose or type(rule).scores is not ScoreRule.scores:
            return None
        return cls(tree, game, rule, evaluation, random, discount, solver)  # type: ignore[arg-type]  # checked above

    def _view(self) -> None:
        """Take memory views of the tree's arrays, which are other ones after the tree has grown."""
        arrays = self.tree.arrays
        if self._arrays is arrays:
            return
        self._arrays = arrays
        self.memory = SimpleNamespace(**{name: array.reshape(-1).data for name, array in arrays.items()})

    def _moves(self, node: int) -> list[int]:
        memory = self.memory
        if self.solver is not None:
            first = node * self.tree.n_actions
            return [action for action, open_ in enumerate(memory.open[first : first + self.tree.n_actions]) if open_]
        return self.game.boards.moves(memory.states[2 * node] | memory.states[2 * node + 1])

    def select(self, trees: Array) -> Path:
        """Descend from the root; see :meth:`rlnb.search.phases.Phases.select`."""
        self._view()
        memory, n = self.memory, self.tree.n_actions
        edge_visits, edge_sum, prior, children = (
            memory.edge_visits, memory.edge_value_sum, memory.prior, memory.children,
        )  # fmt: skip
        squares = getattr(memory, "edge_square_sum", None)
        rule, formula, first = self.rule, self.rule.formula, self.rule.unvisited is not None
        node, path = 0, []
        while True:
            total, best, chosen, square = rule.total_term(memory.visits[node]), -np.inf, -1, 0.0
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

    def as_selected(self, path: Path) -> Selected:
        """Convert a path to the form that :class:`~rlnb.search.phases.Phases` has."""
        levels = []
        for node, action in path:
            nodes, actions = np.array([node]), np.array([action])
            levels.append(Level(_TREE, nodes, actions, self.tree.children[0, nodes, actions].astype(np.int64)))
        last = levels[-1]
        return Selected(_TREE, levels, last.nodes, last.actions, last.children)

    def expand(self, path: Path) -> tuple[int, float]:
        """Play the last action, evaluate and add a node; see :meth:`rlnb.search.phases.Phases.expand`."""
        memory, n = self.memory, self.tree.n_actions
        node, action = path[-1]
        child = memory.children[node * n + action]
        if child >= 0:
            return child, 0.0
        mine, theirs, moves, won = self.game.step_one(memory.states[2 * node], memory.states[2 * node + 1], action)
        over = won or not moves
        child = int(self.tree.count[0])
        memory.states[2 * child], memory.states[2 * child + 1] = mine, theirs
        memory.to_play[child] = 1 - memory.to_play[node]
        memory.terminal[child], memory.reward[child] = over, float(won)
        memory.parent[child], memory.action[child] = node, action
        for move in moves:
            memory.legal[child * n + move] = True
            memory.prior[child * n + move] = 0.0 if over else 1 / len(moves)
        value = 0.0
        if not over:  # a terminal node has value 0, and bounds of 0 as the memory has
            proven = self.solver is not None and self._write_bounds(child, mine, theirs, moves)
            value = memory.lower[child] if proven else self._rollout(mine, theirs)
        memory.evaluation[child] = value
        memory.children[node * n + action] = child
        self.tree.count[0] = child + 1
        return child, value

    def _write_bounds(self, child: int, mine: int, theirs: int, moves: list[int]) -> bool:
        """Write the bounds of a new node and return whether it is proven."""
        memory, n = self.memory, self.tree.n_actions
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

    def back_up(self, path: Path, leaf: int, value: float) -> bool:
        """Add the return along the path; see :meth:`rlnb.search.phases.Phases.back_up`."""
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


__all__ = ["Path", "ScalarPhases"]
