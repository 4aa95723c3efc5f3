"""Components that are replaced: they forget the items of their old buffer."""

from __future__ import annotations

import copy
import gc
import math
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict, tensorclass

from rlnb.data import (
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    PrioritizedSliceSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    RoundRobinWriter,
    SamplerWithoutReplacement,
    Storage,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorStorage,
)
from tests.data.replay_buffers.interrupting import interrupted


def prioritized(storage: Storage, most: int = 100) -> ReplayBuffer:
    return ReplayBuffer(storage=storage, sampler=PrioritizedSampler(most, alpha=1.0, beta=1.0, eps=0.0), batch_size=64)


def scores(*values: float) -> TensorDict:
    return TensorDict({"score": torch.tensor(values)}, [len(values)])


# Storages and samplers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 100])
def test_another_storage_begins_with_new_priorities(size: int) -> None:
    rb = prioritized(LazyTensorStorage(100))
    rb.extend(torch.arange(100))
    rb.update_priority(torch.arange(100), torch.full((100,), 7.0))
    rb.set_storage(LazyTensorStorage(size))
    rb.extend(torch.arange(1000, 1005))
    assert set(rb.sample().tolist()) <= set(range(1000, 1005))
    assert rb.sampler.state_dict()["priorities"].tolist() == [1.0] * 5


def test_another_storage_begins_another_pass() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(9), sampler=SamplerWithoutReplacement(shuffle=False), batch_size=2)
    rb.extend(torch.arange(9))
    rb.sample()
    rb.set_storage(LazyTensorStorage(9))
    rb.extend(torch.arange(20, 29))
    assert rb.sample().tolist() == [20, 21]


def test_the_same_storage_again_changes_nothing() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(9), sampler=SamplerWithoutReplacement(shuffle=False), batch_size=2)
    rb.extend(torch.arange(9))
    rb.sample()
    rb.set_storage(rb.storage)
    assert rb.sample().tolist() == [2, 3]


@pytest.mark.parametrize("lost", [True, False])
def test_a_sampler_of_a_buffer_that_is_gone_begins_anew(lost: bool) -> None:
    rb = prioritized(LazyTensorStorage(100))
    rb.extend(torch.arange(50))
    rb.update_priority(torch.arange(50), torch.zeros(50))
    sampler = rb.sampler
    if lost:
        del rb
        gc.collect()
    else:
        rb.set_sampler(PrioritizedSampler(100, alpha=1.0, beta=1.0))
    other = ReplayBuffer(storage=LazyTensorStorage(60), sampler=sampler, batch_size=8)
    other.extend(torch.arange(60))
    assert len(other.sample()) == 8 and sampler.state_dict()["priorities"].tolist() == [1.0] * 60


def test_a_sampler_that_was_loaded_keeps_its_state(tmp_path: Any) -> None:
    rb = prioritized(LazyTensorStorage(4))
    rb.extend(torch.arange(4))
    rb.update_priority(torch.arange(4), torch.tensor([0.0, 0.0, 5.0, 0.0]))
    rb.sampler.dumps(tmp_path)
    sampler = PrioritizedSampler(4, alpha=1.0, beta=1.0, eps=0.0)
    sampler.loads(tmp_path)
    other = ReplayBuffer(storage=TensorStorage(torch.arange(4)), sampler=sampler, batch_size=5)
    assert other.sample().tolist() == [2] * 5


def _empty_and_fill(rb: ReplayBuffer) -> None:
    rb.empty()
    rb.extend(torch.arange(1000, 1003))


def test_what_another_process_emptied_is_not_drawn() -> None:
    rb = prioritized(LazyMemmapStorage(100))
    rb.extend(torch.arange(100))
    rb.sample()
    process = multiprocessing.get_context("fork").Process(target=_empty_and_fill, args=(rb,))
    process.start()
    process.join()
    batch, info = rb.sample(return_info=True)
    assert set(batch.tolist()) == {1000, 1001, 1002} and int(info["index"].max()) == 2


