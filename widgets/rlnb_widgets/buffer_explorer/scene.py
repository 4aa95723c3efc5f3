"""Display lists of the buffer explorer: ring, bars, sum tree, weights and slices; and its static view.

A list serves all recorded states, both orders and every selection: its columns are names and its parameters come from
``values.js``, and for the static view from ``values.py``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from rlnb_widgets._core.display import Column, Display, Param
from rlnb_widgets._core.display_svg import WIDTH, Part, lines_of, stacked
from rlnb_widgets._core.measures import text_width
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import bytes_text, number
from rlnb_widgets.buffer_explorer.model import Component, ExplorerModel, KeyMemory, Moment
from rlnb_widgets.buffer_explorer.values import MIDDLE, RADIUS, SHADES, depth_of, state_values, thickness
from rlnb_widgets.buffer_explorer.words import (
    buffer_explanation,
    buffer_headline,
    draw_words,
    memory_words,
    moment_words,
    state_words,
    trajectory_words,
)

#: Width and height of the ring with all around it.
RING = 300.0
#: Pixels to the left and to the right of bars.
LEFT, RIGHT = 118.0, 8.0
#: Height of a level of the sum tree.
LEVEL = 22.0
#: Number of values of a curve of weights, for beta from 0 to 1.
BETAS = 61

# Looks of cells by the kinds of their insides and outlines.
_AGES: list[dict[str, Any]] = [
    {},
    {"fill": "muted", "opacity": 0.35},
    *({"fill": "c0", "opacity": round(1 - 0.85 * k / SHADES, 3)} for k in range(SHADES + 1)),
]
_EDGES: list[dict[str, Any]] = [{"stroke": "muted", "opacity": 0.6}, *[{"stroke": "c0"}] * 3]
# Within the innermost ring, by the kinds of outlines: what was written, and what was overwritten.
_WRITE: dict[str, Any] = {"stroke": "c5", "width": 4}
_WRITTEN = [{}, {}, _WRITE, {**_WRITE, "dash": [4, 2]}]
_TONES = [{"stroke": role, "width": 3} for role in ("ink", "muted")]
_ARCS: list[dict[str, Any]] = [*_TONES, {"stroke": "bad", "width": 3, "dash": [3, 3]}]
_LIFTS = (6.0, 10.0, 14.0)
_MOST_LEVELS, _MOST_SETTINGS, _MOST_KEYS, _MOST_LINES = 6, 8, 8, 5


def ring_display(column: Column, columns: int) -> Display:
    """Draw a ring of cells for each column of the storage, the first one outermost."""
    display = Display(RING)
    thick = thickness(columns)
    lifts = _LIFTS if columns == 1 else (3.0,)
    rings = [(RADIUS - c * thick - 0.66 * thick, RADIUS - c * thick) for c in range(columns)]
    inner = rings[-1][0]
    with display.placed((MIDDLE, MIDDLE, Param("turned"))):
        for c, (low, high) in enumerate(rings):
            cells = column("from"), column("to")
            display.sectors(0, 0, low, high, *cells, _AGES, column("ages"))
            display.sectors(0, 0, low, high, *cells, _EDGES, column("edges"))
            looks: list[dict[str, Any]] = [{}, {"fill": "c1", "stroke": "paper"}]
            display.sectors(0, 0, low, high, *cells, looks, column(f"drawn{c}"), min(0.2 * thick, 5.0))
            over = high + 0.17 * thick
            arcs = column(f"arcs from{c}"), column(f"arcs to{c}")
            display.sectors(0, 0, over, over, *arcs, _ARCS, column(f"arcs{c}"))
            for lane, lift in enumerate(lifts):
                slices = column(f"slices{lane} from{c}"), column(f"slices{lane} to{c}")
                width = 3 if columns == 1 else 2
                display.sectors(0, 0, over + lift, over + lift, *slices, [{"stroke": "c2", "width": width}])
        display.sectors(0, 0, inner - 4, inner - 4, column("from"), column("to"), _WRITTEN, column("edges"))
    with display.placed((MIDDLE, MIDDLE, Param("cursor"))):
        with display.shown(Param("seam")):
            display.sector(0, 0, inner - 2, RADIUS + 3, Param("seam at"), Param("seam at"), stroke="ink", width=2)
        with display.shown(Param("turns")):
            side = 0.113 * (inner - 18)
            display.poly([(0, 8 - inner), (-side, 18 - inner), (side, 18 - inner)], fill="accent")
    with display.shown(Param("turns")):
        display.text(MIDDLE, MIDDLE + 27, Param("next"), fill="accent", anchor="middle")
        zero = display.placed((MIDDLE, MIDDLE, Param("zero")))
        with zero, display.placed((0, -139, Param("upright"))):
            display.text(0, 4, "0", fill="muted", size=10, anchor="middle")
    display.text(MIDDLE, MIDDLE - 6, Param("filled"), size=18, bold=True, anchor="middle")
    display.text(MIDDLE, MIDDLE + 11, Param("room"), fill="muted", anchor="middle")
    with display.placed((MIDDLE, MIDDLE, Param("turned"))):
        for c, (low, high) in enumerate(rings):
            with display.shown(Param(f"in{c}")):
                place = (low - 2, high + 2, Param("chosen"), Param("chosen to"))
                display.sector(0, 0, *place, stroke="ink", width=2.5)
    return display


def bars_display(column: Column, name: str, role: str, expected: bool = False) -> Display:
    """Draw a bar for each cell; ``expected`` adds a dashed line."""
    height = 46.0
    display = Display(height + 10)
    display.text(0, 12, name, size=12, bold=True)
    display.text(0, 28, Param(f"{name} to"), fill="muted")
    display.text(0, 43, Param(f"{name} about"), fill="muted", within=LEFT - 6)
    with display.frame(LEFT, RIGHT, (0, Param("cells"))):
        with display.shown(Param("selected")):
            display.rect(Param("slot"), Param("slot", 1), 0, height, fill="accent", opacity=0.25, least=3)
            display.line(Param("slot"), height + 4, Param("slot", 1), height + 4, stroke="accent", width=2)
        display.bars(column(name), 2, height - 2, Param(f"{name} most"), role)
        if expected:
            display.curve(column("expected"), 1, height, 0, Param(f"{name} most"), "ink", 1.2, dash=(4, 3))
        display.line(0, height, Param("cells"), height)
        display.hit(0, Param("cells"), 0, height, name="slot")
    return display


def sum_tree_display(column: Column, levels: int) -> Display:
    """Draw the levels of the sum tree, the nodes as wide as their sums, and the way of a draw down to a leaf."""
    display = Display(LEVEL * levels + 4)
    with display.frame(2, 2, (0, Param("total"))):
        for depth in range(levels):
            y = LEVEL * depth + 3
            nodes = column(f"node{depth}"), column(f"node{depth} to")
            display.spans([(*nodes, "c4")], y, LEVEL - 3, gap=1.5, opacity=0.35)
            display.labels(*nodes, y + 14, values=column(f"sum{depth}"), anchor="middle")
        for depth in range(levels):
            with display.shown(Param(f"on{depth}")):
                way = (Param(f"way{depth}"), Param(f"way{depth} to"), LEVEL * depth + 3, LEVEL - 3)
                display.rect(*way, stroke="ink", width=2, least=2)
        # Dashes between the levels only, so that none goes through a number.
        display.line(Param("mass"), 0, Param("mass"), Param("reached"), stroke="ink", width=3, dash=(6, LEVEL - 6))
    return display


def weights_display(column: Column) -> Display:
    """Draw the importance weights of three priorities against beta."""
    display = Display(150)
    for share in (0, 0.5, 1):
        display.text(28, 128 - 120 * share + 4, number(share), fill="muted", anchor="end")
    with display.frame(34, 10, (0, BETAS)):
        for share in (0, 0.5, 1):
            display.line(0.5, 128 - 120 * share, BETAS - 0.5, 128 - 120 * share)
            display.text((BETAS - 1) * share + 0.5, 144, number(share), fill="muted", anchor="middle")
        for name, dash in (("smallest", (6, 3)), ("largest", (2, 3)), ("here", None)):
            display.curve(column(name), 7, 122, 0, 1, "c4" if name == "here" else "ink", 2, dash=dash)
        display.line(Param("beta"), 8, Param("beta"), 128, stroke="muted", dash=(4, 3))
        for name in ("smallest", "largest", "here"):
            with display.shown(Param(f"{name} shown")):
                display.disc(Param("beta"), Param(f"{name} y"), 3.5, "c4" if name == "here" else "ink")
    return display


def lengths_display(column: Column) -> Display:
    """Draw how many trajectories have each length, those too short for a slice left of the dashed line."""
    display = Display(90)
    with display.frame(4, 4, (0, Param("bins"))):
        display.bars(column("long enough"), 6, 66, Param("most lengths"), "c2")
        display.bars(column("too short"), 6, 66, Param("most lengths"), "bad")
        display.line(0, 72, Param("bins"), 72)
        display.text(0, 86, "length 1", fill="muted")
        display.text(Param("bins"), 86, Param("longest"), fill="muted", anchor="end")
        display.line(Param("edge"), 0, Param("edge"), 72, stroke="ink", width=1.5, dash=(4, 3))
    return display


def memory_display(keys: Sequence[KeyMemory]) -> Display:
    """Draw the memory of each entry as a bar."""
    display = Display(17 * len(keys))
    most = max((key.reserved for key in keys), default=1) or 1
    for i, key in enumerate(keys):
        y, words = 17 * i, f"{key.key}  {key.form}"
        display.text(0, y + 12, words, mono=True, size=11, within=246)
        with display.frame(256, 70, (0, most)):
            display.rect(0, key.reserved, y + 3, 10, "muted", radius=2, least=1)
        with display.frame(0, 0):
            display.text(1, y + 12, bytes_text(key.reserved), anchor="end")
            display.hit(0, 1, y, 17, tip=f"{words}: {bytes_text(key.reserved)}")
    return display


def page_displays(model: ExplorerModel) -> dict[str, Display]:
    """Return the lists that the page needs for the recorded states."""
    moments = model.moments
    found = {f"ring{n}": ring_display(str, n) for n in sorted({m.grid.columns for m in moments})}
    found["memory"] = memory_display(model.memory.keys)
    found["draws"] = bars_display(str, "draws", "c1", expected=True)
    if any(m.priorities is not None for m in moments):
        found |= {name: bars_display(str, name, "c4") for name in ("priorities", "weights")}
        found["curves"] = weights_display(str)
        levels = sorted({depth_of(m.grid.cells * m.grid.columns) for m in moments})
        found |= {f"tree{n}": sum_tree_display(str, n) for n in levels}
    if shows_slices(model):
        found["lengths"] = lengths_display(str)
    return found


def shows_slices(model: ExplorerModel) -> bool:
    """Whether slices are spoken of: the sampler draws some, or a length was asked for."""
    return model.slices or any(m.slicing is not None for m in model.moments)


def legend_of(moments: Sequence[Moment], any_length: bool = False) -> list[tuple[str, str]]:
    """Return role and meaning of what occurs in the rings of some recorded states.

    With ``any_length``, slices may become as long as the reader likes, and trajectories too short for them.
    """
    ordered = any(m.ring.ordered for m in moments)
    arcs = any(len(m.arcs.drawn) for m in moments)
    short = any(m.slicing and (m.arcs.drawn.length < m.slicing.slice_len).any() for m in moments)
    over = " (dashed: over older rows)" if any((m.touched == 2).any() for m in moments) else ""
    occurs = [
        (
            "c0",
            "filled; a stronger colour is newer" if ordered else "filled; a stronger colour was written later",
            any(m.ring.length for m in moments),
        ),
        ("muted", "filled before the record began", any((m.age == -2).any() for m in moments)),
        ("c5", f"written by this call{over}", any(m.touched.any() for m in moments)),
        ("c1", "drawn (ring: by this sample, bars: by all)", any(len(m.drawn) for m in moments)),
        ("accent", "written next", any(m.ring.ordered and not m.ring.frozen and m.ring.length for m in moments)),
        ("ink", "trajectories (arcs in two tones)", arcs),
        ("bad", "too short for a slice (dashed)", short or (any_length and arcs)),
        ("c2", "slice", any(len(m.slices) for m in moments)),
    ]
    return [(role, words) for role, words, there in occurs if there]


# The static view -----------------------------------------------------------------------------------------------------


def buffer_svg(model: ExplorerModel, t: int, order: str) -> Svg:
    """Draw recorded state ``t``; ``order`` is ``"physical"`` or ``"chronological"``."""
    moment = model.moments[t]
    values, params = state_values(moment, order)
    column = values.__getitem__
    parts: list[Part] = [_boxes(model), _ring_and_words(model, t, column), legend_of([moment])]
    if moment.batches:
        parts.append(bars_display(column, "draws", "c1", expected=moment.expected.size > 0))
    if moment.priorities is not None and moment.priorities.total > 0:
        levels = min(depth_of(moment.priorities.sums.size), _MOST_LEVELS)
        params["reached"] = LEVEL * levels
        words = (
            "Sum tree: each node is the sum of the two below it, and as wide. A random number, the thick dashes, finds "
            "its way down to an item. Outlined: the way to the largest priority."
        )
        parts += [bars_display(column, "priorities", "c4"), words, sum_tree_display(column, levels)]
    if model.memory.keys:
        keys, more = model.memory.keys[:_MOST_KEYS], len(model.memory.keys) - _MOST_KEYS
        parts += [memory_words(model.memory), memory_display(keys), *([f"and {more} more"] if more > 0 else [])]
    parts += [note for note in (model.memory.note, *model.notes) if note]
    title = f"BufferExplorer: {buffer_headline(model, moment)}"
    return stacked(title, buffer_explanation(model, t), parts, params)


def _boxes(model: ExplorerModel) -> Display:
    """Draw writer, storage, sampler and transform, with their settings."""
    gap = 18.0
    width = (WIDTH - 3 * gap) / 4
    names = [_name_lines(box.name, width - 14) for box in model.boxes]
    lines = [[*name, *_setting_lines(box, width - 14)] for name, box in zip(names, model.boxes, strict=True)]
    height = 22.0 + 14 * max(map(len, lines))
    display = Display(height)
    for i, (box, shown) in enumerate(zip(model.boxes, lines, strict=True)):
        x = i * (width + gap)
        display.box(x, 0, width, height, "panel", radius=6, stroke="line")
        display.text(x + 8, 14, box.role, fill="muted", size=10)
        for k, line in enumerate(shown):
            named = k < len(names[i])
            display.text(x + 8, (29 if named else 30) + 14 * k, line, size=10, bold=named or None, within=width - 14)
            if not named:
                display.hit(x, x + width, 20 + 14 * k, 14, tip=line)
        if i < 3:
            display.text(x + width + gap / 2, height / 2 + 4, "→", anchor="middle", fill="muted", size=13)
    return display


def _name_lines(name: str, room: float) -> list[str]:
    """Return the name of a class in lines, which begin with capital letters."""
    if text_width(name, 11) <= room:  # bold letters of 10 pixels are as wide
        return [name]
    return [line.replace(" ", "") for line in lines_of(re.sub("(?<=[a-z])(?=[A-Z])", " ", name), room)]


def _setting_lines(box: Component, room: float) -> list[str]:
    """Return the settings of a component in lines; a value that has no room beside its name stands below it."""
    lines: list[str] = []
    for k, (name, value) in enumerate(box.settings):
        whole = f"{name}: {value}"
        more = [whole] if text_width(whole, 10) <= room else [f"{name}:", value]
        if len(lines) + len(more) > _MOST_SETTINGS - (k < len(box.settings) - 1):
            return [*lines, f"and {len(box.settings) - k} more"]
        lines += more
    return lines


def _ring_and_words(model: ExplorerModel, t: int, column: Column) -> Display:
    moment = model.moments[t]
    display = ring_display(column, moment.grid.columns)
    display.height -= 14  # so much of it stays empty
    lines = []
    if len(model.moments) > 1:
        lines.append((f"Moment {t} of {len(model.moments) - 1}: {moment_words(moment)}", "ink"))
    lines.append((state_words(moment.ring), "ink"))
    lines += [(trajectory_words(moment), "ink")] if moment.arcs.count else []
    lines += [(moment.slicing.verdict, "ink" if moment.slicing.possible else "bad")] if moment.slicing else []
    lines += [(draw_words(moment), "ink")] if moment.batches else []
    y = 40.0
    for i, (text, role) in enumerate(lines):
        bold = i == 0 and len(model.moments) > 1  # what the moment is
        wrapped = textwrap.wrap(" ".join(text.split()), 62 if bold else 70, break_on_hyphens=False)
        for line in wrapped[:_MOST_LINES]:
            display.text(RING + 20, y, line, fill=role, size=11, bold=bold)
            y += 15
        y += 6
    return display
