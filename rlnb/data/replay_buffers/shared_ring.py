"""Cursor and write-ahead log of a storage that several processes map, in memory-mapped files."""

from __future__ import annotations

import mmap
import os
import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.process_lock import ProcessLock
from rlnb.data.replay_buffers.ring import Ring

# Layout of the file, in 64-bit integers: the offset of the set of numbers that is valid, the number of items in the
# log (0: nothing to replay), the offset of the set that is valid after the replay, and the two sets. A process that is
# killed leaves each integer either as it was or as it was to be.
_COUNTS, _LOGGED, _THEN, _FIRST_SET = range(4)
_CURSOR, _LENGTH, _WRITTEN, _CHANGES, _NUMBERS = range(5)
_SETS = (_FIRST_SET, _FIRST_SET + _NUMBERS)
_FIELDS = _FIRST_SET + 2 * _NUMBERS
_ALIGNMENT = 64  # bytes, of the parts of a log


class _ReadOnly:
    """Context for writing in a process that may not write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        raise PermissionError(
            f"This process may only read the files of the storage, which are in {self._folder}. Nothing was written. "
            "Fix: write in a process that may write there, or copy what is there into a buffer of your own: "
            "other.extend(buffer[:])."
        )

    def __exit__(self, *exc_info: object) -> None:
        return


def _in_file(which: int) -> Any:
    """Property for one of the numbers in the file of a ring."""

    def read(ring: SharedRing) -> int:
        return ring._state[ring._state[_COUNTS] + which]

    def write(ring: SharedRing, value: int) -> None:
        with ring.lock:
            numbers = [ring.cursor, ring.length, ring.written, ring.changes]
            numbers[which] = value
            ring._state[_COUNTS] = ring._prepare(*numbers)

    return property(read, write)


class SharedRing(Ring):
    """A :class:`Ring` whose numbers are in a memory-mapped file, so that several processes can share them.

    It can be pickled and survives a fork: all processes see one cursor and one length, and write one after another. A
    process that is killed while it writes blocks no other, and its write is either complete or absent:

    - Rows in an unused part of the storage become visible when :meth:`advance` moves the cursor, which changes a
      single integer.
    - Rows that overwrite others go to a log first. :meth:`announce` marks the log as complete, again with a single
      integer. From then on the rows count as written: the next process that takes the lock replays the log.
      As long as no other process knows of the ring, the log is not needed.

    After an interrupt (Ctrl+C) the ring is usable, its length and the rows agree, and at most the interrupted write is
    missing.

    Attributes:
        log: Log of the rows that are about to be overwritten; None while the storage has no memory.
        writable: Whether this process may write to the file; otherwise it can only read.

    Example:
        >>> import pickle, tempfile
        >>> ring = SharedRing(5, Path(tempfile.mkdtemp()) / "ring")
        >>> other = pickle.loads(pickle.dumps(ring))
        >>> other.advance(3)
        >>> ring.cursor, ring.length
        (3, 3)
    """

    cursor, length = _in_file(_CURSOR), _in_file(_LENGTH)
    written, changes = _in_file(_WRITTEN), _in_file(_CHANGES)

    def __init__(self, size: int, path: Path) -> None:
        self.size, self._path = size, path
        path.write_bytes(bytes(8 * _FIELDS))
        self._open(alone=True)
        self._state[_COUNTS] = _SETS[0]

    def _open(self, alone: bool) -> None:
        self.writable = os.access(self._path, os.W_OK)
        access = mmap.ACCESS_WRITE if self.writable else mmap.ACCESS_READ
        with self._path.open("r+b" if self.writable else "rb") as file:
            self._state = memoryview(mmap.mmap(file.fileno(), 8 * _FIELDS, access=access)).cast("q")
        this = weakref.ref(self)  # a reference cycle would keep the mapped memory alive

        def finish_write() -> None:
            if ring := this():
                ring._finish_write()

        self._process_lock = ProcessLock(self._path, alone, finish_write)
        self.lock = self._process_lock if self.writable else _ReadOnly(self._path.parent)
        self.reading = self._process_lock
        self.log: WriteLog | None = None

    @property
    def alone(self) -> bool:
        """Whether no other process knows of the ring: it was neither pickled nor inherited by a fork."""
        return self._process_lock.alone

    def share(self) -> None:
        """Prepare for another process that is about to know of the ring; waits for a write in progress."""
        if self.alone:
            self._process_lock.share()

    def _prepare(self, cursor: int, length: int, written: int, changes: int) -> int:
        """Write the set of numbers that is not valid yet; return its offset."""
        state = self._state
        place = sum(_SETS) - state[_COUNTS]
        state[place + _CURSOR], state[place + _LENGTH] = cursor, length
        state[place + _WRITTEN], state[place + _CHANGES] = written, changes
        return place

    def _prepare_advance(self, count: int) -> int:
        state = self._state
        now = state[_COUNTS]
        end, length = state[now + _CURSOR] + count, state[now + _LENGTH]
        filled = max(length, min(end, self.size))
        return self._prepare(end % self.size, filled, state[now + _WRITTEN] + count, state[now + _CHANGES])

    def announce(self, logged: int, count: int) -> None:
        """Declare the log of ``logged`` items complete: they count as written. The cursor moves by ``count`` rows."""
        self._state[_THEN] = self._prepare_advance(count)
        self._state[_LOGGED] = logged

    def advance(self, count: int) -> None:
        """Move the cursor behind rows that have been written; see :meth:`Ring.advance`."""
        state = self._state
        state[_COUNTS] = state[_THEN] if state[_LOGGED] else self._prepare_advance(count)
        state[_LOGGED] = 0

    def _finish_write(self) -> None:
        """Replay the log that a process announced before it was killed."""
        if logged := self._state[_LOGGED]:
            if not self.writable:
                raise PermissionError(
                    f"A process was killed while it wrote to the storage in {self._path.parent}, and this process may "
                    "only read there. Fix: open it in a process that may write, which completes the write."
                )
            assert self.log is not None
            self.log.replay(logged)
            self._state[_COUNTS] = self._state[_THEN]
            self._state[_LOGGED] = 0

    def jump(self, cursor: int, length: int, written: int | None = None) -> None:
        """Set the whole state; see :meth:`Ring.jump`."""
        written = length if written is None else written
        with self.lock:
            self._state[_COUNTS] = self._prepare(cursor % self.size, length, written, self.changes + 1)

    def __getstate__(self) -> dict[str, Any]:
        self.share()
        return {"size": self.size, "_path": self._path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.size, self._path = state["size"], state["_path"]
        self._open(alone=False)


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
                self._path.touch()
                reserve_bytes(self._path, 0, end)
            self._bytes = torch.from_file(str(self._path), shared=True, size=end, dtype=torch.uint8)
        parts = []
        for start, (shape, dtype) in zip(starts, self._kinds, strict=True):
            part = self._bytes[start : start + count * shape.numel() * dtype.itemsize]
            parts.append(Column(part.view(dtype).reshape(count, *shape), 1))
        self._count, self._parts = count, parts  # one statement, so that an interrupt leaves both or neither
        return parts


def reserve_bytes(path: Path, begin: int, length: int) -> None:
    """Reserve disk space for a part of an existing file; raises ``OSError`` if the disk is full.

    Mapped files may be sparse: without reserved space, touching a page kills the process when the disk is full.
    """
    if not length:
        return
    try:
        if hasattr(os, "posix_fallocate"):
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), begin, length)
        elif shutil.disk_usage(path.parent).free < length:  # macOS
            raise OSError(28, "No space left on device")
    except OSError as error:
        raise OSError(
            error.errno,
            f"No room on the disk for the next {length:,} bytes of {path.name} ({error.strerror}). Nothing was "
            "written. Fix: free some space, a smaller max_size, or a scratch_dir on another disk.",
        ) from error


def positions_of_rows(start: int, count: int, size: int, width: int) -> np.ndarray:
    """Return the positions of all items of consecutive rows in a ring of ``size`` rows of ``width`` items.

    Example:
        >>> positions_of_rows(2, 2, 3, 2)
        array([4, 5, 0, 1])
    """
    positions = np.arange(start * width, (start + count) * width)
    return positions if start + count <= size else positions % (size * width)
