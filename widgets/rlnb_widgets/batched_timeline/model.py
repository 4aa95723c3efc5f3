"""Conversion of traces of batched envs to arrays: activities, rates, shares, and resets by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlnb_widgets._core.text import plural
from rlnb_widgets.batched_timeline.failure import Failure

#: What an env's time divides into, in the order of the shares, and what each means.
PHASES: dict[str, str] = {
    "step": "runs its step",
    "reset": "runs its reset",
    "write": "writes its row",
    "wait": "waits for the other envs and for signals",
    "learner": "waits for the learner, who chooses actions and stores data",
}

#: The most turns times envs of a run that are drawn; rates and shares cover all of them.
MOST_CELLS = 120_000


@dataclass(frozen=True, eq=False)
class BatchRun:
    """One batch, measured."""

    label: str  #: label of the run
    name: str  #: name of its class
    envs: int  #: number of envs
    steps: int  #: number of steps in the trace
    resets: int  #: number of resets in the trace
    is_reset: np.ndarray  #: whether a turn is a reset, ``[turns]``
    #: step that a turn belongs to, ``[turns]``: a reset belongs to the step before it, the first one to step 0
    step_of: np.ndarray
    start: np.ndarray  #: start of a turn, in microseconds since the start of the first one, ``[turns]``
    stop: np.ndarray  #: time at which a turn had all results, likewise
    #: time at which an env got its command, in microseconds since the turn began, ``[turns, envs]``; NaN if it got none
    told: np.ndarray
    acted: np.ndarray  #: time at which it had stepped or been reset, likewise
    written: np.ndarray  #: time at which its row was written, likewise
    seconds: float  #: duration of all turns, with the learner's time between them
    rate: float  #: steps of single envs per second; NaN without a step
    at_work: float  #: mean number of envs that work at the same time
    shares: np.ndarray  #: mean shares of an env's time in the order of `PHASES`; their sum is 1
    mask: np.ndarray  #: which envs were reset after a step, ``[steps, envs]``
    first: np.ndarray  #: which envs took part in the reset before the first step, ``[envs]``
    #: keys of the data by who writes them, if they are known
    entries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failure: Failure | None = None  #: the failure of a worker
    drawn: int = 0  #: number of turns that are drawn

    @property
    def turns(self) -> int:
        """Number of turns."""
        return len(self.start)

    @property
    def in_processes(self) -> bool:
        """Whether each env has a process of its own."""
        return self.name == "ParallelEnv"


@dataclass(frozen=True, eq=False)
class TimelineModel:
    """The data that the timeline shows."""

    runs: tuple[BatchRun, ...]  #: the measured batches
    length: int  #: number of steps of the longest run, at least 1
    same_resets: bool  #: whether all runs reset the same envs after the same steps
    notes: tuple[str, ...]  #: notes for the reader

    @property
    def opening(self) -> int:
        """The first step to show: the last one before a failure, else the first one before a reset, else 0."""
        failed = [run.steps - 1 for run in self.runs if run.failure and run.steps]
        if failed:
            return failed[0]
        found = [int(np.flatnonzero(run.mask.any(1))[0]) for run in self.runs if run.mask.any()]
        return min(found, default=0)


def batch_run(
    label: str, trace: Any, *, failure: Failure | None = None, entries: Mapping[str, Sequence[str]] | None = None
) -> BatchRun:
    """Convert a :class:`~rlnb.envs.batched.trace.BatchTrace` to arrays.

    Raises:
        ValueError: If nothing was noted and nothing failed.
    """
    turns, n = list(trace.turns), int(trace.num_workers)
    if not turns and failure is None:
        raise ValueError(
            f"The trace of {trace.name} is empty: no step and no reset was noted. "
            "Fix: with env.tracing() as trace: env.rollout(40)."
        )
    is_reset = np.array([turn.what == "reset" for turn in turns], dtype=bool)
    origin = turns[0].start if turns else 0
    start = np.array([turn.start - origin for turn in turns], dtype=np.float64) / 1e3
    stop = np.array([turn.stop - origin for turn in turns], dtype=np.float64) / 1e3
    steps_so_far = np.cumsum(~is_reset)
    told, acted, written = _moments(turns, n)
    steps = int(steps_so_far[-1]) if turns else 0
    step_of = np.maximum(steps_so_far - 1, 0)
    mask, first = _resets(turns, step_of, steps_so_far, steps, n)
    whole = float(stop[-1]) if turns else 0.0
    busy = np.nan_to_num(written - told)
    return BatchRun(
        label=label, name=str(trace.name), envs=n, steps=steps, resets=int(is_reset.sum()), is_reset=is_reset,
        step_of=step_of, start=start, stop=stop, told=told, acted=acted, written=written, seconds=whole / 1e6,
        rate=steps * n / whole * 1e6 if whole and steps else float("nan"),
        at_work=float(busy.sum()) / whole if whole else float("nan"),
        shares=_shares(is_reset, start, stop, told, acted, written), mask=mask, first=first,
        entries=dict(entries or {}), failure=failure, drawn=min(len(turns), max(MOST_CELLS // n, 1)),
    )  # fmt: skip


def _moments(turns: list[Any], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when envs got a command, had acted and had written: microseconds since the turn began, ``[turns, n]``."""
    found = np.full((3, len(turns), n), np.nan)
    for row, turn in enumerate(turns):
        which = list(turn.which)
        moments = np.asarray(turn.moments)[which].astype(np.int64)
        acted = moments[:, 2 if turn.what == "reset" else 1]
        parts = np.stack([moments[:, 0], acted, moments[:, 3]])
        # A time that was not recorded is 0; the turn is then shown as waiting.
        since = np.where((parts > 0).all(0), parts - turn.start, 0) / 1e3
        found[:, row, which] = np.maximum.accumulate(since, axis=0)
    return found[0], found[1], found[2]


