"""Columns: one leaf of all elements, in one piece of memory, written and gathered at the speed of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack

from rlnb.data.replay_buffers import faults
from rlnb.data.ted.keys import NestedKey

# Gathering short rows costs calls, which are cheaper in numpy; long rows cost memory traffic, where torch uses threads.
_SHORT_ROW_BYTES = 512
# The same for blocks of rows that are copied.
_SMALL_BLOCK_BYTES = 1 << 19
_ALIGNMENT = 64  # bytes, as torch aligns its own memory


class Column:
    """A tensor of shape ``[rows, *others, *shape]``: one leaf of all elements.

    Args:
        tensor: the memory.
        ndim: how many of its dimensions count elements.

    Attributes:
        tensor: the memory.
        flat: a view of it with one dimension in front of the leaf's shape.
        array: a numpy view of ``tensor``, or None where numpy cannot see it.
        short: whether its rows are best gathered by numpy.

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
        # All but the tensor are views of it, which a copy must have of its own.
        return type(self), (self.tensor, self.tensor.ndim - self.flat.ndim + 1)

    def put(self, start: int, values: torch.Tensor) -> None:
        """Write rows that lie one after another.

        Args:
            start: the first row.
            values: shape ``[n, *others, *shape]``.
        """
        end = start + len(values)
        if self.array is not None and values.device.type == "cpu" and values.nbytes <= _SMALL_BLOCK_BYTES:
            self.array[start:end] = _numbers(values)
        else:
            self.tensor[start:end] = values.detach()

    def fill(self, values: torch.Tensor) -> None:
        """Write all elements.

        Args:
            values: as many; leading dimensions as they come, none for a column of one element.
        """
        place = self.flat_array
        if place is not None and values.nbytes <= _SMALL_BLOCK_BYTES:
            try:
                array = values.numpy()
            except (RuntimeError, TypeError):  # it needs a gradient, is a conjugate, or lives on another device
                pass
            else:
                (place if array.ndim <= place.ndim else place.reshape(array.shape))[...] = array
                return
        self.flat.view(values.shape).copy_(values.detach())

    def scatter(self, index: torch.Tensor, values: torch.Tensor) -> None:
        """Write elements anywhere; the last one counts where a position comes twice.

        Args:
            index: positions along ``flat``, shape ``[n]``.
            values: shape ``[n, *shape]``.
        """
        if self.flat_array is not None:
            self.flat_array[index.numpy()] = _numbers(values)
            return
        # torch leaves open which of two values for one position stays.
        _, last = np.unique(index.numpy()[::-1], return_index=True)
        keep = torch.from_numpy(len(index) - 1 - last)
        where = index[keep].to(self.flat.device)
        self.flat[where] = values.detach()[keep.to(values.device)].to(self.flat.device)

    def take(self, index: torch.Tensor) -> torch.Tensor:
        """Gather elements.

        Args:
            index: positions along ``flat``, shape ``[n]``.

        Returns:
            A new tensor of shape ``[n, *shape]``.
        """
        if self.short:
            return torch.from_numpy(self.flat_array.take(index.numpy(), 0))  # type: ignore[union-attr]
        if self.flat_array is None:
            index = index.to(self.flat.device)
        return self.flat.index_select(0, index)

    def rows(self, span: slice) -> torch.Tensor:
        """Look at rows that lie one after another.

        Args:
            span: which.

        Returns:
            A view of shape ``[n, *others, *shape]``.
        """
        return self.tensor[span]

    def one(self, position: int) -> torch.Tensor:
        """Look at one element.

        Args:
            position: along ``flat``.

        Returns:
            A view of shape ``[*shape]``.
        """
        return self.flat[position]


