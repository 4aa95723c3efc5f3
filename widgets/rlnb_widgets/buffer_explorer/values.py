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
    state = _State(moment, order)
    columns, params = state.cells(), state.marks()
    for c in range(moment.grid.columns):
        columns |= state.over(c)
    for more_columns, more_params in (_bars(moment, state.first), _tree(moment)):
        columns, params = columns | more_columns, params | more_params
    return columns, params


class _State:
    """A recorded state in an order: where its cells and rows lie on the ring, in turns from the top."""

    def __init__(self, moment: Moment, order: str) -> None:
        self.moment, self.ring, self.grid = moment, moment.ring, moment.grid
        self.first = self.grid.cell(self.ring.first) if order == "chronological" else 0
        self.gap = 0.12 if self.grid.cells <= MOST_GAPS else 0.0

    def turn(self, row: Any) -> Any:
        """Return where a row begins, or rows do."""
        rows = self.grid.rows
        # Counted in cells if several rows share one, so that a row begins where its cell does.
        top = self.first * rows / self.grid.cells if self.grid.cells < rows else self.first
        return ((row - top) % rows) / rows

    def cells(self) -> dict[str, np.ndarray]:
        """Return where the cells lie, and how they are filled and outlined."""
        cells, age, touched = self.grid.cells, self.moment.age, self.moment.touched
        slot = (np.arange(cells) - self.first) % cells
        shade = 2 + np.floor(SHADES * age.astype(np.float64) / max(int(age.max(initial=0)), 1) + 0.5)
        # Outlines would cover cells that are narrow.
        plain = np.where(age == -1, 0, 1 if self.gap else 4)
        return {
            "from": slot / cells,
            "to": (slot + 1 - self.gap) / cells,
            "ages": np.where(age == -1, 0, np.where(age == -2, 1, shade)).astype(np.uint8),
            "edges": np.where(touched > 0, touched + 1, plain).astype(np.uint8),
        }

    def over(self, column: int) -> dict[str, np.ndarray]:
        """Return the draws, trajectories and slices of a column."""
        moment, grid, size = self.moment, self.grid, self.ring.size
        drawn = np.zeros(grid.cells, np.uint8)
        row, of = np.divmod(moment.drawn, self.ring.columns)
        drawn[row[of == column] * grid.cells // grid.rows] = 1
        found, slice_len = moment.arcs.drawn, moment.slicing.slice_len if moment.slicing else 1
        own = np.flatnonzero(found.column == column)
        length, begin = found.length[own], self.turn(found.start[own])
        columns = {
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
            begin = self.turn(row)
            columns |= {f"slices{lane} from{column}": begin, f"slices{lane} to{column}": begin + length / size}
        return columns

    def marks(self) -> dict[str, Any]:
        """Return the cursor, the seam, row 0, and the texts of the ring."""
        ring, grid, half = self.ring, self.grid, 0.5 * (1 - self.gap) / self.grid.cells
        at = self.turn(ring.cursor % ring.size)
        cursor, zero = at + half, math.tau * (self.turn(0) + half)
        params: dict[str, Any] = {
            "cells": grid.cells, "slot": 0, "selected": 0, "filled": f"{ring.length:,}", "room": room_words(ring),
            "next": f"next: row {ring.cursor:,}", "turns": ring.ordered and not ring.frozen and ring.length > 0,
            "seam": ring.seam, "cursor": cursor, "seam at": at - 0.5 * self.gap / grid.cells,
            "zero x": MIDDLE + 139 * math.sin(zero), "zero y": MIDDLE - 139 * math.cos(zero) + 4,
            "chosen": 0.0, "chosen to": 0.0, **{f"in{c}": 0 for c in range(grid.columns)},
        }  # fmt: skip
        inner = RADIUS - (grid.columns - 1 + 0.66) * thickness(grid.columns)
        for k, (shift, r) in enumerate(((0.0, inner - 8), (-0.018, inner - 18), (0.018, inner - 18))):
            angle = math.tau * (cursor + shift)
            params |= {f"tip{k} x": MIDDLE + r * math.sin(angle), f"tip{k} y": MIDDLE - r * math.cos(angle)}
        return params


def _bars(moment: Moment, first: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    known, found = bool(moment.expected.any()), moment.priorities  # before the first sample nothing is expected
    columns = {
        "draws": np.roll(moment.draws.sum(0), -first),
        "expected": np.roll(moment.expected.sum(0), -first) if known else np.zeros(0),
        "priorities": np.zeros(0) if found is None else np.roll(found.sums.sum(0), -first),
    }
    most = {name: float(values.max(initial=0)) for name, values in columns.items()}
    most["draws"] = max(most["draws"], most.pop("expected"))
    unknown = "expected: not known" if moment.draws.any() else "none yet"
    params: dict[str, Any] = {"draws about": "dashed: expected" if known else unknown}
    params["priorities about"] = "" if found is None else f"stored, sum {number(found.total)}"
    for name, value in most.items():
        params |= {f"{name} most": value, f"{name} to": f"to {number(value, 3)}"}
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
