"""Worker process: its channel to the pool, the loop that answers the pool, and the host of the envs of a ParallelEnv.

What a worker runs is its :class:`Host`, which the pool names: :class:`EnvHost` runs the envs of a ParallelEnv, and
``rlnb.collectors.worker.CollectorHost`` a collector. The channel, the loop, failures and the end are the same for all.
"""

from __future__ import annotations

import contextlib
import operator
import os
import pickle
import random
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, Protocol

import cloudpickle
import numpy as np
import torch

from rlnb._start_method import WATCHER
from rlnb.envs import errors
from rlnb.envs.base import EnvBase
from rlnb.envs.batched import pickling
from rlnb.envs.batched.attributes import Remote, read_attribute
from rlnb.envs.batched.drivers import BlockDriver, DataDriver, Driver, EnvInfo, RowDriver
from rlnb.envs.batched.memory import BlockPlan, SharedMemory

#: Signals, of one byte each. The first three are requests of a ParallelEnv about data in shared memory: step all envs
#: of the worker, step or reset those that are selected. DONE is the reply, and MESSAGE announces a pickled message.
STEP, STEP_SELECTED, RESET_SELECTED, DONE, MESSAGE = b"s", b"w", b"r", b"d", b"m"
_LENGTH = struct.Struct("!Q")


class ChannelClosed(Exception):
    """The process at the other end has closed the channel, or has ended."""


class ChannelTimeout(Exception):
    """The process at the other end did not read or write in time."""


class Channel:
    """One end of a socket pair between a worker and its pool.

    A signal is one byte, so that a step whose data is in shared memory costs one system call in each direction. A
    message is the signal ``MESSAGE``, a length, and a pickle. ``multiprocessing.connection.Connection`` would take two
    calls to read a signal, and it cannot give up in the middle of a message.

    ``until`` is the time of ``time.monotonic`` at which a method raises :class:`ChannelTimeout`, also in the middle of
    a message: the process at the other end may have been stopped. ``None`` waits without a limit. All methods raise
    :class:`ChannelClosed` if the other end is closed. Only the end of a worker is ``blocking``: a pool must be able to
    give up.
    """

    def __init__(self, connection: socket.socket, blocking: bool) -> None:
        connection.setblocking(blocking)
        self.socket, self._blocking = connection, blocking

    def notify(self, signal: bytes, until: float | None = None) -> None:
        """Send a signal."""
        try:
            self.socket.send(signal)
        except BlockingIOError:
            self._before(until, self.socket.sendall, signal)
        except OSError as error:
            raise ChannelClosed from error

    def send(self, message: Any, until: float | None = None) -> None:
        """Send any object that cloudpickle can pickle, including functions and classes of a notebook or script."""
        content = cloudpickle.dumps(message)
        self._before(until, self.socket.sendall, MESSAGE + _LENGTH.pack(len(content)))
        self._before(until, self.socket.sendall, content)

    def recv(self, until: float | None = None) -> tuple[bytes, Any]:
        """Receive a signal, and a message if the signal is ``MESSAGE``."""
        try:
            signal = self.socket.recv(1)
        except BlockingIOError:
            signal = self._before(until, self.socket.recv, 1)
        except OSError as error:
            raise ChannelClosed from error
        if not signal:
            raise ChannelClosed
        if signal != MESSAGE:
            return signal, None
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size, until))
        return signal, pickle.loads(self._read(size, until))

    def send_descriptor(self, descriptor: int, until: float | None = None) -> None:
        """Send an open file descriptor, which the process at the other end receives as its own."""
        self._before(until, socket.send_fds, self.socket, [b"f"], [descriptor])

    def recv_descriptor(self, until: float | None = None) -> int:
        """Receive the file descriptor that :meth:`send_descriptor` sent."""
        _, descriptors, *_ = self._before(until, socket.recv_fds, self.socket, 1, 1)
        if not descriptors:
            raise ChannelClosed
        return int(descriptors[0])

    def close(self) -> None:
        """Close this end; the other end notices that."""
        self.socket.close()

    def _read(self, size: int, until: float | None) -> bytearray:
        content = bytearray(size)
        left = memoryview(content)
        while left:
            count = self._before(until, self.socket.recv_into, left)
            if not count:
                raise ChannelClosed
            left = left[count:]
        return content

    def _before(self, until: float | None, operation: Callable[..., Any], *arguments: Any) -> Any:
        """Call an operation of the socket that may have to wait."""
        try:
            self.socket.settimeout(None if until is None else max(until - time.monotonic(), 0.0))
            result = operation(*arguments)
            self.socket.setblocking(self._blocking)
        except (BlockingIOError, TimeoutError) as error:
            raise ChannelTimeout from error
        except OSError as error:
            raise ChannelClosed from error
        return result


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it has been deleted
        return None


