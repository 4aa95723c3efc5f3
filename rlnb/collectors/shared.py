"""Batches in shared memory: a worker of a collector writes them, and the collector reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

from rlnb.data.ted.block import LeafInfo
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.batched.memory import SharedMemory

_ALIGNMENT = 64
Key = TypeVar("Key")


def size_of_tensors(tensors: Mapping[Any, LeafInfo]) -> int:
    """Count the bytes of memory that tensors take."""
    sizes = (shape.numel() * dtype.itemsize for shape, dtype in tensors.values())
    return sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)


def allocate_tensors(tensors: Mapping[Key, LeafInfo], memory: SharedMemory) -> dict[Key, torch.Tensor]:
    """Allocate tensors in memory, one after another. Unlike NumPy arrays, they have any dtype of torch."""
    found = {}
    for key, (shape, dtype) in tensors.items():
        count = shape.numel() * dtype.itemsize
        if count:
            found[key] = torch.from_numpy(memory.array((count,), np.dtype("uint8"))).view(dtype).reshape(shape)
        else:
            found[key] = torch.empty(shape, dtype=dtype)
    return found


@dataclass(frozen=True)
class BatchPlan:
    """Plan of the shared memory for the batches of one worker, ``[*batch_size, time]``."""

    batch_size: torch.Size
    leaves: dict[NestedKey, LeafInfo]  # shape and dtype of each entry

    @classmethod
    def of(cls, batch: TensorDictBase) -> BatchPlan | None:
        """Plan memory for batches like this one. None if an entry is not a plain tensor on the CPU."""
        try:
            entries = dict(_leaves(batch))
        except RuntimeError:  # rows of different shapes, which do not stack
            return None
        if isinstance(batch, LazyStackedTensorDict) or not all(map(_is_plain, entries.values())):
            return None
        return cls(batch.batch_size, {key: (value.shape, value.dtype) for key, value in entries.items()})

    @property
    def size(self) -> int:
        """Number of bytes of the memory."""
        return size_of_tensors(self.leaves)


class SharedBatch:
    """One batch in shared memory, which its worker overwrites with the next one.

    Example:
        >>> from tensordict import TensorDict
        >>> batch = TensorDict({"reward": torch.ones(3, 1)}, [3])
        >>> plan = BatchPlan.of(batch)
        >>> memory = SharedMemory(plan.size)
        >>> shared = SharedBatch(plan, memory)
        >>> shared.write(batch), shared.write(batch[:2]), shared.write(batch.clone().set("done", batch["reward"]))
        (True, True, False)
        >>> shared.views_like(batch)["reward"].flatten()
        tensor([1., 1., 1.])
    """

    def __init__(self, plan: BatchPlan, memory: SharedMemory) -> None:
        self.plan, self._time = plan, len(plan.batch_size) - 1
        self._tensors = allocate_tensors(plan.leaves, memory)

    def write(self, batch: TensorDictBase) -> bool:
        """Write a batch, which may have fewer steps than planned. Returns False if it does not fit."""
        plan, length = self.plan.batch_size, batch.batch_size[-1:].numel()
        if batch.batch_size[:-1] != plan[:-1] or not 0 < length <= plan[-1]:
            return False
        entries = dict(_leaves(batch))
        if entries.keys() != self._tensors.keys():
            return False
        rows = {key: self._first(key, length) for key in entries}
        if not all(_is_plain(v) and v.dtype == rows[k].dtype and v.shape == rows[k].shape for k, v in entries.items()):
            return False
        for key, value in entries.items():
            rows[key].copy_(value)
        return True

    def views_like(self, example: TensorDictBase) -> TensorDictBase:
        """Return views of the whole batch in memory, in a TensorDict with the structure of a batch of this plan."""
        views: TensorDictBase = example.copy()
        for key, tensor in self._tensors.items():
            views.set(key, tensor)
        return views

    def _first(self, key: NestedKey, length: int) -> torch.Tensor:
        return self._tensors[key].narrow(self._time, 0, length)


def _leaves(batch: TensorDictBase) -> Iterable[tuple[NestedKey, Any]]:
    items: Iterable[tuple[NestedKey, Any]] = batch.items(True, True)
    return items


def _is_plain(value: Any) -> bool:
    """Whether a value is a dense tensor on the CPU."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and value.device.type == "cpu"
