"""Display lists of the player: episodes and strips over time, with the playhead and the zoomed view as parameters.

The static view has a film strip of selected frames above them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.colors import letters_on
from rlnb_widgets._core.display import Columns, Display, Param
from rlnb_widgets._core.display_svg import WIDTH, Part, stacked
from rlnb_widgets._core.ends import ENDS
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import number, shorten
from rlnb_widgets.rollout_player.agents import LANES, RESTART, stretches
from rlnb_widgets.rollout_player.episodes import KINDS, RESET_SIGNS, RESETS, episode_numbers
from rlnb_widgets.rollout_player.legend import player_legend
from rlnb_widgets.rollout_player.model import PlayerModel
from rlnb_widgets.rollout_player.strips import (
    CATEGORY_COLORS,
    COMPARED,
    Strip,
    category_role,
    category_rows,
    line_role,
)
from rlnb_widgets.rollout_player.text import player_explanation
from rlnb_widgets.scenes.scene import Limit

LEFT, RIGHT = 132.0, 8.0
_TOP, _GAP, _LANE = 8.0, 6.0, 12.0
_BESIDE = 8.0  # between frames
_HEIGHTS = {"line": 30.0, "area": 30.0}
_MOST_CUTS = 60
_FAR = 1e6
_SCALE = ("low", "high", "least", "most")  # numbers and words of an env's own scale
#: How the page makes a column of numbers that it has: a kind, the lane, the numbers ``[E, T]``, and settings.
Recipe = tuple[str, int, np.ndarray, tuple[int, ...]]


class PlayerScene:
    """The strips of the environments drawn, one or two that are compared.

    The page draws the same list for whichever environment is selected: each column has a *recipe* by which the page
    makes it from the data that it has anyway.
    """

    def __init__(self, model: PlayerModel, env: int = 0) -> None:
        self.model = model
        self.envs = (0, 1) if model.parting else (env,)
        self.columns = Columns()
        self.recipes: list[Recipe] = []
        self.numbers = episode_numbers(model.episodes, model.code.shape)
        self.rows: list[tuple[float, float]] = []
        y = _TOP
        for strip in (None, *model.strips):
            kind, lanes = ("episodes", 1) if strip is None else (strip.kind, strip.data.shape[-1])
            h = _HEIGHTS.get(kind, max(16.0, _LANE * lanes * len(self.envs)))
            self.rows.append((y, h))
            y += h + _GAP
        self.bottom = y - _GAP

    def params(self, t: int) -> dict[str, Any]:
        """Return the parameters of the static view: everything is shown, and all of it is played."""
        steps = self.model.length
        found: dict[str, Any] = {"t": t, "from": 0, "to": steps, "start": 0, "stop": steps, "live": 0}
        for i, strip in enumerate(self.model.strips):
            if strip.scales:
                found |= zip([f"{name}{i}" for name in _SCALE], own_scale(strip, self.envs[0]), strict=True)
        return found

    def film(self, t: int) -> Display | None:
        """Draw frames, evenly over time and with that of step ``t``, or return None if there are none."""
        frames, turns = self.model.frames, self.model.turns
        seen = frames.scene or frames.pictures
        if seen is None:
            return None
        count = 5 if seen.width > 1.2 * seen.height else 7
        wide = (WIDTH - _BESIDE * (count - 1)) / count
        tall = wide * seen.height / seen.width
        display = Display((tall + _BESIDE) * len(self.envs) + 12)
        for i, step in enumerate(self._film_steps(t, count)):
            x, y = i * (wide + _BESIDE), 0.0
            for lane, env in enumerate(self.envs):
                frames.draw(display, env * self.model.length + step, (x, y, wide, tall), still="still")
                if self.model.parting:
                    display.box(x + 6, y + 5, 9, 9, COMPARED[lane][0])
                    display.text(x + 19, y + 14, self.model.labels[env], bold=True)
                y += tall + _BESIDE
            words = f"step {step}" if turns is None else f"{step}: {turns.at(self.envs[0], step, short=True)}"
            display.text(x + wide / 2, y + 6, words, fill="muted", size=10, anchor="middle", within=wide)
        return display

    def _film_steps(self, t: int, count: int) -> list[int]:
        valid = np.flatnonzero(self.model.code[self.envs[0]] != KINDS.index("padding"))
        steps = np.unique(valid[np.linspace(0, len(valid) - 1, min(count, len(valid))).round().astype(int)])
        if t not in steps:
            steps[np.argmin(np.abs(steps - t))] = t
        return [int(step) for step in np.unique(steps)]

    def strips(self) -> Display:
        """Draw the episodes and all strips, then the playhead."""
        display, self.letters = Display(self.bottom + 24, self.columns), Display(0, self.columns)
        labels = ("episodes", *(strip.label for strip in self.model.strips))
        for label, strip, (y, h) in zip(labels, (None, *self.model.strips), self.rows, strict=True):
            several = strip is not None and strip.kind in ("bands", "lanes")
            # What the page shows at the playhead has room, too.
            room = LEFT - 30 if several else LEFT - 46 if h >= 30 else LEFT - 56
            display.text(0, y + 12, label, fill="muted", within=room)
            if strip is not None and several and len(self.envs) == 1:
                self._names(display, strip, y, h)
        self._scales(display)
        with display.frame(LEFT, RIGHT, (Param("from"), Param("to")), clip=True):
            for lane in range(len(self.envs)):
                self._episodes(display, lane)
            for i in range(len(self.model.strips)):
                self._strip(display, i)
            for lane in range(len(self.envs)):
                self._ends(display, lane)
        with display.frame(LEFT, RIGHT, (Param("from"), Param("to"))):
            display.axis(self.bottom + 8, "count", integer=True)
        y, tall = _TOP - 4, self.bottom - _TOP + 6
        # Below the numbers of episodes, which it would strike through.
        top = self.rows[0][0] + self.rows[0][1]
        with display.frame(LEFT, RIGHT, (Param("from"), Param("to")), clip=True):
            display.line(Param("t", 0.5), top, Param("t", 0.5), self.bottom + 2, stroke="ink", width=1.5)
            display.add(self.letters.marks)
            # What is not played.
            display.rect(0, Param("start"), y, tall, fill="panel", opacity=0.75)
            display.rect(Param("stop"), self.model.length, y, tall, fill="panel", opacity=0.75)
        with display.frame(LEFT, RIGHT, (Param("from"), Param("to"))):
            display.glyph(Param("t", 0.5), 4, "down", 9)
            # A drag may leave the strips; a tooltip is about one of them.
            display.hit(-_FAR, _FAR, -_FAR, 2 * _FAR)
            for i, (y, h) in enumerate(self.rows):
                display.hit(Param("from"), Param("to"), y - 4, h + 8, name=str(i))
        with display.shown(Param("live")):
            # Values at the playhead; in low rows they stand to the right of the label.
            for i, (y, h) in enumerate(self.rows):
                x, down, room, anchor = (0, 26, LEFT - 40, None) if h >= 24 else (LEFT - 6, 12, 56, "end")
                display.text(x, y + down, Param(f"value{i}"), size=12, anchor=anchor, within=room)
        return display

    def _names(self, display: Display, strip: Strip, y: float, h: float) -> None:
        each = h / len(strip.names)
        for k, name in enumerate(strip.names):
            middle = y + (k + 0.5) * each
            display.line(LEFT - 6, middle, LEFT - 2, middle, line_role(strip, k), 3)
            display.text(LEFT - 9, middle + 3.5, name, size=10, anchor="end", within=42)

    def _scales(self, display: Display) -> None:
        for i, (strip, (y, h)) in enumerate(zip(self.model.strips, self.rows[1:], strict=True)):
            if strip.kind != "line":
                continue
            with display.frame(LEFT, RIGHT):
                display.line(0, y + h, 1, y + h, opacity=0.6)
            if strip.scales:
                for name, at in (("least", y + h), ("most", y + 8)):
                    display.text(LEFT - 5, at, Param(f"{name}{i}"), fill="muted", size=10, anchor="end")
                continue
            low, high = scale(strip)
            with display.frame(LEFT, RIGHT):
                if low < 0 < high:
                    display.line(0, _y(0, low, high, y, h), 1, _y(0, low, high, y, h), opacity=0.6)
                for limit in strip.limits:
                    at = _y(limit.value, low, high, y, h)
                    display.line(0, at, 1, at, stroke=limit.role, dash=(2, 3))
            named = {limit.value: limit for limit in strip.limits}
            taken: list[float] = []
            ends = [] if low == high and not named else [high, low]
            for value in (*named, *(ends or [high])):
                at = _y(value, low, high, y, h)
                if all(abs(at - other) >= 10 for other in taken):
                    _, words, role = named.get(value, Limit(value, _end(value), "muted"))
                    display.text(LEFT - 5, min(max(at + 3.5, y + 8), y + h), words, fill=role, size=10, anchor="end")
                    taken.append(at)

    def _episodes(self, display: Display, lane: int) -> None:
        y, h = self.rows[0]
        h /= len(self.envs)
        y += lane * h
        starts, stops = self._runs(lane, self.numbers)
        tall = h - (len(self.envs) > 1)
        display.spans([(starts, stops, COMPARED[1][0] if lane else "accent")], y, tall, gap=3, opacity=0.3)
        signed = False
        for kind, name in enumerate(RESETS):
            if not name or not (self.model.resets[list(self.envs)] == kind).any():
                continue
            signed = True
            begun = [e for e in self.model.episodes if self.model.resets[e.env, e.start] == kind]
            at, end = self._runs(lane, episode_numbers(begun, self.model.code.shape))
            role = "bad" if name == "no reset" else "ink"
            display.labels(at, end, y + h / 2 + 3.5, RESET_SIGNS[name], fill=role, size=10, shift=1)
        display.labels(starts, stops, y + h / 2 + 3.5, size=10, shift=15 if signed else 4)

    def _strip(self, display: Display, i: int) -> None:
        strip, (y, h) = self.model.strips[i], self.rows[i + 1]
        count = strip.data.shape[-1]
        if strip.kind == "area":
            shares = [(self._column("values", 0, strip.data[..., k]), category_role(k)) for k in range(count)]
            display.shares(shares, y, h)
            return
        part = h / len(self.envs)
        for lane in range(len(self.envs)):
            if strip.kind == "line":
                low, high = (Param(f"low{i}"), Param(f"high{i}")) if strip.scales else scale(strip)
                cuts = self._column("cuts", lane, self.numbers)
                for k in range(count):
                    if len(self.envs) == 1:
                        role, dash = line_role(strip, k), _dash(strip.data, k)
                    else:  # the line says which of two rollouts it is
                        role, dash = COMPARED[lane]
                    values = self._column("values", lane, strip.data[..., k])
                    display.curve(values, y, h, low, high, role, cuts=cuts, dash=dash)
                continue
            each = part / count
            for k in range(count):
                top = y + lane * part + k * each
                tall = each - (count > 1 or len(self.envs) > 1)
                draw = self._lane if strip.kind == "lanes" else self._band
                draw(display, strip, k, lane, top, tall)

    def _band(self, display: Display, strip: Strip, k: int, lane: int, y: float, h: float) -> None:
        names = strip.values if strip.kind == "bands" else strip.names
        rows = category_rows(len(names))
        for row in range(rows):
            series, first = [], row * CATEGORY_COLORS
            for value in range(first, min(len(names), first + CATEGORY_COLORS)):
                settings = [(end, value, rows * CATEGORY_COLORS) for end in (0, 1)]
                starts, stops = (self._column("same", lane, strip.data[..., k], *each) for each in settings)
                series.append((starts, stops, category_role(value)))
            display.spans(series, y + row * h / rows, h / rows, gap=1)
            if rows > 1:
                continue  # too low for letters
            for (starts, stops, role), name in zip(series, names, strict=True):
                words, fill = shorten(name, 16), letters_on(role)
                self.letters.labels(starts, stops, y + h / 2 + 3.5, words, fill, 10, anchor="middle", halo=role)

    def _lane(self, display: Display, strip: Strip, k: int, lane: int, y: float, h: float) -> None:
        codes = strip.data[..., k]
        display.line(0, y + h / 2, self.model.length, y + h / 2)
        starts, stops = self._runs(lane, stretches(codes))
        display.spans([(starts, stops, line_role(strip, k))], y, h, least=1, opacity=0.45)
        for kind, name in enumerate(LANES):
            if name not in ENDS or not (codes % RESTART == kind).any():
                continue
            role, dash = ENDS[name]
            places = self._column("mod", lane, codes, kind, 1)
            display.rules(places, y, y + h, role, 2, dash)
        if (codes >= RESTART).any():
            again, after = (self._column("mod", lane, codes // RESTART, 1, plus) for plus in (0, self.model.length))
            display.labels(again, after, y + h / 2 + 4, RESET_SIGNS["reset"], shift=1)

    def _ends(self, display: Display, lane: int) -> None:
        first = self.rows[0]
        for kind, (role, dash) in ENDS.items():
            code = KINDS.index(kind)
            if not (self.model.code == code).any():
                continue
            places = self._column("mod", lane, self.model.code, code, 1)
            dense = (first[0] + first[1] - 5, first[0] + first[1])
            display.rules(places, first[0] - 3, self.bottom, role, 1.4, dash, dense)

    def _runs(self, lane: int, of: np.ndarray) -> tuple[int, int]:
        return self._column("runs", lane, of, 0), self._column("runs", lane, of, 1)

    def _column(self, kind: str, lane: int, of: np.ndarray, *settings: int) -> int:
        self.recipes.append((kind, lane, of, settings))
        return self.columns.add(_made(kind, of[self.envs[lane]], *settings))


def _made(kind: str, values: np.ndarray, a: int = 0, b: int = 0, of: int = RESTART) -> np.ndarray:
    """Return a column of some numbers ``[T]``; `recipeColumns` in columns.js does the same in the page.

    ``"values"`` are the numbers, ``"mod"`` the steps, ``b`` added, at which they are ``a`` modulo ``of`` (the number of
    colours of categories, or that of the codes of lanes), ``"runs"`` the first steps of runs of equal numbers above 0,
    or for ``a = 1`` where they end, ``"cuts"`` all but the first of them, and ``"same"`` the runs of the numbers that
    are ``b`` modulo ``of``.
    """
    if kind == "values":
        return values
    if kind == "mod":
        return np.flatnonzero((values >= 0) & (values % of == a)).astype(np.int32) + b
    parted = np.insert(values[1:] != values[:-1], len(values) - 1 if a else 0, True)
    wanted = (values >= 0) & (values % of == b) if kind == "same" else values > 0
    found = np.flatnonzero(parted & wanted).astype(np.int32) + a
    if kind == "cuts":
        # A static picture cannot be zoomed: episodes of a few pixels are one line there.
        return found[1:] if len(found) <= _MOST_CUTS else found[:0]
    return found


def _dash(lines: np.ndarray, k: int) -> tuple[float, float] | None:
    """Return dashes of line k ``[..., K]`` that leave gaps for those below it which it would hide, None for none."""
    hidden = sum(bool((lines[..., j] == lines[..., k]).mean() > 0.5) for j in range(k))
    return (6, 6 * hidden) if hidden else None


def scale(strip: Strip) -> tuple[float, float]:
    """Return the values at the bottom and the top of a strip: its range, and its limits."""
    at = [limit.value for limit in strip.limits]
    return min([strip.low, *at]), max([strip.high, *at])


def own_scale(strip: Strip, env: int) -> tuple[float, float, str, str]:
    """Return the ends of the scale of an env, as numbers and in words."""
    low, high = strip.scales[env]
    return low, high, _end(low), _end(high)


def scale_notes(model: PlayerModel) -> list[str]:
    """Say which strips have a scale for each env."""
    own = ", ".join(strip.label for strip in model.strips if strip.scales)
    return [f"Each environment has its own scale of {own}: on one for all, some lines would be flat."] if own else []


def _end(value: float) -> str:
    """Format an end of a scale with three significant digits, or in full where that is as short.

    Example:
        >>> _end(-1472.4), _end(2.4), _end(2e6)
        ('-1,472', '2.4', '2e+06')
    """
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e6 else number(value, 3)


def _y(value: float, low: float, high: float, y: float, h: float) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return y + h - 1 - share * (h - 2)


def player_svg(model: PlayerModel, title: str, t: int, env: int) -> Svg:
    """Return the static view, with step ``t`` at the playhead and environment ``env`` selected."""
    scene = PlayerScene(model, env)
    notes = [model.frames.note] if model.frames.note and model.frames.kind != "pixels" else []
    if model.parting:
        notes.append(str(model.parting))
    notes += scale_notes(model)
    parts: list[Part | None] = [*notes, scene.film(t), scene.strips(), player_legend(model, scene.envs) or None]
    return stacked(title, player_explanation(model), [part for part in parts if part], scene.params(t))
