"""A function run in a process of its own: it ends in time, whatever it does, and its memory is bounded."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")

#: How much more memory the process may use than it began with.
MEMORY_LIMIT = 2 << 30
_LOOK_SECONDS = 0.1
# What the process has to report where it stands; then it is killed. A call into C can keep it from reporting.
_GRACE_SECONDS = 2.0

Ending = Literal["returned", "late", "memory", "died"]


class Ended(Generic[T]):
    """How a process ended.

    Args:
        how: ``"returned"``, ``"late"`` (the limit), ``"memory"`` (the limit of memory) or ``"died"`` (on its own).
        value: what the function returned.
        stack: where the process stood at its limit, if it could still tell: what ``place`` returned.
        signal: the name of the signal that it died of, such as ``"SIGSEGV"``; empty for an exit.
    """

    def __init__(self, how: Ending, value: T | None = None, stack: Any = None, signal: str = "") -> None:
        self.how, self.value, self.stack, self.signal = how, value, stack, signal


def can_run_apart() -> bool:
    """Whether :func:`run_apart` works here: on Linux, unless threads are about that a fork would not have.

    Windows has no ``fork``, and macOS's system libraries do not survive one in a process with threads. A forked
    process cannot use autograd where a backward pass may have started a thread for a CUDA device, nor jax or OpenGL.
    """
    torch: Any = sys.modules.get("torch")
    threaded = {"jax", "OpenGL"} & sys.modules.keys() or (torch and torch.cuda.device_count())
    return sys.platform == "linux" and not threaded


def run_apart(function: Callable[[], T], seconds: float, place: Callable[[FrameType], Any]) -> Ended[T]:
    """Run a function in a forked process, which sees all that this one holds, and kill it at its limits.

    What the function changes (globals, arguments, random generators) is changed in the other process alone. When this
    function returns or raises, ``KeyboardInterrupt`` included, that process and those that it started have ended.

    Args:
        function: what to run; what it returns is pickled.
        seconds: how long it may run.
        place: called there at the limit with the frame that runs; returns something to be pickled.

    Returns:
        How it ended.

    Raises:
        OSError: when no process can be started.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(function, seconds, place, writer), name="exercise")
    with reader:
        with writer, warnings.catch_warnings():
            # A kernel has threads, and Python warns of forking them. The child takes none of their locks: it prints
            # to memory, and reports through a pipe of its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        try:
            return _wait(process, reader, seconds + _GRACE_SECONDS)
        finally:
            _kill(process)


def _wait(process: Any, reader: Connection, seconds: float) -> Ended[Any]:
    end, before = time.monotonic() + seconds, _resident(process.pid)
    while not wait([reader, process.sentinel], _LOOK_SECONDS):
        if _resident(process.pid) - before > MEMORY_LIMIT:
            return Ended("memory")
        if time.monotonic() > end:
            return Ended("late")
    try:
        how, value = reader.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        return Ended("died", signal=signal.Signals(-code).name if code < 0 else "")
    return Ended("late", stack=value) if how == "late" else Ended("returned", value)


def _kill(process: Any) -> None:
    """End the process and all that it started: it leads a group of its own."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):  # it has ended, or has no group yet
            kill(process.pid, signal.SIGKILL)
    process.join()
    process.close()


def _resident(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):  # it has just ended
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _run(function: Callable[[], Any], seconds: float, place: Callable[[FrameType], Any], writer: Connection) -> None:
    """Be the process: report once, what the function returned or where it stands at the limit, and end."""
    os.setpgid(0, 0)  # an interrupt of the kernel is the kernel's; it ends this process in turn
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # collecting what was there before would copy its pages
    torch: Any = sys.modules.get("torch")
    if torch:
        torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    comm: Any = sys.modules.get("comm")
    if comm:
        # A widget that is made here reaches no page: the kernel would print its messages whole in the server's log.
        comm.create_comm = comm.DummyComm
    parent, end = os.getppid(), time.monotonic() + seconds

    def look(signum: int, frame: FrameType | None) -> None:
        # A signal needs no thread, which would keep the learner's own envs from being forked.
        if os.getppid() != parent:
            os._exit(1)  # the kernel is gone
        if time.monotonic() >= end:
            report("late", place(frame) if frame else None)

    def report(*message: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        with contextlib.suppress(OSError):  # nobody reads it any more
            writer.send(message)
        os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)
    try:
        report("returned", function())
    finally:
        os._exit(1)
