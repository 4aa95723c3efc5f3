"""Options of collectors on several processes, buffers, collection in the background, seeds and state dicts."""

from __future__ import annotations

import os
import time

import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import AsyncCollector, Collector, MultiAsyncCollector, MultiSyncCollector
from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    SliceSampler,
    TensorDictReplayBuffer,
)
from rlnb.envs import GymEnv, ParallelEnv, SerialEnv, StepCounter, TransformedEnv, VecNorm
from tests.collectors.multi.making import IDS, constant, counted, linear, pole, shut, wait_for
from tests.collectors.test_lost_batches import check_no_holes
from tests.pairwise import sampled


def scored():
    net = nn.Linear(4, 2)
    return TensorDictModule(
        lambda seen: (nn.functional.one_hot(net(seen).argmax(-1), 2), net(seen).detach()),
        ["observation"],
        ["action", ("scores", "values")],
    )


# Options --------------------------------------------------------------------------------------------------------------


def test_longest_trajectory_resets_and_truncation():
    with shut(MultiSyncCollector([lambda: GymEnv("Pendulum-v1")] * 2, frames_per_batch=40, max_frames_per_traj=6)) as c:
        ends = c.next()["next", "truncated"][..., 0]
        assert [row.nonzero().flatten().tolist() for row in ends] == [[5, 11, 17]] * 2
    with shut(MultiSyncCollector([counted] * 2, frames_per_batch=10, reset_at_each_iter=True, set_truncated=True)) as c:
        for i in range(3):
            batch = c.next()
            assert batch["step_count"][..., 0].tolist() == [[0, 1, 2, 3, 4]] * 2
            assert batch["next", "truncated"][..., 0].tolist() == [[False] * 4 + [True]] * 2
            assert batch[IDS][:, 0].tolist() == [2 * i, 2 * i + 1]


def test_split_trajectories_come_first_and_postproc_runs_here():
    seen = []
    collector = MultiSyncCollector(
        [pole] * 2,
        frames_per_batch=80,
        split_trajs=True,
        postproc=lambda batch: seen.append((os.getpid(), batch.shape)) or batch.set("one", torch.ones(batch.shape)),
    )
    with shut(collector):
        batch = collector.next()
    assert seen == [(os.getpid(), batch.shape)] and batch["one"].all()
    mask = batch["collector", "mask"]
    assert int(mask.sum()) == 80
    assert all(len(row[valid].unique()) == 1 for row, valid in zip(batch[IDS], mask, strict=True))


def test_what_the_policy_writes_and_random_frames():
    policy = scored()
    with shut(MultiSyncCollector([pole] * 2, policy, frames_per_batch=8, init_random_frames=8)) as collector:
        assert not collector.next()["scores", "values"].any()
        assert collector.next()["scores", "values"].shape == (2, 4, 2)
        fake, real = collector.fake_tensordict(), collector.next()
        assert set(fake.keys(True, True)) == set(real.keys(True, True)) and fake.shape == real.shape


def test_devices_and_parallel_envs_inside():
    options = {"frames_per_batch": 16, "device": "cpu", "env_device": ["cpu", None], "storing_device": "cpu"}
    with shut(MultiSyncCollector([lambda: SerialEnv(2, pole), lambda: ParallelEnv(2, pole)], **options)) as collector:
        batch = collector.next()
        assert batch.shape == (2, 2, 4) and batch.device == torch.device("cpu")
    with pytest.raises(ValueError, match=r"^MultiSyncCollector joins the batches of its workers on one device, got "):
        MultiSyncCollector([pole] * 2, frames_per_batch=4, storing_device=["cpu", "meta"])


