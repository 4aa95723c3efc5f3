"""Traces of collectors: the times and versions that workers report, in every mode, and with workers that fail."""

from __future__ import annotations

import os
import signal
import time

import pytest

from rlnb.collectors import AsyncCollector, Collector, MultiAsyncCollector, MultiSyncCollector
from rlnb.data import LazyTensorStorage, ReplayBuffer
from rlnb.envs import GymEnv
from rlnb.envs.batched import WorkerError
from tests.collectors.multi.making import constant, shut
from tests.pairwise import sampled


class Slow(GymEnv):
    """A pendulum whose steps take some seconds, until one of them ends the process or raises."""

    def __init__(self, seconds, last=None, kill=True):
        super().__init__("Pendulum-v1")
        self.seconds, self.left, self.kill = seconds, last, kill

    def _step(self, tensordict):
        if self.left is not None:
            self.left -= 1
            if self.left < 0 and self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.left < 0:
                raise ValueError("it broke")
        time.sleep(self.seconds)
        return super()._step(tensordict)


def slow(*args, **kwargs):
    return lambda: Slow(*args, **kwargs)


def check_order(trace):
    """Everything happens in order, and a worker does one thing at a time."""
    assert trace.start <= trace.stop
    for call in trace.calls:
        assert trace.start <= call.start <= call.stop <= trace.stop and (not call.got or call.start <= call.got)
    for worker in range(trace.num_workers):
        at = 0
        for batch in (batch for batch in trace.batches if batch.worker == worker):
            assert at <= batch.sent <= batch.moments[0] <= batch.moments[1] <= batch.moments[2]
            at = batch.moments[2]
            if batch.call >= 0:
                assert at <= trace.calls[batch.call].got


@pytest.mark.parametrize("buffers", [True, False])
def test_in_sync_mode_the_fast_worker_waits_for_the_slow_one(buffers):
    envs = [slow(0.001), slow(0.006)]
    with shut(MultiSyncCollector(envs, constant(), frames_per_batch=20, use_buffers=buffers)) as collector:
        collector.next()
        with collector.tracing() as trace:
            for _ in range(3):
                collector.next()
                time.sleep(0.03)
                collector.update_policy_weights_()
        collector.next()
    assert repr(trace) == "CollectorTrace(MultiSyncCollector, num_workers=2, batches=3, updates=3)"
    check_order(trace)
    assert [
        (b.worker, b.version, b.current, b.call) for b in sorted(trace.batches, key=lambda b: (b.call, b.worker))
    ] == [(worker, call, call, call) for call in range(3) for worker in range(2)]
    ahead = []
    for call in range(3):
        fast, late = sorted((b for b in trace.batches if b.call == call), key=lambda b: b.worker)
        assert late.moments[1] - late.moments[0] >= 10 * 6e6, "ten steps of six milliseconds"
        assert fast.frames == late.frames == 10
        ahead.append(late.moments[2] - fast.moments[2])
    assert max(ahead) > 20e6, "the fast one has written long before, unless the machine let it wait"
    gaps = [b.start - a.stop for a, b in zip(trace.calls, trace.calls[1:], strict=False)]
    assert min(gaps) >= 30e6 and [version for _, version in trace.updates] == [1, 2, 3]


def test_in_async_mode_versions_age_as_the_batches_say():
    options = {"frames_per_batch": 10, "track_policy_version": True}
    with shut(MultiAsyncCollector([slow(0.002)] * 2, constant(), **options)) as collector:
        collector.next()
        collector.update_policy_weights_()
        found = []
        with collector.tracing() as trace:
            for _ in range(8):
                batch = collector.next()
                found.append((int(batch["policy_version"][0]), collector.policy_version))
                time.sleep(0.005)  # the learner, during which the worker begins its next batch
                collector.update_policy_weights_()
    check_order(trace)
    taken = sorted((b for b in trace.batches if b.call >= 0), key=lambda b: b.call)
    assert [(b.version, b.current) for b in taken] == found
    assert sum(current > version for version, current in found) > 4, "most were begun before the last update"
    assert len(trace.sent) + sum(b.call < 0 for b in trace.batches) == 2, "and two are being collected, or are ready"


