"""FileLock: a lock between the threads and processes that use one file."""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path

from rlnb.data.replay_buffers.forks import follow

try:
    import fcntl
except ImportError:  # Windows has no flock: there the lock is for the threads of one process
    fcntl = None  # type: ignore[assignment]

_NO_FILE = -1


class FileLock:
    """A lock on a file, for threads and for processes; it can be taken again by the thread that has it.

    The system lets it go when a process ends, however it ends.

    Args:
        path: of the file, which is there.
        gate: another file, which is made: who asks for the lock waits there, one at a time, so that readers who come
            and go all the time do not keep a writer out. Default: none.
        alone: whether no other process can ask for it before :meth:`share`; until then the system is not asked.

    Attributes:
        alone: the same; False from :meth:`share` on.

    Example:
        >>> import tempfile
        >>> lock = FileLock(Path(tempfile.NamedTemporaryFile(delete=False).name))
        >>> lock.acquire()
        >>> lock.depth
        1
        >>> lock.release()
    """

    def __init__(self, path: Path, gate: Path | None = None, alone: bool = False) -> None:
        self._path, self._gate_path, self.alone = path, gate, alone
        self._begin()
        self._open()
        follow(self)

    def _begin(self) -> None:
        self._depth, self._threads = 0, threading.RLock()
        self._file = self._gate = _NO_FILE

    def _open(self) -> None:
        self._file = _opened(self._path)
        files = [self._file]
        self._finalizer = weakref.finalize(self, _close, files)
        if self._gate_path is not None:
            self._gate = _opened(self._gate_path, os.O_CREAT)
            files.append(self._gate)

    def _before_fork(self) -> None:
        return

    def _after_fork(self, child: bool) -> None:
        if child:  # what is inherited would hold the lock for a parent that is no more
            self._finalizer()
            self._begin()

    def acquire(self, shared: bool = False) -> None:
        """Take the lock; wait until it is free.

        Args:
            shared: whether others that ask for it shared may have it at the same time.
        """
        self._threads.acquire()
        try:
            if not (self._depth or self.alone) and fcntl is not None:
                self._wait(fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except BaseException:
            self._threads.release()
            raise
        self._depth += 1

    def _wait(self, how: int) -> None:
        if self._file == _NO_FILE:
            self._open()
        if self._gate == _NO_FILE:
            fcntl.flock(self._file, how)
            return
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._file, how)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def release(self) -> None:
        """Let the lock go."""
        self._depth -= 1
        if not (self._depth or self.alone) and fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()

    def share(self) -> None:
        """Let other processes ask for the lock; waits until no other thread has it."""
        with self._threads:
            if self.alone and self._depth and fcntl is not None:
                self._wait(fcntl.LOCK_EX)  # for who has it now
            self.alone = False

    @property
    def depth(self) -> int:
        """How often the thread that has the lock has taken it."""
        return self._depth


def _opened(path: Path, more: int = 0) -> int:
    try:
        return os.open(path, os.O_RDWR | more, 0o666)
    except PermissionError:
        return os.open(path, os.O_RDONLY)  # enough for a lock


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)
