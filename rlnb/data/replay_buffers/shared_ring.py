"""SharedRing: the cursor of a storage in a memory-mapped file, for all processes that map the storage."""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from rlnb.data.replay_buffers.ring import Ring

try:
    import fcntl
except ImportError:  # Windows has no flock: there the lock is for the threads of one process
    fcntl = None  # type: ignore[assignment]

_CURSOR, _LENGTH, _WRITTEN, _PENDING, _FIELDS = range(5)


class FileLock:
    """A lock on a file, for threads and for processes; it can be taken again by the thread that has it.

    The system lets it go when a process ends, however it ends.

    Args:
        path: of the file, which is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        self._pid, self._depth, self._threads = os.getpid(), 0, threading.RLock()
        self._file = os.open(self._path, os.O_RDWR)
        self._finalizer = weakref.finalize(self, _close, self._file, self._pid)

    def acquire(self, shared: bool = False) -> None:
        """Take the lock; wait until it is free.

        Args:
            shared: whether others that ask for it shared may have it at the same time.
        """
        if self._pid != os.getpid():  # a forked process would share its parent's hold on the file
            self._open()
        self._threads.acquire()
        if not self._depth and fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            except BaseException:
                self._threads.release()
                raise
        self._depth += 1

    def release(self) -> None:
        """Let the lock go."""
        self._depth -= 1
        if not self._depth and fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()

    @property
    def depth(self) -> int:
        """How often the thread that has the lock has taken it."""
        return self._depth


class _Hold:
    """A FileLock as a context: shared for reading, alone for writing."""

    def __init__(self, ring: SharedRing, shared: bool) -> None:
        self._ring, self._shared = ring, shared

    def __enter__(self) -> None:
        lock, ring = self._ring._file_lock, self._ring
        lock.acquire(self._shared)
        if lock.depth > 1 or not ring._state[_PENDING]:
            return
        if self._shared:  # it takes being alone to forget what is torn
            lock.release()
            lock.acquire()
        if ring._state[_PENDING]:
            ring._drop_torn()

    def __exit__(self, *raised: object) -> None:
        self._ring._file_lock.release()


class SharedRing(Ring):
    """A :class:`Ring` whose numbers are in a memory-mapped file.

    It can be pickled and survives a fork: all processes see one cursor and one length, and write one after another. A
    process that is ended while it writes blocks nobody. The rows that it was writing may be torn; who takes the lock
    next finds the mark that :meth:`claim` left, and forgets them, with the filled rows behind them.

    Args:
        size: how many rows there are room for.
        path: of the file. It is made.

    Example:
        >>> import pickle, tempfile
        >>> ring = SharedRing(5, Path(tempfile.mkdtemp()) / "ring")
        >>> other = pickle.loads(pickle.dumps(ring))
        >>> other.advance(3)
        >>> ring.cursor, ring.length
        (3, 3)
    """

    def __init__(self, size: int, path: Path) -> None:
        self._path = path
        path.write_bytes(bytes(8 * _FIELDS))
        self._open()
        super().__init__(size)
        self._hold()

    def _open(self) -> None:
        with self._path.open("r+b") as file:
            self._state = np.frombuffer(mmap.mmap(file.fileno(), 8 * _FIELDS), dtype=np.int64)

    def _hold(self) -> None:
        self._file_lock = FileLock(self._path)
        self.lock, self.reading = _Hold(self, shared=False), _Hold(self, shared=True)

    @property
    def cursor(self) -> int:
        """The row that is written next."""
        return int(self._state[_CURSOR])

    @cursor.setter
    def cursor(self, value: int) -> None:
        self._state[_CURSOR] = value

    @property
    def length(self) -> int:
        """How many rows are filled."""
        return int(self._state[_LENGTH])

    @length.setter
    def length(self, value: int) -> None:
        self._state[_LENGTH] = value

    @property
    def written(self) -> int:
        """How many rows were ever written."""
        return int(self._state[_WRITTEN])

    @written.setter
    def written(self, value: int) -> None:
        self._state[_WRITTEN] = value

    def claim(self, count: int) -> int:
        """Say that rows are about to be written, so that they are known to be torn if this process ends meanwhile."""
        self._state[_PENDING] = min(count, self.size)
        return self.cursor

    def advance(self, count: int) -> None:
        """Say that rows have been written; see :meth:`Ring.advance`."""
        super().advance(count)
        self._state[_PENDING] = 0

    def _drop_torn(self) -> None:
        """Forget the rows that a process was writing when it ended."""
        start, end = self.cursor, self.cursor + int(self._state[_PENDING])
        if end > self.size:  # what it wrote went round: only what lies between could be whole
            self.jump(0, 0, self.written)
        else:
            self.length = min(self.length, start)
        self._state[_PENDING] = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, "_path": self._path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.size, self._path = state["size"], state["_path"]
        self._open()
        self._hold()


def _close(file: int, owner: int) -> None:
    if os.getpid() == owner:
        os.close(file)
