"""Collectors in Ray actors: the pool of actors, their weights in the object store, and what an actor runs.

See :mod:`rlnb.collectors.ray` for how the parts work together.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import rlnb
from rlnb._ray import (
    ActorPlace,
    Packed,
    connect,
    how_it_was_lost,
    is_connected,
    pack,
    session_of,
    unpack,
    why_not_placed,
)
from rlnb.collectors.collector import as_single_steps
from rlnb.collectors.multi import MultiCollector
from rlnb.collectors.weights import SharedWeights, WeightsPlan
from rlnb.collectors.worker import ANEW, RANDOM, Collected, CollectorHost, Info, Pickled, Setup, make_collector
from rlnb.collectors.workers import CollectorWorkers
from rlnb.data.ted.keys import COLLECTOR, TRAJ_IDS
from rlnb.data.ted.trajectories import split_trajectories
from rlnb.envs import errors
from rlnb.envs.batched import pickling
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.worker import Task, WorkerFailure, result_or_failure, set_up_process
from rlnb.envs.batched.worker_pool import WorkerError, name_workers, worker_seeds

_ENDLESS = 1 << 62
_CLOSE_TIME = 0.2  # seconds that actors are given to close their envs after an error


class RayOptions(NamedTuple):
    """What a RayCollector has beside the options of a collector on several processes."""

    kind: Any  # class of the collector of each actor
    configs: Sequence[Mapping[str, Any]]  # resources and placement of each actor
    kwargs: Sequence[Mapping[str, Any]]  # further options of the collector of each actor
    init: Mapping[str, Any] | None  # keyword arguments of ray.init
    max_restarts: int


# In this process --------------------------------------------------------------------------------------------------


class StoredWeights(SharedWeights):
    """Weights in Ray's object store: each version is put there once, and each node fetches it once.

    ``pool`` is the pool that the actors belong to.

    Attributes:
        stored: for each actor the version that it is to use, and where its weights are, None if it has no weights.
        bytes_put: number of bytes that were put into the object store.
    """

    def __init__(self, plan: WeightsPlan, memory: SharedMemory, timeout: float | None, pool: ActorPool) -> None:
        super().__init__(plan, memory, timeout)
        self._pool = pool
        self.stored: list[tuple[int, Any]] = [(0, None)] * plan.workers
        self.bytes_put = 0

    def write(self, state: Any, workers: Collection[int], version: int | None = None) -> None:
        """Write a new version of the weights for some actors. ``state`` None: only the version changes."""
        with self._threads:
            super().write(state, workers, version)
            ref = None
            if state is not None:
                packed = pack(dict(self.tensors))
                ref, self.bytes_put = self._pool.put(packed), self.bytes_put + packed.nbytes
            for i in workers:
                self.stored[i] = self.version, self.stored[i][1] if ref is None else ref


class RayWorkers(CollectorWorkers):
    """Workers of a collector that are Ray actors. An actor that is lost is replaced, a late one ends all.

    ``options`` are those of Ray; see :class:`~rlnb.collectors.workers.CollectorWorkers` for the others.
    """

    def __init__(
        self,
        owner: str,
        setups: Sequence[Setup],
        policy: Any,
        threads: int,
        timeout: float | None,
        shutdown_timeout: float,
        options: RayOptions,
    ) -> None:
        super().__init__(owner, setups, policy, False, False, None, threads, timeout, shutdown_timeout)
        self._options = options
        self.bytes_received = self.bytes_put = self.restarts = 0  # of pools that have ended

    def _make_pool(self, setups: Sequence[Setup]) -> Any:
        return ActorPool(self._owner, setups, self._options, self._threads, self._timeout, self._shutdown_timeout)

    def _allocate_weights(self, plan: WeightsPlan) -> SharedWeights:
        pool = self._running()
        weights = pool.weights = StoredWeights(plan, SharedMemory(plan.size), self._timeout, pool)
        return weights

    @property
    def sends_weights(self) -> bool:
        """False: a signal refers to the weights in the object store."""
        return False

    def end(self, patience: float | None = None) -> None:
        """End the actors. What was not taken yet is lost; the weights are kept for new ones."""
        self.bytes_received, self.bytes_put, self.restarts = self.traffic()
        super().end(patience)

    def traffic(self) -> tuple[int, int, int]:
        """Return the bytes received from actors, the bytes of weights put into the object store, and the restarts."""
        pool, weights = self._pool, self._weights
        found = self.bytes_received, self.bytes_put, self.restarts
        if pool is not None:
            put = weights.bytes_put if isinstance(weights, StoredWeights) else 0
            found = found[0] + pool.bytes_received, found[1] + put, found[2] + pool.restarts
        return found

    def places(self) -> list[ActorPlace | None]:
        """Return where the actors run, None for one that does not run yet."""
        pool = self._pool
        return [None] * self.n if pool is None else [pool.place(i) for i in range(self.n)]

    def actors(self) -> list[Any]:
        """Return the handles of the actors."""
        return [] if self._pool is None else list(self._pool.actors)

    @property
    def alive(self) -> int:
        """Number of actors."""
        return len(self.actors())


class _Lost(Exception):
    """An actor is lost: its process or its node has ended."""

    def __init__(self, i: int) -> None:
        super().__init__(i)
        self.i = i


class ActorPool:
    """Ray actors, each with a collector: a :class:`~rlnb.envs.batched.worker_pool.WorkerPool` on any machines.

    Attributes:
        actors: handles of the actors.
        weights: the weights that the actors load when they begin a batch.
        bytes_received: number of bytes that came from the actors.
        restarts: number of actors that were replaced.
    """

    def __init__(
        self,
        owner: str,
        setups: Sequence[Setup],
        options: RayOptions,
        threads: int,
        timeout: float | None,
        shutdown_timeout: float,
    ) -> None:
        self.ray = ray = connect(owner, options.init)
        self._session = session_of(ray)
        self.owner, self.n, self.timeout, self.shutdown_timeout = owner, len(setups), timeout, shutdown_timeout
        self.lock = threading.RLock()
        self._closed_by_another_thread = False
        self._setups, self._options = setups, options
        quiet, registered = bool(rlnb.filter_warnings_subprocess), pickling.dump_registered()
        self._processes = [
            (self.n, CollectorHost, threads, quiet, seed, registered) for seed in worker_seeds(self.n, 0)
        ]
        self.actors: list[Any] = []
        self._made: list[Any] = [None] * self.n  # references to the answers of the first calls
        self._where: list[Any] = [None] * self.n
        self._places: list[ActorPlace | None] = [None] * self.n
        self._first_ids = [setup.first_id for setup in setups]
        self._sent: dict[int, tuple[Any, int, float]] = {}  # of each batch: its reference, the signal, and when
        self._loaded: list[Any] = [None] * self.n  # reference to the weights that each actor was sent
        self._receivers: dict[int, Any] = {}  # what each actor writes its batches to, if it does
        self._in_a_row = [0] * self.n  # times that each was replaced since its last batch
        self.weights: StoredWeights | None = None
        self.bytes_received = self.restarts = 0
        self._actor_class = ray.remote(CollectorActor)
        # Each part is put once, however many actors share it.
        self._parts: dict[int, Any] = {}
        try:
            for i in range(self.n):
                self._create(i)
        except BaseException:
            self.close(_CLOSE_TIME)
            raise

    def _create(self, i: int) -> None:
        """Create an actor, and let it make its collector; do not wait for it."""
        setup, options = self._setups[i], self._options
        actor = self._actor_class.options(**options.configs[i]).remote(i, *self._processes[i])
        if i < len(self.actors):
            self.actors[i] = actor
        else:
            self.actors.append(actor)
        self._places[i], self._loaded[i], self._where[i] = None, None, actor.where.remote()
        given = {**setup.options, **options.kwargs[i]}
        parts = [self._part(part) for part in (setup.make_env, setup.env_kwargs, setup.policy, setup.init_fn)]
        self._made[i] = actor.make.remote(pack((options.kind, given)), setup.has_factory, self._first_ids[i], *parts)

    def _part(self, part: Any) -> Any:
        if id(part) not in self._parts:
            self._parts[id(part)] = self.put(pack(part))
        return self._parts[id(part)]

    def put(self, packed: Packed) -> Any:
        """Put a packed object into the object store, and return a reference to it."""
        if not self.is_connected():
            self.close(0)
            raise self._ray_ended("update_policy_weights_")
        return self.ray.put(packed)

    # Requests -----------------------------------------------------------------------------------------------------

    def request(self, messages: Mapping[int, tuple[str, Any]], what: str) -> dict[int, Any]:
        """Call a ``do_...`` method of the hosts of some actors, and return the results.

        Raises:
            WorkerError: If one raises, or an actor is lost.
            TimeoutError: If an actor does not answer in time.
        """
        with self._exchange(what) as until:
            refs = {i: self.actors[i].call.remote(name, pack(given)) for i, (name, given) in messages.items()}
            answers = self._gather(refs, what, until)
            self._receivers.update({i: pack(given) for i, (name, given) in messages.items() if name == "write_to"})
            return answers

    def env_infos(self) -> list[Any]:
        """Wait until all actors have made their collectors, and return the ``Info`` of each."""
        with self._exchange("start") as until:
            answers = self._gather(dict(enumerate(self._made)), "start", until)
            for i in range(self.n):
                self.place(i)
        return [answers[i] for i in range(self.n)]

    def signal(self, signals: Mapping[int, bytes], what: str) -> dict[int, float]:
        """Let actors collect a batch each, without waiting for them; see :meth:`receive`."""
        with self._exchange(what):
            for i, signal in signals.items():
                self._let_collect(i, signal[0])
        return {i: self._sent[i][2] for i in signals}

    def _let_collect(self, i: int, signal: int) -> None:
        version, ref = (0, None) if self.weights is None else self.weights.stored[i]
        # An actor that was sent these weights before gets no reference: it would fetch them for each batch.
        new, self._loaded[i] = None if ref is self._loaded[i] else ref, ref
        self._sent[i] = self.actors[i].collect.remote(signal, version, new), signal, time.monotonic()

    def receive(self, sent: Mapping[int, float], what: str, at_least: int = 1) -> dict[int, Any]:
        """Wait until some of the actors have collected their batches, and return the answers.

        An actor that is lost is replaced by a new one, which collects the batch instead.

        Args:
            sent: the actors whose answers are outstanding.
            what: what they were asked for, for errors.
            at_least: number of answers to wait for.

        Raises:
            WorkerError: If an actor is lost, and was replaced ``max_restarts`` times in a row.
            TimeoutError: If an actor has not answered in time. All are ended then.
        """
        answers: dict[int, Any] = {}
        with self._exchange(what):
            while len(answers) < at_least:
                pending = {i: self._sent[i] for i in sent if i not in answers}
                until = None if self.timeout is None else min(since for *_, since in pending.values()) + self.timeout
                refs = {i: ref for i, (ref, *_) in pending.items()}
                ready = self._ready(refs, at_least - len(answers), until)
                now = time.monotonic()
                late = {i for i, (*_, since) in pending.items() if i not in ready and self._is_late(since, now)}
                if late or not ready:
                    raise self._late(late or set(pending), what)
                for i in ready:
                    try:
                        answers[i] = self._fetch(i, refs[i], what)
                    except _Lost as lost:
                        self._replace(lost, what)
                        continue
                    self._in_a_row[i] = 0
                    if isinstance(answers[i], Collected):
                        self._first_ids[i] = answers[i].ids
                    else:
                        self._loaded[i] = None  # it may have failed before it loaded them
                    del self._sent[i]
        return answers

    def _is_late(self, since: float, now: float) -> bool:
        return self.timeout is not None and since + self.timeout < now

    def _ready(self, refs: Mapping[int, Any], at_least: int, until: float | None) -> list[int]:
        """Wait until some answers are here, and return whose; fewer if time runs out."""
        seconds = None if until is None else max(0.0, until - time.monotonic())
        ready, _ = self.ray.wait(list(refs.values()), num_returns=at_least, timeout=seconds)
        if len(ready) < len(refs):
            ready, _ = self.ray.wait(list(refs.values()), num_returns=len(refs), timeout=0)
        return [i for i, ref in refs.items() if ref in ready]

    def _gather(self, refs: Mapping[int, Any], what: str, until: float | None) -> dict[int, Any]:
        """Wait for an answer of each actor. Failures are raised when no answer is outstanding any more."""
        ready = self._ready(refs, len(refs), until)
        answers = {}
        for i in ready:
            try:
                answers[i] = self._fetch(i, refs[i], what)
            except _Lost as lost:
                raise self._was_lost(lost, what) from lost.__cause__
        if len(ready) < len(refs):
            raise self._late(set(refs) - set(ready), what)
        failures = {i: answer for i, answer in answers.items() if isinstance(answer, WorkerFailure)}
        if failures:
            raise self.failed(failures, what)
        return answers

    def _fetch(self, i: int, ref: Any, what: str) -> Any:
        """Fetch an answer that is ready."""
        exceptions = self.ray.exceptions
        try:
            packed: Packed = self.ray.get(ref, timeout=self.timeout)
        except exceptions.GetTimeoutError:
            raise self._late({i}, what) from None
        except exceptions.RayTaskError as error:  # before or after our own code, such as a module that a node lacks
            return WorkerFailure(type(error.cause).__name__, str(error.cause), str(error).rstrip())
        except exceptions.RayError as error:
            raise _Lost(i) from error
        self.bytes_received += packed.nbytes
        return unpack(packed)

    @contextlib.contextmanager
    def _exchange(self, what: str) -> Iterator[float | None]:
        """Yield when to give up. Close the pool if answers may be outstanding: the next request would get them."""
        with self.lock:
            if not self.actors:
                raise RuntimeError(self._closed_meanwhile(what))
            try:
                if not self.is_connected():
                    raise self._ray_ended(what)
                yield None if self.timeout is None else time.monotonic() + self.timeout
            except WorkerError as error:
                if error.failure is None:
                    self.close(_CLOSE_TIME)
                raise
            except BaseException as error:
                interrupted = not isinstance(error, Exception)
                gone = not interrupted and not isinstance(error, TimeoutError) and not self.is_connected()
                self.close(_CLOSE_TIME)
                if gone:
                    raise self._ray_ended(what) from error
                raise

    # Lost and late actors -----------------------------------------------------------------------------------------

    def place(self, i: int) -> ActorPlace | None:
        """Return where an actor runs, None if it does not run yet."""
        if self._places[i] is None and self._where[i] is not None and self.is_connected():
            ready, _ = self.ray.wait([self._where[i]], timeout=0)
            if ready:
                with contextlib.suppress(self.ray.exceptions.RayError):
                    self._places[i] = ActorPlace(*self.ray.get(ready[0]))
        return self._places[i]

    def _name(self, i: int) -> str:
        place = self.place(i)
        return f"Worker {i} of {self.n} ({'not placed yet' if place is None else place})"

    def _replace(self, lost: _Lost, what: str) -> None:
        """Create a new actor in place of one that is lost, and let it collect the batch."""
        i = lost.i
        if self._closed_by_another_thread:
            raise RuntimeError(self._closed_meanwhile(what))
        if not self.is_connected():
            raise self._ray_ended(what)
        self._in_a_row[i] += 1
        if self._in_a_row[i] > self._options.max_restarts:
            raise self._was_lost(lost, what) from lost.__cause__
        name, how = self._name(i), how_it_was_lost(self.ray, self._places[i], lost.__cause__)
        _, signal, _ = self._sent[i]
        self.restarts += 1
        self._create(i)
        if i in self._receivers:
            self.actors[i].call.remote("write_to", self._receivers[i])
        self._let_collect(i, signal | ANEW)
        warnings.warn(
            f"{name} was lost in the middle of {what}: {how}. A new actor collects its batch instead, from a reset, "
            "with the same weights; the steps of the lost one since its last batch are lost.",
            RuntimeWarning,
            stacklevel=2,
        )

    def _was_lost(self, lost: _Lost, what: str) -> Exception:
        if self._closed_by_another_thread:
            return RuntimeError(self._closed_meanwhile(what))
        if not self.is_connected():
            return self._ray_ended(what)
        i, n = lost.i, self._options.max_restarts
        how = how_it_was_lost(self.ray, self.place(i), lost.__cause__)
        times = f" for the {_ordinal(n + 1)} time in a row" if n and self._in_a_row[i] > n else ""
        return WorkerError(
            f"{self._name(i)} was lost in the middle of {what}{times}: {how}. The steps since its last batch are lost. "
            f"All workers were ended; collector.next() starts new ones. Ray says: {_first_line(lost.__cause__)}"
        )

    def _late(self, pending: Collection[int], what: str) -> TimeoutError:
        text = (
            f"{', '.join(map(self._name, sorted(pending)))} did not finish {what} within {self.timeout:g} s. All "
            "workers were ended; collector.next() starts new ones. "
        )
        waiting = [i for i in pending if self.place(i) is None]
        if waiting:
            asked = dict(self._options.configs[min(waiting)])
            has = {name: count for name, count in sorted(self.ray.cluster_resources().items()) if ":" not in name}
            no_room = (
                f"Likely cause: no node has room for an actor with {asked}; the cluster has {_resources(has)} in all. "
                "Fix: remote_configs={'num_cpus': 1}, or fewer num_collectors."
            )
            text += why_not_placed(self.ray, asked, no_room, f"{self.owner}(..., timeout=600)")
        else:
            text += f"If it takes that long, give more time: {self.owner}(..., timeout=600)."
        return TimeoutError(text)

    def failed(self, failures: Mapping[int, WorkerFailure], what: str) -> WorkerError:
        """Make an error of failures, with the traceback of the first one."""
        first, *others = sorted(failures)
        also = f" ({name_workers(others).lower()} failed, too)" if others else ""
        failure = failures[first]
        return WorkerError(
            f"{self._name(first)} failed in {what}: {failure.kind}: {failure.text}{also}\n\n"
            f"In the worker:\n{failure.lines}",
            failure,
        )

    def is_connected(self) -> bool:
        """Return whether Ray still runs as when the actors were created."""
        return is_connected(self.ray, self._session)

    def _ray_ended(self, what: str) -> WorkerError:
        actors = "actor" if self.n == 1 else f"{self.n} actors"
        return WorkerError(
            f"Ray was shut down before {self.owner} finished {what}, and its {actors} with it. Lost are the "
            "steps since their last batches. Likely cause: ray.shutdown() in this process. Fix: collector.next(), "
            "which starts Ray and new actors with the same weights."
        )

    def _closed_meanwhile(self, what: str) -> str:
        advice = "collector.next() starts new", "a collector before collector.shutdown()"
        return errors.closed_by_another_thread(what, self.owner, *advice)

    # End ----------------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the pool has not been closed."""
        return bool(self.actors)

    def close(self, patience: float | None = None) -> None:
        """End all actors: ask them to close their envs, then kill them.

        ``patience`` is how many seconds they are given for that. Default: ``shutdown_timeout``.
        """
        if not self.lock.acquire(blocking=False):
            # Another thread waits for answers. It finds the actors dead, and releases the lock.
            self._closed_by_another_thread = True
            self._kill(list(self.actors))
            self.lock.acquire()
        try:
            actors, self.actors = self.actors, []
            self._sent.clear()
            if actors and self.is_connected():
                try:
                    refs = [actor.close.remote() for actor in actors]
                    seconds = self.shutdown_timeout if patience is None else patience
                    self.ray.wait(refs, num_returns=len(refs), timeout=seconds)
                finally:  # at once on a second Ctrl+C
                    self._kill(actors)
        finally:
            self.lock.release()

    def _kill(self, actors: list[Any]) -> None:
        for actor in actors:
            with contextlib.suppress(Exception):
                self.ray.kill(actor)


