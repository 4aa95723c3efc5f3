"""Indexing: resolves indices of stored items to positions, and positions to indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rlnb.data.replay_buffers import errors


class Where(NamedTuple):
    """The place of the items of an index; positions count items along the flattened dimensions of the storage.

    It is one item at a ``position``, a ``span`` of rows, or several items at ``flat`` positions of shape ``[n]``; the
    other two are None. What is read has the batch dimensions ``lead``.
    """

    position: int | None
    span: slice | None
    flat: torch.Tensor | None
    lead: torch.Size

    def positions(self, width: int) -> torch.Tensor:
        """Return the positions of the items, shape ``[n]``, with ``width`` items in a row."""
        if self.span is not None:
            return torch.arange(self.span.start * width, self.span.stop * width)
        return torch.tensor([self.position]) if self.flat is None else self.flat


def one(position: int) -> Where:
    """Return the place of a single item."""
    return Where(position, None, None, torch.Size(()))


def where(index: Any, shape: Sequence[int]) -> Where:
    """Resolve an index.

    Args:
        index: an integer, slice, list, array or tensor of integers or of booleans, ``...``, None, or a tuple with one
            of these for each dimension. In a storage of several dimensions, the last dimension of a tensor may also
            hold the coordinates of an item, as the ``"index"`` of a sample does.
        shape: of the filled part of the storage.

    Returns:
        The place of the items.

    Raises:
        IndexError: If the index is out of range, or a mask has another shape.
        TypeError: If it is not an index.

    Example:
        >>> where([0, -1], [5]).flat
        tensor([0, 4])
        >>> where(slice(1, 3), [5, 2]).lead
        torch.Size([2, 2])
    """
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    if index is Ellipsis:
        index = slice(None)
    if isinstance(index, slice):
        return _slice(index, shape)
    if isinstance(index, tuple) or index is None:
        return _grid(index if isinstance(index, tuple) else (index,), shape)
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        position = _within(int(index), shape[0], len(shape))
        return one(position) if len(shape) == 1 else _rows(np.array(position), shape)
    array = _array(index)
    if array.dtype == bool:
        return _mask(array, shape)
    if len(shape) > 1 and array.ndim > 1 and array.shape[-1] == len(shape):
        return _grid(tuple(np.moveaxis(array, -1, 0)), shape)
    array = _all_within(array, shape[0], len(shape))
    if len(shape) > 1:
        return _rows(array, shape)
    return _some(array) if array.ndim else one(int(array))


def _slice(index: slice, shape: Sequence[int]) -> Where:
    start, stop, step = index.indices(shape[0])
    if step != 1:
        return _rows(np.arange(start, stop, step), shape)
    stop = max(start, stop)
    return Where(None, slice(start, stop), None, torch.Size((stop - start, *shape[1:])))


def _some(array: np.ndarray) -> Where:
    flat = torch.from_numpy(np.ascontiguousarray(array).reshape(-1))
    return Where(None, None, flat, torch.Size(array.shape))


def _rows(array: np.ndarray, shape: Sequence[int]) -> Where:
    """Return the place of whole rows."""
    others = tuple(shape[1:])
    if not others:
        return _some(array)
    width = int(np.prod(others))
    flat = array[..., None] * width + np.arange(width)
    return _some(flat.reshape(*array.shape, *others))


def _mask(mask: np.ndarray, shape: Sequence[int]) -> Where:
    if mask.shape == tuple(shape):
        return _some(np.flatnonzero(mask))
    if mask.shape == (shape[0],):
        return _rows(np.flatnonzero(mask), shape)
    raise IndexError(
        f"A mask of shape {list(mask.shape)} cannot index stored items of shape {list(shape)}. "
        "Fix: give it one value for each stored item."
    )


def _grid(index: tuple[Any, ...], shape: Sequence[int]) -> Where:
    """Resolve an index with one part for each dimension, with the semantics of torch."""
    parts = [part if isinstance(part, (int, slice)) or _selects_nothing(part) else _array(part) for part in index]
    if sum(not _selects_nothing(part) for part in parts) > len(shape):
        raise IndexError(
            f"The index has {len(parts)} parts, and the items are counted along {len(shape)} "
            f"dimension{'s' if len(shape) > 1 else ''}. "
            "Fix: a list of positions is written buffer[[0, 1]]; entries are read as buffer[:]['key']."
        )
    if len(parts) == len(shape) and all(map(_holds_numbers, parts)):  # needs no array of all positions
        arrays = [np.asarray(part) for part in parts]
        inside = [_all_within(part, size, len(shape)) for part, size in zip(arrays, shape, strict=True)]
        found = np.ravel_multi_index(tuple(np.broadcast_arrays(*inside)), tuple(shape))
    else:
        # numpy treats an integer beside an array as an array, which moves dimensions; so integers are applied first.
        first: list[Any] = []
        for part in parts:
            if isinstance(part, int) or part is Ellipsis:
                first.append(part)
            elif part is not None:
                first += [slice(None)] * (part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1)
        rest = tuple(part for part in parts if not isinstance(part, int))
        try:
            found = np.arange(int(np.prod(shape))).reshape(tuple(shape))[tuple(first)][rest]
        except IndexError as error:
            raise IndexError(f"The index is out of range for stored items of shape {list(shape)}: {error}.") from None
    if np.ndim(found) == 0:
        return one(int(found))
    return _some(found)


def _selects_nothing(part: Any) -> bool:
    """Whether a part of an index does not select from a dimension: ``...``, and None, which adds one."""
    return part is Ellipsis or part is None


def _holds_numbers(part: Any) -> bool:
    return isinstance(part, int) or (isinstance(part, np.ndarray) and part.dtype != bool)


def _array(given: Any) -> np.ndarray:
    index = given
    if isinstance(index, torch.Tensor):
        index = index.detach().cpu().numpy()
    elif not isinstance(index, (np.ndarray, list, tuple, range)):
        raise TypeError(_bad_index(index))
    array = np.asarray(index)
    if array.size == 0:
        array = array.astype(np.int64) if array.dtype != bool else array
    if array.dtype != bool and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(_bad_index(given))
    return array if array.dtype == bool else array.astype(np.int64, copy=False)


def _within(position: int, length: int, ndim: int) -> int:
    if not -length <= position < length:
        raise IndexError(_out_of_range(position, length, ndim))
    return position % length


def _all_within(array: np.ndarray, length: int, ndim: int) -> np.ndarray:
    if array.size:
        least, most = int(array.min()), int(array.max())
        if least < -length or most >= length:
            raise IndexError(_out_of_range(most if most >= length else least, length, ndim))
        if least < 0:
            return np.where(array < 0, array + length, array)
    return array


def ravel(index: Any, shape: Sequence[int]) -> torch.Tensor:
    """Turn the index of a sample into positions along the flattened dimensions; the inverse of :func:`unravel`.

    The index may also be a tensor whose last dimension holds the coordinates. Its range is not checked, and the first
    size of ``shape`` does not matter.
    """
    if len(shape) == 1:
        index = index[0] if isinstance(index, tuple) else index
        return torch.as_tensor(index, dtype=torch.int64, device="cpu").reshape(-1)
    parts = index if isinstance(index, tuple) else torch.as_tensor(index).unbind(-1)
    flat = torch.as_tensor(parts[0], dtype=torch.int64, device="cpu")
    for part, size in zip(parts[1:], shape[1:], strict=True):
        flat = flat * size + torch.as_tensor(part, device="cpu")
    return flat.reshape(-1)


def unravel(flat: torch.Tensor, shape: Sequence[int]) -> Any:
    """Turn positions into the index of a sample: the positions; with several dimensions a tuple of tensors for each.

    Example:
        >>> unravel(torch.tensor([1, 5]), [5, 3])
        (tensor([0, 1]), tensor([1, 2]))
    """
    if len(shape) == 1:
        return flat
    parts = []
    for size in reversed(shape[1:]):
        parts.append(flat % size)
        flat = flat // size
    return (flat, *reversed(parts))


def _bad_index(index: object) -> str:
    dtype = getattr(index, "dtype", None)
    what = f"A {type(index).__name__}" + ("" if dtype is None else f" of dtype {dtype}")
    return f"{what} cannot index a buffer. Fix: give an integer, a slice, a list or tensor of integers, or a mask."


def _out_of_range(index: int, length: int, ndim: int) -> str:
    if not length:
        empty = errors.NOTHING_STORED
        return f"Index {index} is out of range: {empty[0].lower()}{empty[1:]}"
    if ndim > 1:
        return f"Index {index} is out of range for a dimension of size {length}: it can be {-length} to {length - 1}."
    return f"Index {index} is out of range: {length} items are stored, so it can be from {-length} to {length - 1}."
