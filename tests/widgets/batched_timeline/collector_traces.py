"""Handmade traces of collectors, with times that are easy to add up."""

from __future__ import annotations

from rlnb.collectors.trace import Call, CollectorTrace, WorkerBatch

ORIGIN = 7_000_000


def at(us):
    return ORIGIN + 1000 * us


def trace_of(name, workers, whole, calls, parts, updates=(), sent=None):
    """A trace; times in microseconds.

    ``calls``: (start, got, stop), got None if it failed. ``parts``: (worker, (began, collected, written), version,
    call, current); a version of -1 is one that failed.
    """
    return CollectorTrace(
        name,
        workers,
        start=at(0),
        stop=at(whole),
        calls=[Call(at(a), 0 if b is None else at(b), at(c), True) for a, b, c in calls],
        batches=[
            WorkerBatch(
                worker, at(moments[0]), tuple(map(at, moments)), 0 if version < 0 else 10, version, call, current
            )
            for worker, moments, version, call, current in parts
        ],
        updates=[(at(time), version) for time, version in updates],
        sent={worker: at(time) for worker, time in (sent or {}).items()},
    )


def sync_trace():
    """Two workers, the second one slower; the learner learns for 100 µs after each of two batches."""
    parts = [
        (0, (10, 50, 60), 0, 0, 0),
        (1, (10, 90, 100), 0, 0, 0),
        (0, (220, 260, 270), 1, 1, 1),
        (1, (220, 300, 310), 1, 1, 1),
    ]
    calls = [(0, 105, 110), (210, 315, 320)]
    return trace_of("MultiSyncCollector", 2, 420, calls, parts, [(205, 1), (415, 2)])


def async_trace():
    """Two workers and a learner that takes the batches in turn; the third one is two versions old."""
    parts = [
        (0, (0, 80, 90), 0, 0, 0),
        (1, (0, 120, 130), 0, 1, 1),
        (0, (110, 200, 210), 0, 2, 2),
    ]
    calls = [(0, 95, 100), (140, 145, 150), (200, 215, 220)]
    return trace_of("MultiAsyncCollector", 2, 300, calls, parts, [(135, 1), (195, 2), (260, 3)], {1: 160, 0: 230})


def killed_trace():
    """The second worker ends in the middle of its second batch."""
    parts = [
        (0, (0, 40, 50), 0, 0, 0),
        (1, (0, 40, 50), 0, 0, 0),
        (0, (100, 140, 150), 0, -1, -1),
        (1, (100, 170, 170), -1, -1, -1),
    ]
    return trace_of("MultiSyncCollector", 2, 200, [(0, 55, 60), (95, None, 175)], parts)