def _ordinal(n: int) -> str:
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or ["nothing"])[0]


def _resources(found: Mapping[str, float]) -> str:
    return str({name: round(count, 2) for name, count in found.items() if name in ("CPU", "GPU")})


# In an actor ------------------------------------------------------------------------------------------------------


class CollectorActor:
    """A Ray actor with a collector, which a host runs as in a worker process. All answers are packed.

    ``rank`` is the index of the actor; the other arguments are those of a
    :class:`~rlnb.envs.batched.worker.Task`, which takes path, environment and directory from this process: Ray has set
    them.
    """

    def __init__(self, rank: int, n: int, *settings: Any) -> None:
        self.rank, self.task = rank, Task([rank], n, b"", *settings)
        set_up_process(self.task)
        self.host: Any = None
        self.failure: WorkerFailure | None = None  # in making the collector

    def where(self) -> tuple[Any, ...]:
        """Describe where this actor runs."""
        return tuple(ActorPlace.here())

    def make(self, packed: Packed, has_factory: bool, first_id: int, *parts: Packed) -> Packed:
        """Make the collector; return the :class:`~rlnb.collectors.worker.Info` about it.

        ``packed`` has the class and the options of the collector, ``parts`` the functions and the policy of a
        :class:`~rlnb.collectors.worker.Setup`.
        """

        def make() -> Info:
            kind, options = unpack(packed)
            make_env, env_kwargs, policy, init_fn = map(unpack, parts)
            setup = Setup(make_env, env_kwargs, policy, has_factory, init_fn, options, first_id)
            is_multi = isinstance(kind, type) and issubclass(kind, MultiCollector)
            self.host = MultiHost(self.task, setup) if is_multi else CollectorHost(self.task)
            info: Info = self.host._describe(make_multi(setup, kind) if is_multi else make_collector(setup, kind))
            return info

        answer = result_or_failure(make)
        self.failure = answer if isinstance(answer, WorkerFailure) else None
        return pack(answer)

    def call(self, name: str, arguments: Packed) -> Packed:
        """Call a ``do_...`` method of the host."""
        return _answer(lambda: getattr(self.host, f"do_{name}")(self.rank, *unpack(arguments)))

    def collect(self, signal: int, version: int, weights: Packed | None) -> Packed:
        """Collect a batch with this version of the policy; ``weights`` are given if they are new."""

        def collect() -> Any:
            if self.failure is not None:
                return self.failure
            if weights is not None or version != self.host.version:
                self.host.do_load_weights(self.rank, version, None if weights is None else unpack(weights))
            # Clocks of two machines cannot be compared.
            answer: Collected = self.host._collect(signal)
            return answer._replace(moments=())

        return _answer(collect)

    def close(self) -> None:
        """Close the env."""
        if self.host is not None:
            self.host.close()


