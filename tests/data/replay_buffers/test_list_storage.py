"""ListStorage: batches stored whole read back like single items."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, tensorclass
from torch.utils import _pytree as pytree

from rlnb.data import ListStorage, ReplayBuffer, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer
from tests.data.replay_buffers.worlds import FORMS


@tensorclass
class Step:
    """A step as a tensorclass."""

    a: torch.Tensor


def as_class(numbers: torch.Tensor) -> Any:
    """Elements as instances of a tensorclass."""
    return Step(a=numbers.clone(), batch_size=list(numbers.shape))


def as_half(numbers: torch.Tensor) -> Any:
    """Elements in a dtype that numpy does not have."""
    return TensorDict({"half": numbers.bfloat16()}, numbers.shape)


KINDS = {**FORMS, "tensorclass": as_class, "bfloat16": as_half}


def same(one: Any, other: Any) -> bool:
    """Whether two pieces of data agree in kind, structure, dtypes and values."""
    if isinstance(one, (TensorDictBase, Step)):
        return type(one) is type(other) and one.batch_size == other.batch_size and bool((one == other).all())
    flat, other_flat = pytree.tree_leaves(one), pytree.tree_leaves(other)
    if len(flat) == len(other_flat) > 1:
        return all(map(same, flat, other_flat))
    return type(one) is type(other) and (not isinstance(one, torch.Tensor) or torch.equal(one, other))


@given(kind=st.sampled_from(sorted(KINDS)), data=st.data())
def test_batches_give_what_their_elements_would(kind: str, data: st.DataObject) -> None:
    make, size = KINDS[kind], 40
    whole, single = (ReplayBuffer(storage=ListStorage(size)) for _ in range(2))
    written = 0
    for count in data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=8)):
        numbers = torch.arange(written, written + count)
        written += count
        if count == 1:
            whole.add(make(numbers[0]))
        else:
            whole.extend(make(numbers))
        for number in numbers:
            single.add(make(number))
        if data.draw(st.booleans()):  # somebody asks for an element, which is one from then on
            place = data.draw(st.integers(0, len(whole) - 1))
            assert same(whole[place], single[place]) and whole[place] is whole[place]
    index = torch.tensor(data.draw(st.lists(st.integers(0, len(single) - 1), min_size=1, max_size=50)))
    assert same(whole[index], single[index])
    assert same(whole[:], single[:])
    for rb in (whole, single):
        rb.set_rng(torch.Generator().manual_seed(3))
    assert same(whole.sample(7), single.sample(7))


@pytest.mark.parametrize("blocks", [1, 3, 30])
def test_rows_come_in_the_order_that_was_drawn(blocks: int) -> None:
    rb = ReplayBuffer(storage=ListStorage(90))
    for start in range(0, 90, 90 // blocks):
        rb.extend(torch.arange(start, start + 90 // blocks))
    order = torch.randperm(90, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rb[order], order)
    assert torch.equal(rb[order[:5]], order[:5])


def test_elements_share_the_memory_of_their_batch() -> None:
    batch = TensorDict({"a": torch.zeros(5)}, [5])
    rb = ReplayBuffer(storage=ListStorage(10))
    rb.extend(batch)
    batch["a"][2] = 7.0
    assert rb[:]["a"].tolist() == [0, 0, 7, 0, 0] and rb[2]["a"] == 7.0
    batch["a"] = torch.ones(5)  # another tensor in the batch is none of theirs
    assert rb[:]["a"].tolist() == [0, 0, 7, 0, 0]


def test_an_element_that_somebody_changed_stays_changed() -> None:
    rb = ReplayBuffer(storage=ListStorage(10))
    rb.extend(TensorDict({"a": torch.zeros(5)}, [5]))
    rb.storage[1]["b"] = torch.ones(())
    assert set(rb.storage[1].keys()) == {"a", "b"}
    batch = rb[:]
    assert isinstance(batch, list) and [len(item.keys()) for item in batch] == [1, 2, 1, 1, 1]


def test_batches_that_look_different_stay_a_list() -> None:
    rb = ReplayBuffer(storage=ListStorage(10))
    rb.extend(TensorDict({"a": torch.zeros(2)}, [2]))
    rb.extend(TensorDict({"a": torch.zeros(2, dtype=torch.int64)}, [2]))
    batch = rb[:]
    assert isinstance(batch, list) and [item["a"].dtype for item in batch] == 2 * [torch.float32] + 2 * [torch.int64]
    assert isinstance(rb[2:], TensorDict)


def test_elements_of_different_shapes_become_a_lazy_stack() -> None:
    rb = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, eps=0.0, storage=ListStorage(3), batch_size=8)
    for n in (2, 3, 4):
        rb.add(TensorDict({"a": torch.full((n,), float(n)), "below": {"b": torch.zeros(n)}}))
    batch = rb.sample()
    assert isinstance(batch, LazyStackedTensorDict)
    assert [len(item["a"]) - 2 for item in batch] == batch["index"].tolist()
    batch["td_error"] = batch["index"].float()
    rb.update_tensordict_priority(batch)
    assert rb.sampler.state_dict()["priorities"][batch["index"]].tolist() == batch["index"].tolist()
    assert rb[:]["index"].tolist() == [0, 1, 2]
    assert [set(rb.storage[i].keys()) for i in range(3)] == [{"a", "below"}] * 3  # nothing is written into elements


def test_nested_batch_sizes_count_as_a_difference() -> None:
    rb = ReplayBuffer(storage=ListStorage(10))
    for shape in ([2], [2, 3]):
        rb.extend(TensorDict({"agents": TensorDict({"x": torch.zeros(2, 3)}, shape)}, [2]))
    assert rb[0]["agents"].batch_size == torch.Size([]) and rb[2]["agents"].batch_size == torch.Size([3])
    assert rb[2:]["agents"].batch_size == torch.Size([2, 3])


def test_a_collate_function_gets_the_elements() -> None:
    rb = ReplayBuffer(storage=ListStorage(10), collate_fn=lambda items: items, batch_size=4)
    rb.extend(TensorDict({"a": torch.arange(5)}, [5]))
    assert all(type(item) is TensorDict and item.batch_size == torch.Size([]) for item in rb.sample())
    assert [item["a"].item() for item in rb[:]] == [0, 1, 2, 3, 4]
    assert [item["a"].item() for item in rb.storage[1:3]] == [1, 2]


def test_gradients_pass() -> None:
    values = torch.zeros(5, requires_grad=True)
    rb = ReplayBuffer(storage=ListStorage(10))
    rb.extend(values * 2)
    rb[:].sum().backward()
    assert values.grad is not None and values.grad.tolist() == [2.0] * 5


def test_reading_writes_nothing_into_what_is_stored() -> None:
    rb = TensorDictReplayBuffer(storage=ListStorage(10), transform=lambda data: data.set("t", data["a"] + 1))
    rb.extend(TensorDict({"a": torch.arange(3)}, [3]))
    rb.add(TensorDict({"a": torch.tensor(3)}, []))
    for place in (1, 3):
        assert set(rb[place].keys()) == {"a", "index", "t"} and rb[place]["index"] == place
    assert [set(item.keys()) for item in rb.storage[:]] == [{"a"}] * 4
    assert isinstance(rb.sample(8), TensorDict)


def test_a_state_holds_elements_and_leaves_batches_whole() -> None:
    rb, other = (ReplayBuffer(storage=ListStorage(10)) for _ in range(2))
    rb.extend(TensorDict({"a": torch.arange(5)}, [5]))
    state = rb.state_dict()
    assert [item["a"].item() for item in state["_storage"]["items"]] == [0, 1, 2, 3, 4]
    other.load_state_dict(state)
    assert torch.equal(other[:]["a"], rb[:]["a"])
    assert rb.storage.state_dict()["items"][0] is not rb.storage.state_dict()["items"][0]  # nobody has one yet
    assert rb.storage.state_dict()["items"][0] is not rb.storage[0]
    assert rb.storage.state_dict()["items"][0] is rb.storage[0]