def test_envs_whose_shapes_change():
    from tests.envs.dynamic import EnvWithDynamicSpec

    with shut(MultiSyncCollector([EnvWithDynamicSpec] * 2, frames_per_batch=10)) as collector:
        for _ in range(3):
            batch = collector.next()
            shapes = {row["observation"].shape for env in batch.unbind(0) for row in env.unbind(-1)}
            assert all(shape[0] == 3 and shape[2] == 2 for shape in shapes)
    with shut(AsyncCollector(EnvWithDynamicSpec, frames_per_batch=5)) as collector:
        assert [collector.next().shape for _ in range(3)] == [(5,)] * 3


def test_hooks_and_init():
    calls = []
    collector = MultiSyncCollector(
        [counted] * 2,
        frames_per_batch=4,
        init_fn=lambda: os.environ.update(RLNB_TEST="here"),
        policy_factory=lambda: constant(0.5 if os.environ.get("RLNB_TEST") == "here" else 0.0),
        pre_collect_hook=lambda: calls.append("before"),
        post_collect_hook=lambda batch: calls.append(batch.shape),
    )
    with shut(collector):
        assert collector.next()["action"].unique().tolist() == [0.5]
    assert calls == ["before", (2, 2)] and "RLNB_TEST" not in os.environ


class Waits(GymEnv):
    """A pendulum whose steps take time."""

    def __init__(self, seconds):
        super().__init__("Pendulum-v1")
        self.seconds = seconds

    def _step(self, tensordict):
        time.sleep(self.seconds)
        return super()._step(tensordict)


@pytest.mark.parametrize("factor", [1, 2])
def test_workers_that_do_not_finish_their_batch(factor):
    envs = [lambda: TransformedEnv(Waits(0.0), StepCounter()), lambda: TransformedEnv(Waits(0.05), StepCounter())]
    options = {"frames_per_batch": 80 * factor, "cat_results": -1, "preemptive_threshold": 0.5}
    with shut(MultiSyncCollector(envs, **options)) as collector:
        batches = [collector.next() for _ in range(3)]
        for batch in batches:
            first, second = (batch[batch[IDS] % 2 == rank] for rank in range(2))
            assert len(first) == 40 * factor and 0 < len(second) < 40 * factor
        assert collector.frames == sum(map(len, batches))
        slow = torch.cat([batch[batch[IDS] % 2 == 1] for batch in batches])
        assert slow["step_count"].flatten().tolist() == list(range(len(slow)))


def test_resets_of_some_workers():
    with shut(MultiSyncCollector([counted] * 2, frames_per_batch=6)) as collector:
        collector.next()
        for index, expected in ((1, [3, 0]), ([True, False], [0, 3]), (None, [0, 0]), (slice(0, 0), [3, 3])):
            collector.reset(index)
            assert collector.next()["step_count"][:, 0, 0].tolist() == expected
        with pytest.raises(IndexError) as caught:
            collector.reset(2)
        assert str(caught.value) == (
            "index must select workers of 2, got 2. Fix: collector.reset(0), or a slice, a list of integers or a mask "
            "for several workers."
        )


def test_models_and_attributes():
    policy = linear()
    buffer = ReplayBuffer(storage=LazyTensorStorage(10))
    with shut(MultiSyncCollector([counted] * 2, policy, frames_per_batch=6, replay_buffer=buffer)) as collector:
        assert collector.get_model("policy.module") is policy.module and collector.getattr_policy("module")
        assert collector.getattr_rb("write_count") == 0 and collector.getattr_env("batch_size") == [torch.Size([])] * 2
        with pytest.raises(ValueError, match=r"^The collector has no model 'env'\. Its policy is a TensorDictModule"):
            collector.get_model("env")
        with pytest.raises(NotImplementedError, match=r"^MultiSyncCollector\.enable_profile\(\) is not supported"):
            collector.enable_profile()


