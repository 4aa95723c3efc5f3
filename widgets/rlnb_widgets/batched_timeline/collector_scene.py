"""Display lists of the timeline of collectors: rates and shares; all batches and one of them are lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.display import Columns, Display, Legend, Param, Sign
from rlnb_widgets._core.text import duration, plural, shorten
from rlnb_widgets.batched_timeline.collector_model import (
    LEARNER_PHASES,
    WORKER_PHASES,
    CollectorRun,
    CollectorsModel,
)
from rlnb_widgets.batched_timeline.collector_text import frames_rate_text
from rlnb_widgets.batched_timeline.lanes import (
    CROWDED,
    LEFT,
    RIGHT,
    STRIP_ROLE,
    UNIT,
    WAITS,
    WAITS_SIGN,
    LaneScene,
    RunLanes,
    Sizes,
    WorkerLane,
    crowded,
    draw_shares,
)

#: Colour role of each activity; the line below a lane stays visible where somebody waits.
WORKER_ROLES = {"collect": "c0", "write": "c2", "wait": WAITS, "learner": WAITS}
LEARNER_ROLES = {"learn": "c4", "take": "c2", "wait": WAITS}
_BLOCK = 62.0  # height of a run in the summary


def collector_lanes(run: CollectorRun, oldest: int, columns: Columns) -> RunLanes:
    """Put the times of the drawn batches of a run into columns; ``oldest`` is the greatest age of all runs."""
    whole = run.seconds * 1e6
    unit = max(UNIT, whole / 2**31)
    first = run.start.copy()  # when the first worker began a batch, or ``next`` was called
    taken = np.flatnonzero(run.batch >= 0)
    np.minimum.at(first, run.batch[taken], run.began[taken])
    order = taken[np.lexsort((run.worker[taken], run.batch[taken]))]
    own = run.waited
    # The thread of a collector that was started calls again at once; the learner has the batch until the next one.
    until = np.where(own, run.end, np.append(run.got[1:], whole)[: run.batches])
    strip = [
        (
            int(age) / max(oldest, 1),
            columns.add(run.got[run.age == age], unit),
            columns.add(until[run.age == age], unit),
        )
        for age in np.unique(run.age)
    ]
    page: dict[str, Any] = {
        "label": shorten(run.label, 40),
        "workers": run.workers,
        "processes": run.in_processes,
        "first": columns.add(first, unit),
        "begin": columns.add(run.start, unit),
        "end": columns.add(run.end, unit),
        "current": columns.add(run.current),
        "age": columns.add(run.age),
        "waited": columns.add(np.where(own, run.got - run.start, 0.0), unit),
        "parts": [columns.add(part[order]) for part in (run.batch, run.worker, run.version)],
    }
    learns = columns.add(run.learns[0], unit), columns.add(run.learns[1], unit), "c4"
    takes = columns.add(run.got[own], unit), columns.add(run.stop[own], unit), "c2"
    above = columns.add(run.got, unit), columns.add(until, unit), page["age"]
    lanes = tuple(_lane(run, worker, columns, unit) for worker in range(run.workers))
    return RunLanes(run.label, run.name, whole, page, "first", [learns, takes], lanes, tuple(strip), above)


def _lane(run: CollectorRun, worker: int, columns: Columns, unit: float) -> WorkerLane:
    mine = np.flatnonzero(run.worker[: run.drawn] == worker)
    good, bad = mine[run.version[mine] >= 0], mine[run.version[mine] < 0]
    since = [run.unfinished[worker]] if worker in run.unfinished else []
    began, collected, written = (columns.add(a[good], unit) for a in (run.began, run.collected, run.written))
    version = columns.add(run.version[good])
    lost = columns.add(run.began[bad], unit), columns.add(run.written[bad], unit), "bad"
    unfinished = columns.add(np.array(since), unit), columns.add(np.full(len(since), run.seconds * 1e6), unit), "c0"
    failed = run.failure is not None and worker in run.failure.workers
    return WorkerLane(
        f"worker {worker}" if run.in_processes else "env",
        [(began, collected, "c0"), unfinished, (collected, written, "c2"), lost],
        failed,
        cross=failed or (run.failure is not None and not run.failure.workers),
        numbers=(began, written, version),
    )


class CollectorScene(LaneScene):
    """The display lists of a model of collectors, and the columns that they share."""

    unit = ("batch", "batches")
    sizes = Sizes(learner=10, gap=12, name=13, overview=(12, 84), detail=(25, 150), between=1)
    strip = "versions old"
    cuts = False

    def __init__(self, model: CollectorsModel) -> None:
        self.model, columns = model, Columns()
        self.runs = [run for run in model.runs if len(run.worker) or run.unfinished or run.batches]
        super().__init__(columns, [collector_lanes(run, model.oldest, columns) for run in self.runs])

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
                with display.shown(Param("wide")):
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

    def legend(self) -> Legend:
        """Return mark and meaning of each activity that occurs."""
        worker = dict(zip(WORKER_PHASES, np.sum([run.shares for run in self.runs], axis=0) > 0, strict=True))
        learner = dict(zip(LEARNER_PHASES, np.sum([run.learner_shares for run in self.runs], axis=0) > 0, strict=True))
        names: list[tuple[Sign | str, str, bool]] = [
            ("c0", "worker collects", worker["collect"]),
            ("c2", "writes, or takes, a batch", worker["write"] or learner["take"]),
            ("c4", "learner at work", learner["learn"]),
            (WAITS_SIGN, "waits", True),
            ("bad", "batch is lost", any(run.lost for run in self.runs)),
            (STRIP_ROLE, "how many versions old the weights of the batch are", any(run.batches for run in self.runs)),
        ]
        found = [(mark, words) for mark, words, there in names if there]
        # A worker has two spans in a batch: it collects, and it writes.
        dense = any(crowded(2 * run.drawn // max(run.workers, 1)) for run in self.runs)
        return [*found, ("c0", CROWDED)] if dense else found
