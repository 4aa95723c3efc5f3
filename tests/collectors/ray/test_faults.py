"""Lost nodes and actors, missing resources, and a Ray that shuts down: errors are clear, and nothing leaks."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from functools import partial

import pytest
import torch
from tensordict.nn import TensorDictModule

from rlnb.collectors import Collector, MultiAsyncCollector, MultiSyncCollector, RayCollector
from rlnb.data import LazyTensorStorage, RayReplayBuffer, TensorDictReplayBuffer
from rlnb.envs.batched import WorkerError
from tests.collectors.multi.making import IDS, counted
from tests.collectors.ray.conftest import add_node, ray_processes
from tests.collectors.ray.making import FAIL, commanded, kill, shut
from tests.collectors.test_lost_batches import check_no_holes

pytestmark = pytest.mark.deep
FREE = {"num_cpus": 0}
HOW = "its (node is lost|process or its node cannot be reached|process has ended)"  # Ray takes a while to know
NAME = r"Worker {} of {} \(actor \w{{8}}, process \d+ on node [\d.]+ \(\w{{8}}\)\)"


@pytest.mark.parametrize("sync", [True, False])
def test_a_node_that_is_lost_in_the_middle_is_named_and_its_actor_replaced(cluster, sync, request):
    second = add_node(cluster, 2, resources={"second": 1})
    configs = [{"num_cpus": 0, "resources": {name: 1}} for name in ("first", "second")]
    options = {"num_collectors": 2, "frames_per_batch": 20, "sync": sync, "remote_configs": configs, "timeout": 120}
    with shut(RayCollector(counted, commanded(0.5), track_policy_version=True, **options)) as collector:
        here, there = collector.places()
        assert here["node"] != there["node"]
        before = [collector.next() for _ in range(4)]
        while not (torch.cat([batch[IDS].reshape(-1) for batch in before]) % 2).any():
            before.append(collector.next())  # one actor may have all the turns at first
        cluster.remove_node(second, allow_graceful=False)
        request.addfinalizer(partial(cluster.remove_node, add_node(cluster, 2, resources={"second": 1})))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            after = [collector.next()]
            while not caught or not (after[-1][IDS] % 2).any():
                after.append(collector.next())
        (text,) = [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
        pattern = NAME.format(1, 2) + rf" was lost in the middle of batch \d+: {HOW}\. A new actor collects "
        assert re.match(pattern, text) and there["node"][:8] in text
        assert collector.places()[0] == here and collector.places()[1]["node"] != there["node"]
        rows = [torch.cat([batch.reshape(-1) for batch in batches]) for batches in (before, after)]
        used, given = (set(part[IDS][part[IDS] % 2 == 1].tolist()) for part in rows)
        assert max(given) > max(used), "a batch that was complete may still have come"
        check_no_holes(torch.cat([part[part[IDS] % 2 == 0] for part in rows]))
        assert {batch["action"].unique().item() for batch in before + after} == {0.5}


def go_on(collector):
    """Take batches until one raises. Actors on a node that is lost collect for a while, many batches a second."""
    start = time.monotonic()
    while time.monotonic() - start < 60:
        collector.next()


def test_a_lost_node_is_an_error_without_restarts_or_room(cluster):
    import ray

    configs = {"num_cpus": 0, "resources": {"there": 1}}
    for restarts in (0, 3):  # the first new actor may be sent to the node that is lost, too
        second = add_node(cluster, 1, resources={"there": 1})
        options = {"frames_per_batch": 20, "remote_configs": configs, "timeout": 60, "max_restarts": restarts}
        with shut(RayCollector(counted, commanded(), **options)) as collector:
            collector.next()
            (place,) = collector.places()
            name = f"Worker 0 of 1 (actor {place['actor'][:8]}, process {place['pid']} on node {place['ip']} "
            name += f"({place['node'][:8]}))"
            cluster.remove_node(second, allow_graceful=False)
            start = time.monotonic()
            if restarts == 0:
                with pytest.raises(WorkerError) as caught:
                    go_on(collector)
                assert re.sub(HOW, "its node is lost", str(caught.value)).startswith(
                    f"{name} was lost in the middle of batch {collector.iterations + 1}: its node is lost. The steps "
                    "since its last batch are lost. All workers were ended; collector.next() starts new ones. "
                    "Ray says: "
                )
            else:
                while any(node["NodeID"] == place["node"] and node["Alive"] for node in ray.nodes()):
                    assert time.monotonic() - start < 60, "Ray did not notice, which takes it five seconds or more"
                    time.sleep(0.1)
                collector._workers._pool.timeout = 12.0
                with pytest.raises(TimeoutError) as late, pytest.warns(RuntimeWarning, match=HOW):
                    go_on(collector)
                assert re.sub(r"\d+\.0", "2.0", str(late.value)) == (
                    f"Worker 0 of 1 (not placed yet) did not finish batch {collector.iterations + 1} within 12 s. All "
                    "workers were ended; collector.next() starts new ones. Likely cause: no node has room for an actor "
                    f"with {configs}; the cluster has {{'CPU': 2.0}} in all. Fix: remote_configs={{'num_cpus': 1}}, or "
                    "fewer num_collectors."
                )
            assert time.monotonic() - start < 60


def test_an_actor_that_dies_again_and_again_is_an_error(cluster):
    class Dies(torch.nn.Module):
        def forward(self, observation):
            os._exit(1)

    policy = TensorDictModule(Dies(), ["observation"], ["action"])
    options = {"frames_per_batch": 20, "remote_configs": FREE, "timeout": 120, "max_restarts": 1}
    with shut(RayCollector(counted, policy, **options)) as collector:
        with (
            pytest.warns(RuntimeWarning, match=HOW),
            pytest.raises(WorkerError, match=NAME.format(0, 1) + " was lost .* for the 2nd time in a row: its "),
        ):
            collector.next()
        assert collector.stats()["workers_alive"] == 0


def test_no_room_for_an_actor(cluster):
    with pytest.raises(TimeoutError) as caught:
        RayCollector(counted, frames_per_batch=20, remote_configs={"num_cpus": 64}, timeout=3)
    assert str(caught.value).startswith(
        "Worker 0 of 1 (not placed yet) did not finish start within 3 s. All workers were ended; collector.next() "
        "starts new ones. Likely cause: no node has room for an actor with {'num_cpus': 64}; the cluster has "
    )
    with pytest.raises(TimeoutError) as caught:
        RayReplayBuffer(remote_config={"num_cpus": 64}, timeout=3)
    assert str(caught.value) == (
        "The actor of the RayReplayBuffer did not finish start within 3 s. Likely cause: no node has room for an actor "
        "with {'num_cpus': 64}. Fix: remote_config={'num_cpus': 0}."
    )


def test_an_actor_that_has_room_and_starts_slowly(cluster):
    cause = (
        "Likely cause: the machine is busy, and Ray lets its processes wait behind all others (niceness 15). Fix: "
        "{}(..., timeout=600), or RAY_worker_niceness=0 in the environment before Ray starts."
    )
    with pytest.raises(TimeoutError) as caught:
        RayCollector(counted, frames_per_batch=20, remote_configs=FREE, timeout=0.01)
    assert str(caught.value) == (
        "Worker 0 of 1 (not placed yet) did not finish start within 0.01 s. All workers were ended; collector.next() "
        "starts new ones. " + cause.format("RayCollector")
    )
    with pytest.raises(TimeoutError) as caught:
        RayReplayBuffer(remote_config={"num_cpus": 1}, timeout=0.01)
    assert str(caught.value) == (
        "The actor of the RayReplayBuffer did not finish start within 0.01 s. " + cause.format("RayReplayBuffer")
    )


def test_an_env_that_cannot_be_made(cluster):
    def broken():
        raise FileNotFoundError("no such level")

    with pytest.raises(WorkerError, match=NAME.format(1, 2) + " failed in start: FileNotFoundError: no such level\n"):
        RayCollector([counted, broken], frames_per_batch=10, remote_configs=FREE, timeout=120)


KINDS = [(Collector, {}), (MultiSyncCollector, {"cat_results": 0}), (MultiAsyncCollector, {})]


@pytest.mark.parametrize(("kind", "kwargs"), KINDS, ids=lambda one: getattr(one, "__name__", ""))
def test_actors_with_several_envs(cluster, kind, kwargs):
    options = {"frames_per_batch": 20, "collector_class": kind, "collector_kwargs": kwargs, "remote_configs": FREE}
    with shut(
        RayCollector(
            counted, commanded(), num_collectors=2, num_workers_per_collector=2, track_policy_version=True, **options
        )
    ) as collector:
        batches = [collector.next() for _ in range(4)]
        collector.update_policy_weights_(commanded(0.5))
        while collector.worker_versions != [1, 1]:
            batches.append(collector.next())
        batches += [collector.next() for _ in range(2)]
        shape = {Collector: (2, 10), MultiSyncCollector: (20,), MultiAsyncCollector: (20,)}[kind]
        assert {tuple(batch.shape) for batch in batches} == {shape}
        for batch in batches:
            assert torch.equal(batch["action"].flatten(), 0.5 * batch["policy_version"].flatten())
        rows = torch.cat([batch.reshape(-1) for batch in batches])
        assert len((rows[IDS] % 4).unique()) == 4, "of four envs, some of which may have had several episodes"
        for one in rows[IDS].unique():
            check_no_holes(rows[rows[IDS] == one])
        state = collector.state_dict()
        collector.set_seed(3)
        collector.load_state_dict(state)
        collector.reset()
        assert not set(collector.next()[IDS].flatten().tolist()) & set(rows[IDS].tolist())
        collector.update_policy_weights_(commanded(FAIL))
        with pytest.raises(WorkerError, match="ZeroDivisionError: division by zero"):
            for _ in range(10):
                collector.next()


def test_back_pressure_bounds_what_waits(cluster):
    from ray._private.internal_api import memory_summary

    def objects():
        used = memory_summary(stats_only=True)
        return int(re.search(r"Plasma memory usage (\d+) MiB, (\d+) objects", used)[2])

    options = {"num_collectors": 2, "frames_per_batch": 4000, "remote_configs": FREE, "timeout": 120}
    with shut(RayCollector(counted, commanded(), **options)) as collector:
        collector.next()
        parts = objects()
        counts = []
        for _ in range(5):
            time.sleep(0.5)  # a learner that is slower than the actors
            counts.append(objects())
            collector.next()
        assert max(counts) <= parts + 2, "one batch of each actor, however long the learner takes"


def test_a_buffer_whose_actor_is_killed(cluster):
    buffer = RayReplayBuffer(
        replay_buffer_cls=TensorDictReplayBuffer, storage=partial(LazyTensorStorage, 10), remote_config=FREE
    )
    place = buffer.place()
    os.kill(place["pid"], signal.SIGKILL)
    with pytest.raises(RuntimeError) as caught:
        len(buffer)
    assert re.sub(HOW, "its process has ended", str(caught.value)) == (
        f"The actor of the RayReplayBuffer (actor {place['actor'][:8]}, process {place['pid']} on node {place['ip']} "
        f"({place['node'][:8]})) was lost in the middle of len: its process has ended. Its items are lost with it. "
        "Fix: RayReplayBuffer(...), and buffer.loads(path) if buffer.dumps(path) was called before."
    )
    buffer.shutdown()


def test_an_actor_that_replaces_another_writes_to_the_buffer_itself(cluster):
    buffer = RayReplayBuffer(storage=partial(LazyTensorStorage, 500), remote_config=FREE)
    options = {"frames_per_batch": 50, "remote_configs": FREE, "replay_buffer": buffer, "timeout": 120}
    with shut(buffer), shut(RayCollector(counted, commanded(), **options)) as collector:
        collector.next()
        collector.next()
        received = collector.stats()["bytes_received"]
        kill(collector, 0)
        with pytest.warns(RuntimeWarning, match="its process has ended"):
            for _ in range(3):
                collector.next()
        assert collector.stats()["restarts"] == 1 and collector.stats()["bytes_received"] - received < 2500
        assert collector.frames == 250 and len(buffer) in (250, 300), "the lost one may have written its last batch"
        assert len(buffer[:][IDS].unique()) == 2


def test_cycles_leave_no_actor_behind(cluster):
    gc.collect()
    time.sleep(1)
    before = actors()
    for cycle in range(3):
        collector = RayCollector(counted, commanded(), frames_per_batch=20, remote_configs=FREE, shutdown_timeout=0.5)
        collector.next()
        if cycle == 0:
            collector.shutdown()
        elif cycle == 1:
            os.kill(collector.places()[0]["pid"], signal.SIGSTOP)
            collector.shutdown()
        collector = None
        gc.collect()
        until = time.monotonic() + 10
        while actors() - before and time.monotonic() < until:
            time.sleep(0.05)
        assert not actors() - before, cycle


def actors():
    """List the processes of actors."""
    return {pid for pid, line in ray_processes().items() if line.startswith(b"ray::CollectorActor")}


SCRIPT = """
import os, sys, time
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
from rlnb.collectors import RayCollector
from tests.collectors.multi.making import counted
collector = RayCollector(counted, frames_per_batch=10, remote_configs={"num_cpus": 0})
print(collector.next().numel(), collector.places()[0]["pid"], flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
if sys.argv[2] == "ray ends":
    ray.shutdown()
    try:
        collector.next()
    except RuntimeError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("end", ["", "killed", "ray ends"])
def test_no_actor_outlives_the_script(cluster, end):
    command = [sys.executable, "-c", SCRIPT, cluster.address, end]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    first, *others = done.stdout.splitlines()
    frames, pid = map(int, first.split())
    assert frames == 10 and done.returncode == (-9 if end == "killed" else 0), done.stderr
    until = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")
    if end == "ray ends":
        assert others == [
            "WorkerError Ray was shut down before RayCollector finished batch 2, and its actor with it. Lost are "
            "the steps since their last batches. Likely cause: ray.shutdown() in this process. "
            "Fix: collector.next(), which starts Ray and new actors with the same weights."
        ]


def test_ray_that_is_shut_down_and_started_again(cluster):
    import ray

    collector = RayCollector(counted, commanded(0.5), frames_per_batch=20, remote_configs=FREE, timeout=120)
    buffer = RayReplayBuffer(storage=partial(LazyTensorStorage, 10), remote_config=FREE)
    with shut(collector):
        collector.next()
        ray.shutdown()
        with pytest.raises(WorkerError, match=r"^Ray was shut down before update_policy_weights_ finished|^Ray was sh"):
            collector.next()
        with pytest.raises(RuntimeError) as caught:
            buffer.sample(3)
        assert str(caught.value) == (
            "Ray was shut down before sample, and the actor of the RayReplayBuffer with it: its items are lost. Likely "
            "cause: ray.shutdown() in this process. Fix: RayReplayBuffer(...), and buffer.loads(path) if "
            "buffer.dumps(path) was called before."
        )
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        assert collector.next()["action"].unique().tolist() == [0.5]
        with pytest.raises(RuntimeError, match=r"^Ray was shut down before sample"):
            buffer.sample(3)
