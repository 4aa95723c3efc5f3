"""Lanes of agents in the static SVG: bars of activity, with marks at ends and single resets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlnb_widgets._core.svg import Svg, coordinate
from rlnb_widgets.rollout_player.agents import LANES, RESTART, runs
from rlnb_widgets.rollout_player.resets import RESET_SIGNS
from rlnb_widgets.rollout_player.strips import Strip, line_role

#: Height of a lane.
LANE = 11.0
_MOST_MARKS = 60
_LOOKS = {"terminated": "danger", "truncated": "accent", "done": "muted"}


def still_names(svg: Svg, strip: Strip, x: float, y: float, h: float) -> None:
    """Write the names of the agents to the left of their lanes, right-aligned at ``x``."""
    for k, name in enumerate(strip.names):
        svg.text(x, y + k * h + h / 2 + 3.5, name, fill=line_role(strip, k), size=9, anchor="end")


def still_lanes(svg: Svg, strip: Strip, env: int, y: float, h: float, x_of: Callable[[float], float]) -> None:
    """Draw the lanes of one environment from ``y`` down; ``x_of`` returns the left edge of a step."""
    for k in range(strip.data.shape[-1]):
        lane = strip.data[env, :, k]
        stop = int((lane >= 0).sum())
        top = y + k * h
        svg.line(x_of(0), top + h / 2, x_of(stop), top + h / 2)
        found = runs(lane[:stop].astype(np.int64)) if stop else []
        path = "".join(_box(x_of(a), top, x_of(b) - x_of(a), h - 1) for a, b in found)
        if path:
            svg.path(path, fill=line_role(strip, k), fill_opacity=0.45)
        for a, b in found[:_MOST_MARKS]:
            role = _LOOKS.get(LANES[int(lane[b - 1]) % RESTART])
            if role:
                dash = "2 2" if role == "accent" else None
                svg.line(x_of(b) - 1, top, x_of(b) - 1, top + h - 1, stroke=role, stroke_width=2, stroke_dasharray=dash)
            if lane[a] >= RESTART:
                svg.text(x_of(a), top + h / 2 + 3.5, RESET_SIGNS["reset"], size=10)


def _box(x: float, y: float, w: float, h: float) -> str:
    return f"M{coordinate(x)} {coordinate(y)}h{coordinate(w)}v{coordinate(h)}h{coordinate(-w)}z"
