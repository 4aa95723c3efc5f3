"""Data of every form and storages of every kind, for the tests of replay buffers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from rlnb.data import LazyMemmapStorage, LazyTensorStorage, ListStorage, Storage, TensorStorage

Make = Callable[[torch.Tensor], Any]


def as_tensor(numbers: torch.Tensor) -> Any:
    """Elements as vectors of two: the number and its negative."""
    return torch.stack([numbers, -numbers], -1).float()


def as_scalar(numbers: torch.Tensor) -> Any:
    """Elements as integers."""
    return numbers.clone()


def as_tensordict(numbers: torch.Tensor) -> Any:
    """Elements as steps in the TED format, with entries of several dtypes and a nested batch size."""
    agents = TensorDict({"x": numbers[..., None, None].expand(*numbers.shape, 3, 1).double()}, [*numbers.shape, 3])
    below = TensorDict({"reward": numbers[..., None].float(), "done": (numbers % 5 == 4)[..., None]}, numbers.shape)
    return TensorDict({"observation": as_tensor(numbers), "agents": agents, "next": below}, numbers.shape)


def as_tuple(numbers: torch.Tensor) -> Any:
    """Elements as pairs."""
    return (numbers.clone(), as_tensor(numbers))


def as_tree(numbers: torch.Tensor) -> Any:
    """Elements as nested dictionaries and lists, with a TensorDict among them."""
    return {
        "a": {"b": numbers.bfloat16(), "c": [as_tensor(numbers), (numbers[..., None] > 2,)]},
        "d": as_tensordict(numbers),
    }


FORMS: dict[str, Make] = {
    "tensor": as_tensor,
    "scalar": as_scalar,
    "tensordict": as_tensordict,
    "tuple": as_tuple,
    "tree": as_tree,
}


def numbers_of(data: Any) -> torch.Tensor:
    """The numbers that a batch, or an element, was made of; every part of it must agree on them."""
    if isinstance(data, TensorDict):
        numbers = data["observation"][..., 0].long()
        assert data["agents", "x"].shape == (*numbers.shape, 3, 1)
        assert data["agents"].batch_size == (*numbers.shape, 3)
        assert (data["agents", "x"] == numbers[..., None, None]).all()
        assert (data["next", "reward"].squeeze(-1) == numbers).all()
        assert (data["next", "done"].squeeze(-1) == (numbers % 5 == 4)).all()
        return numbers
    if isinstance(data, tuple):
        assert (data[0] == data[1][..., 0]).all()
        return data[0]
    if isinstance(data, dict):
        numbers = numbers_of(data["d"])
        assert (data["a"]["b"].long() == numbers).all() and (data["a"]["c"][0][..., 1] == -numbers).all()
        assert (data["a"]["c"][1][0].squeeze(-1) == (numbers > 2)).all()
        return numbers
    return data if data.dtype == torch.int64 else data[..., 0].long()


def given_container(size: int, ndim: int, make: Make) -> TensorStorage:
    """A TensorStorage around zeros, with nothing filled."""
    shape = [size] if ndim == 1 else [-(-size // 2), 2]
    storage = TensorStorage(make(torch.zeros(shape, dtype=torch.int64)), ndim=ndim)
    storage._empty()
    return storage


def make_storage(kind: str, size: int, ndim: int, make: Make, folder: Path | None = None) -> Storage:
    """A storage of one kind; those of two dimensions are for two envs."""
    if kind == "list":
        return ListStorage(size)
    if kind == "given":
        return given_container(size, ndim, make)
    if kind == "memmap":
        return LazyMemmapStorage(size, ndim=ndim, scratch_dir=folder)
    return LazyTensorStorage(size, ndim=ndim)


KINDS = ("list", "given", "lazy", "memmap")