def test_slices_are_drawn_where_the_storage_is_shorter() -> None:
    sampler = PrioritizedSliceSampler(9, alpha=1.0, beta=1.0, slice_len=2, end_key="done", truncated_key=None)
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(9), sampler=sampler, batch_size=4)
    done = torch.zeros(9, dtype=torch.bool)
    rb.extend(TensorDict({"done": done}, [9]))
    rb.sample()
    rb.storage.load_state_dict({**rb.storage.state_dict(), "length": 0, "cursor": 0, "columns": [done[:0, None][:, 0]]})
    rb.storage.append(rb.storage.prepare(TensorDict({"done": done[:3]}, [3]), True))
    assert set(rb.sample()["index"].tolist()) <= {0, 1, 2}


# Writers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LazyTensorStorage, ListStorage, LazyMemmapStorage])
def test_a_writer_ranks_what_was_there_before(kind: Callable[[int], Storage]) -> None:
    rb = TensorDictReplayBuffer(storage=kind(3))
    rb.extend(scores(5, 1, 7))
    rb.set_writer(TensorDictMaxValueWriter("score"))
    assert rb.extend(scores(0, 6)).tolist() == [-1, 1]
    assert rb[:]["score"].tolist() == [5, 6, 7]


def test_a_full_container_is_ranked() -> None:
    storage = TensorStorage(scores(5, 6, 7))
    rb = TensorDictReplayBuffer(storage=storage, writer=TensorDictMaxValueWriter("score"))
    assert rb.extend(scores(0, 1)).tolist() == [-1, -1] and rb.add(scores(8)[0]) == 0
    assert rb[:]["score"].tolist() == [8, 6, 7]


def test_a_part_filled_storage_goes_on() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(4))
    rb.extend(scores(3, 9))
    rb.set_writer(TensorDictMaxValueWriter("score"))
    assert rb.extend(scores(1, 2, 4)).tolist() == [-1, 3, 2]  # 1 had a place for a moment, which 4 took
    assert rb[:]["score"].tolist() == [3, 9, 4, 2]


def test_ranks_follow_what_is_written_over() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter("score"))
    rb.extend(scores(1, 2))
    rb[0] = scores(100)[0]
    assert rb.extend(scores(5)).tolist() == [1] and rb[:]["score"].tolist() == [100, 5]
    for index, values in ((0, scores(math.nan)[0]), (slice(2), scores(1, math.nan))):
        with pytest.raises(ValueError, match="NaN"):
            rb[index] = values
    assert rb[:]["score"].tolist() == [100, 5]


def _extend(rb: ReplayBuffer, values: TensorDict) -> None:
    rb.extend(values)


def test_ranks_follow_another_process() -> None:
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(3), writer=TensorDictMaxValueWriter("score"))
    rb.extend(scores(1, 2, 3))
    process = multiprocessing.get_context("fork").Process(target=_extend, args=(rb, scores(10, 20)))
    process.start()
    process.join()
    rb.extend(scores(5))
    assert sorted(rb[:]["score"].tolist()) == [5, 10, 20]


def test_another_storage_forgets_the_ranks() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(3), writer=TensorDictMaxValueWriter("score"))
    rb.extend(scores(1, 2, 3, 4, 5))
    rb.set_storage(LazyTensorStorage(3))
    assert rb.extend(scores(0, 1)).tolist() == [0, 1] and len(rb) == 2