class ObjectColumn:
    """Python objects in place of tensors: the non-tensor data of all elements.

    Args:
        shape: how many elements there are along each dimension.

    Attributes:
        array: the objects, a numpy array of the given shape.

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
        """Write rows that lie one after another; see :meth:`Column.put`."""
        rows = len(values) if values.batch_size else 1
        self.array[start : start + rows] = _objects(values, (rows, *self.array.shape[1:]))

    def scatter(self, index: torch.Tensor, values: Any) -> None:
        """Write elements anywhere; see :meth:`Column.scatter`."""
        self.flat_array[index.numpy()] = _objects(values, (len(index),))

    def take(self, index: torch.Tensor) -> Any:
        """Gather elements; see :meth:`Column.take`."""
        return _wrapped(self.flat_array[index.numpy()])

    def rows(self, span: slice) -> Any:
        """Copy rows that lie one after another; see :meth:`Column.rows`."""
        return _wrapped(self.array[span])

    def one(self, position: int) -> Any:
        """Copy one element; see :meth:`Column.one`."""
        return NonTensorData(self.flat_array[position])


AnyColumn = Column | ObjectColumn


class RowArrays:
    """The arrays of columns, to write one row: several times as fast as a block that has one row.

    Args:
        columns: numpy can see all of them; see :meth:`fits`.

    Example:
        >>> columns = [Column(torch.zeros(4, 1), ndim=1), Column(torch.zeros(4, 2), ndim=1)]
        >>> RowArrays(columns).put(1, [torch.ones(1), torch.ones(2)])
        >>> columns[0].take(torch.arange(3)).tolist()
        [[0.0], [1.0], [0.0]]
    """

    __slots__ = ("_arrays", "_columns")

    def __init__(self, columns: Sequence[AnyColumn]) -> None:
        self._columns = columns
        # Those whose rows are single numbers have one dimension: a number is read and written in a third of the time.
        self._arrays = [
            np.squeeze(array, tuple(range(1, array.ndim))) if array.size == len(array) else array
            for array in (column.array for column in columns)
            if array is not None
        ]

    @staticmethod
    def fits(columns: Sequence[AnyColumn]) -> bool:
        """Whether numpy can see all of the columns."""
        return all(isinstance(column, Column) and column.array is not None for column in columns)

    def __reduce__(self) -> Any:
        return RowArrays, (self._columns,)  # a copy looks at the copied columns

    def put(self, position: int, leaves: Sequence[torch.Tensor]) -> None:
        """Write a row.

        Args:
            position: where.
            leaves: the row of each column, of the shape that it has there.
        """
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
    """Make room for one leaf of all elements, with nothing written there yet.

    It comes from numpy, which asks for the large pages of the system: scattered rows then cost fewer look-ups of where
    a page is, about a tenth of the time to gather a batch.

    Args:
        key: of the leaf, for the error.
        shape: of the tensor.
        dtype: of the tensor.
        device: of the tensor; None for the CPU.

    Returns:
        The tensor.

    Raises:
        MemoryError: if there is not so much memory.

    Example:
        >>> new_memory("a", (3, 2), torch.float32, None).shape
        torch.Size([3, 2])
    """
    size = math.prod(shape) * dtype.itemsize
    try:
        if device is not None and device.type != "cpu":
            return torch.empty(shape, dtype=dtype, device=device)
        block = np.empty(size + _ALIGNMENT, np.uint8)
    except (MemoryError, ValueError, torch.OutOfMemoryError) as cause:
        raise MemoryError(faults.no_memory(key, shape, dtype, size)) from cause
    start = -block.ctypes.data % _ALIGNMENT
    return torch.from_numpy(block[start : start + size]).view(dtype).view(tuple(shape))


def _numpy_view(tensor: torch.Tensor) -> np.ndarray | None:
    """A view that numpy can write through, or None: another device, a lazy conjugate, or a dtype that it lacks."""
    if tensor.device.type != "cpu":
        return None
    try:
        return tensor.detach().numpy()
    except (RuntimeError, TypeError):
        return None


def _numbers(values: torch.Tensor) -> np.ndarray:
    """The values of a tensor; one that needs a gradient, is a lazy conjugate or lives elsewhere is copied."""
    try:
        return values.numpy()
    except (RuntimeError, TypeError):
        return values.detach().cpu().resolve_conj().resolve_neg().numpy()


def _objects(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The objects of non-tensor data, one for each element; an object that may be a list stays whole."""
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
    """Non-tensor data with the shape of an array of objects."""
    if array.ndim == 1:
        return (
            NonTensorStack(*[NonTensorData(value) for value in array])
            if len(array)
            else NonTensorData(data=None, batch_size=[0])
        )
    return NonTensorStack(*[_wrapped(member) for member in array])


def reshape_objects(values: Any, shape: Sequence[int]) -> Any:
    """Reshape non-tensor data.

    Args:
        values: one object for each element.
        shape: the dimensions of the result; none for a single object.

    Returns:
        Non-tensor data of that batch size.

    Example:
        >>> reshape_objects(NonTensorStack("a", "b", "c", "d"), (2, 2)).tolist()
        [['a', 'b'], ['c', 'd']]
    """
    array = _objects(values, tuple(shape))
    return _wrapped(array) if array.ndim else NonTensorData(array.item())
