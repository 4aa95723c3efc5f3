"""Static SVG of the player: a film strip of selected frames above the strips over time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rlnb_widgets._core.svg import Svg, box_path, coordinate
from rlnb_widgets._core.text import number, plural, shorten
from rlnb_widgets.rollout_player.agents import LANES, RESTART, runs
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
from rlnb_widgets.rollout_player.strips import Strip, line_role
from rlnb_widgets.rollout_player.text import player_explanation, player_headline
from rlnb_widgets.scenes.scene import ROLES
from rlnb_widgets.scenes.svg import frame_svg

#: Height of a lane.
LANE = 11.0
_MOST_MARKS = 60
_LANE_LOOKS = {"terminated": "danger", "truncated": "accent", "done": "muted"}
_WIDTH, _LEFT, _RIGHT = 760.0, 150.0, 12.0
_HEIGHTS = {"line": 34.0, "area": 34.0, "band": 14.0}
_BUCKETS = 160
_MOST_ENDS = 60
_LOOKS: dict[str, tuple[str, str | None]] = {
    "terminated": ("danger", None), "truncated": ("accent", "5 3"), "done": ("muted", None), "cut": ("muted", "1 3"),
}  # fmt: skip


def thin(values: np.ndarray, buckets: int) -> np.ndarray:
    """Return the steps kept of a long series: lowest and highest finite value of each of ``buckets`` shares, in order.

    Example:
        >>> thin(np.array([0.0, 5, 1, 1, -3, 2]), 2).tolist()
        [0, 1, 4, 5]
    """
    steps = np.flatnonzero(np.isfinite(values))
    if len(steps) <= 2 * buckets:
        return steps
    shares = np.array_split(steps, buckets)
    kept = [(s[np.argmin(values[s])], s[np.argmax(values[s])]) for s in shares]
    return np.unique(np.array(kept))


def player_svg(model: PlayerModel, name: str, t: int, env: int) -> Svg:
    """Draw the static SVG, with step ``t`` at the playhead and environment ``env`` selected."""
    top = 34.0
    envs = (0, 1) if model.parting else (env,)
    film = _film(model, t, env)
    film_height = max((h for *_, h in film), default=0.0)
    heights = [14.0, *(_HEIGHTS.get(s.kind, LANE * s.data.shape[-1] * len(envs)) for s in model.strips)]
    legend = _legend(model, envs)
    kinds = [k for k in RULES if (model.code[list(envs)] == KINDS.index(k)).any()]
    notes = [model.frames.note] if model.frames.note and model.frames.kind != "pixels" else []
    if model.parting:
        notes.append(str(model.parting))
    films = top + 18 * len(notes)
    below = films + ((film_height + 8) * len(envs) + 22 if film else 0)
    height = below + sum(h + 8 for h in heights) + 18 + 16 * (len(kinds) + len(legend)) + 6
    svg = Svg(_WIDTH, height, title=f"{name}: {player_headline(model)}", desc=player_explanation(model))
    svg.text(12, 22, shorten(f"{name}: {player_headline(model)}", 90), size=13, bold=True)
    for i, note in enumerate(notes):
        svg.text(12, top + 10 + 18 * i, shorten(note, 125), fill="muted")
    for step, x, w, h in film:
        for lane, e in enumerate(envs):
            y = films + lane * (film_height + 8)
            _frame(svg, model, e, step, x, y, w, h)
            if model.parting:
                svg.text(x + 6, y + 14, model.labels[e], fill=_lane(lane), bold=True)
        below_film = films + len(envs) * (film_height + 8)
        said = f"step {step}" if model.turns is None else f"{step}: {_turn(model, env, step)}"
        svg.text(x + w / 2, below_film + 6, shorten(said, int(w / 5.2)), fill="muted", size=10, anchor="middle")
    bottom = _strips(svg, model, envs, t, below, heights)
    for i, kind in enumerate(kinds):
        y = bottom + 18 + 16 * i
        _end_line(svg, kind, [16], y - 9, y + 2)
        svg.text(26, y, kind, size=10.5, bold=True)
        svg.text(96, y, RULES[kind], size=10.5, fill="muted")
    for i, (mark, name, rule) in enumerate(legend):
        y = bottom + 18 + 16 * (len(kinds) + i)
        svg.text(16, y, mark, size=10.5, anchor="middle")
        svg.text(26, y, name, size=10.5, bold=True)
        svg.text(36 + 6.4 * len(name), y, shorten(rule, 118 - len(name)), size=10.5, fill="muted")
    return svg


def _legend(model: PlayerModel, envs: tuple[int, ...]) -> list[tuple[str, str, str]]:
    """Return the signs of the resets that occur, and their meaning."""
    found = set(np.unique(model.resets[list(envs)]).tolist())
    lines = [("", "truncated in the last row", STOPPED)] if stopped_at_the_end(model.code[list(envs)]) else []
    lines += [(RESET_SIGNS[k], k, RESET_RULES[k]) for i, k in enumerate(RESETS) if i in found and k]
    return lines


def _turn(model: PlayerModel, env: int, step: int) -> str:
    assert model.turns is not None
    return model.turns.at(env, step, short=True)


def _film(model: PlayerModel, t: int, env: int) -> list[tuple[int, float, float, float]]:
    """Choose the frames, evenly over time and with the one at the playhead: (step, x, width, height)."""
    frames = model.frames
    if frames.scene is not None:
        ratio = frames.scene.width / frames.scene.height
    elif frames.pictures is not None:
        ratio = frames.pictures.width / frames.pictures.height
    else:
        return []
    count = 5 if ratio > 1.2 else 7
    valid = np.flatnonzero(model.code[env] != KINDS.index("padding"))
    steps = np.unique(valid[np.linspace(0, len(valid) - 1, min(count, len(valid))).round().astype(int)])
    if t not in steps:
        steps[np.argmin(np.abs(steps - t))] = t
    width = (_WIDTH - 24 - 8 * (count - 1)) / count
    return [(int(s), 12 + i * (width + 8), width, width / ratio) for i, s in enumerate(np.unique(steps))]


def _frame(svg: Svg, model: PlayerModel, env: int, step: int, x: float, y: float, w: float, h: float) -> None:
    frames, row = model.frames, env * model.length + step
    if frames.scene is not None:
        # The parts that never move are written once and reused in every frame.
        still, mark, moving = frame_svg(frames.scene, row).removesuffix("</g>").partition("<g data-part")
        svg.define(f'<g id="still">{still}</g></g>')
        svg.style(_scene_colours(still + moving))
        svg.open(f"translate({coordinate(x)} {coordinate(y)}) scale({w / frames.scene.width:.4f})")
        svg.raw(f'<use href="#still"/><g class="rlnb-scene">{mark}{moving}</g>')
        svg.close()
    elif frames.pictures is not None:
        picture = frames.pictures
        svg.image(x, y, w, h, picture.data[picture.index[row]], picture.mime)
    svg.rect(x, y, w, h, fill=None, stroke="line", rx=3)


def _scene_colours(fragment: str) -> str:
    """Return the rules for the colours that a scene uses; the style sheet of all scenes is several times longer."""
    used = sorted(set(re.findall(r"rlnb-(fill|stroke)-(\w+)", fragment)))
    light, dark = ("".join(f".rlnb-{kind}-{role}{{{kind}:{ROLES[role][i]}}}" for kind, role in used) for i in (0, 1))
    round_ends = ".rlnb-scene line,.rlnb-scene polygon{stroke-linecap:round;stroke-linejoin:round}"
    return f"{round_ends}.rlnb-scene text{{font-weight:600}}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _lane(lane: int) -> str:
    return f"c{lane}"


def _strips(svg: Svg, model: PlayerModel, envs: tuple[int, ...], t: int, top: float, heights: list[float]) -> float:
    scale = (_WIDTH - _LEFT - _RIGHT) / model.length
    _caption(svg, [plural(sum(e.env in envs for e in model.episodes), "episode")], top, heights[0])
    part = heights[0] / len(envs)
    for lane, env in enumerate(envs):
        _episodes(svg, model, env, top + lane * part, part - (len(envs) > 1), scale, _lane(lane))
        _signs(svg, model, env, top + lane * part, part, scale)
    y = top + heights[0]
    for strip, h in zip(model.strips, heights[1:], strict=True):
        _strip(svg, model, strip, envs, y + 8, h, scale)
        y += 8 + h
    x = _LEFT + (t + 0.5) * scale
    svg.line(x, top - 4, x, y, stroke="ink", stroke_width=1.2)
    svg.polygon([(x - 4, top - 7), (x + 4, top - 7), (x, top - 1)])
    svg.text(_LEFT, y + 13, "0", fill="muted", size=10)
    svg.text(_WIDTH - _RIGHT, y + 13, f"{model.length - 1}", fill="muted", size=10, anchor="end")
    for env in envs:
        _ends(svg, model, env, top, heights[0], y, scale)
    return y + 12


def _caption(svg: Svg, words: list[str], y: float, h: float) -> None:
    svg.text(12, y + h / 2 + 4, shorten(words[0], 20), fill="muted")


def _episodes(svg: Svg, model: PlayerModel, env: int, y: float, h: float, scale: float, role: str) -> None:
    mine = [e for e in model.episodes if e.env == env]
    if len(mine) > _MOST_ENDS:
        mine = [replace(mine[0], stop=mine[-1].stop)]
    for odd in (0, 1):
        boxes = [(_LEFT + e.start * scale, (e.stop - e.start) * scale) for e in mine[odd::2]]
        # The gap after an episode is the reset.
        path = "".join(box_path(x, y, w - (2 if w > 6 else 0), h) for x, w in boxes)
        if path:
            svg.path(path, fill=role, fill_opacity=0.16 if odd else 0.3)


def _signs(svg: Svg, model: PlayerModel, env: int, y: float, h: float, scale: float) -> None:
    begun = np.flatnonzero(model.resets[env])
    if len(begun) > _MOST_ENDS or h < 8:
        return
    for t in begun.tolist():
        kind = RESETS[model.resets[env, t]]
        svg.text(
            _LEFT + t * scale, y + h / 2 + 4, RESET_SIGNS[kind], size=10, fill="danger" if kind == "no reset" else "ink"
        )


def _strip(svg: Svg, model: PlayerModel, strip: Strip, envs: tuple[int, ...], y: float, h: float, scale: float) -> None:
    _caption(svg, [strip.label], y, h)
    part = h / len(envs)
    if strip.kind == "band":
        for lane, env in enumerate(envs):
            _band(svg, strip.data[env, :, 0], y + lane * part, part - (len(envs) > 1), scale)
    elif strip.kind == "bands":
        each = part / strip.data.shape[-1]
        for lane, env in enumerate(envs):
            still_names(svg, strip, _LEFT - 8, y + lane * part, each)
            for k in range(strip.data.shape[-1]):
                _band(svg, strip.data[env, :, k], y + lane * part + k * each, each - 1, scale)
    elif strip.kind == "lanes":
        for lane, env in enumerate(envs):
            still_names(svg, strip, _LEFT - 8, y + lane * part, part / strip.data.shape[-1])
            each = part / strip.data.shape[-1]
            still_lanes(svg, strip, env, y + lane * part, each, lambda t: _LEFT + t * scale)
    elif strip.kind == "area":
        _area(svg, strip.data[envs[0]], y, h, scale)
    else:
        svg.line(_LEFT, y + h, _WIDTH - _RIGHT, y + h)
        svg.text(_LEFT - 8, y + 9, number(strip.high, 3), fill="muted", size=9, anchor="end")
        if strip.high > strip.low:
            svg.text(_LEFT - 8, y + h, number(strip.low, 3), fill="muted", size=9, anchor="end")
        for lane, env in enumerate(envs):
            _lines(svg, model, strip, env, y, h, scale, lane if len(envs) > 1 else None)


def _area(svg: Svg, data: np.ndarray, y: float, h: float, scale: float) -> None:
    shares = np.cumsum(np.nan_to_num(data.astype(np.float64)), axis=-1)
    steps = np.unique(np.linspace(0, len(data) - 1, min(len(data), _BUCKETS)).round().astype(int))
    for k in reversed(range(shares.shape[-1])):
        line = [(_LEFT + (s + 0.5) * scale, y + h - min(shares[s, k], 1.0) * h) for s in steps]
        svg.polygon([(line[0][0], y + h), *line, (line[-1][0], y + h)], fill=f"c{k % 8}")


def _lines(
    svg: Svg, model: PlayerModel, strip: Strip, env: int, y: float, h: float, scale: float, lane: int | None
) -> None:
    span = strip.high - strip.low
    for k in range(strip.data.shape[-1]):
        points: list[tuple[float, float]] = []
        for start, stop in _runs(model, env):
            values = strip.data[env, start:stop, k].astype(np.float64)
            room = max(1, round(_BUCKETS * (stop - start) / model.length))
            for s in thin(values, room):
                share = (values[s] - strip.low) / span if span else 0.5
                points.append((_LEFT + (start + s + 0.5) * scale, y + h - 2 - share * (h - 4)))
            points.append((np.nan, np.nan))
        # In a comparison the colour tells the rollouts apart.
        role = line_role(strip, k) if lane is None else _lane(lane)
        svg.polyline(points, stroke=role, stroke_width=1.3, stroke_linejoin="round")


def _runs(model: PlayerModel, env: int) -> list[tuple[int, int]]:
    """Return the runs drawn as one line: episodes, or everything if there are too many to distinguish."""
    mine = [(e.start, e.stop) for e in model.episodes if e.env == env]
    return mine if len(mine) <= _MOST_ENDS else [(mine[0][0], mine[-1][1])]


def _band(svg: Svg, values: np.ndarray, y: float, h: float, scale: float) -> None:
    # In a long rollout a pixel covers many steps and takes the colour of the first one.
    steps = np.unique(np.linspace(0, len(values) - 1, min(len(values), 2 * _BUCKETS)).round().astype(int))
    kept = values[steps]
    starts = np.flatnonzero(np.append(True, kept[1:] != kept[:-1]))
    edges = np.append(steps[starts], len(values))
    for value in np.unique(kept[kept >= 0]):
        mine = np.flatnonzero(kept[starts] == value)
        path = "".join(box_path(_LEFT + edges[i] * scale, y, (edges[i + 1] - edges[i]) * scale, h) for i in mine)
        svg.path(path, fill=f"c{int(value) % 8}")


def _ends(svg: Svg, model: PlayerModel, env: int, top: float, first: float, bottom: float, scale: float) -> None:
    mine = [e for e in model.episodes if e.env == env and e.end in _LOOKS]
    few = len(mine) <= _MOST_ENDS
    for kind in _LOOKS:
        xs = sorted({round(_LEFT + e.stop * scale - 1, 1 if few else 0) for e in mine if e.end == kind})
        y1, y2 = (top - 3, bottom) if few else (top + first - 5, top + first)
        _end_line(svg, kind, xs, y1, y2)


def _end_line(svg: Svg, kind: str, xs: list[float], y1: float, y2: float) -> None:
    if kind not in _LOOKS or not xs:
        return
    role, dash = _LOOKS[kind]
    path = "".join(f"M{coordinate(x)} {coordinate(y1)}V{coordinate(y2)}" for x in xs)
    svg.path(path, None, stroke=role, stroke_width=1.4, stroke_dasharray=dash)


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
        path = "".join(box_path(x_of(a), top, x_of(b) - x_of(a), h - 1) for a, b in found)
        if path:
            svg.path(path, fill=line_role(strip, k), fill_opacity=0.45)
        for a, b in found[:_MOST_MARKS]:
            role = _LANE_LOOKS.get(LANES[int(lane[b - 1]) % RESTART])
            if role:
                dash = "2 2" if role == "accent" else None
                svg.line(x_of(b) - 1, top, x_of(b) - 1, top + h - 1, stroke=role, stroke_width=2, stroke_dasharray=dash)
            if lane[a] >= RESTART:
                svg.text(x_of(a), top + h / 2 + 3.5, RESET_SIGNS["reset"], size=10)
