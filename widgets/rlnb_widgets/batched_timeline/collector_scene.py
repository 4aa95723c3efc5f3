"""Display lists of the timeline of collectors: rates and shares, all batches, one batch in detail, and a failure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlnb_widgets._core.display import Columns, Display, Param
from rlnb_widgets._core.text import duration, plural, shorten
from rlnb_widgets.batched_timeline.collector_model import (
    LEARNER_PHASES,
    WORKER_PHASES,
    CollectorRun,
    CollectorsModel,
)
from rlnb_widgets.batched_timeline.collector_text import frames_rate_text
from rlnb_widgets.batched_timeline.scene import (
    CROWDED,
    LEFT,
    RIGHT,
    crowded,
    detail_params,
    draw_shares,
    failure_display,
)

#: Colour role of each activity; the fill of a lane stays visible where somebody waits.
WORKER_ROLES = {"collect": "c0", "write": "c2", "wait": "panel", "learner": "panel"}
LEARNER_ROLES = {"learn": "c4", "take": "c2", "wait": "panel"}
_AGE_ROLE = "c3"
_TITLE, _LEARNER, _GAP, _NUMBER, _AGES = 18.0, 10.0, 12.0, 11.0, 16.0
_BLOCK = 62.0  # height of a run in the summary
_UNIT = 0.1  # resolution of the times that the page has, in microseconds


@dataclass(frozen=True)
class LaneColumns:
    """Numbers of the columns of the batches of one worker."""

    began: int  #: when it began to collect
    collected: int  #: when it had taken the last step
    written: int  #: when its data was written
    version: int  #: version of the weights that made it
    lost: tuple[int, int]  #: start and end of those that failed
    unfinished: tuple[int, int]  #: start and end of what it collected when the trace ended, if it did


@dataclass(frozen=True)
class CollectorColumns:
    """Numbers of the columns of one run."""

    first: int  #: when the first worker began a batch, or ``next`` was called, ``[batches]``
    begin: int  #: when ``next`` was called, likewise
    end: int  #: when it was called again: how long the learner has the batch, likewise
    current: int  #: version of the learner's weights, likewise
    age: int  #: age of the weights that made the batch, in versions, likewise
    waited: int  #: how long the learner waited for it, in microseconds, likewise
    parts: tuple[int, int, int]  #: batch, worker and version of each part that was taken, sorted by batch
    learns: tuple[int, int]  #: start and stop of the learner's time outside of ``next``
    takes: tuple[int, int]  #: start and stop of its time in ``next`` once the batch is there
    ages: tuple[tuple[int, int, int], ...]  #: age, and start and stop of the time that the learner has such a batch
    held: tuple[int, int]  #: start and stop of the time that the learner has a batch, ``[batches]``
    lanes: tuple[LaneColumns, ...]  #: by worker


def collector_columns(run: CollectorRun, columns: Columns) -> CollectorColumns:
    """Put the times of the drawn batches of a run into columns."""
    whole = run.seconds * 1e6
    unit = max(_UNIT, whole / 2**31)
    first = run.start.copy()
    taken = np.flatnonzero(run.batch >= 0)
    np.minimum.at(first, run.batch[taken], run.began[taken])
    order = taken[np.lexsort((run.worker[taken], run.batch[taken]))]
    # The thread of a collector that was started calls again at once; the learner has the batch until the next one.
    until = np.where(run.waited, run.end, np.append(run.got[1:], whole)[: run.batches])
    ages = [
        (int(age), columns.add(run.got[run.age == age], unit), columns.add(until[run.age == age], unit))
        for age in np.unique(run.age)
    ]
    own = run.waited
    return CollectorColumns(
        first=columns.add(first, unit), begin=columns.add(run.start, unit), end=columns.add(run.end, unit),
        current=columns.add(run.current), age=columns.add(run.age),
        waited=columns.add(np.where(own, run.got - run.start, 0.0), unit),
        parts=(columns.add(run.batch[order]), columns.add(run.worker[order]), columns.add(run.version[order])),
        learns=(columns.add(run.learns[0], unit), columns.add(run.learns[1], unit)),
        takes=(columns.add(run.got[own], unit), columns.add(run.stop[own], unit)), ages=tuple(ages),
        held=(columns.add(run.got, unit), columns.add(until, unit)),
        lanes=tuple(_lane_columns(run, worker, columns, unit) for worker in range(run.workers)),
    )  # fmt: skip


def _lane_columns(run: CollectorRun, worker: int, columns: Columns, unit: float) -> LaneColumns:
    mine = np.flatnonzero(run.worker[: run.drawn] == worker)
    good, bad = mine[run.version[mine] >= 0], mine[run.version[mine] < 0]
    since = [run.unfinished[worker]] if worker in run.unfinished else []
    return LaneColumns(
        began=columns.add(run.began[good], unit),
        collected=columns.add(run.collected[good], unit),
        written=columns.add(run.written[good], unit),
        version=columns.add(run.version[good]),
        lost=(columns.add(run.began[bad], unit), columns.add(run.written[bad], unit)),
        unfinished=(columns.add(np.array(since), unit), columns.add(np.full(len(since), run.seconds * 1e6), unit)),
    )


class CollectorScene:
    """The display lists of a model of collectors, and the columns that they share."""

    def __init__(self, model: CollectorsModel) -> None:
        self.model = model
        self.columns = Columns()
        self.runs = [run for run in model.runs if len(run.worker) or run.unfinished or run.batches]
        self.of_run = [collector_columns(run, self.columns) for run in self.runs]
        self.whole = max((run.seconds * 1e6 for run in self.runs), default=1.0) or 1.0

    def params(self, t: int) -> dict[str, float]:
        """Return the parameters at a batch: where it lies in each run, and how much time the detail shows."""
        arrays = self.columns.arrays
        return detail_params(t, [(arrays[kept.first], arrays[kept.end]) for kept in self.of_run])

    def heading(self, t: int) -> str:
        """Return the heading of the detail."""
        return f"Batch {t}, from its first step on; below each batch the version of the weights that made it:"

    def summary(self) -> Display:
        """Draw frames per second of each run, and how the time of its workers and of the learner divides."""
        display = Display(_BLOCK * len(self.runs), self.columns)
        for i, run in enumerate(self.runs):
            y = _BLOCK * i
            display.text(0, y + 13, run.label, bold=True, size=12, within=140)
            display.text(146, y + 13, frames_rate_text(run), size=12)
            with display.frame(0, RIGHT):
                work = f"{run.at_work:.2g} of {plural(run.workers, 'worker')} at work"
                words = f"{duration(1e6 * run.seconds)}, {work}"
                display.text(1, y + 13, words, fill="muted", size=10, anchor="end", within=270)
            bars = (
                ("workers", "a worker", run.shares, WORKER_PHASES, WORKER_ROLES),
                ("learner", "the learner", run.learner_shares, LEARNER_PHASES, LEARNER_ROLES),
            )
            for row, (name, who, shares, phases, roles) in enumerate(bars):
                top = y + 19 + 18 * row
                display.text(LEFT - 8, top + 12, name, fill="muted", size=10, anchor="end")
                with display.frame(LEFT, RIGHT):
                    draw_shares(display, shares, phases, roles, who, top, 16)
        return display

    def legend(self) -> list[tuple[str, str]]:
        """Return role and meaning of each colour that occurs."""
        worker = dict(zip(WORKER_PHASES, np.sum([run.shares for run in self.runs], axis=0) > 0, strict=True))
        learner = dict(zip(LEARNER_PHASES, np.sum([run.learner_shares for run in self.runs], axis=0) > 0, strict=True))
        names = [
            ("c0", "worker collects", worker["collect"]),
            ("c2", "writes, or takes, a batch", worker["write"] or learner["take"]),
            ("c4", "learner at work", learner["learn"]),
            ("panel", "waits", True),
            ("bad", "batch is lost", any(run.lost for run in self.runs)),
            (_AGE_ROLE, "how many versions old the weights of the batch are", any(run.batches for run in self.runs)),
        ]
        found = [(role, words) for role, words, there in names if there]
        # A worker has two spans in a batch: it collects, and it writes.
        dense = any(crowded(2 * run.drawn // max(run.workers, 1)) for run in self.runs)
        return [*found, ("c0", CROWDED)] if dense else found

    def overview(self) -> Display:
        """Draw all batches of each run on one time scale, with the one at the playhead marked."""
        tops, height = self._rows(12, 84, ages=True)
        display = Display(height + 20, self.columns)
        ends = [top + _TITLE + self._tall(run, 12, 84) for run, top in zip(self.runs, tops, strict=True)]
        # What moves lies in groups of its own, so that the page repaints nothing else.
        for i, (top, bottom) in enumerate(zip(tops, ends, strict=True)):
            with display.shown(Param(f"has{i}")), display.frame(LEFT, RIGHT, (0, self.whole)):
                x, x2 = Param(f"from{i}"), Param(f"to{i}")
                display.rect(x, x2, top + _TITLE - 4, bottom - top - _TITLE + 6, fill="highlight", least=2, grow=1)
        for i, (run, top) in enumerate(zip(self.runs, tops, strict=True)):
            with display.frame(LEFT, RIGHT, (0, self.whole)):
                self._lanes(display, i, top, _lane(run, 12, 84), 2)
                self._ages(display, i, ends[i])
                display.hit(0, self.whole, top, ends[i] - top + _NUMBER + _AGES, name=f"run{i}")
            self._labels(display, run, top, _lane(run, 12, 84))
            display.text(LEFT - 8, ends[i] + _NUMBER + 12, "versions old", fill="muted", size=10, anchor="end")
        with display.frame(LEFT, RIGHT, (0, self.whole)):
            display.axis(height + 4, "duration")
        for i, (top, bottom) in enumerate(zip(tops, ends, strict=True)):
            with display.shown(Param(f"has{i}")), display.frame(LEFT, RIGHT, (0, self.whole)):
                x = Param(f"from{i}")
                display.line(x, top + _TITLE - 4, x, bottom + _NUMBER + _AGES, stroke="ink")
        return display

    def detail(self) -> Display:
        """Draw the batch at the playhead of each run, from its first step until the learner has learned from it."""
        tops, height = self._rows(25, 150, ages=False)
        display = Display(height + 20, self.columns)
        for i, (run, top) in enumerate(zip(self.runs, tops, strict=True)):
            begin, lane = Param(f"from{i}"), _lane(run, 25, 150)
            tall = self._tall(run, 25, 150)
            with (
                display.shown(Param(f"has{i}")),
                display.frame(LEFT, RIGHT, (begin, Param(f"end{i}")), clip=True),
            ):
                display.rect(begin, Param(f"to{i}"), top + _TITLE - 4, tall + 4, fill="highlight")
                self._lanes(display, i, top, lane, 12 if lane > 20 else 2)
            self._labels(display, run, top, lane, lane > 20)
        with display.frame(LEFT, RIGHT, (0, Param("span"))):
            display.axis(height + 4, "duration")
        return display

    def resets(self) -> None:
        """Return nothing: a collector has no masks."""

    def failure(self, run: CollectorRun) -> Display:
        """Write how a worker failed, for the static view."""
        assert run.failure is not None
        return failure_display(run.label, run.failure, self.columns, "batch", "batches")

    def _rows(self, tall: float, most: float, ages: bool) -> tuple[list[float], float]:
        """Return the top of each run, and the height of all."""
        tops, y = [], 0.0
        for run in self.runs:
            tops.append(y)
            y += _TITLE + self._tall(run, tall, most) + (_NUMBER + _AGES if ages else 0) + _GAP
        return tops, y

    @staticmethod
    def _tall(run: CollectorRun, tall: float, most: float) -> float:
        return _LEARNER + 3 + _lane(run, tall, most) * run.workers

    def _lanes(self, display: Display, i: int, top: float, lane: float, below: float) -> None:
        """Draw the lanes of learner and workers, with ``below`` pixels below each, in a frame of microseconds."""
        run, kept = self.runs[i], self.of_run[i]
        y, whole = top + _TITLE, self.runs[i].seconds * 1e6
        display.rect(0.0, whole, y, _LEARNER, fill="panel")
        display.spans([(*kept.learns, "c4"), (*kept.takes, "c2")], y, _LEARNER, least=0.6)
        height = max(lane - (below if lane > 4 else 0), 1)
        for worker, parts in enumerate(kept.lanes):
            y = top + _TITLE + _LEARNER + 3 + worker * lane
            display.rect(0.0, whole, y, height, fill="panel")
            series = [(parts.began, parts.collected, "c0"), (*parts.unfinished, "c0")]
            series += [(parts.collected, parts.written, "c2"), (*parts.lost, "bad")]
            display.spans(series, y, height, least=0.6, gap=1)
            if below > 4:
                display.labels(
                    parts.began, parts.written, y + height + 10, size=10, values=parts.version, anchor="middle"
                )
            if run.failure and (not run.failure.workers or worker in run.failure.workers):
                display.glyph(whole, y + height / 2, "cross", size=min(height, 8), fill="bad", width=2)

    def _ages(self, display: Display, i: int, top: float) -> None:
        """Draw how old the weights of each batch are, while the learner has it."""
        kept, most = self.of_run[i], max(self.model.oldest, 1)
        y = top + _NUMBER
        display.rect(0.0, self.runs[i].seconds * 1e6, y, _AGES, fill="panel")
        for age, start, stop in kept.ages:
            tall = max(_AGES * age / most, 1.5)
            display.spans([(start, stop, _AGE_ROLE)], y + _AGES - tall, tall, least=0.6, gap=1)
        display.labels(*kept.held, y - 1, size=10, values=kept.age, anchor="middle")

    @staticmethod
    def _labels(display: Display, run: CollectorRun, top: float, lane: float, versions: bool = False) -> None:
        name = "" if run.label == run.name else f" ({run.name})"
        display.text(0, top + 12, shorten(run.label, 60) + name, bold=True, size=12)
        display.text(LEFT - 8, top + _TITLE + 9, "learner", fill="muted", size=10, anchor="end")
        for worker in range(0, run.workers, max(1, math.ceil(11 / lane))):
            failed = run.failure is not None and worker in run.failure.workers
            middle = top + _TITLE + _LEARNER + 3 + worker * lane + min(max(lane - 2, 10), 13) / 2 + 3.5
            words = f"worker {worker}" if run.in_processes else "env"
            display.text(LEFT - 8, middle, words, fill="bad" if failed else "muted", size=10, anchor="end")
            if versions:
                below = top + _TITLE + _LEARNER + 3 + (worker + 1) * lane - 2
                display.text(LEFT - 8, below, "version", fill="muted", size=10, anchor="end")


def _lane(run: CollectorRun, tall: float, most: float) -> float:
    return min(max(most / run.workers, 2.0), tall)
