"""Collectors on several processes: synchronous, asynchronous, and a single one in the background.

How it works:

- **Classes.** :class:`MultiCollector` is what all share; :class:`MultiSyncCollector` joins one batch of each worker,
  :class:`MultiAsyncCollector` returns each batch as soon as it is complete, and :class:`AsyncCollector` has one worker.
  They hold :class:`~rlnb.collectors.workers.CollectorWorkers`: the processes, and the memory shared with them.
  A worker process runs a :class:`~rlnb.collectors.worker.CollectorHost`, which holds an ordinary
  :class:`~rlnb.collectors.Collector`: what a worker collects is what that collector would collect here.
- **Processes.** The pool that ``ParallelEnv`` uses, :class:`~rlnb.envs.batched.worker_pool.WorkerPool`, starts, calls,
  watches and ends them. Collectors also use its methods ``signal`` and ``receive``, which do not wait for all workers.
- **To a worker** goes, when it starts, what makes its collector (``Setup``: functions, policy and options, each
  pickled once). For each batch it gets a signal of one byte: collect, perhaps with a reset first (``ANEW``: the batch
  before was lost), perhaps with random actions (``RANDOM``). Anything else is a request that names a ``do_...`` method.
- **From a worker** comes for each batch a ``Collected``: a few numbers, and the data if it is not in memory.
- **Batches** are in shared memory, one block for each worker. The first batch of a worker comes as a message and is
  the plan of its block (:class:`~rlnb.collectors.shared.BatchPlan`). A batch that does not fit, whose shapes vary for
  example, comes as a message, too. The worker writes to its block only between a signal and its answer; then the
  collector copies the data out, once: joining the batches is that copy.
- **Weights** are in a block of shared memory, too (:class:`~rlnb.collectors.weights.SharedWeights`), with a version.
  ``update_policy_weights_`` writes it and sends nothing: a worker looks at the version when it begins a batch, and
  loads the weights under a lock, so that one version makes a whole batch.
- **Memory** belongs to this process, which allocates it and passes a file descriptor to the workers. It has neither a
  name nor a file on disk, so the system frees it when the last process that uses it ends, however it ends.
- **Life.** The constructor starts the workers. A worker that ends or does not answer in time ends all, with an error
  that names it, and so does an interrupt; the next batch starts new ones with the same weights. ``shutdown`` and the
  end of this process end them. Trajectory ids go on, ``n * id + worker``, so that no two workers share one.
- **Asynchrony** is a matter of when signals are sent: a worker gets the next one when its batch has been returned, so
  that it collects one batch while the learner learns from another, and no policy is older than that.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

from rlnb.collectors import multi_arguments
from rlnb.collectors.arguments import (
    check_collector_options,
    check_numbers,
    check_receivers,
    check_writing,
    find_model,
    integer,
)
from rlnb.collectors.background import Background
from rlnb.collectors.collector import as_single_steps
from rlnb.collectors.multi_arguments import dump_argument
from rlnb.collectors.trace import CollectorTrace, calling
from rlnb.collectors.weights import as_state_dict
from rlnb.collectors.worker import Collected
from rlnb.collectors.workers import CollectorWorkers
from rlnb.data.ted.trajectories import split_trajectories
from rlnb.envs.base import EnvBase
from rlnb.envs.batched.parallel import check_start_method, choose_buffers
from rlnb.envs.batched.worker_pool import WorkerError
from rlnb.envs.exploration import ExplorationType
from rlnb.envs.policies import RandomPolicy


class MultiCollector:
    """Collects with several worker processes, each with its own env and its own copy of the policy.

    ``MultiCollector(..., sync=True)`` makes a :class:`MultiSyncCollector`, ``sync=False`` a
    :class:`MultiAsyncCollector`.

    The workers start when the collector is made. They run a :class:`~rlnb.collectors.Collector` each; see there for
    the format of the batches. :meth:`shutdown` ends them, and they end with this process, however it ends. If a worker
    fails, ends or does not answer, an error names it, and the next batch starts with a reset.

    The policy in this process is the learner's own. The workers use its weights as they were when the collector was
    made, until :meth:`update_policy_weights_`.

    Args:
        create_env_fn: function that makes an env, or a list with one for each worker. It may be a lambda, or be defined
            in a cell of a notebook.
        policy: any policy that a :class:`~rlnb.collectors.Collector` takes. ``None``: random actions.
        num_workers: number of workers, if ``create_env_fn`` is a single function.
        policy_factory: function that makes the policy, or a list with one for each worker, called in the workers. For a
            policy that cannot be pickled.
        frames_per_batch: number of steps of a batch, over all workers together if it is synchronous, of one worker
            otherwise. It is rounded up to a multiple of the workers and their envs, with a warning. A list has the
            number for each worker.
        total_frames: number of steps after which iteration ends. -1: it does not end.
        create_env_kwargs: keyword arguments for ``create_env_fn``, or a list with those of each worker.
        device, storing_device, env_device, policy_device: as for a :class:`~rlnb.collectors.Collector`, or a list with
            that of each worker.
        init_random_frames: least number of steps that are taken with random actions first, over all workers.
        max_frames_per_traj, reset_at_each_iter, exploration_type, set_truncated, trust_policy, track_traj_ids: as for
            a :class:`~rlnb.collectors.Collector`.
        postproc: function of a batch that returns the data to yield. It is called in this process, unless the workers
            write to a buffer.
        split_trajs: whether to yield one row for each trajectory, before ``postproc``.
        cat_results: how the batches of synchronous workers are joined. "stack", the default: along a new first
            dimension. An integer: concatenated along that dimension.
        preemptive_threshold: share of the workers of a synchronous collector, from 0 to 1, that finish their batch. The
            others then end it early, at one of about twenty points, so that a batch may have fewer steps.
        update_at_each_batch: whether to call :meth:`update_policy_weights_` before each batch, or after it if the
            collector is asynchronous.
        replay_buffer: extended with the batch of each worker. The iterator then yields None. If other processes can
            extend it (``LazyMemmapStorage``), the workers do, from the second batch on, and call ``postproc``; unless
            there is a ``post_collect_hook``.
        extend_buffer: whether the buffer is extended with the batch of a worker. False: with its single steps.
        track_policy_version: whether batches have the version of the policy; see :attr:`worker_versions` otherwise.
        num_threads: number of threads of torch in this process. Default: unchanged.
        num_sub_threads: number of threads of torch in each worker.
        init_fn: function that each worker calls first.
        use_buffers: whether data goes through shared memory. Default: yes, where the system has it.
        timeout: seconds that a batch, or any other call, waits for a worker. ``None`` waits without a limit.
        shutdown_timeout: seconds that workers are given to end by themselves.
        mp_start_method: as for :class:`~rlnb.envs.ParallelEnv`.
        pre_collect_hook: called before each batch.
        post_collect_hook: called with each batch, before it is yielded or written.
        **options: other options of TorchRL's collectors. A value that is not supported raises an error.

    Attributes:
        policy: the policy in this process, None with a ``policy_factory``.
        frames: number of steps that were yielded or written to the buffer.
        iterations: number of batches that were yielded or written.
        num_workers: number of workers.
        worker_versions: version of the policy that made the last batch of each worker, -1 before the first.
        replay_buffer: the buffer.

    Raises:
        ValueError: If a number is not an integer or too small, or options contradict each other.
        TypeError: If an argument is not of its type, or cannot be sent to a worker: the error names its part that
            cannot be pickled.
        WorkerError: If an env or policy cannot be made in a worker.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> made = MultiCollector([lambda: GymEnv("CartPole-v1")] * 2, frames_per_batch=4, total_frames=8, sync=True)
        >>> type(made).__name__, [batch.numel() for batch in made]
        ('MultiSyncCollector', [4, 4])
        >>> made.shutdown()
    """

    _is_sync = True

    def __new__(cls, *args: Any, sync: bool | None = None, **kwargs: Any) -> Any:
        """Make a synchronous or an asynchronous collector."""
        if cls is MultiCollector:
            if sync is None:
                raise TypeError(
                    "MultiCollector makes a synchronous or an asynchronous collector, got no sync. "
                    "Fix: MultiCollector(..., sync=True)."
                )
            return object.__new__(MultiSyncCollector if sync else MultiAsyncCollector)
        return object.__new__(cls)

    def __init__(
        self,
        create_env_fn: Callable[..., EnvBase] | Sequence[Callable[..., EnvBase]],
        policy: Callable[..., Any] | None = None,
        *,
        frames_per_batch: int | Sequence[int],
        total_frames: int | None = -1,
        num_workers: int | None = None,
        policy_factory: Callable[[], Any] | Sequence[Callable[[], Any]] | None = None,
        create_env_kwargs: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        device: Any = None,
        storing_device: Any = None,
        env_device: Any = None,
        policy_device: Any = None,
        init_random_frames: int | None = None,
        max_frames_per_traj: int | None = None,
        reset_at_each_iter: bool = False,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        split_trajs: bool | None = None,
        exploration_type: ExplorationType = ExplorationType.RANDOM,
        cat_results: str | int | None = None,
        preemptive_threshold: float | None = None,
        set_truncated: bool = False,
        update_at_each_batch: bool = False,
        replay_buffer: Any = None,
        extend_buffer: bool = True,
        trust_policy: bool | None = None,
        track_traj_ids: bool = True,
        track_policy_version: bool = False,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        init_fn: Callable[[], Any] | None = None,
        use_buffers: bool | None = None,
        timeout: float | None = 300.0,
        shutdown_timeout: float = 2.0,
        mp_start_method: str | None = None,
        pre_collect_hook: Callable[[], Any] | None = None,
        post_collect_hook: Callable[[TensorDictBase], Any] | None = None,
        sync: bool | None = None,
        **options: Any,
    ) -> None:
        name, is_sync = type(self).__name__, self._is_sync
        check_collector_options(options, inspect.signature(MultiCollector.__init__).parameters, name)
        if sync not in (None, is_sync):
            raise ValueError(f"{name} has sync={is_sync}, got sync={sync!r}. Fix: leave sync out.")
        if policy_factory is not None and policy is not None:
            raise TypeError(f"{name} takes a policy or a policy_factory, got both. Fix: leave one out.")
        fns = multi_arguments.env_functions(name, create_env_fn, num_workers)
        self.num_workers = n = len(fns)
        frames, asked = multi_arguments.frames_of_workers(frames_per_batch, n, is_sync)
        total_frames = -1 if total_frames is None else total_frames
        numbers = check_numbers(asked, total_frames, init_random_frames, max_frames_per_traj)
        check_receivers(postproc, replay_buffer)
        multi_arguments.check_joining(name, is_sync, cat_results, preemptive_threshold, use_buffers)
        multi_arguments.check_trajectories(split_trajs, track_traj_ids)
        check_writing(replay_buffer, extend_buffer, split_trajs)
        check_start_method(mp_start_method)
        self._storing = multi_arguments.storing_devices(
            name, device if storing_device is None else storing_device, n, is_sync
        )
        self.policy, self.total_frames = policy, numbers.total_frames
        self.requested_frames_per_batch, self.init_random_frames = asked, numbers.init_random_frames
        self.postproc, self.split_trajs, self.exploration_type = postproc, bool(split_trajs), exploration_type
        self.cat_results, self.preemptive_threshold = cat_results, preemptive_threshold
        self.update_at_each_batch, self.track_policy_version = update_at_each_batch, track_policy_version
        self.replay_buffer, self.extend_buffer = replay_buffer, extend_buffer
        self.pre_collect_hook, self.post_collect_hook = pre_collect_hook, post_collect_hook
        same = {
            "max_frames_per_traj": numbers.max_frames_per_traj,
            "reset_at_each_iter": reset_at_each_iter,
            "exploration_type": exploration_type,
            "set_truncated": set_truncated,
            "trust_policy": trust_policy,
            "track_traj_ids": track_traj_ids,
            "track_policy_version": track_policy_version,
        }
        own = {"device": device, "env_device": env_device, "policy_device": policy_device}
        each = multi_arguments.options_of_workers(frames, same, own)
        setups = multi_arguments.pickled_setups(fns, create_env_kwargs, policy, policy_factory, init_fn, each)
        if self._workers_write:
            self._receiving = {"postproc": postproc, "split_trajs": self.split_trajs, "extend_buffer": extend_buffer}
            keep = "post_collect_hook=lambda batch: None, with which it stays in this process"
            dump_argument("postproc", postproc, keep)
        if num_threads is not None:
            torch.set_num_threads(num_threads)
        buffers = choose_buffers(use_buffers, True, False) is not False
        self.frames = self.iterations = 0
        self._lock = threading.RLock()  # held during a batch and during requests
        self._background = Background(name)
        self._workers = self._make_workers(
            name,
            setups,
            policy,
            buffers,
            preemptive_threshold is not None,
            mp_start_method,
            num_sub_threads,
            timeout,
            shutdown_timeout,
        )
        self._workers.start()
        self._set_frames()

    def _make_workers(self, *arguments: Any) -> CollectorWorkers:
        """Make the workers, with the arguments of :class:`~rlnb.collectors.workers.CollectorWorkers`."""
        return CollectorWorkers(*arguments)

    @property
    def _workers_write(self) -> bool:
        """Whether the workers themselves extend the buffer."""
        shareable = getattr(self.replay_buffer, "_shareable", None)
        return shareable is not None and bool(shareable()) and self.post_collect_hook is None

    def _let_workers_write(self) -> None:
        """Let the workers extend the buffer from now on, once it has the files of its first data."""
        workers = self._workers
        if not self._workers_write or workers.write_themselves or not self.replay_buffer._storage._can_be_shared():
            return
        receivers = {"replay_buffer": self.replay_buffer, **self._receiving}
        pickled, _ = dump_argument("replay_buffer", receivers, "a buffer without transforms that cannot be pickled")
        workers.request_all("write_to", pickled)
        workers.write_themselves = True

    def _set_frames(self) -> None:
        """Set the number of steps of a batch, and warn if it is not what was asked for."""
        each = [info.frames_per_batch for info in self._workers.infos]
        self.frames_per_batch = found = sum(each) if self._is_sync else max(each)
        asked, n = self.requested_frames_per_batch, self.num_workers
        if found != asked:
            who = f"each of the {n} workers" if n > 1 else "the worker"
            warnings.warn(
                f"frames_per_batch={asked} does not divide evenly: {who} collects whole steps of its envs, {each[0]} "
                f"frames, so that a batch has {found}. Fix: frames_per_batch={found}.",
                UserWarning,
                stacklevel=3,
            )

    @property
    def worker_versions(self) -> list[int]:
        """Version of the policy that made the last batch of each worker, -1 before the first."""
        return list(self._workers.versions)

    # Collecting ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Collect batches until there are ``total_frames`` steps.

        Yields:
            A batch, or None if batches are written to a buffer.
        """
        while not self._is_complete():
            yield self.next()

    def _is_complete(self) -> bool:
        return 0 <= self.total_frames <= self.frames

    def iterator(self) -> Iterator[Any]:
        """Return an iterator over batches, the same as ``iter(collector)``."""
        return iter(self)

    def __len__(self) -> int:
        if self.total_frames < 0:
            raise TypeError(f"A {type(self).__name__} with total_frames=-1 has no length: it never ends.")
        return -(-self.total_frames // self.frames_per_batch)

    def next(self) -> Any:
        """Collect one batch, or wait for one.

        If an error prevents the batch from being returned or written, its steps are lost, and its workers start their
        next batch with a reset. An interrupt ends the workers.

        Returns:
            The batch, or None if batches are written to a buffer.

        Raises:
            WorkerError: If an env or a policy raises in a worker, or a worker ends.
            TimeoutError: If a worker does not finish its batch in time.
            RuntimeError: If the collector runs in the background; see :meth:`start`.
        """
        self._background.refuse("next()")
        with self._lock, calling(self._workers.trace, by_learner=True):
            return self._next()

    def _next(self) -> Any:
        workers = self._workers
        workers.start()
        if self.update_at_each_batch and self._is_sync:
            self.update_policy_weights_()
        if self.pre_collect_hook is not None:
            self.pre_collect_hook()
        answers = self._batches()
        if workers.trace is not None:
            workers.trace.note_got(answers)
        frames = sum(answer.frames for answer in answers.values())
        data: Any = None
        if self.replay_buffer is None:
            parts = [workers.data(i, answer) for i, answer in answers.items()]
            data = self._processed(self._joined(parts), min(answers))
            if self.post_collect_hook is not None:
                self.post_collect_hook(data)
        else:
            for i, answer in answers.items():
                if answer.was_written:
                    continue
                self._write(self._processed(workers.data(i, answer).clone(), i))
                self.frames, frames = self.frames + answer.frames, frames - answer.frames
        before = self.frames, self.iterations
        try:
            self._finish(answers, frames)
            return data
        except BaseException:
            if self.replay_buffer is None:  # an interrupt: the batch is lost, and its workers must not go on from it
                self.frames, self.iterations = before
                workers.end(0.2)
            raise

    def _finish(self, answers: Mapping[int, Collected], frames: int) -> None:
        """Count a batch that is complete, and let its workers go on from it, asynchronous ones at once."""
        workers = self._workers
        for i in answers:
            workers.anew[i] = False
        self.frames, self.iterations = self.frames + frames, self.iterations + 1
        try:
            for i, answer in answers.items():
                workers.share(i, answer, self._name_of_batch())
            if self.replay_buffer is not None:
                self._let_workers_write()
            if not self._is_sync:
                self._let_collect(workers.idle(), self.total_frames)
        except (WorkerError, TimeoutError) as error:
            workers.failure = error  # this batch is complete; the next call raises
        else:
            if self.update_at_each_batch and not self._is_sync:
                self.update_policy_weights_()

    def _batches(self) -> dict[int, Collected]:
        """Wait for the batches to return next, by worker."""
        return self._batches_of_all() if self._is_sync else self._first_batch()

    def _batches_of_all(self) -> dict[int, Collected]:
        """Let all workers collect, and wait for them, or for as many as ``preemptive_threshold`` says."""
        n, what, workers = self.num_workers, self._name_of_batch(), self._workers
        workers.settle(what)  # an interrupt may have come between signals and answers
        workers.ready.clear()  # what others collected for a batch in which one has failed
        self._let_collect(list(range(n)), -1)
        enough = n if self.preemptive_threshold is None else max(1, math.ceil(self.preemptive_threshold * n))
        failure: WorkerError | None = None
        try:
            workers.receive(enough, what)
        except WorkerError as error:
            failure = error
        if workers.sent:
            workers.stop_early(True)
            try:
                workers.settle(what)
            finally:
                workers.stop_early(False)
        if failure is not None:
            raise failure
        answers = dict(sorted(workers.ready))
        workers.ready.clear()
        return answers

    def _first_batch(self) -> dict[int, Collected]:
        """Wait for the batch that is complete first."""
        workers = self._workers
        self._let_collect(workers.idle(), self.total_frames)
        if not workers.sent and not workers.ready:  # next() asks for more than total_frames
            self._let_collect(workers.idle(), -1)
        if not workers.ready:
            workers.receive(1, self._name_of_batch())
        i, answer = workers.ready.popleft()
        return {i: answer}

    def _name_of_batch(self) -> str:
        return f"batch {self.iterations + 1}"

    def _let_collect(self, workers: list[int], total_frames: int) -> None:
        """Let workers collect, at most as many as are needed for ``total_frames``; -1: all of them."""
        each, idle = [info.frames_per_batch for info in self._workers.infos], self._workers.idle()
        begun = self.frames + sum(each[i] for i in range(self.num_workers) if i not in idle)
        at_random = {}
        for i in workers:
            if 0 <= total_frames <= begun:
                break
            at_random[i] = begun < self.init_random_frames
            if not self._is_sync:  # the batches of synchronous workers are parts of one
                begun += each[i]
        self._workers.collect(at_random, self._name_of_batch())

    def _joined(self, parts: list[TensorDictBase]) -> TensorDictBase:
        """Copy batches, which may be in shared memory, into one."""
        if not self._is_sync:
            (part,) = parts
            return part.clone()
        if self.cat_results in (None, "stack"):
            if len({part.batch_size for part in parts}) > 1:
                sizes = [tuple(part.batch_size) for part in parts]
                raise RuntimeError(
                    f"Batches of sizes {sizes} cannot be stacked. Likely cause: frames_per_batch differs between "
                    "workers. Fix: cat_results=-1."
                )
            return _stacked(parts)
        tensors: Any = parts  # torch.cat joins TensorDicts, too
        tensors = torch.cat(tensors, int(self.cat_results or 0))
        joined: TensorDictBase = tensors
        return joined

    def _processed(self, data: Any, i: int) -> Any:
        """Convert a batch to the data that is yielded or written."""
        if self.split_trajs:
            data = split_trajectories(data, prefix="collector")
        if self.postproc is not None:
            data = self.postproc(data)
        return data if self._storing[i] is None else data.to(self._storing[i])

    def _write(self, data: TensorDictBase) -> None:
        """Write the batch of a worker to the buffer."""
        if self.post_collect_hook is not None:
            self.post_collect_hook(data)
        self.replay_buffer.extend(data if self.extend_buffer else as_single_steps(data))

    def tracing(self) -> contextlib.AbstractContextManager[CollectorTrace]:
        """Record, in the trace that the ``with`` block gets, what the workers and the learner do, and when.

        Example:
            >>> from rlnb.envs import GymEnv
            >>> collector = MultiCollector([lambda: GymEnv("CartPole-v1")] * 2, sync=True, frames_per_batch=40)
            >>> with collector.tracing() as trace:
            ...     batches = [collector.next() for _ in range(3)]
            >>> trace
            CollectorTrace(MultiSyncCollector, num_workers=2, batches=3, updates=0)
            >>> collector.shutdown()
        """
        return self._workers.tracing()

    # In the background --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Collect in the background, into the replay buffer, until ``total_frames`` or :meth:`async_shutdown`.

        The learner samples from the buffer meanwhile, and updates the weights with :meth:`update_policy_weights_`.
        Other methods wait for the end of the batch that is being collected.

        Raises:
            RuntimeError: If there is no replay buffer, or the collector runs already.
        """
        self._workers.start()
        self._background.start(self._collect_in_background, self.replay_buffer)

    def _collect_in_background(self) -> bool:
        """Collect a batch; return whether there are more to collect."""
        if self._is_complete():
            return False
        with self._lock, calling(self._workers.trace, by_learner=False):
            self._next()
        return not self._is_complete()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Return a context in which a collector that was started, and its workers, write nothing to the buffer.

        Raises:
            RuntimeError: If the collector does not run.
        """
        with self._background.pause(), self._lock:
            self._workers.settle("pause")
            yield

    def is_running(self) -> bool:
        """Return whether the collector collects in the background."""
        return self._background.is_running()

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """Keep the background thread from collecting, and start the workers unless they run."""
        with self._background.pause() if self._background.is_running() else contextlib.nullcontext(), self._lock:
            self._workers.start()
            yield

    # The policy ---------------------------------------------------------------------------------------------------

    def update_policy_weights_(self, policy_or_weights: Any = None, *, worker_ids: Any = None, **kwargs: Any) -> None:
        """Update the weights that the workers use from their next batch on.

        A batch that is being collected is finished with the weights that it was begun with.

        Args:
            policy_or_weights: a module, its parameters as a TensorDict, or a state dict. Default: the weights of the
                policy that the collector was made with.
            worker_ids: index of a worker, or a list of them. Default: all. The others keep the weights that they have.
            **kwargs: ``policy`` or ``weights``, other names of ``policy_or_weights``.

        Raises:
            TypeError: If the policy is not a module, or the weights are of another type.
            RuntimeError: If the weights do not fit the policy. Nothing is written then.
            IndexError: If there is no such worker.
        """
        for name in ("policy", "weights"):
            policy_or_weights = kwargs.pop(name, None) if policy_or_weights is None else policy_or_weights
        if kwargs:
            raise TypeError(f"update_policy_weights_ has no argument {min(kwargs)!r}. It takes policy_or_weights.")
        workers = self._workers
        if not workers.alive:
            workers.start()
        chosen = self._worker_indices(worker_ids)
        source = self.policy if policy_or_weights is None else policy_or_weights
        state: Any = None
        if not (source is None or isinstance(source, RandomPolicy)) or policy_or_weights is not None:
            self._check_has_weights()
            state = as_state_dict(source, workers.weights.tensors)
        if len(chosen) < self.num_workers and workers.buffers:
            with self._quiet():  # others that have not loaded their weights yet would load the new ones
                workers.request_all("catch_up")
        workers.weights.write(state, chosen)
        if workers.trace is not None:
            workers.trace.note_update(workers.version)
        if workers.sends_weights:
            with self._quiet():
                workers.send_weights(chosen)

    def _check_has_weights(self) -> None:
        if self._workers.weights.tensors:
            return
        if isinstance(self.policy, torch.nn.Module) and not self.policy.state_dict():
            return
        what = "one that the workers made" if self.policy is None else f"a {type(self.policy).__name__}"
        raise TypeError(
            "update_policy_weights_ needs a policy that is a torch module, with the same weights in all workers, got "
            f"{what}. The workers have copies of it. Fix: {type(self).__name__}(..., policy=TensorDictModule(...))."
        )

    def _worker_indices(self, worker_ids: Any) -> list[int]:
        n = self.num_workers
        if worker_ids is None:
            return list(range(n))
        chosen = [worker_ids] if integer(worker_ids) is not None else list(worker_ids)
        if any(integer(i) is None or not 0 <= i < n for i in chosen):
            raise IndexError(
                f"worker_ids must be indices of workers from 0 to {n - 1}, got {worker_ids!r}. Fix: worker_ids=[0]."
            )
        return [int(i) for i in chosen]

    @property
    def policy_version(self) -> int:
        """Number of updates of the policy."""
        return self._workers.version

    def get_policy_version(self) -> int:
        """Return :attr:`policy_version`."""
        return self.policy_version

    def increment_version(self) -> None:
        """Count an update of the policy, as :meth:`update_policy_weights_` does."""
        with self._quiet():
            self._workers.weights.write(None, range(self.num_workers))
            if self._workers.trace is not None:
                self._workers.trace.note_update(self.policy_version)
            self._workers.send_weights(range(self.num_workers))

    def get_model(self, model_id: str) -> Any:
        """Return a model of this process by its name: "policy", or one of its parts.

        Raises:
            ValueError: If there is no such model.
        """
        return find_model(self, model_id, ", and its envs are in other processes")

    def init_updater(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing, as in TorchRL for a collector without a weight updater."""

    def getattr_env(self, attr: str) -> list[Any]:
        """Return an attribute of the env of each worker."""
        with self._quiet():
            return self._workers.request_all("read", f"env.{attr}")

    def getattr_policy(self, attr: str) -> Any:
        """Return an attribute of the policy in this process, or of each worker's if it was made there."""
        if self.policy is not None:
            return getattr(self.policy, attr)
        with self._quiet():
            return self._workers.request_all("read", f"policy.{attr}")

    def getattr_rb(self, attr: str) -> Any:
        """Return an attribute of the replay buffer."""
        return getattr(self.replay_buffer, attr)

    def set_post_collect_hook(self, hook: Callable[[TensorDictBase], Any] | None) -> None:
        """Set the function that is called with each batch; ``None`` for no function.

        Raises:
            ValueError: If the workers write to the buffer themselves.
        """
        if hook is not None and self._workers_write:
            raise ValueError(
                "post_collect_hook is called with batches in this process, and the workers write them to the buffer "
                f"themselves. Fix: {type(self).__name__}(..., post_collect_hook=hook)."
            )
        self.post_collect_hook = hook

    # Progress, seed, state dict and shutdown ----------------------------------------------------------------------

    def frames_per_batch_worker(self, worker_idx: int | None = None) -> int:
        """Return the number of steps of a batch of a worker, by default of the first."""
        return self._workers.infos[worker_idx or 0].frames_per_batch

    def stats(self) -> dict[str, int | bool]:
        """Return the progress, as of a :class:`~rlnb.collectors.Collector`, with "workers" and "policy_version"."""
        return {
            "frames": self.frames,
            "batches": self.iterations,
            "total_frames": self.total_frames,
            "completed": self._is_complete(),
            "requested_frames_per_batch": self.requested_frames_per_batch,
            "policy_version": self.policy_version,
            "workers": self.num_workers,
            "workers_alive": self._workers.alive,
        }

    def reset(self, index: Any = None, **kwargs: Any) -> None:
        """Start new episodes, and new trajectories, with the next batch that a worker collects.

        Args:
            index: workers: an integer, a slice, a list of integers or a mask. Default: all.
            **kwargs: keyword arguments for the reset of the envs.

        Raises:
            IndexError: If there are no such workers.
        """
        chosen = np.arange(self.num_workers)
        if index is not None:
            try:
                chosen = np.atleast_1d(chosen[index if isinstance(index, (int, slice)) else np.asarray(index)])
            except (IndexError, TypeError, ValueError) as error:
                raise IndexError(
                    f"index must select workers of {self.num_workers}, got {index!r}. Fix: collector.reset(0), or a "
                    "slice, a list of integers or a mask for several workers."
                ) from error
        with self._quiet():
            self._workers.request({int(i): ("reset", (kwargs,)) for i in chosen}, "reset")

    def fake_tensordict(self) -> TensorDictBase:
        """Return a batch of zeros with the keys, shapes and dtypes of a real one.

        As in :meth:`~rlnb.collectors.Collector.fake_tensordict`, the policies are called once, with zeros.
        """
        with self._quiet():
            fakes = self._workers.request_all("fake")
        return self._processed(self._joined(fakes if self._is_sync else fakes[:1]), 0)

    def set_seed(self, seed: int, static_seed: bool = False) -> int | None:
        """Seed the envs of the workers, and the random generators of torch, NumPy and Python in their processes.

        The next batches start with a reset; those that an asynchronous collector has ready are dropped.

        Args:
            seed: an integer from 0 to 2**64 - 1.
            static_seed: whether all workers get the same seed. Default: each gets its own, in a chain.

        Returns:
            The seed for the next env of the chain.
        """
        following: int | None = seed
        with self._quiet():
            self._workers.settle("set_seed")
            self._workers.drop_ready()
            for i in range(self.num_workers):
                following = self._workers.request({i: ("seed", (following, static_seed))}, "set_seed")[i]
        return following

    def state_dict(self) -> dict[str, Any]:
        """Return the state dicts of policy and envs, and the progress of the collector.

        Batches that were collected and not returned yet are not part of it: this collector returns them next, and one
        that loads the state collects its own instead.

        Returns:
            A dictionary with "worker0", "worker1" and so on (each with "env_state_dict" and "traj_ids"),
            "policy_state_dict" (if the policy is a module: the weights that the workers use), "frames", "iter" and
            "policy_version".
        """
        with self._quiet():
            states = self._workers.request_all("state")
            weights = self._workers.weights.tensors
            state: dict[str, Any] = {f"worker{i}": states[i] for i in range(self.num_workers)}
            if weights:
                state["policy_state_dict"] = {name: value.clone() for name, value in weights.items()}
            state |= {"frames": self.frames, "iter": self.iterations, "policy_version": self.policy_version}
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict. The next batches start with a reset, and with trajectory ids that were not used before.

        The weights are loaded into the policy in this process, too. If loading fails, nothing changes.

        Args:
            state_dict: the result of :meth:`state_dict`.

        Raises:
            KeyError: If a part is missing, for example because it is of another number of workers.
            RuntimeError: If it does not fit the policy.
            WorkerError: If it does not fit an env.
        """
        n = self.num_workers
        with self._quiet():
            workers, weights = self._workers, self._workers.weights
            wanted = [*(f"worker{i}" for i in range(n)), "frames", "iter", "policy_version"]
            wanted += ["policy_state_dict"] if weights.tensors else []
            missing = [name for name in wanted if name not in state_dict]
            if missing:
                raise KeyError(
                    f"The state dict of a collector with {n} workers must have {wanted}, got one without {missing}."
                )
            policy = as_state_dict(state_dict["policy_state_dict"], weights.tensors) if weights.tensors else None
            before = workers.request_all("state")
            try:
                workers.request({i: ("load", (state_dict[f"worker{i}"],)) for i in range(n)}, "load_state_dict")
            except WorkerError:
                if workers.alive:
                    workers.request({i: ("load", (before[i],)) for i in range(n)}, "load_state_dict")
                raise
            workers.drop_ready()
            weights.write(policy, range(n), state_dict["policy_version"])
            workers.send_weights(range(n))
            if policy is not None and isinstance(self.policy, torch.nn.Module):
                self.policy.load_state_dict(policy)
            self.frames, self.iterations = state_dict["frames"], state_dict["iter"]

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """End the workers, and with them their envs. The next batch starts new ones.

        Args:
            timeout: seconds that the workers are given. Default: ``shutdown_timeout``.
            close_env: has no effect: the envs end with their processes.
            raise_on_error: ``False`` suppresses errors.
        """
        with contextlib.nullcontext() if raise_on_error else contextlib.suppress(Exception):
            try:
                self._background.stop(timeout)
            finally:
                self._workers.end(timeout)

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Stop collecting in the background, and end the workers; see :meth:`shutdown`.

        Raises:
            Exception: What ended the collection in the background, if it was an error.
        """
        self.shutdown(timeout, close_env)

    def enable_profile(self, **options: Any) -> None:
        """Raise ``NotImplementedError``: torch's profiler measures one process."""
        raise NotImplementedError(
            f"{type(self).__name__}.enable_profile() is not supported: torch's profiler measures one process. "
            "Fix: with torch.profiler.profile() as profile: Collector(env, policy, frames_per_batch=100).next()."
        )

    def __del__(self) -> None:
        workers = self.__dict__.get("_workers")
        try:  # as in EnvBase: at interpreter exit anything may be gone already
            if workers is not None and workers.alive:
                workers.end(0.2)
        except Exception:
            pass

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_workers={self.num_workers}, frames_per_batch={self.frames_per_batch}, "
            f"total_frames={self.total_frames}, policy_version={self.policy_version})"
        )


class MultiSyncCollector(MultiCollector):
    """Collects with several workers at once: a batch is joined from one batch of each.

    For the arguments see :class:`MultiCollector`. No worker acts between two batches, so that each batch is made with
    the weights of the last :meth:`~MultiCollector.update_policy_weights_`: it suits on-policy algorithms.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> collector = MultiSyncCollector([lambda: GymEnv("CartPole-v1")] * 2, frames_per_batch=40, total_frames=80)
        >>> [batch.batch_size for batch in collector]
        [torch.Size([2, 20]), torch.Size([2, 20])]
        >>> collector.shutdown()
    """


class MultiAsyncCollector(MultiCollector):
    """Collects with several workers, and returns each batch as soon as it is complete.

    For the arguments see :class:`MultiCollector`. While the learner learns from a batch, the workers collect the next
    ones. A batch is made with the weights at the time of its first step: it suits off-policy algorithms.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> collector = MultiAsyncCollector([lambda: GymEnv("CartPole-v1")] * 2, frames_per_batch=20, total_frames=60)
        >>> [batch.batch_size for batch in collector]
        [torch.Size([20]), torch.Size([20]), torch.Size([20])]
        >>> collector.shutdown()
    """

    _is_sync = False


class AsyncCollector(MultiAsyncCollector):
    """Collects in one worker process while the learner learns; for the arguments see :class:`MultiCollector`.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> collector = AsyncCollector(lambda: GymEnv("CartPole-v1"), frames_per_batch=20, total_frames=40)
        >>> [batch.batch_size for batch in collector]
        [torch.Size([20]), torch.Size([20])]
        >>> collector.shutdown()
    """

    def __init__(self, create_env_fn: Any, policy: Any = None, **kwargs: Any) -> None:
        if isinstance(create_env_fn, Sequence) and len(create_env_fn) > 1:
            raise ValueError(
                f"AsyncCollector has one worker, got {len(create_env_fn)} functions that make envs. "
                "Fix: MultiAsyncCollector for several workers."
            )
        super().__init__(create_env_fn, policy, **kwargs)


def _stacked(parts: list[TensorDictBase]) -> TensorDictBase:
    """Stack batches along a new first dimension; lazily if their entries differ."""
    tensors: Any = parts  # torch.stack joins TensorDicts, too
    stacked: Any
    try:
        stacked = torch.stack(tensors, 0)
    except RuntimeError:
        stacked = LazyStackedTensorDict(*(part.clone() for part in parts), stack_dim=0)
    stacked.names = [None, *parts[0].names]
    whole: TensorDictBase = stacked
    return whole


#: The names of these classes in older versions of TorchRL.
MultiSyncDataCollector = MultiSyncCollector
MultiaSyncDataCollector = MultiAsyncCollector
aSyncDataCollector = AsyncCollector
