"""Recorded simulations of a search: every number that each one changed, with undo and redo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np

from rlnb.search.games import Array
from rlnb.search.phases import Selected
from rlnb.search.tree import SearchTree

#: The state of both random generators of a search.
RandomState = tuple[Any, Any]


class Change(NamedTuple):
    """A number in the arrays of a tree that a simulation changed.

    Attributes:
        phase: "expand" or "back up".
        tree: index of the tree.
        name: name of the array.
        node: row of the array.
        action: column of the array; None for an array with one number per node.
        before: the number before the phase.
        after: the number after the phase.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> MCTS(TicTacToeEnv(), seed=0).reset().step().changes()[0].phase
        'expand'
    """

    phase: str
    tree: int
    name: str
    node: int
    action: int | None
    before: Any
    after: Any


@dataclass
class Record:
    """One simulation: the paths it selected, the values it found, and the numbers it changed.

    Attributes:
        number: number of the simulation, counted from 0.
        trees: the trees that took part.
        paths: for each of these trees, the (node, action) pairs from the root on.
        leaves: for each of them, the last node of the path.
        added: for each of them, whether that node is new.
        values: for each of them, the estimated value of that node for the player to move there.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> MCTS(TicTacToeEnv(), seed=0).reset().step().paths  # of the only tree: from node 0 by action 0
        [[(0, 0)]]
    """

    number: int
    trees: list[int]
    paths: list[list[tuple[int, int]]]
    leaves: list[int]
    added: list[bool]
    values: list[float]
    #: Tree and node of every row that the simulation writes to.
    _rows: tuple[Array, Array] = field(repr=False)
    #: Copies of these rows: before the simulation, after "expand", after "back up".
    _stages: list[dict[str, Array]] = field(repr=False)
    #: Number of nodes of each tree, before and after.
    _counts: tuple[Array, Array] = field(repr=False)
    #: State of the random generators, before and after.
    _randomness: tuple[RandomState, RandomState] = field(repr=False)

    def changes(self, tree: int | None = None) -> list[Change]:
        """List every number that changed, ordered by phase, array and node.

        Args:
            tree: index of a tree. None: all trees.

        Returns:
            The changes.
        """
        return [change for change in self._changes() if tree is None or change.tree == tree]

    def proven(self, tree: int | None = None) -> list[tuple[int, int, float]]:
        """List the nodes that this simulation proved. Without a solver the list is empty.

        Args:
            tree: index of a tree. None: all trees.

        Returns:
            Tree, node and the return under best play, for the player to move there.
        """
        first, last = self._stages[0], self._stages[-1]
        if "lower" not in last:
            return []
        trees, nodes = self._rows
        known = (nodes < self._counts[0][trees]) & (first["lower"] == first["upper"])
        new = np.flatnonzero((last["lower"] == last["upper"]) & ~known)
        found = [(int(trees[i]), int(nodes[i]), float(last["lower"][i])) for i in new]
        return [each for each in found if tree is None or each[0] == tree]

    def _changes(self) -> Iterator[Change]:
        trees, nodes = self._rows
        for phase, before, after in zip(("expand", "back up"), self._stages, self._stages[1:], strict=False):
            for name in before:
                if name == "states":
                    continue
                for at in np.argwhere(before[name] != after[name]):
                    i, *column = at.tolist()
                    old, new = before[name][tuple(at)].item(), after[name][tuple(at)].item()
                    action = column[0] if column else None
                    yield Change(phase, int(trees[i]), name, int(nodes[i]), action, old, new)


class History:
    """The recorded simulations of a search, and how many of them are in effect.

    Attributes:
        records: the recorded simulations, in order.
        position: number of records in effect; those after it were undone.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> search = MCTS(TicTacToeEnv(), seed=0).reset()
        >>> record = search.step()
        >>> record.paths, record.leaves, record.added
        ([[(0, 0)]], [1], [True])
        >>> [(c.name, c.node, c.action, c.before, c.after) for c in record.changes() if c.name == "edge_visits"]
        [('edge_visits', 0, 0, 0, 1)]
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.position = 0

    def clear(self) -> None:
        """Remove all records."""
        self.records, self.position = [], 0

    def append(self, record: Record) -> None:
        """Add the simulation that was just done, and remove those that were undone."""
        self.drop_undone()
        self.records.append(record)
        self.position += 1

    def drop_undone(self) -> None:
        """Remove the simulations that were undone, so that they cannot be redone."""
        del self.records[self.position :]

    @property
    def can_redo(self) -> bool:
        """Whether a simulation was undone that can be redone."""
        return self.position < len(self.records)

    def undo(self, tree: SearchTree, rng: np.random.Generator, random: Random) -> Record:
        """Restore the state before the last simulation.

        Args:
            tree: the trees of the search, to which old values are written.
            rng: NumPy's generator of the search.
            random: Python's generator of the search.

        Returns:
            The record of the simulation, which can be redone.
        """
        self.position -= 1
        record = self.records[self.position]
        _restore(tree, record, 0, rng, random)
        return record

    def redo(self, tree: SearchTree, rng: np.random.Generator, random: Random) -> Record:
        """Restore trees and random generators to their state after the simulation that was undone last.

        Returns its record.
        """
        record = self.records[self.position]
        _restore(tree, record, -1, rng, random)
        self.position += 1
        return record