@dataclass(frozen=True)
class Task:
    """What a worker needs to know when it starts."""

    envs: list[int]  # indices of the envs, or collectors, that it runs
    n: int  # number of them in all workers
    make: bytes  # pickled list with a function and keyword arguments for each of its envs
    host: Callable[[Task], Host]  # makes what runs them
    threads: int  # of torch
    quiet: bool  # whether to suppress warnings
    seed: int  # of the random generators of the process, which all workers of a fork server would otherwise share
    registered: dict[str, bytes]  # specs that were added to Gymnasium's registry, pickled, by id
    path: list[str] = field(default_factory=lambda: list(sys.path))
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    directory: str | None = field(default_factory=_working_directory)
    parent: int = field(default_factory=os.getpid)  # process id of the pool


@dataclass(frozen=True)
class WorkerFailure:
    """Description of an exception that was raised in a worker: the name of its class, its message and its traceback."""

    kind: str
    text: str
    lines: str

    @classmethod
    def of(cls, error: Exception) -> WorkerFailure:
        """Describe an exception, even one whose own ``__str__`` or ``__repr__`` raises."""
        kind = type(error).__name__
        try:
            text = str(error)
        except Exception as raised:
            text = f"(its __str__ raised {type(raised).__name__})"
        try:
            lines = "".join(traceback.format_exception(error)).rstrip()
        except Exception as raised:
            lines = f"{kind}: (its traceback cannot be formatted: {type(raised).__name__})"
        return cls(kind, text, lines)


def run(connection: socket.socket, task: Task, shared: list[torch.Tensor]) -> None:
    """Run a worker until the pool closes the channel or its process ends.

    ``shared`` are the tensors in shared memory that the pickled functions of the task refer to.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is handled by the pool, which then ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork inherits the handlers of the pool's process
    set_up_process(task)
    _end_with(task.parent)
    channel = Channel(connection, blocking=True)
    with contextlib.suppress(ChannelClosed), contextlib.closing(channel):
        _Worker(channel, task).serve(shared)


def set_up_process(task: Task) -> None:
    """Apply the pool's environment and settings: they may have changed since a fork server was started."""
    for name in set(os.environ) - set(task.environ):
        del os.environ[name]
    os.environ.update(task.environ)
    sys.path[:] = task.path
    if task.directory is not None:
        with contextlib.suppress(OSError):
            os.chdir(task.directory)
    torch.set_num_threads(task.threads)
    torch.manual_seed(task.seed)
    np.random.seed(task.seed % 2**32)  # third-party envs draw from it
    random.seed(task.seed)
    if task.quiet:
        warnings.simplefilter("ignore")
    pickling.load_registered(task.registered)


class Host(Protocol):
    """What runs in a worker process. Its ``do_...`` methods answer requests: they take the index that was asked for.

    ``do_make`` is called first, once for each index of the task, with the tensors in shared memory that the pickled
    functions refer to. Exceptions of the ``do_...`` methods become :class:`WorkerFailure` answers.
    """

    def do_make(self, i: int, shared: list[torch.Tensor]) -> Any:
        """Make env or collector ``i``, and return its picklable description."""

    def notified(self, signal: bytes) -> dict[int, Any] | None:
        """Handle a signal other than ``MESSAGE``. The answers are sent as a message, None as the signal ``DONE``."""

    def connect(self, plan: Any, memory: SharedMemory | None) -> None:
        """Use shared memory of this plan from now on. None: use messages."""

    def close(self) -> None:
        """Close the envs. The process ends."""


class _Worker:
    """The loop of a worker process, which passes the requests of the pool on to its host."""

    def __init__(self, channel: Channel, task: Task) -> None:
        self.channel, self.task = channel, task
        self.host: Host = task.host(task)

    def serve(self, shared: list[torch.Tensor]) -> None:
        if wait([self.channel.socket], 0):
            return  # the pool has sent nothing yet, so it was closed meanwhile
        try:
            self._answer(dict.fromkeys(self.task.envs, ("make", (shared,))))
            while True:
                signal, message = self.channel.recv()
                if signal != MESSAGE:
                    self._notified(signal)
                elif isinstance(message, dict):
                    self._answer(message)
                else:
                    self._connect(message)
        finally:
            self.host.close()

    def _notified(self, signal: bytes) -> None:
        answers = self.host.notified(signal)
        if answers is None:
            self.channel.notify(DONE)
        else:
            self._send(answers)

    def _connect(self, plan: Any) -> None:
        """Use shared memory from now on, or messages if there is no plan for it."""
        memory = None if plan is None else SharedMemory(plan.size, descriptor=self.channel.recv_descriptor())
        self.host.connect(plan, memory)
        self.channel.send(dict.fromkeys(self.task.envs))

    def _answer(self, requests: Mapping[int, tuple[str, tuple[Any, ...]]]) -> None:
        """Call the ``do_...`` method that each request names, and send the results."""
        answers = {}
        for i, (name, arguments) in requests.items():
            answers[i] = result_or_failure(getattr(self.host, f"do_{name}"), i, *arguments)
        self._send(answers)

    def _send(self, answers: dict[int, Any]) -> None:
        try:
            self.channel.send(answers)
        except ChannelClosed:
            raise
        except Exception:  # an answer cannot be pickled
            checked = {i: result_or_failure(cloudpickle.dumps, answer) for i, answer in answers.items()}
            self.channel.send({i: c if isinstance(c, WorkerFailure) else answers[i] for i, c in checked.items()})


