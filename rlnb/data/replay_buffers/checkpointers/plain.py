"""Plain values and tensors as JSON and files, and back, without anything that could run code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.replay_buffers.checkpointers.files import check_bytes, read_tensor, write_tensor
from rlnb.data.replay_buffers.forms.structure import dtype_name, dtype_named, read_shape
from rlnb.data.replay_buffers.forms.tensordict_form import MOST_EMPTY
from rlnb.data.ted.columns import stack_values
from rlnb.data.ted.nested import join, nest, offsets_of

# What JSON cannot express is a dictionary with one of these keys.
_TUPLE, _ITEMS, _TENSOR, _DATA, _ROWS, _BOXED = "$tuple", "$items", "$tensor", "$tensordict", "$nested", "$non_tensor"
_SIZE = "$size"
_PLAIN = (str, int, float, bool, type(None))


class Encoder:
    """Converts values to what JSON can hold; tensors become files.

    Args:
        folder: Folder for the files. ``None`` refuses tensors.
        label: What the names of the files begin with.

    Example:
        >>> Encoder(None, "state").encode({"order": (1, 2), 3: None})
        {'$items': [['order', {'$tuple': [1, 2]}], [3, None]]}
    """

    def __init__(self, folder: Path | None, label: str) -> None:
        self._folder, self._label, self._count = folder, label, 0

    def encode(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """Convert a value to what JSON can hold.

        Args:
            value: Plain value, tensor or TensorDict; ``TypeError`` is raised for others.
            path: Where it stands, for the error.
        """
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.generic):
            return self.encode(value.item(), path)
        if type(value) is list:
            return [self.encode(item, (*path, i)) for i, item in enumerate(value)]
        if type(value) is tuple:
            return {_TUPLE: [self.encode(item, (*path, i)) for i, item in enumerate(value)]}
        if type(value) is torch.Size:
            return {_SIZE: list(value)}
        if type(value) is dict:
            return self._dictionary(value, path)
        if self._folder is not None:
            if isinstance(value, torch.Tensor):
                return self._tensor(value, self._folder)
            if is_non_tensor(value):
                dims = 0 if isinstance(value, NonTensorData) else value.batch_dims
                content = value.tolist() if dims else value.data
                return {_BOXED: [dims, list(value.batch_size), self.encode(content, path)]}
            if isinstance(value, TensorDictBase):
                return {_DATA: [list(value.batch_size), self.encode(dict(raw_entries(value)), path)]}
        where = f" at {'.'.join(map(str, path))}" if path else ""
        raise TypeError(
            "A checkpoint holds tensors, text, numbers, True, False, None, and lists, tuples and dictionaries of "
            f"these; and there is a {type(value).__name__}{where}. Fix: convert it, or leave it out of the data."
        )

    def _dictionary(self, value: dict[Any, Any], path: tuple[Any, ...]) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, (*path, key)) for key, item in value.items()}
        return {_ITEMS: [[self.encode(key, path), self.encode(item, (*path, key))] for key, item in value.items()]}

    def _tensor(self, value: torch.Tensor, folder: Path) -> Any:
        if value.is_nested:
            rows, lengths = join(value)
            assert isinstance(rows, torch.Tensor) and lengths is not None
            return {_ROWS: [self._tensor(rows, folder), self._tensor(lengths, folder)]}
        number, self._count = self._count, self._count + 1
        write_tensor(folder / f"{self._label}.{number}.memmap", [value.reshape(-1)])
        return {_TENSOR: [number, list(value.shape), dtype_name(value.dtype)]}


def decode(value: Any, folder: Path | None, label: str) -> Any:
    """Undo :meth:`Encoder.encode`. No size in the values is believed that the files do not bear out.

    Args:
        value: What :meth:`Encoder.encode` returned.
        folder: Folder of the files.
        label: What their names begin with.

    Returns:
        The value.

    Raises:
        ValueError: If a file is damaged; and this, ``TypeError``, ``KeyError`` or ``RuntimeError`` if the value makes
            no sense.

    Example:
        >>> decode({"$tuple": [1, {"$tuple": [2, 3]}]}, None, "state")
        (1, (2, 3))
    """
    if isinstance(value, list):
        return [decode(item, folder, label) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "") if len(value) == 1 else ""
    if not tag.startswith("$"):
        return {key: decode(item, folder, label) for key, item in value.items()}
    return _DECODERS[tag](value[tag], folder, label)


def _tensor(content: Any, folder: Path | None, label: str) -> torch.Tensor:
    number, shape, dtype = content
    size, kind = read_shape(shape), dtype_named(dtype)
    if folder is None or type(number) is not int:
        raise ValueError(f"a tensor in the file {str(number)[:60]!r}")
    path = folder / f"{label}.{number}.memmap"
    check_bytes(path, size.numel() * kind.itemsize)
    tensor = torch.empty(size.numel(), dtype=kind)
    read_tensor(path, tensor)
    return tensor.reshape(size)


def _items(content: Any, folder: Path | None, label: str) -> Any:
    return {decode(key, folder, label): decode(item, folder, label) for key, item in content}


def _boxed(content: Any, folder: Path | None, label: str) -> Any:
    dims, batch, values = content
    values = decode(values, folder, label)
    if not dims:
        return NonTensorData(values, batch_size=_batch_size(batch, folder))
    _check_lists(values, read_shape(batch)[:dims])
    return stack_values(values, dims)


def _check_lists(values: Any, sizes: torch.Size) -> None:
    """Check that values are lists within lists of these sizes."""
    if sizes and (type(values) is not list or len(values) != sizes[0]):
        raise ValueError(f"non-tensor data that does not have the batch size {list(sizes)}")
    for value in values if len(sizes) > 1 else ():
        _check_lists(value, sizes[1:])


def _batch_size(sizes: Any, folder: Path | None) -> torch.Size:
    """Read the batch size of what may hold no tensor at all: a loop over it must end."""
    batch = read_shape(sizes)
    if batch.numel() > MOST_EMPTY:  # only where files hold at least a byte for each item
        there = 0 if folder is None else sum(path.stat().st_size for path in folder.iterdir())
        if batch.numel() > there:
            raise ValueError(f"a batch size {list(batch)} with {there} bytes of data")
    return batch


def _data(content: Any, folder: Path | None, label: str) -> Any:
    batch, entries = content
    entries = decode(entries, folder, label)
    if type(entries) is not dict:
        raise ValueError("the entries of a TensorDict are not a dictionary")
    return TensorDict(entries, _batch_size(batch, folder))


def _nested(content: Any, folder: Path | None, label: str) -> Any:
    rows, lengths = (decode(part, folder, label) for part in content)
    is_plain = lengths.dtype == torch.int64 and lengths.ndim == 1
    if not is_plain or bool((lengths < 0).any()) or int(lengths.sum()) != len(rows):
        raise ValueError("the lengths of a nested tensor do not fit its rows")
    return nest(rows, offsets_of(lengths))


_DECODERS: dict[str, Callable[[Any, Path | None, str], Any]] = {
    _TUPLE: lambda content, folder, label: tuple(decode(item, folder, label) for item in content),
    _SIZE: lambda content, folder, label: read_shape(content),
    _ITEMS: _items,
    _TENSOR: _tensor,
    _BOXED: _boxed,
    _DATA: _data,
    _ROWS: _nested,
}
