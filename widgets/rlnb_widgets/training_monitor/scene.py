"""Display lists of the monitor: progress, a panel for each curve, the value map, and rollouts in frames."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlnb_widgets._core.display import Columns, Display, Legend, Param, Sign
from rlnb_widgets._core.display_svg import WIDTH, line_sign
from rlnb_widgets._core.measures import format_value, round_step, short_number, text_width, ticks
from rlnb_widgets._core.text import shorten
from rlnb_widgets.training_monitor.model import CurveModel, MonitorModel, Progress, Shown, ValueMap

_LEFT, _RIGHT = 46.0, 10.0
_TOP, _TALL = 20.0, 62.0
_CURVE = _TOP + _TALL + 26.0
_CELL, _MAP = 44.0, 300.0
_FRAMES = 5
#: Parameters of a panel whose values nobody reads with keys.
UNREAD = {"read": 0, "at": 0}


def curve_role(i: int) -> str:
    """Return the colour of the curve number ``i``."""
    return f"c{i % 8}"


def domain(curve: CurveModel, progress: Progress) -> tuple[float, float]:
    """Return the steps at the left and at the right edge.

    The scale grows with the training in round steps, up to the end: all of a long training would leave its beginning
    without room.

    Example:
        >>> curve = CurveModel("loss", count=9, first_step=100, last_step=900)
        >>> [domain(curve, Progress("running", 900, total, "frames")) for total in (None, 950, 50_000)]
        [(0.0, 1000.0), (0.0, 950.0), (0.0, 1000.0)]
    """
    # Once it has ended nothing more will come, however far away the total is.
    total, ended = progress.total, progress.state in ("finished", "stopped", "failed")
    if not curve.count:
        return 0.0, float((progress.frames if ended else total) or 1)
    if progress.state == "log":
        low, high = curve.first_step, curve.last_step
    else:
        last = curve.last_step
        # A series may have steps of its own, such as the number of updates.
        reached = max(last, float(progress.frames)) if 2 * last > progress.frames else last
        low, high = min(curve.first_step, 0.0), round_step(reached, 1)
        if ended:
            high = reached
        elif total is not None and high > total >= reached:
            high = float(total) if 2 * last > progress.frames else reached
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def limits(curve: CurveModel) -> tuple[float, float]:
    """Return the values at the bottom and at the top."""
    seen = [v for v in (curve.low, curve.high, curve.goal) if v is not None and math.isfinite(v)]
    if not seen:
        return 0.0, 1.0
    low, high = min(seen), max(seen)
    pad = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
    return low - pad, high + pad


def progress_display(progress: Progress) -> Display:
    """Draw the bar of the progress."""
    display = Display(12)
    share = min(progress.frames / progress.total, 1.0) if progress.total else float(progress.state != "waiting")
    role = {"failed": "bad", "stopped": "warn", "finished": "good", "log": "good"}.get(progress.state, "accent")
    with display.frame(0, 0, (0, 1)):
        display.rect(0, 1, 2, 6, "panel", stroke="line", radius=3)
        if share > 0:
            display.rect(0, share, 2, 6, role, radius=3)
    return display


def curve_display(curve: CurveModel, i: int, progress: Progress, columns: Columns) -> Display:
    """Draw the panel of a curve: its name, last and best value, scale, values and their moving mean.

    Where parameter ``read`` is 1, a line stands at step ``at``, whose value is read with keys.
    """
    display = Display(_CURVE, columns)
    words = curve_words(curve)
    with display.frame(0, 0, (0, 1)):
        display.text(0, 12, shorten(curve.name, 32), bold=True, size=12)
        display.text(1, 12, words, "muted", 11, anchor="end")
    low, high = limits(curve)
    if curve.count:
        _scale(display, low, high)
    with display.frame(_LEFT, _RIGHT, (0, 1)):
        if curve.goal is not None:
            y = _y(curve.goal, low, high)
            display.line(0, y, 1, y, "good", 1, (5, 4))
        if not curve.count:
            display.text(0.5, _TOP + _TALL / 2 + 4, "nothing was logged yet", "muted", 11, anchor="middle")
    with display.frame(_LEFT, _RIGHT, domain(curve, progress), clip=True):
        _lines(display, curve, i, low, high)
    with display.frame(_LEFT, _RIGHT, domain(curve, progress)):
        _missing(display, curve)
        with display.shown(Param("read")):
            display.line(Param("at"), _TOP, Param("at"), _TOP + _TALL, "accent", 1.5)
        if curve.count or progress.total:  # without both, there are no steps to count
            display.axis(_TOP + _TALL + 6, "count", room=80)
        display.hit(*domain(curve, progress), _TOP, _TALL, name=str(i))
    return display


def curve_words(curve: CurveModel) -> str:
    """Say the last and the best value of a curve, and its goal."""
    if not curve.count:
        return ""
    words = [f"last {short_number(curve.last)}"]
    if curve.best is not None and math.isfinite(curve.best):
        words.append(f"best {short_number(curve.best)}")
    if curve.goal is not None:
        words.append(f"goal {short_number(curve.goal)}")
    if curve.missing_count:
        words.append(f"{curve.missing_count:,} NaN")
    return ", ".join(words)


def _scale(display: Display, low: float, high: float) -> None:
    for value in ticks(low, high, 3):
        y = _y(value, low, high)
        with display.frame(_LEFT, _RIGHT, (0, 1)):
            display.line(0, y, 1, y, "line", 0.5)
        display.text(_LEFT - 5, y + 3.5, format_value(value, "number"), "muted", 10, anchor="end", within=_LEFT - 6)


def _y(value: float, low: float, high: float) -> float:
    return _TOP + _TALL - 1 - (value - low) / (high - low) * (_TALL - 2)


def _lines(display: Display, curve: CurveModel, i: int, low: float, high: float) -> None:
    if not curve.count:
        return
    box = (_TOP, _TALL, low, high, curve_role(i))
    display.curve(curve.values, *box, width=0.8 if curve.window else 1.75, places=curve.steps)
    if curve.window:
        # Values as strong as their mean would hide it: it has an edge of paper.
        smooth, places = display.columns.add(curve.smooth), display.columns.add(curve.smooth_steps)
        display.curve(smooth, *box[:-1], "paper", width=4.5, places=places)
        display.curve(smooth, *box, width=2.25, places=places)


def _missing(display: Display, curve: CurveModel) -> None:
    """Draw crosses where a value is not finite; outside of the clipped lines, so that those at the edges are whole."""
    if len(curve.missing):
        display.glyphs(curve.missing, _TOP + _TALL - 6, "cross", 7, "bad")


def curve_legend(curves: Sequence[CurveModel]) -> Legend:
    """Return what the marks of the curves mean, of those that occur; one line alone needs no words."""
    two = any(curve.window for curve in curves)
    found = [
        (line_sign("muted", 0.8), "values", two),
        (line_sign("muted", 2.25), "moving mean", two),
        (line_sign("good", 1, (5, 4)), "goal", any(curve.goal is not None for curve in curves)),
        (_cross(), "not finite", any(curve.missing_count for curve in curves)),
    ]
    return [(sign, words) for sign, words, there in found if there]


def _cross() -> Sign:
    return Sign(8, lambda sign: sign.glyph(4, 7, "cross", 7, "bad"))


def map_width(grid: ValueMap) -> float:
    """Return how wide a map is, with its caption."""
    return max(_cell_size(grid) * grid.columns, text_width(_range_words(grid), 11) + 4)


def _range(grid: ValueMap) -> tuple[float, float]:
    finite = grid.values[np.isfinite(grid.values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)


def _range_words(grid: ValueMap) -> str:
    low, high = _range(grid)
    return f"value from {short_number(low)} (faint) to {short_number(high)}"


_STRONGEST = 0.55


def _cell_size(grid: ValueMap) -> float:
    return min(_CELL, _MAP / grid.columns, _MAP / grid.rows)


def map_display(grid: ValueMap, columns: Columns) -> Display:
    """Draw the values of a grid's states, the more opaque the higher, with the greedy actions as arrows."""
    cell = _cell_size(grid)
    low, high = _range(grid)
    wide, tall = cell * grid.columns, cell * grid.rows
    display = Display(tall + 22, columns)
    display.box(0, 0, wide, tall, "paper")
    # Cells of the highest value are not opaque: ink is to be read on all of them, in both themes.
    top = low + (high - low) / _STRONGEST if high > low else low + 1
    display.heat(grid.values, grid.rows, 0, wide, 0, tall, "accent", low, top)
    for state in range(grid.rows * grid.columns):
        row, column = divmod(state, grid.columns)
        x, y = column * cell, row * cell
        if state in grid.blocked:
            display.box(x, y, cell, cell, "muted")
            continue
        if state in grid.goal:
            display.box(x + 1.5, y + 1.5, cell - 3, cell - 3, None, stroke="good", width=3)
        _cell(display, grid, state, (x, y, cell))
    for k in range(grid.columns + 1):
        display.line(k * cell, 0, k * cell, tall)
    for k in range(grid.rows + 1):
        display.line(0, k * cell, wide, k * cell)
    display.text(0, tall + 15, _range_words(grid), "muted", 11)
    return display


