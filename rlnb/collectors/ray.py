"""Collectors on Ray, for more environments than one machine can step.

How it works:

- **The same collector.** A :class:`RayCollector` is a :class:`~rlnb.collectors.MultiCollector` whose workers are Ray
  actors. Arguments, the joining of batches, hooks, buffers and state dicts are those of that class; only the pool
  differs (:class:`~rlnb.collectors.ray_workers.ActorPool`), and what it calls runs in an actor
  (:class:`~rlnb.collectors.ray_workers.CollectorActor`), which holds an ordinary collector of this library.
- **Batches** are packed in the actor (:class:`~rlnb._ray.Packed`) and put into the object store of its node. This
  process waits for references, fetches the batch that is due next, and copies it out of the store, which can then
  free it.
- **Back-pressure.** An actor gets its next signal when its batch has been returned (asynchronous), or when all have
  been joined (synchronous). So each actor has at most one batch that was not returned yet, and the stores never hold
  more than ``num_collectors`` batches, however slow the learner is.
- **Weights** are put into the object store once for each version. The signal for the next batch carries the reference,
  and the node of the actor fetches the weights once for all of its actors. An actor that has the version already gets
  no reference.
- **Faults.** An actor that is lost, alone or with its node, is replaced: another one makes a new env and collects the
  batch from a reset, with the same weights and with trajectory ids that were not used before. A warning names what was
  lost. After ``max_restarts`` losses in a row an error does. An actor that is late ends all, with an error that names
  it, and the next batch starts new ones. A policy or env that raises is reported with its traceback, once.

``docs/ray.md`` says what grows with the number of nodes, and how far one learner carries.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensordict import TensorDictBase

from rlnb._ray import import_ray
from rlnb.collectors.arguments import integer
from rlnb.collectors.collector import Collector
from rlnb.collectors.multi import MultiCollector
from rlnb.collectors.multi_arguments import dump_argument
from rlnb.collectors.ray_workers import RayOptions, RayWorkers
from rlnb.collectors.workers import CollectorWorkers
from rlnb.data.replay_buffers.ray_buffer import RayReplayBuffer
from rlnb.envs.base import EnvBase
from rlnb.envs.batched.batched_env import one_each
from rlnb.envs.batched.parallel import ParallelEnv

#: Options of Ray's actors that would break the protocol, and what to use instead.
_KEPT = {
    "max_restarts": "RayCollector(..., max_restarts=3)",
    "max_task_retries": "RayCollector(..., max_restarts=3)",
    "max_concurrency": "leave it out: an actor collects one batch at a time",
    "concurrency_groups": "leave it out: an actor collects one batch at a time",
    "lifetime": "leave it out: the actors end with the collector",
    "name": "leave it out: several actors cannot have one name",
    "get_if_exists": "leave it out: the collector makes its actors",
}
#: Options of Ray's actors.
_OPTIONS = (
    "num_cpus", "num_gpus", "memory", "object_store_memory", "resources", "accelerator_type", "label_selector",
    "scheduling_strategy", "placement_group", "placement_group_bundle_index", "placement_group_capture_child_tasks",
    "runtime_env", "namespace", "max_pending_calls", "enable_task_events",
)  # fmt: skip
#: Arguments of the collector of an actor that the RayCollector itself chooses.
_OWN = (
    "create_env_fn", "policy", "policy_factory", "create_env_kwargs", "frames_per_batch", "total_frames",
    "init_random_frames", "postproc", "split_trajs", "replay_buffer", "extend_buffer", "pre_collect_hook",
    "post_collect_hook",
)  # fmt: skip
#: Options of collectors on several processes that mean nothing on several machines.
_LOCAL = {
    "use_buffers": "the machines share no memory",
    "mp_start_method": "Ray starts the processes",
    "preemptive_threshold": "it takes memory that the workers share",
}


class RayCollector(MultiCollector):
    """Collects with Ray actors on one or more machines.

    The actors start when the collector is made, on the cluster that this process is connected to, or that
    ``ray_init_config`` names; without one, Ray starts on this machine. :meth:`shutdown` ends them, and they end with
    this process. See :class:`~rlnb.collectors.Collector` for the format of the batches.

    Args:
        create_env_fn: function that makes an env, or a list with one for each collector. It may be a lambda, or be
            defined in a cell of a notebook. What it imports must be installed on each machine.
        policy: any policy that a :class:`~rlnb.collectors.Collector` takes. ``None``: random actions.
        frames_per_batch: number of steps of a batch, over all collectors together if ``sync``, of one otherwise. It is
            rounded up to a multiple of the collectors and their envs, with a warning.
        total_frames: number of steps after which iteration ends. -1: it does not end.
        num_collectors: number of actors. Default: one for each function in ``create_env_fn``.
        sync: whether a batch is joined from one of each actor, all made with the same weights. Default: each batch is
            returned as soon as it is complete.
        collector_class: class of the collector of each actor: :class:`~rlnb.collectors.Collector`,
            :class:`~rlnb.collectors.MultiSyncCollector`, :class:`~rlnb.collectors.MultiAsyncCollector`, or a class
            derived from one of them.
        collector_kwargs: further arguments for it, or a list with those of each actor.
        num_workers_per_collector: number of envs of each actor, in processes of their own: workers of a
            ``collector_class`` that has them, a :class:`~rlnb.envs.ParallelEnv` otherwise. Ask for as many CPUs in
            ``remote_configs``.
        remote_configs: resources and placement of each actor, or a list with those of each: options of Ray's actors,
            such as ``num_cpus``, ``num_gpus``, ``memory`` (in bytes), ``resources``, ``scheduling_strategy``
            (``"SPREAD"`` puts them on different nodes) or ``runtime_env``. Default: ``{"num_cpus": 1}``.
        ray_init_config: keyword arguments of ``ray.init``, if this process is not connected to Ray yet.
        max_restarts: how often in a row an actor that is lost is replaced. 0: a lost actor is an error.
        update_after_each_batch: whether actors get the weights of ``policy`` for each batch.
        max_weight_update_interval: number of batches that an actor collects before it gets the weights of ``policy``
            without a call of :meth:`update_policy_weights_`. -1: never; 0: for each batch.
        replay_buffer: extended with the batch of each actor; the iterator then yields None. The actors themselves
            extend a :class:`~rlnb.data.RayReplayBuffer`, so that their data does not pass through this process; unless
            there is a ``post_collect_hook``.
        max_frames_per_traj, init_random_frames: as for a :class:`~rlnb.collectors.MultiCollector`. -1: none.
        use_env_creator: ignored; accepted for code written for TorchRL. Functions are sent as they are.
        timeout: seconds that a batch, the start of the actors, or any other call, waits for an actor. ``None`` waits
            without a limit.
        **options: other options of a :class:`~rlnb.collectors.MultiCollector`.

    Attributes:
        policy, frames, iterations, worker_versions, replay_buffer: as for a :class:`~rlnb.collectors.MultiCollector`.
        num_workers: number of actors.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If the cluster that ``ray_init_config`` names does not answer.
        ValueError: If a number is not an integer or too small, or options contradict each other.
        TypeError: If an argument is not of its type, or cannot be pickled: the error names its part that cannot.
        WorkerError: If an env or policy cannot be made in an actor, or an actor is lost while it starts.
        TimeoutError: If no node has room for an actor.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> collector = RayCollector(  # doctest: +SKIP
        ...     lambda: GymEnv("CartPole-v1"),
        ...     num_collectors=2,
        ...     frames_per_batch=100,
        ...     total_frames=1000,
        ...     remote_configs={"num_cpus": 1, "scheduling_strategy": "SPREAD"},
        ... )
        >>> for batch in collector:  # doctest: +SKIP
        ...     print(batch.batch_size)
        >>> collector.shutdown()  # doctest: +SKIP
    """

    def __init__(
        self,
        create_env_fn: Callable[..., EnvBase] | Sequence[Callable[..., EnvBase]],
        policy: Callable[..., Any] | None = None,
        *,
        frames_per_batch: int | Sequence[int],
        total_frames: int | None = -1,
        num_collectors: int | None = None,
        sync: bool = False,
        collector_class: Callable[..., Any] = Collector,
        collector_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        num_workers_per_collector: int = 1,
        remote_configs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        ray_init_config: Mapping[str, Any] | None = None,
        max_restarts: int = 3,
        update_after_each_batch: bool = False,
        max_weight_update_interval: int = -1,
        replay_buffer: Any = None,
        max_frames_per_traj: int | None = None,
        init_random_frames: int | None = None,
        use_env_creator: bool = False,
        timeout: float | None = 300.0,
        **options: Any,
    ) -> None:
        import_ray("RayCollector")
        self._is_sync = bool(sync)
        n = _number_of_collectors(create_env_fn, num_collectors)
        _check_numbers(num_workers_per_collector, max_restarts, max_weight_update_interval)
        for name in _LOCAL:
            if options.pop(name, None) is not None:
                raise ValueError(f"RayCollector has no {name}: {_LOCAL[name]}. Fix: leave {name} out.")
        kind = _check_class(collector_class)
        has_workers = isinstance(kind, type) and issubclass(kind, MultiCollector)
        self._ray_options = RayOptions(
            kind,
            _actor_options(remote_configs, n),
            _collector_kwargs(collector_kwargs, n, num_workers_per_collector if has_workers else 0),
            ray_init_config,
            max_restarts,
        )
        self.max_weight_update_interval = 0 if update_after_each_batch else max_weight_update_interval
        self._batches_since = [0] * n  # batches that each actor was asked for since it was sent weights
        if num_workers_per_collector > 1 and not has_workers:
            create_env_fn = _in_parallel(create_env_fn, num_workers_per_collector)
        super().__init__(
            create_env_fn,
            policy,
            frames_per_batch=frames_per_batch,
            total_frames=total_frames,
            num_workers=n,
            update_at_each_batch=self._is_sync and self.max_weight_update_interval == 0,
            replay_buffer=replay_buffer,
            max_frames_per_traj=max_frames_per_traj,
            init_random_frames=None if integer(init_random_frames) == -1 else init_random_frames,
            timeout=timeout,
            use_buffers=False,
            **options,
        )

    def _make_workers(self, *arguments: Any) -> CollectorWorkers:
        name, setups, policy, _, _, _, threads, timeout, shutdown_timeout = arguments
        return RayWorkers(name, setups, policy, threads, timeout, shutdown_timeout, self._ray_options)

    # Collecting ---------------------------------------------------------------------------------------------------

    def _joined(self, parts: list[TensorDictBase]) -> TensorDictBase:
        if self._is_sync:
            return super()._joined(parts)
        (part,) = parts  # a copy already, which belongs to this process
        return part

    def _let_collect(self, workers: list[int], total_frames: int) -> None:
        interval = self.max_weight_update_interval
        due = [i for i in workers if 0 <= interval <= self._batches_since[i]]
        if due and not self.update_at_each_batch:
            self.update_policy_weights_(worker_ids=due)
        super()._let_collect(workers, total_frames)
        for i in workers:
            self._batches_since[i] += i in self._workers.sent

    def update_policy_weights_(self, policy_or_weights: Any = None, *, worker_ids: Any = None, **kwargs: Any) -> None:
        """Update the weights that the actors use from their next batch on.

        They are put into the object store once, and this call does not wait until they have arrived.

        Args:
            policy_or_weights: as for :meth:`MultiCollector.update_policy_weights_`.
            worker_ids: index of an actor, or a list of them. Default: all.
            **kwargs: ``policy`` or ``weights``, other names of ``policy_or_weights``.
        """
        super().update_policy_weights_(policy_or_weights, worker_ids=worker_ids, **kwargs)
        for i in self._worker_indices(worker_ids):
            self._batches_since[i] = 0

    @property
    def _workers_write(self) -> bool:
        return isinstance(self.replay_buffer, RayReplayBuffer) and self.post_collect_hook is None

    def _let_workers_write(self) -> None:
        """Let the actors extend the buffer, from their second batch on."""
        workers = self._workers
        if self._workers_write and not workers.write_themselves:
            pickled, _ = dump_argument("replay_buffer", {"replay_buffer": self.replay_buffer, **self._receiving}, "")
            workers.request_all("write_to", pickled)
            workers.write_themselves = True

    # The actors ---------------------------------------------------------------------------------------------------

    @property
    def remote_collectors(self) -> list[Any]:
        """Handles of the actors."""
        workers: Any = self._workers
        actors: list[Any] = workers.actors()
        return actors

    def places(self) -> list[dict[str, Any] | None]:
        """Return where the actors run: a dictionary with "actor", "pid", "ip" and "node" of each.

        None stands for an actor that does not run yet.
        """
        workers: Any = self._workers
        return [None if place is None else place._asdict() for place in workers.places()]

    def stats(self) -> dict[str, int | bool]:
        """Return the progress, as of a :class:`~rlnb.collectors.MultiCollector`, and the traffic.

        "bytes_received" came from the actors, "bytes_put" are those of weights in the object store, "restarts" is the
        number of actors that were replaced.
        """
        workers: Any = self._workers
        received, put, restarts = workers.traffic()
        return {**super().stats(), "bytes_received": received, "bytes_put": put, "restarts": restarts}

    def stop_remote_collectors(self) -> None:
        """End the actors, as :meth:`shutdown` does."""
        self.shutdown()

    def shutdown(
        self,
        timeout: float | None = None,
        close_env: bool = True,
        raise_on_error: bool = True,
        shutdown_ray: bool = False,
    ) -> None:
        """End the actors, and with them their envs. The next batch starts new ones.

        Args:
            timeout: seconds that the actors are given. Default: ``shutdown_timeout``.
            close_env: has no effect: the envs end with their processes.
            raise_on_error: ``False`` suppresses errors.
            shutdown_ray: whether to end the connection to Ray, too, and Ray itself if this process has started it.
        """
        try:
            super().shutdown(timeout, close_env, raise_on_error)
        finally:
            if shutdown_ray:
                import_ray("RayCollector").shutdown()

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True, shutdown_ray: bool = False) -> None:
        """Stop collecting in the background, and end the actors; see :meth:`shutdown`."""
        self.shutdown(timeout, close_env, shutdown_ray=shutdown_ray)


# Arguments --------------------------------------------------------------------------------------------------------


def _number_of_collectors(create_env_fn: Any, num_collectors: Any) -> int:
    given = integer(num_collectors)
    if num_collectors is not None and (given is None or given < 1):
        raise ValueError(f"num_collectors must be a positive integer, got {num_collectors!r}. Fix: num_collectors=2.")
    if not isinstance(create_env_fn, Sequence):
        return given or 1
    n = len(create_env_fn)
    if given is not None and n not in (1, given):
        raise ValueError(
            f"create_env_fn must have a function for each collector, got {n} with num_collectors={num_collectors!r}. "
            "Fix: leave num_collectors out, or create_env_fn=make_env."
        )
    return given or n


def _check_numbers(workers: Any, restarts: Any, interval: Any) -> None:
    asked = [
        ("num_workers_per_collector", workers, 1, "a positive integer", 1),
        ("max_restarts", restarts, 0, "a non-negative integer", 3),
        ("max_weight_update_interval", interval, -1, "a non-negative integer, or -1 for no updates", -1),
    ]
    for name, value, least, expected, otherwise in asked:
        number = integer(value)
        if number is None or number < least:
            raise ValueError(f"{name} must be {expected}, got {value!r}. Fix: {name}={otherwise}.")


def _check_class(kind: Any) -> Any:
    accepted = isinstance(kind, type) and issubclass(kind, (Collector, MultiCollector))
    if not accepted or issubclass(kind, RayCollector):
        raise TypeError(
            "collector_class must be Collector, MultiSyncCollector, MultiAsyncCollector or a class derived from one of "
            f"them, got {getattr(kind, '__name__', repr(kind))}. Fix: collector_class=Collector."
        )
    return kind


def _actor_options(given: Any, n: int) -> list[dict[str, Any]]:
    """Return the options of each actor, and check their names."""
    each = one_each({"num_cpus": 1} if given is None else given, n, "remote_configs", "collectors")
    for config in each:
        if not isinstance(config, Mapping):
            raise TypeError(
                f"remote_configs must be a dictionary of options of Ray's actors, or a list of them, got {config!r}. "
                "Fix: remote_configs={'num_cpus': 1}."
            )
        for name in config:
            if name in _KEPT:
                raise ValueError(f"remote_configs has {name!r}, which RayCollector chooses. Fix: {_KEPT[name]}.")
            if name not in _OPTIONS:
                close = difflib.get_close_matches(str(name), _OPTIONS, 1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise ValueError(
                    f"remote_configs has {name!r}, which is no option of Ray's actors.{hint} They take: "
                    f"{', '.join(_OPTIONS)}."
                )
    return [dict(config) for config in each]


def _collector_kwargs(given: Any, n: int, workers: int) -> list[dict[str, Any]]:
    """Return further arguments of the collector of each actor; ``workers`` of its own, if it has them."""
    each = one_each({} if given is None else given, n, "collector_kwargs", "collectors")
    for kwargs in each:
        if not isinstance(kwargs, Mapping):
            raise TypeError(
                "collector_kwargs must be a dictionary of arguments of the collectors, or a list of them, got "
                f"{kwargs!r}. Fix: collector_kwargs={{'set_truncated': True}}."
            )
        for name in kwargs:
            if name in _OWN:
                raise ValueError(
                    f"collector_kwargs has {name!r}, which RayCollector gives to its collectors. "
                    f"Fix: RayCollector(..., {name}=...)."
                )
    same = {"num_workers": workers} if workers else {}
    found = [{**same, **kwargs} for kwargs in each]
    dump_argument("collector_kwargs", found, "make it inside of a function, such as create_env_fn")
    return found


def _in_parallel(create_env_fn: Any, n: int) -> Any:
    """Return functions that make each env ``n`` times, in processes of their own."""
    if isinstance(create_env_fn, Sequence):
        return [_in_parallel(fn, n) for fn in create_env_fn]
    if isinstance(create_env_fn, EnvBase) or not callable(create_env_fn):
        return create_env_fn  # which is refused by name
    return functools.partial(_make_parallel, create_env_fn, n)


def _make_parallel(create_env_fn: Callable[..., EnvBase], n: int, **kwargs: Any) -> ParallelEnv:
    return ParallelEnv(n, create_env_fn, create_env_kwargs=kwargs or None)
