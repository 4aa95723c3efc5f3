"""Batched environment whose envs run at the same time, each in its own process."""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import os
import socket
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

import rlnb
from rlnb._start_method import choose_start_method
from rlnb._tensordict import entry
from rlnb.data.ted.block import TEDBlock
from rlnb.data.ted.keys import NestedKey
from rlnb.envs import errors
from rlnb.envs.batched.batched_env import Arguments, BatchedEnvBase, ResetArguments
from rlnb.envs.batched.drivers import EnvInfo
from rlnb.envs.batched.memory import ArrayInfo, BlockPlan, SharedMemory
from rlnb.envs.batched.processes import start_lock
from rlnb.envs.batched.serial import SerialEnv
from rlnb.envs.batched.worker import RESET_SELECTED, STEP, STEP_SELECTED
from rlnb.envs.batched.worker_pool import WorkerError, WorkerPool
from rlnb.envs.rows import overridden


class ParallelEnv(BatchedEnvBase):
    """Several envs in one, each in its own process.

    The batch size is ``[num_workers, *batch_size]`` with the batch size of one env. Each worker writes its row of one
    block of memory that all processes share. The workers start with the first reset, or the first call that needs them.
    :meth:`close` ends them, and the next reset starts new ones. They also end when this process ends, however it ends.

    An attribute that the batch does not have is read from each env, as a list; a method is called on each env.
    Gradients do not pass: an action that requires a gradient is detached, with a warning.

    A boolean entry "_step" of shape ``[num_workers]`` in the input of :meth:`step` selects the envs to step. The others
    keep their observations and end signals, and get a reward of zero. Several threads may use one batch: their calls
    run one after another.

    Args:
        num_workers: number of envs.
        create_env_fn: function that makes an env, or a list with a function for each env, for different tasks. It may
            be a lambda, or be defined in a cell of a notebook.
        shared_memory: whether the workers write to memory that all processes share. If False, and without ``memmap``,
            data goes through messages, which is slower.
        memmap: whether the shared memory is in a temporary file on disk.
        num_threads: number of threads of torch in this process while the workers run. Default: unchanged.
        num_sub_threads: number of threads of torch in each worker.
        serial_for_single: whether to make a :class:`SerialEnv` if there is only one env.
        mp_start_method: how processes are started: "forkserver", "spawn" or "fork". Default: on Linux "fork" if this
            process has neither other Python threads nor CUDA when the workers start, and ``num_sub_threads`` is 1:
            then it is safe, and takes a tenth of a second. Otherwise, as in a notebook, "forkserver" where the system
            has it: one process imports torch for all workers. Otherwise "spawn".
        use_buffers: whether data goes through shared memory. Default: yes, unless shapes vary. On Windows: always no.
        num_processes: number of processes, over which the envs are spread evenly. Default: one for each env. Fewer
            are faster if there are more envs than cores and a step is short.
        timeout: seconds that a step, a reset or any other call waits for the workers. ``None`` waits without a limit.
        **kwargs: other options of :class:`~rlnb.envs.batched_envs.BatchedEnvBase`, such as ``device`` and
            ``shutdown_timeout``.

    Raises:
        ValueError: If ``num_workers`` is not positive, a list has another length, there is no such start method,
            ``num_processes`` is larger than ``num_workers``, ``pin_memory`` or ``allow_step_when_done`` is True, or
            ``shutdown_timeout`` is not a positive number.
        TypeError: If ``create_env_fn`` cannot be called.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> with ParallelEnv(2, lambda: GymEnv("Pendulum-v1", g=9.81)) as env:
        ...     env.rollout(5).batch_size, env.g
        (torch.Size([2, 5]), [9.81, 9.81])
    """

    _block_for_all = True
    _has_processes = True
    _pool: WorkerPool | None
    _threads_before: int | None

    def __new__(cls, num_workers: int, *args: Any, serial_for_single: bool = False, **kwargs: Any) -> Any:
        """Make a :class:`SerialEnv` instead if ``serial_for_single`` is True and there is only one env."""
        if serial_for_single and num_workers == 1:
            for name in ("timeout", "num_processes"):
                kwargs.pop(name, None)
            return SerialEnv(num_workers, *args, **kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        num_workers: int,
        create_env_fn: Any,
        *,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        serial_for_single: bool = False,
        mp_start_method: str | None = None,
        shared_memory: bool = True,
        memmap: bool = False,
        use_buffers: bool | None = None,
        num_processes: int | None = None,
        timeout: float | None = 120.0,
        **kwargs: Any,
    ) -> None:
        self._pool = self._threads_before = None
        self._warned_of_gradients = False
        check_start_method(mp_start_method)
        use_buffers = choose_buffers(use_buffers, shared_memory, memmap)
        super().__init__(num_workers, create_env_fn, memmap=memmap, use_buffers=use_buffers, **kwargs)
        n = self.num_workers if num_processes is None else num_processes
        if isinstance(n, bool) or not hasattr(n, "__index__") or not 1 <= n <= self.num_workers:
            raise ValueError(
                f"num_processes, the number of processes that run the {self.num_workers} envs, must be an integer "
                f"from 1 to {self.num_workers}, got {num_processes!r}."
            )
        self._n_processes = int(n)
        self._given_method = mp_start_method
        self._threads, self._sub_threads = num_threads, num_sub_threads
        self._timeout = timeout

    def _configure(self, options: dict[str, Any]) -> None:
        check_start_method(options.get("mp_start_method"))
        buffers = choose_buffers(
            options.get("use_buffers"), options.get("shared_memory", True), options.get("memmap", self._memmap)
        )
        super()._configure(options if buffers is None else {**options, "use_buffers": buffers})
        self._given_method = options.get("mp_start_method", self._given_method)
        self._threads = options.get("num_threads", self._threads)
        self._sub_threads = options.get("num_sub_threads", self._sub_threads)

    # Workers ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers, unless they run already. Methods that need them call it by themselves."""
        if self._infos is None:
            with start_lock():  # another thread may be about to start them
                super().start()
        else:
            super().start()

    def _make_envs(self) -> list[EnvInfo]:
        if self._threads is not None:
            self._threads_before = torch.get_num_threads()
            torch.set_num_threads(self._threads)
        self._pool = WorkerPool(
            list(zip(self._fns, self._kwargs, strict=True)),
            self._given_method or choose_start_method(self._sub_threads),
            self._n_processes,
            self._sub_threads,
            self._timeout,
            bool(rlnb.filter_warnings_subprocess),
            self._shutdown_timeout,
        )
        return self._pool.env_infos()

    def _end_envs(self) -> None:
        pool, before = self._pool, self._threads_before
        self._pool = None
        if before is not None:
            torch.set_num_threads(before)
            self._threads_before = None
        if pool is not None and self._owner == os.getpid():
            pool.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> ParallelEnv:
        """Copy a batch whose envs are not running; the copy starts its own envs."""
        if self._infos is not None:
            raise TypeError(
                "A ParallelEnv cannot be copied while its envs run: they live in other processes. "
                "Fix: env.close() before copy.deepcopy(env), or make another one: ParallelEnv(n, create_env_fn)."
            )
        copied: ParallelEnv = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return copied

    def _running_pool(self, what: str) -> WorkerPool:
        """Return the workers. Another thread may have closed them since a check that they run."""
        pool = self._pool
        if pool is None:
            raise RuntimeError(errors.closed_by_another_thread(what))
        return pool

    def _use_pool(self, what: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of the pool. If it had to end the workers, the batch is closed."""
        pool = self._running_pool(what)
        try:
            return method(pool, *arguments)
        finally:
            if not pool.alive:
                self.close()

    def _notify(self, which: Sequence[int], signal: bytes, what: str) -> None:
        """Let workers step or reset envs, with the data in the shared block."""
        start = time.perf_counter_ns()
        self._use_pool(what, WorkerPool.notify, which, signal, what)
        self._record(what, which, start, self._layout.moments)

    def _request(self, messages: dict[int, tuple[str, Any]], what: str) -> dict[int, Any]:
        found: dict[int, Any] = self._use_pool(what, WorkerPool.request, messages, what)
        return found

    def _new_block(self) -> TEDBlock:
        root, next_only = self._row_leaves()
        self._plan = BlockPlan(self.num_workers, root, next_only, self._input_arrays(), self._row_mode)
        self._memory = SharedMemory(self._plan.size, self._memmap)
        self._layout = self._plan.lay_out(self._memory.array)
        self._inputs = {key: torch.from_numpy(array) for key, array in self._layout.inputs.items()}
        return self._layout.block

    def _input_arrays(self) -> dict[NestedKey, ArrayInfo]:
        if self._row_mode:
            array = self._action_array()
            return {self.action_key: (array.shape, array.dtype)}
        found: dict[NestedKey, ArrayInfo] = {}
        for key in self._input_keys():
            spec = next(spec[key] for spec in self._specs.values() if key in spec.keys(True, True))
            found[key] = tuple(spec.shape), torch.empty(0, dtype=spec.dtype).numpy().dtype
        return found

    def _connect(self, block: TEDBlock | None) -> None:
        if block is None:
            self._use_pool("start", WorkerPool.connect, None, None)
            return
        self._use_pool("start", WorkerPool.connect, self._plan, self._memory)
        self._memory.close()

    # Step and reset -----------------------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        key = self._key_with_gradient(tensordict)
        if key is not None:
            if torch.is_grad_enabled() and not self._warned_of_gradients:
                self._warned_of_gradients = True
                warnings.warn(
                    f"The entry {key!r} requires a gradient, and a ParallelEnv detaches it: its envs run in other "
                    "processes, which gradients cannot pass. "
                    "Fix: SerialEnv, where they can; or with torch.no_grad(): around the rollout.",
                    UserWarning,
                    stacklevel=3,
                )
            tensordict = tensordict.detach()
        with self._running_pool("step").lock:
            return super()._step(tensordict)

    def _key_with_gradient(self, tensordict: TensorDictBase) -> NestedKey | None:
        """Find an input of a step that requires a gradient."""
        rows = tensordict.unbind(0) if isinstance(tensordict, LazyStackedTensorDict) else [tensordict]
        for row, key in itertools.product(rows, self._input_keys()):
            value = entry(row, key)
            if isinstance(value, torch.Tensor) and value.requires_grad:
                return key
        return None

    def _write_inputs(self, tensordict: TensorDictBase) -> None:
        if self._row_mode:
            self._layout.inputs[self.action_key][...] = self._native_action(tensordict.get(self.action_key))
            return
        given = self._layout.given
        for i, (key, row) in enumerate(self._inputs.items()):
            value = entry(tensordict, key)
            given[i] = value is not None and value.shape == row.shape
            if given[i]:
                row.copy_(value.detach())

    def _step_envs(
        self, which: Sequence[int], inputs: Mapping[int, TensorDictBase] | None
    ) -> dict[int, TensorDictBase] | None:
        if inputs is not None:
            return self._request({i: ("step", (inputs[i],)) for i in which}, "step")
        if len(which) == self.num_workers:
            self._notify(which, STEP, "step")
        else:
            self._select(which)
            self._notify(which, STEP_SELECTED, "step")
        return None

    def _reset(self, *arguments: Any, **kwargs: Any) -> TensorDictBase:
        with self._running_pool("reset").lock:
            return super()._reset(*arguments, **kwargs)

    def _reset_some(self, *arguments: Any, **kwargs: Any) -> dict[int, TensorDictBase] | None:
        with self._running_pool("reset").lock:
            return super()._reset_some(*arguments, **kwargs)

    def _reset_envs(self, which: dict[int, ResetArguments]) -> dict[int, TensorDictBase] | None:
        if self._block is not None and all(given is None and not kwargs for given, kwargs in which.values()):
            self._select(list(which))
            self._notify(list(which), RESET_SELECTED, "reset")
            return None
        found = self._request({i: ("reset", arguments) for i, arguments in which.items()}, "reset")
        return None if self._block is not None else found

    def _select(self, which: Sequence[int]) -> None:
        self._layout.selected[:] = False
        self._layout.selected[which] = True

    @property
    def _fills_rows(self) -> bool:
        return super()._fills_rows and not overridden(self, ParallelEnv)

    def _row_functions(self, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        assert self._block is not None
        everyone = range(self.num_workers)
        natives = self._layout.inputs[self.action_key]
        done = self._block.next["done"][:, 0, 0]
        nexts = [(block.next[key], array[:, 0]) for key, array in self._block.next.items()]
        roots = [(block.root[key], array[:, 0]) for key, array in self._block.root.items()]
        lock = self._running_pool("rollout").lock

        def step(t: int, actions: np.ndarray) -> bool:
            with lock:
                natives[...] = actions
                self._notify(everyone, STEP, "step")
                for rows, row in nexts:
                    rows[:, t] = row
                return bool(done.any())

        def reset(t: int) -> None:
            with lock:
                ended = np.flatnonzero(done)
                self._select(ended.tolist())
                self._notify(ended.tolist(), RESET_SELECTED, "reset")
                for rows, row in roots:
                    rows[ended, t] = row[ended]

        return step, reset

    # Attributes and methods of the envs ---------------------------------------------------------------------------

    def _read_each(self, name: str) -> list[Any]:
        try:
            found = self._request({i: ("read", (name,)) for i in range(self.num_workers)}, name)
        except WorkerError as error:
            if error.failure is not None and error.failure.kind == "AttributeError":
                raise AttributeError(error.failure.text) from None
            raise
        return [found[i] for i in range(self.num_workers)]

    def _call_each(self, name: str, arguments: list[Arguments]) -> list[Any]:
        found = self._request({i: ("call", (name, *given)) for i, given in enumerate(arguments)}, name)
        return [found[i] for i in range(self.num_workers)]

    def _call_one(self, i: int, name: str, arguments: Arguments) -> Any:
        self.start()
        return self._request({i: ("call", (name, *arguments))}, name)[i]


def check_start_method(method: str | None) -> None:
    """Raise ``ValueError`` unless this system has a start method of processes; None, the default, is allowed."""
    known = multiprocessing.get_all_start_methods()
    if method is not None and method not in known:
        raise ValueError(f"mp_start_method must be one of {known}, got {method!r}.")


def choose_buffers(use_buffers: bool | None, shared_memory: bool, memmap: bool) -> bool | None:
    """Combine the three options that determine whether data goes through shared memory.

    Returns:
        Whether it does. None: if no shape in the specs of the envs varies.

    Raises:
        ValueError: If the options contradict each other.
    """
    if not hasattr(socket, "send_fds"):  # Windows, where processes cannot share memory without a name
        return False
    if shared_memory or memmap:
        return use_buffers
    if use_buffers:
        raise ValueError(
            "use_buffers=True with shared_memory=False and memmap=False leaves no place for the buffers. "
            "Fix: leave shared_memory=False out, or give memmap=True to keep them in a file."
        )
    return False
