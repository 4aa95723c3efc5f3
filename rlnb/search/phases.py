"""The phases of a simulation over a batch of trees: select, expand (which evaluates), back up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rlnb.search import errors
from rlnb.search.evaluation import Evaluation
from rlnb.search.games import Array, Game, Positions
from rlnb.search.rules import Rule
from rlnb.search.solver import Bounds, Solver
from rlnb.search.tree import SearchTree


@dataclass
class Level:
    """One level of the selected paths, for the trees whose path is that deep."""

    who: Array  #: positions in ``Selected.trees``, ``[k]``
    nodes: Array  #: the node of each tree on this level, ``[k]``
    actions: Array  #: the selected actions, ``[k]``
    children: Array  #: the nodes that the actions lead to; -1 if an action was never taken, ``[k]``


@dataclass
class Selected:
    """The path selected in each tree, from the root to an action never taken or to a terminal node."""

    trees: Array  #: the trees that take part, ``[k]``
    levels: list[Level] = field(default_factory=list)  #: the paths, level by level from the root
    #: the last node of each path in which an action was selected, ``[k]``
    nodes: Array = field(default_factory=lambda: np.empty(0, np.int64))
    actions: Array = field(default_factory=lambda: np.empty(0, np.int64))  #: the last action of each path, ``[k]``
    #: the node that the last action leads to; -1 if it has yet to be added, ``[k]``
    children: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def path(self, tree: int) -> list[tuple[int, int]]:
        """List the (node, action) pairs of the path in one tree, from the root on."""
        at = int(np.flatnonzero(self.trees == tree)[0])
        pairs = []
        for level in self.levels:
            for i in np.flatnonzero(level.who == at):
                pairs.append((int(level.nodes[i]), int(level.actions[i])))
        return pairs


class Phases:
    """The phases of a simulation, each for all trees at once; with a solver they back up proofs."""

    def __init__(
        self,
        tree: SearchTree,
        game: Game,
        rule: Rule,
        evaluation: Evaluation,
        rng: np.random.Generator,
        discount: float,
        solver: Solver | None = None,
    ) -> None:
        self.tree, self.game, self.rule, self.evaluation = tree, game, rule, evaluation
        self.rng, self.discount, self.solver = rng, discount, solver

    def select(self, trees: Array) -> Selected:
        """Descend from the roots of some trees until an action was never taken or a node is terminal.

        Nothing is written to the trees.
        """
        tree, rule = self.tree, self.rule
        found = Selected(trees)
        nodes = np.zeros(len(trees), dtype=np.int64)
        found.nodes, found.actions, found.children = nodes.copy(), nodes.copy(), nodes.copy()
        who, base = np.arange(len(trees)), tree.roots[trees]
        flat_children, terminal = tree.flat.children.reshape(-1), tree.flat.terminal
        while len(who):
            rows = base + nodes
            actions = rule.choose(tree, rows, len(found.levels), self.rng)
            children = flat_children[rows * tree.n_actions + actions]
            found.levels.append(Level(who, nodes, actions, children))
            going = children >= 0
            going &= ~terminal[base + np.maximum(children, 0)]
            if not going.all():
                stop = ~going
                last = who[stop]
                found.nodes[last], found.actions[last] = nodes[stop], actions[stop]
                found.children[last] = children[stop]
                who, base, children = who[going], base[going], children[going]
            nodes = children
        return found

    def as_selected(self, path: Selected) -> Selected:
        """Return a path of :meth:`select` as :class:`Selected`, which it is."""
        return path

    def expand(self, selected: Selected) -> tuple[Array, Array]:
        """Play the last action of each path, evaluate the new positions and add a node for each of them.

        Returns the last node of each path and its value for the player to move there, ``[k]`` each. The value of a node
        that is not new is 0: it is terminal. Everything that can fail happens before the first write to the trees.
        """
        tree = self.tree
        leaves, values = selected.children.copy(), np.zeros(len(selected.trees))
        new = np.flatnonzero(leaves < 0)
        if not len(new):
            return leaves, values
        trees, nodes, actions = selected.trees[new], selected.nodes[new], selected.actions[new]
        rows = tree.roots[trees] + nodes
        positions, rewards = self.game.step(tree.flat.states[rows], actions)
        prior, value, bounds = evaluate(self.game, self.evaluation, positions, self.rng, self.discount, self.solver)
        added = tree.add(trees, positions, rewards, prior, value, bounds)
        to = tree.roots[trees] + added
        tree.flat.parent[to], tree.flat.action[to] = nodes, actions
        tree.flat.children[rows, actions] = added
        leaves[new], values[new] = added, value
        return leaves, values

    def back_up(self, selected: Selected, leaves: Array, values: Array) -> bool:
        """Add the returns to all nodes and actions on the paths, from the last one up to the root.

        A return changes its sign where the player to move changes. With a solver, a return is clipped to the proven
        bounds of each node it passes, since best play would not leave them. Returns whether the solver tightened the
        bounds of a root.
        """
        tree, rule, discount, solver = self.tree, self.rule, self.discount, self.solver
        flat, n = tree.flat, tree.n_actions
        edge_visits, edge_sum = flat.edge_visits.reshape(-1), flat.edge_value_sum.reshape(-1)
        base = tree.roots[selected.trees]
        rows = base + leaves
        flat.visits[rows] += 1
        flat.value_sum[rows] += values
        returns = values.copy()
        below = rows
        tightened = np.zeros(0, dtype=bool)
        if solver is not None:
            tightened = solver.tightens(tree, rows)
        for level in reversed(selected.levels):
            who = level.who
            after = below[who]
            rows = base[who] + level.nodes
            gained = returns[who]
            if discount != 1:
                gained = gained * discount
            gained = np.where(flat.to_play[after] == flat.to_play[rows], gained, -gained) + flat.reward[after]
            rule.learn(tree, rows, level.actions, gained)
            edges = rows * n + level.actions
            edge_visits[edges] += 1
            edge_sum[edges] += gained
            if solver is not None:
                moved = np.flatnonzero(tightened[who])
                if len(moved):
                    tightened[who[moved]] = solver.update(tree, rows[moved], level.actions[moved], after[moved])
                gained = np.minimum(np.maximum(gained, flat.lower[rows]), flat.upper[rows])
            flat.visits[rows] += 1
            flat.value_sum[rows] += gained
            returns[who], below[who] = gained, rows
        return bool(tightened.any())


def evaluate(
    game: Game,
    evaluation: Evaluation,
    positions: Positions,
    rng: np.random.Generator,
    discount: float,
    solver: Solver | None = None,
) -> tuple[Array, Array, Bounds | None]:
    """Evaluate all positions that are not terminal in one call.

    Returns the prior, ``[k, A]``, and the value, ``[k]``, both 0 for terminal positions; with a solver also the bounds
    of the actions, to which values are clipped, else None.

    Raises:
        ValueError: If a position that is not terminal has no legal action.
    """
    stuck = ~positions.terminal & ~positions.legal.any(-1)
    if stuck.any():
        raise ValueError(errors.no_legal_action(int(stuck.argmax()), "position"))
    bounds = None if solver is None else solver.outlook(game, positions)
    if not positions.terminal.any():
        prior, value = evaluation(game, positions, rng, discount)
    else:
        prior, value = np.zeros(positions.legal.shape), np.zeros(len(positions.terminal))
        open_ = np.flatnonzero(~positions.terminal)
        if len(open_):
            some = Positions(*(array[open_] for array in positions))
            prior[open_], value[open_] = evaluation(game, some, rng, discount)
    if bounds is not None:
        value = np.minimum(np.maximum(value, bounds.lower.max(-1)), bounds.upper.max(-1))
    return prior, value, bounds


__all__ = ["Level", "Phases", "Selected", "evaluate"]
