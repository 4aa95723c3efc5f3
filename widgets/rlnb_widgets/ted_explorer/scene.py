"""Display lists of a TED explorer: entries, thumbnails, ends of episodes, rules, forms and steps; its static view.

The page draws the thumbnails, the ends of episodes and the forms with the same lists. Their columns are names there,
since one list serves all thumbnails of a kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rlnb_widgets._core.display import Column, Display, Legend, Number, Param, Sign
from rlnb_widgets._core.display_svg import WIDTH, Part
from rlnb_widgets._core.ends import ENDS
from rlnb_widgets._core.measures import text_width
from rlnb_widgets._core.table import CHAR, draw_shape, lines_display, table_display
from rlnb_widgets._core.text import path_text, shorten, visible
from rlnb_widgets.ted_explorer.carrying import FATES, Fate
from rlnb_widgets.ted_explorer.forms import Form
from rlnb_widgets.ted_explorer.layouts import KINDS, Line
from rlnb_widgets.ted_explorer.numbers import LEVELS
from rlnb_widgets.ted_explorer.schema import Carry, Cell, Row, TedModel, Thumb, Verdict
from rlnb_widgets.ted_explorer.text import SPREAD, finding_lines, mark_text, range_text
from rlnb_widgets.ted_explorer.verdicts import rules_line
from rlnb_widgets.ted_explorer.views import share_text

#: Height of thumbnails in the page.
THUMB = 28.0
MAX_ROWS, MAX_FINDINGS = 40, 6
_ROW, _FAR = 26.0, 1e6
_ROOT, _NEXT, _MARK = 142.0, 388.0, 638.0
#: Distance from the left of a column to its thumbnail, and the size of it.
_THUMB, _WIDE, _TALL = 196.0, 40.0, 16.0

#: Lines at the ends of episodes; what is terminated and truncated has no value target either.
_ENDS = {kind: ENDS["terminated" if kind == "both" else kind] for kind in ("terminated", "truncated", "both", "done")}
#: Style of the boxes of each kind, which also differ in outline and text.
_LOOKS: dict[str, dict[str, str]] = {
    "seen": {"fill": "panel", "stroke": "accent"},
    "again": {"stroke": "accent"},
    "last": {"fill": "highlight", "stroke": "lit"},
    "act": {"stroke": "good"},
    "out": {"stroke": "muted"},
}
_LEFT, _BOX, _GAP, _HIGH = 100.0, 28.0, 6.0, 19.0


def thumb_arrays(thumb: Thumb) -> dict[str, np.ndarray]:
    """Return the arrays that a thumbnail draws, by name; NaN where nothing is drawn."""
    levels = np.array([np.nan if level < 0 else level for level in thumb.levels])
    return {"floors": levels[::2], "tops": levels[1::2]} if thumb.kind == "band" else {"levels": levels}


def draw_thumb(display: Display, kind: str, column: Column, n: Number, rows: Number, y: float, h: float) -> None:
    """Draw a thumbnail of one of the kinds of `Thumb` in a frame from 0 to 1; ``n`` is the length of its arrays."""
    if kind == "heat":
        display.heat(column("levels"), rows, 0, 1, y, h, high=LEVELS)
        return
    with display.part(0, 1, (0, n)):
        if kind == "spark":
            display.curve(column("levels"), y, h, 0, LEVELS, "accent", 1.2)
        elif kind == "band":
            display.bars(column("tops"), y, h, LEVELS, "accent", column("floors"))
        else:
            display.bars(column("levels"), y, h, LEVELS, "accent")


def thumb_list(kind: str) -> Display:
    """Return the list that draws any thumbnail of a kind; ``here`` says whether the playhead, ``at``, is in it."""
    display = Display(THUMB)
    with display.frame(0, 0):
        draw_thumb(display, kind, str, Param("n"), Param("rows"), 0, THUMB)
        with display.shown(Param("here")):
            display.line(Param("at"), 0, Param("at"), THUMB, "ink", 1.5)
    return display


def ends_display(column: Column) -> Display:
    """Draw where episodes end as lines over the steps from 0 to ``last``, and the playhead ``t`` as a disc."""
    display = Display(18)
    with display.frame(6, 6, (0, Param("last"))):
        display.rect(0, Param("last"), 9, 1, fill="line")
        for kind, (role, dash) in _ENDS.items():
            display.rules(column(kind), 2, 16, role, 1.5, dash)
        display.disc(Param("t"), 9, 5, fill="accent")
        # A drag may leave the line.
        display.hit(-_FAR, _FAR, -_FAR, 2 * _FAR, name="step")
    return display


def entries_display(model: TedModel) -> Display:
    """Draw the first rows of both sides, and what ``step_mdp`` does with each."""
    heads = [(0.0, "key"), (_ROOT, f"{'root[t]' if model.is_ted else 'entry'}, {SPREAD}")]
    if model.is_ted:
        heads += [(_NEXT, f"next[t], {SPREAD}"), (_MARK, "→ root[t+1]")]

    def draw(display: Display, row: Row) -> None:
        depth = min(len(row.path) - 1, 6)
        display.text(
            12 * depth, 16, visible(row.path[-1], 24), bold=not row.leaf, size=12, within=_ROOT - 8 - 12 * depth
        )
        _cell(display, row.root, _ROOT)
        if model.is_ted:
            _carry(display, row.carry)
            _cell(display, row.next, _NEXT)

    return table_display(heads, model.rows, MAX_ROWS, lambda row: _ROW, draw)


def _cell(display: Display, cell: Cell | None, x: float) -> None:
    """Draw dtype and shape, the range below them, and a thumbnail beside them if there is room."""
    if cell is None or cell.dtype == "?":
        words, role = ("-", "muted") if cell is None else (cell.message, "bad")
        display.text(x, 16, words, fill=role, size=10, within=_NEXT - _ROOT - 8)
        return
    display.text(x, 12, cell.dtype[:12], fill="muted", size=10, mono=True)
    end = draw_shape(display, cell.dims, x + (min(len(cell.dtype), 12) + 1) * CHAR, 12)
    room = max(x + _NEXT - _ROOT - 14 - end, 0.0)
    if cell.message.startswith("cannot"):
        display.text(end + 6, 12, cell.message, fill="bad", size=10, within=room)
    elif cell.place:
        if cell.sharing:  # two blocks, one on top of the other
            display.rect(end + 6, end + 14, 4, 6, stroke="accent", radius=1)
            display.rect(end + 9, end + 17, 6, 6, fill="accent", radius=1)
        shift = 15.0 if cell.sharing else 0.0
        words = cell.place.removesuffix(" as other").removesuffix(" with other")  # which the two blocks say
        display.text(end + 6 + shift, 12, words, fill="warn", size=10, within=max(room - shift, 0.0))
    elif cell.thumb is not None and end < x + _THUMB:
        arrays = thumb_arrays(cell.thumb)
        n = len(next(iter(arrays.values())))
        with display.frame(x + _THUMB, WIDTH - x - _THUMB - _WIDE):
            draw_thumb(display, cell.thumb.kind, arrays.__getitem__, n, cell.thumb.rows, 5, _TALL)
    elif cell.preview:
        display.text(end + 6, 12, visible(cell.preview), size=10, within=room)
    if spread := range_text(cell):
        display.text(x, 23, shorten(spread, int(_THUMB / CHAR) - 1), size=10, mono=True)


def _carry(display: Display, carry: Carry) -> None:
    if carry.kind != "carried":
        display.text(_MARK, 16, mark_text(carry), fill="muted", size=10)
        return
    role = "muted" if carry.holds is None else "good" if carry.holds else "bad"
    display.line(_MARK, 13, _MARK + 20, 13, role, 1.5)
    display.glyph(_MARK + 22, 13, "right", 7, role)
    if carry.holds is not None:
        display.glyph(_MARK + 36, 13, "check" if carry.holds else "cross", 8, role, 1.8)
    if carry.index:
        display.text(_MARK + 46, 16, list(carry.index), fill=role, size=10, within=WIDTH - _MARK - 46)


def entries_parts(model: TedModel) -> list[Part]:
    """Return the static view of the entries, with the first findings."""
    parts: list[Part] = [entries_display(model), *model.notes]
    if lines := finding_lines(model):
        parts.append(lines_display([(line, "bad") for line in lines], MAX_FINDINGS))
    return parts


def rules_parts(verdicts: tuple[Verdict, ...]) -> list[Part]:
    """Return the static view of the rules: those that are kept, and where one is broken."""
    tall = [20.0 + 48 * len(verdict.places) for verdict in verdicts]
    display = Display(sum(tall))
    for verdict, y in zip(verdicts, np.cumsum([0.0, *tall]).tolist(), strict=False):
        with display.moved(y):
            _rule(display, verdict)
    return [rules_line(verdicts) or "TED rules: nothing to check", display]


def _rule(display: Display, verdict: Verdict) -> None:
    display.glyph(8, 9, "check" if verdict.kept else "cross", 10, "good" if verdict.kept else "bad", 2)
    display.text(24, 13, verdict.rule, bold=True, fill="ink" if verdict.kept else "bad")
    display.text(126, 13, verdict.sentence, fill="muted", within=WIDTH - 126)
    for i, place in enumerate(verdict.places):
        lines = (f"{place.where}: {place.found}", f"likely cause: {place.cause}", f"fix: {place.fix}")
        for j, text in enumerate(lines):
            display.text(38, 30 + 48 * i + 16 * j, text, fill="ink" if j else "bad", within=WIDTH - 38)


def bytes_display(forms: Sequence[Form]) -> Display:
    """Draw the bytes of each form as a bar, that of TED over the whole width."""
    display, whole = Display(20.0 * len(forms)), max(forms[0].nbytes or 0, 1) if forms else 1
    for i, form in enumerate(forms):
        with display.moved(20.0 * i):
            display.text(0, 13, form.name, bold=True, size=12)
            with display.frame(64, 150):
                display.rect(0, 1, 3, 12, fill="panel", radius=2)
                if form.nbytes is not None:
                    display.rect(0, min(form.nbytes / whole, 1.0), 3, 12, fill="accent", radius=2)
            with display.frame(0, 0):
                display.text(1, 13, share_text(form, whole), anchor="end")
    return display


def form_display(lines: Sequence[Line]) -> Display:
    """Draw what a form stores of the first trajectories."""
    display = Display((_HIGH + 4) * len(lines))
    box = _box_width(lines)
    for i, line in enumerate(lines):
        with display.moved((_HIGH + 4) * i):
            display.text(0, 13, line.label, fill="muted", size=10)
            x = _LEFT
            for group in _groups(line):
                _boxes(display, x, box, group)
                x += box * len(group) + _GAP
    return display


def form_width(lines: Sequence[Line]) -> float:
    """Return how many pixels `form_display` needs."""
    groups = [_groups(line) for line in lines]
    return _LEFT + max(_box_width(lines) * sum(map(len, line)) + _GAP * (len(line) - 1) for line in groups)


def _box_width(lines: Sequence[Line]) -> float:
    return max([_BOX, *(text_width(text, 10) + 8 for line in lines for text, _ in line.boxes)])


def _groups(line: Line) -> list[list[tuple[str, str]]]:
    """Return the boxes of a line between its gaps."""
    groups: list[list[tuple[str, str]]] = [[]]
    for text, kind in line.boxes:
        if kind == "gap":
            groups.append([])
        else:
            groups[-1].append((text, kind))
    return groups


def _boxes(display: Display, x: float, w: float, group: Sequence[tuple[str, str]]) -> None:
    for i, (text, kind) in enumerate(group):
        if kind in _LOOKS:
            _box(display, x + i * w, w, kind)
        if text:
            display.text(x + (i + 0.5) * w, 13, text, size=10, anchor="middle")


def _box(display: Display, x: float, w: float, kind: str, h: float = _HIGH) -> None:
    look = _LOOKS[kind]
    if kind == "again":
        corners = ((x + 1, 0.5), (x + w - 1, 0.5), (x + w - 1, h - 0.5), (x + 1, h - 0.5))
        display.poly(corners, stroke=look["stroke"], dash=(3, 2), closed=True)
    else:
        display.box(x + 1, 0.5, w - 2, h - 1, look.get("fill"), stroke=look["stroke"], radius=3)


def kinds_legend() -> Legend:
    """Return the legend of the boxes."""
    return [(Sign(22, partial(_box, x=0, w=22, kind=kind, h=14)), words) for kind, words in KINDS.items()]


def forms_parts(forms: Sequence[Form], layouts: dict[str, tuple[Line, ...]]) -> list[Part]:
    """Return the static view of the forms: what each stores of the first trajectories, and its bytes."""
    parts: list[Part] = [bytes_display(forms), kinds_legend()]
    for form in forms:
        head = Display(34)
        head.text(0, 14, form.name, bold=True, size=12)
        head.text(60, 14, form.made, mono=True, size=10)
        head.text(0, 31, form.why or form.stores, fill="bad" if form.why else "muted", within=WIDTH)
        parts += [head, form_display(layouts.get(form.name, ()) if form.nbytes is not None else ())]
    return parts


_COLUMNS = (0.0, 142.0, 330.0, 554.0)
_FATES = {"carried": "good", "waits": "muted", "replaced": "warn", "differs": "bad", "kept": "accent", "left": "muted"}
_FATES["rewritten"] = _FATES["kept"]


def steps_display(fates: Sequence[Fate], t: int, steps: int) -> Display:
    """Draw what happens to each entry from step ``t`` to the next one."""
    then = f"root[{t + 1}]" if t + 1 < steps else f"root[{t + 1}], beyond the data"

    def draw(display: Display, fate: Fate) -> None:
        display.text(_COLUMNS[0], 19, path_text(fate.path), bold=True, within=_COLUMNS[1] - 8)
        for x, value in zip(_COLUMNS[1:], (fate.root, fate.next, fate.then), strict=True):
            display.text(x, 13, shorten(value or "-", 29), mono=True, size=10, fill="ink" if value else "muted")
        if fate.kind:
            _way(display, fate)

    heads = list(zip(_COLUMNS, ("key", f"root[{t}]", f"next[{t}]", then), strict=True))
    return table_display(heads, fates, len(fates), lambda fate: 30.0, draw)


def _way(display: Display, fate: Fate) -> None:
    """Draw where an entry goes, below its values."""
    role, kind = _FATES[fate.kind], fate.kind
    start = _COLUMNS[1 if kind in ("kept", "rewritten") or not fate.next else 2]
    display.text(start, 25, FATES[kind], fill=role, size=10)
    if kind == "left":
        return
    x, stop = start + text_width(FATES[kind], 10) + 6, _COLUMNS[3] - 8
    if kind == "replaced":
        # The arrow stops short: what it carried does not arrive.
        stop -= 34
        display.line(stop, 16, stop, 27, role, 2)
    else:
        display.glyph(stop, 22, "right", 7, role)
    display.line(x, 22, stop - 3, 22, role, 1.4, (2, 3) if kind in ("replaced", "waits") else None)
