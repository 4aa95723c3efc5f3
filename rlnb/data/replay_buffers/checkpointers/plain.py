"""Plain values and tensors as JSON and raw files, and back, without anything that could run code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.replay_buffers.checkpointers.files import read_raw, write_raw
from rlnb.data.replay_buffers.faults import checkpoints as faults
from rlnb.data.replay_buffers.forms.structure import dtype_named
from rlnb.data.ted.columns import stack_values
from rlnb.data.ted.nested import join, nest, offsets_of

# What JSON has no word for is a dictionary with one of these keys.
_TUPLE, _ITEMS, _TENSOR, _DATA, _ROWS, _BOXED = "$tuple", "$items", "$tensor", "$tensordict", "$nested", "$non_tensor"
_SIZE = "$size"
_PLAIN = (str, int, float, bool, type(None))


class Encoder:
    """Turns values into what JSON can hold; tensors become files.

    Args:
        folder: where the files go; None where a tensor is refused.
        label: what the names of the files begin with.

    Example:
        >>> Encoder(None, "state").encode({"order": (1, 2), 3: None})
        {'$items': [['order', {'$tuple': [1, 2]}], [3, None]]}
    """

    def __init__(self, folder: Path | None, label: str) -> None:
        self._folder, self._label, self._count = folder, label, 0

    def encode(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """Turn a value into what JSON can hold.

        Args:
            value: the value.
            path: where it stands, for the error.

        Returns:
            Plain values.

        Raises:
            TypeError: if it is neither plain nor a tensor.
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
                return self._tensor(value)
            if is_non_tensor(value):
                dims = 0 if isinstance(value, NonTensorData) else value.batch_dims
                content = value.tolist() if dims else value.data
                return {_BOXED: [dims, list(value.batch_size), self.encode(content, path)]}
            if isinstance(value, TensorDictBase):
                entries = self.encode(dict(raw_entries(value)), path)
                return {_DATA: [list(value.batch_size), entries]}
        raise TypeError(faults.not_plain(path, value))

    def _dictionary(self, value: dict[Any, Any], path: tuple[Any, ...]) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.encode(item, (*path, key)) for key, item in value.items()}
        return {_ITEMS: [[self.encode(key, path), self.encode(item, (*path, key))] for key, item in value.items()]}

    def _tensor(self, value: torch.Tensor) -> Any:
        if value.is_nested:
            rows, lengths = join(value)
            assert isinstance(rows, torch.Tensor) and lengths is not None
            return {_ROWS: [self._tensor(rows), self._tensor(lengths)]}
        assert self._folder is not None
        name = f"{self._label}.{self._count}.raw"
        self._count += 1
        note = write_raw(self._folder / name, [value.reshape(-1)])
        return {_TENSOR: [name, list(value.shape), str(value.dtype).removeprefix("torch."), note]}


def decode(value: Any, folder: Path | None, label: str) -> Any:
    """Undo :meth:`Encoder.encode`.

    Args:
        value: what it returned.
        folder: where the files are.
        label: what their names begin with.

    Returns:
        The value.

    Raises:
        ValueError: if a file is damaged; and this or ``TypeError``, ``KeyError`` or ``RuntimeError`` if the value
            makes no sense.

    Example:
        >>> decode({"$tuple": [1, [2, 3]]}, None, "state")
        (1, [2, 3])
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
    name, shape, dtype, note = content
    size, kind = torch.Size(shape), dtype_named(dtype)
    if folder is None or not name.startswith(f"{label}.") or "/" in name or "\\" in name:
        raise ValueError(f"a tensor in the file {name!r}")
    if size.numel() * kind.itemsize != note["bytes"]:
        raise ValueError(f"a tensor of shape {shape} in {note['bytes']} bytes")
    tensor = torch.empty(size.numel(), dtype=kind)
    read_raw(folder / name, note, [tensor])
    return tensor.reshape(size)


def _items(content: Any, folder: Path | None, label: str) -> Any:
    return {decode(key, folder, label): decode(item, folder, label) for key, item in content}


def _boxed(content: Any, folder: Path | None, label: str) -> Any:
    dims, batch, values = content
    values = decode(values, folder, label)
    return stack_values(values, dims) if dims else NonTensorData(values, batch_size=batch)


def _data(content: Any, folder: Path | None, label: str) -> Any:
    batch, entries = content
    return TensorDict(decode(entries, folder, label), batch)


def _nested(content: Any, folder: Path | None, label: str) -> Any:
    rows, lengths = (decode(part, folder, label) for part in content)
    return nest(rows, offsets_of(lengths))


_DECODERS: dict[str, Callable[[Any, Path | None, str], Any]] = {
    _TUPLE: lambda content, folder, label: tuple(decode(item, folder, label) for item in content),
    _SIZE: lambda content, folder, label: torch.Size(content),
    _ITEMS: _items,
    _TENSOR: _tensor,
    _BOXED: _boxed,
    _DATA: _data,
    _ROWS: _nested,
}
