"""Views of collector timelines: text without times, SVG, descriptions, errors, and real measurements."""

from __future__ import annotations

import os
import re
import signal
import time
from xml.etree import ElementTree

import pytest
from rlnb_widgets import BatchedEnvTimeline

from rlnb.collectors import AsyncCollector, Collector, MultiAsyncCollector, MultiSyncCollector
from rlnb.envs import CartPoleEnv, GymEnv, SerialEnv
from rlnb.envs.batched import WorkerError
from tests.widgets.batched_timeline.collector_traces import async_trace, killed_trace, sync_trace, trace_of

KILLED = (
    "Worker 1 of 2 was ended by SIGKILL, in the middle of batch 2. All workers were ended; collector.next() starts new "
    "ones."
)


class Slow(GymEnv):
    """A pendulum whose steps take some seconds, until its process is killed."""

    def __init__(self, seconds, last=-1):
        super().__init__("Pendulum-v1")
        self.seconds, self.left = seconds, last

    def _step(self, tensordict):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        time.sleep(self.seconds)
        return super()._step(tensordict)


def test_the_text_of_one_trace():
    assert (
        repr(BatchedEnvTimeline(sync_trace()))
        == """\
BatchedEnvTimeline: MultiSyncCollector, 2 workers, 2 batches, 2 updates of the weights
  the times and ages, measured on this machine, are in the picture"""
    )


def test_the_text_of_two_traces_and_a_failure():
    timeline = BatchedEnvTimeline(old=async_trace(), killed=killed_trace(), error=WorkerError(KILLED))
    assert (
        repr(timeline)
        == """\
BatchedEnvTimeline: 2 runs, old and killed
  old     MultiAsyncCollector  2 workers  3 batches  3 updates of the weights
  killed  MultiSyncCollector   2 workers  1 batch    0 updates of the weights
  killed after 1 batch: Worker 1 of 2 was ended by SIGKILL, in the middle of batch 2. All workers were ended; \
collector.next() starts new ones.
  the times and ages, measured on this machine, are in the picture"""
    )


def test_the_words_have_the_numbers():
    words = BatchedEnvTimeline(sync=sync_trace(), late=async_trace()).explain()
    assert (
        "sync: MultiSyncCollector with 2 workers, 2 batches of together 40 frames. It took 420 µs, or 95,200 frames/s. "
        "On average 0.57 workers collected at the same time. Of its time a worker spends: 29% collects; 5% writes "
        "its batch; 10% waits for the other workers; 57% waits for the learner. Of its time the learner spends: 48% "
        "learns; 2% takes the batch; 50% waits for a batch. Each batch was made with the weights that the learner "
        "has when it gets it." in words
    )
    assert "When the learner gets a batch, its weights are on average 1 versions old, at most 2." in words
    assert words.endswith(
        "With late, there are 1.1 times as many frames per second as with sync. Mean age of the weights of a batch, "
        "in versions: sync 0; late 1."
    )


def classes(svg, role):
    return [e for e in ElementTree.fromstring(svg).iter() if f"f-{role}" in e.get("class", "").split()]


def boxes(svg, role):
    return sum(len(re.findall("M", element.get("d", ""))) for element in classes(svg, role))


def test_the_picture_draws_each_batch_its_age_and_what_was_lost():
    timeline = BatchedEnvTimeline(sync=sync_trace(), late=async_trace())
    svg = timeline.to_svg()
    assert timeline.t == 1
    # Of sync 4 parts, and the 2 of batch 1 again; of late 3 and 2 unfinished. The detail of its batch 1, from 0 to 200,
    # has all but the last unfinished one.
    assert boxes(svg, "c0") == 4 + 2 + 3 + 2 + 4
    assert boxes(svg, "c3") == 2 + 3, "an age for each batch"
    assert not re.search(r"\bnan\b|\binf\b", svg) and "Batch 1, from its first step on" in svg
    killed = BatchedEnvTimeline(killed_trace(), error=WorkerError(KILLED))
    assert boxes(killed.to_svg(), "bad") >= 1 and "worker 1" in killed.to_svg()
    assert ("bad", "batch is lost") in killed._scene.legend() and (
        "bad",
        "batch is lost",
    ) not in timeline._scene.legend()


def test_the_versions_stand_below_the_batches_in_detail():
    scene = BatchedEnvTimeline(async_trace())._scene
    found = [mark for mark in flat(scene.detail().marks) if mark["kind"] == "labels"]
    assert [scene.columns.arrays[mark["values"]].tolist() for mark in found] == [[0, 0], [0]]
    ages = [mark for mark in flat(scene.overview().marks) if mark["kind"] == "labels"]
    assert [scene.columns.arrays[mark["values"]].tolist() for mark in ages] == [[0, 1, 2]]


def flat(marks):
    for mark in marks:
        yield mark
        yield from flat(mark.get("marks", ()))


