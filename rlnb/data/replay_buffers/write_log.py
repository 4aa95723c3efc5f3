"""WriteLog: elements that are about to be written over others, kept in a file until they are in place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.columns import Column

_ALIGNMENT = 64


class WriteLog:
    """A log of what is written over other elements: where, and every leaf of it.

    What the file holds is known from the number of elements alone, so that any process can read it.

    Args:
        path: of the file; it is made when it is needed first.
        columns: the memory of the storage.
        ndim: how many of its dimensions count elements.

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
        """Keep elements.

        Args:
            positions: where they go, shape ``[n]``.
            leaves: one for each column, ``n`` elements each; leading dimensions as they come, none for one element.

        Raises:
            OSError: if there is no room for them on the disk.
        """
        parts = self._open(len(positions), grow=True)
        parts[0].flat_array[:] = positions  # type: ignore[index]  # integers, which numpy has
        for part, leaf in zip(parts[1:], leaves, strict=True):
            part.fill(leaf)

    def replay(self, count: int) -> None:
        """Put elements in place; as often as you like.

        Args:
            count: how many were recorded.
        """
        positions, *parts = self._open(count, grow=False)
        for column, part in zip(self._columns, parts, strict=True):
            column.scatter(positions.tensor, part.tensor)

    def _open(self, count: int, grow: bool) -> list[Column]:
        """The parts of the file for a number of elements."""
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
        self._count, self._parts = count, parts  # without a call, so that Ctrl+C leaves both or neither
        return parts

    def _make_room(self, size: int) -> None:
        self._path.touch()
        try:
            reserve_bytes(self._path, 0, size)
        except OSError as error:
            raise OSError(error.errno, faults.disk_full(self._path.name, size, error)) from error


def reserve_bytes(path: Path, begin: int, length: int) -> None:
    """Take room on the disk for a part of a file.

    The file may be sparse: a page that has no room would end the process when it is touched.

    Args:
        path: of the file, which is there.
        begin: the first byte.
        length: how many.

    Raises:
        OSError: if there is no room.
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
    """Number the elements of rows one after another.

    Args:
        start: the first row.
        count: how many rows.
        size: how many rows there are; the first comes after the last.
        width: how many elements a row has.

    Returns:
        The positions, shape ``[count * width]``.

    Example:
        >>> positions_of_rows(2, 2, 3, 2)
        array([4, 5, 0, 1])
    """
    positions = np.arange(start * width, (start + count) * width)
    return positions if start + count <= size else positions % (size * width)
