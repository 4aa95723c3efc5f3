"""Conversion of traces of collectors to arrays: who collects, who waits, and how old the weights of a batch are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlnb_widgets._core.text import plural
from rlnb_widgets.batched_timeline.failure import Failure

#: What a worker's time divides into, in the order of the shares, and what each means.
WORKER_PHASES: dict[str, str] = {
    "collect": "collects",
    "write": "writes its batch",
    "wait": "waits for the other workers",
    "learner": "waits for the learner",
}
#: What the learner's time divides into, likewise.
LEARNER_PHASES: dict[str, str] = {
    "learn": "learns",
    "take": "takes the batch",
    "wait": "waits for a batch",
}

#: The most batches of single workers that are drawn; rates and shares cover all of them.
MOST_PARTS = 20_000


@dataclass(frozen=True, eq=False)
class CollectorRun:
    """One collector, measured. Times are microseconds since the trace began."""

    label: str  #: label of the run
    name: str  #: name of its class
    workers: int  #: number of workers
    seconds: float  #: duration of the trace
    start: np.ndarray  #: when a call of ``next`` began, ``[batches]``
    got: np.ndarray  #: when the batches of the workers were there, likewise
    stop: np.ndarray  #: when it returned, likewise
    end: np.ndarray  #: when the next call began, also one that failed, or the trace ended, likewise
    learns: tuple[np.ndarray, np.ndarray]  #: start and stop of the learner's time outside of ``next``
    waited: np.ndarray  #: whether the learner made the call, not the thread of a collector that was started, likewise
    current: np.ndarray  #: version of the learner's weights when it got the batch, likewise
    age: np.ndarray  #: how many versions older the weights are that made the batch, at most over its workers, likewise
    worker: np.ndarray  #: worker of a part, the batch of one worker, ``[parts]``
    began: np.ndarray  #: when it began to collect, likewise
    collected: np.ndarray  #: when it had taken the last step, likewise
    written: np.ndarray  #: when its data was written, likewise
    version: np.ndarray  #: version of the weights that made it, likewise; -1: it failed
    batch: np.ndarray  #: batch that it is a part of, likewise; -1: it was lost, or not taken yet
    unfinished: dict[int, float]  #: workers that had not answered at the end, with the time when they were told to
    updates: int  #: number of updates of the weights
    frames: int  #: number of steps that the learner got
    rate: float  #: of those per second; NaN without a batch
    at_work: float  #: mean number of workers that collect at the same time
    shares: np.ndarray  #: mean shares of a worker's time in the order of `WORKER_PHASES`; their sum is 1
    learner_shares: np.ndarray  #: shares of the learner's time in the order of `LEARNER_PHASES`; their sum is 1
    failure: Failure | None = None  #: the failure of a worker

    @property
    def batches(self) -> int:
        """Number of batches that the learner got."""
        return len(self.start)

    @property
    def lost(self) -> int:
        """Number of batches of workers that were lost: those that failed, and those whose batch was not returned."""
        return int(((self.batch < 0) & (self.version < 0)).sum())

    @property
    def drawn(self) -> int:
        """Number of parts that are drawn."""
        return min(len(self.worker), MOST_PARTS)

    @property
    def in_processes(self) -> bool:
        """Whether the workers have processes of their own."""
        return self.name != "Collector"

    def parts_of(self, batch: int) -> list[int]:
        """Return the indices of the parts of a batch, by worker."""
        return sorted(np.flatnonzero(self.batch == batch).tolist(), key=lambda i: int(self.worker[i]))


@dataclass(frozen=True, eq=False)
class CollectorsModel:
    """The data that the timeline shows of collectors."""

    runs: tuple[CollectorRun, ...]  #: the measured collectors
    length: int  #: number of batches of the longest run, at least 1
    notes: tuple[str, ...]  #: notes for the reader

    @property
    def opening(self) -> int:
        """The first batch to show: the last one before a failure, else one in the middle, when all are at work."""
        failed = [run.batches - 1 for run in self.runs if run.failure and run.batches]
        return failed[0] if failed else min(self.length - 1, self.length // 2)

    @property
    def oldest(self) -> int:
        """Greatest age of the weights of a batch."""
        return max((int(run.age.max()) for run in self.runs if run.batches), default=0)


def collector_run(label: str, trace: Any, *, failure: Failure | None = None) -> CollectorRun:
    """Convert a :class:`~rlnb.collectors.trace.CollectorTrace` to arrays.

    Raises:
        ValueError: If no batch was recorded and nothing failed.
    """
    kept = [batch for batch in trace.batches if trace.start or batch.moments[0]]
    calls = [call for call in trace.calls if call.got]
    if not calls and not kept and not trace.sent and failure is None:
        raise ValueError(
            f"The trace of {trace.name} is empty: no batch was collected. "
            "Fix: with collector.tracing() as trace: collector.next()."
        )
    whole = max(_end(trace) - trace.start, 1) / 1e3
    # Batches that were begun before the trace are cut at its start.
    began, collected, written = (
        np.clip(np.array([(batch.moments[k] - trace.start) / 1e3 for batch in kept], dtype=np.float64), 0, whole)
        for k in range(3)
    )
    index = {number: i for i, number in enumerate(n for n, call in enumerate(trace.calls) if call.got)}
    batch = np.array([index.get(one.call, -1) for one in kept], dtype=np.int64)
    version = np.array([one.version for one in kept], dtype=np.int64)
    current, age = _ages(kept, batch, len(calls))
    start, got, stop = (
        np.array([(getattr(call, name) - trace.start) / 1e3 for call in calls], dtype=np.float64)
        for name in ("start", "got", "stop")
    )
    starts = [*(call.start for call in trace.calls), trace.start + round(whole * 1e3)]
    end = [(starts[n + 1] - trace.start) / 1e3 for n, call in enumerate(trace.calls) if call.got]
    frames = sum(one.frames for one, i in zip(kept, batch.tolist(), strict=True) if i >= 0)
    unfinished = {i: max(at - trace.start, 0) / 1e3 for i, at in trace.sent.items()}
    collecting = float((collected - began).sum()) + sum(whole - at for at in unfinished.values())
    waited = np.array([call.by_learner for call in calls], dtype=bool)
    n = int(trace.num_workers)
    return CollectorRun(
        label=label, name=str(trace.name), workers=n, seconds=whole / 1e6, start=start, got=got, stop=stop,
        end=np.array(end, dtype=np.float64), learns=_learns(trace, whole), waited=waited, current=current, age=age,
        worker=np.array([one.worker for one in kept], dtype=np.int64), began=began, collected=collected,
        written=written, version=version, batch=batch, unfinished=unfinished, updates=len(trace.updates), frames=frames,
        rate=frames / whole * 1e6 if frames else float("nan"), at_work=collecting / whole,
        shares=_shares(n, whole, collecting, collected, written, batch),
        learner_shares=_learner_shares(trace, whole), failure=failure,
    )  # fmt: skip


def _end(trace: Any) -> int:
    """Return when the trace ended; of one that still runs, its last moment."""
    if trace.stop:
        return int(trace.stop)
    return max([trace.start, *(call.stop for call in trace.calls), *(max(one.moments) for one in trace.batches)])


def _ages(kept: list[Any], batch: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the version of the learner's weights at each batch, and the age of those that made it."""
    current, age = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for one, i in zip(kept, batch.tolist(), strict=True):
        if i >= 0:
            current[i] = one.current
            age[i] = max(age[i], one.current - one.version)
    return current, age


