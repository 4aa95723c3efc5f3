"""Legend: lines at ends, signs of resets and colours, and what ends and resets mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rlnb_widgets._core.display import Legend, Sign
from rlnb_widgets._core.display_svg import line_sign, text_sign
from rlnb_widgets._core.ends import ENDS
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
from rlnb_widgets.rollout_player.strips import CATEGORY_COLORS, COMPARED, category_role, category_rows, line_role

_MOST = 12  # names of a strip


def player_legend(model: PlayerModel, envs: Sequence[int]) -> Legend:
    """List what is drawn of some environments: rollouts compared, ends, resets, colours of categories and agents."""
    drawn = list(envs)
    found = [
        (line_sign(role, dash=dash), f"rollout {model.labels[e]}")
        for (role, dash), e in zip(COMPARED, drawn, strict=False)
        if model.parting
    ]
    # The lanes of agents have marks of their own: an agent may end, or be reset, while the episode goes on.
    lanes = {int(code) for strip in model.strips if strip.kind == "lanes" for code in np.unique(strip.data[drawn])}
    ends = {KINDS[code] for code in np.unique(model.code[drawn])}
    ends |= {LANES[code % RESTART] for code in lanes if code >= 0}
    found += [(_end(kind), kind) for kind in ENDS if kind in ends]
    resets = set(np.unique(model.resets[drawn]).tolist())
    resets |= {RESETS.index("reset")} if any(code >= RESTART for code in lanes) else set()
    found += [(text_sign(RESET_SIGNS[kind]), kind) for k, kind in enumerate(RESETS) if kind and k in resets]
    return [*found, *_colours(model, drawn)]


def meanings(model: PlayerModel) -> list[tuple[str, str]]:
    """Return name and meaning for the value target of the ends and resets that occur."""
    ends, resets = (set(np.unique(codes).tolist()) for codes in (model.code, model.resets))
    found = [(kind, RULES[kind]) for k, kind in enumerate(KINDS) if k in ends and kind in RULES]
    found += [("truncated in the last row", STOPPED)] if stopped_at_the_end(model.code) else []
    return [*found, *((kind, RESET_RULES[kind]) for k, kind in enumerate(RESETS) if k in resets and kind)]


def _colours(model: PlayerModel, drawn: list[int]) -> Iterator[tuple[Sign | str, str]]:
    agents: dict[tuple[str, ...], list[str]] = {}
    for strip in model.strips:
        if strip.role and 1 < len(strip.names) <= _MOST:
            agents[strip.names] = [line_role(strip, k) for k in range(len(strip.names))]
        names = strip.values if strip.kind == "bands" else strip.names
        if strip.kind in ("band", "bands", "area") and 1 < len(names) <= _MOST:
            occurs = range(len(names)) if strip.kind == "area" else np.unique(strip.data[drawn]).tolist()
            yield "", strip.label
            rows = 1 if strip.kind == "area" else category_rows(len(names))
            for k, name in enumerate(names):
                if k in occurs:
                    yield _category(category_role(k), k // CATEGORY_COLORS % rows, rows), name
    for shown, roles in agents.items():
        yield "", "players" if model.turns else "agents"
        yield from zip(roles, shown, strict=True)


def _end(kind: str) -> Sign:
    role, dash = ENDS[kind]
    return Sign(6, lambda sign: sign.line(3, 0, 3, 14, role, 2, dash))


def _category(role: str, row: int, rows: int) -> Sign | str:
    """Return the sign of a category: a box of which one row has its colour, as in the band."""

    def draw(sign: Sign) -> None:
        sign.box(0, 2 + 10 * row / rows, 10, 10 / rows, role)
        sign.box(0, 2, 10, 10, stroke="line", radius=2)

    return role if rows == 1 else Sign(10, draw)