def test_one_worker_collects_while_the_learner_learns():
    with shut(AsyncCollector(slow(0.002), constant(), frames_per_batch=10)) as collector:
        collector.next()
        with collector.tracing() as trace:
            for _ in range(3):
                collector.next()
                time.sleep(0.06)
    check_order(trace)
    for batch in trace.batches[1:3]:
        before = trace.calls[batch.call - 1]
        assert before.start < batch.moments[0] < trace.calls[batch.call].start, "between two calls"


def test_the_calls_of_the_thread_are_not_the_learners():
    buffer = ReplayBuffer(storage=LazyTensorStorage(1000))
    for make in (
        lambda: MultiSyncCollector([slow(0.0)] * 2, frames_per_batch=20, total_frames=100, replay_buffer=buffer),
        lambda: Collector(slow(0.0), frames_per_batch=20, total_frames=100, replay_buffer=buffer),
    ):
        with shut(make()) as collector:
            with collector.tracing() as trace:
                collector.start()
                collector._background.join()
            assert len(trace.calls) == 5 and not any(call.by_learner for call in trace.calls)
            check_order(trace)


def test_a_collector_of_this_process_is_traced_too():
    collector = Collector(slow(0.001), constant(), frames_per_batch=10)
    with collector.tracing() as trace:
        for _ in range(2):
            collector.next()
            collector.update_policy_weights_()
    collector.next()
    check_order(trace)
    assert repr(trace) == "CollectorTrace(Collector, num_workers=1, batches=2, updates=2)"
    assert [(b.version, b.current, b.frames, b.call) for b in trace.batches] == [(0, 0, 10, 0), (1, 1, 10, 1)]
    assert trace.batches[0].moments[1] - trace.batches[0].moments[0] >= 10e6
    counted = Collector(slow(0.0), constant(), frames_per_batch=10, track_policy_version=True)
    counted.increment_version()
    with counted.tracing() as trace:
        counted.next()
    assert (trace.batches[0].version, trace.version) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "kill"), sampled([MultiSyncCollector, MultiAsyncCollector], [True, False], strength=1)
)
def test_what_a_worker_that_fails_has_begun_is_kept_as_lost(kind, kill):
    envs = [slow(0.001), slow(0.001, last=25, kill=kill)]
    frames = 20 if kind is MultiSyncCollector else 10
    named = pytest.raises(WorkerError, match="Worker 1 of 2")
    with shut(kind(envs, frames_per_batch=frames)) as collector, collector.tracing() as trace, named:
        for _ in range(10_000):  # a busy system may let one worker run for long
            collector.next()
    check_order(trace)
    lost = [batch for batch in trace.batches if batch.version < 0]
    assert 1 in {batch.worker for batch in lost} and all(batch.frames == 0 and batch.call == -1 for batch in lost)
    assert trace.calls[-1].got == 0 and all(call.got for call in trace.calls[:-1])
    assert sum(b.worker == 1 and b.call >= 0 for b in trace.batches) == 2


def test_a_batch_that_the_learner_could_not_take_belongs_to_no_call():
    def once(batch):
        if not failed:
            failed.append(1)
            raise OSError("once")
        return batch

    failed = []
    options = {"frames_per_batch": 20, "postproc": once}
    with shut(MultiSyncCollector([slow(0.0)] * 2, **options)) as collector, collector.tracing() as trace:
        with pytest.raises(OSError, match="once"):
            collector.next()
        collector.next()
    assert [batch.call for batch in trace.batches] == [-1, -1, 1, 1]
    assert [call.got > 0 for call in trace.calls] == [False, True]
