"""TensorDictReplayBuffer: a buffer of TensorDicts, whose samples say where they come from."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.forms import is_data
from rlnb.data.replay_buffers.replay_buffers.buffer import ReplayBuffer
from rlnb.data.replay_buffers.replay_buffers.reading import put, spread
from rlnb.data.replay_buffers.samplers import Info
from rlnb.data.replay_buffers.writers import TensorDictRoundRobinWriter, Writer
from rlnb.data.replay_buffers.writers.round_robin import INDEX_KEY
from rlnb.data.ted.keys import NestedKey

PRIORITY_KEY = "td_error"
REDUCE = {
    "max": lambda values: values.amax(1),
    "min": lambda values: values.amin(1),
    "median": lambda values: values.median(1).values,
    "mean": lambda values: values.to(torch.float64).mean(1),
}


class TensorDictReplayBuffer(ReplayBuffer):
    """A replay buffer of TensorDicts.

    A sample has an entry ``"index"``, and what the sampler says is written into it, such as ``"priority_weight"``.

    Args:
        priority_key: the entry with the priorities, for samplers that know them. New data that has it brings its own
            priorities.
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
        """Write what the sampler says into the sample."""
        if not is_data(data):
            return data
        for key, value in info.items():
            if key != INDEX_KEY:
                put(data, key, spread(value, data.batch_size, 0))
        return self._with_index(data, info[INDEX_KEY])

    def sample(self, batch_size: int | None = None, return_info: bool = False, include_info: bool | None = None) -> Any:
        """Draw elements; see :meth:`ReplayBuffer.sample`.

        Args:
            batch_size: how many.
            return_info: whether to return what the sampler says beside the batch.
            include_info: taken, so that code for TorchRL runs: a sample always has what the sampler says.

        Returns:
            The batch; or the batch and a dictionary.
        """
        return super().sample(batch_size, return_info)

    # Priorities ---------------------------------------------------------------------------------------------------

    def _add(self, data: Any) -> Any:
        priority = self._brought(data, self._storage.ndim - 1)
        return self._prioritized(super()._add(data), priority)

    def _extend(self, data: Any) -> torch.Tensor:
        priority = self._brought(data, self._storage.ndim)
        index: torch.Tensor = self._prioritized(super()._extend(data), priority)
        return index

    def _brought(self, data: Any, ndim: int) -> torch.Tensor | None:
        """The priorities that new data brings, one for each element, checked before anything is written."""
        if not self._sampler.has_priorities:
            return None
        if isinstance(data, list):
            each = [self._brought(item, ndim - 1) for item in data]
            found = [priority for priority in each if priority is not None]
            return torch.cat(found) if found and len(found) == len(each) else None
        value = data.get(self.priority_key, None) if is_data(data) else None
        if value is None or not value.numel():
            return None
        priority = self._reduced(value, data.batch_size[:ndim].numel())
        self._sampler.check_priority(priority, len(priority))
        return priority

    def _reduced(self, value: torch.Tensor, count: int) -> torch.Tensor:
        """One priority for each element."""
        each = value.detach().reshape(count, -1)
        return REDUCE[getattr(self._sampler, "reduction", "max")](each)

    def _prioritized(self, index: Any, priority: torch.Tensor | None) -> Any:
        """Give elements that were written their priorities."""
        if priority is not None and index is not None:
            stored = torch.as_tensor(index)
            kept = (stored.reshape(len(priority), -1) >= 0).all(1)
            self._sampler.update_priority(
                stored if kept.all() else stored[kept],
                priority if kept.all() else priority[kept],
                storage=self._storage,
            )
        return index

    def update_tensordict_priority(self, data: Any) -> None:
        """Change the priorities of a sample, from the entry that holds them.

        Without a sampler that knows priorities, nothing happens.

        Args:
            data: a sample with ``"index"`` and the entry ``priority_key``. Several values for one element become one as
                the sampler's ``reduction`` says.

        Raises:
            KeyError: if one of the two is missing.
            TypeError: if it is no TensorDict.
            ValueError: if a priority is NaN, infinite or negative; nothing is changed then.
        """
        if not self._sampler.has_priorities:
            return
        if not is_data(data):
            raise TypeError(faults.needs_sample(data))
        for key in (INDEX_KEY, self.priority_key):
            if data.get(key, None) is None:
                raise KeyError(faults.needs_priority(key, list(data.keys(True, True))))
        index, ndim = data.get(INDEX_KEY), self._storage.ndim
        for _ in range(self._storage.element_dims):  # it is repeated along them
            index = index.select(-1 if ndim == 1 else -2, 0)
        count = index.numel() if ndim == 1 else index.numel() // ndim
        if count:
            self.update_priority(index, self._reduced(data.get(self.priority_key), count))
