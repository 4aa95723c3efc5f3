"""The plan of the shared memory: where the rows, the inputs and the notes of each env lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.batched.memory import bytes_for

ArrayInfo = tuple[tuple[int, ...], np.dtype]


class Layout(NamedTuple):
    """What lies in the shared memory.

    Args:
        block: the rows of all envs.
        inputs: what a step reads, ``[n, ...]``, by key.
        wanted: whether an env is to be reset, ``[n]``.
        moments: what each env did when, ``[n, 4]``; see :data:`~rlnb.envs.batched.trace.MOMENTS`.
        given: whether the batch wrote each of the inputs, ``[number of inputs]``.
    """

    block: TEDBlock
    inputs: dict[NestedKey, np.ndarray]
    wanted: np.ndarray
    moments: np.ndarray
    given: np.ndarray


@dataclass(frozen=True)
class BlockPlan:
    """How the data of all envs lies in the shared memory, so that each process finds its own.

    Args:
        n: how many envs.
        root: entries of a reset.
        next_only: entries that only a step gives.
        inputs: what a step reads: the arrays' shapes and dtypes, by key.
        fills_rows: whether envs write rows themselves; the only input is then the backend's action.
        size: of the memory, in bytes.
    """

    n: int
    root: dict[NestedKey, LeafInfo]
    next_only: dict[NestedKey, LeafInfo]
    inputs: dict[NestedKey, ArrayInfo]
    fills_rows: bool
    size: int = 0

    def measured(self) -> BlockPlan:
        """Find out how much memory is needed.

        Returns:
            The plan with its size.

        Example:
            >>> BlockPlan(2, {}, {}, {"action": ((2, 3), np.dtype("float32"))}, fills_rows=False).measured().size
            256
        """
        arrays: list[ArrayInfo] = []

        def note(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
            arrays.append((shape, np.dtype(dtype)))
            return np.zeros(shape, dtype)

        self.lay_out(note)
        return replace(self, size=bytes_for(arrays))

    def lay_out(self, allocate: Callable[[tuple[int, ...], np.dtype], np.ndarray]) -> Layout:
        """Cut the arrays out of memory, in the same order everywhere.

        Args:
            allocate: gives the next array of a shape and dtype.

        Returns:
            What lies where.
        """
        block = TEDBlock(self.root, self.next_only, 1, (self.n,), allocate)
        inputs = {key: allocate(shape, dtype) for key, (shape, dtype) in self.inputs.items()}
        wanted, moments = allocate((self.n,), np.dtype("bool")), allocate((self.n, 4), np.dtype("int64"))
        return Layout(block, inputs, wanted, moments, allocate((len(self.inputs),), np.dtype("bool")))


__all__ = ["ArrayInfo", "BlockPlan", "Layout"]
