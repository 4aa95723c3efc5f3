"""Payload of the page: a description, and the numbers of all recorded states, without duplicates."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from rlnb_widgets._core.display import stored_as
from rlnb_widgets._core.text import bytes_text
from rlnb_widgets.buffer_explorer.model import ExplorerModel, Moment, Priorities, Trajectories
from rlnb_widgets.buffer_explorer.scene import legend_of, shows_slices
from rlnb_widgets.buffer_explorer.values import abouts, cell_kinds
from rlnb_widgets.buffer_explorer.words import (
    draw_words,
    memory_words,
    moment_words,
    room_words,
    state_words,
    trajectory_words,
)


class _Bytes:
    """Arrays as consecutive bytes; an array that was added before is not stored again."""

    def __init__(self) -> None:
        self.blob = bytearray()
        self._known: dict[bytes, int] = {}

    def put(self, array: np.ndarray) -> list[Any]:
        """Add an array; return its kind, its first byte and its length."""
        kind, stored = stored_as(array)
        data = kind.encode() + stored.tobytes()
        start = self._known.setdefault(data, len(self.blob))
        if start == len(self.blob):
            self.blob += stored.tobytes()
        return [kind, start, stored.size]


def buffer_payload(model: ExplorerModel) -> tuple[dict[str, Any], bytes]:
    """Return the description and the bytes."""
    out = _Bytes()
    memory = model.memory
    head = {
        "boxes": [[box.role, box.name, [list(pair) for pair in box.settings]] for box in model.boxes],
        "memory": {
            "note": memory.note,
            "total": memory_words(memory) if memory.keys else "",
            "keys": [f"{key.key} {bytes_text(key.reserved)}" for key in memory.keys],
        },
        "moments": _changes([_moment(moment, out) for moment in model.moments]),
        "marks": _jumps(model),
        "notes": list(model.notes),
        "strict": model.strict,
        "slices": model.slices,
        "legend": legend_of(model.moments, shows_slices(model)),
    }
    return head, bytes(out.blob)


def _jumps(model: ExplorerModel) -> dict[str, list[int]]:
    """Return the recorded states by what was done, to jump between them."""
    jumps: dict[str, list[int]] = {}
    for i, moment in enumerate(model.moments):
        for what in (moment.what, *(["overwriting"] if moment.overwrote else [])):
            jumps.setdefault(what, []).append(i)
    jumps.pop("look", None)
    return jumps


def _moment(moment: Moment, out: _Bytes) -> dict[str, Any]:
    ring, grid, arcs = moment.ring, moment.grid, moment.arcs
    ages, edges = cell_kinds(moment)
    return {
        "words": moment_words(moment),
        "drawWords": f"{draw_words(moment) or 'No sample was counted yet'}.",
        "room": room_words(ring),
        "state": " ".join([state_words(ring), *(f"{words}." for words in [trajectory_words(moment)] if words)]),
        "size": ring.size,
        "length": ring.length,
        "cursor": ring.cursor,
        "written": ring.written,
        "first": ring.first,
        "newest": (ring.cursor - 1) % ring.size if ring.full else ring.length - 1,
        "seam": ring.seam,
        "ordered": ring.ordered,
        "turns": ring.ordered and not ring.frozen,
        "all": ring.columns,
        "cells": grid.cells,
        "columns": grid.columns,
        "wrote": list(moment.wrote),
        "about": abouts(moment),
        "ages": out.put(ages),
        "edges": out.put(edges),
        # Where rows are in order of time, their ages follow from the newest one.
        "age": out.put(moment.age[:0] if ring.ordered else moment.age),
        "draws": out.put(moment.draws.astype(np.int64)),
        "expected": out.put(moment.expected if moment.expected.any() else moment.expected[:, :0]),
        "batches": moment.batches,
        "drawn": out.put(moment.drawn),
        "drawnCount": moment.drawn_count,
        "slices": out.put(moment.slices),
        "arcs": out.put(_arcs(arcs.drawn)),
        "arcCount": arcs.count,
        "named": arcs.drawn.named,
        "interleaved": arcs.interleaved,
        "lengths": out.put(arcs.lengths),
        "priorities": None if moment.priorities is None else _priorities(moment.priorities, out),
        "unknown": arcs.drawn.note,  # why there are no trajectories
        "asked": None if moment.slicing is None else moment.slicing.slice_len,
    }


def _changes(moments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all of the first moment, and of the others what differs from the one before."""
    first, *_ = moments
    return [first] + [
        {name: value for name, value in now.items() if value != before[name]} for before, now in pairwise(moments)
    ]


def _arcs(found: Trajectories) -> np.ndarray:
    flags = found.begun.astype(np.int64) + 2 * found.ended
    return np.stack([found.column, found.start, found.length, found.ids, flags], 1)


def _priorities(found: Priorities, out: _Bytes) -> dict[str, Any]:
    return {
        "sums": out.put(found.sums),
        "total": found.total,
        "least": found.least,
        "most": found.most,
        "beta": found.beta,
    }