def _shares(
    n: int, whole: float, collecting: float, collected: np.ndarray, written: np.ndarray, batch: np.ndarray
) -> np.ndarray:
    """Return how the time of a worker divides, on average over the workers."""
    writing = float((written - collected).sum())
    # A worker waits for the others from the end of its part until all parts of the batch are there.
    others = 0.0
    taken = batch >= 0
    if taken.any():
        last = np.zeros(int(batch.max()) + 1)
        np.maximum.at(last, batch[taken], written[taken])
        others = float((last[batch[taken]] - written[taken]).sum())
    parts = np.array([collecting, writing, others]) / (n * whole)
    return np.clip(np.append(parts, 1.0 - parts.sum()), 0.0, 1.0)


def _learns(trace: Any, whole: float) -> tuple[np.ndarray, np.ndarray]:
    """Return start and stop of the learner's time outside of calls, also of those that failed."""
    own = [call for call in trace.calls if call.by_learner]
    starts = np.array([0.0, *((call.stop - trace.start) / 1e3 for call in own)])
    stops = np.array([*((call.start - trace.start) / 1e3 for call in own), whole])
    return starts, stops


def _learner_shares(trace: Any, whole: float) -> np.ndarray:
    """Return how the time of the learner divides."""
    own = [call for call in trace.calls if call.by_learner]
    waiting = sum((call.got or call.stop) - call.start for call in own) / 1e3 / whole
    taking = sum(call.stop - call.got for call in own if call.got) / 1e3 / whole
    return np.clip(np.array([1.0 - waiting - taking, taking, waiting]), 0.0, 1.0)


def collectors_model(runs: Sequence[CollectorRun]) -> CollectorsModel:
    """Combine one or more runs into a model."""
    notes = [
        f"{run.label}: the first {plural(run.drawn, 'batch', 'batches')} of workers of {len(run.worker):,} are drawn; "
        "rates and shares are over all."
        for run in runs
        if run.drawn < len(run.worker)
    ]
    return CollectorsModel(tuple(runs), max(1, *(run.batches for run in runs)), tuple(notes))
