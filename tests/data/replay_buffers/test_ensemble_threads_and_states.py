"""Ensembles: iteration, threads, priorities, states."""

from __future__ import annotations

import pickle
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import (
    LazyTensorStorage,
    ListStorage,
    PrioritizedReplayBuffer,
    RandomSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    SamplerEnsemble,
    SamplerWithoutReplacement,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from tests.data.replay_buffers.ensemble_worlds import member, three
from tests.data.replay_buffers.worlds import as_tensordict, numbers_of

# Iteration, prefetching, threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [None, 2])
def test_iteration_ends_when_a_member_has_run_out(prefetch: int | None) -> None:
    buffers = [
        member(0, 9, sampler=SamplerWithoutReplacement(drop_last=True)),
        member(100, 6, sampler=SamplerWithoutReplacement(drop_last=True)),
    ]
    rb = ReplayBufferEnsemble(*buffers, sample_from_all=True, batch_size=6, prefetch=prefetch)
    for _ in range(2):
        batches = list(rb)
        assert [batch.batch_size for batch in batches] == [(2, 3), (2, 3)]
        second = torch.cat([numbers_of(batch.exclude("index"))[1] for batch in batches])
        assert second.sort().values.tolist() == list(range(100, 106))
        buffers[0].sampler._empty()
    rb.shutdown()
    with pytest.raises(RuntimeError, match="Iterating over a buffer needs a batch size"):
        next(iter(three()))


def test_parts_of_unequal_size_are_explained() -> None:
    buffers = [member(0, 5, sampler=SamplerWithoutReplacement()), member(100, 6, sampler=SamplerWithoutReplacement())]
    rb = ReplayBufferEnsemble(*buffers, sample_from_all=True, batch_size=6)
    rb.sample()
    with pytest.raises(ValueError) as caught:
        rb.sample()
    assert str(caught.value) == (
        "The members returned [2, 3] items, which cannot be stacked. The last batch of an epoch is smaller. "
        "Fix: SamplerWithoutReplacement(drop_last=True) in the members."
    )


def test_members_can_be_written_to_while_an_ensemble_is_sampled() -> None:
    rb, failures = three(batch_size=9, prefetch=2), []
    stop = threading.Event()

    def write(number: int) -> None:
        while not stop.is_set():
            rb[number].extend(as_tensordict(torch.arange(100 * number, 100 * number + 3)))

    def read(ensemble: ReplayBufferEnsemble) -> None:
        try:
            for _ in range(60):
                sample = ensemble.sample()
                assert (numbers_of(sample.exclude("index")) // 100 == sample["index", "buffer_ids"]).all()
        except BaseException as error:
            failures.append(error)

    other = ReplayBufferEnsemble(rb[2], rb[1], rb[0], batch_size=9)
    other.append_transform(lambda td: td.set(("index", "buffer_ids"), 2 - td["index", "buffer_ids"]))
    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    readers = [threading.Thread(target=read, args=(ensemble,)) for ensemble in (rb, rb, other)]
    for thread in writers + readers:
        thread.start()
    for _ in range(20):
        rb.state_dict()
        other.state_dict()
    for thread in readers:
        thread.join(60)
    stop.set()
    for thread in writers:
        thread.join(60)
    rb.shutdown()
    assert failures == [] and not any(thread.is_alive() for thread in readers + writers)


# Priorities -----------------------------------------------------------------------------------------------------------


def prioritized(count: int = 2) -> ReplayBufferEnsemble:
    buffers = [
        PrioritizedReplayBuffer(alpha=1.0, beta=1.0, eps=0.0, storage=LazyTensorStorage(4)) for _ in range(count)
    ]
    for buffer in buffers:
        buffer.extend(torch.arange(4))
    uniform = ReplayBuffer(storage=LazyTensorStorage(4))
    uniform.extend(torch.arange(4))
    return ReplayBufferEnsemble(*buffers, uniform)


def priorities(rb: ReplayBufferEnsemble) -> list[list[float]]:
    return [rb[i].sampler.state_dict()["priorities"].tolist() for i in range(len(rb) - 1)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(0, 10)), min_size=1, max_size=12))
def test_priorities_go_to_the_members(updates: list[tuple[int, int, float]]) -> None:
    rb, expected = prioritized(), [[1.0] * 4 for _ in range(2)]
    ids, index, values = map(torch.tensor, zip(*updates, strict=True))
    rb.update_priority({"index": index, "buffer_ids": ids}, values)
    for which, place, value in updates:
        if which < 2:
            expected[which][place] = float(torch.tensor(value))
    assert priorities(rb) == expected


def test_priorities_of_a_sample_go_where_it_is_from() -> None:
    rb = prioritized()
    _, info = rb.sample(6, return_info=True)
    rb.update_priority(info["index"], 5.0)
    for i, found in enumerate(priorities(rb)):
        drawn = set(info["index"]["index"][info["buffer_ids"] == i].reshape(-1).tolist())
        assert found == [5.0 if place in drawn else 1.0 for place in range(4)]


