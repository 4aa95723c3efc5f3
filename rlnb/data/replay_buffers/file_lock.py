"""FileLock: a lock between the threads and processes that use one file."""

from __future__ import annotations

import functools
import io
import itertools
import operator
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Self

from rlnb.data.replay_buffers.forks import follow

try:
    import fcntl
except ImportError:  # Windows has no flock: there the lock is for the threads of one process
    fcntl = None  # type: ignore[assignment]

_NO_FILE = -1


class FileLock:
    """A lock on a file, for threads and for processes; it can be taken again by the thread that has it.

    The system lets it go when a process ends, however it ends. :class:`Hold` is it as a context.

    Python lets Ctrl+C in where one of its functions begins, after each call and where a loop goes back. What must not
    be torn apart is therefore a step of an iterator that is written in C: one takes the lock of the threads, one undoes
    what was done last.

    Args:
        path: of the file, which is there.
        gate: another file, which is made: who asks for the lock waits there, one at a time, so that readers who come
            and go all the time do not keep a writer out. Default: none.
        alone: whether no other process can ask for it before :meth:`share`; until then the system is not asked.

    Attributes:
        alone: the same; False from :meth:`share` on.
        release: lets the lock go, as often as it was taken. No Ctrl+C can keep it from that.

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
        self._exits: list[Callable[[], object]] = []  # what undoes each time that it was taken
        self.release: Callable[[], object] = map(operator.call, iter(self._exits.pop, None)).__next__
        self._begin()
        self._open()
        follow(self)

    def _begin(self) -> None:
        self._exits.clear()
        self._threads = threading.RLock()
        self._taking = iter(self._threads.acquire, None)
        self._exit_again: tuple[Callable[[], object]] = (self._threads.release,)
        self._exit_first: tuple[Callable[[], object]] = self._exit_again
        self._file = self._gate = _NO_FILE

    def _open(self) -> None:
        files = [_opened(self._path)]
        if self._gate_path is not None:
            files.append(_opened(self._gate_path, os.O_CREAT))
        self._finalizer = weakref.finalize(self, _close, files)
        if fcntl is not None:
            unlock = functools.partial(fcntl.flock, files[0], fcntl.LOCK_UN)
            self._exit_first = (_one_call(unlock, self._threads.release),)
        self._file, self._gate = files[0], files[1] if len(files) > 1 else _NO_FILE

    def _before_fork(self) -> None:
        return

    def _after_fork(self, child: bool) -> None:
        self.alone = False
        if child:  # what is inherited would hold the lock for a parent that is no more
            self._finalizer()
            self._begin()

    def acquire(self, shared: bool = False) -> None:
        """Take the lock; wait until it is free.

        Args:
            shared: whether others that ask for it shared may have it at the same time.
        """
        Hold(self, shared).__enter__()

    def _wait(self, shared: bool) -> None:
        """Ask the system. Whoever calls lets the file go, even if this fails."""
        if fcntl is None:
            return
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        if self._gate == _NO_FILE:
            fcntl.flock(self._file, how)
            return
        try:
            fcntl.flock(self._gate, fcntl.LOCK_EX)
            fcntl.flock(self._file, how)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _wait_alone(self) -> None:
        """Have alone what is had shared; others may have had it in between."""
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._wait(shared=False)

    def share(self) -> None:
        """Let other processes ask for the lock; waits until no other thread has it."""
        with self._threads:
            if self.alone and self._exits:
                try:
                    self._wait(shared=False)  # for who has it now
                except BaseException:
                    if fcntl is not None:
                        fcntl.flock(self._file, fcntl.LOCK_UN)
                    raise
                self._exits[0], self.alone = self._exit_first[0], False
            self.alone = False

    @property
    def depth(self) -> int:
        """How often the thread that has the lock has taken it."""
        return len(self._exits)


class Hold(io.IOBase):
    """A file lock as a context. Ctrl+C leaves it as the block is left: the lock is let go.

    Its ``__exit__`` is that of ``IOBase``, which is written in C and calls ``close``: one in Python could be ended
    before it did anything.

    Args:
        lock: which.
        shared: whether others that ask for it shared may have it at the same time.

    Example:
        >>> import tempfile
        >>> lock = FileLock(Path(tempfile.NamedTemporaryFile(delete=False).name))
        >>> with Hold(lock):
        ...     lock.depth
        1
    """

    closed = True  # there is nothing to do when this is deleted

    def __init__(self, lock: FileLock, shared: bool = False) -> None:
        self._lock, self._shared = lock, shared
        self.close = lock.release  # type: ignore[method-assign, assignment]

    def __enter__(self) -> Self:
        lock = self._lock
        for _ in lock._taking:  # not a call, after which Ctrl+C could come in before the lock counts as taken
            if lock.alone or lock._exits:
                lock._exits += lock._exit_again  # no call either, nor from here to the block
                return self
            try:
                if lock._file == _NO_FILE:
                    lock._open()
                lock._exits += lock._exit_first
                lock._wait(self._shared)
                self._begin()
            except BaseException:
                (lock.release if lock._exits else lock._threads.release)()
                raise
            break
        return self

    def _begin(self) -> None:
        """Do what is to be done first by who has the lock, if the system was asked for it."""
        return


def _one_call(first: Callable[[], object], then: Callable[[], object]) -> Callable[[], object]:
    """Make one call of two that are written in C and return None."""
    calls = (map(operator.call, itertools.repeat(call)) for call in (first, then))
    return map({}.get, *calls).__next__  # None, as the second returned it: an __exit__ lets exceptions pass then


def _opened(path: Path, more: int = 0) -> int:
    try:
        return os.open(path, os.O_RDWR | more, 0o666)
    except PermissionError:
        return os.open(path, os.O_RDONLY)  # enough for a lock


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)
