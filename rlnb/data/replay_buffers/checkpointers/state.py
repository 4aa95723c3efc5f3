"""Plain values and tensors as JSON and files, and back, without running code; and the states that consist of them."""

from __future__ import annotations

import contextlib
import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.replay_buffers.checkpointers.files import (
    KEPT,
    check_bytes,
    read_document,
    read_tensor,
    unreadable,
    write_document,
    write_tensor,
)
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving
from rlnb.data.replay_buffers.forms.structure import dtype_name, dtype_named, read_shape
from rlnb.data.replay_buffers.forms.tensordict_form import MOST_EMPTY
from rlnb.data.ted.columns import stack_values
from rlnb.data.ted.nested import join, nest, offsets_of

# What reading a document can raise that somebody else wrote.
SENSELESS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, AssertionError, ArithmeticError)
_PLAIN = (str, int, float, bool, type(None))


class Codec:
    """Converts values to what JSON can hold, and back. What JSON lacks is a dictionary with one key that starts with $.

    Args:
        folder: Folder for the files of tensors, ``label.number.memmap``. ``None`` refuses tensors.
        label: What the names of the files begin with.

    Example:
        >>> codec = Codec(None, "state")
        >>> codec.encode({"order": (1, 2), 3: None})
        {'$items': [['order', {'$tuple': [1, 2]}], [3, None]]}
        >>> codec.decode({"$tuple": [1, {"$tuple": [2, 3]}]})
        (1, (2, 3))
    """

    def __init__(self, folder: Path | None, label: str) -> None:
        self._folder, self._label, self._count = folder, label, 0

    def encode(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """Convert plain values, tensors and TensorDicts; ``TypeError`` says at which ``path`` is another value."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.generic):
            return self.encode(value.item(), path)
        if type(value) in (list, tuple):
            items = [self.encode(item, (*path, i)) for i, item in enumerate(value)]
            return items if type(value) is list else {"$tuple": items}
        if type(value) is torch.Size:
            return {"$size": list(value)}
        if type(value) is dict:
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self.encode(item, (*path, key)) for key, item in value.items()}
            return {
                "$items": [[self.encode(key, path), self.encode(item, (*path, key))] for key, item in value.items()]
            }
        if self._folder is not None:
            if isinstance(value, torch.Tensor):
                return self._write(value, self._folder)
            if is_non_tensor(value):
                dims = 0 if isinstance(value, NonTensorData) else value.batch_dims
                content = value.tolist() if dims else value.data
                return {"$non_tensor": [dims, list(value.batch_size), self.encode(content, path)]}
            if isinstance(value, TensorDictBase):
                return {"$tensordict": [list(value.batch_size), self.encode(dict(raw_entries(value)), path)]}
        where = f" at {'.'.join(map(str, path))}" if path else ""
        raise TypeError(
            "A checkpoint holds tensors, text, numbers, True, False, None, and lists, tuples and dictionaries of "
            f"these; and there is a {type(value).__name__}{where}. Fix: convert it, or leave it out of the data."
        )

    def _write(self, value: torch.Tensor, folder: Path) -> Any:
        if value.is_nested:
            rows, lengths = join(value)
            assert isinstance(rows, torch.Tensor) and lengths is not None
            return {"$nested": [self._write(rows, folder), self._write(lengths, folder)]}
        number, self._count = self._count, self._count + 1
        write_tensor(folder / f"{self._label}.{number}.memmap", [value.reshape(-1)])
        return {"$tensor": [number, list(value.shape), dtype_name(value.dtype)]}

    def decode(self, value: Any) -> Any:
        """Undo :meth:`encode`; raises one of ``SENSELESS`` for what makes no sense or does not fit the files."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1 or not next(iter(value)).startswith("$"):
            return {key: self.decode(item) for key, item in value.items()}
        ((tag, content),) = value.items()
        match tag:
            case "$tuple":
                return tuple(map(self.decode, content))
            case "$size":
                return read_shape(content)
            case "$items":
                return {self.decode(key): self.decode(item) for key, item in content}
            case "$tensor":
                return self._read(*content)
            case "$nested":
                return _nested(*map(self.decode, content))
            case "$non_tensor":
                return self._non_tensor(*content)
            case "$tensordict":
                batch, entries = content
                return TensorDict(dict(self.decode(entries)), self._batch_size(batch))
        raise ValueError(f"a value of the unknown kind {tag[:60]!r}")

    def _read(self, number: Any, sizes: Any, dtype: Any) -> torch.Tensor:
        shape, kind = read_shape(sizes), dtype_named(dtype)
        if self._folder is None or type(number) is not int:
            raise ValueError(f"a tensor in the file {str(number)[:60]!r}")
        path = self._folder / f"{self._label}.{number}.memmap"
        check_bytes(path, shape.numel() * kind.itemsize)  # no size is believed that the file does not bear out
        tensor = torch.empty(shape, dtype=kind)
        read_tensor(path, tensor)
        return tensor

    def _non_tensor(self, dims: Any, batch: Any, values: Any) -> Any:
        values = self.decode(values)
        if not dims:
            return NonTensorData(values, batch_size=self._batch_size(batch))
        data = stack_values(values, dims)
        if list(data.batch_size) != batch:
            raise ValueError(f"non-tensor data that does not have the batch size {str(batch)[:60]}")
        return data

    def _batch_size(self, sizes: Any) -> torch.Size:
        """Read the batch size of what may hold no tensor at all: a loop over it must end."""
        batch = read_shape(sizes)
        if batch.numel() > MOST_EMPTY:  # only where files hold at least a byte for each item
            there = 0 if self._folder is None else sum(path.stat().st_size for path in self._folder.iterdir())
            if batch.numel() > there:
                raise ValueError(f"a batch size {list(batch)} with {there} bytes of data")
        return batch


def _nested(rows: Any, lengths: Any) -> torch.Tensor:
    is_plain = lengths.dtype == torch.int64 and lengths.ndim == 1
    if not is_plain or bool((lengths < 0).any()) or int(lengths.sum()) != len(rows):
        raise ValueError("the lengths of a nested tensor do not fit its rows")
    return nest(rows, offsets_of(lengths))


def write_values(folder: Path, name: str, values: Any) -> None:
    """Write plain values and tensors: the document ``name.json``, and a ``.memmap`` file for each tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    write_document(folder / f"{name}.json", Codec(folder, name).encode(values, (name,)))


def read_values(folder: Path, name: str) -> Any:
    """Read what :func:`write_values` wrote; raises ``ValueError`` for what makes no sense."""
    path = folder / f"{name}.json"
    with sensible(path):
        return Codec(folder, name).decode(read_document(path))


@contextlib.contextmanager
def sensible(path: Path) -> Iterator[None]:
    """Raise a ``ValueError`` that says what to do if a document, which others may have written, makes no sense."""
    try:
        yield
    except SENSELESS as error:
        if isinstance(error, ValueError) and "Fix:" in str(error):
            raise
        raise unreadable(path, error) from error


def write_state(folder: Path, name: str, state: Any) -> None:
    """Write the plain values and tensors of a state, such as that of the "sampler", into a checkpoint."""
    write_values(folder / "state", name, state)


def read_state(folder: Path, name: str) -> Any:
    """Read what :func:`write_state` wrote; raises ``ValueError`` for what makes no sense."""
    return read_values(folder / "state", name)


class Stateful(ABC):
    """Base of samplers and writers: their state can be saved in a folder."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state, as plain values and tensors."""

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned."""

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save the state in a folder, in place of one that was saved there before.

        Raises:
            OSError: If it cannot be written; the old checkpoint is kept.
        """
        with saving(path) as folder:
            save_component(self, folder, "component")

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved in a folder.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If it is damaged or belongs to something else. Nothing is changed then.
        """
        with loading(path) as folder:
            state = read_component(self, folder, "component", [getattr(self, "_storage", None)])
        self.load_state_dict(state)


def save_component(component: Stateful, folder: Path, name: str) -> None:
    """Write the state of a sampler or writer, and the name of its class, into a checkpoint."""
    write_state(folder, name, {"of": type(component).__name__, "state": component.state_dict()})


def read_component(component: Stateful, folder: Path, name: str, apart: Iterable[Any] = ()) -> Any:
    """Read the state of a sampler or writer, and raise ``ValueError`` if a copy of it cannot load that state.

    Args:
        component: The sampler or writer; it is not changed.
        folder: Folder of the checkpoint.
        name: What it is to its buffer, such as "sampler".
        apart: What the component refers to and need not be copied with it: storages.
    """
    with sensible(folder / "state" / f"{name}.json"):
        saved = read_state(folder, name)
        kind, state, own = saved["of"], saved["state"], type(component).__name__
        if kind != own and state.keys() != component.state_dict().keys():
            raise ValueError(
                f"The checkpoint has the state of a {kind}, and the {name} is a {own}. {KEPT} "
                f"Fix: make the buffer with {name}={kind}(...)."
            )
        copy.deepcopy(component, {id(part): part for part in apart}).load_state_dict(state)
    return state