def _answer(function: Callable[[], Any]) -> Packed:
    """Pack the result of a function, or the failure if it raises or its result cannot be pickled."""
    packed: Any = result_or_failure(lambda: pack(function()))
    return pack(packed) if isinstance(packed, WorkerFailure) else packed


def make_multi(setup: Setup, kind: type[MultiCollector]) -> MultiCollector:
    """Make a collector with worker processes of its own, in an actor."""
    policy = unpack_part(setup.policy)
    chosen = {"policy_factory": policy} if setup.has_factory else {"policy": policy}
    return kind(
        unpack_part(setup.make_env),
        **chosen,
        create_env_kwargs=unpack_part(setup.env_kwargs),
        init_fn=unpack_part(setup.init_fn),
        **{**setup.options, "track_policy_version": True},
    )


def unpack_part(part: Pickled) -> Any:
    """Unpickle a part of a setup."""
    return pickling.load(*part)


class MultiHost(CollectorHost):
    """The host of a collector that has worker processes of its own, in an actor."""

    def __init__(self, task: Task, setup: Setup) -> None:
        super().__init__(task)
        self.tracks_version = setup.options["track_policy_version"]
        self.tracks_ids = setup.options["track_traj_ids"]
        self.first_id = self.ids = setup.first_id
        self.versions = {0: -1}  # of this collector's weights, by those that its workers count
        self.receivers: dict[str, Any] = {}  # what a batch is written to, and how

    def _describe(self, made: Any) -> Info:
        self.collector = made
        tensors = made._workers.weights.tensors
        weights = {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
        return Info(made.frames_per_batch, made.frames_per_batch, weights or None)

    def _collect(self, flags: int) -> Collected:
        collector, before = self.collector, self.collector.frames
        if flags & ANEW:
            collector._workers.settle("reset")
            collector._workers.drop_ready()
        collector.init_random_frames = _ENDLESS if flags & RANDOM else 0
        data = collector.next()
        version = self.versions[int(data["policy_version"].flatten()[0])]
        for key in ("policy_version", ("next", "policy_version")):
            if self.tracks_version:
                data.get(key).fill_(version)
            else:
                data.del_(key)
        if self.tracks_ids:
            ids = data.get((COLLECTOR, TRAJ_IDS)).add_(self.first_id)
            self.ids = max(self.ids, int(ids.max()) + 1)
            ids.mul_(self.task.n).add_(self.rank)
        frames, steps = collector.frames - before, data.batch_size[-1]
        if self.receivers:
            self._write(data)
            data = None
        elif data.device is not None and data.device.type != "cpu":
            data = data.to("cpu")
        return Collected(frames, steps, version, self.ids, False, data)

    def _write(self, data: Any) -> None:
        given = self.receivers
        if given["split_trajs"]:
            data = split_trajectories(data, prefix="collector")
        if given["postproc"] is not None:
            data = given["postproc"](data)
        given["replay_buffer"].extend(data if given["extend_buffer"] else as_single_steps(data))

    def do_load_weights(self, i: int, version: int, state: Any) -> None:
        """Load weights, a state dict, into the workers. None: only the version changes."""
        if state is not None:
            self.collector.update_policy_weights_(state)
        else:
            self.collector.increment_version()
        self.version = version
        self.versions[self.collector.policy_version] = version

    def do_write_to(self, i: int, receivers: bytes) -> None:
        """Write to a buffer from now on; see :meth:`~rlnb.collectors.worker.CollectorHost.do_write_to`."""
        self.receivers = pickling.load(receivers, [])

    def do_weights(self, i: int) -> Any:
        """Return the weights of the workers."""
        return {name: value.clone() for name, value in self.collector._workers.weights.tensors.items()}

    def do_state(self, i: int) -> dict[str, Any]:
        """Return the state dict of the collector, and the number of trajectories with an id."""
        return {"env_state_dict": self.collector.state_dict(), "traj_ids": self.ids}

    def do_load(self, i: int, state: dict[str, Any]) -> None:
        """Load the result of :meth:`do_state`. The next batch starts with a reset."""
        self.collector.load_state_dict(state["env_state_dict"])
        self.ids = max(self.ids, state["traj_ids"])
        self.first_id, self.version, self.versions = self.ids, -1, {self.collector.policy_version: -1}
