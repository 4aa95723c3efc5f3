"""MultiAsyncCollector and AsyncCollector: order, asynchrony, weights between batches, no missing steps."""

from __future__ import annotations

import time

import pytest
import torch

from rlnb.collectors import (
    AsyncCollector,
    MultiAsyncCollector,
    MultiaSyncDataCollector,
    MultiCollector,
    aSyncDataCollector,
)
from rlnb.envs import GymEnv, StepCounter, TransformedEnv
from tests.collectors.multi.making import IDS, constant, counted, pole, shut, wait_for
from tests.collectors.multi.test_sync import singles


class Slow(GymEnv):
    """A pendulum whose steps take some milliseconds."""

    def __init__(self, seconds=0.001):
        super().__init__("Pendulum-v1")
        self.seconds = seconds

    def _step(self, tensordict):
        time.sleep(self.seconds)
        return super()._step(tensordict)


def test_names():
    assert MultiaSyncDataCollector is MultiAsyncCollector and aSyncDataCollector is AsyncCollector
    with shut(MultiCollector([pole] * 2, sync=False, frames_per_batch=5, total_frames=25)) as collector:
        assert type(collector) is MultiAsyncCollector and len(collector) == 5
        assert [batch.shape for batch in collector] == [(5,)] * 5
        assert collector.frames == 25 and collector.next().shape == (5,)


@pytest.mark.parametrize("buffers", [True, False])
def test_each_worker_collects_what_a_single_collector_would(buffers):
    expected = singles(pole, lambda: None, 2, 7, 3, 6)
    with shut(MultiAsyncCollector([pole] * 2, frames_per_batch=7, use_buffers=buffers)) as collector:
        collector.set_seed(3)
        found, until = [[], []], time.monotonic() + 60
        # On a busy machine, one worker may have sent many batches before the other sends its first.
        while sum(map(len, found)) < 6 or (not all(found) and time.monotonic() < until):
            batch = collector.next()
            found[int(batch[IDS][0]) % 2].append(batch)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine, "a worker collected nothing"
        for batch, single in zip(mine, theirs, strict=False):
            assert bool((batch == single).all()) and batch.names == ["time"]


class Watched(GymEnv):
    """A pendulum that writes a byte at each step, and waits before a step until it may take it."""

    def __init__(self, steps, may_go=None):
        super().__init__("Pendulum-v1")
        self.steps, self.may_go = steps, may_go

    def _step(self, tensordict):
        if self.may_go is not None:
            wait_for(self.may_go.exists)
        with self.steps.open("ab") as file:
            file.write(b".")
        return super()._step(tensordict)


def test_one_worker_collects_while_the_learner_learns(tmp_path):
    steps = tmp_path / "steps"
    with shut(AsyncCollector(lambda: Watched(steps), frames_per_batch=10)) as collector:
        for batches in (1, 2):
            collector.next()
            wait_for(lambda count=10 * (batches + 1): steps.stat().st_size == count)  # nobody asks for a batch


def test_a_slow_worker_does_not_delay_the_others(tmp_path):
    steps, may_go = tmp_path / "steps", tmp_path / "go"
    envs = [lambda: Watched(steps, may_go), lambda: Watched(steps)]
    with shut(MultiAsyncCollector(envs, frames_per_batch=5)) as collector:
        assert [int(collector.next()[IDS][0]) % 2 for _ in range(8)] == [1] * 8
        may_go.touch()
        wait_for(lambda: int(collector.next()[IDS][0]) % 2 == 0)


def test_a_batch_is_made_with_the_weights_of_its_first_step():
    policy = constant(0.0)
    options = {"frames_per_batch": 20, "track_policy_version": True}
    with shut(MultiAsyncCollector([lambda: Slow(0.0005)] * 2, policy, **options)) as collector:
        versions = set()
        for _ in range(15):
            batch = collector.next()
            (version,), (action,) = (
                batch["policy_version"].unique().tolist(),
                batch["action"].flatten().unique().tolist(),
            )
            assert action == version / 64
            versions.add(version)
            for _ in range(3):  # also in the middle of the batches that are being collected
                with torch.no_grad():
                    policy.module.value += 1 / 64
                collector.update_policy_weights_()
                time.sleep(0.002)
        assert len(versions) > 5 and max(versions) > 30


def test_some_workers_get_weights():
    policy = constant(0.0)
    with shut(MultiAsyncCollector([lambda: Slow(0.0005)] * 2, policy, frames_per_batch=10)) as collector:
        for i in range(1, 5):
            collector.next()
            collector.update_policy_weights_(constant(i / 8), worker_ids=[0])
        actions = {0: [], 1: []}
        while min(map(len, actions.values())) < 3:  # a busy system may let one worker run for long
            batch = collector.next()
            actions[batch[IDS][0].item() % 2].append(batch["action"][0].item())
        assert actions[0][-1] == 0.5 and set(actions[1]) == {0.0}


def check_no_holes(batches):
    """Steps of one trajectory that follow one another must have been taken one after the other."""
    for rank in range(2):
        own = [batch for batch in batches if int(batch[IDS][0]) % 2 == rank]
        if not own:  # where cores are busy, one worker may take all the turns
            continue
        rows = torch.cat(own)
        ids, steps = rows[IDS], rows["step_count"].flatten()
        goes_on = ids[1:] == ids[:-1]
        assert (steps.diff()[goes_on] == 1).all() and (steps[1:][~goes_on] == 0).all()


def test_a_batch_that_was_lost_leaves_no_hole():
    calls = iter(range(100))

    def failing(batch):
        if next(calls) % 3 == 1:
            raise OSError("once")
        return batch

    with shut(MultiAsyncCollector([counted] * 2, frames_per_batch=5, postproc=failing)) as collector:
        batches = []
        for _ in range(12):
            try:
                batches.append(collector.next())
            except OSError:
                continue
        assert len(batches) == 8 and collector.frames == 40 and collector.iterations == 8
        check_no_holes(batches)


def test_requests_between_batches_lose_nothing():
    def make():
        return TransformedEnv(Slow(0.0005), StepCounter())

    with shut(MultiAsyncCollector([make] * 2, frames_per_batch=5)) as collector:
        batches = []
        for _ in range(8):
            batches.append(collector.next())
            assert collector.getattr_env("seconds") == [0.0005] * 2
            collector.state_dict()
        check_no_holes(batches)
        starts = [int(batch["step_count"][0]) for batch in batches]
        assert starts.count(0) == 2 and collector.frames == 40


def test_one_worker_only():
    with pytest.raises(ValueError) as caught:
        AsyncCollector([pole] * 2, frames_per_batch=5)
    assert str(caught.value) == (
        "AsyncCollector has one worker, got 2 functions that make envs. Fix: MultiAsyncCollector for several workers."
    )
    with shut(AsyncCollector([pole], frames_per_batch=5, total_frames=10)) as collector:
        assert [batch.shape for batch in collector] == [(5,)] * 2


def test_random_frames_first():
    with shut(
        MultiAsyncCollector([counted] * 2, constant(0.25), frames_per_batch=4, init_random_frames=10)
    ) as collector:
        drawn = []

        def next_is_random():
            drawn.append(len(collector.next()["action"].unique()) > 1)
            return drawn[-1]

        for _ in range(3):  # which worker has them, and when, is up to the machine
            wait_for(next_is_random)
        assert drawn[0] and not any(next_is_random() for _ in range(20))