def test_rows_have_no_rank() -> None:
    text = (
        "A TensorDictMaxValueWriter ranks single items, and this storage has 2 dimensions: what is written there is "
        "a row, the steps of all envs. Fix: a storage with ndim=1, whose items are steps or trajectories; or a "
        "TensorDictRoundRobinWriter."
    )
    rows = LazyTensorStorage(4, ndim=2)
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(4), writer=TensorDictMaxValueWriter("score"))
    other = TensorDictReplayBuffer(storage=rows)
    storage, writer = rb.storage, other.writer
    for call in (
        lambda: TensorDictReplayBuffer(storage=LazyTensorStorage(4, ndim=2), writer=TensorDictMaxValueWriter("score")),
        lambda: rb.set_storage(rows),
        lambda: other.set_writer(TensorDictMaxValueWriter("score")),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == text
    assert rb.storage is storage and rb.dim_extend == 0 and other.writer is writer


def test_a_dataset_is_not_emptied() -> None:
    def dataset() -> ReplayBuffer:
        return ReplayBuffer(storage=TensorStorage(torch.arange(3)), writer=ImmutableDatasetWriter(), batch_size=2)

    other = ReplayBuffer(storage=LazyTensorStorage(3), writer=RoundRobinWriter(), batch_size=2)
    other.extend(torch.arange(3))
    for rb in (dataset(), ReplayBufferEnsemble(other, dataset(), batch_size=2)):
        with pytest.raises(RuntimeError, match="read-only: its writer is an ImmutableDatasetWriter"):
            rb.empty()
        assert len(rb.sample()) and len(other) == 3


# Copies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rb: pickle.loads(pickle.dumps(rb))])
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("prefetch", [None, 2])
def test_a_copy_draws_what_the_original_would(copied: Any, ensemble: bool, prefetch: int | None) -> None:
    def member() -> ReplayBuffer:
        rb = ReplayBuffer(storage=LazyTensorStorage(1000))
        rb.extend(torch.arange(1000))
        return rb

    kwargs = {"batch_size": 6, "generator": torch.Generator().manual_seed(0), "prefetch": prefetch}
    if ensemble:
        rb = ReplayBufferEnsemble(member(), member(), **kwargs)
    else:
        rb = ReplayBuffer(storage=member().storage, **kwargs)
    rb.sample()
    other = copied(rb)
    pairs = [(rb.sample(), other.sample()) for _ in range(4)]
    assert all(torch.equal(one, two) for one, two in pairs)
    assert not torch.equal(pairs[0][0], pairs[1][0])
    rb.shutdown()
    other.shutdown()


# What does not fit ----------------------------------------------------------------------------------------------------


@tensorclass
class Step:
    a: torch.Tensor


@tensorclass
class IndexedStep:
    a: torch.Tensor
    index: torch.Tensor | None = None


def test_a_tensorclass_needs_a_field_for_its_index() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(5), batch_size=2)
    text = (
        "Samples of this buffer have their index in 'index', and the tensorclass Step has no such field. "
        "Nothing was written. Fix: ReplayBuffer(...) with its default writer, which returns each Step unchanged; or "
        "a field 'index: torch.Tensor | None = None' in Step."
    )
    data = Step(a=torch.arange(3), batch_size=[3])
    for call in (lambda: rb.extend(data), lambda: rb.add(data[0]), lambda: rb.extend([data[0]])):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == text
    assert not len(rb) and not rb.storage.initialized
    rb.extend(IndexedStep(a=torch.arange(3), batch_size=[3]))
    sample = rb.sample()
    assert isinstance(sample, IndexedStep) and torch.equal(sample.a, sample.index)


@pytest.mark.parametrize("name", ["alpha", "beta", "eps", "max_priority"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, None, "x", 2**2000])
def test_a_state_with_senseless_numbers_changes_nothing(name: str, value: Any) -> None:
    rb = prioritized(LazyTensorStorage(5))
    rb.extend(torch.arange(5))
    before = rb.sampler.state_dict()
    state = {**rb.state_dict(), "_sampler": {**before, name: value}}
    with pytest.raises(ValueError, match=name):
        rb.load_state_dict(state)
    after = rb.sampler.state_dict()
    assert after.pop("priorities").tolist() == before.pop("priorities").tolist() and after == before


@pytest.mark.parametrize("kind", [LazyTensorStorage, ListStorage])
@pytest.mark.parametrize("change", [{"cursor": 17}, {"cursor": -1}, {"length": 9}, {"length": -1}, {"written": -1}])
def test_a_state_with_a_senseless_ring_changes_nothing(kind: Any, change: dict[str, int]) -> None:
    rb = ReplayBuffer(storage=kind(5))
    rb.extend([torch.tensor(i) for i in range(3)])
    state = rb.state_dict()
    with pytest.raises(ValueError, match="does not fit this"):
        rb.load_state_dict({**state, "_storage": {**state["_storage"], **change}})
    assert [int(value) for value in rb[:]] == [0, 1, 2] and rb.storage.ring.cursor == 3


def test_an_interrupted_list_of_objects_is_written_as_a_whole() -> None:
    for at in range(20):
        rb = ReplayBuffer(storage=ListStorage(5))
        rb.extend(list("abcde"))
        reached = interrupted(lambda rb=rb: rb.__setitem__([4, 0, 2], list("xyz")), ListStorage._put_each.__code__, at)
        assert rb[:] == list("ybzdx")
        if not reached:
            break
    assert 3 < at < 19
