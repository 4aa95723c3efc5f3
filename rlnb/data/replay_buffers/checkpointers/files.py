"""Files of a checkpoint: tensors as raw bytes, and plain values as JSON. Reading them runs no code that they name."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
import xxhash
from tensordict import NonTensorData, TensorDict, TensorDictBase, is_non_tensor

from rlnb._tensordict import raw_entries
from rlnb.data.replay_buffers.forms.structure import dtype_name, dtype_named, read_shape
from rlnb.data.replay_buffers.forms.tensordict_form import MOST_EMPTY
from rlnb.data.ted.columns import stack_values
from rlnb.data.ted.nested import join, nest, offsets_of

# Hashed, written and sent to the disk at once, so that no second copy of the data is made. 141 MB take 50 ms of the
# processor in pieces of 1 or 2 MiB, and 62 of 256 KiB.
PIECE_BYTES = 1 << 20

# The checksums of tensors that were written since ``saving`` began: hashed from memory, they need not be read again,
# which is an eighth of the processor time of ``dumps``.
written: dict[Path, str] = {}

# What reading a document can raise that somebody else wrote.
SENSELESS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, AssertionError, ArithmeticError)
KEPT = "Nothing was changed."
_AGAIN = "Fix: load another copy, or save the buffer again with dumps."
_PLAIN = (str, int, float, bool, type(None))


def missing(path: PurePath) -> ValueError:
    """Return the error of a part of a checkpoint that is missing."""
    return ValueError(f"The checkpoint is not complete: {name_of(path)!r} is missing. {KEPT} {_AGAIN}")


def damaged(path: PurePath, why: str = "was altered or damaged: its content does not fit its checksum.") -> ValueError:
    """Return the error of a file that is not what was written."""
    return ValueError(f"The file {name_of(path)!r} of the checkpoint {why} {KEPT} {_AGAIN}")


def name_of(path: PurePath) -> str:
    """Return the name of a file for errors, without the folders above its own, which may be long."""
    return "/".join(path.parts[-2:])


def errno_of(error: Exception) -> int | None:
    """Return the number of a system error, which torch and h5py raise as an error of another class."""
    found = re.search(r"errno = (\d{1,4})|\((\d{1,4})\)$", str(error))
    number = int(found[1] or found[2]) if found else 0
    return getattr(error, "errno", None) or (number if number and os.strerror(number) in str(error) else None)


# Tensors --------------------------------------------------------------------------------------------------------------


def write_tensor(path: Path, tensor: torch.Tensor, index: torch.Tensor | None = None) -> None:
    """Write the rows of a tensor, on any device, as the bytes that they have in memory: all, or those at an index."""
    digest = xxhash.xxh3_64()
    with path.open("wb") as file:
        for rows in _parts(tensor) if index is None else index.split(rows_in_piece(tensor)):
            part = rows if index is None else tensor.index_select(0, rows.to(tensor.device))
            data = _as_bytes(part.detach().cpu().resolve_conj().resolve_neg().contiguous())
            for start in range(0, len(data), PIECE_BYTES):
                digest.update(data[start : start + PIECE_BYTES])
                _write(file, data[start : start + PIECE_BYTES])
    written[path] = digest.hexdigest()


def _write(file: Any, data: memoryview) -> None:
    """Write bytes, and let the system move them to the disk while more is hashed: the sync at the end is short then."""
    start = file.tell()
    file.write(data)
    if hasattr(os, "posix_fadvise"):  # on Linux
        os.posix_fadvise(file.fileno(), start, len(data), os.POSIX_FADV_DONTNEED)


def read_tensor(path: Path, into: torch.Tensor, offset: int = 0) -> None:
    """Fill a tensor, on any device, with the bytes of a file from ``offset`` on; none is needed for an empty tensor."""
    if not into.numel():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for part in _parts(into):
            target = part if _is_plain(part) else torch.empty(part.shape, dtype=part.dtype)
            data = _as_bytes(target)
            if file.readinto(data) < len(data):
                raise damaged(path)
            if target is not part:
                part.copy_(target)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor holds its bytes in order."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def _parts(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Split a tensor whose bytes must be copied. Of any other, one part takes 10 ms less of 60 that 52 MB take."""
    return [tensor] if _is_plain(tensor) else tensor.split(rows_in_piece(tensor))


