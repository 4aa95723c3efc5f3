"""Collectors in worker processes: the pool, the weights and the batches that they share with this process.

See :mod:`rlnb.collectors.multi` for how the processes work together.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase

import rlnb
from rlnb._start_method import choose_start_method
from rlnb.collectors.shared import BatchPlan, SharedBatch
from rlnb.collectors.trace import CollectorTrace
from rlnb.collectors.weights import SharedWeights, WeightsPlan
from rlnb.collectors.worker import ANEW, COLLECT, RANDOM, Collected, CollectorHost, Info, Setup, make_collector
from rlnb.envs import errors
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.worker import WorkerFailure
from rlnb.envs.batched.worker_pool import Advice, WorkerError, WorkerPool


class CollectorWorkers:
    """Workers that each run a collector, and what was collected and not taken yet.

    A worker that ends or is late ends all. :meth:`start` starts new ones, with the same weights.

    Args:
        owner: name of the class of the collector, for errors.
        setups: what makes the collector of each worker.
        policy: the policy of this process, whose weights the workers get; None if it is made in the workers.
        buffers: whether batches and weights are in shared memory.
        stops_early: whether :meth:`stop_early` ends batches.
        method, threads, timeout, shutdown_timeout: see :class:`~rlnb.envs.ParallelEnv`.

    Attributes:
        n: number of workers.
        infos: descriptions of their collectors.
        sent: workers that are collecting, with the time since when.
        ready: batches that were collected and not taken yet, each with its worker.
        anew: whether the next batch of a worker must start with a reset, because the one before was not delivered.
        failure: what ended the workers after a batch was complete, which the next :meth:`start` raises.
        write_themselves: whether the workers write their batches to a buffer.
        versions: version of the policy that made the last batch of each worker, -1 before the first.
        trace: what the times of the workers are recorded in, None if they are not.
    """

    def __init__(
        self,
        owner: str,
        setups: Sequence[Setup],
        policy: Any,
        buffers: bool,
        stops_early: bool,
        method: str | None,
        threads: int,
        timeout: float | None,
        shutdown_timeout: float,
    ) -> None:
        self._owner, self._setups, self._policy, self.buffers = owner, setups, policy, buffers
        self._stops_early, self._method, self._threads = stops_early, method, threads
        self._timeout, self._shutdown_timeout = timeout, shutdown_timeout
        self.n = len(setups)
        self.infos: list[Info] = []
        self.versions = [-1] * self.n
        self.trace: CollectorTrace | None = None
        self._pool: Any = None  # a WorkerPool, or an object with its methods
        self._weights: SharedWeights | None = None
        # Weights and their version while no workers run. None: those that the policy was made with.
        self._kept: tuple[dict[str, torch.Tensor] | None, int] = None, 0
        self._first_ids = [0] * self.n
        self.failure: Exception | None = None
        self._forget_batches()

    def _forget_batches(self) -> None:
        if self.trace is not None:
            self.trace.note_failures(range(self.n))
        self.anew = [True] * self.n
        self.sent: dict[int, float] = {}
        self.ready: collections.deque[tuple[int, Collected]] = collections.deque()
        self.write_themselves = False
        self._views: list[TensorDictBase | None] = [None] * self.n  # of the batches in shared memory

    # Start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers, unless they run.

        Raises:
            WorkerError: If a worker was found to have ended since the last batch.
        """
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if self._pool is not None:
            return
        ids = zip(self._setups, self._first_ids, strict=True)
        self._pool = self._make_pool([dataclasses.replace(setup, first_id=first) for setup, first in ids])
        try:
            self.infos = self._pool.env_infos()
            self._share_weights()
        except BaseException:
            self.end(0.2)
            raise

    def _make_pool(self, setups: Sequence[Setup]) -> Any:
        """Start processes."""
        owner = self._owner
        return WorkerPool(
            [(make_collector, {"setup": setup}) for setup in setups],
            self._method or choose_start_method(self._threads),
            self.n,
            self._threads,
            self._timeout,
            bool(rlnb.filter_warnings_subprocess),
            self._shutdown_timeout,
            CollectorHost,
            Advice(
                owner,
                "collector.next() starts new",
                f"{owner}(..., timeout=600)",
                f"To see what it does, collect in this process: Collector in place of {owner}.",
                "a collector before collector.shutdown()",
            ),
        )

    def _share_weights(self) -> None:
        """Give all workers the same weights: those of the policy here, or of worker 0 if it was made there."""
        pool, policy, (kept, version) = self._running(), self._policy, self._kept
        tensors = self.infos[0].weights or {}
        if any((info.weights or {}) != tensors for info in self.infos):
            tensors = {}  # the workers have different policies, whose weights stay as they are
        if tensors and kept is None:
            is_module = isinstance(policy, torch.nn.Module)
            lazy = is_module and any(map(torch.nn.parameter.is_lazy, policy.parameters()))
            if is_module and not lazy:
                kept = policy.state_dict()
            else:
                kept = pool.request({0: ("weights", ())}, "start")[0]
                if lazy:
                    policy.load_state_dict(kept)
        plan = WeightsPlan(self.n, tensors, self.buffers, self._stops_early)
        weights = self._weights = self._allocate_weights(plan)
        weights.write(kept if tensors else None, range(self.n), version)
        if self.buffers:
            pool.connect(plan, weights.memory)
        else:
            self.send_weights(range(self.n))

    def _allocate_weights(self, plan: WeightsPlan) -> SharedWeights:
        return SharedWeights(plan, SharedMemory(plan.size), self._timeout)

    def end(self, patience: float | None = None) -> None:
        """End the workers. What was not taken yet is lost; the weights are kept for new ones."""
        pool, weights = self._pool, self._weights
        self._pool = self._weights = None
        if weights is not None:
            state = {name: tensor.clone() for name, tensor in weights.tensors.items()} or None
            self._kept = state, weights.version
            weights.memory.close()
        self._forget_batches()
        if pool is not None:
            pool.close(patience)

    @property
    def alive(self) -> int:
        """Number of processes that run."""
        return 0 if self._pool is None else sum(process.exitcode is None for process in self._pool.processes)

    def _running(self) -> Any:
        """Return the pool. Another thread may have closed it since a check that it runs."""
        pool = self._pool
        if pool is None:
            advice = "collector.next() starts new", "a collector before collector.shutdown()"
            raise RuntimeError(errors.closed_by_another_thread("this call", self._owner, *advice))
        return pool

    def _use_pool(self, method: str, *arguments: Any) -> Any:
        """Call a method of the pool. If it had to end the workers, forget them."""
        pool = self._running()
        try:
            return getattr(pool, method)(*arguments)
        finally:
            if not pool.alive:
                self.end()

    # Requests -----------------------------------------------------------------------------------------------------

    def request(self, messages: Mapping[int, tuple[str, Any]], what: str) -> dict[int, Any]:
        """Call ``do_...`` methods of the hosts, once no worker is collecting, and return the results."""
        self.settle(what)
        found: dict[int, Any] = self._use_pool("request", dict(messages), what)
        return found

    def request_all(self, name: str, *arguments: Any) -> list[Any]:
        """Call the same method of all hosts."""
        found = self.request({i: (name, arguments) for i in range(self.n)}, name)
        return [found[i] for i in range(self.n)]

    # Batches ------------------------------------------------------------------------------------------------------

    def idle(self) -> list[int]:
        """List the workers that may collect: not those at work, nor those whose batch was not taken yet."""
        busy = {*self.sent, *(i for i, _ in self.ready)}
        return [i for i in range(self.n) if i not in busy]

    def collect(self, at_random: Mapping[int, bool], what: str) -> None:
        """Let workers collect a batch each, with random actions or with the policy; do not wait for them."""
        signals = {i: bytes([COLLECT | ANEW * self.anew[i] | RANDOM * rand]) for i, rand in at_random.items()}
        if signals:
            if self.trace is not None:
                self.trace.note_sent(signals)
            with self._all_or_nothing():
                self.sent.update(self._use_pool("signal", signals, what))
                for i in signals:
                    self.anew[i] = True  # until the batch has been delivered

    def receive(self, at_least: int, what: str) -> None:
        """Wait for batches, and append them to those that are ready.

        Raises:
            WorkerError: If an env or a policy raises in a worker. Batches of others were received.
        """
        failures = {}
        with self._all_or_nothing():
            found = self._use_pool("receive", dict(self.sent), what, at_least)
            for i in sorted(found):
                self.sent.pop(i)
                if isinstance(found[i], WorkerFailure):
                    failures[i] = found[i]
                    continue
                if self.trace is not None:
                    self.trace.note_answer(i, found[i])
                self._first_ids[i], self.versions[i] = found[i].ids, found[i].version
                self.ready.append((i, found[i]))
        if failures:
            if self.trace is not None:
                self.trace.note_failures(failures)
            error: WorkerError = self._running().failed(failures, what)
            raise error

    @contextlib.contextmanager
    def tracing(self) -> Iterator[CollectorTrace]:
        """Record what the workers do; see :meth:`~rlnb.collectors.multi.MultiCollector.tracing`."""
        before, trace = self.trace, CollectorTrace(self._owner, self.n, self.version)
        for i, answer in self.ready:
            trace.note_answer(i, answer)
        trace.note_sent(self.sent)
        self.trace = trace
        try:
            with trace.running():
                yield trace
        finally:
            self.trace = before

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """End the workers if an interrupt comes before it is known what they do or have answered."""
        try:
            yield
        except BaseException:
            self.end(0.2)
            raise

    def settle(self, what: str) -> None:
        """Wait until no worker is collecting. The batches stay ready."""
        if self.sent:
            self.receive(len(self.sent), what)

    def stop_early(self, stopped: bool) -> None:
        """Set whether workers end their batch early."""
        if self._weights is not None:
            self._weights.stop(stopped)

    def drop_ready(self) -> None:
        """Drop the batches that were not taken yet. The next ones start with a reset."""
        self.ready.clear()
        self.anew = [True] * self.n

    def data(self, i: int, answer: Collected) -> TensorDictBase:
        """Return the batch of a worker: views of shared memory, which it overwrites with its next batch, or a copy."""
        if not answer.in_memory:
            assert answer.data is not None
            return answer.data
        views = self._views[i]
        assert views is not None
        return views if answer.steps == self.infos[i].steps else views[..., : answer.steps]

    def share(self, i: int, answer: Collected, what: str) -> None:
        """Let a worker, which is idle, write batches like its first one to shared memory from now on."""
        first = answer.data
        if first is None or not self.buffers or self._views[i] is not None or answer.steps < self.infos[i].steps:
            return
        plan = BatchPlan.of(first)
        if plan is None:
            return
        memory = SharedMemory(plan.size)
        shared = SharedBatch(plan, memory)
        self._use_pool("connect", plan, memory, [i], what)
        memory.close()
        self._views[i] = shared.views_like(first)

    # Weights ------------------------------------------------------------------------------------------------------

    @property
    def weights(self) -> SharedWeights:
        """The weights that the workers use from their next batch on."""
        self._running()
        assert self._weights is not None
        return self._weights

    @property
    def version(self) -> int:
        """Version of the weights."""
        return self._kept[1] if self._weights is None else self._weights.version

    @property
    def sends_weights(self) -> bool:
        """Whether weights are sent as messages, for want of shared memory, for which the workers must be idle."""
        return not self.buffers

    def send_weights(self, workers: Collection[int]) -> None:
        """Send the weights as messages, if there is no shared memory."""
        if self.sends_weights:
            weights = self.weights
            state = {name: tensor.clone() for name, tensor in weights.tensors.items()} or None
            self.request({i: ("load_weights", (weights.version, state)) for i in workers}, "update_policy_weights_")
