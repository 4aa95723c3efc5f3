"""Conversion of the model to the JSON of the page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rlnb_widgets._core.display_svg import legend_payload
from rlnb_widgets._core.packing import Alike, packed
from rlnb_widgets._core.text import bytes_text, keys_of
from rlnb_widgets.ted_explorer.explain import ted_row_words, ted_words
from rlnb_widgets.ted_explorer.forms import Form
from rlnb_widgets.ted_explorer.layouts import Line
from rlnb_widgets.ted_explorer.scene import (
    bytes_display,
    ends_display,
    form_display,
    form_width,
    kinds_legend,
    thumb_list,
)
from rlnb_widgets.ted_explorer.schema import Cell, Row, TedModel, Thumb, Verdict
from rlnb_widgets.ted_explorer.text import stats_text
from rlnb_widgets.ted_explorer.values import Refs
from rlnb_widgets.ted_explorer.verdicts import rules_line
from rlnb_widgets.ted_explorer.views import VIEWS

#: What many cells, and many rows, have alike.
_CELL, _ROW = ("dtype", "dims", "shape", "storage", "about", "packed"), ("carry", "holds", "words")


def ted_payload(model: TedModel, refs: Refs, forms: tuple[Form, ...], layouts: dict[str, tuple[Line, ...]]) -> str:
    """Return the model as JSON; equal models give equal text."""
    ends: dict[int, dict[str, list[int]]] = {}
    for boundary in model.boundaries:
        ends.setdefault(boundary.env, {}).setdefault(boundary.kind, []).append(boundary.t)
    places = {(place.element, place.t) for verdict in model.verdicts for place in verdict.places}
    alike = Alike()
    rows = [_shared(_row(row, refs, len(model.batch)), alike) for row in model.rows]
    thumbs = [cell.thumb.kind for row in model.rows for cell in (row.root, row.next) if cell and cell.thumb]
    data = {
        "ted": model.is_ted,
        "batch": list(model.batch),
        "steps": model.steps,
        "notes": list(model.notes),
        "words": ted_words(model).split("\n\n"),
        "kinds": list(dict.fromkeys(boundary.kind for boundary in model.boundaries)),
        "ends": ends,
        "past": _by_element(model.past),
        "found": _by_element((e, t) for e, t in places if e is not None and t is not None),
        "rules": [_rule(verdict) for verdict in model.verdicts],
        "rulesLine": rules_line(model.verdicts),
        "forms": _forms(forms, layouts) if forms else None,
        "tabs": VIEWS,
        "rows": rows,
        "alike": alike.parts,
        "thumbs": {kind: thumb_list(kind).payload() for kind in dict.fromkeys(thumbs)},
        "line": ends_display(str).payload() if (model.steps or 0) > 1 else None,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _shared(row: dict[str, Any], alike: Alike) -> dict[str, Any]:
    """Return a row without what it, and its cells, have in common with others."""
    out = alike.without(row, _ROW)
    cells: dict[str, Any] = {side: alike.without(row[side], _CELL) for side in ("root", "next") if side in row}
    return {**out, **cells}


def _by_element(places: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Return the steps of each batch element, in order."""
    found: dict[int, list[int]] = {}
    for element, t in sorted(places):
        found.setdefault(element, []).append(t)
    return found


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
    parts, lists = [], {"bytes": bytes_display(forms)}
    for form in forms:
        part: dict[str, Any] = {"name": form.name, "made": form.made, "stores": form.stores, "why": form.why}
        if form.nbytes is not None and (lines := layouts.get(form.name)):
            part["width"] = form_width(lines)
            lists[f"form {form.name}"] = form_display(lines)
        parts.append(part)
    return {"parts": parts, "pictures": packed(lists), "legend": legend_payload(kinds_legend())}


def _row(row: Row, refs: Refs, batch_dims: int) -> dict[str, Any]:
    out: dict[str, Any] = keys_of(row.path)
    if badges := _badges(row):
        out["badges"] = badges
    if not row.leaf:
        out["node"] = True
    if row.root is not None:
        out["root"] = _cell(row.root, refs.get(("root", row.path)), row.leaf)
    if row.next is not None:
        out["next"] = _cell(row.next, refs.get(("next", row.path)), row.leaf)
    if row.carry.kind:
        out["carry"] = row.carry.kind
    if row.carry.holds is not None:
        out["holds"] = row.carry.holds
    if words := ted_row_words(row):
        out["words"] = words
    if row.carry.holds is False:
        # Batch and time are enough to find the row; the details give the whole index.
        at = list(row.carry.index[: batch_dims + 1])
        out["mark"] = f"→ ✗ at {at}" if at else "→ ✗"
    findings = [(where, f) for where, fs in (("spec", row.problems), ("other", row.differences)) for f in fs]
    if findings:
        out["findings"] = [[f"{where}: {finding.text()}", finding.fix] for where, finding in findings]
    cannot = any(cell is not None and cell.message.startswith("cannot") for cell in (row.root, row.next))
    if findings or cannot or row.carry.holds is False or any(badge.endswith(("NaN", "inf")) for badge in badges):
        out["flag"] = True
    return out


def _badges(row: Row) -> list[str]:
    """Return what stands beside the key: what the spec and the other data say, shared memory, NaN and inf."""
    kinds = {finding.kind for finding in row.problems}
    cells = [cell for cell in (row.root, row.next) if cell is not None]
    found = ["not in spec" if kinds == {"extra"} else "missing" if kinds == {"missing"} else "spec"] if kinds else []
    found += ["diff"] if row.differences else []
    found += [cell.sharing for cell in cells if cell.sharing][:1]
    for name, word in (("nan", "NaN"), ("inf", "inf")):
        if most := max((getattr(cell.stats, name) for cell in cells if cell.stats is not None), default=0):
            found.append(f"{most} {word}")
    return found


def _cell(cell: Cell, ref: dict[str, Any] | None, leaf: bool) -> dict[str, Any]:
    storage = cell.place or cell.storage
    out: dict[str, Any] = {
        "dtype": cell.dtype,
        "dims": [[dim.role[0], dim.size] for dim in cell.dims],
        "shape": cell.shape,
        "storage": storage,
    }
    size = [] if cell.nbytes is None else [bytes_text(cell.nbytes)]
    size += [storage] if storage not in ("in memory", "") else []
    if cell.dtype != "?":
        out["about"] = " · ".join([*([cell.device] if cell.device not in ("", "cpu") else []), *size])
    if not leaf:
        out["note"] = ", ".join([*size, *([cell.message] if cell.message else [])])
    elif cell.storage not in ("in memory", "non-tensor", ""):
        out["kept"] = cell.storage
    if cell.stats is not None:
        out["range"] = stats_text(cell.stats)
    if cell.thumb is not None:
        out["thumb"] = [cell.thumb.kind, cell.thumb.rows, encode_entry(cell.thumb)]
    if cell.preview:
        out["preview"] = cell.preview
    if cell.message:
        out["message"] = cell.message
    if ref is not None:
        if "at" in ref:
            out |= {"at": ref["at"], "packed": {name: value for name, value in ref.items() if name != "at"}}
        else:
            out["values"] = ref
    return out


def encode_entry(thumb: Thumb) -> str:
    """Encode the levels of a thumbnail as letters, from ``0`` on, and ``.`` for a gap.

    Example:
        >>> encode_entry(Thumb("spark", 1, (0, 1, 63, -1)))
        '01o.'
    """
    return "".join("." if level < 0 else chr(ord("0") + level) for level in thumb.levels)
