"""ParallelEnv: several environments stepped at the same time, each in a process of its own."""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

from rlnb._tensordict import entry
from rlnb.data.ted.block import TEDBlock
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.batched import faults
from rlnb.envs.batched.crew import Crew, WorkerError, starting
from rlnb.envs.batched.drivers import EnvInfo
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.plan import ArrayInfo, BlockPlan
from rlnb.envs.batched.row_batch import RowBatch
from rlnb.envs.batched.serial import SerialEnv
from rlnb.envs.batched.start_method import choose_start_method
from rlnb.envs.batched.wire import RESET_ROW, STEP, STEP_ROW


class ParallelEnv(RowBatch):
    """Several envs in one, each in a process of its own.

    The batch size is ``[num_workers, *that of an env]``. Each worker writes its row of one block of memory that all
    processes share. The workers start with the first reset, or when something is asked of them; :meth:`close` ends
    them, and the next reset starts new ones. They end with this process, too, however it ends.

    An attribute that the batch does not have is read from each env, as a list; a method is called on each. No gradients
    pass: an action that requires one is detached, with a warning.

    A boolean entry "_step" of shape ``[num_workers]`` in the input of :meth:`step` says which envs to step. The others
    keep their observations and end signals, and get a reward of zero. Several threads may use one batch: their calls
    follow one another.

    Args:
        num_workers: how many envs.
        create_env_fn: makes an env; or a list of functions, one for each env, for different tasks. A lambda, and what
            is defined in a notebook's cell, will do.
        create_env_kwargs: keyword arguments for ``create_env_fn``; or a list of them, one for each env.
        share_individual_td: give the data of each env in a TensorDict of its own, in a lazy stack. Default: only
            where the data of the envs differs in shape.
        shared_memory: let the workers write to memory that all processes share. If False, and without ``memmap``, data
            goes through messages, which is slower.
        memmap: put the shared memory into a temporary file on disk.
        policy_proof: accepted and not read: which entries a step gives follows from the specs.
        device: where the data of the batch goes. Default: that of the envs.
        num_threads: for torch in this process, while the workers run. Default: as it is.
        num_sub_threads: for torch in each worker.
        serial_for_single: make a :class:`SerialEnv` if there is only one env.
        non_blocking: whether data goes to ``device`` without waiting for it.
        mp_start_method: how processes are started: "forkserver", "spawn" or "fork". Default: on Linux "fork" if this
            process has neither other Python threads nor CUDA when the workers start, and ``num_sub_threads`` is 1:
            that is safe then, and takes a tenth of a second. Else, as in a notebook, "forkserver" where there is one:
            a process that imports torch once for all workers. Else "spawn".
        use_buffers: whether data goes through shared memory. Default: yes, unless shapes vary.
        num_processes: how many processes run the envs, each the same number of them or one more or less. Default: one
            for each env. Fewer are faster where there are more envs than cores, and a step is short.
        timeout: seconds that a step, a reset or any other call waits for the workers; None: without a limit.
        shutdown_timeout: seconds that :meth:`close` gives idle workers to close their envs, before it kills them.
        pin_memory: must be False: the shared memory of the envs is not pinned.
        allow_step_when_done: must be False: pass ``allow_done_after_reset`` to the envs that need it.
        metadata_from_workers: accepted and not read: specs always come from the workers.
        consolidate: accepted and not read: it changes how TorchRL packs messages, and no data.
        daemon: accepted and not read: workers always end with this process, and may have processes of their own.

    Raises:
        ValueError: if ``num_workers`` is not positive, a list has another length, there is no such start method,
            ``num_processes`` is more than there are envs, ``pin_memory`` or ``allow_step_when_done`` is True, or
            ``shutdown_timeout`` is not a positive number.
        TypeError: if ``create_env_fn`` cannot be called.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> with ParallelEnv(2, lambda: GymEnv("Pendulum-v1", g=9.81)) as env:
        ...     env.rollout(5).batch_size, env.g
        (torch.Size([2, 5]), [9.81, 9.81])
    """

    _block_for_all = True
    _has_processes = True
    _crew: Any
    _threads_before: int | None

    def __new__(cls, num_workers: int, *args: Any, serial_for_single: bool = False, **kwargs: Any) -> Any:
        """Make a :class:`SerialEnv` for a single env, if that is wanted."""
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
        self._crew = self._threads_before = None
        self._told_of_gradients = False
        known = multiprocessing.get_all_start_methods()
        if mp_start_method is not None and mp_start_method not in known:
            raise ValueError(faults.no_start_method(mp_start_method, known))
        if not shared_memory and not memmap:
            if use_buffers:
                raise ValueError(faults.no_shared_buffers())
            use_buffers = False
        super().__init__(num_workers, create_env_fn, memmap=memmap, use_buffers=use_buffers, **kwargs)
        self._processes = self._process_count(num_processes)
        self._given_method = mp_start_method
        self._threads, self._sub_threads = num_threads, num_sub_threads
        self._timeout = timeout

    def _configure(self, options: dict[str, Any]) -> None:
        known = multiprocessing.get_all_start_methods()
        if options.get("mp_start_method", known[0]) not in known:
            raise ValueError(faults.no_start_method(options["mp_start_method"], known))
        memmap = options.get("memmap", self._memmap)
        if options.get("shared_memory") is False and not memmap:
            if options.get("use_buffers"):
                raise ValueError(faults.no_shared_buffers())
            options = {**options, "use_buffers": False}
        super()._configure(options)
        self._given_method = options.get("mp_start_method", self._given_method)
        self._threads = options.get("num_threads", self._threads)
        self._sub_threads = options.get("num_sub_threads", self._sub_threads)

    def _process_count(self, given: int | None) -> int:
        if given is None:
            return self.num_workers
        if isinstance(given, bool) or not hasattr(given, "__index__") or not 1 <= given <= self.num_workers:
            raise ValueError(faults.process_count(given, self.num_workers))
        return int(given)

    # The workers --------------------------------------------------------------------------------------------------

    def _make_envs(self) -> list[EnvInfo]:
        import rlnb

        if self._threads is not None:
            self._threads_before = torch.get_num_threads()
            torch.set_num_threads(self._threads)
        makers = list(zip(self._fns, self._kwargs, strict=True))
        quiet = bool(rlnb.filter_warnings_subprocess)
        method = self._given_method or choose_start_method(self._sub_threads)
        patience = self._shutdown_timeout
        self._crew = Crew(makers, method, self._processes, self._sub_threads, self._timeout, quiet, patience)
        return self._crew.ready()

    def start(self) -> None:
        """Start the workers, if that has not happened yet. What needs them calls it by itself.

        Raises:
            RuntimeError: if an env cannot be made, or the envs do not fit together.
        """
        if self._infos is None:
            with starting():  # another thread may be about to start them
                super().start()
        else:
            super().start()

    def __deepcopy__(self, memo: dict[int, Any]) -> ParallelEnv:
        """Copy a batch whose envs are not running; the copy starts envs of its own."""
        if self._infos is not None:
            raise TypeError(
                "A ParallelEnv cannot be copied while its envs run: they live in other processes. "
                "Fix: env.close() before copy.deepcopy(env), or make another one: ParallelEnv(n, create_env_fn)."
            )
        copied: ParallelEnv = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
        return copied

    def _end_envs(self) -> None:
        crew, before = self._crew, self._threads_before
        self._crew = None
        if before is not None:
            torch.set_num_threads(before)
            self._threads_before = None
        if crew is not None and self._owner == os.getpid():
            crew.end()

    def _running(self, what: str) -> Crew:
        """The workers; another thread may have ended them since it was last checked that they run."""
        crew = self._crew
        if crew is None:
            raise RuntimeError(faults.closed_elsewhere(what))
        return crew

    def _guarded(self, name: str, *arguments: Any) -> Any:
        """Call a method of the crew; if the workers had to be ended, the batch is closed."""
        crew = self._running(name)
        try:
            return getattr(crew, name)(*arguments)
        finally:
            if not crew.alive:
                self.close()

    def _ring(self, which: Sequence[int], signal: bytes, what: str) -> None:
        """Let workers step or reset, with the data in the shared block."""
        start = time.perf_counter_ns()
        self._guarded("ring", which, signal, what)
        self._note(what, which, start, self._moments)

    def _connect(self, block: TEDBlock | None) -> None:
        if block is None:
            self._guarded("connect", None, None)
            return
        self._guarded("connect", self._plan, self._memory)
        self._memory.close()

    def _new_block(self) -> TEDBlock:
        root, next_only = self._leaf_infos()
        self._plan = BlockPlan(self.num_workers, root, next_only, self._input_arrays(), self._row_mode).measured()
        self._memory = SharedMemory(self._plan.size, self._memmap)
        block, self._inputs, self._wanted, self._moments, self._given_inputs = self._plan.lay_out(self._memory.array)
        return block

    def _input_arrays(self) -> dict[NestedKey, ArrayInfo]:
        if self._row_mode:
            array = self._action_array()
            return {self.action_key: (array.shape, array.dtype)}
        found: dict[NestedKey, ArrayInfo] = {}
        for key in self._input_keys():
            spec = next(spec[key] for spec in self._specs.values() if key in spec.keys(True, True))
            found[key] = tuple(spec.shape), torch.empty(0, dtype=spec.dtype).numpy().dtype
        return found

    # Reset and step -----------------------------------------------------------------------------------------------

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        key = self._needs_gradient(tensordict)
        if key is not None:
            if torch.is_grad_enabled() and not self._told_of_gradients:
                self._told_of_gradients = True
                warnings.warn(faults.gradients(key), UserWarning, stacklevel=3)
            tensordict = tensordict.detach()
        with self._running("step").lock:
            return super()._step(tensordict)

    def _needs_gradient(self, tensordict: TensorDictBase) -> NestedKey | None:
        """Find an input of a step that requires a gradient."""
        rows = tensordict.unbind(0) if isinstance(tensordict, LazyStackedTensorDict) else [tensordict]
        for row, key in itertools.product(rows, self._input_keys()):
            value = entry(row, key)
            if isinstance(value, torch.Tensor) and value.requires_grad:
                return key
        return None

    def _reset(self, *arguments: Any, **kwargs: Any) -> TensorDictBase:
        with self._running("reset").lock:
            return super()._reset(*arguments, **kwargs)

    def _reset_some(self, *arguments: Any, **kwargs: Any) -> dict[int, TensorDictBase] | None:
        with self._running("reset").lock:
            return super()._reset_some(*arguments, **kwargs)

    def _write_inputs(self, tensordict: TensorDictBase) -> None:
        if self._row_mode:
            self._inputs[self.action_key][...] = self._native_action(tensordict.get(self.action_key))
            return
        for i, (key, array) in enumerate(self._inputs.items()):
            value = tensordict.get(key, None)
            self._given_inputs[i] = value is not None and tuple(value.shape) == array.shape
            if self._given_inputs[i]:
                torch.from_numpy(array).copy_(value.detach())

    def _step_envs(
        self, which: Sequence[int], inputs: Mapping[int, TensorDictBase] | None
    ) -> dict[int, TensorDictBase] | None:
        if inputs is None:
            if len(which) < self.num_workers:
                self._wanted[:] = False
                self._wanted[which] = True
            self._ring(which, STEP if len(which) == self.num_workers else STEP_ROW, "step")
            return None
        found = self._guarded("ask", {i: ("step", (inputs[i],)) for i in which}, "step")
        return {i: found[i] for i in which}

    def _reset_rows(self, which: Sequence[int]) -> None:
        self._wanted[:] = False
        self._wanted[which] = True
        self._ring(which, RESET_ROW, "reset")

    def _reset_envs(
        self, which: dict[int, tuple[TensorDictBase | None, Mapping[str, Any]]]
    ) -> dict[int, TensorDictBase] | None:
        plain = [i for i, (given, kwargs) in which.items() if given is None and not kwargs]
        if self._block is not None and len(plain) == len(which):
            self._reset_rows(plain)
            return None
        found = self._guarded("ask", {i: ("reset", arguments) for i, arguments in which.items()}, "reset")
        return None if self._block is not None else found

    def _ask(self, name: str, arguments: list[tuple[tuple[Any, ...], dict[str, Any]]] | None) -> list[Any]:
        everyone = range(self.num_workers)
        if arguments is None:
            messages: Any = {i: ("read", (name,)) for i in everyone}
        else:
            messages = {i: ("call", (name, *arguments[i])) for i in everyone}
        try:
            found = self._guarded("ask", messages, name)
        except WorkerError as error:
            failure = error.failure
            if arguments is None and failure is not None and failure.kind == "AttributeError":
                raise AttributeError(failure.text) from None
            raise
        return [found[i] for i in everyone]

    def _ask_one(self, i: int, name: str, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        self.start()
        return self._guarded("ask", {i: ("call", (name, *arguments))}, name)[i]

    # A row at a time ----------------------------------------------------------------------------------------------

    def _row_functions(self, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        assert self._block is not None
        everyone = range(self.num_workers)
        natives = self._inputs[self.action_key]
        done = self._block.next["done"][:, 0, 0]
        nexts = [(block.next[key], array[:, 0]) for key, array in self._block.next.items()]
        roots = [(block.root[key], array[:, 0]) for key, array in self._block.root.items()]

        lock = self._running("rollout").lock

        def step(t: int, actions: np.ndarray) -> bool:
            with lock:
                natives[...] = actions
                self._ring(everyone, STEP, "step")
                for rows, row in nexts:
                    rows[:, t] = row
                return bool(done.any())

        def reset(t: int) -> None:
            with lock:
                ended = np.flatnonzero(done)
                self._reset_rows(ended.tolist())
                for rows, row in roots:
                    rows[ended, t] = row[ended]

        return step, reset


__all__ = ["ParallelEnv"]