def test_the_picture_in_a_notebook_is_marked_as_measured():
    data, _ = BatchedEnvTimeline(sync_trace())._repr_mimebundle_()
    assert data["text/html"].startswith('<img data-measured="1" alt="BatchedEnvTimeline: MultiSyncCollector, 2 workers')


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (
            lambda: BatchedEnvTimeline(a=sync_trace(), b=SerialEnv(1, CartPoleEnv)),
            TypeError,
            "BatchedEnvTimeline compares batches of envs, or collectors, got both: envs ['b'] and collectors ['a']. "
            "Fix: one timeline for each.",
        ),
        (
            lambda: BatchedEnvTimeline(sync_trace(), policy=lambda td: td),
            TypeError,
            "policy chooses the actions of a batch of envs, and a collector has its own. "
            "Fix: Collector(env, policy, frames_per_batch=100).",
        ),
        (
            lambda: BatchedEnvTimeline(sync_trace(), learner=3),
            TypeError,
            "learner must be a function of a batch, got a int. Fix: learner=lambda batch: None.",
        ),
        (
            lambda: BatchedEnvTimeline(SerialEnv(1, CartPoleEnv), learner=print),
            TypeError,
            "learner is called with the batches of a collector, and a batch of envs has none. "
            "Fix: BatchedEnvTimeline(collector, learner=learner).",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(make, kind, says):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value) == says


def test_collectors_are_measured_with_a_learner_and_left_as_they_were():
    seen = []
    envs = [lambda: Slow(0.001), lambda: Slow(0.004)]
    sync, late = MultiSyncCollector(envs, frames_per_batch=20), MultiAsyncCollector(envs, frames_per_batch=10)
    late.shutdown()

    def learner(batch):
        seen.append(batch.shape)
        time.sleep(0.02)

    try:
        timeline = BatchedEnvTimeline(sync=sync, late=late, steps=6, learner=learner)
        assert sync.stats()["workers_alive"] == 2 and late.stats()["workers_alive"] == 0
    finally:
        sync.shutdown()
    assert seen == [(2, 10)] * 6 + [(10,)] * 6, "batches to warm up have no learner"
    one, two = timeline.model.runs
    assert (one.batches, one.updates, two.batches, two.updates) == (6, 6, 6, 6)
    assert one.age.max() == 0 and two.age.mean() > 0.5, "sync batches are fresh, async ones are not"
    phases = dict(zip(("collect", "write", "wait", "learner"), one.shares.tolist(), strict=True))
    assert phases["wait"] > 0.1, "the fast worker waits for the slow one"
    assert phases["learner"] > 0.1, "both wait for the learner"
    assert two.shares[2] == 0 and two.at_work > one.at_work
    assert one.learner_shares[0] * one.seconds >= 6 * 0.02
    ElementTree.fromstring(timeline.to_svg())


def test_collectors_of_this_process_and_policies_without_weights_are_measured():
    def policy(td):
        return td.set("action", env.action_spec.rand())

    env = GymEnv("Pendulum-v1")
    timeline = BatchedEnvTimeline(Collector(env, policy, frames_per_batch=5, trust_policy=True), steps=3)
    (run,) = timeline.model.runs
    assert (run.batches, run.updates, run.workers, run.age.tolist()) == (3, 3, 1, [0, 0, 0])
    assert repr(timeline).startswith("BatchedEnvTimeline: Collector, 1 worker, 3 batches, 3 updates")


def test_a_worker_killed_in_the_middle_is_drawn_and_named():
    envs = [lambda: Slow(0.001), lambda: Slow(0.001, last=55)]
    collector = MultiSyncCollector(envs, frames_per_batch=20)
    timeline = BatchedEnvTimeline(collector)
    (run,) = timeline.model.runs
    assert run.failure.workers == (1,) and run.failure.what == "batch 6" and run.failure.of == 2
    assert run.batches == run.failure.step == 2, "after three to warm up"
    assert run.lost >= 1 and 1 in run.worker[run.version < 0]
    assert "after 2 batches: Worker 1 of 2 was ended by SIGKILL" in repr(timeline)
    svg = timeline.to_svg()
    assert "Worker 1 of 2 was ended by SIGKILL" in svg and boxes(svg, "bad") >= 1
    collector.shutdown()


def test_a_worker_that_fails_at_once_is_named_without_a_picture_of_batches():
    collector = AsyncCollector(lambda: Slow(0.001, last=3), frames_per_batch=20)
    timeline = BatchedEnvTimeline(collector)
    assert timeline.model.runs[0].failure.workers == (0,) and "after 0 batches: Worker 0 of 1" in repr(timeline)
    ElementTree.fromstring(timeline.to_svg())
    collector.shutdown()


def test_names_and_errors_are_shown_as_text():
    error = WorkerError("Worker 1 of 2 failed in batch 2: ValueError: <b>\n\nIn the worker:\nValueError: <b>")
    timeline = BatchedEnvTimeline(**{"<script>alert(1)</script>": killed_trace()}, error=error)
    svg = timeline.to_svg()
    assert "<script>alert" not in svg and "<b>" not in svg and timeline.to_html().count("<script>alert") == 0
    ElementTree.fromstring(svg)


def test_a_trace_of_many_batches_stays_small():
    n = 5_000
    calls = [(30 * i, 30 * i + 20, 30 * i + 22) for i in range(n)]
    parts = [(i % 4, (30 * i - 60, 30 * i + 10, 30 * i + 15), max(i - i % 3, 0), i, i) for i in range(n)]
    timeline = BatchedEnvTimeline(trace_of("MultiAsyncCollector", 4, 30 * n, calls, parts))
    assert len(timeline.to_svg()) < 150_000 and len(repr(timeline)) < 300 and len(timeline.explain()) < 3_000
