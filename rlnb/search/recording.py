"""One simulation with a record of it, and the way back and forth through the records."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from rlnb.search import phases
from rlnb.search.games import Array
from rlnb.search.history import History, Record, restore, snapshot
from rlnb.search.single import SingleTree
from rlnb.search.tree import SearchTree

if TYPE_CHECKING:
    from rlnb.search.mcts import MCTS


def record_simulation(search: MCTS, single: SingleTree | None, live: Array) -> Record:
    """Do the three phases and note every number that they change.

    Args:
        search: the search.
        single: its phases, if it is one on plain numbers.
        live: the trees that take part.

    Returns:
        The record.
    """
    tree, count = search.nodes, search.nodes.count.copy()
    randomness = draw_state(search.rng, search.random)
    if single is None:
        selected = phases.select(tree, search.rule, live, search.rng)
    else:
        path = single.select()
        selected = single.selected(path)
    rows = _rows(tree, selected)
    stages = [snapshot(tree, rows)]
    if single is None:
        leaves, values = phases.expand(
            tree, search.game, search.evaluation, selected, search.rng, search.discount, search.solver
        )
    else:
        leaf, value = single.expand(path)
        leaves, values = np.array([leaf]), np.array([value])
    stages.append(snapshot(tree, rows))
    if single is None:
        phases.back_up(tree, search.rule, selected, leaves, values, search.discount, search.solver)
    else:
        single.back_up(path, leaf, value)
    stages.append(snapshot(tree, rows))
    return Record(
        number=search.simulations,
        trees=selected.trees.tolist(),
        paths=[selected.path(b) for b in selected.trees.tolist()],
        leaves=leaves.tolist(),
        added=(selected.children < 0).tolist(),
        values=values.tolist(),
        _rows=rows,
        _stages=stages,
        _counts=(count, tree.count.copy()),
        _randomness=(randomness, draw_state(search.rng, search.random)),
    )


def _rows(tree: SearchTree, selected: phases.Selected) -> tuple[Array, Array]:
    """List tree and node of all that a simulation writes to: the paths and where they end."""
    trees = [selected.trees[step.who] for step in selected.steps]
    nodes = [step.nodes for step in selected.steps]
    ends = np.where(selected.children < 0, tree.count[selected.trees], selected.children)
    return np.concatenate([*trees, selected.trees]), np.concatenate([*nodes, ends])


def draw_state(rng: np.random.Generator, random: Random) -> tuple[Any, Any]:
    """Return what the next draws depend on.

    Args:
        rng: of the arrays.
        random: of the plain numbers.

    Returns:
        The states of both.
    """
    return rng.bit_generator.state, random.getstate()


def _set_draws(rng: np.random.Generator, random: Random, state: tuple[Any, Any]) -> None:
    rng.bit_generator.state = state[0]
    random.setstate(state[1])


def undo(tree: SearchTree, history: History, rng: np.random.Generator, random: Random) -> Record:
    """Take the last simulation back.

    Args:
        tree: the trees.
        history: has one to take back.
        rng: is set back, too.
        random: is set back, too.

    Returns:
        Its record.
    """
    history.position -= 1
    record = history.records[history.position]
    restore(tree, record._rows, record._stages[0], record._counts[0])
    _set_draws(rng, random, record._randomness[0])
    return record


def redo(tree: SearchTree, history: History, rng: np.random.Generator, random: Random) -> Record:
    """Do the simulation again that was taken back last.

    Args:
        tree: the trees.
        history: has one.
        rng: is set forth, too.
        random: is set forth, too.

    Returns:
        Its record.
    """
    record = history.records[history.position]
    restore(tree, record._rows, record._stages[-1], record._counts[1])
    _set_draws(rng, random, record._randomness[1])
    history.position += 1
    return record


__all__ = ["draw_state", "record_simulation", "redo", "undo"]
