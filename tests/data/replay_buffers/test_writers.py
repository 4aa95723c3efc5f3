"""Writers: the ring, the highest ranks, and the read-only writer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import (
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    RoundRobinWriter,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorDictRoundRobinWriter,
    TensorStorage,
    Writer,
)


def test_the_ring_goes_over_the_oldest() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(5), writer=RoundRobinWriter())
    assert [rb.add(torch.tensor(number)) for number in range(7)] == [0, 1, 2, 3, 4, 0, 1]
    assert rb.extend(torch.arange(10, 23)).tolist() == [(2 + i) % 5 for i in range(13)]
    assert rb[:].tolist() == [18, 19, 20, 21, 22]
    assert repr(rb.writer) == "RoundRobinWriter(cursor=0, full_storage=True)"


def test_the_writer_of_a_tensordict_buffer_marks_where_things_are() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(5))
    assert type(rb.writer) is TensorDictRoundRobinWriter
    given_data = TensorDict({"a": torch.arange(3), "index": torch.full((3,), 77)}, [3])
    rb.extend(given_data)
    assert given_data["index"].tolist() == [77, 77, 77]
    assert rb[:]["index"].tolist() == [0, 1, 2]
    rb.extend([given_data[0], given_data[1]])
    assert rb[:]["index"].tolist() == [0, 1, 2, 3, 4]


WRITES = [
    lambda rb: rb.add(torch.tensor(1)),
    lambda rb: rb.extend(torch.arange(2)),
    lambda rb: rb.__setitem__(0, torch.tensor(1)),
]


@pytest.mark.parametrize("call", WRITES)
def test_an_immutable_dataset_refuses_to_be_written(call: object) -> None:
    rb = ReplayBuffer(storage=TensorStorage(torch.arange(3)), writer=ImmutableDatasetWriter())
    with pytest.raises(RuntimeError) as caught:
        call(rb)  # type: ignore[operator]
    assert str(caught.value) == (
        "This buffer is read-only: its writer is an ImmutableDatasetWriter. "
        "Fix: buffer.set_writer(RoundRobinWriter()) to make it writable."
    )
    assert rb[:].tolist() == [0, 1, 2] and repr(rb.writer) == "ImmutableDatasetWriter()"


@given(
    scores=st.lists(st.lists(st.integers(-50, 50), max_size=8), max_size=6),
    size=st.integers(1, 6),
    kind=st.sampled_from([LazyTensorStorage, ListStorage, LazyMemmapStorage]),
    one_by_one=st.booleans(),
)
def test_the_highest_ranks_stay(scores: list[list[int]], size: int, kind: type, one_by_one: bool) -> None:
    rb = TensorDictReplayBuffer(storage=kind(size), writer=TensorDictMaxValueWriter("score"))
    everything: list[int] = []
    for batch in scores:
        data = TensorDict({"score": torch.tensor(batch, dtype=torch.int64)}, [len(batch)])
        if one_by_one:
            index = [rb.add(item) for item in data]
            index = [-1 if place is None else place for place in index]
        else:
            index = rb.extend(data).tolist()
            kept = [place for place in index if place >= 0]
            assert len(kept) == len(set(kept))
            assert all(rb[place]["score"] == number for place, number in zip(index, batch, strict=True) if place >= 0)
        everything += batch
        if everything:
            assert sorted(rb[:]["score"].tolist()) == sorted(everything, reverse=True)[:size][::-1]
    assert len(rb) == min(size, len(everything))


def test_trajectories_are_ranked_as_a_whole() -> None:
    def trajectory(*rewards: float) -> TensorDict:
        return TensorDict({"next": {"reward": torch.tensor(rewards)[:, None]}}, [len(rewards)])

    for reduction, best in {"sum": 1, "mean": 1, "max": 2, "min": 3, "median": 1}.items():
        rb = TensorDictReplayBuffer(storage=LazyTensorStorage(1), writer=TensorDictMaxValueWriter(reduction=reduction))
        rows = [trajectory(0, 0, 0), trajectory(3, 3, 0), trajectory(5, 0, 0), trajectory(1, 1, 1)]
        kept = [rb.add(row) for row in rows]
        assert (rb[0]["next", "reward"] == rows[best]["next", "reward"]).all(), reduction
        assert kept[0] == 0 and kept[best] == 0
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter())
    rb.extend(torch.stack([trajectory(1, 0), trajectory(5, 5), trajectory(2, 2)]))
    assert rb[:]["next", "reward"].sum(1).flatten().tolist() == [4, 10]


def test_what_cannot_be_ranked_is_refused_whole() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter(("next", "score")))
    with pytest.raises(KeyError) as caught:
        rb.extend(TensorDict({"a": torch.arange(2)}, [2]))
    assert caught.value.args[0] == (
        "Items are ranked by ('next', 'score'), which the data does not have; it has 'a'. Nothing was written. "
        "Fix: TensorDictMaxValueWriter(rank_key=...) with one of these."
    )
    with pytest.raises(ValueError, match="is NaN"):
        rb.extend(TensorDict({"next": {"score": torch.tensor([1.0, float("nan")])}}, [2]))
    assert len(rb) == 0
    with pytest.raises(ValueError) as error:
        TensorDictMaxValueWriter(reduction="most")
    assert str(error.value) == "Unknown reduction 'most'. Fix: one of 'sum', 'mean', 'max', 'min', 'median'."


def test_the_ranks_are_part_of_the_state() -> None:
    def buffer() -> TensorDictReplayBuffer:
        return TensorDictReplayBuffer(storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter("score"))

    rb, other = buffer(), buffer()
    rb.extend(TensorDict({"score": torch.tensor([3.0, 5.0, 4.0])}, [3]))
    other.load_state_dict(rb.state_dict())
    assert other.add(TensorDict({"score": torch.tensor(3.5)})) is None
    assert other.add(TensorDict({"score": torch.tensor(4.5)})) == 0
    assert other[:]["score"].tolist() == [4.5, 5.0]
    assert other.add(TensorDict({"score": torch.tensor(4.5)})) is None  # of equals the first stays
    other.empty()
    assert other.add(TensorDict({"score": torch.tensor(0.5)})) == 0


class Backwards(Writer):
    """Writes batches in reverse order."""

    def add(self, data: Any) -> Any:
        return self.storage.append(self.storage.prepare(data, False))

    def extend(self, data: Any) -> torch.Tensor:
        rows = self.storage.prepare(data.flip(0), True)
        start = self.storage.append(rows)
        return ((start + torch.arange(rows.count)) % self.storage.max_size).flip(0)


def test_a_writer_of_one_s_own() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(4), writer=Backwards)
    assert rb.add(torch.tensor(7)) == 0 and rb.extend(torch.arange(4)).tolist() == [0, 3, 2, 1]
    assert rb[:].tolist() == [0, 3, 2, 1]
    assert rb.writer.storage is rb.storage and rb.writer._cursor == 1 and rb.write_count == 5
    other = ReplayBuffer(storage=LazyTensorStorage(4), writer=Backwards())
    other.load_state_dict(rb.state_dict())
    assert repr(other.writer) == "Backwards(cursor=1, full_storage=True)"
    other.empty()
    assert other.writer._cursor == other.write_count == 0


def test_a_writer_without_a_storage_says_what_it_needs() -> None:
    writer = RoundRobinWriter()
    with pytest.raises(RuntimeError) as caught:
        writer.add(torch.tensor(1))
    assert str(caught.value) == "The writer has no storage yet. Fix: writer.register_storage(storage)."
    assert repr(writer) == "RoundRobinWriter()" and writer.state_dict() == {}
    writer.register_storage(LazyTensorStorage(3))
    assert writer.add(torch.tensor(1)) == 0
    with pytest.raises(TypeError):
        Writer()


def test_a_list_of_the_best_keeps_no_batch_alive() -> None:
    rb = TensorDictReplayBuffer(storage=ListStorage(2), writer=TensorDictMaxValueWriter("score"))
    for first in range(0, 3000, 1000):
        rb.extend(TensorDict({"score": torch.arange(first, first + 1000).float(), "x": torch.ones(1000, 8)}, [1000]))
    assert sorted(rb.storage[i]["score"].item() for i in range(2)) == [2998, 2999]
    assert [rb.storage[i]["x"].untyped_storage().nbytes() for i in range(2)] == [32, 32]
