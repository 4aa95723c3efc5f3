"""The three phases of a simulation, for all trees at once: select, expand (and evaluate), back up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlnb.search import faults
from rlnb.search.games import Array, Game, Positions
from rlnb.search.tree import SearchTree

if TYPE_CHECKING:
    from rlnb.search.evaluation import Evaluation
    from rlnb.search.rules import Rule
    from rlnb.search.solver import Bounds, Solver


@dataclass
class Step:
    """One level of the paths of a simulation: the trees that come so far, where they are and what they select.

    Attributes:
        who: positions in ``Selected.trees``, ``[k]``.
        nodes: where the action is taken, ``[k]``.
        actions: which, ``[k]``.
        children: where it leads; -1 if it was never taken, ``[k]``.
    """

    who: Array
    nodes: Array
    actions: Array
    children: Array


@dataclass
class Selected:
    """What the first phase found: a path in each tree, from the root to an action never taken or to an end.

    Attributes:
        trees: which trees take part, ``[k]``.
        steps: of the paths, a level each.
        nodes: the last node in which an action was selected, ``[k]``.
        actions: which, ``[k]``.
        children: where it leads; -1 for a node that is to be added, ``[k]``.
    """

    trees: Array
    steps: list[Step] = field(default_factory=list)
    nodes: Array = field(default_factory=lambda: np.empty(0, np.int64))
    actions: Array = field(default_factory=lambda: np.empty(0, np.int64))
    children: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def path(self, tree: int) -> list[tuple[int, int]]:
        """List the pairs of node and action that were gone through in one tree.

        Args:
            tree: which.

        Returns:
            The pairs, from the root on.
        """
        at = int(np.flatnonzero(self.trees == tree)[0])
        pairs = []
        for step in self.steps:
            for i in np.flatnonzero(step.who == at):
                pairs.append((int(step.nodes[i]), int(step.actions[i])))
        return pairs


def select(tree: SearchTree, rule: Rule, trees: Array, rng: np.random.Generator) -> Selected:
    """Go down from the root by the rule until an action was never taken or the episode ends; nothing is written.

    Args:
        tree: the trees.
        rule: selects the actions.
        trees: which trees take part, ``[k]``.
        rng: what the rule draws from.

    Returns:
        The paths.
    """
    found = Selected(trees)
    nodes = np.zeros(len(trees), dtype=np.int64)
    found.nodes, found.actions, found.children = nodes.copy(), nodes.copy(), nodes.copy()
    who, base = np.arange(len(trees)), tree.roots[trees]
    flat_children, terminal = tree.flat.children.reshape(-1), tree.flat.terminal
    while len(who):
        rows = base + nodes
        actions = rule.choose(tree, rows, len(found.steps), rng)
        children = flat_children[rows * tree.n_actions + actions]
        found.steps.append(Step(who, nodes, actions, children))
        going = children >= 0
        going &= ~terminal[base + np.maximum(children, 0)]
        if not going.all():
            stop = ~going
            last = who[stop]
            found.nodes[last], found.actions[last], found.children[last] = nodes[stop], actions[stop], children[stop]
            who, base, children = who[going], base[going], children[going]
        nodes = children
    return found


def expand(
    tree: SearchTree,
    game: Game,
    evaluation: Evaluation,
    selected: Selected,
    rng: np.random.Generator,
    discount: float,
    solver: Solver | None = None,
) -> tuple[Array, Array]:
    """Play the selected actions, evaluate where they lead, and add a node for each that is new.

    All that may fail is done before the first number is written.

    Args:
        tree: the trees.
        game: the rules.
        evaluation: says what a position is worth, and how likely its actions are.
        selected: by :func:`select`.
        rng: what the evaluation draws from.
        discount: of rewards, for each step.
        solver: keeps the bounds of the nodes; None where there are none.

    Returns:
        The node where each path ends and its value there, for the player who is to move, ``[k]`` each.
    """
    leaves, values = selected.children.copy(), np.zeros(len(selected.trees))
    new = np.flatnonzero(leaves < 0)
    if not len(new):
        return leaves, values
    trees, nodes, actions = selected.trees[new], selected.nodes[new], selected.actions[new]
    rows = tree.roots[trees] + nodes
    positions, rewards = game.step(tree.flat.states[rows], actions)
    prior, value, bounds = evaluate(game, evaluation, positions, rng, discount, solver)
    added = tree.add(trees, positions, rewards, prior, value, bounds)
    to = tree.roots[trees] + added
    tree.flat.parent[to], tree.flat.action[to] = nodes, actions
    tree.flat.children[rows, actions] = added
    leaves[new], values[new] = added, value
    return leaves, values


def evaluate(
    game: Game,
    evaluation: Evaluation,
    positions: Positions,
    rng: np.random.Generator,
    discount: float,
    solver: Solver | None = None,
) -> tuple[Array, Array, Bounds | None]:
    """Evaluate positions in one call, all but ends of episodes.

    With a solver, what is proven at a glance is worth what is proven.

    Args:
        game: the rules.
        evaluation: says what a position is worth.
        positions: any.
        rng: what the evaluation draws from.
        discount: of rewards, for each step.
        solver: knows what actions gain at least and at most; None where there is none.

    Returns:
        The prior, ``[k, A]``, and the value, ``[k]``, zeros at an end; and the bounds of the actions, with a solver.

    Raises:
        ValueError: if a position has no legal action and is no end.
    """
    stuck = ~positions.terminal & ~positions.legal.any(-1)
    if stuck.any():
        raise ValueError(faults.no_legal(int(stuck.argmax()), "position"))
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


def back_up(
    tree: SearchTree,
    rule: Rule,
    selected: Selected,
    leaves: Array,
    values: Array,
    discount: float,
    solver: Solver | None = None,
) -> bool:
    """Add the returns to all nodes and actions on the paths, from the last to the root.

    Where another player is to move than in the node after it, the return changes its sign. With a solver no return
    leaves the bounds of its node: the player to move there would not let it.

    Args:
        tree: the trees.
        rule: takes note of the returns, if it does.
        selected: by :func:`select`.
        leaves: where the paths end, ``[k]``.
        values: what was found there, ``[k]``.
        discount: of rewards, for each step.
        solver: keeps the bounds of the nodes; None where there are none.

    Returns:
        Whether the solver changed the bounds of a root.
    """
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
    for step in reversed(selected.steps):
        who = step.who
        after = below[who]
        rows = base[who] + step.nodes
        gained = returns[who]
        if discount != 1:
            gained = gained * discount
        gained = np.where(flat.to_play[after] == flat.to_play[rows], gained, -gained) + flat.reward[after]
        rule.learn(tree, rows, step.actions, gained)
        edges = rows * n + step.actions
        edge_visits[edges] += 1
        edge_sum[edges] += gained
        if solver is not None:
            moved = np.flatnonzero(tightened[who])
            if len(moved):
                tightened[who[moved]] = solver.update(tree, rows[moved], step.actions[moved], after[moved])
            gained = np.minimum(np.maximum(gained, flat.lower[rows]), flat.upper[rows])
        flat.visits[rows] += 1
        flat.value_sum[rows] += gained
        returns[who], below[who] = gained, rows
    return bool(tightened.any())


__all__ = ["Selected", "Step", "back_up", "evaluate", "expand", "select"]
