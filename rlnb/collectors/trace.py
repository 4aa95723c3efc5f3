"""Measured trace of a collector: when its workers collect, when the learner waits, and which weights made a batch."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

#: Actions of a worker whose times it reports with each batch: it begins, has taken the last step, has written the data.
MOMENTS = ("began", "collected", "written")


class BatchAnswer(Protocol):
    """What a worker says about a batch; see :class:`~rlnb.collectors.worker.Collected`."""

    @property
    def frames(self) -> int:
        """Number of steps."""

    @property
    def version(self) -> int:
        """Version of the weights that made it."""

    @property
    def moments(self) -> tuple[int, ...]:
        """Times of :data:`MOMENTS`; empty for a worker on another machine, whose clock is another one."""


@dataclass
class WorkerBatch:
    """The batch of one worker. Times are nanoseconds of ``time.perf_counter_ns``, which all processes share."""

    worker: int
    sent: int  # when it was told to collect
    moments: tuple[int, ...]  # times of MOMENTS
    frames: int
    version: int  # of the weights that made it
    call: int = -1  # index of the call that took it; -1: none did, and with 0 frames: it failed
    current: int = -1  # version of the learner's weights when it was taken


@dataclass(frozen=True)
class Call:
    """A call of ``next``."""

    start: int
    got: int  # when the batches of the workers were there
    stop: int
    by_learner: bool  # not by the thread of a collector that was started


@dataclass
class CollectorTrace:
    """What the workers and the learner of a collector (``name`` is its class) did, as recorded by ``tracing()``.

    Attributes:
        start: when recording began.
        stop: when it ended; 0 until then.
        batches: batches of single workers, in the order in which they arrived.
        calls: calls of ``next`` in order.
        updates: when the weights were updated, and their version since then.
        sent: workers that have not answered, with the time at which they were told to collect.

    Example:
        >>> CollectorTrace("MultiSyncCollector", num_workers=2)
        CollectorTrace(MultiSyncCollector, num_workers=2, batches=0, updates=0)
    """

    name: str
    num_workers: int
    version: int = 0  # of the learner's weights; at the end that of the last update
    start: int = 0
    stop: int = 0
    batches: list[WorkerBatch] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    updates: list[tuple[int, int]] = field(default_factory=list)
    sent: dict[int, int] = field(default_factory=dict)
    _ready: dict[int, WorkerBatch] = field(default_factory=dict, repr=False)
    _got: tuple[int, list[WorkerBatch]] = field(default=(0, []), repr=False)

    def __repr__(self) -> str:
        taken = sum(call.got > 0 for call in self.calls)
        counts = f"num_workers={self.num_workers}, batches={taken}, updates={len(self.updates)}"
        return f"CollectorTrace({self.name}, {counts})"

    @contextlib.contextmanager
    def running(self) -> Iterator[CollectorTrace]:
        """Record from the start of the block to its end."""
        self.start = time.perf_counter_ns()
        try:
            yield self
        finally:
            self.stop = time.perf_counter_ns()

    def note_sent(self, workers: Iterable[int]) -> None:
        """Record that workers are told to collect."""
        self.sent.update(dict.fromkeys(workers, time.perf_counter_ns()))

    def note_answer(self, worker: int, answer: BatchAnswer) -> None:
        """Record the batch of a worker."""
        now = time.perf_counter_ns()
        sent = self.sent.pop(worker, answer.moments[0] if answer.moments else now)
        moments = answer.moments or (sent, now, now)
        batch = WorkerBatch(worker, min(sent, moments[0]), moments, answer.frames, answer.version)
        self._ready[worker] = batch
        self.batches.append(batch)

    def note_own_batch(self, began: int, frames: int) -> None:
        """Record a batch that was collected in this process, and is there."""
        now = time.perf_counter_ns()
        batch = self._ready[0] = WorkerBatch(0, began, (began, now, now), frames, self.version)
        self.batches.append(batch)
        self.note_got({0: None})

    def note_failures(self, workers: Iterable[int]) -> None:
        """Record that workers will not answer."""
        now = time.perf_counter_ns()
        for i in set(workers) & self.sent.keys():
            sent = self.sent.pop(i)
            self.batches.append(WorkerBatch(i, sent, (sent, now, now), 0, -1))

    def note_got(self, answers: Mapping[int, Any]) -> None:
        """Record that the batches of a call are there."""
        taken = [batch for i in answers if (batch := self._ready.pop(i, None)) is not None]
        for batch in taken:
            batch.current = self.version
        self._got = time.perf_counter_ns(), taken

    def note_update(self, version: int | None) -> None:
        """Record an update of the weights. None: to the next version."""
        self.version = self.version + 1 if version is None else version
        self.updates.append((time.perf_counter_ns(), self.version))

    @contextlib.contextmanager
    def _calling(self, by_learner: bool) -> Iterator[None]:
        start, self._got = time.perf_counter_ns(), (0, [])
        complete = False
        try:
            yield
            complete = True
        finally:
            got, batches = self._got
            if complete:
                for batch in batches:
                    batch.call = len(self.calls)
            self.calls.append(Call(start, got if complete else 0, time.perf_counter_ns(), by_learner))


def calling(trace: CollectorTrace | None, by_learner: bool) -> contextlib.AbstractContextManager[None]:
    """Record a call of ``next`` in a trace, if there is one.

    Example:
        >>> trace = CollectorTrace("Collector", num_workers=1)
        >>> with calling(trace, by_learner=True):
        ...     trace.note_got({})
        >>> len(trace.calls)
        1
    """
    return contextlib.nullcontext() if trace is None else trace._calling(by_learner)
