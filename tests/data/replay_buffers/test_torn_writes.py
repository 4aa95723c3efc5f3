"""Rejected writes change nothing: no item is half written, and no rejected write defines the form of the storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
from rlnb.data.replay_buffers.forms.structure import STORABLE

STORAGES = [LazyTensorStorage, LazyMemmapStorage]
WRITES: dict[str, Callable[[ReplayBuffer, TensorDict], object]] = {
    "extend": lambda rb, data: rb.extend(data),
    "a list": lambda rb, data: rb.extend([data[0], data[1]]),
    "add": lambda rb, data: rb.add(data[0]),
    "a slice": lambda rb, data: rb.__setitem__(slice(0, 6), data),
    "a list of places": lambda rb, data: rb.__setitem__([0, 1, 2, 3, 4, 5], data),
    "one": lambda rb, data: rb.__setitem__(3, data[0]),
    "a list in places": lambda rb, data: rb.storage.set(slice(0, 2), [data[0], data[1]]),
}


def without_numbers(kind: str, count: int = 6) -> torch.Tensor:
    zeros = torch.zeros(count, 3)
    return zeros.to("meta") if kind == "meta" else zeros.to_sparse()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", ["meta", "sparse"])
@pytest.mark.parametrize("write", WRITES)
def test_a_leaf_without_numbers_tears_no_item(storage: Any, kind: str, write: str) -> None:
    rb = TensorDictReplayBuffer(storage=storage(6), batch_size=2)
    rb.extend(TensorDict({"first": torch.arange(6), "second": torch.ones(6, 3)}, [6]))
    before = rb[:].clone()
    bad = TensorDict({"first": torch.arange(100, 106), "second": without_numbers(kind)}, [6])
    with pytest.raises(ValueError, match=r"The data has a tensor .* at 'second'.*Nothing was written. Fix: give dense"):
        WRITES[write](rb, bad)
    assert (rb[:] == before).all() and rb.writer._cursor == 0
    rb.extend(before[:1].exclude("index"))
    assert rb.writer._cursor == 1


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_refused_first_write_decides_nothing(storage: Any) -> None:
    quantized = torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.quint8)
    rb = ReplayBuffer(storage=storage(6), batch_size=2)
    behind = {"a": torch.zeros(6), "b": without_numbers("sparse")}
    for bad in (quantized, without_numbers("meta"), without_numbers("sparse"), behind):
        with pytest.raises((TypeError, ValueError), match="Nothing was written"):
            rb.extend(bad)
        assert len(rb) == 0 and rb.storage.form is None
    with pytest.raises(ValueError, match="Nothing was written"):
        rb.add({"a": torch.tensor(1.0), "b": without_numbers("meta")})
    assert rb.storage.form is None
    assert rb.extend(torch.arange(3)).tolist() == [0, 1, 2]


def test_a_first_write_that_fails_late_decides_nothing() -> None:
    """Whatever it is that cannot be copied, here a number that says so when it is asked."""

    class Failing(LazyTensorStorage):
        def _put(self, *given: Any) -> None:
            raise NotImplementedError

    rb = ReplayBuffer(storage=Failing(6), batch_size=2)
    with pytest.raises(NotImplementedError):
        rb.extend(torch.zeros(3))
    assert rb.storage.form is None and len(rb) == 0


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", STORABLE, ids=str)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_every_storable_dtype_is_written_and_read(storage: Any, dtype: torch.dtype) -> None:
    data = torch.randint(0, 2, (8, 1200), dtype=torch.uint8).view(dtype)  # rows that numpy gathers, and longer ones
    for columns in (2, data.shape[1]):
        rb = ReplayBuffer(storage=storage(6), batch_size=3)
        rb.extend(data[:4, :columns])
        rb.add(data[4, :columns])
        rb[torch.tensor([0, 2])] = data[5:7, :columns]
        rb.extend(data[6:8, :columns])
        expected = torch.stack([data[i, :columns] for i in (7, 1, 6, 3, 4, 6)])
        for found in (rb[:], rb[[0, 1, 2, 3, 4, 5]]):
            assert found.dtype == dtype
            assert torch.equal(found.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8))
