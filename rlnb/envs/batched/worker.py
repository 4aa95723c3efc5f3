"""The worker: a process that runs one env of a ParallelEnv."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.base import EnvBase
from rlnb.envs.batched import faults
from rlnb.envs.batched.drivers import BlockDriver, DataDriver, Driver, EnvInfo, RowDriver, read_attribute
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.wire import DONE, MESSAGE, RESET_ROW, Closed, Wire


@dataclass(frozen=True)
class Task:
    """What a worker is told when it starts.

    Args:
        index: which of the envs it runs.
        n: how many there are.
        make: the function that makes the env and its keyword arguments, pickled.
        threads: for torch.
        path: ``sys.path``, where modules are found.
        environ: the environment variables.
        parent: the process id of the batch's process.
        close: descriptors of others, to close in a forked worker.
        quiet: leave warnings out.
    """

    index: int
    n: int
    make: bytes
    threads: int
    path: list[str]
    environ: dict[str, str]
    parent: int
    close: list[int] = field(default_factory=list)
    quiet: bool = True


@dataclass(frozen=True)
class BlockPlan:
    """How the rows of all envs lie in the shared memory, so that each process finds its own.

    Args:
        n: how many envs.
        root: entries of a reset.
        next_only: entries that only a step gives.
        inputs: what a step reads: the arrays' shapes and dtypes, by key.
        fills_rows: whether envs write rows themselves; the only input is then the backend's action.
        size: of the memory, in bytes.
    """

    n: int
    root: dict[NestedKey, LeafInfo]
    next_only: dict[NestedKey, LeafInfo]
    inputs: dict[NestedKey, tuple[tuple[int, ...], np.dtype]]
    fills_rows: bool
    size: int = 0

    def lay_out(self, memory: SharedMemory) -> tuple[TEDBlock, dict[NestedKey, np.ndarray], np.ndarray]:
        """Cut the arrays out of the memory, in the same order everywhere.

        Args:
            memory: of the size that is needed.

        Returns:
            The block, the arrays of inputs ``[n, ...]`` by key, and the moments of each env, ``[n, 4]``.
        """
        block = TEDBlock(self.root, self.next_only, 1, (self.n,), memory.array)
        inputs = {key: memory.array(shape, dtype) for key, (shape, dtype) in self.inputs.items()}
        return block, inputs, memory.array((self.n, 4), np.dtype("int64"))


def run(connection: Connection, task: Task) -> None:
    """Be a worker until the batch closes the wire or its process ends.

    Args:
        connection: to the batch.
        task: what to do.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an Interrupt is for the batch's process, which then ends this one
    for descriptor in task.close:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    os.environ.update(task.environ)
    sys.path[:] = task.path
    torch.set_num_threads(task.threads)
    if task.quiet:
        warnings.simplefilter("ignore")
    _end_with(task.parent)
    with contextlib.suppress(Closed):
        _Worker(Wire(connection), task).serve()


class _Worker:
    """The env of a worker, and what the batch may ask of it."""

    def __init__(self, wire: Wire, task: Task) -> None:
        self.wire, self.task = wire, task
        self.env: EnvBase | None = None
        self.driver: Driver | None = None

    def serve(self) -> None:
        try:
            self._answer(self._make)
            while True:
                signal = self.wire.hear()
                if signal == MESSAGE:
                    name, arguments = self.wire.take()
                    self._answer(getattr(self, f"do_{name}"), *arguments)
                else:
                    self._signalled(signal)
        finally:
            if self.env is not None:
                with contextlib.suppress(Exception):
                    self.env.close()

    def _answer(self, function: Any, *arguments: Any) -> None:
        try:
            answer = True, function(*arguments)
            self.wire.send(answer)
        except Closed:
            raise
        except Exception as error:
            self.wire.send((False, _described(error)))

    def _signalled(self, signal: bytes) -> None:
        """Step or reset; the data goes into the rows, and the answer is a byte."""
        driver: Any = self.driver
        driver.moments[0] = time.perf_counter_ns()
        try:
            if signal == RESET_ROW:
                driver.reset_row(None, {})
            else:
                driver.step_row()
        except Exception as error:
            self.wire.send((False, _described(error)))
        else:
            self.wire.ring(DONE)

    # Messages -----------------------------------------------------------------------------------------------------

    def _make(self) -> EnvInfo:
        fn, kwargs = pickle.loads(self.task.make)
        env = fn(**kwargs)
        if not isinstance(env, EnvBase):
            raise TypeError(faults.no_env(self.task.index, self.task.n, env))
        self.env = env
        return EnvInfo.of(env)

    def do_connect(self, plan: BlockPlan | None) -> None:
        """Write to rows of the shared memory from now on; None: send data as messages."""
        assert self.env is not None
        if plan is None:
            self.driver = DataDriver(self.env)
            return
        memory = SharedMemory.receive(self.wire.connection, plan.size)
        block, inputs, moments = plan.lay_out(memory)
        memory.close()
        i = self.task.index
        if plan.fills_rows:
            (actions,) = inputs.values()
            self.driver = RowDriver(self.env, block.env(i), actions[i : i + 1])
        else:
            self.driver = BlockDriver(self.env, block.env(i), {key: array[i : i + 1] for key, array in inputs.items()})
        self.driver.moments = moments[i]

    def do_reset(self, given: Any, kwargs: Mapping[str, Any]) -> Any:
        """Reset; the data is returned unless it goes into rows."""
        driver: Any = self.driver
        return driver.reset(given, kwargs) if type(driver) is DataDriver else driver.reset_row(given, kwargs)

    def do_step(self, inputs: Any) -> Any:
        """Step; the data is returned."""
        driver: Any = self.driver
        with torch.no_grad():
            return driver.step(inputs)

    def do_read(self, name: str) -> Any:
        """Read an attribute of the env."""
        assert self.env is not None
        return read_attribute(self.env, name)

    def do_call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a method of the env."""
        return getattr(self.env, name)(*args, **kwargs)


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


def _described(error: Exception) -> Failure:
    lines = "".join(traceback.format_exception(error))
    return Failure(type(error).__name__, str(error), lines)


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


__all__ = ["BlockPlan", "Failure", "Task", "run"]
