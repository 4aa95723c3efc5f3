"""Batches that are prefetched by threads."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    ImmutableDatasetWriter,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    ReplayBufferEnsemble,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictPrioritizedReplayBuffer,
    TensorStorage,
)
from tests.data.replay_buffers.worlds import as_tensordict


def test_prefetched_batches_are_those_that_would_come_anyway() -> None:
    def batches(prefetch: int | None) -> list[list[int]]:
        rb = ReplayBuffer(
            storage=LazyTensorStorage(100),
            batch_size=5,
            prefetch=prefetch,
            generator=torch.Generator().manual_seed(3),
            transform=lambda data: time.sleep(0.002 * float(data[0] % 3)) or data,
        )
        rb.extend(torch.arange(100))
        found = [rb.sample().tolist() for _ in range(12)]
        rb.shutdown()
        return found

    assert batches(None) == batches(1) == batches(4)


def test_prefetching_prepares_batches_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=20)

    def meet(data: torch.Tensor) -> torch.Tensor:
        barrier.wait()
        return data

    rb = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=2, prefetch=3, transform=meet)
    rb.extend(torch.arange(10))
    assert len(rb.sample()) == 2  # it returns only if three were under way at once
    barrier.abort()
    rb.shutdown()


@pytest.mark.parametrize("kind", ["buffer", "ensemble"])
def test_a_batch_on_its_way_is_what_was_there_when_it_was_drawn(kind: str) -> None:
    storage, written = LazyTensorStorage(100), threading.Event()
    gather = storage.gather

    def gather_late(index: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            written.wait(5)
        return gather(index)

    storage.gather = gather_late
    own = {"batch_size": 8, "prefetch": 2}
    rb = ReplayBuffer(storage=storage, sampler=SliceSampler(slice_len=4, traj_key="episode"), **own)
    sampled = rb if kind == "buffer" else ReplayBufferEnsemble(rb, **own)
    steps = torch.arange(100)
    rb.extend(TensorDict({"step": steps, "episode": steps // 10}, [100]))
    sampled.sample()  # draws the next one, too
    rb.extend(TensorDict({"step": steps + 1000, "episode": steps // 10 + 100}, [100]))
    written.set()
    for low, high in ((0, 100), (1000, 1100)):
        slices = sampled.sample()["step"].reshape(-1, 4)
        assert (slices.diff(dim=1) == 1).all() and low <= slices.min() and slices.max() < high
    sampled.shutdown()


def test_what_nobody_writes_is_read_by_the_threads() -> None:
    storage, threads = TensorStorage(torch.arange(10)), set()
    gather = storage.gather

    def watched(index: Any) -> Any:
        threads.add(threading.current_thread())
        return gather(index)

    storage.gather = watched
    rb = ReplayBuffer(storage=storage, writer=ImmutableDatasetWriter(), batch_size=4, prefetch=2)
    assert len(rb.sample()) == len(rb.sample()) == 4
    assert threads and threading.main_thread() not in threads
    rb.shutdown()


@pytest.mark.parametrize("prefetch", [1, 3])
def test_iteration_with_prefetching_gives_each_element_once(prefetch: int) -> None:
    rb = ReplayBuffer(storage=ListStorage(20), sampler=SamplerWithoutReplacement(), batch_size=3, prefetch=prefetch)
    rb.extend(torch.arange(10))
    for _ in range(3):
        batches = list(rb)
        assert rb.sampler.ran_out  # nothing of the next pass was drawn
        assert [len(batch) for batch in batches] == [3, 3, 3, 1]
        assert torch.cat(batches).sort().values.tolist() == list(range(10))
    rb.empty()
    rb.extend(torch.arange(100, 103))
    assert rb.sample().sort().values.tolist() == [100, 101, 102]  # nothing from before is left over
    rb.shutdown()


def test_a_batch_of_another_size_is_drawn_at_once() -> None:
    sampler = SamplerWithoutReplacement(shuffle=False)
    rb = ReplayBuffer(storage=LazyTensorStorage(20), sampler=sampler, prefetch=1, batch_size=4)
    rb.extend(torch.arange(20))
    assert rb.sample().tolist() == [0, 1, 2, 3]
    assert rb.sample(3).tolist() == [4, 5, 6] and rb.sample(4).tolist() == [7, 8, 9, 10]
    rb.shutdown()


def test_prefetching_needs_a_fixed_batch_size() -> None:
    with pytest.raises(ValueError) as caught:
        ReplayBuffer(prefetch=2)
    assert str(caught.value) == (
        "Prefetching needs to know the batch size in advance. Fix: pass batch_size=32 to the constructor, too."
    )
    rb = ReplayBuffer(prefetch=2, batch_size=4)
    rb.extend(list(range(9)))
    rb.shutdown()


def test_a_buffer_that_is_forgotten_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    rb = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=2, prefetch=2)
    rb.extend(torch.arange(5))
    rb.sample()
    assert set(threading.enumerate()) - before
    del rb
    for _ in range(200):
        gc.collect()  # a thread that is at work keeps the buffer until it is done
        if not set(threading.enumerate()) - before:
            return
        time.sleep(0.01)
    raise AssertionError(f"threads are left: {set(threading.enumerate()) - before}")


def waits_for(call: Callable[[], Any]) -> Any:
    """What a call returns that must not take longer than half a minute, in a thread that may hang."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(30)
    assert found, "it hangs"
    return found[0]


