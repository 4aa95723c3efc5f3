"""Static SVG of the timeline: rates, shares, all steps, one step in detail, resets, and a failure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from rlnb_widgets._core.svg import Svg, box_path, coordinate
from rlnb_widgets._core.text import plural, shorten
from rlnb_widgets.batched_timeline.model import PHASES, BatchRun, TimelineModel
from rlnb_widgets.batched_timeline.text import duration, rate_text, timeline_explanation, timeline_headline

_WIDTH, _LEFT, _RIGHT = 760.0, 92.0, 12.0
_ROLES = {"step": "c0", "reset": "c1", "write": "c2", "wait": "panel", "learner": "c4"}
_MOST_PIECES, _COLUMNS, _MOST_LINES, _MOST_MARKS = 160, 220, 14, 600

#: A phase, and from when to when it lasts.
Piece = tuple[str, float, float]


def pieces(run: BatchRun, lane: int, turns: range) -> Iterator[Piece]:
    """Yield the activities of env ``lane`` (-1: the learner) in some turns; waiting is left out."""
    for k in turns:
        if lane < 0:
            if k + 1 < run.turns:
                yield "learner", float(run.stop[k]), float(run.start[k + 1])
            continue
        told, acted, written = (float(run.start[k] + part[k, lane]) for part in (run.told, run.acted, run.written))
        if math.isnan(told):
            continue
        yield "reset" if run.is_reset[k] else "step", told, acted
        if written > acted:
            yield "write", acted, written


def timeline_svg(model: TimelineModel, t: int = 0) -> Svg:
    """Draw the static SVG, with step ``t`` in detail."""
    runs = [run for run in model.runs if run.turns]
    charts = [_heights(runs, 12.0, 90.0), _heights(runs, 14.0, 110.0)]
    masked = [run for run in (runs[:1] if model.same_resets else runs) if run.mask.any()]
    masks = [18 + _lane(run, 11.0, 66.0) * run.envs for run in masked]
    failed = [run for run in model.runs if run.failure]
    height = 34 + 40 * len(runs) + sum(sum(chart) + 62 for chart in charts if runs) + sum(masks) + 20
    height += sum(30 + 14 * min(len(run.failure.lines), _MOST_LINES + 1) for run in failed if run.failure)
    svg = Svg(_WIDTH, height, title=f"BatchedEnvTimeline: {timeline_headline(model)}", desc=timeline_explanation(model))
    svg.text(12, 20, shorten(f"BatchedEnvTimeline: {timeline_headline(model)}", 96), bold=True, size=13)
    y = 34.0
    if runs:
        y = _summary(svg, runs, y)
        y = _legend(svg, y)
        y = _chart(svg, runs, charts[0], y, "all steps", whole=True, t=t)
        y = _chart(svg, runs, charts[1], y, f"step {t}, from its start", whole=False, t=t)
    for run in masked:
        y = _masks(svg, model, run, y)
    for run in failed:
        y = _failure(svg, run, y)
    return svg


def _lane(run: BatchRun, tall: float, most: float) -> float:
    return min(max(most / run.envs, 1.5), tall)


def _heights(runs: list[BatchRun], tall: float, most: float) -> list[float]:
    return [18 + 9 + _lane(run, tall, most) * run.envs + 8 for run in runs]


def _summary(svg: Svg, runs: list[BatchRun], y: float) -> float:
    left, right = 250.0, _WIDTH - _RIGHT
    for run in runs:
        svg.text(12, y + 13, shorten(run.label, 22), bold=True)
        svg.text(left - 16, y + 13, rate_text(run), anchor="end")
        x = left
        for share, phase in zip(run.shares, PHASES, strict=True):
            width = float(share) * (right - left)
            svg.rect(x, y + 2, width, 15, fill=_ROLES[phase], hint=f"{100 * share:.0f} % {PHASES[phase]}")
            if width > 34:
                role = "muted" if phase == "wait" else "paper"
                svg.text(x + width / 2, y + 13, f"{100 * share:.0f} %", size=10, anchor="middle", fill=role)
            x += width
        words = (
            f"{duration(1e6 * run.seconds)} in all, {run.at_work:.2g} of {plural(run.envs, 'env')} at work at a time"
        )
        svg.text(left, y + 29, words, size=10, fill="muted")
        y += 40
    return y


def _legend(svg: Svg, y: float) -> float:
    x = 12.0
    for phase in ("step", "reset", "write"):
        svg.rect(x, y + 4, 10, 10, fill=_ROLES[phase], rx=2)
        svg.text(x + 15, y + 13, f"env {PHASES[phase]}", size=10.5)
        x += 130
    svg.rect(x, y + 4, 10, 10, fill=_ROLES["learner"], rx=2)
    svg.text(x + 15, y + 13, "learner at work", size=10.5)
    svg.rect(x + 120, y + 4, 10, 10, fill="panel", stroke="line", rx=2)
    svg.text(x + 135, y + 13, "an env waits", size=10.5)
    return y + 22


def _chart(svg: Svg, runs: list[BatchRun], heights: list[float], y: float, title: str, whole: bool, t: int) -> float:
    svg.text(12, y + 12, title, fill="muted", size=10.5)
    y += 14
    windows = [_window(run, whole, t) for run in runs]
    span = max((stop - start for start, stop, _ in windows), default=1.0) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / span
    for run, height, (start, stop, turns) in zip(runs, heights, windows, strict=True):
        svg.text(12, y + 12, f"{shorten(run.label, 60)}" + ("" if len(turns) else ": it has no such step"), bold=True)
        if len(turns):
            tall, most = (12.0, 90.0) if whole else (14.0, 110.0)
            _lanes(svg, run, _lane(run, tall, most), y + 18, (start, stop), turns, scale, t if whole else None)
        y += height
    _axis(svg, y, span, scale)
    return y + 24


def _window(run: BatchRun, whole: bool, t: int) -> tuple[float, float, range]:
    """Return start and stop of a run in a chart, and the turns in it."""
    turns = range(run.drawn) if whole else run.turns_of(t)
    if not len(turns):
        return 0.0, 0.0, turns
    after = turns.stop
    stop = run.start[after] if after < run.turns and not whole else run.stop[after - 1]
    return float(run.start[turns.start]), float(stop), turns


def _lanes(
    svg: Svg,
    run: BatchRun,
    lane: float,
    y: float,
    window: tuple[float, float],
    turns: range,
    scale: float,
    t: int | None,
) -> None:
    start, stop = window
    mine = run.turns_of(t) if t is not None else range(0)
    if len(mine):
        x = _LEFT + (run.start[mine.start] - start) * scale
        end = _LEFT + (run.stop[mine.stop - 1] - start) * scale
        svg.rect(x - 1, y - 3, max(end - x, 1) + 2, 9 + lane * run.envs + 4, fill="highlight")
    labelled = max(1, math.ceil(11 / lane))
    for e in range(-1, run.envs):
        top, h = (y, 6.0) if e < 0 else (y + 9 + e * lane, max(lane - (2 if lane > 4 else 0), 1.0))
        if e < 0 or e % labelled == 0:
            bad = run.failure is not None and e in run.failure.workers
            name = "learner" if e < 0 else f"env {e}"
            svg.text(_LEFT - 8, top + min(h, 10) / 2 + 3.5, name, size=10, anchor="end", fill="bad" if bad else "muted")
        svg.rect(_LEFT, top, (stop - start) * scale, h, fill="panel")
        few = len(turns) <= _MOST_PIECES
        boxes = _boxes(pieces(run, e, turns), start, scale) if few else _filled(_spans(run, e, turns), window, scale)
        for phase, each in boxes.items():
            path = "".join(box_path(x, top + h * (1 - base - share), w, h * share) for x, w, base, share in each)
            svg.path(path, fill=_ROLES[phase])
        if run.failure and (e in run.failure.workers) and run.drawn == turns.stop:
            x, middle = _LEFT + (stop - start) * scale + 5, top + h / 2
            svg.path(
                f"M{coordinate(x - 3)} {coordinate(middle - 3)}l6 6m0 -6l-6 6", None, stroke="bad", stroke_width=1.8
            )


#: Left, width, and how much of the lane's height it takes, from where.
Box = tuple[float, float, float, float]


def _boxes(found: Iterator[Piece], start: float, scale: float) -> dict[str, list[Box]]:
    boxes: dict[str, list[Box]] = defaultdict(list)
    for phase, a, b in found:
        boxes[phase].append((_LEFT + (a - start) * scale, max((b - a) * scale, 0.4), 0.0, 1.0))
    return boxes


def _spans(run: BatchRun, lane: int, turns: range) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the same as :func:`pieces` as arrays: start and stop of each activity, by phase."""
    rows = slice(turns.start, turns.stop)
    if lane < 0:
        after = run.start[turns.start + 1 : turns.stop + 1]
        return {"learner": (run.stop[rows][: len(after)], after)}
    told, acted, written = (run.start[rows] + part[rows, lane] for part in (run.told, run.acted, run.written))
    taken, reset, wrote = ~np.isnan(told), run.is_reset[rows], written > acted
    found = {
        "step": (told, acted, taken & ~reset),
        "reset": (told, acted, taken & reset),
        "write": (acted, written, taken & wrote),
    }
    return {phase: (begin[which], end[which]) for phase, (begin, end, which) in found.items() if which.any()}


