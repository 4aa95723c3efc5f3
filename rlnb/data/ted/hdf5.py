"""write_h5 and read_h5: TensorDicts in HDF5 files, compressed, with a checksum and without pickles."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.ted.columns import stack_values
from rlnb.data.ted.keys import as_key
from rlnb.data.ted.leaves import is_branch
from rlnb.data.ted.ragged import Path
from rlnb.data.ted.timeline import bits

# An HDF5 file may start with a block that the HDF5 library ignores. Here it holds a digest of the rest, so that a
# damaged file is rejected before the HDF5 library, which may hang on it, reads it.
_FORMAT = b"rlnb-tensordict-1"
_BLOCK = 512
_MAX_DEPTH = 32
_MAX_ENTRIES = 10_000_000
_CHUNK_BYTES = 1 << 20
# Smaller tensors are not compressed: the chunk index of HDF5 costs more than compression saves.
_COMPRESSED_BYTES = 1 << 12
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
        *(torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    )
}


def write_h5(
    data: TensorDictBase, path: str | os.PathLike[str], compression: str | int | None = "gzip", level: int = 4
) -> None:
    """Write a TensorDict to an HDF5 file.

    Nested TensorDicts become groups, tensors datasets, and non-tensor data JSON. The file is written under a temporary
    name and then renamed, so that it is either complete or missing.

    Args:
        data: any TensorDict, such as TED data; its flat form, which makes the smallest file; or the output of
            :class:`~rlnb.data.H5Split`, which is the easiest to browse.
        path: path of the file; an existing file is replaced.
        compression: ``"gzip"``, ``"lzf"``, ``None``, or a level of gzip.
        level: gzip level, from 0 (fast) to 9 (small).

    Raises:
        ImportError: If h5py is not installed.
        TypeError: If an entry is neither a tensor nor non-tensor data that JSON can represent.
        ValueError: If there is no such compression, or a key is not a valid HDF5 name.

    Example (needs h5py)::

        rollout = GymEnv("CartPole-v1").rollout(1000, break_when_any_done=False)
        write_h5(H5Split()(TED2Nested()(rollout)), "rollout.h5")
        back = Nested2TED()(H5Combine()(read_h5("rollout.h5")))
    """
    h5py = import_h5py()
    filters = h5_filters(compression, level)
    target = FilePath(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with h5py.File(partial, "w", libver="v110", userblock_size=_BLOCK) as file:
            _write_group(file, data, (), filters)
        header = b" ".join((_FORMAT, str(partial.stat().st_size).encode(), _digest(partial)))
        with partial.open("r+b") as file:
            file.write(header + b"\n")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def h5_filters(compression: str | int | None, level: int) -> dict[str, Any]:
    """Return the options of h5py for a compression, or raise ``ValueError``; see :func:`write_h5`."""
    name, strength = ("gzip", compression) if type(compression) is int else (compression, level)
    if name not in (None, "gzip", "lzf") or type(strength) is not int or not 0 <= strength <= 9:
        raise ValueError(
            "compression must be 'gzip', 'lzf', None or a level of gzip from 0 to 9, and the level a number from 0 to "
            f"9; got {compression!r} and {level!r}. Fix: leave them out, or compression='gzip' and level 4."
        )
    filters: dict[str, Any] = {} if name is None else {"compression": name}
    return {**filters, "compression_opts": strength} if name == "gzip" else filters


def _write_group(group: Any, data: TensorDictBase, path: Path, filters: dict[str, Any]) -> None:
    group.attrs["batch_size"] = json.dumps(list(data.batch_size))
    if data.batch_dims and any(name is not None for name in data.names):
        group.attrs["names"] = json.dumps(list(data.names))
    for name, value in raw_entries(data).items():
        where = (*path, name)
        if reason := no_h5_name(name):
            raise ValueError(
                f"The key {as_key(where)!r} cannot be written to an HDF5 file, where {reason}. "
                f"Fix: rename it with data.rename_key_({as_key(where)!r}, ...)."
            )
        if is_branch(value):
            _write_group(group.create_group(name), value, where, filters)
        elif is_non_tensor(value):
            _write_json(group, name, value, where)
        elif isinstance(value, torch.Tensor) and not value.is_nested and value.dtype in _DTYPES.values():
            _write_tensor(group, name, value, filters)
        else:
            kind = f"a {type(value).__name__}" + (f" of dtype {value.dtype}" if hasattr(value, "dtype") else "")
            fix = f"Fix: leave it out with data.exclude({as_key(where)!r})."
            if isinstance(value, torch.Tensor) and value.is_nested:
                kind, fix = "a nested tensor", "Fix: split it with H5Split()(data)."
            raise TypeError(f"The entry {as_key(where)!r} cannot be written to an HDF5 file: it is {kind}. {fix}")


def no_h5_name(name: str) -> str | None:
    """Explain why a name is not a valid HDF5 name; ``None`` for a valid name."""
    if "/" in name:
        return "'/' divides the parts of a key"
    if "\0" in name:
        return "a name ends before the character 0"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "a name is text that can be encoded in UTF-8"
    return {"": "a name has at least one letter", ".": "'.' is the group itself"}.get(name)


def _write_tensor(group: Any, name: str, value: torch.Tensor, filters: dict[str, Any]) -> None:
    value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    shape, dtype = value.shape, str(value.dtype).removeprefix("torch.")
    options: dict[str, Any] = {}
    if shape and filters and value.nbytes >= _COMPRESSED_BYTES:
        row = max(value[0].numel() * value.element_size(), 1)
        rows = min(max(_CHUNK_BYTES // row, 1), shape[0])
        options = {"chunks": (rows, *shape[1:]), "shuffle": True, **filters}
    group.create_dataset(name, data=_as_array(value), **options).attrs["dtype"] = dtype


def _write_json(group: Any, name: str, value: Any, where: Path) -> None:
    stacked = not isinstance(value, NonTensorData)
    content = value.tolist() if stacked else value.data
    try:
        text = json.dumps({"dims": value.batch_dims if stacked else None, "value": content}, allow_nan=True)
        if json.loads(text)["value"] != content:
            raise TypeError("reading it back would change it")
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"The non-tensor entry {as_key(where)!r} cannot be written to an HDF5 file, which holds text, numbers, "
            f"True, False, None, lists and dictionaries of these: {error}. "
            f"Fix: convert it, or leave it out with data.exclude({as_key(where)!r})."
        ) from error
    array = np.frombuffer(text.encode(), dtype=np.uint8)
    group.create_dataset(name, data=array).attrs["dtype"] = "json"


# Reading ----------------------------------------------------------------------------------------------------------


def read_h5(path: str | os.PathLike[str], max_bytes: int = 1 << 34) -> TensorDict:
    """Read a TensorDict from an HDF5 file that :func:`write_h5` wrote.

    Nothing in the file is executed: it holds numbers and JSON. A checksum detects files that were damaged or cut short.
    Links to other files, and data that would not fit into ``max_bytes``, are rejected.

    Args:
        path: path of the file.
        max_bytes: the largest size of the data in memory. Default: 16 GiB.

    Returns:
        The TensorDict.

    Raises:
        ImportError: If h5py is not installed.
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, cut short, too large, or in another format; the text says where.
    """
    with open_h5(path, max_bytes, checksum=True) as reader:
        return reader.group(reader.file, ())


@contextlib.contextmanager
def open_h5(path: str | os.PathLike[str], max_bytes: int = 1 << 34, checksum: bool = False) -> Iterator[H5Reader]:
    """Open an HDF5 file to read some of its entries, or all; for the arguments and errors see :func:`read_h5`."""
    h5py = import_h5py()
    if not FilePath(path).is_file():
        raise FileNotFoundError(f"There is no file {os.fspath(path)!r}.")
    if checksum:
        _check_header(FilePath(path))
    with damage("The file", h5py), h5py.File(path, "r") as file:
        yield H5Reader(h5py, file, max_bytes)


def _check_header(path: FilePath) -> None:
    with path.open("rb") as file:
        parts = file.read(_BLOCK).partition(b"\n")[0].split(b" ")
    size = path.stat().st_size
    if parts[0] != _FORMAT:
        raise ValueError(
            "The file was not written by write_h5, or its first bytes are damaged. "
            "Fix: read it with h5py, and build a TensorDict from its arrays."
        )
    if len(parts) != 3 or parts[1] != str(size).encode():
        raise ValueError(
            f"The file has {size:,} bytes, not as many as write_h5 wrote: it was cut short or damaged. "
            "Fix: copy it again, or write it again."
        )
    if parts[2] != _digest(path):
        raise ValueError(
            "The file is damaged: its content does not match the checksum at its start. "
            "Fix: copy it again, or write it again."
        )


def _digest(path: FilePath) -> bytes:
    with path.open("rb") as file:
        file.seek(_BLOCK)
        return hashlib.file_digest(file, "blake2b").hexdigest().encode()


class H5Reader:
    """Reads one file: counts bytes and entries against their limits, and remembers the groups it has visited."""

    def __init__(self, h5py: Any, file: Any, max_bytes: int) -> None:
        self.h5py, self.file, self.max_bytes = h5py, file, max_bytes
        self.bytes_left, self.entries_left = max_bytes, _MAX_ENTRIES
        self.seen: set[Any] = set()

    def group(self, group: Any, path: Path) -> TensorDict:
        """Read a group as a TensorDict."""
        address = self.h5py.h5o.get_info(group.id).addr
        if address in self.seen or len(path) > _MAX_DEPTH:
            raise ValueError(f"{_place(path)} contains itself, or is nested more than {_MAX_DEPTH} deep. {_HOSTILE}")
        self.seen.add(address)
        batch_size = _list(group.attrs.get("batch_size"), path, "batch_size", int)
        names = None if "names" not in group.attrs else _list(group.attrs["names"], path, "names", (str, type(None)))
        entries: dict[str, Any] = {}
        for name in group:
            where = (*path, name)
            self.entries_left -= 1
            if self.entries_left < 0:
                raise ValueError(f"The file has more than {_MAX_ENTRIES:,} entries. {_HOSTILE}")
            with damage(_place(where), self.h5py):
                item = self._item(group, where)
                entries[name] = self.group(item, where) if isinstance(item, self.h5py.Group) else self.leaf(item, where)
        with damage(_place(path), self.h5py):
            return TensorDict(entries, batch_size, names=names)

    def _item(self, group: Any, path: Path) -> Any:
        """Return the group or dataset with the last name of a path."""
        link = group.get(path[-1], getlink=True)
        if not isinstance(link, self.h5py.HardLink):
            what = "missing" if link is None else "a link to another place or file"
            raise ValueError(f"{_place(path)} is {what}. {_HOSTILE}")
        item = group[path[-1]]
        if not isinstance(item, (self.h5py.Group, self.h5py.Dataset)):
            raise ValueError(f"{_place(path)} is neither a group nor a dataset. {_HOSTILE}")
        return item

    def leaf(self, dataset: Any, path: Path) -> Any:
        """Read a dataset as a tensor or non-tensor data."""
        name, dtype = self._check(dataset, path)
        size = int(dataset.size) * dtype.itemsize
        if not is_stored(size, dataset.id.get_storage_size()) or size > self.bytes_left:
            raise ValueError(
                f"{_place(path)} would need {size:,} bytes in memory ({dataset.id.get_storage_size():,} in the file), "
                f"but only {self.bytes_left:,} of {self.max_bytes:,} are left. Fix: if you trust the file, raise the "
                "limit with read_h5(path, max_bytes=...)."
            )
        self.bytes_left -= size
        tensor = torch.empty(dataset.shape, dtype=dtype)
        _read_rows(dataset, tensor)
        return _from_json(tensor.numpy(), path) if name == "json" else tensor

    def _check(self, dataset: Any, path: Path) -> tuple[str, torch.dtype]:
        """Refuse a dataset that write_h5 would not write; return the name of its dtype, and the dtype."""
        name = dataset.attrs.get("dtype")
        if not isinstance(name, str) or name not in (*_DTYPES, "json"):
            raise ValueError(f"{_place(path)} has no attribute 'dtype' that names a dtype of torch. {_HOSTILE}")
        dtype = _DTYPES.get(name, torch.uint8)
        if dataset.dtype != _as_array(torch.empty(0, dtype=dtype)).dtype or dataset.shape is None:
            raise ValueError(f"{_place(path)} is declared as {name}, but holds {dataset.dtype}. {_HOSTILE}")
        if dataset.is_virtual or dataset.external:
            raise ValueError(f"{_place(path)} has its data in another file. {_HOSTILE}")
        if dataset.compression not in (None, "gzip", "lzf") or dataset.scaleoffset is not None:
            raise ValueError(f"{_place(path)} is compressed in a way that write_h5 does not use. {_HOSTILE}")
        return name, dtype

    def find(self, path: Path) -> Any:
        """Return the dataset of an entry."""
        item = self.file
        for depth in range(1, len(path) + 1):
            with damage(_place(path[:depth]), self.h5py):
                item = self._item(item, path[:depth])
        return item

    def check(self, path: Path, shape: Sequence[int], dtype: torch.dtype, rehearse: bool) -> None:
        """Raise ``ValueError`` if there is no tensor like this, or with ``rehearse`` if it cannot be decompressed."""
        dataset = self.find(path)
        name, found = self._check(dataset, path)
        stored = is_stored(dataset.size * found.itemsize, dataset.id.get_storage_size())
        if tuple(dataset.shape) != tuple(shape) or name == "json" or found != dtype or not stored:
            raise ValueError(
                f"{_place(path)} must have shape {list(shape)} and dtype {dtype}, got shape "
                f"{list(dataset.shape)} and dtype {name}. {_HOSTILE}"
            )
        if rehearse and dataset.compression:
            with damage(_place(path), self.h5py):
                rows = max(_CHUNK_BYTES * len(dataset) // max(dataset.nbytes, 1), 1)
                for start in range(0, len(dataset), rows):
                    dataset[start : start + rows]

    def read_into(self, path: Path, into: torch.Tensor, start: int = 0) -> None:
        """Fill a tensor, on any device, with the rows from ``start`` on of an entry; see :meth:`check`."""
        _read_rows(self.find(path), into, start)


def is_stored(size: int, stored: int) -> bool:
    """Whether so many bytes can come from those that are stored: more than 1,032 times as many is no work of gzip."""
    return size <= 2048 * (stored + 1024)


def _read_rows(dataset: Any, into: torch.Tensor, start: int = 0) -> None:
    """Fill a tensor, on any device, with the rows of a dataset from ``start`` on; one without dimensions with all."""
    plain = into.device.type == "cpu" and into.is_contiguous()
    for part in [into] if plain else into.split(max(_CHUNK_BYTES // max(into[:1].nbytes, 1), 1)):
        target = part if plain else torch.empty(part.shape, dtype=part.dtype)
        if target.numel():
            dataset.read_direct(_as_array(target), np.s_[start : start + len(part)] if part.dim() else None)
        if not plain:
            part.copy_(target)
            start += len(part)


def _as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """View a tensor as what HDF5 holds of it, which has no bfloat16."""
    return (bits(tensor) if tensor.dtype == torch.bfloat16 else tensor.detach()).numpy()


def _from_json(array: np.ndarray[Any, Any], path: Path) -> Any:
    try:
        found = json.loads(array.tobytes().decode())
        dims, value = found["dims"], found["value"]
        if dims is None:
            return NonTensorData(value)
        if type(dims) is not int or not 0 < dims <= _MAX_DEPTH:
            raise ValueError(f"dims is {dims!r}")
        return stack_values(value, dims)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{_place(path)} is non-tensor data, but not valid JSON: {error}. {_HOSTILE}") from error


def _list(text: Any, path: Path, what: str, kinds: Any) -> list[Any]:
    try:
        values = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or not all(isinstance(value, kinds) and value is not True for value in values):
        raise ValueError(f"{_place(path)} has no attribute {what!r} that is a list. {_HOSTILE}")
    return values


_HOSTILE = "The file was damaged or made by hand. Fix: write it again with write_h5."


def _place(path: Path) -> str:
    return f"The entry {as_key(path)!r} of the file" if path else "The file"


@contextlib.contextmanager
def damage(what: str | Callable[[], str], h5py: Any, fix: str = "") -> Iterator[None]:
    """Turn the errors of h5py into a ``ValueError`` that names the entry; other ``ValueError`` pass unchanged."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, TypeError, MemoryError, UnicodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        what = what if isinstance(what, str) else what()
        raise ValueError(f"{what} cannot be read: it was damaged or cut short ({reason}).{fix}") from error


def import_h5py(user: str = "HDF5 files need", extra: str = "h5") -> Any:
    """Import h5py; if it is not installed, the error says who needs it, and the extra of this project that has it."""
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise ImportError(f"{user} h5py, which is not installed. Fix: pip install 'rlnb[{extra}]'.") from error