# Buffers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("storage", "kind"),
    sampled([LazyMemmapStorage, LazyTensorStorage, ListStorage], [MultiSyncCollector, MultiAsyncCollector], strength=1),
)
def test_buffers_get_the_batch_of_each_worker(kind, storage):
    sampler = SliceSampler(slice_len=4, traj_key=IDS) if storage is not ListStorage else None
    rb = TensorDictReplayBuffer(storage=storage(1000), sampler=sampler, batch_size=32)
    frames = 20 if kind is MultiSyncCollector else 10
    with shut(kind([counted] * 2, frames_per_batch=frames, total_frames=80, replay_buffer=rb)) as collector:
        assert list(collector) == [None] * (80 // frames)
        assert collector._workers.write_themselves == (storage is LazyMemmapStorage)
    assert collector.frames == 80 and 80 <= len(rb) <= 100 and len(rb) % 10 == 0
    rows = rb[:] if storage is not ListStorage else torch.stack(list(rb[:]))
    for rank in range(2):
        check_no_holes(rows[rows[IDS] % 2 == rank])
    if sampler is not None:
        steps = rb.sample()["step_count"].reshape(-1, 4)
        assert (steps.diff(dim=1) == 1).all()


@pytest.mark.parametrize("shared", [False, True])
def test_postproc_and_split_before_a_buffer(shared):
    storage = LazyMemmapStorage(1000) if shared else LazyTensorStorage(1000)
    rb = TensorDictReplayBuffer(storage=storage)
    collector = MultiSyncCollector(
        [counted] * 2,
        frames_per_batch=20,
        replay_buffer=rb,
        split_trajs=True,
        postproc=lambda batch: batch.set("rows", torch.full(batch.batch_size, batch.batch_size[0])),
    )
    with shut(collector):
        collector.next()
        collector.next()
        assert collector._workers.write_themselves == shared
    assert rb[:].batch_size == (4, 10) and rb[:]["rows"].unique().tolist() == [1]


@pytest.mark.parametrize("shared", [False, True])
def test_single_steps(shared):
    def steps(collector, rb):
        collector.set_seed(0)
        collector.next()
        return rb[:]

    def make():
        return SerialEnv(3, counted)

    rb = ReplayBuffer(storage=LazyTensorStorage(100))
    single = steps(Collector(make(), frames_per_batch=12, replay_buffer=rb, extend_buffer=False), rb)
    assert single.shape == (12,) and single["step_count"].flatten().tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    rb = ReplayBuffer(storage=LazyMemmapStorage(100) if shared else LazyTensorStorage(100))
    with shut(MultiSyncCollector([make], frames_per_batch=12, replay_buffer=rb, extend_buffer=False)) as collector:
        assert (steps(collector, rb) == single).all()
    rb = ReplayBuffer(storage=LazyTensorStorage(100))
    with shut(MultiSyncCollector([make], frames_per_batch=12, replay_buffer=rb)) as collector:
        assert steps(collector, rb).shape == (3, 4)


def test_a_batch_that_cannot_be_written_is_lost():
    class Full(list):
        def extend(self, batch):
            if len(self) == 2:
                self.append(None)
                raise OSError("disk full")
            self.append(batch)

    rb = Full()
    with shut(MultiSyncCollector([counted] * 2, frames_per_batch=4, replay_buffer=rb)) as collector:
        collector.next()
        with pytest.raises(OSError, match="disk full"):
            collector.next()
        assert (collector.frames, collector.iterations) == (4, 1)
        collector.next()
        assert [int(batch["step_count"][0]) for batch in rb[3:]] == [0, 0] and collector.frames == 8


# In the background ----------------------------------------------------------------------------------------------------


def make_running(kind, rb, policy=None, total=-1):
    if kind is Collector:
        return Collector(counted(), policy, frames_per_batch=10, replay_buffer=rb, total_frames=total)
    if kind is AsyncCollector:
        return AsyncCollector(counted, policy, frames_per_batch=10, replay_buffer=rb, total_frames=total)
    return kind([counted] * 2, policy, frames_per_batch=20, replay_buffer=rb, total_frames=total)


EVERY_KIND = [Collector, MultiSyncCollector, MultiAsyncCollector, AsyncCollector]
every_kind = pytest.mark.parametrize("kind", EVERY_KIND)


@pytest.mark.parametrize(("kind", "storage"), sampled(EVERY_KIND, [LazyTensorStorage, LazyMemmapStorage], strength=1))
def test_collection_in_the_background(kind, storage):
    policy = constant(0.0)
    rb = TensorDictReplayBuffer(storage=storage(100_000), batch_size=4)
    collector = make_running(kind, rb, policy)
    try:
        with pytest.raises(RuntimeError) as caught:
            collector.pause().__enter__()
        name = kind.__name__
        assert str(caught.value) == (
            f"{name}.pause() pauses a collector that runs in the background, and it does not. "
            "Fix: collector.start() first."
        )
        collector.start()
        wait_for(lambda: len(rb) > 40)
        assert collector.is_running() and rb.sample().shape == (4,)
        with pytest.raises(RuntimeError) as caught:
            collector.next()
        assert str(caught.value) == (
            f"The {name} collects in the background, into its replay buffer, and next() would take a batch from it. "
            "Fix: replay_buffer.sample(), or collector.async_shutdown() first."
        )
        with pytest.raises(RuntimeError, match=rf"^The {name} runs already\. Fix: collector\.async_shutdown\(\) first"):
            collector.start()
        with collector.pause():
            size = rb.write_count
            time.sleep(0.05)
            assert rb.write_count == size
        with torch.no_grad():
            policy.module.value.fill_(0.5)
        before = len(rb)
        wait_for(lambda: len(rb) > before + 40)
        assert (rb[:]["action"] == 0.0).all(), "the learner's policy is not that of the thread"
        collector.update_policy_weights_()
        collector.state_dict()
        before = len(rb)
        wait_for(lambda: len(rb) > before + 60)
        collector.async_shutdown()
        assert not collector.is_running() and (rb[:]["action"][-10:] == 0.5).all()
        rows = rb[:]
        for rank in range(2 if kind in (MultiSyncCollector, MultiAsyncCollector) else 1):
            own = rows if kind in (Collector, AsyncCollector) else rows[rows[IDS] % 2 == rank]
            assert ((own[IDS].diff() == 0).all() and (own["step_count"].flatten().diff() == 1).all()) or len(own) > 200
    finally:
        collector.shutdown()


@every_kind
def test_the_background_ends_with_the_frames(kind):
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(1000))
    collector = make_running(kind, rb, total=60)
    try:
        collector.start()
        wait_for(lambda: not collector.is_running())
        assert len(rb) == 60 == collector.frames
    finally:
        collector.shutdown()


