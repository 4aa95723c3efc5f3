"""Files of a checkpoint: the bytes of tensors as they are, and JSON, each with a checksum."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict

import numpy as np
import torch

from rlnb.data.replay_buffers.faults import checkpoints as faults

FORMAT = "rlnb-checkpoint-1"
PIECE_BYTES = 1 << 18  # what is read or written at once: it is summed up while the cache holds it
_START_BYTES = 1 << 22  # so much is on its way to the disk while the next is summed up
_BLOCK_BYTES = 1 << 18
_FACTOR = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_WEIGHTS = (np.arange(1, _BLOCK_BYTES // 8 + 1, dtype=np.uint64) * np.uint64(_FACTOR)) | np.uint64(1)


class Note(TypedDict):
    """What a file must look like: its length in bytes and its checksum."""

    bytes: int
    checksum: str


class Checksum:
    """A checksum of bytes that come in pieces of any size.

    A weighted sum of 64-bit words, all weights odd, so that no single word can change unnoticed. numpy forms it at
    several GB/s, where hashes of the standard library would take longer than reading the file.

    Example:
        >>> whole, parts = Checksum(), Checksum()
        >>> data = np.arange(100, dtype=np.uint8)
        >>> whole.update(data)
        >>> parts.update(data[:33])
        >>> parts.update(data[33:])
        >>> whole.note() == parts.note()
        True
    """

    def __init__(self) -> None:
        self._value, self._bytes, self._held = 0, 0, 0
        self._part = np.zeros(_BLOCK_BYTES, dtype=np.uint8)

    def update(self, data: np.ndarray) -> None:
        """Take bytes in.

        Args:
            data: of dtype uint8 and one dimension.
        """
        self._bytes += len(data)
        if self._held:
            taken = min(len(self._part) - self._held, len(data))
            self._part[self._held : self._held + taken] = data[:taken]
            self._held += taken
            if self._held < len(self._part):
                return
            self._fold(self._part)
            data, self._held = data[taken:], 0
        whole = len(data) - len(data) % len(self._part)
        for start in range(0, whole, len(self._part)):
            self._fold(data[start : start + len(self._part)])
        self._held = len(data) - whole
        self._part[: self._held] = data[whole:]

    def _fold(self, block: np.ndarray) -> None:
        words = block.view(np.dtype("<u8"))
        self._value = ((self._value * _FACTOR) + int(np.einsum("i,i->", words, _WEIGHTS[: len(words)]))) & _MASK

    def note(self) -> Note:
        """Return what is known of all bytes so far."""
        if self._held:
            padded = -(-self._held // 8) * 8
            self._part[self._held : padded] = 0
            before = self._value
            self._fold(self._part[:padded])
            value, self._value = self._value, before
        else:
            value = self._value
        return {"bytes": self._bytes, "checksum": f"{value:016x}"}


def as_bytes(tensor: torch.Tensor) -> np.ndarray | None:
    """Look at the memory of a tensor.

    Args:
        tensor: of at least one dimension.

    Returns:
        A view of dtype uint8 and one dimension; None if the memory is elsewhere or in no single piece.
    """
    tensor = tensor.detach()
    if tensor.device.type != "cpu" or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return None
    # Where there are fewer than two elements, a stride can be anything, and torch takes only 1.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy()


# Tensors --------------------------------------------------------------------------------------------------------------


def pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Divide a tensor along its first dimension into what is handled at once.

    Args:
        tensor: of at least one dimension.

    Yields:
        Views, one after another.
    """
    row = max(tensor[:1].numel() * tensor.element_size(), 1)
    yield from tensor.split(max(PIECE_BYTES // row, 1))


def write_raw(path: Path, blocks: Iterable[torch.Tensor]) -> Note:
    """Write tensors one behind the other.

    Args:
        path: of the file, which is not there yet.
        blocks: the tensors, of at least one dimension each.

    Returns:
        What the file must look like.
    """
    checksum, started, written = Checksum(), 0, 0
    with path.open("xb", buffering=0) as file:
        for piece in _pieces_of_bytes(blocks):
            checksum.update(piece)
            _write_all(file, piece)
            written += len(piece)
            if written - started >= _START_BYTES:
                _start_writing(file, started, written)
                started = written
        _start_writing(file, started, written)
    return checksum.note()


def _pieces_of_bytes(blocks: Iterable[torch.Tensor]) -> Iterator[np.ndarray]:
    for block in blocks:
        whole = as_bytes(block)
        for part in [whole] if whole is not None else map(_copied, pieces(block)):
            for start in range(0, len(part), PIECE_BYTES):
                yield part[start : start + PIECE_BYTES]


def _copied(block: torch.Tensor) -> np.ndarray:
    data = as_bytes(block.detach().cpu().resolve_conj().resolve_neg().contiguous())
    assert data is not None
    return data


def _write_all(file: Any, data: np.ndarray) -> None:
    view = memoryview(data.data)
    while view:
        view = view[file.write(view) :]


def _start_writing(file: Any, start: int, end: int) -> None:
    """Have the system begin to write a part of a file to the disk, so that there is less to wait for in the end.

    A hint that Linux alone takes. It may fail: what goes wrong is reported by the :func:`sync` that has to follow.
    """
    if _sync_file_range is not None and end > start:
        _sync_file_range(file.fileno(), start, end - start, 2)  # SYNC_FILE_RANGE_WRITE


def _find_sync_file_range() -> Any:
    """The call of the system's library, which Python does not name; None where there is none."""
    found = getattr(ctypes.CDLL(None), "sync_file_range", None) if sys.platform == "linux" else None
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


_sync_file_range = _find_sync_file_range()


class RawReader:
    """Reads a file that :func:`write_raw` wrote, and checks it at its end.

    Args:
        path: of the file.
        note: what it must look like.
        known: whether its checksum was compared just now, and need not be again.

    Raises:
        ValueError: if it is missing or of another length.
    """

    def __init__(self, path: Path, note: Note, known: bool = False) -> None:
        check_size(path, note)
        self._path, self._note, self._checksum = path, note, None if known else Checksum()
        self._file = path.open("rb", buffering=0)

    def into(self, tensor: torch.Tensor) -> None:
        """Fill a tensor with the next bytes.

        Args:
            tensor: of at least one dimension.

        Raises:
            ValueError: if the file ends before.
        """
        memory = as_bytes(tensor)
        if memory is not None:
            self._fill(memory)
            return
        for part in pieces(tensor):
            copy = torch.empty(part.shape, dtype=part.dtype)
            memory = as_bytes(copy)
            assert memory is not None
            self._fill(memory)
            part.copy_(copy)

    def _fill(self, memory: np.ndarray) -> None:
        for start in range(0, len(memory), PIECE_BYTES):
            piece = memory[start : start + PIECE_BYTES]
            view = memoryview(piece.data)
            while view:
                count = self._file.readinto(view)
                if not count:
                    raise ValueError(faults.damaged(self._path))
                view = view[count:]
            if self._checksum is not None:
                self._checksum.update(piece)

    def finish(self) -> None:
        """Read what is left, and compare the checksum.

        Raises:
            ValueError: if the content is not what was written.
        """
        if self._checksum is None:
            return
        scratch = np.empty(PIECE_BYTES, dtype=np.uint8)
        while count := self._file.readinto(scratch.data):
            self._checksum.update(scratch[:count])
        if self._checksum.note() != self._note:
            raise ValueError(faults.damaged(self._path))

    def __enter__(self) -> RawReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_raw(path: Path, note: Note, into: Iterable[torch.Tensor], known: bool = False) -> None:
    """Read a file into tensors, one behind the other.

    Args:
        path: of the file.
        note: what it must look like.
        into: the tensors, which are written to before the checksum is compared.
        known: whether it was compared just now, and need not be again.

    Raises:
        ValueError: if the file is not what was written.
    """
    with RawReader(path, note, known) as reader:
        for tensor in into:
            reader.into(tensor)
        reader.finish()


def check_size(path: Path, note: Note) -> None:
    """Refuse a file that is missing or has another length.

    Args:
        path: of the file.
        note: what it must look like.

    Raises:
        ValueError: if it is not so.
    """
    if not path.is_file():
        raise ValueError(faults.missing(path))
    size = path.stat().st_size
    if size != note["bytes"]:
        raise ValueError(faults.cut_short(path, size, note["bytes"]))


# JSON -----------------------------------------------------------------------------------------------------------------


def write_document(path: Path, content: Any) -> None:
    """Write plain values as JSON, with a checksum.

    Args:
        path: of the file; one that is there is written over.
        content: what JSON can hold.

    Raises:
        TypeError: if it is something else.
    """
    document = {"format": FORMAT, "checksum": _sum_of(content), "content": content}
    path.write_text(json.dumps(document, indent=1) + "\n")


def read_document(path: Path) -> Any:
    """Read what :func:`write_document` wrote.

    Args:
        path: of the file.

    Returns:
        The content.

    Raises:
        ValueError: if it is missing, damaged, or something else.
    """
    if not path.is_file():
        raise ValueError(faults.missing(path))
    try:
        document = json.loads(path.read_bytes())
        known, given, content = document["format"], document["checksum"], document["content"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(faults.damaged(path)) from error
    if known != FORMAT:
        raise ValueError(faults.other_format(path, known, FORMAT))
    if given != _sum_of(content):
        raise ValueError(faults.damaged(path))
    return content


def _sum_of(content: Any) -> str:
    checksum = Checksum()
    checksum.update(np.frombuffer(json.dumps(content).encode(), dtype=np.uint8))
    return checksum.note()["checksum"]


def sync(path: Path) -> None:
    """Have the system write a file, or the list of files in a folder, to the disk.

    Args:
        path: of the file or folder.
    """
    if os.name == "nt" and path.is_dir():  # Windows cannot, and keeps its folders without
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
