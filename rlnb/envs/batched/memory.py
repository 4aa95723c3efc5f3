"""Shared memory of a ParallelEnv: anonymous memory, and the plan of the arrays of all envs in it."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import NestedKey

_ALIGNMENT = 64

ArrayInfo = tuple[tuple[int, ...], np.dtype]


class SharedMemory:
    """Anonymous shared memory, from which numpy arrays are allocated one after another.

    It exists as long as a process has it open, so nothing is left behind however the processes end.
    ``multiprocessing.shared_memory`` has names, and leaks memory when processes are killed.

    Args:
        size: number of bytes.
        on_disk: whether to back the memory by a temporary file on disk rather than by RAM.
        descriptor: file descriptor of memory that another process has made. Default: make new memory.

    Example:
        >>> memory = SharedMemory(24)
        >>> memory.array((2, 3), np.dtype("float32")).sum()
        np.float32(0.0)
    """

    def __init__(self, size: int, on_disk: bool = False, descriptor: int | None = None) -> None:
        self.size = max(size, _ALIGNMENT)
        self.descriptor = _new_descriptor(self.size, on_disk) if descriptor is None else descriptor
        self._map = mmap.mmap(self.descriptor, self.size)
        self._used = 0

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Allocate the next array, which keeps the memory alive. New memory holds zeros."""
        count = int(np.prod(shape, dtype=np.int64))
        array: np.ndarray = np.frombuffer(self._map, dtype, count, self._used).reshape(shape)
        self._used += _aligned(count * dtype.itemsize)
        return array

    def close(self) -> None:
        """Close the descriptor. The memory itself is released with the last array."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _new_descriptor(size: int, on_disk: bool) -> int:
    memfd_create: Any = getattr(os, "memfd_create", None)  # Linux
    if memfd_create is not None and not on_disk:
        descriptor: int = memfd_create("rlnb")
    else:
        with tempfile.TemporaryFile() as file:  # it has no name, or loses it at once
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


class BlockLayout(NamedTuple):
    """Arrays in the shared memory of a batch of ``n`` envs."""

    block: TEDBlock  # one row for each env, which holds the last reset and the last step
    inputs: dict[NestedKey, np.ndarray]  # what a step reads, [n, ...]
    selected: np.ndarray  # the envs that are to be stepped or reset, [n]
    moments: np.ndarray  # times of the last actions of each env, [n, 4]; see rlnb.envs.batched.trace
    given: np.ndarray  # whether the batch has written each of the inputs, [number of inputs]


@dataclass(frozen=True)
class BlockPlan:
    """Plan of the shared memory of a batch, from which each process finds the arrays of its envs.

    Example:
        >>> BlockPlan(2, {}, {}, {"action": ((2, 3), np.dtype("float32"))}, fills_rows=False).size
        256
    """

    n: int  # number of envs
    root: dict[NestedKey, LeafInfo]  # shape and dtype of the entries of a reset
    next_only: dict[NestedKey, LeafInfo]  # shape and dtype of the entries that only a step has
    inputs: dict[NestedKey, ArrayInfo]  # shape and dtype of what a step reads
    fills_rows: bool  # whether the envs write rows of numpy arrays, and read only the action of the backend

    @property
    def size(self) -> int:
        """Number of bytes of the memory."""
        sizes = []

        def measure(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
            array = np.zeros(shape, dtype)
            sizes.append(_aligned(array.nbytes))
            return array

        self.lay_out(measure)
        return sum(sizes)

    def lay_out(self, allocate: Callable[[tuple[int, ...], np.dtype], np.ndarray]) -> BlockLayout:
        """Allocate the arrays, in the same order in every process.

        ``allocate`` returns the next array, given its shape and dtype.
        """
        block = TEDBlock(self.root, self.next_only, 1, (self.n,), allocate)
        inputs = {key: allocate(shape, dtype) for key, (shape, dtype) in self.inputs.items()}
        selected, moments = allocate((self.n,), np.dtype("bool")), allocate((self.n, 4), np.dtype("int64"))
        return BlockLayout(block, inputs, selected, moments, allocate((len(self.inputs),), np.dtype("bool")))
