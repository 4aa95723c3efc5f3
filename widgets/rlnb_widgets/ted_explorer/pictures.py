"""SVG views of a TED explorer: rules, forms with their bytes, and the walk of one step."""

from __future__ import annotations

from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import path_text, shorten
from rlnb_widgets.ted_explorer.carrying import FATES, Fate
from rlnb_widgets.ted_explorer.forms import Form
from rlnb_widgets.ted_explorer.layouts import KINDS, Line
from rlnb_widgets.ted_explorer.schema import Verdict
from rlnb_widgets.ted_explorer.verdicts import rules_line
from rlnb_widgets.ted_explorer.views import share_text

WIDTH = 780
_LETTERS = 128
#: Fill and outline of the boxes of each kind, which also differ in outline and text.
LOOKS: dict[str, tuple[str | None, str, str | None]] = {
    "seen": ("panel", "accent", None),
    "again": (None, "accent", "3 2"),
    "last": ("highlight", "warn", None),
    "act": (None, "goal", None),
    "out": (None, "muted", None),
}
_BOX, _GAP, _HIGH = 38, 10, 19


def rules_svg(verdicts: tuple[Verdict, ...], headline: str, words: str) -> Svg:
    """Draw the rules as a list with marks."""
    lines = 3 * sum(len(verdict.places) for verdict in verdicts)
    svg = Svg(WIDTH, 44 + 20 * len(verdicts) + 16 * lines, title=f"TEDExplorer, rules: {headline}", desc=words)
    svg.text(14, 24, rules_line(verdicts) or "TED rules: nothing to check", size=13, bold=True)
    y = 46.0
    for verdict in verdicts:
        _mark(svg, verdict.kept, 16, y)
        svg.text(38, y, verdict.rule, bold=True, fill="ink" if verdict.kept else "bad")
        svg.text(140, y, verdict.sentence, fill="muted")
        y += 20
        for place in verdict.places:
            for text, role in (
                (f"{place.where}: {place.found}", "bad"),
                (f"likely cause: {place.cause}", "ink"),
                (f"fix: {place.fix}", "ink"),
            ):
                svg.text(52, y - 3, shorten(text, _LETTERS), fill=role, size=10.5)
                y += 16
    return svg


def _mark(svg: Svg, kept: bool, x: float, y: float) -> None:
    if kept:
        svg.polyline([(x, y - 4), (x + 4, y), (x + 11, y - 9)], stroke="good", stroke_width=2)
        return
    svg.line(x + 1, y - 9, x + 10, y, stroke="bad", stroke_width=2)
    svg.line(x + 10, y - 9, x + 1, y, stroke="bad", stroke_width=2)


def forms_svg(forms: tuple[Form, ...], layouts: dict[str, tuple[Line, ...]], headline: str, words: str) -> Svg:
    """Draw what each form stores of the first trajectories, and a bar for its bytes."""
    drawn = {form.name: layouts.get(form.name, ()) if form.nbytes is not None else () for form in forms}
    height = 62 + sum(58 + (_HIGH + 4) * len(lines) for lines in drawn.values())
    svg = Svg(WIDTH, height, title=f"TEDExplorer, forms: {headline}", desc=words)
    svg.text(14, 24, f"Four forms of the same data: {headline}", size=13, bold=True)
    _legend(svg, 14, 44)
    whole = max(forms[0].nbytes or 0, 1) if forms else 1
    y = 62.0
    for form in forms:
        svg.text(14, y + 14, form.name, bold=True, size=12)
        svg.text(70, y + 14, form.made, mono=True, size=10.5)
        if form.nbytes is not None:
            svg.rect(300, y + 4, 240 * min(form.nbytes / whole, 1.0), 12, fill="accent", rx=2)
        svg.text(550, y + 14, share_text(form, whole), size=11)
        svg.text(70, y + 31, shorten(form.why or form.stores, 110), fill="bad" if form.why else "muted", size=10.5)
        y += 40
        for line in drawn[form.name]:
            _line(svg, line, y)
            y += _HIGH + 4
        y += 18
    return svg


def _legend(svg: Svg, x: float, y: float) -> None:
    for kind, name in KINDS.items():
        fill, stroke, dash = LOOKS[kind]
        svg.rect(x, y - 9, 12, 11, fill=fill, stroke=stroke, stroke_dasharray=dash, rx=2)
        svg.text(x + 17, y, name, fill="muted", size=10.5)
        x += 30 + 5.6 * len(name)


def _line(svg: Svg, line: Line, y: float) -> None:
    svg.text(70, y + 13, line.label, fill="muted", size=10.5)
    x = 190.0
    for text, kind in line.boxes:
        if kind == "gap":
            x += _GAP
            continue
        if kind == "more":
            svg.text(x + _BOX / 2, y + 13, text, anchor="middle", fill="muted")
        elif kind != "blank":
            fill, stroke, dash = LOOKS[kind]
            svg.rect(x + 1, y, _BOX - 2, _HIGH, fill=fill, stroke=stroke, stroke_dasharray=dash, rx=3)
            svg.text(x + _BOX / 2, y + 13, text, anchor="middle", size=10.5)
        x += _BOX


_COLUMNS = (14, 150, 340, 572)
_ROLES = {"carried": "good", "waits": "muted", "replaced": "warn", "differs": "bad", "kept": "accent", "left": "muted"}
_ROLES["rewritten"] = _ROLES["kept"]


def steps_svg(fates: tuple[Fate, ...], t: int, steps: int, headline: str, words: str) -> Svg:
    """Draw what happens to each entry from step ``t`` to the next one."""
    svg = Svg(WIDTH, 66 + 30 * len(fates), title=f"TEDExplorer, step {t}: {headline}", desc=words)
    svg.text(14, 24, f"From step {t} to step {t + 1}: {headline}", size=13, bold=True)
    then = f"root[{t + 1}]" if t + 1 < steps else f"root[{t + 1}], beyond the data"
    for x, text in zip(_COLUMNS, ("key", f"root[{t}]", f"next[{t}]", then), strict=True):
        svg.text(x, 46, text, fill="muted")
    svg.line(6, 53, WIDTH - 6, 53)
    for i, fate in enumerate(fates):
        y = 72.0 + 30 * i
        svg.text(_COLUMNS[0], y, shorten(path_text(fate.path), 22), bold=True)
        for x, value in zip(_COLUMNS[1:], (fate.root, fate.next, fate.then), strict=True):
            svg.text(x, y, value or "-", mono=True, size=10, fill="ink" if value else "muted")
        if fate.kind:
            _fate(svg, fate.kind, y)
    return svg


def _fate(svg: Svg, kind: str, y: float) -> None:
    role, (_, root, after, then) = _ROLES[kind], _COLUMNS
    start = root if kind in ("kept", "rewritten") else after
    svg.text(start, y + 12, FATES[kind], fill=role, size=9.5)
    if kind == "left":
        return
    x = start + 6 + 5 * len(FATES[kind])
    stop = then - 10
    dash = "2 3" if kind in ("replaced", "waits") else None
    if kind == "replaced":
        # The arrow stops short: what it carried does not arrive.
        stop -= 34
        svg.line(stop - 1, y + 3, stop - 1, y + 15, stroke=role, stroke_width=2)
    else:
        svg.polygon([(stop, y + 9), (stop - 7, y + 5.5), (stop - 7, y + 12.5)], fill=role)
    svg.line(x, y + 9, stop - 6, y + 9, stroke=role, stroke_width=1.4, stroke_dasharray=dash)
