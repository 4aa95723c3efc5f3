"""Payload of the page: the display lists, their columns as bytes, and what the page looks up in them."""

from __future__ import annotations

from typing import Any

from rlnb_widgets._core.text import shorten
from rlnb_widgets.batched_timeline.failure import Failure
from rlnb_widgets.batched_timeline.model import BatchRun
from rlnb_widgets.batched_timeline.scene import RunColumns, TimelineScene
from rlnb_widgets.batched_timeline.text import timeline_insight


def timeline_payload(scene: TimelineScene) -> tuple[dict[str, Any], bytes]:
    """Return the description, and the bytes of the columns."""
    lists = {}
    if scene.runs:
        lists = {"summary": scene.summary(), "overview": scene.overview(), "detail": scene.detail()}
        if (resets := scene.resets()) is not None:
            lists["resets"] = resets
    kept, blob = scene.columns.payload()
    return {
        "lists": {name: display.payload() for name, display in lists.items()},
        "columns": kept,
        "legend": scene.legend() if scene.runs else [],
        "runs": [_run(run, columns) for run, columns in zip(scene.runs, scene.of_run, strict=True)],
        "failures": [_failure(run, run.failure) for run in scene.model.runs if run.failure],
        "insight": timeline_insight(scene.model),
        "notes": list(scene.model.notes),
        "whole": scene.whole,
    }, blob


def _run(run: BatchRun, columns: RunColumns) -> dict[str, Any]:
    return {
        "label": shorten(run.label, 40),
        "envs": run.envs,
        "processes": run.in_processes,
        "entries": {name: list(keys) for name, keys in run.entries.items()},
        "failed": [list(run.failure.workers), run.failure.step] if run.failure else None,
        "begin": columns.begin,
        "end": columns.end,
        "made": columns.made,
        "lanes": [[*lane["step"], *lane["reset"]] for lane in columns.lanes],
    }


def _failure(run: BatchRun, failure: Failure) -> dict[str, Any]:
    lines = [[line.text, line.own] for line in failure.lines]
    return {"label": shorten(run.label, 40), "headline": failure.headline, "lines": lines, "step": failure.step}
