"""Display lists of the chain: a card for each box, from the base env outwards, and the changes that the boxes make."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from rlnb_widgets._core.display import Display, Number, Param
from rlnb_widgets._core.display_svg import WIDTH, Part, lines_of, stacked
from rlnb_widgets._core.measures import cut_text, text_width
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import plural
from rlnb_widgets.transform_inspector.schema import InspectorModel, Moment, Thumbnail
from rlnb_widgets.transform_inspector.text import box_keys, box_label, fate, spec_lines, value_lines

MAX_BOXES, MAX_LINES = 24, 24
MAX_KEYS = 3  # on a card; its tooltip in the page has all of them
_CARD, _GAP, _PAD, _LINE, _IN_A_ROW = 144.0, 16.0, 6.0, 15.0, 4
_ROOM = _CARD - 2 * _PAD
_ROLES = {"new": "good", "removed": "bad", "changed": "accent", "same": "muted", "failed": "bad"}

# Colours of the two ways of data through the chain, and what they mean.
_OUT, _IN = ("accent", "out of the env, after each reset and step"), ("c4", "into the env, before each step")


def inspector_svg(model: InspectorModel, chosen: int, words: str) -> Svg:
    """Draw the chain with a chosen box, and all changes, those of values only if there is a seed."""
    moment = model.moments[-1] if model.moments and model.seed is not None else None
    title = f"{model.env} and {plural(len(model.boxes), 'transform')}"
    parts: list[Part] = [chain_legend(model), chain_display(model, chosen, moment)]
    parts += [f"{model.boxes[chosen].code}.parent ends at the dashed line."] if chosen >= 0 else []
    parts += ["Changes of specs:", changes_display(spec_lines(model))]
    if moment is not None:
        title += f"; values of {moment.label}, seed {model.seed}"
        parts += ["Changes of values:", changes_display(value_lines(model, moment))]
    return stacked(title, words, parts, {})


def chain_legend(model: InspectorModel) -> list[tuple[str, str]]:
    """Return role and meaning of the arrows that are drawn."""
    return [_OUT, *([_IN] if any(box.invertible for box in model.boxes[:MAX_BOXES]) else [])]


def card_displays(model: InspectorModel) -> list[Display]:
    """Draw the base env and each box for the page, which knows the values of the parameters."""
    # What became of a box has a line as soon as one failed, so that no card grows from one moment to the next.
    stopped = any(moment.failed is not None for moment in model.moments)
    states = {name: Param(name) for name in ("chosen", *(("failed", "unreached") if stopped else ()))}
    cards = [Display(_height(model, stopped)) for _ in range(len(model.boxes) + 1)]
    for k, card in enumerate(cards):
        _card(card, model, k - 1, card.height, states)
    return cards


def chain_display(model: InspectorModel, chosen: int = -1, moment: Moment | None = None) -> Display:
    """Draw the first cards in rows, cut where ``parent`` of the chosen box ends."""
    stopped = moment is not None and moment.failed is not None
    count, height, rest = min(len(model.boxes), MAX_BOXES) + 1, _height(model, stopped), len(model.boxes) - MAX_BOXES
    display = Display(-(-count // _IN_A_ROW) * (height + 8) - 8 + 20 * (rest > 0))
    for k in range(count):
        row, column = divmod(k, _IN_A_ROW)
        states = {"chosen": int(k - 1 == chosen)}
        if moment is not None and stopped:
            states |= {name: int(name == fate(model, moment, k - 1)) for name in ("failed", "unreached")}
        with display.placed(((_CARD + _GAP) * column, (height + 8) * row, 0)):
            _card(display, model, k - 1, height, states)
    if rest > 0:
        display.text(0, display.height - 5, f"+{plural(rest, 'more box', 'more boxes')}", fill="muted")
    return display


def changes_display(lines: Sequence[tuple[str, str, Thumbnail | None]]) -> Display:
    """List changes, given as text, kind and thumbnail."""
    more = len(lines) - MAX_LINES
    shown = [*lines[:MAX_LINES], *([(f"+{more} more", "same", None)] if more > 0 else [])] or [("none", "same", None)]
    heights = [_LINE if picture is None else max(_LINE, picture.height + 8) for _, _, picture in shown]
    display = Display(sum(heights))
    y = 0.0
    for (text, kind, picture), height in zip(shown, heights, strict=True):
        x = 0
        if picture is not None:
            x = picture.width + 8
            source = f"data:image/png;base64,{base64.b64encode(picture.data).decode()}"
            display.image(0, y + 4, picture.width, picture.height, source)
        display.text(x, y + 12, text, fill=_ROLES[kind], within=WIDTH - x)
        y += height
    return display


def _height(model: InspectorModel, stopped: bool) -> float:
    """Return the height that is enough for each card."""
    return 27 + _LINE * (max(len(_card_lines(model, i)) for i in range(-1, len(model.boxes))) + stopped)


def _card_lines(model: InspectorModel, i: int) -> list[tuple[str, str]]:
    """Return what a box does, empty where a line goes on, and the keys."""
    found = []
    for what, keys in box_keys(model, i):
        more = f" and {len(keys) - MAX_KEYS} more" if len(keys) > MAX_KEYS else ""
        first, *rest = lines_of(f"{what} {', '.join(keys[:MAX_KEYS]) or '—'}{more}", _ROOM)
        found += [(what, first.removeprefix(what).strip()), *(("", line) for line in rest)]
    return found


def _card(display: Display, model: InspectorModel, i: int, height: float, states: Mapping[str, Number]) -> None:
    """Draw a box with the way to it from the one before and the cut there, or the base env for -1, which is wider."""
    start = 0.0 if i < 0 else _GAP
    outline = (start + 1, 1, _CARD + _GAP - start - 2, height - 2)
    display.box(*outline, "panel", stroke="line", radius=6)
    left = start + _PAD
    display.text(left, 17, box_label(model, i), bold=True, within=_ROOM - 10)  # bold letters are wider
    for k, (what, keys) in enumerate(_card_lines(model, i)):
        y, x = 33 + _LINE * k, 0.0
        if what:
            x = text_width(f"{what} ", 11)
            display.text(left, y, what, fill="muted")
        if keys:
            display.text(left + x, y, cut_text(keys, _ROOM - x, 11))
    with display.shown(states["chosen"]):
        display.box(*outline, stroke="accent", width=2, radius=6)
        if i >= 0:
            display.line(_GAP / 2, 0, _GAP / 2, height, stroke="warn", width=2, dash=(6, 4))
    if "failed" in states:
        with display.shown(states["failed"]):
            display.box(start, 0, 4, height, "bad", radius=2)
            display.text(left, height - 9, "stopped here", fill="bad", bold=True)
        with display.shown(states["unreached"]):
            display.text(left, height - 9, "not reached", fill="muted")
    for role, name, x, y in (("accent", "right", _GAP - 6, height / 2 - 8), ("c4", "left", 6, height / 2 + 8)):
        if i >= 0 and (name == "right" or model.boxes[i].invertible):
            display.box(2, y - 6, _GAP - 4, 12, "paper")
            display.line(2, y, _GAP - 2, y, stroke=role, width=2)
            display.glyph(x, y, name, 8, role)
