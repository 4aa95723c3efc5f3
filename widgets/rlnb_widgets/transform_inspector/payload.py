"""Conversion of the model to the JSON of the page, without duplicate thumbnails."""

from __future__ import annotations

import base64
import json
from typing import Any

from rlnb_widgets._core.packing import packed
from rlnb_widgets.transform_inspector.scene import card_displays, chain_legend
from rlnb_widgets.transform_inspector.schema import Change, InspectorModel, Moment, Value
from rlnb_widgets.transform_inspector.text import box_label, card_words, fate, stopped_at

BUDGET = 1_500_000  # bytes of thumbnails


def inspector_payload(model: InspectorModel) -> str:
    """Return the model as JSON. Thumbnails are a list of data URLs, and values hold indices into it."""
    pictures: dict[bytes, int] = {}
    moments = [_moment(model, moment, pictures) for moment in model.moments]
    return json.dumps({
        "env": model.env, "about": model.about, "note": model.note,
        "given": _changes(model.given), "taken": _changes(model.taken),
        "boxes": [{
            "name": box.name, "title": box_label(model, i), "code": box.code, "settings": box.settings,
            "error": box.error, "invertible": box.invertible,
            "output": _changes(box.output), "input": _inwards(box.input),
        } for i, box in enumerate(model.boxes)],
        "cards": packed({str(k): card for k, card in enumerate(card_displays(model))}),
        "words": [card_words(model, i) for i in range(-1, len(model.boxes))],
        "ways": chain_legend(model),
        "moments": moments,
        "pictures": [f"data:image/png;base64,{base64.b64encode(data).decode()}" for data in pictures],
    }, separators=(",", ":"))  # fmt: skip


def _changes(changes: tuple[Change, ...]) -> list[list[str]]:
    return [[change.key, change.kind, change.before, change.after] for change in changes]


def _inwards(changes: tuple[Change, ...]) -> list[list[str]]:
    """Return the changes of specs of inputs as the data goes, from the outside in."""
    turned = {"new": "removed", "removed": "new"}
    return [[change.key, turned.get(change.kind, change.kind), change.after, change.before] for change in changes]


def _moment(model: InspectorModel, moment: Moment, pictures: dict[bytes, int]) -> dict[str, Any]:
    return {
        "what": moment.what, "label": moment.label, "error": moment.error,
        "fates": [] if moment.failed is None else [fate(model, moment, i) for i in range(-1, len(model.boxes))],
        "stopped": stopped_at(model, moment),
        "forward": [_values(values, pictures) for values in moment.forward],
        "inverse": [_values(values, pictures) for values in moment.inverse],
    }  # fmt: skip


def _values(values: tuple[Value, ...] | None, pictures: dict[bytes, int]) -> list[list[Any]] | None:
    if values is None:
        return None
    return [[v.key, v.kind, v.form, v.text, _picture(v, pictures)] for v in values]


def _picture(value: Value, pictures: dict[bytes, int]) -> int | None:
    if value.picture is None:
        return None
    data = value.picture.data
    if data not in pictures:
        if sum(map(len, pictures)) + len(data) > BUDGET:
            return None
        pictures[data] = len(pictures)
    return pictures[data]
