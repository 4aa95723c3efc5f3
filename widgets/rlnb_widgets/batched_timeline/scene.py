"""Display lists of the timeline of batched envs: rates and shares, and resets; all steps and one of them are lanes."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.display import Columns, Display, Legend, Param, Sign
from rlnb_widgets._core.text import duration, plural, shorten
from rlnb_widgets.batched_timeline.lanes import (
    CROWDED,
    LEFT,
    RIGHT,
    UNIT,
    WAITS,
    WAITS_SIGN,
    LaneScene,
    RunLanes,
    Sizes,
    WorkerLane,
    bar_height,
    crowded,
    draw_shares,
)
from rlnb_widgets.batched_timeline.model import PHASES, BatchRun, TimelineModel
from rlnb_widgets.batched_timeline.text import rate_text

#: Colour role of each activity; the line below a lane stays visible where an env waits.
ROLES = {"step": "c0", "reset": "c1", "write": "c2", "wait": WAITS, "learner": "c4"}
#: The same in the shares of an env's time, where what the learner does is time that the env waits.
SHARE_ROLES = {**ROLES, "learner": WAITS}


def run_lanes(run: BatchRun, columns: Columns) -> RunLanes:
    """Put the times of the drawn turns of a run into columns."""
    drawn, unit = run.drawn, max(UNIT, run.seconds * 1e6 / 2**31)
    start, stop, reset, step_of = (a[:drawn] for a in (run.start, run.stop, run.is_reset, run.step_of))
    own = np.flatnonzero(~reset)
    # A step begins with the resets before it, and ends where the next one begins.
    begin = start[np.searchsorted(step_of, np.arange(len(own)))]
    end = np.append(begin[1:], stop[-1:]) if len(own) else begin
    failure, whole = run.failure, drawn == run.turns
    lanes, moments = [], []
    for env in range(run.envs):
        times = [start + part[:drawn, env] for part in (run.told, run.acted, run.written)]
        taken = ~np.isnan(times[0])
        of_step, of_reset = ([columns.add(a[taken & rows], unit) for a in times] for rows in (~reset, reset))
        spans = [(told, acted, ROLES[name]) for name, (told, acted, _) in (("step", of_step), ("reset", of_reset))]
        spans += [(acted, written, ROLES["write"]) for _, acted, written in (of_step, of_reset)]
        failed = failure is not None and env in failure.workers
        cross = failure is not None and (failed or not failure.workers) and whole
        lanes.append(WorkerLane(f"env {env}", spans, failed, cross))
        moments.append([*of_step, *of_reset])
    page = {
        "label": shorten(run.label, 40),
        "envs": run.envs,
        "processes": run.in_processes,
        "entries": {name: list(keys) for name, keys in run.entries.items()},
        "failed": [list(failure.workers), failure.step] if failure else None,
        "begin": columns.add(begin, unit),
        "end": columns.add(end, unit),
        "made": columns.add(start[own], unit),
        "resets": columns.add(np.flatnonzero(run.mask.any(1))),
        "lanes": moments,
    }
    learner = [(columns.add(stop[:-1], unit), columns.add(start[1:], unit), ROLES["learner"])]
    return RunLanes(run.label, run.name, float(stop[-1]), page, "begin", learner, tuple(lanes))


class TimelineScene(LaneScene):
    """The display lists of a model, and the columns that they share."""

    unit = ("step", "steps")
    sizes = Sizes(learner=8, gap=10, name=14, overview=(12, 96), detail=(16, 128), between=None)
    cuts = True

    def __init__(self, model: TimelineModel) -> None:
        self.model, columns = model, Columns()
        self.runs = [run for run in model.runs if run.turns]
        super().__init__(columns, [run_lanes(run, columns) for run in self.runs])

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
                with display.shown(Param("wide")):
                    display.text(1, y + 13, words, fill="muted", size=10, anchor="end", within=270)
                draw_shares(display, run.shares, PHASES, SHARE_ROLES, "an env", y + 19, 18)
        return display

    def legend(self) -> Legend:
        """Return mark and meaning of each activity that occurs."""
        shares = np.sum([run.shares for run in self.runs], axis=0)
        occurs = {phase: bool(share > 0) for phase, share in zip(PHASES, shares.tolist(), strict=True)}
        names = {"step": "env runs its step", "reset": "env runs its reset", "write": "env writes its row"}
        names |= {"learner": "learner at work", "wait": "env waits"}
        occurs["wait"] |= occurs["learner"]
        marks: dict[str, Sign | str] = {**ROLES, "wait": WAITS_SIGN}
        found = [(marks[phase], words) for phase, words in names.items() if occurs[phase]]
        # An env has two spans in a turn: it acts, and it writes.
        return [*found, (ROLES["step"], CROWDED)] if any(crowded(2 * run.drawn) for run in self.runs) else found

    def resets(self) -> Display | None:
        """Draw which envs were reset after which step; None if none was."""
        shown = list(zip(self.runs, self.of_run, strict=True))[: 1 if self.model.same_resets else None]
        masked = [(run, kept, kept.lane((12, 72))) for run, kept in shown if run.mask.any()]
        if not masked:
            return None
        display = Display(sum(20 + lane * run.envs for run, _, lane in masked) + 20, self.columns)
        y = 0.0
        for run, kept, lane in masked:
            whose = "" if self.model.same_resets else f", {run.label}"
            display.text(0, y + 12, f"_reset after each step{whose}", size=12)
            y += 18
            tall = bar_height(lane)
            with display.frame(LEFT, RIGHT, (0, self.model.length)):
                display.rect(0, run.steps, y, lane * (run.envs - 1) + tall, fill="panel")
                for env in range(run.envs):
                    at = np.flatnonzero(run.mask[:, env])
                    if len(at):
                        display.spans([(at, at + 1, "c1")], y + env * lane, tall, least=1, gap=1)
                display.hit(0, self.model.length, y - 2, lane * run.envs + 2, name="steps")
                display.rect(Param("t"), Param("t", 1), y - 2, lane * run.envs + 2, stroke="ink", least=1.5)
            self.draw_lane_names(display, kept, y, lane)
            y += lane * run.envs + 2
        with display.frame(LEFT, RIGHT, (0, self.model.length)):
            display.axis(y + 4, "count", integer=True)
        return display
