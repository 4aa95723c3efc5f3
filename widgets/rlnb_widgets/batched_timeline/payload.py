"""Payload of the page: a description of each run, and its activities as bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlnb_widgets._core.text import shorten
from rlnb_widgets.batched_timeline.failure import Failure
from rlnb_widgets.batched_timeline.model import PHASES, BatchRun, TimelineModel
from rlnb_widgets.batched_timeline.text import duration, rate_text


def timeline_payload(model: TimelineModel) -> tuple[dict[str, Any], bytes]:
    """Return the description, and the bytes of all turns that are drawn."""
    blob = bytearray()
    head = {
        "runs": [_run(run, blob) for run in model.runs],
        "phases": list(PHASES),
        "meanings": PHASES,
        "steps": model.length,
        "sameResets": model.same_resets,
        "notes": list(model.notes),
    }
    return head, bytes(blob)


def _run(run: BatchRun, blob: bytearray) -> dict[str, Any]:
    drawn = run.drawn
    parts = np.stack([run.told, run.acted, run.written], -1)[:drawn].astype(np.float32)
    return {
        "label": shorten(run.label, 40),
        "name": run.name,
        "envs": run.envs,
        "steps": run.steps,
        "turns": drawn,
        "processes": run.in_processes,
        "took": duration(1e6 * run.seconds),
        "rate": rate_text(run),
        "relative": run.rate if math.isfinite(run.rate) else 0.0,
        "atWork": f"{run.at_work:.2g}" if math.isfinite(run.at_work) else "",
        "shares": [round(float(share), 4) for share in run.shares],
        "entries": {name: list(keys) for name, keys in run.entries.items()},
        "failure": None if run.failure is None else _failure(run.failure),
        "at": {
            "start": _put(blob, run.start[:drawn]),
            "stop": _put(blob, run.stop[:drawn]),
            "parts": _put(blob, parts),
            "step": _put(blob, run.step_of[:drawn].astype(np.int32)),
            "reset": _put(blob, run.is_reset[:drawn].astype(np.uint8)),
        },
    }


def _failure(failure: Failure) -> dict[str, Any]:
    lines = [[line.text, line.own] for line in failure.lines]
    return {"workers": list(failure.workers), "headline": failure.headline, "lines": lines, "step": failure.step}


def _put(blob: bytearray, array: np.ndarray) -> int:
    start = len(blob)
    blob += np.ascontiguousarray(array).tobytes()
    return start