def _cell(display: Display, grid: ValueMap, state: int, place: tuple[float, float, float]) -> None:
    x, y, cell = place
    value = float(grid.values[state])
    words = f"{value:.2g}" if math.isfinite(value) else ""
    room = cell >= 28 and text_width(words, 10) <= cell - 3
    if grid.arrows[state]:
        display.glyph(x + cell / 2, y + cell * (0.36 if room else 0.5), grid.arrows[state], cell * 0.3)
    if room:
        display.text(x + cell / 2, y + cell - 5, words, size=10, anchor="middle")


def film_display(shown: tuple[Shown, ...]) -> Display | None:
    """Draw a row of frames for each rollout, at the same steps in all; None if nothing can be drawn."""
    seen = [one for one in shown if (one.player.frames.scene or one.player.frames.pictures) is not None]
    if not seen:
        return None
    longest = max(one.player.length for one in seen)
    steps = [round(k * (longest - 1) / (_FRAMES - 1)) for k in range(_FRAMES)]
    left, gap = 92.0, 8.0
    wide = (WIDTH - left - gap * (_FRAMES - 1)) / _FRAMES
    rows, height = [], 0.0
    for one in seen:
        picture = one.player.frames.scene or one.player.frames.pictures
        assert picture is not None
        tall = min(wide * picture.height / picture.width, 110.0)
        rows.append((one, height, tall, tall * picture.width / picture.height))
        height += tall + gap
    display = Display(height + 14)
    for number, (one, y, tall, width) in enumerate(rows):
        frames, name = one.player.frames, f"agent{number}-"
        display.text(0, y + 14, shorten(one.name, 14), bold=True, size=12, within=left - 6)
        display.text(0, y + 30, f"{one.player.length:,} steps", "muted", 11, within=left - 6)
        for k, step in enumerate(steps):
            x = left + k * (wide + gap)
            if step < one.player.length:
                # The action would take most of the room of a saved notebook.
                options = {"still": f"{name}still", "moving": name, "hidden": frames.acting}
                frames.draw(display, step, (x, y, width, tall), **options)
            else:
                display.text(x + width / 2, y + tall / 2, "ended", "muted", 11, anchor="middle")
    for k, step in enumerate(steps):
        display.text(left + k * (wide + gap), height + 6, f"step {step:,}", "muted", 10)
    return display


def curve_displays(model: MonitorModel, columns: Columns) -> list[Display]:
    """Draw the panels of all curves."""
    return [curve_display(curve, i, model.progress, columns) for i, curve in enumerate(model.curves)]
