"""Conversion of the model to the JSON of the page."""

from __future__ import annotations

import json
from typing import Any

from rlnb_widgets._core.text import bytes_text
from rlnb_widgets.ted_explorer.explain import ted_row_words, ted_words
from rlnb_widgets.ted_explorer.forms import Form
from rlnb_widgets.ted_explorer.layouts import Line
from rlnb_widgets.ted_explorer.scene import bytes_display, ends_display, form_display, kinds_display, thumb_lists
from rlnb_widgets.ted_explorer.schema import Cell, Row, TedModel, Thumb, Verdict
from rlnb_widgets.ted_explorer.text import stats_text
from rlnb_widgets.ted_explorer.values import Refs
from rlnb_widgets.ted_explorer.verdicts import rules_line
from rlnb_widgets.ted_explorer.views import VIEWS, share_text

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"


def ted_payload(model: TedModel, refs: Refs, forms: tuple[Form, ...], layouts: dict[str, tuple[Line, ...]]) -> str:
    """Return the model as JSON; equal models give equal text."""
    ends: dict[str, list[list[int]]] = {}
    for boundary in model.boundaries:
        ends.setdefault(boundary.kind, []).append([boundary.env, boundary.t])
    data = {
        "ted": model.is_ted,
        "batch": list(model.batch),
        "steps": model.steps,
        "notes": list(model.notes),
        "words": ted_words(model).split("\n\n"),
        "ends": ends,
        "past": [list(place) for place in model.past],
        "rules": [_rule(verdict) for verdict in model.verdicts],
        "rulesLine": rules_line(model.verdicts),
        "forms": _forms(forms, layouts) if forms else None,
        "tabs": VIEWS,
        "rows": [_row(row, refs) for row in model.rows],
        "thumbs": {kind: {size: d.payload() for size, d in sizes.items()} for kind, sizes in thumb_lists().items()},
        "line": ends_display(str).payload(),
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _rule(verdict: Verdict) -> dict[str, Any]:
    places = [
        {
            "where": place.where, "side": place.side, "path": list(place.path), "element": place.element, "t": place.t,
            "found": place.found, "cause": place.cause, "fix": place.fix,
        }
        for place in verdict.places
    ]  # fmt: skip
    return {"name": verdict.rule, "sentence": verdict.sentence, "places": places}


def _forms(forms: tuple[Form, ...], layouts: dict[str, tuple[Line, ...]]) -> dict[str, Any]:
    parts = []
    for form in forms:
        lines = layouts.get(form.name, ()) if form.nbytes is not None else ()
        said = "; ".join(f"{line.label}: {' '.join(text for text, _ in line.boxes if text)}" for line in lines)
        part = {"name": form.name, "made": form.made, "stores": form.stores, "why": form.why, "said": said}
        parts.append({**part, "list": form_display(lines).payload()})
    whole = max(forms[0].nbytes or 0, 1) if forms else 1
    said = "; ".join(f"{form.name}: {share_text(form, whole)}" for form in forms)
    return {
        "bytes": bytes_display(forms).payload(),
        "said": said,
        "kinds": kinds_display().payload(),
        "parts": parts,
    }


def _row(row: Row, refs: Refs) -> dict[str, Any]:
    out: dict[str, Any] = {"path": list(row.path)}
    if not row.leaf:
        out["node"] = True
    if row.root is not None:
        out["root"] = _cell(row.root, refs.get(("root", row.path)))
    if row.next is not None:
        out["next"] = _cell(row.next, refs.get(("next", row.path)))
    if row.carry.kind:
        out["carry"] = row.carry.kind
    if row.carry.holds is not None:
        out["holds"] = row.carry.holds
        out["at"] = list(row.carry.index)
    if words := ted_row_words(row):
        out["words"] = words
    for name, found in (("spec", row.problems), ("diff", row.differences)):
        if found:
            out[name] = [{"side": f.side, "kind": f.kind, "text": f.text(), "fix": f.fix} for f in found]
    return out


def _cell(cell: Cell, ref: dict[str, Any] | None) -> dict[str, Any]:
    out: dict[str, Any] = {
        "dtype": cell.dtype,
        "dims": [[dim.role[0], dim.size] for dim in cell.dims],
        "shape": cell.shape,
        "storage": cell.place or cell.storage,
    }
    if cell.storage not in ("in memory", "non-tensor", ""):
        out["kept"] = cell.storage
    if cell.sharing:
        out["sharing"] = cell.sharing
    if cell.device:
        out["device"] = cell.device
    if cell.nbytes is not None:
        out["bytes"] = bytes_text(cell.nbytes)
    if cell.stats is not None:
        out["range"] = stats_text(cell.stats)
        if cell.stats.nan or cell.stats.inf:
            out["odd"] = [cell.stats.nan, cell.stats.inf]
    if cell.thumb is not None:
        out["thumb"] = [cell.thumb.kind, cell.thumb.rows, encode_entry(cell.thumb)]
    if cell.preview:
        out["preview"] = cell.preview
    if cell.message:
        out["message"] = cell.message
    if ref is not None:
        out["values"] = ref
    return out


def encode_entry(thumb: Thumb) -> str:
    """Encode the levels of a thumbnail as letters, ``.`` for a gap.

    Example:
        >>> encode_entry(Thumb("spark", 1, (0, 1, 63, -1)))
        'AB-.'
    """
    return "".join("." if level < 0 else LETTERS[level] for level in thumb.levels)
