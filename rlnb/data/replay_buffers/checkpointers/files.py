"""Files of a checkpoint: tensors as raw bytes, and plain values as JSON. Reading them runs no code that they name."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
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


@contextlib.contextmanager
def sensible(path: Path) -> Iterator[None]:
    """Raise a ``ValueError`` that says what to do if a document, which others may have written, makes no sense."""
    try:
        yield
    except SENSELESS as error:
        if isinstance(error, ValueError) and "Fix:" in str(error):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{name_of(path)!r} of the checkpoint does not read as one ({reason}). {KEPT} {_AGAIN}"
        ) from error


# Tensors --------------------------------------------------------------------------------------------------------------


def write_tensor(path: Path, blocks: Iterable[torch.Tensor]) -> None:
    """Write blocks ``[rows, ...]`` of a tensor, on any device, as the bytes that they have in memory."""
    digest = xxhash.xxh3_64()
    with path.open("wb") as file:
        for part in (part for block in blocks for part in _parts(block)):
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


def _parts(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Split a tensor whose bytes must be copied, so that no second copy of all of it is made."""
    return [tensor] if _is_plain(tensor) else tensor.split(max(PIECE_BYTES // max(tensor[:1].nbytes, 1), 1))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor holds its bytes in order."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


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


def write_document(path: Path, content: Any) -> None:
    """Write plain values as JSON."""
    path.write_text(json.dumps(content, indent=1) + "\n")


def read_document(path: Path) -> Any:
    """Read JSON that somebody else may have written; raises ``ValueError`` if the file is missing or is not JSON."""
    if not path.is_file():  # a pipe, too: reading it could wait for ever
        raise missing(path)
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise damaged(path) from error


class Codec:
    """Converts values to what JSON can hold, and back. What JSON lacks is a dictionary with one key that starts with $.

    Args:
        folder: Folder for the files of tensors, ``label.number.memmap``. Default: tensors are refused.
        label: What the names of the files begin with.

    Example:
        >>> codec = Codec()
        >>> codec.encode({"order": (1, 2), 3: None})
        {'$items': [['order', {'$tuple': [1, 2]}], [3, None]]}
        >>> codec.decode({"$tuple": [1, {"$tuple": [2, 3]}]})
        (1, (2, 3))
    """

    def __init__(self, folder: Path | None = None, label: str = "") -> None:
        self._folder, self._label, self._count = folder, label, 0

    def encode(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """Convert plain values, tensors and TensorDicts; ``TypeError`` says at which ``path`` is another value."""
        if isinstance(value, np.generic):
            value = value.item()
        if type(value) in _PLAIN:
            return value
        if type(value) in (list, tuple):
            items = [self.encode(item, (*path, i)) for i, item in enumerate(value)]
            return items if type(value) is list else {"$tuple": items}
        if type(value) is dict:
            entries = {key: self.encode(item, (*path, key)) for key, item in value.items()}
            if all(type(key) is str and not key.startswith("$") for key in entries):
                return entries
            return {"$items": [[self.encode(key, path), item] for key, item in entries.items()]}
        if type(value) is torch.Size:
            return {"$size": list(value)}
        if self._folder is not None and (isinstance(value, (torch.Tensor, TensorDictBase)) or is_non_tensor(value)):
            tag, parts = self._take_apart(value, self._folder)
            return {tag: [self.encode(part, path) for part in parts]}
        where = f" at {'.'.join(map(str, path))}" if path else ""
        raise TypeError(
            "A checkpoint holds tensors, text, numbers, True, False, None, and lists, tuples and dictionaries of "
            f"these; and there is a {type(value).__name__}{where}. Fix: convert it, or leave it out of the data."
        )

    def _take_apart(self, value: Any, folder: Path) -> tuple[str, list[Any]]:
        """Return the tag of a tensor or TensorDict, and what it is put together from; writes the file of a tensor."""
        if is_non_tensor(value):
            dims = 0 if isinstance(value, NonTensorData) else value.batch_dims
            return "$non_tensor", [dims, list(value.batch_size), value.tolist() if dims else value.data]
        if isinstance(value, TensorDictBase):
            return "$tensordict", [list(value.batch_size), dict(raw_entries(value))]
        if value.is_nested:
            return "$nested", list(join(value))
        number, self._count = self._count, self._count + 1
        write_tensor(folder / f"{self._label}.{number}.memmap", [value.reshape(-1)])
        return "$tensor", [number, list(value.shape), dtype_name(value.dtype)]

    def decode(self, value: Any) -> Any:
        """Undo :meth:`encode`; raises one of ``SENSELESS`` for what makes no sense or does not fit the files."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        entries = {key: self.decode(item) for key, item in value.items()}
        if len(entries) != 1 or not next(iter(entries)).startswith("$"):
            return entries
        ((tag, content),) = entries.items()
        match tag:
            case "$tuple":
                return tuple(content)
            case "$items":
                return dict(content)
            case "$size":
                return read_shape(content)
            case "$tensor":
                return self._read(*content)
            case "$nested":
                rows, lengths = content
                is_plain = lengths.dtype == torch.int64 and lengths.ndim == 1
                if not is_plain or bool((lengths < 0).any()) or int(lengths.sum()) != len(rows):
                    raise ValueError("the lengths of a nested tensor do not fit its rows")
                return nest(rows, offsets_of(lengths))
            case "$non_tensor":
                dims, sizes, data = content
                batch = self._batch_size(sizes)
                return stack_values(data, dims) if dims else NonTensorData(data, batch_size=batch)
            case "$tensordict":
                sizes, data = content
                return TensorDict(dict(data), self._batch_size(sizes))
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

    def _batch_size(self, sizes: Any) -> torch.Size:
        """Read the batch size of what may hold no tensor at all: a loop over it must end."""
        batch, files = read_shape(sizes), [] if self._folder is None else self._folder.iterdir()
        there = sum(path.stat().st_size for path in files)
        if batch.numel() > max(MOST_EMPTY, there):
            raise ValueError(f"a batch size {list(batch)} with {there} bytes of data")
        return batch


def write_values(folder: Path, name: str, values: Any) -> None:
    """Write plain values and tensors: the document ``name.json``, and a ``.memmap`` file for each tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    write_document(folder / f"{name}.json", Codec(folder, name).encode(values, (name,)))


def read_values(folder: Path, name: str) -> Any:
    """Read what :func:`write_values` wrote; raises ``ValueError`` for what makes no sense."""
    path = folder / f"{name}.json"
    with sensible(path):
        return Codec(folder, name).decode(read_document(path))