def rows_in_piece(tensor: torch.Tensor) -> int:
    """Return how many rows of a tensor are written or read at once, so that no second copy of all of it is made."""
    return max(PIECE_BYTES // max(tensor[:1].nbytes, 1), 1)


def _as_bytes(tensor: torch.Tensor) -> memoryview:
    # A dimension of size 1 may have any stride, which ``view`` with another dtype refuses.
    flat = tensor.detach().as_subclass(torch.Tensor).as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().data


def check_bytes(path: Path, expected: int) -> None:
    """Raise ``ValueError`` if a file does not have the size of its tensor, before memory is allocated for it."""
    if not path.is_file() and expected:
        raise missing(path)
    size = path.stat().st_size if path.is_file() else 0
    if size != expected:
        raise ValueError(f"{path.name!r} has {size:,} bytes, and its tensor needs {expected:,}")


# Documents ------------------------------------------------------------------------------------------------------------


def write_values(path: Path, values: Any, tensors: bool = True) -> None:
    """Write plain values as JSON; and, unless they are refused, tensors to files beside it, ``name.number.memmap``."""
    numbers = itertools.count()

    def save(tensor: torch.Tensor) -> int:
        number = next(numbers)
        write_tensor(path.with_suffix(f".{number}.memmap"), tensor.reshape(-1))
        return number

    path.write_text(json.dumps(_encode(values, (path.stem,), save if tensors else None), indent=1) + "\n")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Any]:
    """Yield what :func:`write_values` wrote, or somebody else.

    Raises:
        ValueError: If the file is missing, or if reading it, or what the caller does with it, raises that it makes no
            sense. The error says what to do.
    """
    if not path.is_file():  # a pipe, too: reading it could wait for ever
        raise missing(path)
    try:
        yield json.loads(path.read_bytes(), object_hook=functools.partial(_decode, path, {}))
    except SENSELESS as error:
        if isinstance(error, ValueError) and "Fix:" in str(error):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{name_of(path)!r} of the checkpoint does not read as one ({reason}). {KEPT} {_AGAIN}"
        ) from error


def _encode(value: Any, path: tuple[Any, ...], save: Callable[[torch.Tensor], int] | None) -> Any:
    """Convert values to what JSON can hold. What it lacks is a dictionary with one key that starts with $."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in _PLAIN:
        return value
    if type(value) is list:
        return [_encode(item, (*path, i), save) for i, item in enumerate(value)]
    if type(value) is dict and all(type(key) is str and not key.startswith("$") for key in value):
        return {key: _encode(item, (*path, key), save) for key, item in value.items()}
    if type(value) in (tuple, torch.Size):
        return {"$tuple": _encode(list(value), path, save)}
    if type(value) is dict:
        items = [[_encode(key, path, save), _encode(item, (*path, key), save)] for key, item in value.items()]
        return {"$items": items}
    if save is None or not (isinstance(value, (torch.Tensor, TensorDictBase)) or is_non_tensor(value)):
        raise TypeError(
            "A checkpoint holds tensors, text, numbers, True, False, None, and lists, tuples and dictionaries of "
            f"these; and there is a {type(value).__name__} at {'.'.join(map(str, path))}. "
            "Fix: convert it, or leave it out of the data."
        )
    if is_non_tensor(value):
        dims = 0 if isinstance(value, NonTensorData) else value.batch_dims
        tag, parts = "$non_tensor", [dims, list(value.batch_size), value.tolist() if dims else value.data]
    elif isinstance(value, TensorDictBase):
        tag, parts = "$tensordict", [list(value.batch_size), dict(raw_entries(value))]
    elif value.is_nested:
        tag, parts = "$nested", list(join(value))
    else:
        tag, parts = "$tensor", [save(value), list(value.shape), dtype_name(value.dtype)]
    return {tag: _encode(parts, path, save)}


def _decode(path: Path, offsets: dict[tuple[int, ...], torch.Tensor], found: dict[str, Any]) -> Any:
    """Undo :func:`_encode` for a dictionary of the document at a path, whose values are decoded already.

    ``offsets`` keeps those of the nested tensors of the document, so that equally long ones share them.
    """
    if len(found) != 1 or not next(iter(found)).startswith("$"):
        return found
    ((tag, content),) = found.items()
    match tag:
        case "$tuple":
            return tuple(content)
        case "$items":
            return dict(content)
        case "$tensor":
            number, shape, dtype = int(content[0]), read_shape(content[1]), dtype_named(content[2])
            file = path.with_suffix(f".{number}.memmap")
            check_bytes(file, shape.numel() * dtype.itemsize)  # no size is believed that the file does not bear out
            tensor = torch.empty(shape, dtype=dtype)
            read_tensor(file, tensor.view(-1))
            return tensor
        case "$nested":
            rows, lengths = content
            is_plain = lengths.dtype == torch.int64 and lengths.ndim == 1
            if not is_plain or bool((lengths < 0).any()) or int(lengths.sum()) != len(rows):
                raise ValueError("the lengths of a nested tensor do not fit its rows")
            return nest(rows, offsets_of(lengths, offsets))
        case "$non_tensor":
            dims, sizes, data = content
            batch = _batch_size(path, sizes)
            return stack_values(data, dims) if dims else NonTensorData(data, batch_size=batch)
        case "$tensordict":
            sizes, data = content
            return TensorDict(dict(data), _batch_size(path, sizes))
    raise ValueError(f"a value of the unknown kind {tag[:60]!r}")


def _batch_size(path: Path, sizes: Any) -> torch.Size:
    """Read the batch size of what may hold no tensor at all: a loop over it must end."""
    batch, there = read_shape(sizes), sum(file.stat().st_size for file in path.parent.iterdir())
    if batch.numel() > max(MOST_EMPTY, there):
        raise ValueError(f"a batch size {list(batch)} with {there} bytes of data")
    return batch
