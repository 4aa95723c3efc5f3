"""Display lists of the timeline: rates and shares, all steps, one step in detail, resets, and a failure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from rlnb_widgets._core.display import Columns, Display, Number, Param
from rlnb_widgets._core.display_svg import WIDTH
from rlnb_widgets._core.measures import SPAN_ROOM
from rlnb_widgets._core.text import duration, plural, shorten
from rlnb_widgets.batched_timeline.failure import Failure
from rlnb_widgets.batched_timeline.model import PHASES, BatchRun, TimelineModel
from rlnb_widgets.batched_timeline.text import rate_text

#: Colour role of each activity; the fill of a lane stays visible where an env waits.
ROLES = {"step": "c0", "reset": "c1", "write": "c2", "wait": "panel", "learner": "c4"}
#: The same in the shares of an env's time, where what the learner does is time that the env waits.
SHARE_ROLES = {**ROLES, "learner": "panel"}
#: What the legend says of a picture in which many spans share a pixel.
CROWDED = "low: too close to draw one by one; the height is the share of the time"
LEFT, RIGHT = 92.0, 12.0
_TITLE, _LEARNER, _GAP = 18.0, 8.0, 10.0
_MOST_LINES = 14
#: Resolution of the times that the page has, in microseconds: 32 bits hold 200 seconds of them.
_UNIT = 0.1


@dataclass(frozen=True)
class RunColumns:
    """Numbers of the columns of one run: when its steps and the activities of its envs began and ended."""

    begin: int  #: when a step began, the resets before it included, ``[steps]``
    end: int  #: when the next step began, ``[steps]``
    made: int  #: when the step itself began, ``[steps]``
    learner: tuple[int, int]  #: start and stop of the learner's time between turns
    #: by env: when it got its command, had acted and had written, for steps and for resets
    lanes: tuple[dict[str, tuple[int, int, int]], ...] = field(default=())


def run_columns(run: BatchRun, columns: Columns) -> RunColumns:
    """Put the times of the drawn turns of a run into columns."""
    drawn, unit = run.drawn, max(_UNIT, run.seconds * 1e6 / 2**31)
    start, stop, reset, step_of = (a[:drawn] for a in (run.start, run.stop, run.is_reset, run.step_of))
    own = np.flatnonzero(~reset)
    first = np.searchsorted(step_of, np.arange(len(own)))
    begin = start[first]
    end = np.append(begin[1:], stop[-1:]) if len(own) else begin
    lanes = []
    for env in range(run.envs):
        times = [start + part[:drawn, env] for part in (run.told, run.acted, run.written)]
        taken = ~np.isnan(times[0])
        lane: dict[str, tuple[int, int, int]] = {}
        for name, rows in (("step", taken & ~reset), ("reset", taken & reset)):
            told, acted, written = (columns.add(a[rows], unit) for a in times)
            lane[name] = (told, acted, written)
        lanes.append(lane)
    return RunColumns(
        begin=columns.add(begin, unit),
        end=columns.add(end, unit),
        made=columns.add(start[own], unit),
        learner=(columns.add(stop[:-1], unit), columns.add(start[1:], unit)),
        lanes=tuple(lanes),
    )


def detail_params(t: int, spans: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """Return the parameters at position t: where it begins and ends in each run, and how much time the detail shows.

    ``spans`` are the begins and ends of the positions of each run.
    """
    found: dict[str, float] = {"t": t}
    lengths = [0.0]
    for i, (begin, end) in enumerate(spans):
        has = t < len(begin)
        found |= {f"from{i}": begin[t] if has else 0.0, f"to{i}": end[t] if has else 0.0, f"has{i}": has}
        lengths.append(found[f"to{i}"] - found[f"from{i}"])
    span = 1.04 * max(lengths) or 1.0
    ends = {f"end{i}": found[f"from{i}"] + span for i in range(len(spans))}
    return {**found, **ends, "span": span}


class TimelineScene:
    """The display lists of a model, and the columns that they share."""

    def __init__(self, model: TimelineModel) -> None:
        self.model = model
        self.columns = Columns()
        self.runs = [run for run in model.runs if run.turns]
        self.of_run = [run_columns(run, self.columns) for run in self.runs]
        self.whole = max((float(run.stop[run.drawn - 1]) for run in self.runs), default=1.0) or 1.0

    def params(self, t: int) -> dict[str, float]:
        """Return the parameters at a step: where it lies in each run, and how much time the detail shows."""
        arrays = self.columns.arrays
        return detail_params(t, [(arrays[kept.begin], arrays[kept.end]) for kept in self.of_run])

    def heading(self, t: int) -> str:
        """Return the heading of the detail."""
        return f"Step {t}, from its start:"

    def summary(self) -> Display:
        """Draw steps per second of each run, and how the time of its envs divides."""
        display = Display(44 * len(self.runs), self.columns)
        for i, run in enumerate(self.runs):
            y = 44.0 * i
            display.text(0, y + 13, run.label, bold=True, size=12, within=110)
            display.text(120, y + 13, rate_text(run), size=12)
            with display.frame(0, RIGHT):
                words = (
                    f"{duration(1e6 * run.seconds)}, on average {run.at_work:.2g} of {plural(run.envs, 'env')} at work"
                )
                display.text(1, y + 13, words, fill="muted", size=10, anchor="end", within=270)
                draw_shares(display, run.shares, PHASES, SHARE_ROLES, "an env", y + 19, 18)
        return display

    def legend(self) -> list[tuple[str, str]]:
        """Return role and meaning of each colour that occurs."""
        shares = np.sum([run.shares for run in self.runs], axis=0)
        occurs = {phase: bool(share > 0) for phase, share in zip(PHASES, shares.tolist(), strict=True)}
        names = {"step": "env runs its step", "reset": "env runs its reset", "write": "env writes its row"}
        names |= {"learner": "learner at work", "wait": "env waits"}
        occurs["wait"] |= occurs["learner"]
        found = [(ROLES[phase], words) for phase, words in names.items() if occurs[phase]]
        # An env has two spans in a turn: it acts, and it writes.
        return [*found, (ROLES["step"], CROWDED)] if any(crowded(2 * run.drawn) for run in self.runs) else found

    def overview(self) -> Display:
        """Draw all turns of each run on one time scale, with the step at the playhead marked."""
        tops, height = self._rows(12, 96)
        display = Display(height + 20, self.columns)
        # What moves lies in groups of its own, so that the page repaints nothing else.
        ends = [(top + _TITLE, top + self._tall(run, 12, 96)) for run, top in zip(self.runs, tops, strict=True)]
        for i, (lanes, bottom) in enumerate(ends):
            with display.shown(Param(f"has{i}")), display.frame(LEFT, RIGHT, (0, self.whole)):
                x, x2 = Param(f"from{i}"), Param(f"to{i}")
                display.rect(x, x2, lanes - 4, bottom - lanes + 6, fill="highlight", least=2, grow=1)
        for i, (run, top) in enumerate(zip(self.runs, tops, strict=True)):
            with display.frame(LEFT, RIGHT, (0, self.whole)):
                self._lanes(display, i, top, 12, 96, 0.0, float(run.stop[run.drawn - 1]))
                display.hit(0, self.whole, top, ends[i][1] - top + _GAP, name=f"run{i}")
            self._labels(display, run, top, 12, 96)
        with display.frame(LEFT, RIGHT, (0, self.whole)):
            display.axis(height + 4, "duration")
        for i, (lanes, bottom) in enumerate(ends):
            with display.shown(Param(f"has{i}")), display.frame(LEFT, RIGHT, (0, self.whole)):
                display.line(Param(f"from{i}"), lanes - 4, Param(f"from{i}"), bottom + 2, stroke="ink")
        return display

    def detail(self) -> Display:
        """Draw the step at the playhead of each run, from its start."""
        tops, height = self._rows(16, 128)
        display = Display(height + 20, self.columns)
        for i, (run, top) in enumerate(zip(self.runs, tops, strict=True)):
            begin, end = Param(f"from{i}"), Param(f"to{i}")
            with (
                display.shown(Param(f"has{i}")),
                display.frame(LEFT, RIGHT, (begin, Param(f"end{i}")), clip=True),
                display.part(begin, end),
            ):
                self._lanes(display, i, top, 16, 128, begin, end)
            self._labels(display, run, top, 16, 128)
        with display.frame(LEFT, RIGHT, (0, Param("span"))):
            display.axis(height + 4, "duration")
        return display

    def resets(self) -> Display | None:
        """Draw which envs were reset after which step; None if none was."""
        masked = [run for run in (self.runs[:1] if self.model.same_resets else self.runs) if run.mask.any()]
        if not masked:
            return None
        lanes = [_lane(run, 12, 72) for run in masked]
        height = sum(20 + lane * run.envs for run, lane in zip(masked, lanes, strict=True))
        display = Display(height + 20, self.columns)
        y = 0.0
        for run, lane in zip(masked, lanes, strict=True):
            whose = "" if self.model.same_resets else f", {run.label}"
            display.text(0, y + 12, f"_reset after each step{whose}", size=12)
            y += 18
            tall = max(lane - (2 if lane > 4 else 0), 1)
            with display.frame(LEFT, RIGHT, (0, self.model.length)):
                for env in range(run.envs):
                    display.rect(0, run.steps, y + env * lane, tall, fill="panel")
                    at = np.flatnonzero(run.mask[:, env])
                    if len(at):
                        display.spans([(at, at + 1, "c1")], y + env * lane, tall, least=1, gap=1)
                display.hit(0, self.model.length, y - 2, lane * run.envs + 2, name="steps")
            with display.frame(LEFT, RIGHT, (0, self.model.length)):
                display.rect(Param("t"), Param("t", 1), y - 2, lane * run.envs + 2, stroke="ink", least=1.5)
            _env_labels(display, run, y, lane)
            y += lane * run.envs + 2
        with display.frame(LEFT, RIGHT, (0, self.model.length)):
            display.axis(y + 4, "count", integer=True)
        return display

    def failure(self, run: BatchRun) -> Display:
        """Write how a worker failed, for the static view."""
        assert run.failure is not None
        return failure_display(run.label, run.failure, self.columns, "step")

    def _rows(self, tall: float, most: float) -> tuple[list[float], float]:
        """Return the top of each run, and the height of all."""
        tops, y = [], 0.0
        for run in self.runs:
            tops.append(y)
            y += self._tall(run, tall, most) + _GAP
        return tops, y

    @staticmethod
    def _tall(run: BatchRun, tall: float, most: float) -> float:
        return _TITLE + _LEARNER + 3 + _lane(run, tall, most) * run.envs

    def _lanes(
        self, display: Display, i: int, top: float, tall: float, most: float, start: Number, end: Number
    ) -> None:
        """Draw the lane of the learner and those of the envs, in a frame of microseconds."""
        run, kept = self.runs[i], self.of_run[i]
        y = top + _TITLE
        display.rect(start, end, y, _LEARNER, fill="panel")
        display.spans([(*kept.learner, ROLES["learner"])], y, _LEARNER, least=0.6)
        lane = _lane(run, tall, most)
        height = max(lane - (2 if lane > 4 else 0), 1)
        for env, parts in enumerate(kept.lanes):
            y = top + _TITLE + _LEARNER + 3 + env * lane
            display.rect(start, end, y, height, fill="panel")
            told, acted, written = parts["step"]
            again, reset, rewritten = parts["reset"]
            series = [(told, acted, ROLES["step"]), (again, reset, ROLES["reset"])]
            series += [(acted, written, ROLES["write"]), (reset, rewritten, ROLES["write"])]
            display.spans(series, y, height, least=0.6)
            if run.failure and (not run.failure.workers or env in run.failure.workers) and run.drawn == run.turns:
                display.glyph(float(run.stop[-1]), y + height / 2, "cross", size=min(height, 8), fill="bad", width=2)

    @staticmethod
    def _labels(display: Display, run: BatchRun, top: float, tall: float, most: float) -> None:
        name = "" if run.label == run.name else f" ({run.name})"
        display.text(0, top + 12, shorten(run.label, 60) + name, bold=True, size=12)
        display.text(LEFT - 8, top + _TITLE + 8, "learner", fill="muted", size=10, anchor="end")
        _env_labels(display, run, top + _TITLE + _LEARNER + 3, _lane(run, tall, most))


def _env_labels(display: Display, run: BatchRun, y: float, lane: float) -> None:
    for env in range(0, run.envs, max(1, math.ceil(11 / lane))):
        failed = run.failure is not None and env in run.failure.workers
        middle = y + env * lane + max(lane - 2, 10) / 2 + 3.5
        role = "bad" if failed else "muted"
        display.text(LEFT - 8, middle, f"env {env}", fill=role, size=10, anchor="end")


def _lane(run: BatchRun, tall: float, most: float) -> float:
    return min(max(most / run.envs, 2.0), tall)


def crowded(spans: int) -> bool:
    """Whether so many spans in a lane of the static view are too close to be drawn one by one."""
    return spans * SPAN_ROOM > WIDTH - LEFT - RIGHT


def draw_shares(
    display: Display, shares: np.ndarray, phases: dict[str, str], roles: dict[str, str], who: str, y: float, tall: float
) -> None:
    """Draw shares of somebody's time as parts of a bar, in a frame from 0 to 1."""
    x = 0.0
    for share, (phase, means) in zip(shares.tolist(), phases.items(), strict=True):
        display.rect(x, x + share, y, tall, fill=roles[phase])
        display.hit(x, x + share, y, tall, tip=f"{100 * share:.0f} % of its time {who} {means}")
        if share >= 0.08:
            waits = roles[phase] == "panel"
            words = f"{100 * share:.0f} %{' for the learner' if phase == 'learner' and share >= 0.2 else ''}"
            ink = "muted" if waits else "paper"
            display.text(x + share / 2, y + tall / 2 + 4, words, size=10, anchor="middle", fill=ink)
        if x and roles[phase] == "panel" and share > 0:
            display.line(x, y, x, y + tall, stroke="line")
        x += share


def failure_display(label: str, failure: Failure, columns: Columns, noun: str, nouns: str | None = None) -> Display:
    """Write how a worker failed, after so many steps or batches, with its traceback."""
    lines = [(line.text, line.own) for line in failure.lines[-_MOST_LINES:]]
    if len(failure.lines) > _MOST_LINES:
        lines.insert(0, (f"  ... {len(failure.lines) - _MOST_LINES} lines ...", False))
    display = Display(30 + 14 * len(lines), columns)
    said = f"{label}, after {plural(failure.step, noun, nouns)}: {failure.headline}"
    display.text(0, 14, said, fill="bad", bold=True, within=730)
    for i, (text, own) in enumerate(lines):
        words = text if len(text) <= 104 else text[:103] + "…"
        display.text(8, 32 + 14 * i, words, fill="ink" if own else "muted", size=10, mono=True)
    return display
