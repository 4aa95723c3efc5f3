"""Legend: lines at ends, signs of resets and colours, and what ends and resets mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import WIDTH
from rlnb_widgets._core.ends import ENDS
from rlnb_widgets._core.measures import text_width
from rlnb_widgets._core.text import shorten
from rlnb_widgets.rollout_player.agents import LANES, RESTART
from rlnb_widgets.rollout_player.episodes import (
    KINDS,
    RESET_RULES,
    RESET_SIGNS,
    RESETS,
    RULES,
    STOPPED,
    stopped_at_the_end,
)
from rlnb_widgets.rollout_player.model import PlayerModel
from rlnb_widgets.rollout_player.strips import CATEGORY_COLORS, category_role, category_rows, line_role

_MOST = 12  # names of a strip
_SIZE, _ROW = 12.0, 16.0


@dataclass(frozen=True)
class Entry:
    """A mark and its words; ``mark`` is the kind of an end, the sign of a reset, a role, or empty for a heading."""

    mark: str
    words: str
    kind: str  #: ``"end"``, ``"reset"``, ``"rollout"``, ``"box"`` or ``"heading"``
    part: tuple[int, int] = (0, 1)  #: of a box, which row of how many in the band is filled


def legend_entries(model: PlayerModel, envs: Sequence[int]) -> list[Entry]:
    """List what is drawn of some environments: rollouts compared, ends, resets, colours of categories and agents."""
    drawn = list(envs)
    found = [Entry(f"c{i}", f"rollout {model.labels[e]}", "rollout") for i, e in enumerate(drawn) if model.parting]
    # The lanes of agents have marks of their own: an agent may end, or be reset, while the episode goes on.
    lanes = {int(code) for strip in model.strips if strip.kind == "lanes" for code in np.unique(strip.data[drawn])}
    ends = {KINDS[code] for code in np.unique(model.code[drawn])}
    ends |= {LANES[code % RESTART] for code in lanes if code >= 0}
    found += [Entry(kind, kind, "end") for kind in ENDS if kind in ends]
    resets = set(np.unique(model.resets[drawn]).tolist())
    resets |= {RESETS.index("reset")} if any(code >= RESTART for code in lanes) else set()
    found += [Entry(RESET_SIGNS[kind], kind, "reset") for k, kind in enumerate(RESETS) if kind and k in resets]
    return [*found, *_colours(model, drawn)]


def meanings(model: PlayerModel) -> list[tuple[str, str]]:
    """Return name and meaning for the value target of the ends and resets that occur."""
    ends, resets = (set(np.unique(codes).tolist()) for codes in (model.code, model.resets))
    found = [(kind, RULES[kind]) for k, kind in enumerate(KINDS) if k in ends and kind in RULES]
    found += [("truncated in the last row", STOPPED)] if stopped_at_the_end(model.code) else []
    return [*found, *((kind, RESET_RULES[kind]) for k, kind in enumerate(RESETS) if k in resets and kind)]


def _colours(model: PlayerModel, drawn: list[int]) -> Iterator[Entry]:
    agents: dict[tuple[str, ...], list[str]] = {}
    for strip in model.strips:
        if strip.role and 1 < len(strip.names) <= _MOST:
            agents[strip.names] = [line_role(strip, k) for k in range(len(strip.names))]
        names = strip.values if strip.kind == "bands" else strip.names
        if strip.kind in ("band", "bands", "area") and 1 < len(names) <= _MOST:
            occurs = range(len(names)) if strip.kind == "area" else np.unique(strip.data[drawn]).tolist()
            yield Entry("", strip.label, "heading")
            rows = 1 if strip.kind == "area" else category_rows(len(names))
            for k, name in enumerate(names):
                if k in occurs:
                    yield Entry(category_role(k), name, "box", (k // CATEGORY_COLORS % rows, rows))
    for shown, roles in agents.items():
        yield Entry("", "players" if model.turns else "agents", "heading")
        yield from (Entry(role, name, "box") for role, name in zip(roles, shown, strict=True))


def legend_display(model: PlayerModel, envs: Sequence[int]) -> Display | None:
    """Draw the legend, or return None if there is nothing to explain."""
    places, x, y = [], 0.0, 0.0
    for entry in legend_entries(model, envs):
        words = shorten(entry.words, 40)
        left = {"heading": 0.0, "end": 10.0, "rollout": 20.0}.get(entry.kind, 15.0)
        # Letters of 600 are wider than those that `text_width` knows.
        wide = left + text_width(words, _SIZE) * (1.0 if entry.kind == "box" else 1.08)
        if x and x + wide > WIDTH:
            x, y = 0.0, y + _ROW
        places.append((entry, words, x, y, left))
        x += wide + (8 if entry.kind == "heading" else 16)
    if not places:
        return None
    display = Display(y + _ROW)
    for entry, words, x, y, left in places:
        _mark(display, entry, x, y)
        display.text(x + left, y + 11, words, bold=entry.kind in ("end", "reset", "heading"), size=_SIZE)
    return display


def _mark(display: Display, entry: Entry, x: float, y: float) -> None:
    if entry.kind == "end":
        role, dash = ENDS[entry.mark]
        display.line(x + 3, y, x + 3, y + 14, role, 2, dash)
    elif entry.kind == "reset":
        display.text(x + 4, y + 11, entry.mark, size=_SIZE, anchor="middle")
    elif entry.kind == "rollout":
        display.line(x, y + 7, x + 14, y + 7, entry.mark, 2)
    elif entry.kind == "box":
        row, rows = entry.part
        if rows > 1:
            display.box(x, y + 2 + 10 * row / rows, 10, 10 / rows, entry.mark)
        display.box(x, y + 2, 10, 10, entry.mark if rows == 1 else None, stroke="line", radius=2)
