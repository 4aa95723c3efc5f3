"""History: the simulations of a search one by one, with every number that changed, to be taken back and done again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rlnb.search.games import Array
from rlnb.search.tree import SearchTree


class Change(NamedTuple):
    """One number of a tree that a simulation changed.

    Attributes:
        phase: "expand" or "back up".
        tree: in which tree.
        name: of the array.
        node: in which row.
        action: in which column; None for what a node has only one of.
        before: the number until then.
        after: the number since then.
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
    """One simulation: the paths that were selected, what was found, and what changed.

    Attributes:
        number: of the simulation, from 0.
        trees: which trees took part.
        paths: for each of them the pairs of node and action, from the root on.
        leaves: for each of them the node where the path ends.
        added: for each of them whether that node is new.
        values: for each of them what the leaf was said to be worth, for the player who is to move there.
    """

    number: int
    trees: list[int]
    paths: list[list[tuple[int, int]]]
    leaves: list[int]
    added: list[bool]
    values: list[float]
    _rows: tuple[Array, Array] = field(repr=False)
    _stages: list[dict[str, Array]] = field(repr=False)
    _counts: tuple[Array, Array] = field(repr=False)
    _randomness: tuple[Any, Any] = field(repr=False)

    def changes(self, tree: int | None = None) -> list[Change]:
        """List every number that changed, in the order of phases, arrays and nodes.

        Args:
            tree: in which tree; None: in all of them.

        Returns:
            The changes.
        """
        return [change for change in self._changes() if tree is None or change.tree == tree]

    def proven(self, tree: int | None = None) -> list[tuple[int, int, float]]:
        """List the nodes that this simulation proved; none without a solver.

        Args:
            tree: in which tree; None: in all of them.

        Returns:
            Tree, node and the return with best play, for the player who is to move there.
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
    """The recorded simulations of a search, and where among them the search is.

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
        """Forget all."""
        self.records, self.position = [], 0

    def append(self, record: Record) -> None:
        """Add the simulation that was just done; what was taken back before is forgotten.

        Args:
            record: of it.
        """
        del self.records[self.position :]
        self.records.append(record)
        self.position += 1

    @property
    def can_redo(self) -> bool:
        """Whether simulations were taken back that can be done again."""
        return self.position < len(self.records)


def snapshot(tree: SearchTree, rows: tuple[Array, Array]) -> dict[str, Array]:
    """Copy some rows of all arrays.

    Args:
        tree: the trees.
        rows: tree and node of each.

    Returns:
        The copies by name.
    """
    return {name: array[rows] for name, array in tree.arrays.items()}


def restore(tree: SearchTree, rows: tuple[Array, Array], numbers: dict[str, Array], count: Array) -> None:
    """Write back what :func:`snapshot` copied.

    Args:
        tree: the trees.
        rows: tree and node of each.
        numbers: by name.
        count: how many nodes each tree has.
    """
    for name, array in tree.arrays.items():
        array[rows] = numbers[name]
    tree.count[:] = count


__all__ = ["Change", "History", "Record", "restore", "snapshot"]