def _filled(
    spans: dict[str, tuple[np.ndarray, np.ndarray]], window: tuple[float, float], scale: float
) -> dict[str, list[Box]]:
    """Return the share of each phase by column of pixels, if there are too many turns to draw activities."""
    edges = np.linspace(*window, _COLUMNS + 1)
    size = edges[1] - edges[0]
    boxes: dict[str, list[Box]] = defaultdict(list)
    base = np.zeros(_COLUMNS)
    for phase, (begin, end) in spans.items():
        share = np.clip(_spent(begin, end, edges) / size, 0.0, 1 - base)
        for column in np.flatnonzero(share > 0.01).tolist():
            x = _LEFT + (edges[column] - window[0]) * scale
            boxes[phase].append((x, size * scale, float(base[column]), float(share[column])))
        base += share
    return boxes


def _spent(begin: np.ndarray, end: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the time between adjacent edges that lies in spans, which are in order and do not overlap."""
    # Time spent until each span starts and ends; in between it grows linearly or not at all.
    lasted = np.cumsum(end - begin)
    moments = np.stack([begin, end], -1).ravel()
    until = np.stack([np.concatenate([[0.0], lasted[:-1]]), lasted], -1).ravel()
    return np.diff(np.interp(edges, moments, until))


def _axis(svg: Svg, y: float, span: float, scale: float) -> None:
    raw = span / 6
    unit = 10.0 ** math.floor(math.log10(raw))
    tick = next(f * unit for f in (1, 2, 5, 10) if f * unit >= raw * 0.999)
    for i in range(int(span / tick * 1.0001) + 1):
        x = _LEFT + i * tick * scale
        svg.line(x, y - 4, x, y)
        svg.text(x, y + 11, duration(i * tick) if i else "0", size=10, fill="muted", anchor="middle" if i else "start")


def _masks(svg: Svg, model: TimelineModel, run: BatchRun, y: float) -> float:
    lane = _lane(run, 11.0, 66.0)
    whose = "" if model.same_resets else f", {shorten(run.label, 40)}"
    svg.text(12, y + 10, f"_reset after each step{whose}", fill="muted", size=10.5)
    y += 16
    cell = (_WIDTH - _LEFT - _RIGHT) / model.length
    h = max(lane - (2 if lane > 4 else 0), 1.0)
    for e in range(run.envs):
        if e % max(1, math.ceil(11 / lane)) == 0:
            svg.text(_LEFT - 8, y + e * lane + 7, f"env {e}", size=10, anchor="end", fill="muted")
        svg.rect(_LEFT, y + e * lane, cell * run.steps, h, fill="panel")
        # If pixels cover several steps, marks at the same place are drawn once.
        xs = sorted({round(_LEFT + step * cell, 1) for step in np.flatnonzero(run.mask[:, e])})[:_MOST_MARKS]
        if xs:
            w = max(cell - (1 if cell > 4 else 0), 1)
            svg.path("".join(box_path(x, y + e * lane, w, h) for x in xs), fill="c1")
    return y + lane * run.envs + 4


def _failure(svg: Svg, run: BatchRun, y: float) -> float:
    assert run.failure is not None
    said = f"{run.label}, after {plural(run.failure.step, 'step')}: {run.failure.headline}"
    svg.text(12, y + 14, shorten(said, 112), fill="bad", bold=True)
    y += 22
    lines = run.failure.lines
    shown = [(line.text, line.own) for line in lines[-_MOST_LINES:]]
    if len(lines) > _MOST_LINES:
        shown.insert(0, (f"  ... {len(lines) - _MOST_LINES} lines ...", False))
    for text, own in shown:
        cut = text if len(text) <= 104 else text[:103] + "…"
        svg.text(20, y + 10, cut.replace(" ", "\u00a0"), fill="ink" if own else "muted", size=10, mono=True)
        y += 14
    return y + 8
