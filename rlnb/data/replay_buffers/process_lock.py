"""Locks of replay buffers: a lock on a file, and hooks for forks, because a fork copies only the calling thread."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

_POLL_INTERVAL = 2e-4  # seconds between two attempts while another process has the lock


class Forkable(Protocol):
    """An object with locks that must survive a fork."""

    def _before_fork(self) -> None:
        """Prepare for a fork by this thread."""

    def _after_fork(self, child: bool) -> None:
        """Continue after a fork, in the child or in the parent."""


_FOLLOWERS: weakref.WeakSet[Forkable] = weakref.WeakSet()


def follow(follower: Forkable) -> None:
    """Call the hooks of an object at each fork as long as it exists."""
    _register()
    _FOLLOWERS.add(follower)


@functools.cache  # once, and only when it is needed: no import changes a global
def _register() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before, after_in_parent=lambda: _after(child=False), after_in_child=lambda: _after(child=True)
        )


def _before() -> None:
    for follower in list(_FOLLOWERS):
        follower._before_fork()


def _after(child: bool) -> None:
    for follower in list(_FOLLOWERS):
        follower._after_fork(child)


class ProcessLock:
    """Reentrant lock on an existing file, for the threads of several processes.

    The operating system releases the lock of a process that ends, however it ends. As long as the lock is ``alone``, it
    is a lock between threads only and costs no system call: no other process can ask for it before :meth:`share`. Each
    time that the file has been locked, ``on_acquire`` is called. ``depth`` blocks hold the lock.

    An interrupt (Ctrl+C) in a block releases the lock like any exception. As with every context manager written in
    Python, one that arrives in the very instant in which the block begins or ends can leave the lock held: this thread
    continues, and other threads and processes wait until this process ends.

    ``filelock.FileLock`` opens the file for each block, which takes longer than sampling a batch. This class keeps it
    open and uses the ``lock_descriptor`` of the same library.

    Example:
        >>> import tempfile
        >>> lock = ProcessLock(Path(tempfile.mkstemp()[1]))
        >>> with lock, lock:
        ...     lock.depth
        2
        >>> lock.depth
        0
    """

    def __init__(self, path: Path, alone: bool = False, on_acquire: Callable[[], None] | None = None) -> None:
        self._path, self.alone, self._on_acquire = path, alone, on_acquire
        self._reset()
        follow(self)

    def _reset(self) -> None:
        self._threads, self.depth = threading.RLock(), 0
        self._file: int | None = None

    def _before_fork(self) -> None:
        self.share()

    def _after_fork(self, child: bool) -> None:
        if child:
            if self._file is not None:  # it would keep the lock of a parent that has ended
                self._close()
            self._reset()

    def __enter__(self) -> None:
        self._threads.acquire()
        if self.depth or self.alone:
            self.depth += 1
            return
        try:
            self._lock_file()
            if self._on_acquire is not None:
                self._on_acquire()
        except BaseException:
            self._unlock_file()
            self._threads.release()
            raise
        self.depth = 1

    def __exit__(self, *exc_info: object) -> None:
        self.depth -= 1
        try:
            if not (self.depth or self.alone):
                self._unlock_file()
        finally:
            self._threads.release()

    def share(self) -> None:
        """Let other processes ask for the lock from now on; waits until no other thread holds it."""
        with self._threads:
            if self.alone and self.depth:
                self._lock_file()
            self.alone = False

    def _lock_file(self) -> None:
        from filelock import lock_descriptor  # only storages that are shared pay for the import

        if self._file is None:
            # A lock needs no write permission.
            self._file = os.open(self._path, os.O_RDWR if os.access(self._path, os.W_OK) else os.O_RDONLY)
            self._close = weakref.finalize(self, os.close, self._file)
        lock_descriptor(self._file, poll_interval=_POLL_INTERVAL)

    def _unlock_file(self) -> None:
        from filelock import unlock_descriptor

        if self._file is not None:
            unlock_descriptor(self._file)
