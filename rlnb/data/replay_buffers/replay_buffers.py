"""Replay buffers of TensorDicts, with and without priorities; the module where TorchRL has all its buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.data.replay_buffers import arguments
from rlnb.data.replay_buffers.buffer import DEFAULT_SIZE, ReplayBuffer
from rlnb.data.replay_buffers.errors import listed
from rlnb.data.replay_buffers.forms.tree_form import is_data
from rlnb.data.replay_buffers.samplers.base import Info
from rlnb.data.replay_buffers.samplers.prioritized import REDUCTIONS, PrioritizedSampler
from rlnb.data.replay_buffers.stacking import set_per_item
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.list_storage import ListStorage
from rlnb.data.replay_buffers.writers import INDEX_KEY, TensorDictRoundRobinWriter, Writer
from rlnb.data.ted.keys import NestedKey

__all__ = ["PrioritizedReplayBuffer", "ReplayBuffer", "TensorDictPrioritizedReplayBuffer", "TensorDictReplayBuffer"]

PRIORITY_KEY = "td_error"
# The max_size of a ListStorage without a limit is enormous; a sampler starts with at most this and grows as needed.
_MAX_INITIAL_CAPACITY = 1 << 20


class TensorDictReplayBuffer(ReplayBuffer):
    """A replay buffer of TensorDicts.

    A sample has an entry ``"index"``, and the entries of the sampler's info, such as ``"priority_weight"``.

    Args:
        priority_key: the entry with the priorities, for samplers that use them. New data with that entry brings its
            priorities along.
        **kwargs: as for :class:`ReplayBuffer`. The default writer is a :class:`TensorDictRoundRobinWriter`.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage
        >>> rb = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
        >>> rb.extend(TensorDict({"a": torch.arange(3)}, [3]))
        tensor([0, 1, 2])
        >>> sample = rb.sample()
        >>> bool((sample["a"] == sample["index"]).all())
        True
    """

    def __init__(self, *, priority_key: NestedKey = PRIORITY_KEY, **kwargs: Any) -> None:
        self.priority_key = priority_key
        super().__init__(**kwargs)

    def _default_writer(self) -> Writer:
        return TensorDictRoundRobinWriter()

    @property
    def _marks_index(self) -> bool:
        return True

    def _annotate(self, data: Any, info: Info) -> Any:
        """Write the sampler's info into the batch."""
        if is_data(data):
            for key, value in info.items():
                if key != INDEX_KEY:
                    set_per_item(data, key, value)
            self._set_index(data, info[INDEX_KEY])
        return data

    def sample(self, batch_size: int | None = None, return_info: bool = False, include_info: bool | None = None) -> Any:
        """Draw a batch of items; see :meth:`ReplayBuffer.sample`.

        Args:
            batch_size: number of items. Default: the ``batch_size`` of the constructor.
            return_info: whether to also return the sampler's info.
            include_info: ignored; accepted for code written for TorchRL. A batch always contains the info.

        Returns:
            The batch; or the batch and a dictionary.
        """
        return super().sample(batch_size, return_info)

    def _add(self, data: Any) -> Any:
        priority = self._priorities_in(data, self._storage.ndim - 1)
        index = super()._add(data)
        if priority is not None and index is not None:
            self._set_priorities(index, priority)
        return index

    def _extend(self, data: Any) -> torch.Tensor:
        priority = self._priorities_in(data, self._storage.ndim)
        index = super()._extend(data)
        if priority is not None:
            self._set_priorities(index, priority)
        return index

    def _priorities_in(self, data: Any, ndim: int) -> torch.Tensor | None:
        """Read the priorities of new data, one for each item, and check them before anything is written."""
        if not self._sampler.has_priorities:
            return None
        if isinstance(data, list):
            each = [self._priorities_in(item, ndim - 1) for item in data]
            found = [priority for priority in each if priority is not None]
            return torch.cat(found) if found and len(found) == len(each) else None
        value = data.get(self.priority_key, None) if is_data(data) else None
        if value is None or not value.numel():
            return None
        priority = self._reduce(value, data.batch_size[:ndim].numel())
        self._sampler.check_priority(priority, len(priority))
        return priority

    def _reduce(self, value: torch.Tensor, count: int) -> torch.Tensor:
        """Reduce priorities to one for each of ``count`` items."""
        each = value.detach().reshape(count, -1)
        return REDUCTIONS[getattr(self._sampler, "reduction", "max")](each)

    def _set_priorities(self, index: Any, priority: torch.Tensor) -> None:
        """Set the priorities of items that were just written; an index of -1 means that an item was not kept."""
        stored = torch.as_tensor(index)
        kept = (stored.reshape(len(priority), -1) >= 0).all(1)
        if not kept.all():
            stored, priority = stored[kept], priority[kept]
        self._sampler.update_priority(stored, priority, storage=self._storage)

    def update_tensordict_priority(self, data: Any) -> None:
        """Change the priorities of the items of a sample, to those in its entry ``priority_key``.

        No effect if the sampler has no priorities.

        Args:
            data: a sample with the entries ``"index"`` and ``priority_key``. Several values for one item are combined
                by the sampler's ``reduction``.

        Raises:
            KeyError: If one of the entries is missing.
            TypeError: If ``data`` is not a TensorDict.
            ValueError: If a priority is NaN, infinite or negative; nothing is changed then.
        """
        if not self._sampler.has_priorities:
            return
        if not is_data(data):
            raise TypeError(
                f"update_tensordict_priority takes a sample, a TensorDict, and got: {type(data).__name__}. "
                "Fix: buffer.update_priority(index, priority)."
            )
        if data.get(INDEX_KEY, None) is None:
            raise KeyError(
                "The sample has no entry 'index' with the index of its items in the buffer; it has "
                f"{listed(data.keys(True, True))}. "
                "Fix: keep the entry when you change a sample, or buffer.update_priority(index, priority)."
            )
        if data.get(self.priority_key, None) is None:
            raise KeyError(
                f"The priorities are read from {self.priority_key!r}, which the data does not have; it has "
                f"{listed(data.keys(True, True))}. "
                f"Fix: data.set({self.priority_key!r}, td_error.abs()), or make the buffer with another priority_key."
            )
        index, ndim = data.get(INDEX_KEY), self._storage.ndim
        for _ in range(self._storage.element_dims):  # the index is repeated over the dimensions of the item itself
            index = index.select(-1 if ndim == 1 else -2, 0)
        count = index.numel() if ndim == 1 else index.numel() // ndim
        if count:
            self.update_priority(index, self._reduce(data.get(self.priority_key), count))