def test_a_wrong_priority_changes_no_member() -> None:
    rb, index = prioritized(), {"index": torch.tensor([[0, 1], [2, 3]]), "buffer_ids": torch.tensor([[0, 0], [1, 1]])}
    with pytest.raises(ValueError, match="nan"):
        rb.update_priority(index, torch.tensor([[2.0, 2.0], [2.0, float("nan")]]))
    with pytest.raises(ValueError, match="4 items"):
        rb.update_priority(index, torch.ones(3))
    with pytest.raises(IndexError, match="9"):
        rb.update_priority({**index, "index": torch.tensor([[0, 1], [2, 9]])}, 2.0)
    with pytest.raises(IndexError, match="There is no member 7: the ensemble has 3, from 0 to 2"):
        rb.update_priority({**index, "buffer_ids": torch.tensor([[0, 0], [1, 7]])}, 2.0)
    with pytest.raises(TypeError) as caught:
        rb.update_priority(torch.tensor([0, 1]), 2.0)
    assert str(caught.value) == (
        "Items of an ensemble are named by a TensorDict with the entries 'index' and 'buffer_ids', and got: Tensor. "
        "Fix: batch, info = ensemble.sample(return_info=True), then info['index']; "
        "for one member, ensemble[0].update_priority(index, priority)."
    )
    assert priorities(rb) == [[1.0] * 4] * 2


# Life -----------------------------------------------------------------------------------------------------------------


def test_a_state_goes_to_another_ensemble() -> None:
    def make(size: int = 10) -> ReplayBufferEnsemble:
        buffers: list[ReplayBuffer] = [
            TensorDictReplayBuffer(storage=LazyTensorStorage(size), sampler=SamplerWithoutReplacement())
        ]
        buffers.append(TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(7)))
        return ReplayBufferEnsemble(*buffers, sample_from_all=True, generator=torch.Generator().manual_seed(1))

    rb, other = make(), make()
    rb[0].extend(as_tensordict(torch.arange(12)))
    rb[1].extend(as_tensordict(torch.arange(100, 105)))
    rb.sample(4)
    other.load_state_dict(rb.state_dict())
    for _ in range(4):
        assert (rb.sample(4) == other.sample(4)).all()
    assert other[0].writer._cursor == 2
    for wrong in (make(11), three()):
        before = wrong.state_dict()
        with pytest.raises(ValueError):
            wrong.load_state_dict(rb.state_dict())
        assert [len(wrong[i]) for i in range(2)] == [before["_storage"][str(i)]["length"] for i in range(2)]
    with pytest.raises(ValueError, match=r"The state has 2 members, and this ensemble has 3. Nothing was"):
        three().load_state_dict(rb.state_dict())


def test_a_second_member_that_refuses_leaves_the_first_as_it_was() -> None:
    rb, other = ReplayBufferEnsemble(member(0), member(0, 5)), ReplayBufferEnsemble(member(50), member(50, 6))
    with pytest.raises(ValueError, match="does not fit this LazyTensorStorage with room for 6 items"):
        other.load_state_dict(rb.state_dict())
    assert numbers_of(other[0][:].exclude("index")).tolist() == list(range(50, 60))


def test_an_ensemble_can_be_sent_to_another_process() -> None:
    rb = three(batch_size=6, prefetch=2, p=[0, 1, 0], generator=torch.Generator())
    other = pickle.loads(pickle.dumps(rb))
    assert other.storage[1] is other[1].storage and other.sampler.p.tolist() == [0, 1, 0]
    assert (numbers_of(other.sample().exclude("index")) // 100 == 1).all()
    other.shutdown()


def test_an_ensemble_describes_itself() -> None:
    buffers = [ReplayBuffer(storage=ListStorage(3)), ReplayBuffer(storage=LazyTensorStorage(2))]
    buffers[1].extend(torch.arange(2))
    assert repr(ReplayBufferEnsemble(*buffers, p=[1, 3], num_buffer_sampled=1)) == (
        "ReplayBufferEnsemble(\n"
        "    storage=StorageEnsemble(\n"
        "        ListStorage(len=0, max_size=3),\n"
        "        LazyTensorStorage(\n"
        "            data=[int64[]],\n"
        "            shape=[2],\n"
        "            len=2,\n"
        "            max_size=2)),\n"
        "    sampler=SamplerEnsemble(RandomSampler(), RandomSampler(), p=[0.25, 0.75], num_buffer_sampled=1),\n"
        "    writer=WriterEnsemble(RoundRobinWriter(cursor=0, full_storage=False), "
        "RoundRobinWriter(cursor=0, full_storage=True)),\n"
        "    batch_size=None)"
    )
    assert repr(SamplerEnsemble(RandomSampler(), sample_from_all=True)) == (
        "SamplerEnsemble(RandomSampler(), sample_from_all=True)"
    )
