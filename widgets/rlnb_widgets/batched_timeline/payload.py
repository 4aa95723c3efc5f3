"""Payload of the page: the display lists, their columns as bytes, and what the page looks up in them."""

from __future__ import annotations

from typing import Any

from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import legend_payload
from rlnb_widgets._core.packing import packed
from rlnb_widgets._core.text import shorten
from rlnb_widgets.batched_timeline.collector_scene import CollectorScene
from rlnb_widgets.batched_timeline.failure import Failure
from rlnb_widgets.batched_timeline.scene import TimelineScene


def timeline_payload(scene: TimelineScene | CollectorScene, insight: str) -> tuple[dict[str, Any], bytes]:
    """Return the description, and the bytes of the columns."""
    lists: dict[str, Display] = {}
    if scene.runs:
        lists = {"summary": scene.summary(), "overview": scene.overview(), "detail": scene.detail()}
        if (resets := scene.resets()) is not None:
            lists["resets"] = resets
    kept, blob = scene.columns.payload()
    return {
        "lists": packed(lists),
        "columns": kept,
        "legend": legend_payload(scene.legend()) if scene.runs else [],
        "unit": list(scene.unit),
        "runs": [run.page for run in scene.of_run],
        "failures": [_failure(run.label, run.failure) for run in scene.model.runs if run.failure],
        "insight": insight,
        "notes": list(scene.model.notes),
        "whole": scene.whole,
    }, blob


def _failure(label: str, failure: Failure) -> dict[str, Any]:
    lines = [[line.text, line.own] for line in failure.lines]
    return {"label": shorten(label, 40), "headline": failure.headline, "lines": lines, "step": failure.step}