class PrioritizedReplayBuffer(ReplayBuffer):
    """A replay buffer of any data with a :class:`PrioritizedSampler`.

    ``sample(return_info=True)`` returns the index and the weight of each item beside the batch.

    Args:
        alpha: how strongly priorities influence the choice: 0 for a uniform choice, 1 for fully proportional.
        beta: how strongly the weights correct for that: 0 for not at all, 1 for completely.
        eps: as for :class:`PrioritizedSampler`, like ``dtype`` and ``reduction``.
        sampler_device: device of the priorities: only the CPU.
        sync: ignored; accepted for code written for TorchRL. Updated priorities always apply to the next sample.
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

    prioritized_sampler = ReplayBuffer.sampler


class TensorDictPrioritizedReplayBuffer(TensorDictReplayBuffer):
    """A replay buffer of TensorDicts with a :class:`PrioritizedSampler`.

    New data with the entry ``priority_key`` brings its priorities along. A sample has its weights in
    ``"priority_weight"``; :meth:`update_tensordict_priority` reads the new priorities from it.

    Args:
        priority_key: the entry with the priorities.
        **kwargs: as for :class:`TensorDictReplayBuffer`, except for the sampler; the others are as for
            :class:`PrioritizedReplayBuffer`.

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

    prioritized_sampler = ReplayBuffer.sampler


def _with_sampler(
    storage: Storage | Callable[[], Storage] | None, alpha: float, beta: float, **kwargs: Any
) -> dict[str, Any]:
    """Make the storage, and a sampler of the same capacity."""
    made = arguments.component("storage", Storage, storage, lambda: ListStorage(DEFAULT_SIZE))
    capacity = min(made.max_size, _MAX_INITIAL_CAPACITY)
    return {"storage": made, "sampler": PrioritizedSampler(capacity, alpha, beta, **kwargs)}
