"""Prioritized replay buffers: for any data, and for TensorDicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.data.replay_buffers.replay_buffers import arguments
from rlnb.data.replay_buffers.replay_buffers.buffer import ReplayBuffer
from rlnb.data.replay_buffers.replay_buffers.components import DEFAULT_SIZE
from rlnb.data.replay_buffers.replay_buffers.tensordict_buffer import PRIORITY_KEY, TensorDictReplayBuffer
from rlnb.data.replay_buffers.samplers import PrioritizedSampler, Sampler
from rlnb.data.replay_buffers.storages import ListStorage, Storage
from rlnb.data.ted.keys import NestedKey

# A storage without a limit names an enormous one; the sampler grows with what is there.
_MOST_AT_FIRST = 1 << 20


def _with_sampler(
    storage: Storage | Callable[[], Storage] | None, alpha: float, beta: float, **kwargs: Any
) -> dict[str, Any]:
    """The storage, and a sampler for as many elements."""
    made = arguments.component("storage", Storage, storage, lambda: ListStorage(DEFAULT_SIZE))
    capacity = min(made.max_size, _MOST_AT_FIRST)
    return {"storage": made, "sampler": PrioritizedSampler(capacity, alpha, beta, **kwargs)}


class PrioritizedReplayBuffer(ReplayBuffer):
    """A replay buffer of any data with a :class:`PrioritizedSampler`.

    ``sample(return_info=True)`` returns the index and the weight of each element beside the batch.

    Args:
        alpha: how much priorities count.
        beta: how much the weights correct for them.
        eps: added to priorities.
        dtype: of the weights.
        storage: as for :class:`ReplayBuffer`.
        reduction: how several priorities of one element become one.
        sampler_device: where the priorities are: only the CPU.
        sync: taken, so that code for TorchRL runs: an update of priorities counts from the next sample on.
        **kwargs: as for :class:`ReplayBuffer`, except for the sampler.

    Example:
        >>> from rlnb.data import LazyTensorStorage
        >>> rb = PrioritizedReplayBuffer(alpha=0.7, beta=0.9, storage=LazyTensorStorage(10), batch_size=2)
        >>> rb.extend(torch.arange(4))
        tensor([0, 1, 2, 3])
        >>> batch, info = rb.sample(return_info=True)
        >>> info["priority_weight"]
        tensor([1., 1.])
        >>> rb.update_priority(info["index"], torch.tensor([2.0, 3.0]))
    """

    def __init__(
        self,
        *,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        storage: Storage | Callable[[], Storage] | None = None,
        reduction: str = "max",
        sampler_device: torch.device | str | None = None,
        sync: bool = True,
        **kwargs: Any,
    ) -> None:
        parts = _with_sampler(storage, alpha, beta, eps=eps, dtype=dtype, reduction=reduction, device=sampler_device)
        super().__init__(**{**parts, **kwargs})

    @property
    def prioritized_sampler(self) -> Sampler:
        """The sampler."""
        return self.sampler


class TensorDictPrioritizedReplayBuffer(TensorDictReplayBuffer):
    """A replay buffer of TensorDicts with a :class:`PrioritizedSampler`.

    New data that has the entry ``priority_key`` brings its own priorities. A sample has its weights in
    ``"priority_weight"``; :meth:`update_tensordict_priority` reads the new priorities from it.

    Args:
        alpha: how much priorities count.
        beta: how much the weights correct for them.
        priority_key: the entry with the priorities.
        eps: added to priorities.
        storage: as for :class:`ReplayBuffer`.
        reduction: how several priorities of one element become one.
        sampler_device: where the priorities are: only the CPU.
        sync: taken, so that code for TorchRL runs: an update of priorities counts from the next sample on.
        **kwargs: as for :class:`TensorDictReplayBuffer`, except for the sampler.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage
        >>> rb = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(10), batch_size=3)
        >>> index = rb.extend(TensorDict({"a": torch.arange(2), "td_error": torch.tensor([2.0, 2.0])}, [2]))
        >>> sample = rb.sample()
        >>> sample["priority_weight"]
        tensor([1., 1., 1.])
        >>> rb.update_tensordict_priority(sample.set("td_error", torch.tensor([0.5, 0.5, 0.5])))
    """

    def __init__(
        self,
        *,
        alpha: float,
        beta: float,
        priority_key: NestedKey = PRIORITY_KEY,
        eps: float = 1e-8,
        storage: Storage | Callable[[], Storage] | None = None,
        reduction: str = "max",
        sampler_device: torch.device | str | None = None,
        sync: bool = True,
        **kwargs: Any,
    ) -> None:
        parts = _with_sampler(storage, alpha, beta, eps=eps, reduction=reduction, device=sampler_device)
        super().__init__(priority_key=priority_key, **{**parts, **kwargs})

    @property
    def prioritized_sampler(self) -> Sampler:
        """The sampler."""
        return self.sampler
