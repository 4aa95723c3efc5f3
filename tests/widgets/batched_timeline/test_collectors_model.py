"""Traces of collectors become arrays, ages and shares, by value and compared with a microsecond count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets.batched_timeline import collector_run, collectors_model, failure_of
from rlnb_widgets.batched_timeline.collector_model import LEARNER_PHASES, MOST_PARTS, WORKER_PHASES
from rlnb_widgets.batched_timeline.collector_scene import CollectorScene

from rlnb.collectors.trace import CollectorTrace
from tests.widgets.batched_timeline.collector_traces import async_trace, killed_trace, sync_trace, trace_of


def in_microseconds(run):
    whole = run.seconds * 1e6
    workers = dict(zip(WORKER_PHASES, np.round(run.shares * whole * run.workers, 6).tolist(), strict=True))
    learner = dict(zip(LEARNER_PHASES, np.round(run.learner_shares * whole, 6).tolist(), strict=True))
    return workers, learner


def test_sync_workers_wait_for_the_slowest_and_for_the_learner():
    run = collector_run("a", sync_trace())
    assert (run.name, run.workers, run.batches, run.frames, run.updates) == ("MultiSyncCollector", 2, 2, 40, 2)
    workers, learner = in_microseconds(run)
    # Of 840: 2 x (40 + 80) collecting, 4 x 10 writing, 2 x 40 for the slow one, and the rest for the learner.
    assert workers == {"collect": 240, "write": 40, "wait": 80, "learner": 480}
    # Of 420: 105 in each call until the batch is there, 5 after it.
    assert learner == {"learn": 200, "take": 10, "wait": 210}
    assert run.age.tolist() == [0, 0] and run.current.tolist() == [0, 1]
    assert run.rate == pytest.approx(40 / 420e-6) and run.at_work == pytest.approx(240 / 420)
    assert [run.parts_of(batch) for batch in range(2)] == [[0, 1], [2, 3]]


def test_async_batches_age_and_no_worker_waits_for_another():
    run = collector_run("a", async_trace())
    assert run.age.tolist() == [0, 1, 2] and run.current.tolist() == [0, 1, 2]
    workers, learner = in_microseconds(run)
    # 80 + 120 + 90 collecting, and 140 + 70 at the end of what was not finished.
    assert workers == {"collect": 500, "write": 30, "wait": 0, "learner": 70}
    assert learner == {"learn": 170, "take": 15, "wait": 115}
    assert run.unfinished == {1: 160, 0: 230} and run.lost == 0
    model = collectors_model([run])
    assert (model.length, model.opening, model.oldest) == (3, 1, 2)


def test_what_a_killed_worker_began_is_lost():
    run = collector_run("a", killed_trace(), failure=failure_of(RuntimeError("no"), step=1))
    assert run.batch.tolist() == [0, 0, -1, -1] and run.lost == 1 and run.batches == 1
    workers, learner = in_microseconds(run)
    assert workers == {"collect": 190, "write": 30, "wait": 0, "learner": 180}
    assert learner == {"learn": 60, "take": 5, "wait": 135}, "the call that failed was waiting, too"
    assert [part.tolist() for part in run.learns] == [[0, 60, 175], [0, 95, 200]]
    assert run.end.tolist() == [95], "the learner had its last batch until it asked for another one"
    assert collectors_model([run]).opening == 0


def test_what_was_begun_before_the_trace_is_cut():
    trace = trace_of("AsyncCollector", 1, 100, [(20, 30, 40)], [(0, (-50, 10, 20), 3, 0, 5)])
    run = collector_run("a", trace)
    assert (run.began.tolist(), run.collected.tolist()) == ([0], [10]) and run.age.tolist() == [2]
    assert in_microseconds(run)[0] == {"collect": 10, "write": 10, "wait": 0, "learner": 80}


@st.composite
def schedules(draw):
    """Workers that collect one batch after another, each taken by a call of its own."""
    workers, parts, n = draw(st.integers(1, 3)), [], draw(st.integers(1, 6))
    free, learner, calls, version = [0] * 3, 0, [], 0
    small = st.integers(0, 9)
    for call in range(n):
        worker = draw(st.integers(0, workers - 1))
        began = free[worker] + draw(small)
        collected = began + draw(small)
        written = collected + draw(small)
        start = learner + draw(small)
        got = max(start, written) + draw(small)
        stop = got + draw(small)
        parts.append((worker, (began, collected, written), draw(st.integers(0, version)), call, version))
        calls.append((start, got, stop))
        free[worker], learner, version = got, stop, version + draw(st.integers(0, 2))
    return workers, learner + draw(st.integers(1, 9)), calls, parts


@given(schedules())
def test_shares_are_what_a_count_of_microseconds_finds(schedule):
    workers, whole, calls, parts = schedule
    run = collector_run("a", trace_of("MultiAsyncCollector", workers, whole, calls, parts))
    counted = dict.fromkeys(WORKER_PHASES, 0)
    for worker in range(workers):
        for tick in range(whole):
            doing = "learner"
            for who, (began, collected, written), *_ in parts:
                if who == worker and began <= tick < written:
                    doing = "collect" if tick < collected else "write"
            counted[doing] += 1
    learner = dict.fromkeys(LEARNER_PHASES, 0)
    for tick in range(whole):
        doing = "learn"
        for start, got, stop in calls:
            if start <= tick < stop:
                doing = "wait" if tick < got else "take"
        learner[doing] += 1
    assert in_microseconds(run) == (counted, learner)
    assert run.shares.sum() == pytest.approx(1) and run.learner_shares.sum() == pytest.approx(1)
    assert run.age.tolist() == [current - version for _, _, version, _, current in parts]
    assert min(run.age.tolist()) >= 0


@given(schedules())
def test_columns_hold_every_batch_once(schedule):
    workers, whole, calls, parts = schedule
    scene = CollectorScene(collectors_model([collector_run("a", trace_of("X", workers, whole, calls, parts))]))
    (kept,) = scene.of_run
    arrays = scene.columns.arrays
    found = [
        (worker, tuple(row), version)
        for worker, lane in enumerate(kept.lanes)
        for *row, version in zip(
            *(arrays[c].tolist() for c in (*lane.spans[0][:2], lane.spans[2][1], lane.numbers[2])), strict=True
        )
    ]
    assert sorted(found) == sorted(
        (worker, tuple(map(float, moments)), version) for worker, moments, version, *_ in parts
    )
    assert arrays[kept.page["parts"][0]].tolist() == list(range(len(calls)))
    oldest = max(scene.model.oldest, 1)
    ages = sorted((round(oldest * age), start) for age, starts, _ in kept.strip for start in arrays[starts].tolist())
    assert ages == sorted(
        (current - version, got) for (_, got, _), (_, _, version, _, current) in zip(calls, parts, strict=True)
    )
    for t in range(len(calls) + 1):
        found = scene.params(t)
        assert found["has0"] == (t < len(calls)) and found["from0"] <= found["to0"] <= whole
        if found["has0"]:
            assert found["from0"] == min(calls[t][0], parts[t][1][0]), "from its first step, or from the call"


def test_an_empty_trace_says_how_to_fill_it():
    with pytest.raises(ValueError) as error:
        collector_run("a", CollectorTrace("MultiSyncCollector", 2))
    assert str(error.value) == (
        "The trace of MultiSyncCollector is empty: no batch was collected. "
        "Fix: with collector.tracing() as trace: collector.next()."
    )


def test_what_is_drawn_is_bounded_and_what_is_counted_is_not():
    n = MOST_PARTS + 500
    calls = [(30 * i, 30 * i + 20, 30 * i + 22) for i in range(n)]
    parts = [(0, (30 * i, 30 * i + 10, 30 * i + 15), i, i, i) for i in range(n)]
    run = collector_run("long", trace_of("AsyncCollector", 1, 30 * n, calls, parts))
    assert run.frames == 10 * n and run.drawn == MOST_PARTS
    assert collectors_model([run]).notes == (
        "long: the first 20,000 batches of workers of 20,500 are drawn; rates and shares are over all.",
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Worker 1 of 2 failed in batch 3: ValueError: no\n\nIn the worker:\nValueError: no", "batch 3"),
        ("Worker 1 of 2 was ended by SIGKILL, in the middle of batch 12. All workers were ended;", "batch 12"),
        ("Worker 1 of 2 did not finish batch 1 within 5 s. All workers were ended;", "batch 1"),
    ],
)
def test_the_errors_of_collectors_are_read(text, what):
    found = failure_of(RuntimeError(text))
    assert (found.workers, found.what, found.of) == ((1,), what, 2)
