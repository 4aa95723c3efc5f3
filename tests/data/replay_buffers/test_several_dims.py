"""Storages of several dimensions: capacity in steps, growth along time, indices, all kinds and forms."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import LazyTensorStorage, RandomSampler, ReplayBuffer, SamplerWithoutReplacement, TensorDictReplayBuffer
from tests.data.replay_buffers.worlds import FORMS, as_scalar, as_tensordict, make_storage, numbers_of

SHAPED = ("lazy", "memmap", "given")


def test_capacity_counts_steps_and_is_rounded_up_to_whole_rows() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(100, ndim=2))
    assert rb._storage.max_size == 100
    rb.extend(torch.zeros(3, 7))
    assert rb._storage.max_size == 102 and rb.storage.shape == (7, 3) and len(rb) == 21


@pytest.mark.parametrize("kind", SHAPED)
@pytest.mark.parametrize("form", [form for form in FORMS if form != "tree"])
def test_steps_of_two_envs_are_appended_along_time(kind: str, form: str) -> None:
    make = FORMS[form]
    rb = ReplayBuffer(storage=make_storage(kind, 9, 2, make))  # five rows of two
    steps = torch.arange(14).reshape(2, 7)  # env 0: 0 to 6, env 1: 7 to 13
    index = rb.extend(make(steps[:, :3]))
    assert index.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert numbers_of(rb[:]).tolist() == [[0, 7], [1, 8], [2, 9]]  # time first, as the storage
    assert rb.extend(make(steps[:, 3:])).tolist() == [[3, 0], [3, 1], [4, 0], [4, 1], [0, 0], [0, 1], [1, 0], [1, 1]]
    assert numbers_of(rb[:]).tolist() == [[5, 12], [6, 13], [2, 9], [3, 10], [4, 11]]
    assert len(rb) == 10 and rb.writer._cursor == 2
    assert rb.add(make(torch.tensor([50, 60]))).tolist() == [[2, 0], [2, 1]]
    assert numbers_of(rb[2]).tolist() == [50, 60]
    assert numbers_of(rb.storage[2]).tolist() == [50, 60]


@given(
    times=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    size=st.integers(1, 30),
    envs=st.integers(1, 4),
    dim=st.integers(0, 1),
)
def test_the_ring_of_several_envs_against_a_list(times: list[int], size: int, envs: int, dim: int) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(size, ndim=2), dim_extend=dim)
    rows = -(-size // envs)
    model: list[list[int] | None] = [None] * rows
    cursor = count = 0
    for time in times:
        steps = torch.arange(count, count + time * envs).reshape(time, envs)
        count += time * envs
        rb.extend(steps if dim == 0 else steps.T)
        for row in steps.tolist():
            model[cursor] = row
            cursor = (cursor + 1) % rows
    expected = torch.tensor([row for row in model if row is not None])
    assert rb[:].tolist() == expected.tolist()
    assert len(rb) == expected.numel() and rb.storage.max_size == rows * envs


INDICES = (
    0,
    -1,
    slice(1, 3),
    slice(None, None, 2),
    ...,
    [2, 0],
    torch.tensor([[0], [2]]),
    (1, 3),
    (-1, -1),
    (0, slice(3, 4)),
    (slice(None), 1),
    (slice(None), slice(1, 3)),
    (slice(0, 2), slice(1, 3)),
    (..., 2),
    (0, ...),
    (slice(None), [3, 0]),
    (torch.tensor([2, 0]), torch.tensor([0, 3])),
    (torch.tensor([[2], [0]]), torch.tensor([[0, 3]])),
    torch.tensor([True, False, True]),
    torch.arange(12).reshape(3, 4) % 5 == 0,
    None,
    (0, None, slice(1, 3)),
    (..., None),
)


@pytest.mark.parametrize("kind", ["lazy", "memmap"])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_an_index_reads_and_writes_as_that_of_a_tensor_with_time_first(kind: str, index: Any) -> None:
    steps = torch.arange(12).reshape(3, 4)  # 3 steps of 4 envs
    rb = TensorDictReplayBuffer(storage=make_storage(kind, 16, 2, as_tensordict))
    rb.extend(as_tensordict(steps.T))
    found = rb[index]
    assert numbers_of(found.exclude("index")).tolist() == steps[index].tolist()
    assert found.batch_size == steps[index].shape
    where = found["index"]  # coordinates, as in a sample
    assert (4 * where[..., 0] + where[..., 1]).tolist() == steps[index].tolist()
    rb[index] = as_tensordict(steps[index] + 100)
    steps[index] += 100
    assert numbers_of(rb[:].exclude("index")).tolist() == steps.tolist()
    assert numbers_of(rb.storage[:]).tolist() == steps.tolist()


def test_time_is_first_wherever_dim_extend_has_it() -> None:
    steps = torch.arange(24).reshape(2, 3, 4)
    for dim in range(3):
        rb = ReplayBuffer(storage=LazyTensorStorage(24, ndim=3), dim_extend=dim)
        rb.extend(steps)
        for index in (0, (1, 1), (slice(None), 1), (1, slice(None), slice(0, 2)), (..., 1), (0, ..., [1, 0])):
            assert rb[index].tolist() == steps.transpose(0, dim)[index].tolist(), (dim, index)


def test_the_index_of_a_sample_finds_it_again() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(40, ndim=2))
    rb.extend(torch.arange(12).reshape(3, 4))
    assert rb[torch.tensor([[0, 2], [3, 0]])].tolist() == [8, 3]
    sample, info = rb.sample(9, return_info=True)
    assert (rb[info["index"]] == sample).all()
    rb[info["index"]] = sample + 100
    assert (rb[torch.stack(info["index"], -1)] == sample + 100).all()


@pytest.mark.parametrize("again", [copy.deepcopy, lambda rb: pickle.loads(pickle.dumps(rb))])
def test_batches_drawn_ahead_keep_the_order_of_their_index(again: Any) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(40, ndim=2), batch_size=5, prefetch=2)
    rb.extend(torch.arange(12).reshape(3, 4))
    rb.sample()
    for other in (again(rb), rb):
        for _ in range(3):
            sample, info = other.sample(return_info=True)
            assert (other[info["index"]] == sample).all()
        other.shutdown()


def test_an_index_outside_of_several_dims_is_refused() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(40, ndim=2))
    rb.extend(torch.arange(12).reshape(4, 3))  # 3 steps of 4 envs
    for index in (3, (0, 4), torch.tensor([[4, 0]]), (torch.tensor([-4]), torch.tensor([0])), (0, 0, 0)):
        with pytest.raises(IndexError):
            rb[index]
    with pytest.raises(IndexError) as caught:
        rb[3]
    assert str(caught.value) == "Index 3 is out of range for a dimension of size 3: it can be -3 to 2."
    with pytest.raises(IndexError, match="Index 4 is out of range for a dimension of size 4"):
        rb[0, 4]
    with pytest.raises(IndexError, match=r"stored items of shape \[3, 4\]"):
        rb[:, 4]
    with pytest.raises(IndexError, match=r"mask of shape \[4\]"):
        rb[torch.ones(4, dtype=torch.bool)]


@pytest.mark.parametrize("ndim", [2, 3])
@pytest.mark.parametrize("sampler", [RandomSampler, SamplerWithoutReplacement])
@pytest.mark.parametrize("kind", ["lazy", "memmap"])
def test_samples_are_flat_and_their_index_finds_them_again(kind: str, sampler: type, ndim: int) -> None:
    rb = TensorDictReplayBuffer(storage=make_storage(kind, 500, ndim, as_scalar), sampler=sampler(), batch_size=11)
    shape = (2, 3, 7)[-ndim:]
    rb.extend(as_tensordict(torch.arange(torch.Size(shape).numel()).reshape(shape)))
    sample, info = rb.sample(return_info=True)
    assert sample.batch_size == (11,) and sample["index"].shape == (11, ndim)
    assert isinstance(info["index"], tuple) and (torch.stack(info["index"], -1) == sample["index"]).all()
    again = rb[info["index"]]
    assert (numbers_of(again.exclude("index")) == numbers_of(sample.exclude("index"))).all()
    assert (rb[sample["index"]]["index"] == sample["index"]).all()
    rb[sample["index"]] = sample.exclude("index")
    assert len(numbers_of(rb[:].exclude("index")).unique()) == len(rb)


def test_data_for_another_number_of_envs_is_refused() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10, ndim=2))
    rb.extend(torch.zeros(2, 3))
    with pytest.raises(ValueError) as caught:
        rb.extend(torch.zeros(4, 3))
    assert str(caught.value) == (
        "The storage holds [2] items a row (such as one for each env), and the data has [4]. Nothing was written. "
        "Fix: give data with as many, or use another buffer."
    )
    with pytest.raises(ValueError) as caught:
        rb.extend(torch.zeros(4))
    assert str(caught.value) == (
        "The data needs 2 leading dimensions, such as [envs, time], and got a tensor of shape [4]. Nothing was "
        "written. Fix: data.unsqueeze(0) for the steps of one env, or a storage with ndim=1."
    )
    with pytest.raises(ValueError) as caught:
        rb.add(torch.zeros(3, 2))
    assert str(caught.value).startswith("add stores one row, and got data that looks like 3 of the rows")
    assert len(rb) == 6


def test_dim_extend_is_one_of_the_dimensions() -> None:
    with pytest.raises(ValueError) as caught:
        ReplayBuffer(storage=LazyTensorStorage(10, ndim=2), dim_extend=2)
    assert str(caught.value) == (
        "dim_extend must be from 0 to 1 for a storage with ndim=2, and got 2. It is the dimension along which new data "
        "is appended, usually time, the last one."
    )
    assert ReplayBuffer(storage=LazyTensorStorage(10, ndim=3)).dim_extend == 2


def test_writing_data_of_another_shape_than_is_read_changes_nothing() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(40, ndim=2))
    rb.extend(torch.arange(12).reshape(4, 3))
    before = rb[:].clone()
    for index, shape in (((slice(None), slice(1, 3)), (2, 3)), (0, (3,)), ((0, 1), (1,)), (slice(0, 2), (4, 2))):
        with pytest.raises(ValueError, match="does not fit"):
            rb[index] = torch.zeros(shape, dtype=torch.int64)
    assert (rb[:] == before).all()


@pytest.mark.parametrize("dims", [(2, 5), (5, 2)])
def test_adding_a_rollout_of_several_envs_is_explained(dims: tuple[int, int]) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10, ndim=2))
    rb.extend(torch.zeros(2, 3, 4))
    with pytest.raises(ValueError) as caught:
        rb.add(torch.zeros(*dims, 4))
    assert str(caught.value) == (
        "add stores one row, and got data that looks like 5 of the rows that are stored. Nothing was written. "
        "Fix: buffer.extend(data) to store 5 rows; to store all of it as one row, use a buffer of its own, whose first "
        "row it is."
    )
    assert len(rb) == 6
