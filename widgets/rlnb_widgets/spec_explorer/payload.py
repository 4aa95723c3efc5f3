"""Conversion of the model to the JSON of the page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from rlnb._text import printable
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.packing import Alike, packed
from rlnb_widgets._core.spec_entries import Path
from rlnb_widgets._core.text import keys_of, plural
from rlnb_widgets.spec_explorer.ends import lane_text
from rlnb_widgets.spec_explorer.explain import spec_row_words, spec_words
from rlnb_widgets.spec_explorer.samples import Samples
from rlnb_widgets.spec_explorer.scene import domain_display, lane_form, lane_height, large_display, sampled_text
from rlnb_widgets.spec_explorer.schema import Row, SpecModel

#: What many rows have alike.
_ALIKE = ("kind", "dtype", "device", "dims", "shape", "words", "picks", "node", "sampled", "small", "large")
#: Texts from the spec, which the page shows as they come.
_SHOWN = {"domain", "sampled", "brief", "note", "why", "space"}


def spec_payload(model: SpecModel, picks: Mapping[Path, list[str]]) -> str:
    """Return the model as JSON, with the names of the values to pick for each path; equal models give equal text."""
    rows = [_row(model, row, picks.get(row.path, [])) for row in model.rows]
    pictures = _draw(model, rows)
    alike = Alike()
    return _json(
        {
            "leaves": len(model.opening) < len(model.rows),
            "widths": column_widths(model),
            "words": spec_words(model).split("\n\n"),
            "name": model.name,
            "pictures": packed(pictures),
            "rows": [alike.without(row, _ALIKE) for row in rows],
            "alike": alike.parts,
        }
    )


def column_widths(model: SpecModel) -> dict[str, float]:
    """Return the pixels of the column of keys, in the tree and at its leaves, and of that of specs.

    A key has room for its depth and a twisty, within reason; a spec for its class, and dtype with shape, which stand
    beside the class of a Composite.
    """
    keys = [
        18 + 14 * min(len(row.path), 8) + 8 * len(printable(row.path[-1] if row.path else model.name))
        for row in model.rows
    ]
    above = [16 + 6.5 * len(".".join(row.path[:-1])) for row in model.rows]
    letters = [9]
    for row in model.rows:
        below = len(" ".join(filter(None, (row.cell.dtype, row.cell.shape))))
        letters.append(max(len(row.cell.kind), below) if row.leaf else len(row.cell.kind) + below)
    key, leaf = (min(max(130, *widths), 300) for widths in (keys, above))
    return {"key": key, "leaf": leaf, "kind": math.ceil(7.2 * max(letters)) + 2}


def _draw(model: SpecModel, rows: list[dict[str, Any]]) -> dict[str, Display]:
    """Give rows the numbers of the pictures of their lanes, ``small`` and ``large``, and return these pictures."""
    pictures: dict[str, Display] = {}
    numbers: dict[Hashable, int] = {}

    def number(key: Hashable, draw: Callable[[], Display]) -> int:
        if key not in numbers:
            numbers[key] = len(pictures)
            pictures[str(numbers[key])] = draw()
        return numbers[key]

    for row, out in zip(model.rows, rows, strict=True):
        lanes = row.cell.domain.lanes
        tall = lane_height(lanes)
        for lane in lanes:
            form = lane_form(lane)
            out.setdefault("small", []).append(number(form, partial(domain_display, lane)))
            out.setdefault("large", []).append(number((form, tall), partial(large_display, lane, tall)))
    return pictures


def samples_json(model: SpecModel, samples: Mapping[Path, Samples]) -> str:
    """Return as JSON how often was drawn, in words, and the samples in the order of the rows; null without any."""
    found = [samples.get(row.path) if row.leaf else None for row in model.rows]
    rows = [None if s is None else {"n": s.draws, "levels": s.levels, "note": s.note} for s in found]
    return _json({"words": drawn_words([s for s in found if s is not None]), "rows": rows})


def drawn_words(samples: Sequence[Samples]) -> str:
    """Return how often the leaves were drawn; without a number where large ones were drawn less often.

    Example:
        >>> drawn_words([Samples(200), Samples(0)]), drawn_words([Samples(200), Samples(1)]), drawn_words([])
        ('200 random samples', 'random samples', 'nothing drawn')
    """
    counts = [sample.draws for sample in samples if sample.draws]
    if not counts:
        return "nothing drawn"
    return plural(counts[0], "random sample") if min(counts) == max(counts) else "random samples"


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _row(model: SpecModel, row: Row, picks: list[str]) -> dict[str, Any]:
    cell = row.cell
    out: dict[str, Any] = {
        **keys_of(row.path),
        "kind": cell.kind,
        "dtype": cell.dtype,
        "device": cell.device,
        "dims": [[dim.role[0], dim.size] for dim in cell.dims],
        "shape": cell.shape,
        "domain": cell.domain.text,
        "words": spec_row_words(row),
        "picks": picks,
    }
    if not row.path:
        out["name"] = printable(model.name, one_line=True)
    # Keys lead to most entries; to members of stacks and to choices other code does.
    if row.code != model.name + (f"[{', '.join(map(_json, row.path))}]" if row.path else ""):
        out["code"] = row.code
    if not row.leaf:
        out["node"] = True
    if not row.here:
        out["elsewhere"] = True
    lanes = cell.domain.lanes
    if names := [[lane.label, lane_text(lane)] for lane in lanes if lane.label]:
        out["names"] = names
    if any(lane.kind == "line" for lane in lanes):
        out["views"] = [lane.view if lane.kind == "line" else None for lane in lanes]
    if sampled := sampled_text(cell.domain):
        out["sampled"] = sampled.removeprefix(cell.domain.text)
    if cell.domain.kind == "interval" and len(lanes) > 1:
        out["brief"] = cell.domain.text.partition(":")[0]  # the intervals are listed beside their pictures
    if cell.domain.more:
        out["more"] = cell.domain.more
    if cell.domain.note:
        out["note"] = cell.domain.note
    out["why" if cell.why else "space"] = cell.why or cell.space
    for name in _SHOWN & out.keys():
        out[name] = printable(out[name], one_line=True)
    if row.differences:
        out["diff"] = [[difference.kind, difference.text()] for difference in row.differences]
    return out
