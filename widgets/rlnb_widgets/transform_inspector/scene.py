"""Display list of the chain: one row per box from the base env outwards, with keys and changes."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from rlnb_widgets._core.display import Display
from rlnb_widgets._core.text import plural
from rlnb_widgets.transform_inspector.schema import InspectorModel, Moment, Thumbnail
from rlnb_widgets.transform_inspector.text import box_label, changed, joined, moved, stopped_at, value_line

MAX_BOXES = 24
MAX_CHANGES = 5
_BOX, _TEXT, _ROOM = 176.0, 196.0, 536.0
_LINE, _GAP = 15.0, 22.0
_ROLES = {"new": "good", "removed": "bad", "changed": "accent", "same": "muted"}

# Colours of the two ways of data through the chain, and what they mean.
_OUT, _IN = ("accent", "out of the env, after each reset and step"), ("c4", "into the env, before each step")


@dataclass(frozen=True)
class _Line:
    text: str
    role: str
    picture: Thumbnail | None = None


def chain_legend(model: InspectorModel) -> list[tuple[str, str]]:
    """Return role and meaning of the arrows that are drawn."""
    return [_OUT, *([_IN] if any(box.invertible for box in model.boxes[:MAX_BOXES]) else [])]


def chain_display(model: InspectorModel, chosen: int = -1) -> Display:
    """Draw the chain, cut where ``parent`` of the chosen box ends, with values only if there is a seed."""
    moment = model.moments[-1] if model.moments and model.seed is not None else None
    rows = [(model.env, "env.base_env", _base_lines(model, moment))]
    for i, box in enumerate(model.boxes[:MAX_BOXES]):
        rows.append((box_label(model, i), box.code, _box_lines(model, i, moment)))
    heights = [max(44.0, 12 + sum(map(_height, lines))) for _, _, lines in rows]
    rest = len(model.boxes) - MAX_BOXES
    display = Display(sum(heights) + _GAP * (len(rows) - 1) + 4 + 20 * (rest > 0))
    y = 2.0
    for i, ((title, code, lines), height) in enumerate(zip(rows, heights, strict=True)):
        failed = moment is not None and moment.failed == i - 1
        _row(display, y, height, title, code, lines, failed)
        y += height + _GAP
        if i + 1 < len(rows):
            if i == chosen:
                _cut(display, y - _GAP / 2, model.boxes[i].code)
            _arrows(display, y - _GAP, model.boxes[i].invertible)
    if rest > 0:
        display.text(0, y, f"+{plural(rest, 'more box', 'more boxes')}", fill="muted")
    return display


def _row(display: Display, y: float, height: float, title: str, code: str, lines: list[_Line], failed: bool) -> None:
    display.box(0, y, _BOX, height, "panel", stroke="bad" if failed else "line", radius=5)
    display.text(10, y + 19, title, bold=True, size=12, within=_BOX - 20)
    display.text(10, y + 35, code, fill="muted", size=10, mono=True, within=_BOX - 20)
    at = y
    for line in lines:
        shift = 0
        if line.picture is not None:
            shift = line.picture.width + 8
            data = base64.b64encode(line.picture.data).decode()
            size = (line.picture.width, line.picture.height)
            display.image(_TEXT, at + 4, *size, f"data:image/png;base64,{data}")
        display.text(_TEXT + shift, at + 15, line.text, fill=line.role, size=11, within=_ROOM - shift)
        at += _height(line)


def _height(line: _Line) -> float:
    return _LINE if line.picture is None else max(_LINE, line.picture.height + 8)


def _arrows(display: Display, y: float, inward: bool) -> None:
    """Draw the arrows below a row: down, out of the env, and up if the transform has an inverse."""
    for x, role, name in ((58, "accent", "down"), (118, "c4", "up")):
        if name == "down" or inward:
            display.line(x, y + 2, x, y + _GAP - 2, stroke=role, width=2)
            display.glyph(x, y + (_GAP - 5 if name == "down" else 5), name, 8, role)


def _cut(display: Display, y: float, code: str) -> None:
    """Draw where the env is cut off before a box; everything above is what its ``parent`` is."""
    display.line(0, y, _TEXT - 8, y, stroke="warn", width=2, dash=(6, 4))
    display.text(_TEXT, y + 4, f"{code}.parent ends here", fill="muted", size=11)


def _base_lines(model: InspectorModel, moment: Moment | None) -> list[_Line]:
    lines = [
        _Line(f"gives {joined(tuple(c.key for c in model.given))}", "ink"),
        _Line(f"takes {joined(tuple(c.key for c in model.taken))}", "ink"),
    ]
    return lines + _stop(model, moment, -1)


def _box_lines(model: InspectorModel, i: int, moment: Moment | None) -> list[_Line]:
    box = model.boxes[i]
    lines = [_Line(f"reads {joined(box.reads)}; writes {joined(box.writes)}", "ink")]
    if box.inverse_writes:
        lines.append(_Line(f"inverse reads {joined(box.inverse_reads)}; writes {joined(box.inverse_writes)}", "ink"))
    specs = [_Line(f"spec {change.text()}", _ROLES[change.kind]) for change in changed(box.output)]
    specs += [_Line(f"inverse spec {change.text()}", _ROLES[change.kind]) for change in changed(box.input)]
    lines += _few(specs) + ([_Line(f"failed: {box.error}", "bad")] if box.error else [])
    if moment is not None:
        found = [("inverse ", value) for value in moved(moment.inverse[i])]
        found += [("", value) for value in moved(moment.forward[i + 1])]
        lines += _few([_Line(prefix + value_line(value), _ROLES[value.kind], value.picture) for prefix, value in found])
    return lines + _stop(model, moment, i)


def _stop(model: InspectorModel, moment: Moment | None, i: int) -> list[_Line]:
    if moment is None or moment.failed is None or min(moment.failed, len(model.boxes) - 1) != i:
        return []
    return [_Line(f"{stopped_at(model, moment)}: {moment.error}", "bad")]


def _few(lines: list[_Line]) -> list[_Line]:
    if len(lines) <= MAX_CHANGES:
        return lines
    return [*lines[:MAX_CHANGES], _Line(f"+{len(lines) - MAX_CHANGES} more", "muted")]
