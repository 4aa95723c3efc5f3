"""What a worker process of a collector runs: a collector, which collects a batch for each signal.

See :mod:`rlnb.collectors.multi` for how the processes work together.
"""

from __future__ import annotations

import contextlib
import copy
import random
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.collectors.collector import Collector
from rlnb.collectors.shared import SharedBatch
from rlnb.collectors.weights import SharedWeights, WeightsPlan
from rlnb.data.ted.block import LeafInfo
from rlnb.data.ted.keys import COLLECTOR, TRAJ_IDS
from rlnb.envs.batched import pickling
from rlnb.envs.batched.memory import SharedMemory
from rlnb.envs.batched.worker import Task, WorkerFailure

#: Bits of the signal that lets a worker collect a batch: always, after a reset, with random actions.
COLLECT, ANEW, RANDOM = 0x10, 0x01, 0x02

Pickled = tuple[bytes, list[torch.Tensor]]


@dataclass(frozen=True)
class Setup:
    """What makes the collector of a worker."""

    make_env: Pickled  # a function
    env_kwargs: Pickled
    policy: Pickled  # a policy, or a function that makes one
    has_factory: bool
    init_fn: Pickled  # a function that is called first, or None
    options: dict[str, Any]  # other options of the collector
    first_id: int  # number of trajectories with an id


class Info(NamedTuple):
    """Description of the collector of a worker."""

    frames_per_batch: int
    steps: int  # of a batch in time
    weights: dict[str, LeafInfo] | None  # of a policy that is a module, all of whose weights are tensors


class Collected(NamedTuple):
    """What a worker answers when it has collected a batch."""

    frames: int
    steps: int
    version: int  # of the policy that made it
    ids: int  # number of trajectories with an id so far
    in_memory: bool  # whether the batch is in shared memory
    data: TensorDictBase | None  # the batch otherwise, None if the worker has written it to the buffer
    moments: tuple[int, ...] = ()  # when it did what, by a clock of this machine; see rlnb.collectors.trace

    @property
    def was_written(self) -> bool:
        """Whether the worker has written the batch to the buffer."""
        return not self.in_memory and self.data is None


def make_collector(setup: Setup, kind: type[Collector] = Collector) -> Collector:
    """Make the collector of a worker, in the worker."""
    init_fn = pickling.load(*setup.init_fn)
    if init_fn is not None:
        init_fn()
    policy = pickling.load(*setup.policy)
    if setup.has_factory:
        policy = policy()
    elif isinstance(policy, torch.nn.Module):
        # If the learner's parameters are in shared memory, its optimizer would change them in the middle of a batch.
        policy = copy.deepcopy(policy)
    made = kind(
        pickling.load(*setup.make_env),
        policy,
        create_env_kwargs=pickling.load(*setup.env_kwargs),
        **setup.options,
    )
    made._ids.free = setup.first_id
    return made


