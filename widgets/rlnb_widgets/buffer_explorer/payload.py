"""Payload of the page: a description, and the numbers of all recorded states, without duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.text import bytes_text
from rlnb_widgets.buffer_explorer.schema import ExplorerModel, Moment, Priorities, Trajectories
from rlnb_widgets.buffer_explorer.words import moment_words, state_words, trajectory_words


class _Bytes:
    """Arrays as consecutive bytes; an array that was added before is not stored again."""

    def __init__(self) -> None:
        self.blob = bytearray()
        self._known: dict[bytes, int] = {}

    def put(self, array: np.ndarray, kind: str) -> list[int]:
        """Add an array; return its first byte and its number of elements."""
        if kind != "f4":
            limits = np.iinfo(kind)
            array = np.clip(array, limits.min, limits.max)
        data = np.ascontiguousarray(array).astype(f"<{kind}").tobytes()
        start = self._known.setdefault(data, len(self.blob))
        if start == len(self.blob):
            self.blob += data
        return [start, array.size]


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
    }
    return head, bytes(out.blob)


def _moment(moment: Moment, out: _Bytes) -> dict[str, Any]:
    ring, grid, arcs = moment.ring, moment.grid, moment.arcs
    return {
        "what": moment.what,
        "words": moment_words(moment),
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
        "age": out.put(moment.age, "i4"),
        "touched": out.put(moment.touched, "u1"),
        "draws": out.put(moment.draws, "i4"),
        "expected": out.put(moment.expected, "f4"),
        "batches": moment.batches,
        "drawn": out.put(moment.drawn, "i4"),
        "drawnCount": moment.drawn_count,
        "slices": out.put(moment.slices, "i4"),
        "arcs": out.put(_arcs(arcs.drawn), "i4"),
        "arcCount": arcs.count,
        "named": arcs.drawn.named,
        "interleaved": arcs.interleaved,
        "lengths": out.put(arcs.lengths, "i4"),
        "trajectories": trajectory_words(moment),
        "priorities": None if moment.priorities is None else _priorities(moment.priorities, out),
        "slicing": None if moment.slicing is None else [moment.slicing.slice_len, moment.slicing.verdict],
    }


def _arcs(found: Trajectories) -> np.ndarray:
    flags = found.begun.astype(np.int64) + 2 * found.ended
    return np.stack([found.column, found.start, found.length, found.ids, flags], 1)


def _priorities(found: Priorities, out: _Bytes) -> dict[str, Any]:
    return {
        "sums": out.put(found.sums, "f4"),
        "total": found.total,
        "least": found.least,
        "most": found.most,
        "alpha": found.alpha,
        "beta": found.beta,
        "count": found.count,
    }
