"""Collectors in Ray actors, and a replay buffer in one: what they collect, weights, buffers, and actors that fail."""

from __future__ import annotations

import itertools
import re
import time
import warnings
from functools import partial

import pytest
import torch
from tensordict import TensorDict

from rlnb._ray import pack, unpack
from rlnb.collectors import Collector, MultiSyncCollector, RayCollector
from rlnb.collectors.ray_traffic import estimate_traffic
from rlnb.data import (
    LazyTensorStorage,
    RandomSampler,
    RayReplayBuffer,
    SamplerWithoutReplacement,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from rlnb.envs.batched import WorkerError
from rlnb.envs.transforms import RewardScaling
from tests.collectors.multi.making import IDS, counted
from tests.collectors.ray.making import ENVS, FAIL, HANG, PICTURES, POLICIES, commanded, kill
from tests.collectors.test_lost_batches import check_no_holes

FREE = {"num_cpus": 0}


@pytest.fixture(scope="module")
def pair(cluster):
    """A synchronous collector of two actors, for several tests: an actor takes seconds to start."""
    collector = RayCollector(
        counted, commanded(), num_collectors=2, frames_per_batch=20, sync=True, remote_configs=FREE, timeout=120,
        track_policy_version=True,
    )  # fmt: skip
    yield collector
    collector.shutdown()


@pytest.fixture
def sync(pair):
    """The same, with no weights of another test."""
    pair.update_policy_weights_(commanded(0.0))
    return pair


def test_batches_are_those_of_workers_on_one_machine(sync):
    other = MultiSyncCollector([counted] * 2, commanded(), frames_per_batch=20, track_policy_version=True)
    try:
        assert sync.set_seed(7) == other.set_seed(7)
        for _ in range(3):
            ours, theirs = sync.next(), other.next()
            assert ours.names == theirs.names and ours.batch_size == theirs.batch_size == (2, 10)
            assert set(ours.keys(True, True)) == set(theirs.keys(True, True))
            for key in theirs.exclude("policy_version", ("next", "policy_version"), IDS).keys(True, True):
                assert torch.equal(ours[key], theirs[key]), key
    finally:
        other.shutdown()
    assert len(set(ours[IDS][:, 0].tolist())) == 2 and sync.policy_version == ours["policy_version"].max()


def test_actors_say_where_they_run(sync):
    places = sync.places()
    assert len({place["pid"] for place in places}) == 2 == len(sync.remote_collectors)
    assert sync.stats()["workers_alive"] == 2
    assert repr(sync).startswith("RayCollector(num_workers=2, frames_per_batch=20, total_frames=-1, policy_version=")


def test_weights_are_put_once_for_all_and_each_batch_says_its_version(sync):
    version, put = sync.policy_version, sync.stats()["bytes_put"]
    sync.update_policy_weights_(commanded(0.25))
    each = sync.stats()["bytes_put"] - put
    assert 4 < each < 1000
    batch = sync.next()
    assert batch["action"].unique().tolist() == [0.25]
    assert batch["policy_version"].unique().tolist() == [version + 1] == [sync.policy_version]
    sync.next()
    assert sync.stats()["bytes_put"] - put == each, "nothing is put for a batch"
    sync.update_policy_weights_(commanded(0.5).state_dict(), worker_ids=1)
    batch = sync.next()
    assert batch["action"].flatten(1).unique(dim=1).flatten().tolist() == [0.25, 0.5]
    assert sync.worker_versions == [version + 1, version + 2]
    sync.increment_version()
    assert sync.next()["policy_version"].unique().tolist() == [version + 3]


def test_weights_of_other_shapes_are_refused(sync):
    version = sync.policy_version
    with pytest.raises(RuntimeError) as caught:
        sync.update_policy_weights_({"module.value": torch.zeros(2)})
    assert str(caught.value) == (
        "The weights do not fit the policy: these differ in name or shape: ['module.value']. "
        "Fix: collector.update_policy_weights_(policy), with a policy of the same architecture."
    )
    assert sync.policy_version == version and sync.next()["action"].unique().tolist() == [0.0]


def test_a_state_dict_continues_with_other_ids(sync):
    sync.update_policy_weights_(commanded(0.75))
    used = sync.next()[IDS].unique().tolist()
    state = sync.state_dict()
    frames = sync.frames
    sync.update_policy_weights_(commanded(0.0))
    used += sync.next()[IDS].unique().tolist()
    sync.load_state_dict(state)
    batch = sync.next()
    assert batch["action"].unique().tolist() == [0.75] and sync.frames == frames + 20
    assert batch["step_count"][:, 0].flatten().tolist() == [0, 0]
    assert not set(used) & set(batch[IDS].unique().tolist())
    sync.policy.load_state_dict(commanded(0.0).state_dict())
    with pytest.raises(KeyError, match=r"got one without \['worker1'\]"):
        sync.load_state_dict({key: value for key, value in state.items() if key != "worker1"})


def test_a_policy_that_fails_is_reported_once_with_its_batch(sync):
    before = [sync.next()]
    sync.update_policy_weights_(commanded(FAIL), worker_ids=1)
    with pytest.raises(WorkerError) as caught:
        sync.next()
    text, place = str(caught.value), sync.places()[1]
    assert text.startswith(
        f"Worker 1 of 2 (actor {place['actor'][:8]}, process {place['pid']} on node {place['ip']} "
        f"({place['node'][:8]})) failed in batch {sync.iterations + 1}: ZeroDivisionError: division by zero\n\n"
        "In the worker:\n"
    )
    assert text.count('raise ZeroDivisionError("division by zero")') == 1
    assert caught.value.failure.kind == "ZeroDivisionError"
    sync.update_policy_weights_(commanded(0.0))
    after = [sync.next(), sync.next()]
    assert sync.places()[1] == place, "the actor goes on"
    for rank in range(2):
        check_no_holes(torch.cat([batch[rank] for batch in before + after]))


def test_what_cannot_be_pickled_in_an_actor_is_reported(sync):
    with pytest.raises(WorkerError, match=r"failed in read: TypeError: cannot pickle '_thread\.(R)?Lock"):
        sync._workers.request_all("read", "_background._changed")
    assert sync.next().shape == (2, 10)


def test_a_killed_actor_is_replaced(sync):
    sync.update_policy_weights_(commanded(0.5))
    before, place, restarts = sync.next(), sync.places()[1], sync.stats()["restarts"]
    kill(sync, 1)
    with pytest.warns(RuntimeWarning) as caught:
        after = sync.next()
    (warning,) = caught
    assert str(warning.message) == (
        f"Worker 1 of 2 (actor {place['actor'][:8]}, process {place['pid']} on node {place['ip']} "
        f"({place['node'][:8]})) was lost in the middle of batch {sync.iterations}: its process has ended. A new actor "
        "collects its batch instead, from a reset, with the same weights; the steps of the lost one since its last "
        "batch are lost."
    )
    assert after["action"].unique().tolist() == [0.5] and sync.stats()["restarts"] == restarts + 1
    assert after["step_count"][0, 0] > 0 == after["step_count"][1, 0], "the other goes on"
    assert not set(before[IDS][1].tolist()) & set(after[IDS].flatten().tolist())
    assert sync.places()[0]["pid"] != sync.places()[1]["pid"] != place["pid"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(sync.next()[IDS], after[IDS])


# Asynchronous, and with a buffer in an actor --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def buffer(cluster):
    made = RayReplayBuffer(
        replay_buffer_cls=TensorDictPrioritizedReplayBuffer, alpha=0.7, beta=0.9, batch_size=4, remote_config=FREE,
        storage=partial(LazyTensorStorage, 300), timeout=120,
    )  # fmt: skip
    yield made
    made.shutdown()


def steps(n, first=0):
    return TensorDict({"a": torch.arange(first, first + n), "td_error": torch.ones(n)}, [n])


@pytest.fixture
def ten(buffer):
    """The buffer with ten items."""
    buffer.empty()
    buffer.set_storage(LazyTensorStorage(300))
    assert buffer.extend(steps(10)).tolist() == list(range(10))
    return buffer


def test_a_buffer_in_an_actor_has_the_methods_of_a_buffer(ten, tmp_path):
    assert len(ten) == 10 == ten.write_count and ten.batch_size == 4
    assert ten.add(TensorDict({"a": torch.tensor(10), "td_error": torch.tensor(1.0)}, [])) == 10
    assert ten[:]["a"].tolist() == list(range(11)) and ten[3]["a"] == 3 and ten["a"].shape == (11,)
    ten[3] = TensorDict({"a": torch.tensor(33), "td_error": torch.tensor(1.0)}, [])
    assert ten[3]["a"] == 33 and ten.can_sample(4) and ten.stats()["size"] == 11
    assert ten.read("storage.max_size") == 300 and ten.place()["pid"]
    ten.dumps(tmp_path / "saved")
    ten.empty()
    assert len(ten) == 0
    ten.loads(tmp_path / "saved")
    assert ten[:]["a"].tolist() == [0, 1, 2, 33, *range(4, 11)]
    state = ten.state_dict()
    ten.empty()
    ten.load_state_dict(state)
    assert len(ten) == 11
    assert repr(ten) == "RayReplayBuffer(replay_buffer_cls=TensorDictPrioritizedReplayBuffer)"


def test_samples_of_a_buffer_in_an_actor(ten):
    sample, info = ten.sample(5, return_info=True)
    assert sample.shape == (5,) and torch.equal(sample["a"], sample["index"]) and "priority_weight" in info
    ten.update_priority(torch.arange(10), torch.zeros(10))
    ten.update_tensordict_priority(ten[:].set("td_error", torch.eye(10)[6] * 1000))
    assert ten.sample(50)["a"].unique().tolist() == [6]
    sample["a"].fill_(0)  # a copy, which may be written to
    assert ten[:]["a"].tolist() == list(range(10))
    ten.set_sampler(SamplerWithoutReplacement())
    assert [batch["a"].numel() for batch in ten] == [4, 4, 4] or sum(1 for _ in ten) == 3
    first, second = iter(ten), iter(ten)
    assert next(first).shape == next(second).shape == (4,)
    ten.set_sampler(RandomSampler())
    ten.set_rng(torch.Generator().manual_seed(0))
    drawn = ten.sample(20)["a"]
    ten.set_rng(torch.Generator().manual_seed(0))
    assert torch.equal(ten.sample(20)["a"], drawn)


def test_errors_of_a_buffer_in_an_actor_are_its_own(ten):
    local = TensorDictReplayBuffer(storage=LazyTensorStorage(300))
    local.extend(steps(10))
    wrong = TensorDict({"b": torch.zeros(3)}, [3])
    with pytest.raises(ValueError) as here:
        local.extend(wrong)
    with pytest.raises(ValueError, match=f"^{re.escape(str(here.value))}$"):
        ten.extend(wrong)
    with pytest.raises(AttributeError) as caught:
        ten.sampler  # noqa: B018
    assert str(caught.value) == (
        "The sampler of a RayReplayBuffer is in its actor: a copy of it here would change nothing there. "
        "Fix: buffer.read('sampler.max_size') for an attribute, buffer.set_sampler(...) for another sampler."
    )
    assert len(ten) == 10


def test_actors_write_to_a_buffer_in_an_actor(cluster, buffer):
    buffer.set_storage(LazyTensorStorage(300))
    buffer.set_sampler(RandomSampler())
    policy = commanded()
    collector = RayCollector(
        counted, policy, frames_per_batch=10, total_frames=60, replay_buffer=buffer, remote_configs=FREE,
        track_policy_version=True, max_weight_update_interval=2, timeout=120,
    )  # fmt: skip
    try:
        # An actor may have written one batch more than was returned.
        assert collector.next() is None and len(buffer) - collector.frames in (0, 10)
        collector.next()
        received = collector.stats()["bytes_received"]
        with torch.no_grad():
            policy.module.value.fill_(0.5)
        assert list(itertools.islice(collector, 3)) == [None] * 3
        assert collector.stats()["bytes_received"] - received < 3000, "the data did not pass through this process"
        assert collector.frames == 50 and len(buffer) in (50, 60)
        rows = buffer[:]
        check_no_holes(rows)
        assert rows["action"].flatten().unique().tolist() == [0.0, 0.5], "weights were updated by themselves"
        collector.total_frames = 200
        collector.start()
        while collector.is_running() and len(buffer) < 100:
            time.sleep(0.01)
        with collector.pause():
            count = buffer.write_count
            time.sleep(0.1)
            assert buffer.write_count == count
        with torch.no_grad():
            policy.module.value.fill_(0.25)
        collector.update_policy_weights_()
        collector._background.join()
        assert collector.frames == buffer.write_count == 200 and buffer[:]["action"][-1] == 0.25
    finally:
        collector.async_shutdown()
    assert collector.stats()["workers_alive"] == 0


# Bytes ----------------------------------------------------------------------------------------------------------------

TOLERANCE = 0.02  # of a batch of 200 steps or more


def bytes_in_store(content):
    """The bytes of an object as Ray writes it to its store."""
    import ray

    context = ray._private.worker.global_worker.get_serialization_context()
    return context.serialize(pack(content)).total_bytes


@pytest.mark.parametrize(("name", "frames"), [("CartPole-v1", 200), ("Pendulum-v1", 1000), (PICTURES, 200)])
def test_bytes_of_a_batch_are_those_of_the_model(cluster, name, frames):
    batch = Collector(ENVS[name](), frames_per_batch=frames).next()
    model = estimate_traffic(Collector(ENVS[name](), frames_per_batch=2).fake_tensordict())
    assert model.of_batch(frames) == pytest.approx(bytes_in_store(batch), rel=TOLERANCE)


@pytest.mark.parametrize("name", POLICIES)
def test_bytes_of_an_update_are_those_of_the_model(cluster, name):
    traffic = estimate_traffic(TensorDict({"a": torch.zeros(3)}, [3]), POLICIES[name])
    assert traffic.update == pytest.approx(bytes_in_store(POLICIES[name].state_dict()), rel=TOLERANCE)


def test_what_comes_out_of_the_store_is_what_was_put(cluster):
    import ray

    batch = Collector(ENVS["CartPole-v1"](), frames_per_batch=50).next()
    batch["odd"] = torch.randn(50, 2, 3).transpose(1, 2)
    batch["half"], batch["empty"] = torch.randn(50).bfloat16(), torch.zeros(50, 0)
    again = unpack(ray.get(ray.put(pack(batch))))
    assert again.names == batch.names and set(again.keys(True, True)) == set(batch.keys(True, True))
    for key, value in batch.items(True, True):
        assert torch.equal(again[key], value) and again[key].dtype == value.dtype, key
        again[key].zero_()  # a copy: the store itself is read-only


def test_bytes_are_counted(sync):
    before = sync.stats()["bytes_received"]
    batch = sync.next()
    parts = sum(pack(part.clone()).nbytes for part in batch.unbind(0))
    assert sync.stats()["bytes_received"] - before == pytest.approx(
        parts, rel=0.25
    )  # two small ones, and their numbers


# Late actors, and the end ---------------------------------------------------------------------------------------------


def test_an_actor_that_hangs_is_named_in_time(sync):
    sync._workers._pool.timeout = 5.0
    place = sync.places()[0]
    sync.update_policy_weights_(commanded(HANG), worker_ids=[0])
    start = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        sync.next()
    assert time.monotonic() - start < 30
    assert str(caught.value) == (
        f"Worker 0 of 2 (actor {place['actor'][:8]}, process {place['pid']} on node {place['ip']} "
        f"({place['node'][:8]})) did not finish batch {sync.iterations + 1} within 5 s. All workers were ended; "
        "collector.next() starts new ones. If it takes that long, give more time: RayCollector(..., timeout=600)."
    )
    assert sync.stats()["workers_alive"] == 0 and sync.places() == [None, None]


def test_a_buffer_that_was_shut_down(buffer):
    assert buffer.append_transform(RewardScaling(0, 2, in_keys=["a"])) is buffer
    buffer.shutdown()
    with pytest.raises(RuntimeError) as caught:
        len(buffer)
    assert str(caught.value) == (
        "len was called on a RayReplayBuffer after shutdown(), with which its actor has ended. "
        "Fix: RayReplayBuffer(...) makes a new one."
    )
    assert repr(buffer) == "RayReplayBuffer(replay_buffer_cls=TensorDictPrioritizedReplayBuffer, shut down)"
