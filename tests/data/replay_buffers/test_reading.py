"""ReplayBuffer: sampling, iterating, indexing, collate_fn and transforms."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict, tensorclass

from rlnb.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from rlnb.envs import CatTensors, RewardScaling
from tests.data.replay_buffers.worlds import FORMS, KINDS, as_tensordict, make_storage, numbers_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_sample_is_what_the_indices_say(kind: str, form: str) -> None:
    rb = ReplayBuffer(storage=make_storage(kind, 50, 1, FORMS[form]), batch_size=16)
    rb.extend(FORMS[form](torch.arange(100, 140)))
    batch, info = rb.sample(return_info=True)
    assert numbers_of(batch).tolist() == (info["index"] + 100).tolist()
    assert len(info["index"]) == 16
    assert len(numbers_of(rb.sample(3))) == 3


def test_a_sample_is_not_a_view() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10))
    rb.extend(torch.zeros(10))
    rb.sample(5).fill_(7)
    assert (rb[:] == 0).all()
    rb[:].fill_(3)  # a slice is one
    assert (rb[:] == 3).all()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda rb: rb.sample(),
            RuntimeError,
            (
                "The batch size is not known. Fix: give it to the constructor (batch_size=32) or to the "
                "call, buffer.sample(32)."
            ),
        ),
        (
            lambda rb: rb.sample(2),
            RuntimeError,
            "Cannot sample from an empty storage. Fix: write with buffer.add(data) or buffer.extend(data) first.",
        ),
        (
            lambda rb: rb.sample(0),
            ValueError,
            "The batch size must be an integer of at least 1, and got 0. Fix: such as 32.",
        ),
        (
            lambda rb: next(iter(rb)),
            RuntimeError,
            "Iterating over a buffer needs a batch size. Fix: give the constructor batch_size=32.",
        ),
        (
            lambda rb: rb[:],
            RuntimeError,
            "The storage is empty. Fix: write with buffer.add(data) or buffer.extend(data) before reading.",
        ),
        (
            lambda rb: rb[0],
            IndexError,
            (
                "Index 0 is out of range: the storage is empty. Fix: write with buffer.add(data) or "
                "buffer.extend(data) before reading."
            ),
        ),
    ],
)
def test_what_an_empty_buffer_says(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        call(ReplayBuffer(storage=LazyTensorStorage(10)))
    assert str(caught.value) == message


def test_iteration_ends_where_the_sampler_runs_out() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=SamplerWithoutReplacement(), batch_size=4)
    rb.extend(torch.arange(10))
    for _ in range(3):
        batches = list(rb)
        assert [len(batch) for batch in batches] == [4, 4, 2]
        assert torch.cat(batches).sort().values.tolist() == list(range(10))
    rb.set_sampler(RandomSampler())
    endless = iter(rb)
    assert all(len(next(endless)) == 4 for _ in range(20))


def test_none_adds_a_dimension() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(9))
    rb.extend(torch.arange(6))
    assert rb[None].tolist() == [[0, 1, 2, 3, 4, 5]] and rb[None, 2:4].tolist() == [[2, 3]]
    rb[None] = torch.arange(6, 12)[None]
    assert rb[[1, 2], None].tolist() == [[7], [8]]


def test_an_entry_is_read_by_its_key() -> None:
    rb = TensorDictReplayBuffer(storage=LazyMemmapStorage(21))
    rb.extend(TensorDict({"a": torch.zeros(10), "b": {"c": torch.ones(10)}}, [10]))
    rb.extend(TensorDict({"a": torch.ones(10), "b": {"c": torch.ones(10)}}, [10]))
    assert len(rb) == 20
    assert (rb["_data", "a"][:10] == 0).all() and (rb["_data", "a"][10:20] == 1).all()
    assert rb["a"].tolist() == rb[:]["a"].tolist() and rb["_data", "b", "c"].shape == (20,)
    with pytest.raises(KeyError) as caught:
        rb["x"]
    assert caught.value.args[0] == "The storage has no entry 'x'. It has 'a', ('b', 'c')."


def test_samples_of_tensordicts_say_where_they_come_from() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    rb.extend(as_tensordict(torch.arange(30, 36)))
    sample = rb.sample()
    assert (sample["index"] + 30 == numbers_of(sample)).all()
    assert rb[1:3]["index"].tolist() == [1, 2] and rb[-1]["index"] == 5 and rb[[4, 0]]["index"].tolist() == [4, 0]
    rb.extend(sample)  # its "index" is not its new one
    assert rb[6:]["index"].tolist() == [6, 7, 8, 9]
    plain = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    plain.extend(as_tensordict(torch.arange(6)))
    assert "index" not in plain.sample().keys()  # noqa: SIM118 - rows, not keys


def test_a_tensorclass_comes_back_as_one() -> None:
    @tensorclass
    class Step:
        observation: torch.Tensor
        note: str

    rb = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=3)
    rb.extend(Step(torch.arange(4), "hello", batch_size=[4]))
    sample = rb.sample()
    assert isinstance(sample, Step) and sample.batch_size == (3,) and list(sample.note) == ["hello"] * 3


def test_non_tensor_data_is_stored_with_each_element() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(3), batch_size=5)
    for number in range(5):
        rb.add(TensorDict({"number": torch.tensor(number), "name": f"n{number}"}))
    sample = rb.sample()
    assert [f"n{number}" for number in sample["number"].tolist()] == list(sample["name"])
    assert list(rb[:]["name"]) == ["n3", "n4", "n2"] and rb[0]["name"] == "n3"


def test_collate_fn_sees_batches_and_no_single_elements() -> None:
    rb = ReplayBuffer(storage=ListStorage(10), collate_fn=lambda items: ("together", items))
    rb.extend([1, "two", None])
    assert rb[1] == "two" and rb[:2] == ("together", [1, "two"]) and rb.sample(2)[0] == "together"
    assert ReplayBuffer(storage=ListStorage(4)).extend([]).tolist() == []


def test_what_cannot_be_stacked_stays_a_list() -> None:
    rb = ReplayBuffer(storage=ListStorage(10))
    rb.extend([torch.zeros(2), torch.zeros(3), "x", 4])
    assert isinstance(rb[:], list) and isinstance(rb[:2], list)
    assert rb[[0, 0]].shape == (2, 2)


def test_a_transform_changes_what_is_read_and_back_what_is_written() -> None:
    class Tenfold:
        def __call__(self, data: torch.Tensor) -> torch.Tensor:
            return data * 10

        def inv(self, data: torch.Tensor) -> torch.Tensor:
            return data / 10

    rb = ReplayBuffer(storage=LazyTensorStorage(10), transform=Tenfold(), batch_size=2)
    rb.insert_transform(0, lambda data: data + 1)  # before it: called first on what is read, and not on what is written
    rb.extend(torch.tensor([10.0, 20.0]))
    rb.add(torch.tensor(30.0))
    assert rb.storage[:].tolist() == [1, 2, 3]
    assert rb[:].tolist() == [20, 30, 40] and rb[0] == 20 and rb[[2]].tolist() == [40]
    rb[0] = torch.tensor(50.0)
    assert rb.storage[0] == 5 and set(rb.sample(50).tolist()) <= {60, 30, 40}
    turned = ReplayBuffer(storage=LazyTensorStorage(10)).append_transform(Tenfold(), invert=True)
    turned.extend(torch.tensor([1.0]))
    assert turned.storage[:].tolist() == [10] and turned[:].tolist() == [1]


def test_several_transforms_go_back_in_reverse_order() -> None:
    class Step:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, data: str) -> str:
            return f"{self.name}({data})"

        def inv(self, data: str) -> str:
            return f"{self.name}-({data})"

    rb = ReplayBuffer(transform=Step("a"))
    rb.append_transform(Step("b"))
    rb.append_transform(Step("c"), invert=True)
    rb.add("x")
    assert rb.storage[0] == "a-(b-(c(x)))"
    assert rb[0] == "c-(b(a(a-(b-(c(x))))))"


def test_transforms_of_envs_work_on_samples() -> None:
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=3)
    rb.append_transform(RewardScaling(loc=0.0, scale=2.0, in_keys=[("next", "reward")]))
    rb.extend(as_tensordict(torch.arange(5)))
    sample = rb.sample()
    assert (sample["next", "reward"].squeeze(-1) == 2 * sample["observation"][:, 0]).all()
    assert (rb.storage[:]["next", "reward"].squeeze(-1) == torch.arange(5)).all()
    assert len(rb.transform) == 1 and isinstance(rb.transform[0], RewardScaling)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            CatTensors,
            "A transform must be callable, and got: the class CatTensors. Fix: give an instance, CatTensors(...).",
        ),
        (3, "A transform must be callable, and got: int. Fix: give a Transform or a function of the data."),
    ],
)
def test_an_object_that_is_not_a_transform_is_rejected(transform: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        ReplayBuffer(transform=transform)
    assert str(caught.value) == message
