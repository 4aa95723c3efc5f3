"""The crew: the worker processes of a ParallelEnv, started, asked and ended together."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.process
import multiprocessing.util
import os
import signal
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

import numpy as np
import torch

from rlnb.envs.batched import faults, sharing
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.plan import BlockPlan
from rlnb.envs.batched.start_method import dump_registered
from rlnb.envs.batched.wire import MESSAGE, Closed, Late, Watch, Wire
from rlnb.envs.batched.worker import Failure, Task, run

# Seconds that workers are given to end: by themselves where their batch has failed, after SIGTERM, after SIGKILL.
_CLOSING_TIME, _TERMINATING_TIME, _KILLING_TIME = 0.2, 0.2, 5.0
_MAIN = threading.Lock()
_STARTING = [threading.RLock()]
_CREWS: weakref.WeakSet[Crew] = weakref.WeakSet()


class WorkerError(RuntimeError):
    """What a worker raised, or how it ended.

    Attributes:
        failure: what was raised; None where the worker ended.
    """

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


class Crew:
    """Worker processes, each with its wire and with one or more envs.

    Args:
        makers: for each env the function that makes it, and keyword arguments.
        method: how processes are started: "forkserver", "spawn" or "fork".
        processes: how many processes run the envs; each takes the next few.
        threads: for torch, in each worker.
        timeout: seconds to wait for an answer; None: for ever.
        quiet: leave the warnings of workers out.
        shutdown_timeout: seconds that idle workers are given to close their envs, before they are terminated.

    Attributes:
        home: the process of each env.
        lock: held while a thread waits for answers.

    Raises:
        WorkerError: if a worker ends before it is ready.
    """

    def __init__(
        self,
        makers: Sequence[tuple[Any, dict[str, Any]]],
        method: str,
        processes: int,
        threads: int,
        timeout: float | None,
        quiet: bool,
        shutdown_timeout: float = 2.0,
    ) -> None:
        self.timeout, self.n, self.shutdown_timeout = timeout, len(makers), shutdown_timeout
        self.lock = threading.RLock()
        self._closed_elsewhere = False
        self.processes: list[Any] = []
        self.wires: list[Wire] = []
        self.home = [i * processes // self.n for i in range(self.n)]
        self._envs_of = [[i for i in range(self.n) if self.home[i] == p] for p in range(processes)]
        _CREWS.add(self)
        _let_go_after_forks()
        _end_all_at_exit(os.getpid())
        context: Any = multiprocessing.get_context(method)
        registered = {} if method == "fork" else dump_registered()
        if method == "forkserver":
            # What is imported there once, no worker imports again.
            context.set_forkserver_preload(["rlnb.envs.batched.worker", "rlnb.envs"])
        try:
            for p, (envs, seed) in enumerate(zip(self._envs_of, _seeds(processes), strict=True)):
                make, shared = sharing.dump([makers[i] for i in envs])
                self._start_one(context, p, Task(envs, self.n, make, threads, quiet, seed, registered), shared)
            self.watch = Watch(self.wires)
        except BaseException:
            self.end(_CLOSING_TIME)
            raise

    def _start_one(self, context: Any, p: int, task: Task, shared: list[Any], attempts: int = 3) -> None:
        mine, its = context.Pipe(duplex=True)
        process = context.Process(target=run, args=(its, task, shared), daemon=True, name=f"rlnb-worker-{p}")
        # First of all: an Interrupt may come at any moment, and what is not known here cannot be ended.
        self.wires.append(Wire(mine, blocking=False))
        self.processes.append(process)
        method = context.get_start_method()
        try:
            # A fork has the main script in its memory, and would never give the lock back.
            with _interrupts_wait() if method == "fork" else _without_main():
                process.start()
        except (EOFError, OSError):
            # A fork server that is just ending, such as by an Interrupt of all processes; the next one is another.
            if method != "forkserver" or attempts == 1:
                raise
            self.wires.pop().connection.close()
            self.processes.pop()
            time.sleep(0.1)
            self._start_one(context, p, task, shared, attempts - 1)
        finally:
            its.close()

    # Talking ------------------------------------------------------------------------------------------------------

    def ring(self, which: Collection[int], signal: bytes, what: str) -> None:
        """Let workers do something, and wait until all have.

        Args:
            which: the envs that are concerned.
            signal: what the workers are to do.
            what: the same in a word, for errors.

        Raises:
            WorkerError: if one fails, once all have answered, or ends.
            TimeoutError: if one does not answer in time. All are ended then.
        """
        pending = {self.home[i] for i in which}
        with self._all_or_nothing():
            until = self._until()
            for p in pending:
                self._tell(p, what, self.wires[p].ring, signal, until)
            self._gather(pending, what, until)

    def ask(self, messages: dict[int, tuple[str, tuple[Any, ...]]], what: str) -> dict[int, Any]:
        """Send a message to each of some envs, and wait for the answers.

        Args:
            messages: the name of what is asked and its arguments, by the index of the env.
            what: the same in a word, for errors.

        Returns:
            The answers by index.

        Raises:
            WorkerError: as for :meth:`ring`.
            TimeoutError: as for :meth:`ring`.
        """
        letters: dict[int, dict[int, Any]] = {}
        for i, message in messages.items():
            letters.setdefault(self.home[i], {})[i] = message
        with self._all_or_nothing():
            until = self._until()
            for p, letter in letters.items():
                self._tell(p, what, self.wires[p].send, letter, until)
            return self._gather(set(letters), what, until)

    def connect(self, plan: BlockPlan | None, memory: SharedMemory | None) -> None:
        """Let the envs write to shared memory from now on.

        Args:
            plan: where the rows of each env lie in the memory; None to send data as messages.
            memory: of that plan.
        """
        with self._all_or_nothing():
            until = self._until()
            for p, wire in enumerate(self.wires):
                self._tell(p, "start", wire.send, plan, until)
                if memory is not None:
                    self._tell(p, "start", memory.send, wire, self.processes[p].pid, until)
            self._gather(set(range(len(self.wires))), "start", until)

    def ready(self) -> list[Any]:
        """Wait until all workers have made their envs.

        Returns:
            What each says of its env.
        """
        with self._all_or_nothing():
            answers = self._gather(set(range(len(self.wires))), "start", self._until())
        return [answers[i] for i in range(self.n)]

    def _until(self) -> float | None:
        return None if self.timeout is None else time.monotonic() + self.timeout

    def _tell(self, p: int, what: str, tell: Callable[..., Any], *content: Any) -> None:
        try:
            tell(*content)
        except Closed:
            raise self._lost(p, what) from None
        except Late:
            raise self._late([p], what) from None

    def _gather(self, pending: set[int], what: str, until: float | None) -> dict[int, Any]:
        """Collect an answer from each; a failure is raised when no answer is outstanding any more."""
        answers: dict[int, Any] = {}
        while pending:
            left = None if until is None else max(0.0, until - time.monotonic())
            found = self.watch.ready(pending, left)
            if not found:
                raise self._late(sorted(pending), what)
            for p in found:
                try:
                    if self.wires[p].hear(until) == MESSAGE:
                        answers.update(self.wires[p].take(until))
                except Closed:
                    raise self._lost(p, what) from None
                except Late:
                    raise self._late([p], what) from None
            pending = pending.difference(found)
        failures = {i: answer for i, answer in answers.items() if isinstance(answer, Failure)}
        if failures:
            first = min(failures)
            text = faults.failed(first, self.n, what, failures[first], sorted(set(failures) - {first}))
            raise WorkerError(text, failures[first])
        return answers

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """End the crew if answers may be outstanding: they would be taken for those of the next question."""
        with self.lock:
            if not self.wires:
                raise RuntimeError(faults.closed_elsewhere("this call"))
            try:
                yield
            except WorkerError as error:
                if error.failure is None:
                    self.end(_CLOSING_TIME)
                raise
            except BaseException:
                self.end(_CLOSING_TIME)
                raise

    def _lost(self, p: int, what: str) -> RuntimeError:
        """Describe how a worker ended by itself."""
        if self._closed_elsewhere:
            return RuntimeError(faults.closed_elsewhere(what))
        process = self.processes[p]
        _await_end([process], 1.0)
        return WorkerError(faults.ended(self._envs_of[p], self.n, what, process.exitcode))

    def _late(self, processes: list[int], what: str) -> TimeoutError:
        envs = [i for p in processes for i in self._envs_of[p]]
        return TimeoutError(faults.hanging(envs, self.n, what, self.timeout))

    # The end ------------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the crew was not ended."""
        return bool(self.wires)

    def end(self, patience: float | None = None) -> None:
        """End all workers: they see that the pipe is closed, and are terminated and killed if that is not enough.

        Args:
            patience: seconds that they are given to end by themselves; None for ``shutdown_timeout``.
        """
        if not self.lock.acquire(blocking=False):
            # Another thread waits for answers. It finds the pipes closed then, and lets go of the lock.
            self._closed_elsewhere = True
            for process in self._running():
                process.kill()
            self.lock.acquire()
        try:
            self._end(self.shutdown_timeout if patience is None else patience)
        finally:
            self.lock.release()

    def _end(self, patience: float) -> None:
        wires, self.wires = self.wires, []
        for wire in wires:
            wire.connection.close()
        try:
            _await_end(self._running(), patience)
            for process in self._running():
                process.terminate()
            _await_end(self._running(), _TERMINATING_TIME)
        finally:  # a second Interrupt does not wait
            for process in self._running():
                process.kill()
            _await_end(self._running(), _KILLING_TIME)
            left, self.processes = self.processes, []
            for process in left:
                if process.pid is None or process.exitcode is not None:
                    process.close()
                else:  # the system itself holds it; multiprocessing would wait for it when this process ends
                    _children().discard(process)

    def _running(self) -> list[Any]:
        return [process for process in self.processes if process.pid is not None and process.exitcode is None]

    def forget(self) -> None:
        """Let go of workers that belong to the process that this one is a fork of."""
        # Otherwise multiprocessing would end them when this process ends.
        _children().difference_update(self.processes)
        for wire in self.wires:
            wire.connection.close()
        self.wires, self.processes = [], []