class CollectorHost:
    """The collector of a worker process; see :class:`~rlnb.envs.batched.worker.Host`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        (self.rank,) = task.envs
        self.collector: Any = None
        self.version = -1  # of the weights that the policy has, -1 for those that it was made with
        self.weights: SharedWeights | None = None
        self.batch: SharedBatch | None = None

    def do_make(self, i: int, shared: list[torch.Tensor]) -> Info:
        """Make the collector, and describe it."""
        ((make, kwargs),) = pickling.load(self.task.make, shared)
        return self._describe(make(**kwargs))

    def _describe(self, made: Any) -> Info:
        """Use a collector from now on, and describe it."""
        self.collector = made
        weights = None
        if isinstance(made.policy, torch.nn.Module):
            state = made.policy.state_dict()
            if all(isinstance(value, torch.Tensor) for value in state.values()):
                weights = {name: (value.shape, value.dtype) for name, value in state.items()}
        return Info(made.frames_per_batch, made._steps, weights)

    def connect(self, plan: Any, memory: SharedMemory | None) -> None:
        """Use shared memory for weights, or for batches."""
        assert memory is not None
        if isinstance(plan, WeightsPlan):
            self.weights = SharedWeights(plan, memory)
            if plan.stops_early:
                self.collector._interruptor = self.weights
        else:
            self.batch = SharedBatch(plan, memory)
            memory.close()

    def notified(self, signal: bytes) -> dict[int, Any]:
        """Collect a batch."""
        try:
            answer: Any = self._collect(signal[0])
        except Exception as error:
            answer = WorkerFailure.of(error)
        return {self.rank: answer}

    def _collect(self, flags: int) -> Collected:
        began, collector = time.perf_counter_ns(), self.collector
        self.do_catch_up(self.rank)
        collector._unfinished |= bool(flags & ANEW)
        collector.init_random_frames = collector.frames + 1 if flags & RANDOM else 0
        data = collector._collect()
        collected = time.perf_counter_ns()
        frames, steps = collector._taken, data.batch_size[-1]
        if collector.track_traj_ids:
            data.get((COLLECTOR, TRAJ_IDS)).mul_(self.task.n).add_(self.rank)
        if collector.replay_buffer is not None:
            collector._write(collector._processed(data))
            data = None
        elif data.device is not None and data.device.type != "cpu":
            data = data.to("cpu")
        collector._finish()
        in_memory = data is not None and self.batch is not None and self.batch.write(data)
        return Collected(
            frames=frames,
            steps=steps,
            version=self.version,
            ids=collector._ids.free,
            in_memory=in_memory,
            data=None if in_memory else data,
            moments=(began, collected, time.perf_counter_ns()),
        )

    def do_catch_up(self, i: int) -> None:
        """Load the weights in shared memory, if they are newer than those of the policy and meant for this worker."""
        weights = self.weights
        if weights is not None and weights.wanted[self.rank] != self.version:
            self._set_version(weights.load_into(self.collector.policy) if weights.tensors else weights.version)

    def do_load_weights(self, i: int, version: int, state: Any) -> None:
        """Load weights that came as a message, a state dict, into the policy. None: only the version changes."""
        if state is not None:
            self.collector.policy.load_state_dict(state)
        self._set_version(version)

    def _set_version(self, version: int) -> None:
        self.version = version
        if self.collector._version is not None:
            self.collector._version = version

    def do_write_to(self, i: int, receivers: bytes) -> None:
        """Write to a buffer from now on; ``receivers`` are attributes of the collector, pickled."""
        vars(self.collector).update(pickling.load(receivers, []))

    def do_weights(self, i: int) -> Any:
        """Return the state dict of the policy."""
        return {name: value.detach().cpu().clone() for name, value in self.collector.policy.state_dict().items()}

    def do_seed(self, i: int, seed: int, static_seed: bool) -> int | None:
        """Seed the env, and the random generators of this process."""
        following: int | None = self.collector.set_seed(seed, static_seed)
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        return following

    def do_state(self, i: int) -> dict[str, Any]:
        """Return the state dict of the env, and the number of trajectories with an id."""
        return {"env_state_dict": self.collector.env.state_dict(), "traj_ids": self.collector._ids.free}

    def do_load(self, i: int, state: dict[str, Any]) -> None:
        """Load the result of :meth:`do_state`. The next batch starts with a reset."""
        self.collector.env.load_state_dict(state["env_state_dict"])
        self.collector._ids.free = max(state["traj_ids"], self.collector._ids.free)
        self.collector._root = None
        self.version = -1  # the weights change, and their version may be the same as now

    def do_reset(self, i: int, kwargs: dict[str, Any]) -> None:
        """Start new episodes with the next batch."""
        self.collector.reset(None, **kwargs)

    def do_fake(self, i: int) -> TensorDictBase:
        """Return a batch of zeros."""
        fake: TensorDictBase = self.collector.fake_tensordict()
        return fake

    def do_read(self, i: int, name: str) -> Any:
        """Return an attribute of the collector, such as "env.g"."""
        found = self.collector
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def close(self) -> None:
        """Close the env."""
        if self.collector is not None:
            with contextlib.suppress(Exception):
                self.collector.shutdown()
