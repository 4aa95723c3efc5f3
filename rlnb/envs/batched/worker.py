"""The worker: a process that runs envs of a ParallelEnv, most often one."""

from __future__ import annotations

import contextlib
import multiprocessing
import operator
import os
import random
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np
import torch

from rlnb.envs.base import EnvBase
from rlnb.envs.batched import faults, sharing, start_method
from rlnb.envs.batched.drivers import BlockDriver, DataDriver, Driver, EnvInfo, Remote, RowDriver, read_attribute
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.plan import BlockPlan
from rlnb.envs.batched.wire import DONE, MESSAGE, RESET_ROW, STEP, Closed, Wire


def _directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # somebody has deleted it
        return None


@dataclass(frozen=True)
class Task:
    """What a worker is told when it starts.

    Args:
        envs: which of the envs it runs.
        n: how many there are.
        make: for each of them the function that makes it and keyword arguments, pickled.
        threads: for torch.
        quiet: leave warnings out.
        seed: for the random generators of the process, which those of a fork server would all have alike.
        registered: what was added to Gymnasium's registry, pickled by id.
        path: ``sys.path``, where modules are found.
        environ: the environment variables.
        directory: the working directory.
        parent: the process id of the batch's process.
    """

    envs: list[int]
    n: int
    make: bytes
    threads: int
    quiet: bool
    seed: int
    registered: dict[str, bytes]
    path: list[str] = field(default_factory=lambda: list(sys.path))
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    directory: str | None = field(default_factory=_directory)
    parent: int = field(default_factory=os.getpid)


@dataclass(frozen=True)
class Failure:
    """An exception in a worker.

    Args:
        kind: its class, by name.
        text: its message.
        lines: its traceback.
    """

    kind: str
    text: str
    lines: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
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


def run(connection: Connection, task: Task, shared: list[torch.Tensor]) -> None:
    """Be a worker until the batch closes the wire or its process ends.

    Args:
        connection: to the batch.
        task: what to do.
        shared: the tensors in shared memory that the functions of the task refer to.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an Interrupt is for the batch's process, which then ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a handler of that process comes along with a fork
    _settle_in(task)
    _end_with(task.parent)
    with contextlib.suppress(Closed):
        _Worker(Wire(connection), task).serve(shared)


def _settle_in(task: Task) -> None:
    """Find what the batch's process finds, where it finds it: a fork server may be older than that."""
    for name in set(os.environ) - set(task.environ):
        del os.environ[name]
    os.environ.update(task.environ)
    sys.path[:] = task.path
    if task.directory is not None:
        with contextlib.suppress(OSError):
            os.chdir(task.directory)
    multiprocessing.current_process().daemon = False  # an env may have processes of its own
    torch.set_num_threads(task.threads)
    torch.manual_seed(task.seed)
    np.random.seed(task.seed % 2**32)  # envs of others draw from it
    random.seed(task.seed)
    if task.quiet:
        warnings.simplefilter("ignore")
    start_method.register(task.registered)