class SimulationPhases(Protocol):
    """The phases of a simulation, on arrays or on Python numbers; a path has the form that ``select`` returns."""

    def select(self, trees: Array) -> Any:
        """Select a path in each tree."""

    def as_selected(self, path: Any) -> Selected:
        """Convert paths to :class:`~rlnb.search.phases.Selected`."""

    def expand(self, path: Any) -> tuple[Any, Any]:
        """Add a node at the end of each path; return the nodes and their values."""

    def back_up(self, path: Any, leaves: Any, values: Any) -> bool:
        """Add the returns along the paths; return whether the bounds of a root changed."""


def record_simulation(
    phases: SimulationPhases, tree: SearchTree, live: Array, number: int, rng: np.random.Generator, random: Random
) -> Record:
    """Do a simulation in the trees ``live`` and record every number that it changes.

    ``rng`` is the random generator of the array phases, ``random`` that of the scalar phases.
    """
    count, randomness = tree.count.copy(), _random_state(rng, random)
    path = phases.select(live)
    selected = phases.as_selected(path)
    ends = np.where(selected.children < 0, tree.count[selected.trees], selected.children)
    rows = (
        np.concatenate([*(selected.trees[level.who] for level in selected.levels), selected.trees]),
        np.concatenate([*(level.nodes for level in selected.levels), ends]),
    )
    stages = [_snapshot(tree, rows)]
    leaves, values = phases.expand(path)
    stages.append(_snapshot(tree, rows))
    phases.back_up(path, leaves, values)
    stages.append(_snapshot(tree, rows))
    return Record(
        number=number,
        trees=selected.trees.tolist(),
        paths=[selected.path(b) for b in selected.trees.tolist()],
        leaves=np.atleast_1d(leaves).tolist(),
        added=(selected.children < 0).tolist(),
        values=np.atleast_1d(values).tolist(),
        _rows=rows,
        _stages=stages,
        _counts=(count, tree.count.copy()),
        _randomness=(randomness, _random_state(rng, random)),
    )


def _random_state(rng: np.random.Generator, random: Random) -> RandomState:
    return rng.bit_generator.state, random.getstate()


def _snapshot(tree: SearchTree, rows: tuple[Array, Array]) -> dict[str, Array]:
    """Copy some rows of all arrays."""
    return {name: array[rows] for name, array in tree.arrays.items()}


def _restore(tree: SearchTree, record: Record, stage: int, rng: np.random.Generator, random: Random) -> None:
    """Write the state before (0) or after (-1) a simulation back."""
    for name, array in tree.arrays.items():
        array[record._rows] = record._stages[stage][name]
    tree.count[:] = record._counts[stage]
    rng.bit_generator.state, state = record._randomness[stage]
    random.setstate(state)


class ChangeColumns(NamedTuple):
    """Changes of many simulations as columns, ordered by simulation and phase."""

    record: Array  #: index of the simulation in the list of records, ``[k]``
    phase: Array  #: 0 "expand", 1 "back up", ``[k]``
    name: Array  #: index of the array in the list of names, ``[k]``
    node: Array  #: row of the array, ``[k]``
    action: Array  #: column of the array; -1 for an array with one number per node, ``[k]``
    before: Array  #: the number before the phase, float64 ``[k]``
    after: Array  #: the number after the phase, float64 ``[k]``


def change_columns(records: Sequence[Record], tree: int, names: Sequence[str]) -> ChangeColumns:
    """Collect the changes of many simulations: those of ``record.changes(tree)``, for the arrays ``names``.

    Arrays that the tree does not have are skipped.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> from rlnb.search import MCTS
        >>> search = MCTS(TicTacToeEnv(), seed=0).reset().run(simulations=2, record=True)
        >>> found = change_columns(search.history.records, 0, ["visits"])
        >>> list(zip(*(column.tolist() for column in (found.record, found.node, found.before, found.after))))
        [(0, 0, 1.0, 2.0), (0, 1, 0.0, 1.0), (1, 0, 2.0, 3.0), (1, 2, 0.0, 1.0)]
    """
    found = [np.zeros((7, 0))]
    rows = [np.flatnonzero(record._rows[0] == tree) for record in records]
    whole = all(len(row) == len(record._rows[0]) for row, record in zip(rows, records, strict=True))
    owner = np.repeat(np.arange(len(records)), [len(row) for row in rows])
    nodes = _joined([record._rows[1] for record in records], rows, whole)
    for place, name in enumerate(names):
        if not records or name not in records[0]._stages[0]:
            continue
        stages = [_joined([record._stages[i][name] for record in records], rows, whole) for i in range(3)]
        for phase, (before, after) in enumerate(pairwise(stages)):
            at = np.nonzero(before != after)
            action = at[1] if len(at) > 1 else np.full(len(at[0]), -1)
            same = np.ones(len(at[0]))
            found.append(
                np.stack((owner[at[0]], phase * same, place * same, nodes[at[0]], action, before[at], after[at]))
            )
    table = np.concatenate(found, 1)
    table = table[:, np.lexsort((table[1], table[0]))]
    return ChangeColumns(*table[:5].astype(np.int64), *table[5:])


def _joined(arrays: list[Array], rows: list[Array], whole: bool) -> Array:
    """Concatenate the rows of one tree from the arrays of all simulations; ``whole``: all rows are of that tree."""
    if not arrays:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(arrays if whole else [array[row] for array, row in zip(arrays, rows, strict=True)])


__all__ = ["Change", "ChangeColumns", "History", "Record", "change_columns", "record_simulation"]
