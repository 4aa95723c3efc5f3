"""Display lists of the buffer explorer on small buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rlnb_widgets import BufferExplorer
from rlnb_widgets._core.display import Display
from rlnb_widgets.buffer_explorer.scene import (
    LEVEL,
    bars_display,
    lengths_display,
    memory_display,
    ring_display,
    sum_tree_display,
    weights_display,
)
from rlnb_widgets.buffer_explorer.values import state_values
from tensordict import TensorDict

from rlnb.data import PrioritizedSampler, SliceSampler
from tests.widgets.buffer_explorer.conftest import make_buffer, make_steps

Made = tuple[Display, dict[str, Any]]


def prioritized() -> BufferExplorer:
    """A full buffer of 40 rows with several priorities, some of them overwritten and drawn."""
    torch.manual_seed(0)
    explorer = BufferExplorer(make_buffer(40, sampler=PrioritizedSampler(40, 0.7, 0.5), batch_size=8))
    explorer.extend(make_steps([9, 12, 14]))
    explorer.update_priority(torch.arange(35), torch.rand(35) * 3)
    explorer.sample()
    explorer.extend(make_steps([6, 9], last_ends=False))
    explorer.sample()
    return explorer


def sliced() -> BufferExplorer:
    """A sample of slices, in chronological order."""
    sampler = SliceSampler(slice_len=6, end_key=("next", "done"))
    explorer = BufferExplorer(make_buffer(60, sampler=sampler, batch_size=18), order="chronological")
    explorer.extend(make_steps([4, 20, 36, 20], last_ends=False))
    explorer.sample()
    return explorer


def columns() -> BufferExplorer:
    """A storage with a column for each of three envs."""
    explorer = BufferExplorer(make_buffer(24, ndim=2))
    explorer.extend(torch.stack([make_steps([4, 2]), make_steps([1, 5]), make_steps([6])]))
    explorer.sample()
    return explorer


def large() -> BufferExplorer:
    """5,000 rows in 512 cells."""
    torch.manual_seed(0)
    explorer = BufferExplorer(make_buffer(5000, sampler=PrioritizedSampler(5000, 0.7, 0.5), batch_size=64))
    explorer.extend(TensorDict({"next": {"done": torch.rand(4000, 1) < 0.01}}, [4000]))
    sample = explorer.sample()
    explorer.update_priority(sample["index"], torch.rand(64))
    return explorer


def _of(make: Callable[[], BufferExplorer], name: str, t: int = -1) -> Callable[[], Made]:
    def made() -> Made:
        explorer = make()
        moment = explorer.model.moments[t]
        values, params = state_values(moment, explorer.order)
        column, grid = values.__getitem__, moment.grid
        if name == "ring":
            params |= {"in0": 1, "chosen": 0.1, "chosen to": 0.14}
            return ring_display(column, grid.columns), params
        if name == "tree":
            levels = sum(key.startswith("sum") for key in values)
            return sum_tree_display(column, levels), {**params, "reached": LEVEL * levels}
        params |= {"selected": 1, "slot": 7}
        return bars_display(column, name, "c1", expected=name == "draws"), params

    return made


def _weights() -> Made:
    beta = np.linspace(0, 1, 61)
    curves = {"smallest": np.ones(61), "largest": 16.0**-beta, "here": 3.0**-beta}
    params = {"beta": 30.5, **{f"{name} shown": 1 for name in curves}}
    return weights_display(curves.__getitem__), params | {f"{n} y": 128 - 120 * v[30] for n, v in curves.items()}


def _lengths() -> Made:
    counts = np.array([0, 2, 1, 0, 5, 3, 0, 1])
    short = np.arange(8) < 4
    columns = {"long enough": np.where(short, 0, counts), "too short": np.where(short, counts, 0)}
    params = {"bins": 8, "edge": 4, "most lengths": 5, "longest": "longest: 7 rows"}
    return lengths_display(columns.__getitem__), params


SCENES: dict[str, Callable[[], Made]] = {
    "ring of a buffer that was written over": _of(prioritized, "ring", -2),
    "ring of a prioritized sample": _of(prioritized, "ring"),
    "ring of slices": _of(sliced, "ring"),
    "rings of columns": _of(columns, "ring"),
    "ring of 5,000 rows": _of(large, "ring"),
    "bars of draws": _of(prioritized, "draws"),
    "bars of the priorities of 5,000 rows": _of(large, "priorities"),
    "sum tree": _of(prioritized, "tree"),
    "sum tree of 5,000 rows": _of(large, "tree"),
    "weights against beta": _weights,
    "lengths of trajectories": _lengths,
    "memory by entry": lambda: (memory_display(prioritized().model.memory.keys), {}),
}
