"""ReplayBuffer: its components and what is written to it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import (
    ImmutableDatasetWriter,
    LazyTensorStorage,
    ListStorage,
    RandomSampler,
    ReplayBuffer,
    RoundRobinWriter,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from rlnb.envs import CatTensors
from tests.data.replay_buffers.worlds import as_tensordict, make_storage, numbers_of


def test_the_default_is_a_list_of_a_thousand_drawn_at_random() -> None:
    rb = ReplayBuffer()
    assert isinstance(rb._storage, ListStorage) and rb.storage is rb._storage and rb._storage.max_size == 1000
    assert type(rb.sampler) is RandomSampler and rb.sampler is rb._sampler
    assert type(rb.writer) is RoundRobinWriter and rb.writer is rb._writer
    assert len(rb) == 0 and rb.batch_size is None


def test_components_may_be_made_by_functions() -> None:
    rb = ReplayBuffer(storage=lambda: LazyTensorStorage(7), sampler=SamplerWithoutReplacement, writer=RoundRobinWriter)
    assert rb.storage.max_size == 7 and isinstance(rb.sampler, SamplerWithoutReplacement)
    assert rb.extend(torch.arange(9)).tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"storage": RandomSampler},
            "storage must be a Storage or a function that makes one, and got: class RandomSampler. "
            "Fix: storage=LazyTensorStorage(1000).",
        ),
        (
            {"sampler": 3},
            "sampler must be a Sampler or a function that makes one, and got: int. Fix: sampler=RandomSampler().",
        ),
        (
            {"writer": "ring"},
            "writer must be a Writer or a function that makes one, and got: str. Fix: writer=RoundRobinWriter().",
        ),
    ],
)
def test_an_object_that_is_not_a_component_is_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        ReplayBuffer(**arguments)
    assert str(caught.value) == message


def test_components_can_be_exchanged() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(4), batch_size=2)
    rb.extend(torch.arange(6))
    rb.set_sampler(SamplerWithoutReplacement(shuffle=False))
    assert [batch.tolist() for batch in rb] == [[4, 5], [2, 3]]
    rb.set_writer(ImmutableDatasetWriter())
    with pytest.raises(RuntimeError, match="read-only"):
        rb.add(torch.tensor(1))
    rb.set_writer(RoundRobinWriter())
    assert rb.add(torch.tensor(9)) == 2  # a new writer goes on where the storage is
    rb.set_storage(ListStorage(3))
    assert len(rb) == 0 and rb.add("x") == 0


def test_the_text_of_a_buffer() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4, transform=CatTensors(["a"], "b"))
    rb.extend(TensorDict({"a": torch.zeros(3, 2)}, [3]))
    assert repr(rb) == (
        "ReplayBuffer(\n"
        "    storage=LazyTensorStorage(\n"
        "        data=['a': float32[2]],\n"
        "        shape=[3],\n"
        "        len=3,\n"
        "        max_size=10),\n"
        "    sampler=RandomSampler(),\n"
        "    writer=RoundRobinWriter(cursor=3, full_storage=False),\n"
        "    batch_size=4,\n"
        f"    transform=[{rb.transform[0]!r}])"
    )


def test_a_list_is_elements_and_a_tuple_is_one_tree() -> None:
    zeros, ones = torch.zeros(2), torch.ones(2)
    as_list, as_tree = (ReplayBuffer(storage=LazyTensorStorage(10)) for _ in range(2))
    assert as_list.extend([zeros, ones]).tolist() == [0, 1]
    assert as_list[:].tolist() == [[0, 0], [1, 1]]
    assert as_tree.extend((zeros, ones)).tolist() == [0, 1]
    assert as_tree[0] == (torch.tensor(0.0), torch.tensor(1.0))


def test_extend_of_a_list_storage_takes_any_iterable() -> None:
    rb = ReplayBuffer(storage=ListStorage(10))
    rb.extend((torch.arange(2), torch.zeros(2, 1)))
    assert rb[1] == (torch.tensor(1), torch.zeros(1))
    assert rb.extend(str(number) for number in range(3)).tolist() == [2, 3, 4]
    assert rb[-1] == "2"
    with pytest.raises(TypeError) as caught:
        rb.extend(3)
    assert str(caught.value) == (
        "extend needs several items: a list, a TensorDict, a tensor or a tuple of tensors, and got: int. "
        "Nothing was written. Fix: buffer.add(data) stores one item, of any kind."
    )


@pytest.mark.parametrize("kind", ["given", "lazy", "memmap"])
def test_add_of_a_batch_names_both_intents(kind: str) -> None:
    rb = ReplayBuffer(storage=make_storage(kind, 10, 1, as_tensordict))
    rb.extend(as_tensordict(torch.arange(3)))
    with pytest.raises(ValueError) as caught:
        rb.add(as_tensordict(torch.arange(4)))
    assert str(caught.value) == (
        "add stores one item, and got data that looks like 4 of the items that are stored. Nothing was written. "
        "Fix: buffer.extend(data) to store 4 items; to store all of it as one item, use a buffer of its own, "
        "whose first item it is."
    )
    assert len(rb) == 3 and rb.writer._cursor == 3


def test_a_first_element_with_a_batch_size_is_stored_with_a_warning() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10))
    with pytest.warns(UserWarning) as caught:
        rb.add(as_tensordict(torch.arange(4)))
    assert str(caught[0].message) == (
        "add stores this data of batch size [4] as one item, so every item of this buffer will have that batch "
        "size. If these are 4 items, use buffer.extend(data) on a new buffer."
    )
    assert caught[0].filename == __file__
    assert len(rb) == 1 and rb[:].batch_size == (1, 4) and numbers_of(rb[0]).tolist() == [0, 1, 2, 3]


def test_a_million_trajectories_or_a_million_steps() -> None:
    trajectories = as_tensordict(torch.arange(12).reshape(3, 4))
    rows, steps = (ReplayBuffer(storage=LazyTensorStorage(100)) for _ in range(2))
    rows.extend(trajectories)
    steps.extend(trajectories.reshape(-1))
    assert (len(rows), len(steps)) == (3, 12)
    assert rows.sample(5).batch_size == (5, 4)


def test_data_that_needs_gradients_is_stored_without() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10))
    weights = torch.ones(3, requires_grad=True)
    rb.extend(weights * 2)
    rb.add(weights.sum())
    assert rb[:].tolist() == [2, 2, 2, 3] and not rb[:].requires_grad


def test_an_item_is_written_without_moving_anything() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    rb.extend(as_tensordict(torch.arange(5)))
    sample = rb.sample()
    rb[sample["index"]] = sample.apply(lambda value: value)  # what was sampled, with its "index"
    rb[1:3] = as_tensordict(torch.tensor([71, 72]))
    assert numbers_of(rb[:]).tolist() == [0, 71, 72, 3, 4]
    assert (len(rb), rb.writer._cursor, rb.write_count) == (5, 5, 5)
