"""Columns and parameters of the display lists for one recorded state; ``values.js`` computes the same on the page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlnb_widgets._core.text import number
from rlnb_widgets.buffer_explorer.model import Moment
from rlnb_widgets.buffer_explorer.words import room_words

#: Middle and radius of the ring, in pixels.
MIDDLE, RADIUS = 150.0, 112.0
#: Number of shades of age, less one.
SHADES = 8
#: Most cells that have gaps and outlines.
MOST_GAPS = 128
#: Lanes for slices that overlap, in a ring alone.
LANES = 3


def thickness(columns: int) -> float:
    """Return the pixels from one ring to the next one within."""
    return min(0.42 * RADIUS / columns, 40.0)


def depth_of(leaves: int) -> int:
    """Return the number of levels of a binary tree with so many leaves."""
    return 1 + math.ceil(math.log2(max(leaves, 1)))


def levels_of(sums: np.ndarray) -> list[np.ndarray]:
    """Return the levels of a binary sum tree over its leaves, ``[n]``; the root comes first.

    Example:
        >>> [level.tolist() for level in levels_of(np.array([1.0, 2.0, 3.0]))]
        [[6.0], [3.0, 3.0], [1.0, 2.0, 3.0]]
    """
    levels = [np.asarray(sums, np.float64)]
    while len(levels[0]) > 1:
        levels.insert(0, np.add.reduceat(levels[0], np.arange(0, len(levels[0]), 2)))
    return levels


def state_values(moment: Moment, order: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the columns and the parameters of a recorded state, with no row selected."""
    first = moment.grid.cell(moment.ring.first) if order == "chronological" else 0
    columns, params = _cells(moment), _marks(moment, first)
    for c in range(moment.grid.columns):
        columns |= _over(moment, c)
    for more_columns, more_params in (_bars(moment, first), _tree(moment)):
        columns, params = columns | more_columns, params | more_params
    return columns, params


def _gap(moment: Moment) -> float:
    return 0.12 if moment.grid.cells <= MOST_GAPS else 0.0


def cell_kinds(moment: Moment) -> tuple[np.ndarray, np.ndarray]:
    """Return the kinds of each cell's inside and outline, as in ``scene.py``: empty, unknown age, age; and written."""
    age, touched = moment.age, moment.touched
    shade = 2 + np.floor(SHADES * age.astype(np.float64) / max(int(age.max(initial=0)), 1) + 0.5)
    # Outlines would cover cells that are narrow.
    plain = np.where(age == -1, 0, 1 if _gap(moment) else 4)
    ages = np.where(age == -1, 0, np.where(age == -2, 1, shade))
    return ages.astype(np.uint8), np.where(touched > 0, touched + 1, plain).astype(np.uint8)


def _cells(moment: Moment) -> dict[str, np.ndarray]:
    cells = moment.grid.cells
    at, (ages, edges) = np.arange(cells), cell_kinds(moment)
    return {"from": at / cells, "to": (at + 1 - _gap(moment)) / cells, "ages": ages, "edges": edges}


def _over(moment: Moment, column: int) -> dict[str, np.ndarray]:
    """Return the draws, trajectories and slices of a column, in turns from row 0."""
    grid, size = moment.grid, moment.ring.size
    drawn = np.zeros(grid.cells, np.uint8)
    row, of = np.divmod(moment.drawn, moment.ring.columns)
    drawn[row[of == column] * grid.cells // grid.rows] = 1
    found, slice_len = moment.arcs.drawn, moment.slicing.slice_len if moment.slicing else 1
    own = np.flatnonzero(found.column == column)
    length, begin = found.length[own], found.start[own] / size
    columns: dict[str, np.ndarray] = {
        f"drawn{column}": drawn,
        f"arcs from{column}": begin,
        # A gap, since the first and the last trajectory, which meet at the seam, may have one tone.
        f"arcs to{column}": begin + np.maximum(length / size - min(0.25 / size, 0.005), 0.0006),
        f"arcs{column}": np.where(length < slice_len, 2, own % 2).astype(np.uint8),
    }
    lanes = LANES if grid.columns == 1 else 1
    for lane in range(lanes):
        some = moment.slices[lane::lanes]
        _, row, length = some[some[:, 0] == column].T
        columns |= {f"slices{lane} from{column}": row / size, f"slices{lane} to{column}": (row + length) / size}
    return columns


def _marks(moment: Moment, first: int) -> dict[str, Any]:
    """Return how the ring, the cursor and row 0 are turned, and the texts of the ring."""
    ring, cells = moment.ring, moment.grid.cells

    def angle(row: int) -> float:
        """Return where the middle of a row's cell is, in radians."""
        return math.tau * (row / ring.size + (0.5 * (1 - _gap(moment)) - first) / cells)

    return {
        "cells": cells, "slot": 0, "selected": 0, "filled": f"{ring.length:,}", "room": room_words(ring),
        "next": f"next: row {ring.cursor:,}", "turns": ring.ordered and not ring.frozen and ring.length > 0,
        "seam": ring.seam, "seam at": -0.5 / cells, "cursor": angle(ring.cursor % ring.size),
        "turned": -math.tau * first / cells, "zero": angle(0), "upright": -angle(0),
        "chosen": 0.0, "chosen to": 0.0, **{f"in{c}": 0 for c in range(moment.grid.columns)},
    }  # fmt: skip


def abouts(moment: Moment) -> dict[str, str]:
    """Return what is written beside the bars of draws and of priorities."""
    unknown = "expected: not known" if moment.draws.any() else "none yet"
    found = moment.priorities
    return {
        "draws": "dashed: expected" if moment.expected.any() else unknown,
        "priorities": "" if found is None else f"stored, sum {number(found.total)}",
    }


def _bars(moment: Moment, first: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    known, found = bool(moment.expected.any()), moment.priorities  # before the first sample nothing is expected
    columns = {
        "draws": np.roll(moment.draws.sum(0), -first),
        "expected": np.roll(moment.expected.sum(0), -first) if known else np.zeros(0),
        "priorities": np.zeros(0) if found is None else np.roll(found.sums.sum(0), -first),
    }
    most = {name: float(values.max(initial=0)) for name, values in columns.items()}
    most["draws"] = max(most["draws"], most.pop("expected"))
    params: dict[str, Any] = {f"{name} about": words for name, words in abouts(moment).items()}
    for name, value in most.items():
        params |= {f"{name} most": value, f"{name} to": f"at most {number(value, 3)}"}
    return columns, params


def _tree(moment: Moment) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the tree, with the way down to the largest priority."""
    columns: dict[str, np.ndarray] = {}
    params: dict[str, Any] = {}
    if moment.priorities is None:
        return columns, params
    leaves = moment.priorities.sums.T.ravel()
    levels, aim = levels_of(leaves), int(leaves.argmax())
    for depth, level in enumerate(levels):
        ends = np.concatenate([[0.0], np.cumsum(level)])
        on = aim >> (len(levels) - 1 - depth)
        columns |= {f"node{depth}": ends[:-1], f"node{depth} to": ends[1:], f"sum{depth}": level}
        params |= {f"on{depth}": 1, f"way{depth}": ends[on], f"way{depth} to": ends[on + 1]}
    return columns, params | {"total": float(levels[0][0]), "mass": float(leaves[:aim].sum() + leaves[aim] / 2)}
