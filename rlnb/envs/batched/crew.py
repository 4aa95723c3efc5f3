"""The crew: the worker processes of a ParallelEnv, started, asked and ended together."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
import time
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cloudpickle

from rlnb.envs.batched import faults
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.wire import MESSAGE, Closed, Watch, Wire
from rlnb.envs.batched.worker import Failure, Task, run

_CLOSING_TIME = 0.2  # seconds that a worker is given to end by itself
_MAIN = threading.Lock()


class WorkerError(RuntimeError):
    """What a worker raised, or how it ended."""


class Crew:
    """Worker processes, each with its wire.

    Args:
        makers: for each worker the function that makes its env, and keyword arguments.
        method: how processes are started: "forkserver", "spawn" or "fork".
        threads: for torch, in each worker.
        timeout: seconds to wait for an answer; None: for ever.
        quiet: leave the warnings of workers out.

    Raises:
        WorkerError: if a worker ends before it is ready.
    """

    def __init__(
        self,
        makers: Sequence[tuple[Any, dict[str, Any]]],
        method: str,
        threads: int,
        timeout: float | None,
        quiet: bool,
    ) -> None:
        self.timeout, self.n = timeout, len(makers)
        self.processes: list[Any] = []
        self.wires: list[Wire] = []
        context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            # What is imported there once, no worker imports again.
            context.set_forkserver_preload(["rlnb.envs.batched.worker", "rlnb.envs"])
        try:
            for i, maker in enumerate(makers):
                self._start_one(context, i, cloudpickle.dumps(maker), threads, quiet, method == "fork")
            self.watch = Watch(self.wires)
        except BaseException:
            self.end()
            raise

    def _start_one(self, context: Any, i: int, make: bytes, threads: int, quiet: bool, forked: bool) -> None:
        mine, its = context.Pipe(duplex=True)
        others = [wire.connection.fileno() for wire in self.wires] + [mine.fileno()] if forked else []
        task = Task(i, self.n, make, threads, list(sys.path), dict(os.environ), os.getpid(), others, quiet)
        process = context.Process(target=run, args=(its, task), daemon=True, name=f"rlnb-worker-{i}")
        with _without_main() if not forked else contextlib.nullcontext():
            process.start()
        its.close()
        self.processes.append(process)
        self.wires.append(Wire(mine))

    # Talking ------------------------------------------------------------------------------------------------------

    def ring(self, which: Iterable[int], signal: bytes, what: str) -> None:
        """Let workers do something, and wait until all have.

        Args:
            which: indices of the workers.
            signal: what they are to do.
            what: the same in a word, for errors.

        Raises:
            WorkerError: if one fails, once all have answered, or ends.
            TimeoutError: if one does not answer in time. All are ended then.
        """
        pending = set(which)
        with self._all_or_nothing():
            for i in pending:
                self._tell(i, what, self.wires[i].ring, signal)
            self._gather(pending, what)

    def ask(self, messages: dict[int, tuple[str, tuple[Any, ...]]], what: str) -> dict[int, Any]:
        """Send a message to workers, and wait for the answers.

        Args:
            messages: the name of what is asked and its arguments, by the index of the worker.
            what: the same in a word, for errors.

        Returns:
            The answers by index.

        Raises:
            WorkerError: as for :meth:`ring`.
            TimeoutError: as for :meth:`ring`.
        """
        with self._all_or_nothing():
            for i, message in messages.items():
                self._tell(i, what, self.wires[i].send, message)
            return self._gather(set(messages), what)

    def hand_over(self, memory: SharedMemory, messages: dict[int, tuple[str, tuple[Any, ...]]]) -> None:
        """Send a message and shared memory to workers.

        Args:
            memory: for all of them.
            messages: as for :meth:`ask`.
        """
        with self._all_or_nothing():
            for i, message in messages.items():
                self._tell(i, "start", self.wires[i].send, message)
                memory.send(self.wires[i].connection, self.processes[i].pid)
            self._gather(set(messages), "start")

    def ready(self) -> list[Any]:
        """Wait until all workers have made their envs.

        Returns:
            What each says of its env.
        """
        with self._all_or_nothing():
            answers = self._gather(set(range(self.n)), "start")
        return [answers[i] for i in range(self.n)]

    def _tell(self, i: int, what: str, tell: Any, content: Any) -> None:
        try:
            tell(content)
        except Closed:
            raise self._lost(i, what) from None

    def _gather(self, pending: set[int], what: str) -> dict[int, Any]:
        """Collect an answer from each; a failure is raised when no answer is outstanding any more."""
        answers: dict[int, Any] = {}
        failures: dict[int, Failure] = {}
        until = None if self.timeout is None else time.monotonic() + self.timeout
        while pending:
            left = None if until is None else max(0.0, until - time.monotonic())
            found = self.watch.ready(pending, left)
            if not found:
                raise TimeoutError(faults.hanging(sorted(pending), self.n, what, self.timeout))
            for i in found:
                try:
                    if self.wires[i].hear() == MESSAGE:
                        fine, answer = self.wires[i].take()
                        (answers if fine else failures)[i] = answer
                except Closed:
                    raise self._lost(i, what) from None
            pending = pending.difference(found)
        if failures:
            first = min(failures)
            error = WorkerError(faults.failed(first, self.n, what, failures[first], sorted(set(failures) - {first})))
            error.kind = failures[first].kind  # type: ignore[attr-defined]
            error.text = failures[first].text  # type: ignore[attr-defined]
            raise error
        return answers

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """End the crew if answers may be outstanding: they would be taken for those of the next question."""
        try:
            yield
        except WorkerError as error:
            if not hasattr(error, "kind"):
                self.end()
            raise
        except BaseException:
            self.end()
            raise

    def _lost(self, i: int, what: str) -> WorkerError:
        """Say how a worker ended that was not told to."""
        process = self.processes[i]
        process.join(1.0)
        return WorkerError(faults.ended(i, self.n, what, process.exitcode))

    # The end ------------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the crew was not ended."""
        return bool(self.wires)

    def end(self) -> None:
        """End all workers: they see that the wire is closed, and are killed if that is not enough."""
        for wire in self.wires:
            wire.connection.close()
        self.wires = []
        until = time.monotonic() + _CLOSING_TIME
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
        for process in self.processes:
            if process.exitcode is None:
                process.kill()
        for process in self.processes:
            process.join()
            process.close()
        self.processes = []

    def forget(self) -> None:
        """Let go of workers that belong to another process."""
        for wire in self.wires:
            wire.connection.close()
        self.wires, self.processes = [], []


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
