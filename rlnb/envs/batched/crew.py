"""The crew: the worker processes of a ParallelEnv, started, asked and ended together."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.process
import os
import sys
import threading
import time
import types
import weakref
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from rlnb.envs.batched import faults, sharing
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.plan import BlockPlan
from rlnb.envs.batched.start_method import dump_registered
from rlnb.envs.batched.wire import MESSAGE, Closed, Watch, Wire
from rlnb.envs.batched.worker import Failure, Task, run

_CLOSING_TIME = 0.2  # seconds that workers are given to end by themselves
_MAIN = threading.Lock()
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

    Attributes:
        home: the process of each env.

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
    ) -> None:
        self.timeout, self.n = timeout, len(makers)
        self.processes: list[Any] = []
        self.wires: list[Wire] = []
        self.home = [i * processes // self.n for i in range(self.n)]
        self._envs_of = [[i for i in range(self.n) if self.home[i] == p] for p in range(processes)]
        _CREWS.add(self)
        _let_go_after_forks()
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
            self.end()
            raise

    def _start_one(self, context: Any, p: int, task: Task, shared: list[Any], attempts: int = 3) -> None:
        mine, its = context.Pipe(duplex=True)
        process = context.Process(target=run, args=(its, task, shared), daemon=True, name=f"rlnb-worker-{p}")
        # First of all: an Interrupt may come at any moment, and what is not known here cannot be ended.
        self.wires.append(Wire(mine))
        self.processes.append(process)
        method = context.get_start_method()
        try:
            # A fork has the main script in its memory, and would never give the lock back.
            with contextlib.nullcontext() if method == "fork" else _without_main():
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
            for p in pending:
                self._tell(p, what, self.wires[p].ring, signal)
            self._gather(pending, what)

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
            for p, letter in letters.items():
                self._tell(p, what, self.wires[p].send, letter)
            return self._gather(set(letters), what)

    def connect(self, plan: BlockPlan | None, memory: SharedMemory | None) -> None:
        """Let the envs write to shared memory from now on.

        Args:
            plan: where the rows of each env lie in the memory; None to send data as messages.
            memory: of that plan.
        """
        with self._all_or_nothing():
            for p, wire in enumerate(self.wires):
                self._tell(p, "start", wire.send, plan)
                if memory is not None:
                    memory.send(wire.connection, self.processes[p].pid)
            self._gather(set(range(len(self.wires))), "start")

    def ready(self) -> list[Any]:
        """Wait until all workers have made their envs.

        Returns:
            What each says of its env.
        """
        with self._all_or_nothing():
            answers = self._gather(set(range(len(self.wires))), "start")
        return [answers[i] for i in range(self.n)]

    def _tell(self, p: int, what: str, tell: Any, content: Any) -> None:
        try:
            tell(content)
        except Closed:
            raise self._lost(p, what) from None

    def _gather(self, pending: set[int], what: str) -> dict[int, Any]:
        """Collect an answer from each; a failure is raised when no answer is outstanding any more."""
        answers: dict[int, Any] = {}
        until = None if self.timeout is None else time.monotonic() + self.timeout
        while pending:
            left = None if until is None else max(0.0, until - time.monotonic())
            found = self.watch.ready(pending, left)
            if not found:
                late = [i for p in sorted(pending) for i in self._envs_of[p]]
                raise TimeoutError(faults.hanging(late, self.n, what, self.timeout))
            for p in found:
                try:
                    if self.wires[p].hear() == MESSAGE:
                        answers.update(self.wires[p].take())
                except Closed:
                    raise self._lost(p, what) from None
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
        try:
            yield
        except WorkerError as error:
            if error.failure is None:
                self.end()
            raise
        except BaseException:
            self.end()
            raise

    def _lost(self, p: int, what: str) -> WorkerError:
        """Say how a worker ended that was not told to."""
        process = self.processes[p]
        process.join(1.0)
        return WorkerError(faults.ended(self._envs_of[p], self.n, what, process.exitcode))

    # The end ------------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the crew was not ended."""
        return bool(self.wires)

    def end(self) -> None:
        """End all workers: they see that the wire is closed, and are killed if that is not enough."""
        wires, self.wires = self.wires, []
        started = [process for process in self.processes if process.pid is not None]
        self.processes = []
        for wire in wires:
            wire.connection.close()
        until = time.monotonic() + _CLOSING_TIME
        try:
            for process in started:
                process.join(max(0.0, until - time.monotonic()))
        finally:  # a second Interrupt does not wait
            for process in started:
                if process.exitcode is None:
                    process.kill()
            for process in started:
                process.join()
                process.close()

    def forget(self) -> None:
        """Let go of workers that belong to the process that this one is a fork of."""
        # Otherwise multiprocessing would end them when this process ends.
        getattr(multiprocessing.process, "_children", set()).difference_update(self.processes)
        for wire in self.wires:
            wire.connection.close()
        self.wires, self.processes = [], []


def _seeds(n: int) -> list[int]:
    """Seed workers after torch's generator, which stays as it is; batches that live side by side differ."""
    state = hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).digest()
    entropy = [int.from_bytes(state, "little"), sum(crew.alive for crew in _CREWS)]
    return [int(seed) for seed in np.random.SeedSequence(entropy).generate_state(n, np.uint64) >> 1]


@functools.cache
def _let_go_after_forks() -> None:
    """See to it that a fork of this process does not hold on to the workers of this one."""

    def let_go() -> None:
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


__all__ = ["Crew", "WorkerError"]
