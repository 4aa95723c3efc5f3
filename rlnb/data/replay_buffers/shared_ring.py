"""SharedRing: the cursor of a storage in a memory-mapped file, for all processes that map the storage."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.file_lock import FileLock, Hold
from rlnb.data.replay_buffers.forks import follow
from rlnb.data.replay_buffers.ring import Ring
from rlnb.data.replay_buffers.write_log import WriteLog

# The file: which of two sets of numbers counts (its place), how many elements the log holds (0: it does not count),
# which set counts once they are in place, and the two sets. One integer is written at once, however a process ends.
_COUNTS, _LOGGED, _THEN, _FIRST_SET = range(4)
_CURSOR, _LENGTH, _WRITTEN, _CHANGES, _NUMBERS = range(5)
_SETS = (_FIRST_SET, _FIRST_SET + _NUMBERS)
_FIELDS = _FIRST_SET + 2 * _NUMBERS


class _Hold(Hold):
    """The lock of a ring as a context: shared for reading, alone for writing."""

    def __init__(self, ring: SharedRing, shared: bool) -> None:
        super().__init__(ring._file_lock, shared)
        self._ring = ring

    def _begin(self) -> None:
        if self._ring._state[_LOGGED]:
            if self._shared:
                self._lock._wait_alone()  # to write
            self._ring._finish_write()


class _NoHold:
    """The lock for writing where nothing may be written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        raise PermissionError(faults.read_only_files(self._path.parent))

    def __exit__(self, *raised: object) -> None:
        return


class SharedRing(Ring):
    """A :class:`Ring` whose numbers are in a memory-mapped file.

    It can be pickled and survives a fork: all processes see one cursor and one length, and write one after another. A
    process that is ended while it writes blocks nobody, and what it wrote is there as a whole or not at all:

    - rows that go where nothing was are seen when :meth:`advance` moves the cursor, which one integer does;
    - rows that go over others are first kept in a log. :meth:`announce` says so, which again one integer does. From
      there on they count as written: whoever takes the lock next, to read or to write, puts them in place. As long as
      no other process knows of the ring, nobody would, and the log is not needed.

    Args:
        size: how many rows there are room for.
        path: of the file. It is made.

    Attributes:
        log: what is about to be written over other rows; None while the storage has no memory.
        writable: whether this process may write the file. A process that may not can only read.

    Example:
        >>> import pickle, tempfile
        >>> ring = SharedRing(5, Path(tempfile.mkdtemp()) / "ring")
        >>> other = pickle.loads(pickle.dumps(ring))
        >>> other.advance(3)
        >>> ring.cursor, ring.length
        (3, 3)
    """

    def __init__(self, size: int, path: Path) -> None:
        self.size, self._path = size, path
        path.write_bytes(bytes(8 * _FIELDS))
        self._open(alone=True)
        self._state[_COUNTS] = _SETS[0]
        follow(self)

    @property
    def alone(self) -> bool:
        """Whether no other process knows of the ring: it was neither pickled nor inherited by a fork."""
        return self._file_lock.alone

    def share(self) -> None:
        """Say that another process is about to know of the ring; waits for the write that is under way."""
        if self.alone:
            self._file_lock.share()

    def _open(self, alone: bool) -> None:
        self.writable = os.access(self._path, os.W_OK)
        access = mmap.ACCESS_WRITE if self.writable else mmap.ACCESS_READ
        with self._path.open("r+b" if self.writable else "rb") as file:
            self._state = memoryview(mmap.mmap(file.fileno(), 8 * _FIELDS, access=access)).cast("q")
        self._file_lock = FileLock(self._path, self._path.with_suffix(".gate"), alone)
        self.lock = _Hold(self, shared=False) if self.writable else _NoHold(self._path)
        self.reading = _Hold(self, shared=True)
        self.log: WriteLog | None = None

    # The numbers --------------------------------------------------------------------------------------------------

    def _number(self, which: int) -> int:
        return self._state[self._state[_COUNTS] + which]

    def _prepare(self, cursor: int, length: int, written: int, changes: int) -> int:
        """Write the set of numbers that does not count; return its place."""
        state = self._state
        place = sum(_SETS) - state[_COUNTS]
        state[place + _CURSOR], state[place + _LENGTH] = cursor, length
        state[place + _WRITTEN], state[place + _CHANGES] = written, changes
        return place

    def _set(self, **numbers: int) -> None:
        with self.lock:
            now = {"cursor": self.cursor, "length": self.length, "written": self.written, "changes": self.changes}
            self._state[_COUNTS] = self._prepare(**{**now, **numbers})

    @property
    def cursor(self) -> int:
        """The row that is written next."""
        return self._number(_CURSOR)

    @cursor.setter
    def cursor(self, value: int) -> None:
        self._set(cursor=value)

    @property
    def length(self) -> int:
        """How many rows are filled."""
        return self._number(_LENGTH)

    @length.setter
    def length(self, value: int) -> None:
        self._set(length=value)

    @property
    def written(self) -> int:
        """How many rows were ever written."""
        return self._number(_WRITTEN)

    @written.setter
    def written(self, value: int) -> None:
        self._set(written=value)

    @property
    def changes(self) -> int:
        """How often rows changed in another way than by being written at the cursor."""
        return self._number(_CHANGES)

    @changes.setter
    def changes(self, value: int) -> None:
        self._set(changes=value)

    # Writing ------------------------------------------------------------------------------------------------------

    def _prepare_advance(self, count: int) -> int:
        state = self._state
        now = state[_COUNTS]
        end, length = state[now + _CURSOR] + count, state[now + _LENGTH]
        filled = max(length, min(end, self.size))
        return self._prepare(end % self.size, filled, state[now + _WRITTEN] + count, state[now + _CHANGES])

    def announce(self, logged: int, count: int) -> None:
        """Say that the log holds what is now written over other rows; from here on it counts as written.

        Args:
            logged: how many elements the log holds.
            count: how many rows the cursor moves by once they are in place.
        """
        self._state[_THEN] = self._prepare_advance(count)
        self._state[_LOGGED] = logged

    def advance(self, count: int) -> None:
        """Say that rows have been written; see :meth:`Ring.advance`."""
        state = self._state
        state[_COUNTS] = state[_THEN] if state[_LOGGED] else self._prepare_advance(count)
        state[_LOGGED] = 0

    def _finish_write(self) -> None:
        """Write what a process had announced when it ended."""
        if logged := self._state[_LOGGED]:
            if not self.writable:
                raise PermissionError(faults.unfinished_write(self._path.parent))
            assert self.log is not None
            self.log.replay(logged)
            self._state[_COUNTS] = self._state[_THEN]
            self._state[_LOGGED] = 0

    def jump(self, cursor: int, length: int, written: int | None = None) -> None:
        """Set the state as a whole; see :meth:`Ring.jump`."""
        written = length if written is None else written
        with self.lock:
            self._set(cursor=cursor % self.size, length=length, written=written, changes=self.changes + 1)

    # Between processes --------------------------------------------------------------------------------------------

    def _before_fork(self) -> None:
        self.share()

    def _after_fork(self, child: bool) -> None:
        return  # the lock of the file follows by itself

    def __getstate__(self) -> dict[str, Any]:
        self.share()
        return {"size": self.size, "_path": self._path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.size, self._path = state["size"], state["_path"]
        self._open(alone=False)
