"""Payload of the page: a description, and the numbers of all recorded states, without duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.text import bytes_text
from rlnb_widgets.buffer_explorer.model import ExplorerModel, Moment, Priorities, Trajectories
from rlnb_widgets.buffer_explorer.scene import legend_of
from rlnb_widgets.buffer_explorer.words import draw_words, moment_words, room_words, state_words, trajectory_words


class _Bytes:
    """Arrays as consecutive bytes; an array that was added before is not stored again."""

    def __init__(self) -> None:
        self.blob = bytearray()
        self._known: dict[bytes, int] = {}

    def put(self, array: np.ndarray) -> list[Any]:
        """Add an array; return its kind, its first byte and its length."""
        kind, stored = _stored(array)
        data = kind.encode() + stored.tobytes()
        start = self._known.setdefault(data, len(self.blob))
        if start == len(self.blob):
            self.blob += stored.tobytes()
        return [kind, start, stored.size]


def _stored(array: np.ndarray) -> tuple[str, np.ndarray]:
    """Return the shortest kind of number that holds an array, and the array as such."""
    if array.dtype.kind == "f":
        return "f4", array.astype("<f4")
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    limits = {kind: np.iinfo(kind) for kind in ("u1", "i1", "u2", "i2", "i4")}
    kind = next((k for k, limit in limits.items() if limit.min <= low and high <= limit.max), "i4")
    return kind, np.clip(array, limits[kind].min, limits[kind].max).astype(f"<{kind}")


def buffer_payload(model: ExplorerModel) -> tuple[dict[str, Any], bytes]:
    """Return the description and the bytes."""
    out = _Bytes()
    memory = model.memory
    head = {
        "name": model.name,
        "boxes": [[box.role, box.name, [list(pair) for pair in box.settings]] for box in model.boxes],
        "memory": {
            "where": memory.where,
            "note": memory.note,
            "total": bytes_text(memory.reserved),
            "each": bytes_text(memory.row_bytes),
            "keys": [[key.key, key.form, key.reserved, bytes_text(key.reserved)] for key in memory.keys],
        },
        "moments": [_moment(moment, out) for moment in model.moments],
        "notes": list(model.notes),
        "strict": model.strict,
        "slices": model.slices,
        "legend": legend_of(model),
    }
    return head, bytes(out.blob)


def _moment(moment: Moment, out: _Bytes) -> dict[str, Any]:
    ring, grid, arcs = moment.ring, moment.grid, moment.arcs
    return {
        "what": moment.what,
        "words": moment_words(moment),
        "drawWords": draw_words(moment),
        "room": room_words(ring),
        "state": state_words(ring),
        "size": ring.size,
        "limit": ring.limit,
        "length": ring.length,
        "cursor": ring.cursor,
        "written": ring.written,
        "first": ring.first,
        "seam": ring.seam,
        "ordered": ring.ordered,
        "turns": ring.ordered and not ring.frozen,
        "all": ring.columns,
        "cells": grid.cells,
        "columns": grid.columns,
        "wrote": list(moment.wrote),
        "overwrote": moment.overwrote,
        "age": out.put(moment.age),
        "touched": out.put(moment.touched),
        "draws": out.put(moment.draws.astype(np.int64)),
        "expected": out.put(moment.expected),
        "batches": moment.batches,
        "drawn": out.put(moment.drawn),
        "drawnCount": moment.drawn_count,
        "slices": out.put(moment.slices),
        "arcs": out.put(_arcs(arcs.drawn)),
        "arcCount": arcs.count,
        "named": arcs.drawn.named,
        "interleaved": arcs.interleaved,
        "lengths": out.put(arcs.lengths),
        "trajectories": trajectory_words(moment),
        "priorities": None if moment.priorities is None else _priorities(moment.priorities, out),
        "slicing": None if moment.slicing is None else [moment.slicing.slice_len, moment.slicing.verdict],
    }


def _arcs(found: Trajectories) -> np.ndarray:
    flags = found.begun.astype(np.int64) + 2 * found.ended
    return np.stack([found.column, found.start, found.length, found.ids, flags], 1)


def _priorities(found: Priorities, out: _Bytes) -> dict[str, Any]:
    return {
        "sums": out.put(found.sums),
        "total": found.total,
        "least": found.least,
        "most": found.most,
        "alpha": found.alpha,
        "beta": found.beta,
        "count": found.count,
    }
