"""Static SVG of the chain: one row per box from the base env outwards, with keys and changes."""

from __future__ import annotations

from dataclasses import dataclass

from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import plural, shorten
from rlnb_widgets.transform_inspector.schema import InspectorModel, Moment, Picture
from rlnb_widgets.transform_inspector.text import box_label, changed, joined, moved, stopped_at, value_line

WIDTH = 860
MAX_BOXES = 24
MAX_CHANGES = 5
_LEFT, _BOX, _TEXT = 54, 186, 262
_LINE = 15
_ROLES = {"new": "good", "removed": "bad", "changed": "accent", "same": "muted"}


@dataclass(frozen=True)
class _Line:
    text: str
    role: str
    picture: Picture | None = None


def inspector_svg(model: InspectorModel, words: str) -> Svg:
    """Draw the chain, with values only if there is a seed; ``words`` are for screen readers."""
    moment = model.moments[-1] if model.moments and model.seed is not None else None
    rows = [(model.env, "env.base_env", _base_lines(model, moment))]
    for i, box in enumerate(model.boxes[:MAX_BOXES]):
        rows.append((box_label(model, i), box.code, _box_lines(model, i, moment)))
    heights = [max(44.0, 12 + sum(map(_height, lines))) for _, _, lines in rows]
    rest = len(model.boxes) - MAX_BOXES
    svg = Svg(WIDTH, 84 + sum(heights) + 22 * len(rows) + 20 * (rest > 0), title="TransformInspector", desc=words)
    about = "" if moment is None else f"; values of {moment.label}, seed {model.seed}"
    svg.text(
        14, 22, shorten(f"{model.env} and {plural(len(model.boxes), 'transform')}{about}", 110), size=13, bold=True
    )
    svg.text(
        14, 40, "down: out of the env, after each reset and step     up: into the env, before each step", fill="muted"
    )
    y = 52.0
    for i, ((title, code, lines), height) in enumerate(zip(rows, heights, strict=True)):
        failed = moment is not None and moment.failed == i - 1
        _row(svg, y, height, title, code, lines, failed)
        _arrows(svg, y + height, i < len(model.boxes) and model.boxes[i].invertible)
        y += height + 22
    if rest > 0:
        svg.text(_LEFT, y + 12, f"+{plural(rest, 'more box', 'more boxes')}", fill="muted")
    return svg


def _row(svg: Svg, y: float, height: float, title: str, code: str, lines: list[_Line], failed: bool) -> None:
    svg.rect(_LEFT, y, _BOX, height, fill="panel", stroke="bad" if failed else "line", rx=5)
    svg.text(_LEFT + 10, y + 19, shorten(title, 26), bold=True, size=12)
    svg.text(_LEFT + 10, y + 35, shorten(code, 27), fill="muted", size=10, mono=True)
    at = y
    for line in lines:
        if line.picture is not None:
            svg.image(_TEXT, at + 4, line.picture.width, line.picture.height, line.picture.data)
        shift = 0 if line.picture is None else line.picture.width + 8
        svg.text(_TEXT + shift, at + 15, shorten(line.text, 104 - shift // 6), fill=line.role, size=10.5)
        at += _height(line)


def _height(line: _Line) -> float:
    return _LINE if line.picture is None else max(_LINE, line.picture.height + 8)


def _arrows(svg: Svg, y: float, inward: bool) -> None:
    """Draw the arrows below a row, out of it and into it; the latter is pale without an inverse."""
    for x, role, down in ((_LEFT + 62, "accent", True), (_LEFT + 124, "c1" if inward else "line", False)):
        svg.line(x, y + 2, x, y + 20, stroke=role, stroke_width=2)
        tip, wide = (y + 21, y + 14) if down else (y + 1, y + 8)
        svg.polygon([(x, tip), (x - 4, wide), (x + 4, wide)], fill=role)


def _base_lines(model: InspectorModel, moment: Moment | None) -> list[_Line]:
    lines = [
        _Line(f"gives {shorten(joined(tuple(c.key for c in model.given)), 90)}", "ink"),
        _Line(f"takes {shorten(joined(tuple(c.key for c in model.taken)), 90)}", "ink"),
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
