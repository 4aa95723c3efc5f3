"""Pool of worker processes, those of a ParallelEnv or of a collector: started, called and ended together."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rlnb.envs import errors
from rlnb.envs.batched import pickling
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.processes import interrupts_deferred, main_hidden, register_pool, wait_for_exit
from rlnb.envs.batched.worker import Channel, ChannelClosed, ChannelTimeout, EnvHost, Host, Task, WorkerFailure, run

# Seconds to wait for workers to exit: on their own after their batch failed, after SIGTERM, after SIGKILL.
_CLOSE_TIME, _TERMINATE_TIME, _KILL_TIME = 0.2, 0.2, 5.0
_START_ATTEMPTS = 3

# Packages of Gymnasium whose envs import nothing that a fork breaks, such as OpenGL.
_PLAIN_ENVS = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text")


class WorkerError(RuntimeError):
    """Raised when an env raises in its worker process, or the process ends.

    Attributes:
        failure: description of the exception in the worker, None if the process has ended.

    Example:
        >>> try:
        ...     raise WorkerError("The env in worker 0 raised ZeroDivisionError.")
        ... except RuntimeError as error:
        ...     print(error.failure)
        None
    """

    def __init__(self, message: str, failure: WorkerFailure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True)
class Advice:
    """Advice in the errors of a pool, which depends on whose workers they are."""

    owner: str = "ParallelEnv"  # the class of the object that has the pool
    start_anew: str = "env.reset() starts new"  # ones
    more_time: str = "ParallelEnv(..., timeout=600)"
    alone: str = "To see what its env does, run it in this process: SerialEnv in place of ParallelEnv."
    close: str = "an env before env.close()"  # in another thread


class WorkerPool:
    """Worker processes, each with its channel and with one or more envs, or with a collector.

    ``makers`` holds for each env the function that makes it, and its keyword arguments. The envs are spread evenly over
    the processes, each of which uses ``threads`` torch threads and, if ``quiet``, shows no warnings. ``host`` makes
    what runs the envs in a process, and ``advice`` is given in errors. For the other options see
    :class:`~rlnb.envs.ParallelEnv`.

    Attributes:
        lock: held while a thread waits for answers.
        processes: the processes.
    """

    def __init__(
        self,
        makers: Sequence[tuple[Any, dict[str, Any]]],
        method: str,
        n_processes: int,
        threads: int,
        timeout: float | None,
        quiet: bool,
        shutdown_timeout: float = 2.0,
        host: Callable[[Task], Host] = EnvHost,
        advice: Advice | None = None,
    ) -> None:
        self.timeout, self.n, self.shutdown_timeout = timeout, len(makers), shutdown_timeout
        self._advice = advice or Advice()
        self.lock = threading.RLock()
        self._closed_by_another_thread = False
        self.processes: list[Any] = []
        self.channels: list[Channel] = []
        self._process_of = [i * n_processes // self.n for i in range(self.n)]
        self._envs_of = [[i for i in range(self.n) if self._process_of[i] == p] for p in range(n_processes)]
        self._selector = _poll()
        seeds = worker_seeds(n_processes, register_pool(self))
        registered = {} if method == "fork" else pickling.dump_registered()
        if method == "forkserver":
            # The fork server imports these once, so that no worker has to. Gymnasium imports its envs when one is made,
            # which takes a tenth of the time to start a worker with a CartPole.
            imported = [name for name in _PLAIN_ENVS if name in sys.modules]
            multiprocessing.get_context(method).set_forkserver_preload(
                ["rlnb.envs.batched.worker", "rlnb.envs", host.__module__, *imported]
            )
        try:
            for p, (envs, seed) in enumerate(zip(self._envs_of, seeds, strict=True)):
                make, shared = pickling.dump([makers[i] for i in envs])
                self._start_process(method, p, Task(envs, self.n, make, host, threads, quiet, seed, registered), shared)
                self._selector.register(self.channels[p].socket, selectors.EVENT_READ, p)
        except BaseException:
            self.close(_CLOSE_TIME)
            raise

    def _start_process(self, method: str, p: int, task: Task, shared: list[Any]) -> None:
        for attempt in range(1, _START_ATTEMPTS + 1):
            context: Any = multiprocessing.get_context(method)
            ours, theirs = socket.socketpair()
            # Not a daemon: when a fork of this process exits, multiprocessing terminates all daemons, also those that
            # are not children of the fork. register_pool ends workers with this process.
            process = context.Process(target=run, args=(theirs, task, shared), name=f"rlnb-worker-{p}")
            # Before it starts: Ctrl+C may come at any time, and the pool can end only the processes that it knows.
            self.channels.append(Channel(ours, blocking=False))
            self.processes.append(process)
            try:
                # A fork does not import the main script, and would inherit the lock while it is held.
                with interrupts_deferred() if method == "fork" else main_hidden():
                    process.start()
                return
            except (EOFError, OSError) as error:
                if method != "forkserver" or attempt == _START_ATTEMPTS:
                    raise
                if isinstance(error, ChildProcessError):
                    method = "spawn"  # this process is a fork of the one that started the fork server
                else:
                    time.sleep(0.1)  # the fork server is ending, perhaps by Ctrl+C; the next attempt starts another
            finally:
                theirs.close()
            self.channels.pop().close()
            self.processes.pop()

    # Requests -----------------------------------------------------------------------------------------------------

    def notify(self, which: Collection[int], signal: bytes, what: str) -> None:
        """Let workers step or reset some envs, whose data is in shared memory, and wait until all have.

        ``what`` is the signal in a word, for errors.

        Raises:
            WorkerError: If an env raises, once all workers have answered, or a worker ends.
            TimeoutError: If a worker does not answer in time. All workers are ended then.
        """
        pending = {self._process_of[i] for i in which}
        with self._exchange() as until:
            for p in pending:
                self._send(p, what, self.channels[p].notify, signal, until)
            self._gather(pending, what, until)

    def request(self, messages: dict[int, tuple[str, tuple[Any, ...]]], what: str) -> dict[int, Any]:
        """Send a message, a name and arguments, to each of some envs, and wait for the answers.

        The answers are in the order of the messages. Errors are those of :meth:`notify`.
        """
        by_process: dict[int, dict[int, Any]] = {}
        for i, message in messages.items():
            by_process.setdefault(self._process_of[i], {})[i] = message
        with self._exchange() as until:
            for p, requests in by_process.items():
                self._send(p, what, self.channels[p].send, requests, until)
            answers = self._gather(set(by_process), what, until)
        return {i: answers[i] for i in messages}

    def connect(
        self, plan: Any, memory: SharedMemory | None, which: Collection[int] | None = None, what: str = "start"
    ) -> None:
        """Let workers use shared memory of this plan from now on; without a plan, data is sent as messages.

        ``plan`` has the ``size`` of the memory, and the hosts of the workers know what it means. ``which`` are the envs
        whose workers are connected, by default all; ``what`` this is part of, for errors.
        """
        pending = {self._process_of[i] for i in (range(self.n) if which is None else which)}
        with self._exchange() as until:
            for p in sorted(pending):
                self._send(p, what, self.channels[p].send, plan, until)
                if memory is not None:
                    self._send(p, what, self.channels[p].send_descriptor, memory.descriptor, until)
            self._gather(pending, what, until)

    def signal(self, signals: Mapping[int, bytes], what: str) -> dict[int, float]:
        """Send signals to workers, by index, without waiting for the answers, which :meth:`receive` returns.

        This and :meth:`receive` are for pools with one process for each index. Returns when each signal was sent, as
        ``time.monotonic`` says.
        """
        with self._exchange() as until:
            for p, signal in signals.items():
                self._send(p, what, self.channels[p].notify, signal, until)
        return dict.fromkeys(signals, time.monotonic())

    def receive(self, sent: Mapping[int, float], what: str, at_least: int = 1) -> dict[int, Any]:
        """Wait until some of the workers that were sent a signal have answered, and return their answers.

        A failure is returned as a :class:`~rlnb.envs.batched.worker.WorkerFailure`; :meth:`failed` makes an error of
        it.

        Args:
            sent: when a signal was sent to each of the workers whose answers are outstanding.
            what: what they were asked for, for errors.
            at_least: number of answers to wait for.

        Raises:
            WorkerError: If a worker ends. All workers are ended then.
            TimeoutError: If a worker has not answered in time after its signal. All workers are ended then.
        """
        answers: dict[int, Any] = {}
        pending = set(sent)
        with self._exchange():
            while len(answers) < at_least:
                until = None if self.timeout is None else min(sent[p] for p in pending) + self.timeout
                ready = self._ready(pending, until)
                late = set() if until is None else {p for p in pending.difference(ready) if self._is_late(sent[p])}
                if late or not ready:
                    raise self._timeout(late or pending, what)
                for p in ready:
                    # Once a worker has begun to answer, the rest of the answer must come in time.
                    message = self._receive(p, what, None if self.timeout is None else time.monotonic() + self.timeout)
                    answers.update(message)
                    pending.discard(p)
        return answers

    def env_infos(self) -> list[Any]:
        """Wait until all workers have made their envs, and return the ``EnvInfo`` of each."""
        with self._exchange() as until:
            answers = self._gather(set(range(len(self.channels))), "start", until)
        return [answers[i] for i in range(self.n)]

    def _send(self, p: int, what: str, send: Callable[..., Any], *arguments: Any) -> None:
        try:
            send(*arguments)
        except ChannelClosed:
            raise self._process_ended(p, what) from None
        except ChannelTimeout:
            raise self._timeout({p}, what) from None

    def _gather(self, pending: set[int], what: str, until: float | None) -> dict[int, Any]:
        """Receive an answer from each process. Failures are raised when no answer is outstanding any more."""
        answers: dict[int, Any] = {}
        pending = set(pending)
        while pending:
            ready = self._ready(pending, until)
            if not ready:
                raise self._timeout(pending, what)
            for p in ready:
                message = self._receive(p, what, until)
                if message is not None:
                    answers.update(message)
                pending.discard(p)
        failures = {i: answer for i, answer in answers.items() if isinstance(answer, WorkerFailure)}
        if failures:
            raise self.failed(failures, what)
        return answers

    def _is_late(self, since: float) -> bool:
        return self.timeout is not None and since + self.timeout < time.monotonic()

    def _ready(self, pending: set[int], until: float | None) -> list[int]:
        """Wait until a process of these has sent something, and return those that have; none if time runs out."""
        seconds = None if until is None else max(0.0, until - time.monotonic())
        if len(pending) == len(self.channels):
            return [key.data for key, _ in self._selector.select(seconds)]
        # The answers of the others, which may come at any time, stay where they are.
        with _poll() as selector:
            for p in pending:
                selector.register(self.channels[p].socket, selectors.EVENT_READ, p)
            return [key.data for key, _ in selector.select(seconds)]

    def _receive(self, p: int, what: str, until: float | None) -> Any:
        """Receive a message of a process; None if it is a signal."""
        try:
            return self.channels[p].recv(until)[1]
        except ChannelClosed:
            raise self._process_ended(p, what) from None
        except ChannelTimeout:
            raise self._timeout({p}, what) from None

    def failed(self, failures: Mapping[int, WorkerFailure], what: str) -> WorkerError:
        """Make an error of failures, with the traceback of the first one."""
        first, *others = sorted(failures)
        also = f" ({name_workers(others).lower()} failed, too)" if others else ""
        failure = failures[first]
        return WorkerError(
            f"Worker {first} of {self.n} failed in {what}: {failure.kind}: {failure.text}{also}\n\n"
            f"In the worker:\n{failure.lines}",
            failure,
        )

    @contextlib.contextmanager
    def _exchange(self) -> Iterator[float | None]:
        """Yield when to give up. Close the pool if answers may be outstanding: the next request would get them."""
        with self.lock:
            if not self.channels:
                raise RuntimeError(self._closed_meanwhile("this call"))
            try:
                yield None if self.timeout is None else time.monotonic() + self.timeout
            except WorkerError as error:
                if error.failure is None:
                    self.close(_CLOSE_TIME)
                raise
            except BaseException:
                self.close(_CLOSE_TIME)
                raise

    def _process_ended(self, p: int, what: str) -> RuntimeError:
        if self._closed_by_another_thread:
            return RuntimeError(self._closed_meanwhile(what))
        process, envs = self.processes[p], self._envs_of[p]
        wait_for_exit([process], 1.0)
        workers = f"{name_workers(envs)} of {self.n}"
        if len(envs) > 1:
            workers += ", which share a process,"
        return WorkerError(
            f"{workers} {_how_it_ended(process.exitcode, len(envs) > 1)}, in the middle of {what}. All workers were "
            f"ended; {self._advice.start_anew} ones. {self._advice.alone}"
        )

    def _timeout(self, pending: set[int], what: str) -> TimeoutError:
        workers = name_workers([i for p in sorted(pending) for i in self._envs_of[p]])
        return TimeoutError(
            f"{workers} of {self.n} did not finish {what} within {self.timeout:g} s. All workers were ended; "
            f"{self._advice.start_anew} ones. If it takes that long, give more time: {self._advice.more_time}."
        )

    def _closed_meanwhile(self, what: str) -> str:
        advice = self._advice
        return errors.closed_by_another_thread(what, advice.owner, advice.start_anew, advice.close)

    # End ----------------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the pool has not been closed."""
        return bool(self.channels)

    def close(self, patience: float | None = None) -> None:
        """End all workers: close their channels, then terminate and kill those that do not exit.

        ``patience`` is how many seconds they are given for that. Default: ``shutdown_timeout``.
        """
        if not self.lock.acquire(blocking=False):
            # Another thread waits for answers. It finds the channels closed, and releases the lock.
            self._closed_by_another_thread = True
            for process in self._running():
                process.kill()
            self.lock.acquire()
        try:
            self._close(self.shutdown_timeout if patience is None else patience)
        finally:
            self.lock.release()

    def _close(self, patience: float) -> None:
        self._close_channels()
        try:
            wait_for_exit(self._running(), patience)
            for process in self._running():
                process.terminate()
            wait_for_exit(self._running(), _TERMINATE_TIME)
        finally:  # at once on a second Ctrl+C
            for process in self._running():
                process.kill()
            wait_for_exit(self._running(), _KILL_TIME)
            left, self.processes = self.processes, []
            for process in left:
                if process.pid is None or process.exitcode is not None:
                    process.close()

    def _close_channels(self) -> None:
        channels, self.channels = self.channels, []
        for channel in channels:
            channel.close()
        self._selector.close()

    def _running(self) -> list[Any]:
        return [process for process in self.processes if process.pid is not None and process.exitcode is None]

    def forget(self) -> None:
        """Release workers that belong to the process that forked this one."""
        self._close_channels()  # or the workers would not notice when the other process closes them
        self.processes = []