def _seeds(n: int) -> list[int]:
    """Seed workers after torch's generator, which stays as it is; batches that live side by side differ."""
    state = hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).digest()
    entropy = [int.from_bytes(state, "little"), sum(crew.alive for crew in _CREWS)]
    return [int(seed) for seed in np.random.SeedSequence(entropy).generate_state(n, np.uint64) >> 1]


def starting() -> Any:
    """The lock that is held while workers start, so that two threads do not start those of one batch twice."""
    return _STARTING[0]


def _children() -> set[Any]:
    return getattr(multiprocessing.process, "_children", set())


def _await_end(processes: list[Any], seconds: float) -> None:
    """Wait until processes have ended, or the time is over."""
    until = time.monotonic() + seconds
    while running := [process for process in processes if process.exitcode is None]:
        left = until - time.monotonic()
        if left <= 0:
            return
        # The sentinel of a process that closed all its descriptors is ready, though it has not ended; Process.join
        # would wait for it without a limit.
        wait([process.sentinel for process in running], left)
        if all(process.exitcode is None for process in running):
            time.sleep(min(max(left, 0.0), 0.001))


@functools.cache
def _end_all_at_exit(pid: int) -> None:
    """End all workers when this process ends, before multiprocessing waits for them without a limit."""

    def end_all() -> None:
        for crew in list(_CREWS):
            with contextlib.suppress(Exception):
                crew.end()

    # atexit is not run in the processes that multiprocessing starts; this is, and it comes before its own waiting.
    multiprocessing.util.Finalize(None, end_all, exitpriority=100)


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Put an Interrupt off: what it raises inside of ``os.fork`` is printed and swallowed by Python."""
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


@functools.cache
def _let_go_after_forks() -> None:
    """See to it that a fork of this process does not hold on to the workers of this one."""

    def let_go() -> None:
        _STARTING[0] = threading.RLock()  # the thread that held it is not here
        for crew in list(_CREWS):
            crew.forget()
        # The fork server is no child of this process. Without that, multiprocessing would look for it here.
        server: Any = getattr(multiprocessing.forkserver, "_forkserver", None)
        if getattr(server, "_forkserver_pid", None) is not None:
            server._forkserver_pid = None
            with contextlib.suppress(OSError):
                os.close(server._forkserver_alive_fd)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=let_go)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep a new process from running the main script again.

    What comes from there travels by value, so nothing has to be imported; and a script needs no
    ``if __name__ == "__main__"``.
    """
    with _MAIN:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


__all__ = ["Crew", "WorkerError", "starting"]