class _Worker:
    """The envs of a worker, and what the batch may ask of them."""

    def __init__(self, wire: Wire, task: Task) -> None:
        self.wire, self.task = wire, task
        self.envs: dict[int, EnvBase] = {}
        self.drivers: dict[int, Driver] = {}
        self.wanted: Any = None

    def serve(self, shared: list[torch.Tensor]) -> None:
        if self.wire.connection.poll():
            return  # the batch has gone before it said anything
        try:
            self._answer(dict.fromkeys(self.task.envs, ("make", (shared,))))
            while True:
                signal = self.wire.hear()
                if signal != MESSAGE:
                    self._signalled(signal)
                    continue
                content = self.wire.take()
                if content is None or isinstance(content, BlockPlan):
                    self._connect(content)
                else:
                    self._answer(content)
        finally:
            for env in self.envs.values():
                with contextlib.suppress(Exception):
                    env.close()

    def _answer(self, messages: Mapping[int, tuple[str, tuple[Any, ...]]]) -> None:
        """Do what is asked of each env, and send what came of it."""
        answers = {}
        for i, (name, arguments) in messages.items():
            answers[i] = _tried(getattr(self, f"do_{name}"), i, *arguments)
        try:
            self.wire.send(answers)
        except Closed:
            raise
        except Exception:  # something cannot be pickled
            checked = {i: _tried(cloudpickle.dumps, answer) for i, answer in answers.items()}
            self.wire.send({i: c if isinstance(c, Failure) else answers[i] for i, c in checked.items()})

    def _signalled(self, signal: bytes) -> None:
        """Step or reset; the data goes into the rows, and the answer is a byte."""
        failures = {}
        drivers: dict[int, Any] = self.drivers
        for i, driver in drivers.items():
            if signal != STEP and not self.wanted[i]:
                continue
            driver.moments[0] = time.perf_counter_ns()
            try:
                if signal == RESET_ROW:
                    driver.reset_row(None, {})
                else:
                    driver.step_row()
            except Exception as error:
                failures[i] = Failure.of(error)
        if failures:
            self.wire.send(failures)
        else:
            self.wire.ring(DONE)

    def _connect(self, plan: BlockPlan | None) -> None:
        """Write to rows of the shared memory from now on; None: send data as messages."""
        if plan is None:
            self.drivers = {i: DataDriver(env) for i, env in self.envs.items()}
        else:
            memory = SharedMemory.receive(self.wire.connection, plan.size)
            layout = plan.lay_out(memory.array)
            memory.close()
            self.wanted = layout.wanted
            for i, env in self.envs.items():
                inputs = {key: array[i : i + 1] for key, array in layout.inputs.items()}
                if plan.fills_rows:
                    (actions,) = inputs.values()
                    self.drivers[i] = RowDriver(env, layout.block.env(i), actions)
                else:
                    self.drivers[i] = BlockDriver(env, layout.block.env(i), inputs, layout.given)
                self.drivers[i].moments = layout.moments[i]
        self.wire.send(dict.fromkeys(self.envs))

    # Messages -----------------------------------------------------------------------------------------------------

    def do_make(self, i: int, shared: list[torch.Tensor]) -> EnvInfo:
        """Make an env."""
        makers = sharing.load(self.task.make, shared)
        fn, kwargs = makers[self.task.envs.index(i)]
        env = fn(**kwargs)
        if not isinstance(env, EnvBase):
            raise TypeError(faults.no_env(i, self.task.n, env))
        self.envs[i] = env
        return EnvInfo.of(env)

    def do_reset(self, i: int, given: Any, kwargs: Mapping[str, Any]) -> Any:
        """Reset; the data is returned unless it goes into rows."""
        driver: Any = self.drivers[i]
        return driver.reset(given, kwargs) if type(driver) is DataDriver else driver.reset_row(given, kwargs)

    def do_step(self, i: int, inputs: Any) -> Any:
        """Step; the data is returned."""
        driver: Any = self.drivers[i]
        with torch.no_grad():
            return driver.step(inputs)

    def do_read(self, i: int, name: str) -> Any:
        """Read an attribute of the env."""
        value = read_attribute(self.envs[i], name)
        return Remote(repr(value)) if hasattr(value, "step") and hasattr(value, "reset") else value

    def do_call(self, i: int, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a method of the env."""
        return operator.attrgetter(name)(self.envs[i])(*args, **kwargs)


def _tried(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; return what it raises as a :class:`Failure`."""
    try:
        return function(*arguments)
    except Exception as error:
        return Failure.of(error)


def _end_with(parent: int) -> None:
    """End this process as soon as that of the batch has ended, even in the middle of a step."""

    def watch() -> None:
        pidfd_open = getattr(os, "pidfd_open", None)
        try:
            if pidfd_open is not None:
                descriptor = pidfd_open(parent)
                select.select([descriptor], [], [])
            else:
                while True:
                    os.kill(parent, 0)
                    time.sleep(1)
        except OSError:
            pass
        os._exit(1)

    if sys.platform != "win32":
        threading.Thread(target=watch, daemon=True).start()


__all__ = ["Failure", "Task", "run"]
