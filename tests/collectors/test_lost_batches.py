"""Batches that are lost on their way leave no hole in a trajectory."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict.nn import set_interaction_type

from rlnb.collectors import Collector
from rlnb.collectors.trajectories import TrajectoryIds
from rlnb.data import LazyTensorStorage, TensorDictReplayBuffer
from rlnb.data.replay_buffers.storages import Storage
from rlnb.envs import (
    ExplorationType,
    GymEnv,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    exploration_type,
    set_exploration_type,
)
from tests.data.replay_buffers.interrupting import interrupted

IDS = ("collector", "traj_ids")


def counting() -> TransformedEnv:
    return TransformedEnv(GymEnv("CartPole-v1"), StepCounter())


def check_no_holes(rows: Any) -> None:
    """Steps of one trajectory that follow one another must have been taken one after the other."""
    ids, steps = rows[IDS], rows["step_count"].flatten()
    goes_on = (ids[1:] == ids[:-1]) & ~rows["next", "done"].flatten()[:-1]
    assert (steps.diff()[goes_on] == 1).all()
    assert (steps[1:][~goes_on] == 0).all(), "a new id without a reset"
    begins = torch.cat([ids[:1], ids[1:][~goes_on]])
    assert len(begins.unique()) == len(begins), "an id came twice"


def once(error: type[BaseException], call: Callable[..., Any]) -> Callable[..., Any]:
    """A function that fails the second time."""
    calls = iter(range(10**6))

    def failing(*args: Any) -> Any:
        if next(calls) == 1:
            raise error("once")
        return call(*args)

    return failing


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("place", ["postproc", "split", "to", "extend", "reset"])
def test_a_failure_on_the_way_loses_a_batch_and_leaves_no_hole(
    error: type[BaseException], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(1000))
    options: dict[str, Any] = {}
    if place == "postproc":
        options["postproc"] = once(error, lambda data: data)
    elif place == "split":
        options["split_trajs"] = True
        split = once(error, lambda data, **_: data)
        monkeypatch.setattr("rlnb.collectors.collector.split_trajectories", lambda data, prefix: split(data))
    elif place == "to":
        options["storing_device"] = "cpu"
        move = once(error, lambda data: data)
        monkeypatch.setattr("tensordict.TensorDict.to", lambda data, *_: move(data))
    elif place == "extend":
        monkeypatch.setattr(rb, "extend", once(error, rb.extend))
    elif place == "reset":  # on the class: rollouts call a method that is replaced on the env after every step
        monkeypatch.setattr(TransformedEnv, "maybe_reset", once(error, TransformedEnv.maybe_reset))
    collector = Collector(counting(), frames_per_batch=5, replay_buffer=rb, **options)
    collector.set_seed(1)
    collector.next()
    with pytest.raises(error, match="once"):
        collector.next()
    assert (collector.frames, collector.iterations, len(rb)) == (5, 1, 5)
    collector.next()
    collector.next()
    assert (collector.frames, collector.iterations, len(rb)) == (15, 3, 15)
    check_no_holes(rb[:])
    assert rb[:]["step_count"][5] == 0


def test_batches_that_are_handed_out_have_no_hole_either() -> None:
    collector = Collector(counting(), frames_per_batch=5, postproc=once(OSError, lambda data: data))
    batches = [collector.next()]
    with pytest.raises(OSError, match="once"):
        collector.next()
    batches += [collector.next(), collector.rollout()]
    check_no_holes(torch.cat(batches))
    assert collector.frames == 15


def test_an_iterator_that_is_closed_loses_nothing() -> None:
    collector = Collector(counting(), frames_per_batch=5)
    collector.set_seed(1)
    batches = []
    for _ in range(3):
        iterator = iter(collector)
        batches.append(next(iterator))
        iterator.close()
    rows = torch.cat(batches)
    check_no_holes(rows)
    assert rows["step_count"].flatten().tolist()[:6] == list(range(6)) and collector.frames == 15


def test_a_postproc_may_ask_for_new_episodes() -> None:
    collector = Collector(counting(), frames_per_batch=5)
    collector.postproc = lambda data: collector.reset() or data
    assert torch.cat([collector.next(), collector.next()])["step_count"].flatten().tolist() == [*range(5)] * 2


CODES = {
    "next": Collector.next,
    "collect": Collector._collect,
    "take steps": Collector._take_steps,
    "write": Collector._write,
    "finish": Collector._finish,
    "restart": TrajectoryIds.restart,
    "ids": TrajectoryIds.write,
    "storage": Storage.append,
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_an_interrupt_in_any_line_leaves_no_hole(code: Any) -> None:
    for at in range(60):
        rb = TensorDictReplayBuffer(storage=LazyTensorStorage(100))
        collector = Collector(counting(), frames_per_batch=5, replay_buffer=rb, postproc=lambda data: data)
        collector.next()
        if code is TrajectoryIds.restart:
            collector.reset()
        reached = interrupted(collector.next, code.__code__, at)
        assert collector.frames in (len(rb), len(rb) - 5)
        assert collector.frames == len(rb) or code in (CODES["next"], CODES["write"], CODES["finish"])
        collector.next()
        check_no_holes(rb[:])
        if not reached:
            break
    assert 0 < at < 59 and collector.frames == len(rb) == 15


@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("block", [torch.no_grad, set_interaction_type])
@pytest.mark.parametrize("end", ["__enter__", "__exit__"])
def test_an_interrupt_of_a_blocks_ends_leaves_gradients_and_exploration_as_they_were(
    end: str, block: Any, learning: bool
) -> None:
    collector = Collector(counting(), frames_per_batch=5)
    for at in range(20):
        with torch.set_grad_enabled(learning), set_exploration_type("mode"):
            reached = interrupted(collector.next, getattr(block, end).__code__, at)
            assert torch.is_grad_enabled() == learning and exploration_type() is ExplorationType.MODE
        if not reached:
            break
    assert 0 < at < 19


@pytest.mark.parametrize("count", [0, 3])
def test_interrupts_at_any_time_leave_no_hole(count: int, missing: Any) -> None:
    if not hasattr(signal, "setitimer"):
        missing("setitimer", "interrupts at any time")
    env = SerialEnv(count, counting) if count else counting()
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(300_000))
    collector = Collector(
        env, frames_per_batch=6, replay_buffer=rb, postproc=lambda data: data.exclude("observation").reshape(-1)
    )
    # The first batch makes the storage, and what is made once is not what this is about.
    collector.next()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    lost, uncounted, end = 0, 0, time.perf_counter() + 1
    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        while time.perf_counter() < end:
            before = collector.frames, len(rb)
            wait, start = 1e-4 + 3e-3 * torch.rand(()).item(), time.perf_counter()
            try:
                signal.setitimer(signal.ITIMER_REAL, wait)
                while time.perf_counter() < start + 0.1:  # Python drops an interrupt that falls into a finalizer
                    collector.next()
            except KeyboardInterrupt:
                lost += 1
            uncounted += (len(rb) - before[1]) - (collector.frames - before[0])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
    assert torch.is_grad_enabled() and exploration_type() is None
    # Only what was written right before the interrupt may be missing in the count.
    assert lost > 50 and 0 <= uncounted <= 6 * lost / 5 and collector.frames == len(rb) - uncounted
    rows = rb[:]
    for row in rows.reshape(-1, max(count, 1), 6 // max(count, 1)).unbind(1):
        check_no_holes(row.reshape(-1))