@every_kind
def test_the_background_needs_a_buffer_and_reports_its_errors(kind):
    collector = make_running(kind, None)
    with shut(collector), pytest.raises(RuntimeError) as caught:
        collector.start()
    name = kind.__name__
    assert str(caught.value) == (
        f"{name}.start() collects into a replay buffer, and there is none. "
        f"Fix: {name}(..., replay_buffer=ReplayBuffer(storage=LazyTensorStorage(1000)))."
    )

    class Full(list):
        def extend(self, batch):
            raise OSError("disk full")

    collector = make_running(kind, Full())
    collector.start()
    wait_for(lambda: not collector.is_running())
    with pytest.raises(OSError, match="disk full"):
        collector.async_shutdown()
    collector.shutdown()


# Seeds and state dicts ------------------------------------------------------------------------------------------------


def test_seeds():
    with shut(MultiSyncCollector([pole] * 2, frames_per_batch=20)) as collector:
        following = collector.set_seed(5)
        first = collector.next().exclude("collector")
        collector.next()
        assert collector.set_seed(5) == following != 5
        assert bool((collector.next().exclude("collector") == first).all())
        assert not (first[0] == first[1])["observation"].all()
        assert collector.set_seed(5, static_seed=True) == 5
        first = collector.next().exclude("collector")
        assert bool((first[0] == first[1]).all())