@pytest.mark.parametrize("prefetch", [None, 1, 3])
@pytest.mark.parametrize(
    "use",
    [
        lambda rb, data: rb.update_priority(data["index"], torch.ones(len(data))),
        lambda rb, data: rb.extend(as_tensordict(torch.arange(2))),
        lambda rb, data: rb.__setitem__(data["index"], data.exclude("index", "priority_weight")),
        lambda rb, data: rb[:],
    ],
)
def test_a_transform_can_use_its_own_buffer(prefetch: int | None, use: Callable[[Any, Any], Any]) -> None:
    rb = TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, storage=LazyTensorStorage(10), batch_size=4, prefetch=prefetch
    )
    rb.extend(as_tensordict(torch.arange(10)))
    inside = threading.local()

    def transform(data: TensorDict) -> TensorDict:
        if not getattr(inside, "busy", False):  # rb[:] comes through here as well
            inside.busy = True
            use(rb, data)
            inside.busy = False
        return data

    rb.append_transform(transform)
    assert [len(waits_for(rb.sample)) for _ in range(6)] == [4] * 6
    rb.shutdown()


def test_batches_drawn_ahead_in_inference_mode_can_be_learned_from() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4, prefetch=2)
    rb.extend(torch.randn(10, 3))
    with torch.inference_mode():
        rb.sample()
    weights = torch.ones(3, requires_grad=True)
    for _ in range(3):
        (rb.sample() * weights).sum().backward()
    rb.shutdown()


# What was drawn and not given yet -------------------------------------------------------------------------------------


def passing(ensemble: bool = False, **kwargs: Any) -> ReplayBuffer:
    """A buffer of 12 numbers that are drawn once a pass, in order; or two of six, one after the other."""
    members = []
    for first in (0, 6) if ensemble else (0,):
        sampler = SamplerWithoutReplacement(shuffle=False)
        members.append(ReplayBuffer(storage=LazyTensorStorage(12), sampler=sampler, batch_size=2, **kwargs))
        members[-1].extend(torch.arange(first, first + (6 if ensemble else 12)))
    return ReplayBufferEnsemble(*members, batch_size=4, sample_from_all=True, prefetch=2) if ensemble else members[0]


def through_checkpoint(rb: ReplayBuffer, path: Path) -> ReplayBuffer:
    rb.dumps(path)
    other = passing(isinstance(rb, ReplayBufferEnsemble), **({} if isinstance(rb, ReplayBufferEnsemble) else PREFETCH))
    other.loads(path)
    return other


def through_state(rb: ReplayBuffer, path: Path) -> ReplayBuffer:
    other = passing(isinstance(rb, ReplayBufferEnsemble), **({} if isinstance(rb, ReplayBufferEnsemble) else PREFETCH))
    torch.save(rb.state_dict(), path / "state")
    other.load_state_dict(torch.load(path / "state", weights_only=True))
    return other


def shut_down(rb: ReplayBuffer, path: Path) -> ReplayBuffer:
    rb.shutdown()
    return rb


PREFETCH = {"prefetch": 3}


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize(
    "go_on",
    [
        through_checkpoint,
        through_state,
        shut_down,
        lambda rb, path: rb.append_transform(lambda data: data),
        lambda rb, path: copy.deepcopy(rb),
        lambda rb, path: pickle.loads(pickle.dumps(rb)),
        lambda rb, path: rb,
    ],
)
def test_what_was_drawn_ahead_still_comes(ensemble: bool, go_on: Any, tmp_path: Path) -> None:
    rb = passing(ensemble, **({} if ensemble else PREFETCH))
    given = [rb.sample()]
    rb = go_on(rb, tmp_path)
    given += list(rb)
    assert torch.cat(given).reshape(-1).sort().values.tolist() == list(range(12))
    assert given[1].reshape(-1).tolist() == ([2, 3, 8, 9] if ensemble else [2, 3])
    rb.shutdown()


def test_batches_on_their_way_go_through_a_transform_that_came_later() -> None:
    rb = passing(prefetch=3)
    assert rb.sample().tolist() == [0, 1]
    rb.append_transform(lambda data: data + 100)
    assert rb.sample().tolist() == [102, 103]
    rb.shutdown()


def test_a_checkpoint_is_as_exact_with_batches_ahead(tmp_path: Path) -> None:
    def make(seed: int) -> ReplayBuffer:
        rb = ReplayBuffer(
            storage=LazyTensorStorage(1000), batch_size=5, prefetch=3, generator=torch.Generator().manual_seed(seed)
        )
        rb.extend(torch.arange(1000))
        return rb

    rb, other = make(0), make(1)
    rb.sample()
    rb.dumps(tmp_path)
    other.sample()
    other.loads(tmp_path)
    assert all(torch.equal(rb.sample(), other.sample()) for _ in range(8))
    rb.shutdown()
    other.shutdown()


@pytest.mark.parametrize("ahead", [[(torch.tensor([3, 12]), {}, False)], [(torch.tensor([-1, 0]), {}, False)], [(3,)]])
def test_prefetched_batches_with_invalid_positions_are_dropped(ahead: Any) -> None:
    rb = passing(prefetch=2)
    state = rb.state_dict()
    rb.load_state_dict({**state, "_ahead": ahead})
    assert rb.sample().tolist() == [0, 1]
    rb.shutdown()


def test_batches_ahead_of_another_size_are_left() -> None:
    rb, other = (
        passing(prefetch=2),
        ReplayBuffer(
            storage=LazyTensorStorage(12), sampler=SamplerWithoutReplacement(shuffle=False), batch_size=5, prefetch=2
        ),
    )
    rb.sample()
    other.load_state_dict(rb.state_dict())
    assert other.sample().shape == (5,)
    rb.shutdown()
    other.shutdown()