class EnvHost:
    """The envs of a ParallelEnv that run in this process, each with its driver."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.envs: dict[int, EnvBase] = {}
        self.drivers: dict[int, Driver] = {}
        self.selected: Any = None

    def notified(self, signal: bytes) -> dict[int, Any] | None:
        """Step or reset envs whose data is in shared memory. Returns failures, if there are any."""
        failures = {}
        drivers: dict[int, Any] = self.drivers
        for i, driver in drivers.items():
            if signal != STEP and not self.selected[i]:
                continue
            driver.moments[0] = time.perf_counter_ns()
            try:
                if signal == RESET_SELECTED:
                    driver.reset_row(None, {})
                else:
                    driver.step_row()
            except Exception as error:
                failures[i] = WorkerFailure.of(error)
        return failures or None

    def connect(self, plan: BlockPlan | None, memory: SharedMemory | None) -> None:
        """Let the envs write to a block in shared memory, or send their data as messages."""
        if plan is None or memory is None:
            self.drivers = {i: DataDriver(env) for i, env in self.envs.items()}
            return
        layout = plan.lay_out(memory.array)
        memory.close()
        self.selected = layout.selected
        for i, env in self.envs.items():
            inputs = {key: array[i : i + 1] for key, array in layout.inputs.items()}
            if plan.fills_rows:
                (actions,) = inputs.values()
                self.drivers[i] = RowDriver(env, layout.block.env(i), actions)
            else:
                self.drivers[i] = BlockDriver(env, layout.block.env(i), inputs, layout.given)
            self.drivers[i].moments = layout.moments[i]

    def close(self) -> None:
        """Close all envs, even if closing one of them raises."""
        for env in self.envs.values():
            with contextlib.suppress(Exception):
                env.close()

    def do_make(self, i: int, shared: list[torch.Tensor]) -> EnvInfo:
        """Make an env, and describe it."""
        makers = pickling.load(self.task.make, shared)
        fn, kwargs = makers[self.task.envs.index(i)]
        env = fn(**kwargs)
        if not isinstance(env, EnvBase):
            raise TypeError(errors.wrong_return(f"create_env_fn of env {i} of {self.task.n}", env))
        self.envs[i] = env
        return EnvInfo.of(env)

    def do_reset(self, i: int, given: Any, kwargs: Mapping[str, Any]) -> Any:
        """Reset an env; return the data unless it goes into shared memory."""
        driver: Any = self.drivers[i]
        return driver.reset(given, kwargs) if type(driver) is DataDriver else driver.reset_row(given, kwargs)

    def do_step(self, i: int, inputs: Any) -> Any:
        """Step an env; return the data."""
        driver: Any = self.drivers[i]
        with torch.no_grad():
            return driver.step(inputs)

    def do_read(self, i: int, name: str) -> Any:
        """Return an attribute of an env, or its description if it is an env itself."""
        value = read_attribute(self.envs[i], name)
        return Remote(repr(value)) if hasattr(value, "step") and hasattr(value, "reset") else value

    def do_call(self, i: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a method of an env."""
        return operator.attrgetter(name)(self.envs[i])(*args, **kwargs)


def result_or_failure(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; return its result, or a :class:`WorkerFailure` if it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return WorkerFailure.of(error)


def _end_with(parent: int) -> None:
    """End this process as soon as the process of the pool has ended, even in the middle of a step."""

    def watch() -> None:
        pidfd_open = getattr(os, "pidfd_open", None)  # Linux
        try:
            if pidfd_open is not None:
                descriptor = pidfd_open(parent)
                wait([descriptor])
            else:
                while True:
                    os.kill(parent, 0)
                    time.sleep(1)
        except OSError:
            pass
        os._exit(1)

    if sys.platform != "win32":
        threading.Thread(target=watch, name=WATCHER, daemon=True).start()
