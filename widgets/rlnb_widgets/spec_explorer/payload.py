"""Conversion of the model to the JSON of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlnb_widgets._core.spec_domain import Lane
from rlnb_widgets._core.spec_entries import Path
from rlnb_widgets.spec_explorer.ends import lane_text
from rlnb_widgets.spec_explorer.explain import spec_row_words, spec_words
from rlnb_widgets.spec_explorer.samples import Samples
from rlnb_widgets.spec_explorer.scene import domain_display, large_display, sampled_text
from rlnb_widgets.spec_explorer.schema import Row, SpecModel


def spec_payload(model: SpecModel, picks: Mapping[Path, list[str]]) -> str:
    """Return the model as JSON, with the names of the values to pick for each path; equal models give equal text."""
    rows = [_row(model, row, picks.get(row.path, [])) for row in model.rows]
    return _json(
        {
            "leaves": len(model.opening) < len(model.rows),
            "words": spec_words(model).split("\n\n"),
            "pictures": _pictures(model, rows),
            "rows": rows,
        }
    )


def _pictures(model: SpecModel, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number the pictures of the rows, and return them: domains of the same form have the same ones."""
    pictures: list[dict[str, Any]] = []
    numbers: dict[str, int] = {}
    for row, out in zip(model.rows, rows, strict=True):
        if lanes := row.cell.domain.lanes:
            lists = {"small": domain_display(lanes).payload(), "large": large_display(lanes).payload()}
            out["picture"] = numbers.setdefault(_json(lists), len(pictures))
            if out["picture"] == len(pictures):
                pictures.append(lists)
    return pictures


def samples_json(model: SpecModel, samples: Mapping[Path, Samples]) -> str:
    """Return the samples of each row as JSON, in the order of the rows; null if there are none."""
    found = [samples.get(row.path) if row.leaf else None for row in model.rows]
    return _json([None if s is None else {"n": s.draws, "levels": s.levels, "note": s.note} for s in found])


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _row(model: SpecModel, row: Row, picks: list[str]) -> dict[str, Any]:
    cell = row.cell
    out: dict[str, Any] = {
        "path": list(row.path),
        "depth": len(row.path),
        "kind": cell.kind,
        "dtype": cell.dtype,
        "device": cell.device,
        "dims": [[dim.role[0], dim.size] for dim in cell.dims],
        "shape": cell.shape,
        "domain": cell.domain.text,
        "words": spec_row_words(row),
        "picks": picks,
        "code": row.code,
    }
    if not row.path:
        out["name"] = model.name
    if not row.leaf:
        out["node"] = True
    if not row.here:
        out["elsewhere"] = True
    if cell.domain.lanes:
        out["lanes"] = [_lane(lane) for lane in cell.domain.lanes]
        if sampled := sampled_text(cell.domain):
            out["sampled"] = sampled
    if cell.domain.kind == "interval" and len(cell.domain.lanes) > 1:
        out["brief"] = cell.domain.text.partition(":")[0]  # the intervals are listed beside their pictures
    if cell.domain.more:
        out["more"] = cell.domain.more
    if cell.domain.note:
        out["note"] = cell.domain.note
    out["why" if cell.why else "space"] = cell.why or cell.space
    if row.differences:
        out["diff"] = [{"kind": d.kind, "text": d.text()} for d in row.differences]
    return out


def _lane(lane: Lane) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": lane.kind}
    if lane.label:
        out |= {"label": lane.label, "text": lane_text(lane)}
    return out | ({"view": list(lane.view)} if lane.kind == "line" else {"n": lane.n})
