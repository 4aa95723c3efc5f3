"""Start methods of worker processes, and guarantees that ``multiprocessing`` alone does not provide.

Everything here that is not an ordinary use of ``multiprocessing`` says what breaks without it.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import threading
import time
import types
import weakref
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any, Protocol


class _Pool(Protocol):
    @property
    def alive(self) -> bool: ...
    def close(self) -> None: ...
    def forget(self) -> None: ...


_pools: weakref.WeakSet[Any] = weakref.WeakSet()
_start_lock = threading.RLock()
_main_lock = threading.Lock()


def start_lock() -> threading.RLock:
    """Return the lock that is held while workers start, so that two threads do not start those of one batch twice."""
    return _start_lock


@contextlib.contextmanager
def main_hidden() -> Iterator[None]:
    """Keep a process that is started inside this context from importing the main script.

    Spawned processes and those of a fork server import ``__main__`` again, and ``multiprocessing`` has no option
    against it. Without this, a script that makes a ``ParallelEnv`` outside of ``if __name__ == "__main__":`` runs once
    more in each worker and fails there. No worker needs the script: cloudpickle sends what it defines by value.
    """
    with _main_lock:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Handle Ctrl+C at the end of this context.

    Without this, Ctrl+C during ``os.fork`` is lost: Python prints and ignores exceptions in callbacks that other
    libraries have registered with ``os.register_at_fork``.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    arrived: list[Any] = []
    signal.signal(signal.SIGINT, lambda *arguments: arrived.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            signal.raise_signal(signal.SIGINT)


def wait_for_exit(processes: Sequence[Any], seconds: float) -> None:
    """Wait until started processes have ended, or time runs out."""
    until = time.monotonic() + seconds
    while running := [process for process in processes if process.exitcode is None]:
        left = until - time.monotonic()
        if left <= 0:
            return
        # Process.join(timeout) does not keep its timeout: it waits for the sentinel, and then for the process without
        # a limit. The sentinel of a process that has closed all of its descriptors is ready while it still runs.
        wait([process.sentinel for process in running], left)
        if all(process.exitcode is None for process in running):
            time.sleep(min(max(left, 0.0), 0.001))


def register_pool(pool: _Pool) -> int:
    """Close a pool when this process exits, and release it in forks of this process. Only a weak reference is kept.

    Returns the number of other pools that are in use.
    """
    others = sum(other.alive for other in _pools)
    _pools.add(pool)
    _release_in_forks()
    _close_at_exit(os.getpid())
    return others


@functools.cache
def _close_at_exit(pid: int) -> None:
    # A finalizer of multiprocessing, not atexit: processes started by multiprocessing do not run atexit. Its priority
    # puts it before the end of multiprocessing itself, which would wait for a stopped worker without a limit.
    multiprocessing.util.Finalize(None, _close_all, exitpriority=100)


def _close_all() -> None:
    with contextlib.suppress(Exception), contextlib.ExitStack() as stack:
        for pool in list(_pools):  # each one, even if Ctrl+C ends the closing of another
            stack.callback(pool.close)


@functools.cache
def _release_in_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_release_all)


def _release_all() -> None:
    global _start_lock, _main_lock
    # Threads that held them do not exist in the fork.
    _start_lock, _main_lock = threading.RLock(), threading.Lock()
    for pool in list(_pools):
        pool.forget()