def _resets(
    turns: list[Any], step_of: np.ndarray, steps_so_far: np.ndarray, steps: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    mask, first = np.zeros((steps, n), dtype=bool), np.zeros(n, dtype=bool)
    for row, turn in enumerate(turns):
        if turn.what == "reset":
            (first if steps_so_far[row] == 0 else mask[step_of[row]])[list(turn.which)] = True
    return mask, first


def _shares(
    is_reset: np.ndarray, start: np.ndarray, stop: np.ndarray, told: np.ndarray, acted: np.ndarray, written: np.ndarray
) -> np.ndarray:
    """Return how the time of an env divides, on average over the envs."""
    if not len(start) or stop[-1] <= 0:
        return np.zeros(len(PHASES))
    acting = np.nan_to_num(acted - told).mean(1)
    writing = float(np.nan_to_num(written - acted).mean(1).sum())
    stepping, resetting = float(acting[~is_reset].sum()), float(acting[is_reset].sum())
    in_turns = float((stop - start).sum())
    parts = [stepping, resetting, writing, in_turns - stepping - resetting - writing, stop[-1] - in_turns]
    return np.clip(np.array(parts) / stop[-1], 0.0, 1.0)


def timeline_model(runs: Sequence[BatchRun]) -> TimelineModel:
    """Combine one or more runs into a model."""
    first = runs[0]
    same = all(run.mask.shape == first.mask.shape and bool((run.mask == first.mask).all()) for run in runs)
    notes = [
        f"{run.label}: the first {plural(run.drawn, 'turn')} of {run.turns:,} are drawn; rates and shares are over all."
        for run in runs
        if run.drawn < run.turns
    ]
    if not same:
        notes.append("The runs reset different envs, so that their steps are not the same work.")
    return TimelineModel(tuple(runs), max(1, *(run.steps for run in runs)), same, tuple(notes))
