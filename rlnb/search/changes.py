"""What recorded simulations changed in one tree, as columns: for many simulations at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rlnb.search.games import Array
from rlnb.search.history import Record


class ChangeColumns(NamedTuple):
    """Changes as columns, in the order of simulations and phases.

    Attributes:
        record: which simulation, as a place in the list, ``[k]``.
        phase: 0 "expand", 1 "back up", ``[k]``.
        name: of the array, as a place in the names, ``[k]``.
        node: in which row, ``[k]``.
        action: in which column; -1 for what a node has only one of, ``[k]``.
        before: the number until then, float64 ``[k]``.
        after: the number since then, float64 ``[k]``.
    """

    record: Array
    phase: Array
    name: Array
    node: Array
    action: Array
    before: Array
    after: Array


def change_columns(records: Sequence[Record], tree: int, names: Sequence[str]) -> ChangeColumns:
    """Collect what some simulations changed: the same as their ``changes(tree)``, for the arrays that are named.

    Args:
        records: the simulations.
        tree: in which tree.
        names: of the arrays; those that the tree does not keep are left out.

    Returns:
        The changes.

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
    """The rows of one tree in the arrays of all simulations, one after another."""
    if not arrays:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(arrays if whole else [array[row] for array, row in zip(arrays, rows, strict=True)])


__all__ = ["ChangeColumns", "change_columns"]
