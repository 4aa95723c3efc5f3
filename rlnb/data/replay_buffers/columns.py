"""Columns: one leaf of all stored items, in contiguous memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack

from rlnb.data.replay_buffers import errors
from rlnb.data.ted.keys import NestedKey

# Gathering short rows is limited by calls, which are cheaper in numpy; long rows by memory, where torch uses threads.
_SHORT_ROW_BYTES = 512
_SMALL_BLOCK_BYTES = 1 << 19  # the same for copies of blocks
_ALIGNMENT = 64  # bytes, as in memory that torch allocates


class Column:
    """A tensor of shape ``[rows, *others, *shape]``: one leaf of all items, which its first ``ndim`` dimensions count.

    Attributes:
        flat: a view of ``tensor`` with a single dimension that counts items.
        array: a numpy view of ``tensor``; None if numpy cannot access it.
        flat_array: likewise of ``flat``.
        short: whether numpy gathers its rows faster than torch.

    Example:
        >>> column = Column(torch.zeros(4, 2), ndim=1)
        >>> column.put(1, torch.ones(2, 2))
        >>> column.take(torch.tensor([1, 0, 2])).tolist()
        [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    """

    __slots__ = ("array", "flat", "flat_array", "short", "tensor")

    def __init__(self, tensor: torch.Tensor, ndim: int) -> None:
        self.tensor = tensor
        self.flat = tensor.flatten(0, ndim - 1) if ndim > 1 else tensor
        self.array = _numpy_view(tensor)
        self.flat_array = _numpy_view(self.flat)
        row_bytes = tensor.element_size() * tensor.shape[ndim:].numel()
        self.short = self.flat_array is not None and row_bytes <= _SHORT_ROW_BYTES

    def __reduce__(self) -> Any:
        # The other attributes are views of the tensor, which a copy must create again.
        return type(self), (self.tensor, self.tensor.ndim - self.flat.ndim + 1)

    def put(self, start: int, values: torch.Tensor) -> None:
        """Write consecutive rows: ``values`` of shape ``[n, *others, *shape]``."""
        end = start + len(values)
        if self.array is not None and values.device.type == "cpu" and values.nbytes <= _SMALL_BLOCK_BYTES:
            self.array[start:end] = _numbers(values)
        else:
            self.tensor[start:end] = values.detach()

    def fill(self, values: torch.Tensor) -> None:
        """Write all items: ``values`` of any leading dimensions, or without one for a column of one item."""
        place = self.flat_array
        if place is not None and values.nbytes <= _SMALL_BLOCK_BYTES:
            try:
                array = values.numpy()
            except (RuntimeError, TypeError):  # it requires a gradient, is a conjugate, or is on another device
                pass
            else:
                (place if array.ndim <= place.ndim else place.reshape(array.shape))[...] = array
                return
        self.flat.view(values.shape).copy_(values.detach())

    def scatter(self, index: torch.Tensor, values: torch.Tensor) -> None:
        """Write items at positions along ``flat``, shape ``[n]``; if one occurs twice, its last value counts."""
        if self.flat_array is not None:
            self.flat_array[index.numpy()] = _numbers(values)
            return
        # In torch it is undefined which of two values for one position stays.
        _, last = np.unique(index.numpy()[::-1], return_index=True)
        keep = torch.from_numpy(len(index) - 1 - last)
        where = index[keep].to(self.flat.device)
        self.flat[where] = values.detach()[keep.to(values.device)].to(self.flat.device)

    def take(self, index: torch.Tensor, positions: np.ndarray | None = None) -> torch.Tensor:
        """Copy the items at positions along ``flat``, shape ``[n]``, to a new tensor of shape ``[n, *shape]``.

        ``positions`` is the index as an array, which a caller makes once for many columns.
        """
        if self.short:
            positions = index.numpy() if positions is None else positions
            return torch.from_numpy(self.flat_array.take(positions, 0))  # type: ignore[union-attr]
        if self.flat_array is None:
            index = index.to(self.flat.device)
        return self.flat.index_select(0, index)

    def rows(self, span: slice) -> torch.Tensor:
        """Return a view of consecutive rows, shape ``[n, *others, *shape]``."""
        return self.tensor[span]

    def one(self, position: int) -> torch.Tensor:
        """Return a view of the item at a position along ``flat``."""
        return self.flat[position]


class ObjectColumn:
    """Python objects in place of tensors: the non-tensor data of all items, in ``array`` of the given shape.

    Example:
        >>> column = ObjectColumn((4,))
        >>> column.put(0, NonTensorStack("left", "right"))
        >>> column.take(torch.tensor([1, 1, 0])).tolist()
        ['right', 'right', 'left']
    """

    __slots__ = ("array", "flat_array", "short", "tensor")

    def __init__(self, shape: Sequence[int]) -> None:
        self.__setstate__(np.full(tuple(shape), None, dtype=object))

    def __getstate__(self) -> np.ndarray:
        return self.array

    def __setstate__(self, array: np.ndarray) -> None:
        self.array, self.flat_array = array, array.reshape(-1)
        self.short, self.tensor = False, None

    def put(self, start: int, values: Any) -> None:
        """Write consecutive rows; see :meth:`Column.put`."""
        rows = len(values) if values.batch_size else 1
        self.array[start : start + rows] = _objects(values, (rows, *self.array.shape[1:]))

    def scatter(self, index: torch.Tensor, values: Any) -> None:
        """Write items at any positions; see :meth:`Column.scatter`."""
        self.flat_array[index.numpy()] = _objects(values, (len(index),))

    def take(self, index: torch.Tensor, positions: np.ndarray | None = None) -> Any:
        """Gather items; see :meth:`Column.take`."""
        return _wrapped(self.flat_array[index.numpy()])

    def rows(self, span: slice) -> Any:
        """Copy consecutive rows; see :meth:`Column.rows`."""
        return _wrapped(self.array[span])

    def one(self, position: int) -> Any:
        """Copy one item; see :meth:`Column.one`."""
        return NonTensorData(self.flat_array[position])


AnyColumn = Column | ObjectColumn


class RowArrays:
    """The arrays of columns that numpy can access, to write single rows several times as fast as a block of one row."""

    __slots__ = ("_arrays", "_columns")

    def __init__(self, columns: Sequence[AnyColumn]) -> None:
        self._columns = columns
        # Columns of single numbers become one-dimensional: a number is read and written in a third of the time.
        self._arrays = [
            np.squeeze(array, tuple(range(1, array.ndim))) if array.size == len(array) else array
            for array in (column.array for column in columns)
            if array is not None
        ]

    def __reduce__(self) -> Any:
        return RowArrays, (self._columns,)  # a copy refers to the copied columns

    def put(self, position: int, leaves: Sequence[torch.Tensor]) -> None:
        """Write a row: a leaf of shape ``[*others, *shape]`` for each column."""
        try:
            values = [
                leaf.item() if array.ndim == 1 else leaf.numpy()
                for array, leaf in zip(self._arrays, leaves, strict=True)
            ]
        except (RuntimeError, TypeError):
            values = [_numbers(leaf).reshape(array.shape[1:]) for array, leaf in zip(self._arrays, leaves, strict=True)]
        for array, value in zip(self._arrays, values, strict=True):
            array[position] = value


def new_memory(key: NestedKey, shape: Sequence[int], dtype: torch.dtype, device: torch.device | None) -> torch.Tensor:
    """Allocate uninitialized memory for one leaf of all items; ``MemoryError`` names its key.

    numpy allocates it, because numpy asks the system for huge pages: with fewer page lookups for scattered rows,
    gathering a batch takes about a tenth less time.
    """
    size = math.prod(shape) * dtype.itemsize
    try:
        if device is not None and device.type != "cpu":
            return torch.empty(shape, dtype=dtype, device=device)
        block = np.empty(size + _ALIGNMENT, np.uint8)
    except (MemoryError, ValueError, torch.OutOfMemoryError) as cause:
        raise MemoryError(
            f"There is no memory for {size:,} bytes{errors.at(key)}: shape {list(shape)} and dtype {dtype}. "
            "Nothing was written. Fix: a smaller max_size, a LazyMemmapStorage, which keeps its data in files, or a "
            "smaller dtype, such as uint8 for pixels."
        ) from cause
    start = -block.ctypes.data % _ALIGNMENT
    return torch.from_numpy(block[start : start + size]).view(dtype).view(tuple(shape))


def _numpy_view(tensor: torch.Tensor) -> np.ndarray | None:
    """Return a writable numpy view; None for another device, a lazy conjugate, or a dtype that numpy lacks."""
    if tensor.device.type != "cpu":
        return None
    try:
        return tensor.detach().numpy()
    except (RuntimeError, TypeError):
        return None


def _numbers(values: torch.Tensor) -> np.ndarray:
    """Return the values of a tensor; copied if it requires a gradient, is a lazy conjugate or is on another device."""
    try:
        return values.numpy()
    except (RuntimeError, TypeError):
        return values.detach().cpu().resolve_conj().resolve_neg().numpy()


def _objects(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the objects of non-tensor data, one for each item; an object that is a list is not split."""
    array = np.empty(shape, dtype=object)
    flat = array.reshape(-1)
    for i, value in enumerate(_each(values, len(flat))):
        flat[i] = value
    return array


def _each(values: Any, count: int) -> list[Any]:
    if isinstance(values, NonTensorData):
        return [values.data] * count
    if not isinstance(values, NonTensorStack):
        return [values] * count
    return [value for member in values.tensordicts for value in _each(member, max(member.batch_size.numel(), 1))]


def _wrapped(array: np.ndarray) -> Any:
    """Return an array of objects as non-tensor data of the same shape."""
    if array.ndim == 1:
        return (
            NonTensorStack(*[NonTensorData(value) for value in array])
            if len(array)
            else NonTensorData(data=None, batch_size=[0])
        )
    return NonTensorStack(*[_wrapped(member) for member in array])


def reshape_objects(values: Any, shape: Sequence[int]) -> Any:
    """Reshape non-tensor data with one object for each item; no dimensions make a single object."""
    array = _objects(values, tuple(shape))
    return _wrapped(array) if array.ndim else NonTensorData(array.item())
