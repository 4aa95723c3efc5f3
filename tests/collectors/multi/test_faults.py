"""Workers of a collector that fail, exit, stop or hang, and interrupts: every call ends, and nothing leaks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import signal
import threading
import time

import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import AsyncCollector, MultiAsyncCollector, MultiCollector, MultiSyncCollector
from rlnb.collectors.workers import CollectorWorkers
from rlnb.data import LazyMemmapStorage, TensorDictReplayBuffer
from rlnb.envs.batched import WorkerError
from rlnb.envs.batched.worker_pool import WorkerPool
from tests.collectors.multi.making import IDS, constant, counted, pole, shut, wait_for
from tests.collectors.test_lost_batches import check_no_holes
from tests.data.replay_buffers.interrupting import interrupted
from tests.envs.batched.running import HEAD, in_memory, run

both = pytest.mark.parametrize("kind", [MultiSyncCollector, MultiAsyncCollector])


class Failing(nn.Module):
    """Misbehaves in worker 1 at its n-th step, once."""

    def __init__(self, what, at=7):
        super().__init__()
        self.what, self.at, self.steps = what, at, 0
        self.value = nn.Parameter(torch.zeros(1))

    def forward(self, observation):
        self.steps += 1
        if self.steps == self.at and multiprocessing.current_process().name.endswith("-1"):
            self.what()
        return self.value.expand(1)


def failing(what, at=7):
    return TensorDictModule(Failing(what, at), ["observation"], ["action"])


def divide():
    return 1 / 0


def processes(collector):
    return list(collector._workers._pool.processes)


# A policy or an env raises --------------------------------------------------------------------------------------------


def test_a_policy_that_fails_is_reported_once_with_its_batch():
    with shut(MultiSyncCollector([counted] * 2, failing(divide), frames_per_batch=10)) as collector:
        batches = [collector.next()]
        with pytest.raises(WorkerError) as caught:
            collector.next()
        text = str(caught.value)
        assert text.startswith(
            "Worker 1 of 2 failed in batch 2: ZeroDivisionError: division by zero\n\nIn the worker:\nTraceback"
        )
        assert text.count("return 1 / 0") == 1 and text.endswith("ZeroDivisionError: division by zero")
        assert caught.value.failure.kind == "ZeroDivisionError"
        pids = [process.pid for process in processes(collector)]
        batches += [collector.next(), collector.next()]
        assert [process.pid for process in processes(collector)] == pids, "they could go on"
        assert collector.frames == 30 and batches[1]["step_count"][:, 0, 0].tolist() == [0, 0]
        for rank in range(2):
            check_no_holes(torch.cat([batch[rank] for batch in batches]))


def test_a_policy_that_fails_in_an_asynchronous_worker():
    with shut(MultiAsyncCollector([counted] * 2, failing(divide), frames_per_batch=5)) as collector:
        batches, errors = {0: [], 1: []}, []
        while not errors or min(map(len, batches.values())) < 3:  # a busy system may let one worker run for long
            try:
                batch = collector.next()
                batches[batch[IDS][0].item() % 2].append(batch)
            except WorkerError as error:
                errors.append(str(error))
        (text,) = errors
        assert re.match(r"Worker 1 of 2 failed in batch \d+: ZeroDivisionError: division by zero\n\nIn the", text)
        for rank in range(2):
            check_no_holes(torch.cat(batches[rank]))


def test_a_worker_that_cannot_begin():
    def broken():
        raise FileNotFoundError("no such level")

    with pytest.raises(WorkerError, match=r"^Worker 1 of 2 failed in start: FileNotFoundError: no such level\n"):
        MultiSyncCollector([counted, broken], frames_per_batch=10)
    with pytest.raises(WorkerError, match=r"^Worker 0 of 2 failed in start: TypeError: create_env_fn must be an env"):
        MultiSyncCollector([lambda: 3, counted], frames_per_batch=10)
    assert not multiprocessing.active_children()


# A worker ends, stops or hangs ----------------------------------------------------------------------------------------


@both
def test_a_worker_that_is_killed_is_named(kind):
    policy = constant(0.0)
    with shut(kind([counted] * 2, policy, frames_per_batch=10, track_policy_version=True)) as collector:
        collector.update_policy_weights_(constant(0.5))
        before = [collector.next() for _ in range(4)]
        collector._workers.settle("test")
        os.kill(processes(collector)[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerError) as caught:
            for _ in range(10_000):  # the system may take its time
                collector.next()
        assert str(caught.value) == (
            "Worker 1 of 2 was ended by SIGKILL, which is how a system ends a process that takes too much memory, in "
            f"the middle of batch {collector.iterations + 1}. All workers were ended; collector.next() starts new ones."
            f" To see what it does, collect in this process: Collector in place of {kind.__name__}."
        )
        assert not multiprocessing.active_children() and collector.stats()["workers_alive"] == 0
        after = [collector.next() for _ in range(4)]
        assert {batch["action"].unique().item() for batch in after} == {0.5}, "the weights are those of before"
        assert {batch["policy_version"].unique().item() for batch in after} == {1} == {collector.policy_version}
        used, given = (set(torch.cat([b[IDS].flatten() for b in batches]).tolist()) for batches in (before, after))
        assert not used & given


def test_the_first_batch_of_a_worker_is_returned_though_it_is_found_dead_after_it():
    """What comes after a first batch, sharing memory for the next ones, fails in the name of the next batch."""
    with shut(MultiAsyncCollector([counted] * 2, constant(), frames_per_batch=10)) as collector:
        rank = 1 - int(collector.next()[IDS][0]) % 2
        collector._workers.settle("test")  # the first batch of the other worker is ready
        victim = processes(collector)[rank]
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        ranks = []
        with pytest.raises(WorkerError) as caught:
            while True:
                ranks.append(int(collector.next()[IDS][0]) % 2)
        assert str(caught.value).startswith(f"Worker {rank} of 2 was ended by SIGKILL")
        assert f"in the middle of batch {collector.iterations + 1}. All" in str(caught.value)
        assert ranks.count(rank) >= 1 and collector.frames == 10 * (1 + len(ranks))
        assert collector.next().shape == (10,)


SHARED = [
    MultiCollector._next,
    MultiCollector._finish,
    CollectorWorkers.receive,
    CollectorWorkers.collect,
    WorkerPool.receive,
    WorkerPool.signal,
]
LINES = [(kind, code) for kind in (MultiSyncCollector, MultiAsyncCollector) for code in (*SHARED, kind._batches)]


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "code"), LINES, ids=lambda one: one.__qualname__)
def test_an_interrupt_in_any_line_leaves_no_hole(kind, code):
    batches = []
    with shut(kind([counted] * 2, constant(), frames_per_batch=10, timeout=20)) as collector:

        def collect():
            batches.append(collector.next())

        for at in range(60):
            reached = interrupted(collect, code.__code__, at)
            assert collector.frames == 10 * len(batches)
            for _ in range(3):
                collect()
            if not reached:
                break
        assert 0 < at < 59 and collector.frames == 10 * len(batches)
    rows = torch.cat([batch.reshape(-1) for batch in batches])
    for rank in range(2):
        check_no_holes(rows[rows[IDS] % 2 == rank])


def hang():
    time.sleep(1000)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.deep
@pytest.mark.parametrize("kind", [MultiSyncCollector, MultiAsyncCollector, AsyncCollector])
@pytest.mark.parametrize("what", [hang, stop])
def test_a_worker_that_hangs_or_stops_is_named_in_time(kind, what):
    def misbehave():
        if multiprocessing.current_process().name.endswith(last):
            what()

    last = "-0" if kind is AsyncCollector else "-1"
    envs = counted if kind is AsyncCollector else [counted] * 2
    policy = failing(misbehave)
    policy.module.at = 7
    if kind is AsyncCollector:
        policy = TensorDictModule(Alone(what), ["observation"], ["action"])
    with shut(kind(envs, policy, frames_per_batch=10, timeout=3.0, shutdown_timeout=0.3)) as collector:
        start = time.monotonic()
        with pytest.raises(TimeoutError) as caught:
            for _ in range(10_000):
                collector.next()
        assert time.monotonic() - start < 20
        assert str(caught.value) == (
            f"Worker {last[1:]} of {collector.num_workers} did not finish batch {collector.iterations + 1} within 3 s. "
            "All workers were ended; collector.next() starts new ones. If it takes that long, give more time: "
            f"{kind.__name__}(..., timeout=600)."
        )
        assert not multiprocessing.active_children()


class Alone(Failing):
    """Misbehaves in any worker, at its 25th step."""

    def __init__(self, what):
        super().__init__(what)

    def forward(self, observation):
        self.steps += 1
        if self.steps == 25:
            self.what()
        return self.value.expand(1)


@pytest.mark.deep
def test_a_worker_that_stops_while_it_reads_weights():
    with shut(MultiSyncCollector([counted] * 2, constant(), frames_per_batch=4, timeout=1.0)) as collector:
        weights = collector._workers.weights
        read, write = os.pipe()
        pid = os.fork()  # like a worker that was stopped in the middle
        if pid == 0:
            with weights._lock():
                os.write(write, b".")
                time.sleep(1000)
        try:
            os.read(read, 1)
            with pytest.raises(TimeoutError) as caught:
                collector.update_policy_weights_()
            assert str(caught.value) == (
                "A worker has been reading the weights of the policy for 1 s. Likely cause: the process was stopped in "
                "the middle. Fix: collector.shutdown(), after which the next batch starts new workers."
            )
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(read)
            os.close(write)
        collector.update_policy_weights_()  # the system has released the lock
        assert collector.policy_version == 1


def shared_memory():
    """Tell how much shared memory of collectors this process has mapped, and how many descriptors are open."""
    with open("/proc/self/maps") as maps:
        mapped = sum("memfd:rlnb" in line for line in maps)
    return mapped, len(os.listdir("/proc/self/fd"))


@pytest.mark.deep
@both
def test_many_cycles_leave_nothing_behind(kind, tmp_path):
    before, files = None, in_memory()
    for cycle in range(24):  # each fault with each kind of storage
        storage = LazyMemmapStorage(100, scratch_dir=tmp_path / str(cycle)) if cycle % 5 == 4 else None
        rb = TensorDictReplayBuffer(storage=storage) if storage is not None else None
        options = {"frames_per_batch": 10, "timeout": 30, "shutdown_timeout": 0.3, "replay_buffer": rb}
        collector = kind([counted] * 2, constant(), **options)
        collector.next()
        collector.next()
        collector._workers._pool.timeout = 0.7  # a start may take longer
        victim = processes(collector)[cycle % 2].pid
        way = cycle % 4
        if way < 2:
            os.kill(victim, signal.SIGKILL if way else signal.SIGSTOP)
            with pytest.raises((WorkerError, TimeoutError), match=rf"^Worker {cycle % 2} of 2 "):
                for _ in range(10_000):
                    collector.next()
            if cycle % 8 < 4:
                collector.next()
            collector.shutdown()
        elif way == 2:
            collector.shutdown()
        collector = None  # which ends the workers of the others
        assert not multiprocessing.active_children(), cycle
        del rb, storage
        if cycle == 4:
            before = shared_memory()
    gc.collect()  # the tracebacks of the errors are in cycles, and hold batches
    found = shared_memory()
    assert found[0] <= before[0] and found[1] <= before[1] + 2 and in_memory() <= files


def test_a_shut_down_collector_has_no_shared_memory():
    gc.collect()  # what earlier tests have left
    before = shared_memory()
    collector = MultiSyncCollector([pole] * 2, frames_per_batch=10)
    batch = collector.next()
    collector.next()
    assert shared_memory()[0] > before[0]
    collector.shutdown()
    assert shared_memory() == before and batch.shape == (2, 5)
    assert collector.next().shape == (2, 5), "the next batch starts new workers"
    collector.async_shutdown()
    assert shared_memory() == before


# Interrupts, and the end of the process -------------------------------------------------------------------------------


@both
def test_an_interrupt_ends_the_workers_and_the_next_batch_starts_new_ones(kind, tmp_path):
    def hang_here():
        (tmp_path / str(os.getpid())).touch()
        hang()

    def interrupt():
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        time.sleep(0.5)  # in which this process comes to wait for the workers
        os.kill(os.getpid(), signal.SIGINT)

    envs, policy = [lambda: counted()] * 2, TensorDictModule(Alone(hang_here), ["observation"], ["action"])
    with shut(kind(envs, policy, frames_per_batch=10, track_policy_version=True, timeout=60)) as collector:
        collector.update_policy_weights_()
        usual = signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                while True:
                    collector.next()
        finally:
            thread.join()
            signal.signal(signal.SIGINT, usual)
        assert not multiprocessing.active_children()
        batch = collector.next()
        assert batch["policy_version"].unique().tolist() == [1] and batch["step_count"].min() == 0


COLLECT = """
from rlnb.collectors import *
from tests.collectors.multi.making import constant, counted
collector = {kind}([counted] * 2, constant(), frames_per_batch=10)
"""
ENDS = {
    "nothing": "",
    "exit": "os._exit(3)",
    "an error": "raise SystemExit(3)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "interrupted": "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\nwhile True: collector.next()",
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["MultiSyncCollector", "MultiAsyncCollector"])
@pytest.mark.parametrize("end", ENDS)
def test_no_worker_outlives_the_script(tmp_path, kind, end):
    script = COLLECT.format(kind=kind) + "print(collector.next().numel() > 0, flush=True)\n" + ENDS[end]
    ran = run(tmp_path, script, limit=40, code=None, gone_within=5)
    assert ran.lines == ["True"] and (ran.code == 0) == (end == "nothing")


@pytest.mark.deep
def test_cells_of_a_notebook(tmp_path):
    # Threads, as a kernel has them, and functions and classes of __main__.
    script = """
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
from rlnb.collectors import MultiSyncCollector
from rlnb._start_method import choose_start_method
from tensordict.nn import TensorDictModule

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
    def forward(self, observation):
        return self.layer(observation) * scale + 1.0

scale = 0.0
net = TensorDictModule(Net(), ["observation"], ["action"])
collector = MultiSyncCollector([lambda: GymEnv("Pendulum-v1")] * 2, net, frames_per_batch=10)
print(choose_start_method(1), collector.next()["action"].unique().tolist())
collector.shutdown()
"""
    assert run(tmp_path, HEAD.format(limit=100) + script, limit=100, head="").lines == ["forkserver [1.0]"]
