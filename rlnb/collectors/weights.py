"""Weights of a policy: read from modules, TensorDicts and state dicts, and kept in memory that processes share."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.collectors.shared import allocate_tensors, size_of_tensors
from rlnb.data.ted.block import LeafInfo
from rlnb.envs.batched.memory import SharedMemory

_POLL_INTERVAL = 2e-4  # seconds between two attempts while another process has the lock


def as_state_dict(source: Any, own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert weights that a user has given to a state dict.

    Args:
        source: a module, its parameters as a TensorDict, or a state dict. A TensorDict may lack some entries.
        own: state dict of the policy that the weights are for.

    Raises:
        TypeError: If the weights are of another type.
        RuntimeError: If names or shapes differ from those of the policy.
    """
    if isinstance(source, torch.nn.Module):
        source = source.state_dict()
    elif isinstance(source, TensorDictBase):
        flat = source.detach().flatten_keys(".")
        source = {**own, **dict(flat.items())}
    elif not isinstance(source, Mapping):
        raise TypeError(
            f"policy_or_weights must be a module, a TensorDict of parameters or a state dict, got a "
            f"{type(source).__name__}. Fix: collector.update_policy_weights_(policy)."
        )
    wrong = [key for key in {*own, *source} if _differs(own, source, key)]
    if wrong:
        raise RuntimeError(
            f"The weights do not fit the policy: these differ in name or shape: {sorted(wrong)}. "
            "Fix: collector.update_policy_weights_(policy), with a policy of the same architecture."
        )
    return source


def _differs(own: Mapping[str, Any], given: Mapping[str, Any], key: str) -> bool:
    """Return whether only one of two state dicts has an entry, or its shapes differ."""
    if key not in own or key not in given:
        return True
    return getattr(own[key], "shape", None) != getattr(given[key], "shape", None)


@dataclass(frozen=True)
class WeightsPlan:
    """Plan of the shared memory of weights, for a number of workers."""

    workers: int
    tensors: dict[str, LeafInfo]  # shape and dtype of each entry of the state dict
    shared: bool = True  # whether other processes have the memory, too
    stops_early: bool = False  # whether workers look at the flag that ends batches early, which takes time

    @property
    def size(self) -> int:
        """Number of bytes of the memory."""
        return size_of_tensors({"header": (torch.Size([2 + self.workers]), torch.int64), **self.tensors})


class SharedWeights:
    """Weights in shared memory, with their version. A process reads and writes whole versions only.

    Beside the weights, the memory has the version that each worker is to use, and a flag that stops all workers in the
    middle of a batch.

    Args:
        plan: the plan of the memory.
        memory: the memory; its descriptor stays open, because the lock between the processes is a lock on it.
        timeout: seconds that :meth:`write` waits for a worker that reads. ``None``: no limit.

    Example:
        >>> plan = WeightsPlan(2, {"bias": (torch.Size([3]), torch.float32)})
        >>> weights = SharedWeights(plan, SharedMemory(plan.size))
        >>> weights.write({"bias": torch.ones(3)}, [0, 1])
        >>> weights.version, weights.tensors["bias"], weights.wanted.tolist()
        (1, tensor([1., 1., 1.]), [1, 1])
    """

    def __init__(self, plan: WeightsPlan, memory: SharedMemory, timeout: float | None = None) -> None:
        self._memory, self._timeout, self.plan = memory, timeout, plan
        header = memory.array((2 + plan.workers,), np.dtype("int64"))
        self._version, self._stop, self.wanted = header[:1], header[1:2], header[2:]
        self.tensors = allocate_tensors(plan.tensors, memory)
        self._threads = threading.RLock()

    @property
    def memory(self) -> SharedMemory:
        """The memory, which workers are connected to."""
        return self._memory

    @property
    def version(self) -> int:
        """Number of times that the weights were written."""
        return int(self._version[0])

    def write(self, state: Mapping[str, torch.Tensor] | None, workers: Any, version: int | None = None) -> None:
        """Write weights, and let these workers use them from their next batch on.

        Args:
            state: the weights. ``None``: only the version changes.
            workers: indices of the workers.
            version: number of the version. Default: the next one.
        """
        with self._lock():
            if state is not None:
                with torch.no_grad():
                    for name, tensor in self.tensors.items():
                        tensor.copy_(state[name])
            self._version[0] = self.version + 1 if version is None else version
            self.wanted[workers] = self._version[0]

    def load_into(self, policy: torch.nn.Module) -> int:
        """Load the weights into a policy, and return their version."""
        with self._lock():
            policy.load_state_dict(self.tensors)
            return self.version

    def stop(self, stopped: bool) -> None:
        """Set whether all workers are to end their batch early."""
        self._stop[0] = stopped

    def collection_stopped(self) -> bool:
        """Return whether the worker is to end its batch early. A collector calls this as its ``interruptor``."""
        return bool(self._stop[0])

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Exclude other threads and processes. The system releases the lock of a process that ends, however it ends."""
        until = None if self._timeout is None else time.monotonic() + self._timeout
        with self._threads:
            if not self.plan.shared:
                yield
                return
            import fcntl  # processes share memory only where the system has it

            while True:
                try:
                    fcntl.lockf(self._memory.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except (BlockingIOError, PermissionError):
                    if until is not None and time.monotonic() > until:
                        raise TimeoutError(
                            f"A worker has been reading the weights of the policy for {self._timeout:g} s. Likely "
                            "cause: the process was stopped in the middle. Fix: collector.shutdown(), after which the "
                            "next batch starts new workers."
                        ) from None
                    time.sleep(_POLL_INTERVAL)
            try:
                yield
            finally:
                fcntl.lockf(self._memory.descriptor, fcntl.LOCK_UN)