def _poll() -> selectors.BaseSelector:
    """Make a plain poll, without a descriptor that forks would share, where the system has it."""
    selector: selectors.BaseSelector = getattr(selectors, "PollSelector", selectors.DefaultSelector)()
    return selector


def worker_seeds(n: int, pools: int) -> list[int]:
    """Derive seeds of workers from the state of torch's generator, and from the number of pools in use."""
    state = hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).digest()
    entropy = [int.from_bytes(state, "little"), pools]
    return [int(seed) for seed in np.random.SeedSequence(entropy).generate_state(n, np.uint64) >> 1]


def name_workers(which: list[int]) -> str:
    """Write the numbers of workers for an error: "Worker 3", "Workers 1, 2"."""
    return f"Worker {which[0]}" if len(which) == 1 else f"Workers {', '.join(map(str, which))}"


def _how_it_ended(code: int | None, several: bool) -> str:
    """Describe the end of a process with its exit code, None if it still runs."""
    if code is None:
        return f"closed {'their' if several else 'its'} pipe and did not end"
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else f"signal {-code}"
    why = {
        "SIGKILL": ", which is how a system ends a process that takes too much memory",
        "SIGSEGV": ": code outside of Python, such as a simulator's, has crashed",
    }
    return f"{'were' if several else 'was'} ended by {name}{why.get(name, '')}"
