"""Payload of the page: the display lists, their columns as bytes, and what the page looks up in them."""

from __future__ import annotations

from typing import Any

from rlnb_widgets._core.text import shorten
from rlnb_widgets.batched_timeline.collector_model import CollectorRun
from rlnb_widgets.batched_timeline.collector_scene import CollectorColumns, CollectorScene
from rlnb_widgets.batched_timeline.collector_text import collectors_insight
from rlnb_widgets.batched_timeline.failure import Failure
from rlnb_widgets.batched_timeline.model import BatchRun
from rlnb_widgets.batched_timeline.scene import RunColumns, TimelineScene
from rlnb_widgets.batched_timeline.text import timeline_insight


def timeline_payload(scene: TimelineScene | CollectorScene) -> tuple[dict[str, Any], bytes]:
    """Return the description, and the bytes of the columns."""
    if isinstance(scene, CollectorScene):
        unit, insight = ("batch", "batches"), collectors_insight(scene.model)
        runs = [_collector_run(run, columns) for run, columns in zip(scene.runs, scene.of_run, strict=True)]
    else:
        unit, insight = ("step", "steps"), timeline_insight(scene.model)
        runs = [_run(run, columns) for run, columns in zip(scene.runs, scene.of_run, strict=True)]
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
        "unit": list(unit),
        "runs": runs,
        "failures": [_failure(run.label, run.failure) for run in scene.model.runs if run.failure],
        "insight": insight,
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


def _collector_run(run: CollectorRun, columns: CollectorColumns) -> dict[str, Any]:
    return {
        "label": shorten(run.label, 40),
        "workers": run.workers,
        "processes": run.in_processes,
        "first": columns.first,
        "begin": columns.begin,
        "end": columns.end,
        "current": columns.current,
        "age": columns.age,
        "waited": columns.waited,
        "parts": list(columns.parts),
    }


def _failure(label: str, failure: Failure) -> dict[str, Any]:
    lines = [[line.text, line.own] for line in failure.lines]
    return {"label": shorten(label, 40), "headline": failure.headline, "lines": lines, "step": failure.step}
