"""The documented ways to create and convert TensorDicts, called on the TensorDict of rlnb.data."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
from collections import namedtuple
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlnb.data import LazyStackedTensorDict, MemoryMappedTensor, TensorDict


@dataclasses.dataclass
class Step:
    obs: torch.Tensor
    reward: torch.Tensor


Pair = namedtuple("Pair", ["left", "right"])


def step() -> Step:
    return Step(torch.arange(6.0).view(3, 2), torch.ones(3))


def test_modules_become_one_stack_of_parameters() -> None:
    modules = [nn.Linear(2, 3) for _ in range(4)]
    params = TensorDict.from_modules(*modules)
    assert params.batch_size == (4,) and params["weight"].shape == (4, 3, 2)
    x, empty = torch.rand(5, 2), nn.Linear(2, 3, device="meta")

    def call(p: Any) -> torch.Tensor:
        with p.to_module(empty):
            return empty(x)

    out = torch.vmap(call)(params)
    torch.testing.assert_close(out, torch.stack([module(x) for module in modules]))
    out.sum().backward()
    assert modules[0].weight.grad is None, "the stack is a copy"
    lazy = TensorDict.from_modules(*modules, lazy_stack=True)
    lazy["weight"].sum().backward()
    assert modules[0].weight.grad is not None


def test_from_any() -> None:
    data = {"a": torch.zeros(3, 2), "b": {"c": (torch.ones(3), step())}}
    found = TensorDict.from_any(data)
    assert found.batch_size == () and found["b", "c", "0"].sum() == 3 and found["b", "c", "1", "obs"].shape == (3, 2)
    assert TensorDict.from_any(data, auto_batch_size=True, batch_dims=1).batch_size == (3,)


def test_dataclasses() -> None:
    found = TensorDict.from_dataclass(step(), batch_size=[3])
    assert type(found) is TensorDict and found.batch_size == (3,) and set(found.keys()) == {"obs", "reward"}
    made = TensorDict.from_dataclass(step(), as_tensorclass=True)
    assert torch.equal(made.obs, step().obs)
    with pytest.raises(TypeError):
        TensorDict.from_dataclass({"a": torch.zeros(3)})


def test_tuples() -> None:
    pair = Pair(torch.zeros(3), {"x": torch.ones(3)})
    found = TensorDict.from_namedtuple(pair, auto_batch_size=True)
    assert found["right", "x"].sum() == 3
    back = found.to_namedtuple()
    assert back._fields == ("left", "right") and torch.equal(back.left, pair.left)
    assert list(TensorDict.from_tuple((torch.zeros(3), torch.ones(3))).keys()) == ["0", "1"]


def test_pytrees_there_and_back() -> None:
    tree = [{"a": torch.zeros(3), 1: (torch.ones(3), Pair(torch.zeros(2), torch.ones(2)))}]
    back = TensorDict.from_pytree(tree).to_pytree()
    assert type(back) is list and set(back[0]) == {"a", 1} and type(back[0][1][1]) is Pair
    assert torch.equal(back[0][1][1].right, torch.ones(2))


def test_structured_arrays_share_memory() -> None:
    array = np.zeros(3, dtype=[("x", "f4"), ("n", "i4")])
    td = TensorDict.from_struct_array(array)
    assert td.batch_size == (3,)
    array["x"][1] = 7
    assert td["x"].tolist() == [0, 7, 0]
    assert td.to_struct_array()["x"].tolist() == [0, 7, 0]


def test_hdf5(tmp_path: Path, missing: Callable[..., Any]) -> None:
    try:
        import h5py
    except ImportError:
        missing("h5py", "it writes the file")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["a"] = np.arange(6.0).reshape(3, 2)
        file["b/c"] = np.ones(3)
    td = TensorDict.from_h5(tmp_path / "data.h5")
    assert type(td).__name__ == "PersistentTensorDict" and td["b", "c"].sum() == 3


def test_one_value_for_all_keys() -> None:
    assert {key: int(value) for key, value in TensorDict.fromkeys(["a", "b"], 3).items()} == {"a": 3, "b": 3}
    assert int(TensorDict.fromkeys(["a"])["a"]) == 0


def _receive(meeting: Path, found: Any) -> None:
    """Be the second of two ranks: receive a TensorDict that this process knows nothing of, then its next contents."""
    torch.distributed.init_process_group("gloo", init_method=meeting.as_uri(), rank=1, world_size=2)
    td = TensorDict.from_remote_init(0)
    first = td.clone()
    td.recv(0, consolidated=True)
    found.put([tuple(td.batch_size), *(data[key].tolist() for data in (first, td) for key in ("a", ("n", "b")))])
    torch.distributed.destroy_process_group()


def test_a_rank_receives_what_it_knows_nothing_of(tmp_path: Path, missing: Callable[..., Any]) -> None:
    if not hasattr(os, "fork") or not torch.distributed.is_gloo_available():
        missing("fork and gloo", "the test is two ranks, this process and a fork of it", optional=True)
    processes = multiprocessing.get_context("fork")
    found = processes.SimpleQueue()
    child = processes.Process(target=_receive, args=(tmp_path / "meeting", found), daemon=True)
    child.start()
    meeting, limit = (tmp_path / "meeting").as_uri(), timedelta(minutes=1)
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=2, timeout=limit)
    try:
        td = TensorDict({"a": torch.arange(6).view(3, 2), "n": {"b": torch.tensor([True, False, True])}}, [3])
        td = td.consolidate()
        td.init_remote(1)
        td["a"].add_(1)
        td.send(1, consolidated=True)
        child.join(60)
        assert child.exitcode == 0
        flags = [True, False, True]
        assert found.get() == [(3,), [[0, 1], [2, 3], [4, 5]], flags, [[1, 2], [3, 4], [5, 6]], flags]
    finally:
        torch.distributed.destroy_process_group()


def test_maps_without_content_and_loading(tmp_path: Path) -> None:
    td = TensorDict({"a": torch.ones(3, 2), "n": {"b": torch.ones(3)}}, [3])
    twin = td.memmap_like(tmp_path / "twin")
    assert type(twin["a"]) is MemoryMappedTensor and twin["n", "b"].shape == (3,) and not twin["a"].any()
    td.memmap(tmp_path / "td")
    meta = TensorDict.load_memmap(tmp_path / "td", device="meta")
    assert meta["a"].is_meta and meta["n", "b"].shape == (3,)
    out = td.clone().zero_()
    TensorDict.load_memmap(tmp_path / "td", out=out)
    assert (out == td).all()
    TensorDict({"a/b": torch.ones(2)}).memmap(tmp_path / "odd", robust_key=True)
    assert list(TensorDict.load_memmap(tmp_path / "odd", robust_key=True).keys()) == ["a/b"]


def test_lazy_stacks_of_any_shape() -> None:
    stack = LazyStackedTensorDict.lazy_stack([TensorDict({"a": torch.zeros(n)}) for n in (1, 2)])
    assert stack.batch_size == (2,) and [piece["a"].numel() for piece in stack.tensordicts] == [1, 2]
