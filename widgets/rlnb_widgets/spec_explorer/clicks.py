"""The value that a click on the picture of a domain makes of what is typed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlnb_widgets._core.spec_domain import Lane
from rlnb_widgets.spec_explorer.ends import legal_of


def clicked(typed: Any, shape: tuple[int, ...], lanes: Sequence[Lane], at: int, place: float) -> Any:
    """Return a value as one would type it, after a click.

    A click on a cell makes it the only one of its lane, a click on a bit turns it.

    Args:
        typed: What is typed already; it is kept as far as it has the shape. None for nothing.
        shape: Shape of the value.
        lanes: Lanes of the picture.
        at: Index of the lane that was clicked on.
        place: Where: a number on a line, else the index of a choice, cell or bit and a part of the way to the next one.

    Example:
        >>> lanes = [Lane("line", low=-1.0, elements=(0,)), Lane("line", low=3.0, elements=(1,))]
        >>> clicked(None, (2,), lanes, 0, 0.5), clicked([0.5, 3], (2,), lanes, 1, -1)
        ([0.5, 3], [0.5, -1])
    """
    values = _numbers(typed, shape)
    if values is None:
        values = np.zeros(shape)
        for lane in lanes:
            if lane.kind != "bits":
                _set(values, lane, legal_of(lane) if lane.kind == "line" else _first_legal(lane))
    lane = lanes[at]
    if lane.kind == "line":
        _set(values, lane, float(round(place)) if lane.whole else float(f"{place:.3g}"))
    else:
        _set(values, lane, math.floor(place))
    return _plain(values.tolist())


def _set(values: np.ndarray, lane: Lane, found: float) -> None:
    """Write the number of a line, or set the choice or cell with an index and turn the bit with it."""
    picked = slice(None) if lane.elements is None else list(lane.elements)
    if lane.kind in ("line", "choices"):
        values.reshape(-1)[picked] = found + (lane.start if lane.kind == "choices" else 0)
        return
    rows = values.reshape(-1, values.shape[-1] if values.ndim else 1)
    at = lane.begin + int(found)
    turned = rows[picked, at] == 0
    if lane.kind == "cells":
        rows[picked, lane.begin : lane.begin + lane.n] = 0
    rows[picked, at] = turned if lane.kind == "bits" else 1


def _first_legal(lane: Lane) -> int:
    return next((i for i in range(lane.n) if i not in lane.barred), 0)


def _numbers(typed: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return what is typed as an array of the shape, None if it is something else."""
    if typed is None:
        return None
    try:
        return np.array(typed, dtype=np.float64).reshape(shape)
    except (TypeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return int(value) if value.is_integer() else value
