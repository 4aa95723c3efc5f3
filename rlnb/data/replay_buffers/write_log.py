"""Write-ahead log of a shared storage: items that are about to overwrite others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.columns import Column

_ALIGNMENT = 64


class WriteLog:
    """Log of the items of one write: their positions and all of their leaves.

    The layout of the file follows from the number of items, so that any process can read it. The file is created when
    it is first needed. ``ndim`` is the number of leading dimensions of the columns that count items.

    Example:
        >>> import tempfile
        >>> column = Column(torch.zeros(5), 1)
        >>> log = WriteLog(Path(tempfile.mkdtemp()) / "log", [column], 1)
        >>> log.record(np.array([4, 0]), [torch.tensor([1.0, 2.0])])
        >>> log.replay(2)
        >>> column.tensor
        tensor([2., 0., 0., 0., 1.])
    """

    def __init__(self, path: Path, columns: Sequence[Column], ndim: int) -> None:
        self._path, self._columns = path, columns
        self._kinds = [(torch.Size(()), torch.int64)]
        self._kinds += [(column.tensor.shape[ndim:], column.tensor.dtype) for column in columns]
        self._bytes: torch.Tensor | None = None
        self._count, self._parts = 0, list[Column]()

    def record(self, positions: np.ndarray, leaves: Sequence[torch.Tensor]) -> None:
        """Write items to the log: positions of shape ``[n]``, and ``n`` items of each leaf, of any leading shape."""
        parts = self._open(len(positions), grow=True)
        parts[0].flat_array[:] = positions  # type: ignore[index]  # integers, which numpy has
        for part, leaf in zip(parts[1:], leaves, strict=True):
            part.fill(leaf)

    def replay(self, count: int) -> None:
        """Copy ``count`` recorded items to their positions; repeating it does no harm."""
        positions, *parts = self._open(count, grow=False)
        for column, part in zip(self._columns, parts, strict=True):
            column.scatter(positions.tensor, part.tensor)

    def _open(self, count: int, grow: bool) -> list[Column]:
        """Return the parts of the file for a number of items."""
        if count == self._count:
            return self._parts
        starts, end = [], 0
        for shape, dtype in self._kinds:
            starts.append(end)
            end += -(-count * shape.numel() * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        if self._bytes is None or len(self._bytes) < end:
            if grow:
                self._make_room(end)
            self._bytes = torch.from_file(str(self._path), shared=True, size=end, dtype=torch.uint8)
        parts = []
        for start, (shape, dtype) in zip(starts, self._kinds, strict=True):
            part = self._bytes[start : start + count * shape.numel() * dtype.itemsize]
            parts.append(Column(part.view(dtype).reshape(count, *shape), 1))
        self._count, self._parts = count, parts  # one statement, so that an interrupt leaves both or neither
        return parts

    def _make_room(self, size: int) -> None:
        self._path.touch()
        try:
            reserve_bytes(self._path, 0, size)
        except OSError as error:
            raise OSError(error.errno, errors.disk_full(self._path.name, size, error)) from error


def reserve_bytes(path: Path, begin: int, length: int) -> None:
    """Reserve disk space for a part of an existing file; raises ``OSError`` if the disk is full.

    Mapped files may be sparse: without reserved space, touching a page kills the process when the disk is full.
    """
    if not length:
        return
    if not hasattr(os, "posix_fallocate"):  # macOS
        if shutil.disk_usage(path.parent).free < length:
            raise OSError(28, "No space left on device")
        return
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), begin, length)


def positions_of_rows(start: int, count: int, size: int, width: int) -> np.ndarray:
    """Return the positions of all items of consecutive rows in a ring of ``size`` rows of ``width`` items.

    Example:
        >>> positions_of_rows(2, 2, 3, 2)
        array([4, 5, 0, 1])
    """
    positions = np.arange(start * width, (start + count) * width)
    return positions if start + count <= size else positions % (size * width)