def stateful():
    return TransformedEnv(TransformedEnv(GymEnv("CartPole-v1"), StepCounter()), VecNorm(in_keys=["observation"]))


@pytest.mark.parametrize(
    ("kind", "buffers"), sampled([MultiSyncCollector, MultiAsyncCollector], [True, False], strength=1)
)
def test_a_collector_goes_on_from_a_state(kind, buffers):
    def make(policy):
        return kind([stateful] * 2, policy, frames_per_batch=20, total_frames=100, use_buffers=buffers)

    net = TensorDictModule(nn.Linear(4, 2), ["observation"], ["action"])
    with shut(make(net)) as one, shut(make(TensorDictModule(nn.Linear(4, 2), ["observation"], ["action"]))) as two:
        with torch.no_grad():
            net.module.weight.zero_()
            net.module.bias.copy_(torch.tensor([0.0, 1.0]))
        one.update_policy_weights_()
        before = [one.next(), one.next()]
        state = one.state_dict()
        assert list(state) == ["worker0", "worker1", "policy_state_dict", "frames", "iter", "policy_version"]
        after = one.next()  # the state has taken no batch from it
        for rank in range(2):
            mine = [batch.reshape(-1) for batch in (*before, after)]
            rows = torch.cat([batch[batch[IDS] % 2 == rank] for batch in mine])
            check_no_holes(rows) if len(rows) else None
        two.load_state_dict(state)
        assert (two.frames, two.iterations, two.policy_version) == (40, 2, 1)
        assert torch.equal(two.policy.module.weight, net.module.weight)
        batches = list(two)
        assert len(batches) == 3 and two.frames == 100
        used = set(torch.cat([batch[IDS].flatten() for batch in before]).tolist())
        given = torch.cat([batch[IDS].flatten() for batch in batches])
        assert not used & set(given.tolist()) and torch.cat([b["action"].reshape(-1, 2) for b in batches])[:, 1].all()
        found = two.state_dict()
        for name in ("worker0", "worker1"):
            saved, loaded = state[name]["env_state_dict"], found[name]["env_state_dict"]
            assert saved.keys() == loaded.keys() and saved, "nothing of the env is saved"


def test_weights_of_a_state_are_loaded_though_their_version_is_the_same():
    with shut(MultiSyncCollector([counted] * 2, constant(0.5), frames_per_batch=4)) as one:
        state = one.state_dict()
    with shut(MultiSyncCollector([counted] * 2, constant(-0.5), frames_per_batch=4)) as two:
        assert two.next()["action"].unique().tolist() == [-0.5]
        two.load_state_dict(state)
        assert two.next()["action"].unique().tolist() == [0.5] and two.policy_version == 0


def test_a_state_that_does_not_fit_changes_nothing():
    with (
        shut(MultiSyncCollector([stateful] * 2, constant(), frames_per_batch=4)) as one,
        shut(MultiSyncCollector([counted] * 2, linear(), frames_per_batch=4)) as other,
    ):
        state = one.state_dict()
        with pytest.raises(KeyError) as caught:
            one.load_state_dict({key: value for key, value in state.items() if key != "worker1"})
        assert caught.value.args == (
            "The state dict of a collector with 2 workers must have ['worker0', 'worker1', 'frames', 'iter', "
            "'policy_version', 'policy_state_dict'], got one without ['worker1'].",
        )
        with pytest.raises(RuntimeError, match=r"^The weights do not fit the policy"):
            one.load_state_dict(other.state_dict())
        broken = {**state, "frames": 100, "worker1": {**state["worker1"], "env_state_dict": {"other": torch.ones(1)}}}
        with pytest.raises(RuntimeError, match=r"^Worker 1 of 2 failed in load_state_dict: "):
            one.load_state_dict(broken)
        assert one.frames == 0
