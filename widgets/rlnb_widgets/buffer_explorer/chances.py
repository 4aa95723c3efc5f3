"""Sampling probabilities of items, and the priorities behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets.buffer_explorer.model import Grid, Priorities, StorageState, Trajectories
from rlnb_widgets.buffer_explorer.slices import coverage, is_slicing, is_strict, slice_length


def stored_priorities(buffer: Any, ring: StorageState) -> np.ndarray | None:
    """Return priorities as a sampler stores them, ``[size, columns]``, 0 for empty slots; None without priorities."""
    sampler = buffer.sampler
    state = sampler.state_dict() if sampler.has_priorities else {}
    if "priorities" not in state:
        return None
    known = state["priorities"].numpy()
    found = np.zeros(ring.size * ring.columns)
    filled = ring.length * ring.columns
    # Items written while another sampler was in use get the default priority.
    found[:filled] = sampler.default_priority
    count = min(len(known), filled)
    found[:count] = known[:count]
    return found.reshape(ring.size, ring.columns)


def priorities_of(buffer: Any, stored: np.ndarray | None, grid: Grid) -> Priorities | None:
    """Sum stored priorities by cell, and add what importance weights are computed from; None without priorities."""
    if stored is None:
        return None
    positive = stored[stored > 0]
    return Priorities(
        sums=by_cell(stored, grid),
        total=float(stored.sum()),
        least=float(positive.min()) if positive.size else 0.0,
        most=float(stored.max(initial=0.0)),
        alpha=float(buffer.sampler.alpha),
        beta=float(buffer.sampler.beta),
        count=len(buffer.storage),
    )


def chances(
    buffer: Any, ring: StorageState, stored: np.ndarray | None, trajectories: Trajectories
) -> np.ndarray | None:
    """Return the probability of each slot in a draw, ``[size, columns]``, with a sum of 1; None if it is not known."""
    if is_slicing(buffer.sampler):
        size = slice_length(buffer, None)
        if size is None or stored is not None or buffer.sampler.span or not len(trajectories):
            return None
        return coverage(trajectories, ring, size, is_strict(buffer.sampler))
    if stored is not None:
        total = stored.sum()
        return stored / total if total > 0 else None
    share = np.zeros((ring.size, ring.columns))
    share[: ring.length] = 1 / max(ring.length * ring.columns, 1)
    return share


def by_cell(values: np.ndarray, grid: Grid) -> np.ndarray:
    """Return a copy of values ``[rows, columns]``, summed by cell: ``[columns, cells]`` for the columns that are drawn.

    Example:
        >>> by_cell(np.ones((5, 1)), Grid(rows=5, cells=2, columns=1, total=1)).tolist()
        [[3.0, 2.0]]
    """
    if grid.cells == grid.rows:
        return values[:, : grid.columns].T.copy()
    return np.ascontiguousarray(np.add.reduceat(values[:, : grid.columns], grid.edges()[:-1], axis=0).T)
