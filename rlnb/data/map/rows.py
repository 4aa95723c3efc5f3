"""Row keys: the data of a row as one hashable value, so that a dictionary compares whole rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.ted.columns import Constant

# The bytes of a row if all its entries are tensors; else a tuple of the values, with bytes for tensors.
RowKey = Hashable


def row_keys(columns: Sequence[torch.Tensor | list[Any] | Constant], rows: int) -> list[RowKey]:
    """Convert each row to one hashable value.

    Two rows have equal keys if and only if all their entries are equal: the key holds the data itself, not a digest.
    Zero and negative zero are equal. The columns are tensors ``[rows, *shape]``, lists of Python objects or constants.

    Raises:
        TypeError: If a Python object is not hashable.

    Example:
        >>> keys = row_keys([torch.tensor([[1.0, 0.0], [1.0, -0.0], [2.0, 0.0]])], 3)
        >>> keys[0] == keys[1], keys[0] == keys[2]
        (True, False)
    """
    if all(isinstance(column, torch.Tensor) for column in columns):
        return _byte_keys(row_bytes([column for column in columns if isinstance(column, torch.Tensor)]))
    parts: list[list[RowKey]] = []
    for column in columns:
        if isinstance(column, torch.Tensor):
            parts.append(_byte_keys(row_bytes([column])))
        elif isinstance(column, Constant):
            parts.append([_object_key(column.value)] * rows)
        else:
            parts.append([_object_key(value) for value in column])
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def row_bytes(tensors: Sequence[torch.Tensor]) -> np.ndarray:
    """Return the memory of each row of tensors ``[rows, *shape]`` of any dtype and device, as bytes ``[rows, width]``.

    Example:
        >>> row_bytes([torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([True, False])]).tolist()
        [[1, 1], [2, 0]]
    """
    pieces = [_bytes_of(tensor) for tensor in tensors]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=1)


def _bytes_of(tensor: torch.Tensor) -> np.ndarray:
    if tensor.requires_grad or tensor.device.type != "cpu":
        tensor = tensor.detach().cpu()
    if tensor.dtype.is_complex:
        tensor = tensor.resolve_conj().resolve_neg()
    rows = tensor.shape[0]
    try:
        array = tensor.numpy()
    except TypeError:  # numpy has no such dtype, for example bfloat16
        array = (tensor + 0.0).contiguous().view(torch.uint8).numpy()
    if array.dtype.kind in "fc":
        array = array + 0.0  # turns negative zero into zero
    if not array.size:
        return np.empty((rows, 0), np.uint8)
    return np.ascontiguousarray(array).reshape(rows, -1).view(np.uint8)


def _byte_keys(array: np.ndarray) -> list[RowKey]:
    rows, width = array.shape
    data = array.tobytes()
    return [data[start : start + width] for start in range(0, rows * width, width)] if width else [b""] * rows


def _object_key(value: Any) -> RowKey:
    # With its type, because True, 1 and 1.0 are equal in Python but different data.
    hash(value)
    return type(value), value
