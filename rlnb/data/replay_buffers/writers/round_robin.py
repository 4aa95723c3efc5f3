"""Round-robin writers: fill the storage in order, then overwrite the oldest items."""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, is_tensorclass

from rlnb._tensordict import raw_entries
from rlnb.data.replay_buffers.writers.base import Writer

INDEX_KEY = "index"


class RoundRobinWriter(Writer):
    """Writes items in order, and overwrites the oldest once the storage is full.

    Args:
        compilable: only False: ``torch.compile`` cannot trace a writer.
        track_generations: only False: the number of writes to each place is not counted.

    Raises:
        NotImplementedError: If one of them is True.

    Example:
        >>> from rlnb.data import ListStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=ListStorage(3), writer=RoundRobinWriter())
        >>> rb.extend(["a", "b", "c", "d"])
        tensor([0, 1, 2, 0])
        >>> rb[:], rb.writer
        (['d', 'b', 'c'], RoundRobinWriter(cursor=1, full_storage=True))
    """

    def __init__(self, compilable: bool = False, *, track_generations: bool = False) -> None:
        super().__init__(compilable)
        if track_generations:
            raise NotImplementedError(
                f"A {type(self).__name__} does not count how often each place was written, so track_generations=True "
                "cannot be kept. Fix: leave it out; buffer.write_count counts all writes."
            )

    def add(self, data: Any) -> Any:
        """Write one item at the cursor; see :meth:`Writer.add`."""
        storage = self.storage
        start = storage.append(storage.prepare(data, False))
        return start if storage.ndim == 1 else self._index(start, 1)

    def extend(self, data: Any) -> torch.Tensor:
        """Write several items, the first at the cursor; see :meth:`Writer.extend`."""
        storage = self.storage
        rows = storage.prepare(data, True)
        return self._index(storage.append(rows), rows.count)

    def _index(self, start: int, count: int) -> torch.Tensor:
        """Return the indices of consecutive rows."""
        storage = self.storage
        size = storage.ring.size
        index = torch.arange(start, start + count)
        if start + count > size:
            index %= size
        if storage.ndim == 1:
            return index
        others = storage.shape[1:]
        width = math.prod(others)
        positions = (index[:, None] * width + torch.arange(width)).reshape(-1)
        return torch.stack(storage.index(positions), -1)


class TensorDictRoundRobinWriter(RoundRobinWriter):
    """A :class:`RoundRobinWriter` for TensorDicts whose samples contain their index.

    What is read from the buffer has an entry ``"index"``. The entry is not stored, because the place of an item is its
    index: an ``"index"`` in new data, such as data sampled before, is left out.

    Example:
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(5), writer=TensorDictRoundRobinWriter())
        >>> rb.extend(TensorDict({"a": torch.zeros(3)}, [3]))
        tensor([0, 1, 2])
        >>> rb[1:]["index"]
        tensor([1, 2])
    """

    adds_index = True

    def add(self, data: Any) -> Any:
        """Write one item at the cursor; see :meth:`Writer.add`."""
        return super().add(without_index(data))

    def extend(self, data: Any) -> torch.Tensor:
        """Write several items, the first at the cursor; see :meth:`Writer.extend`."""
        return super().extend(without_index(data))


def without_index(data: Any) -> Any:
    """Remove the entry ``"index"`` from a TensorDict or a list of them; rejects tensorclasses without such a field."""
    if isinstance(data, TensorDictBase):
        names = raw_entries(data) if type(data) is TensorDict else data.keys()
        return data.exclude(INDEX_KEY) if INDEX_KEY in names else data
    if isinstance(data, list):
        return [without_index(item) for item in data]
    if is_tensorclass(data) and INDEX_KEY not in type(data).__dataclass_fields__:
        name = type(data).__name__
        raise TypeError(
            f"Samples of this buffer have their index in 'index', and the tensorclass {name} has no such field. "
            f"Nothing was written. Fix: ReplayBuffer(...) with its default writer, which returns each {name} "
            f"unchanged; or a field 'index: torch.Tensor | None = None' in {name}."
        )
    return data
