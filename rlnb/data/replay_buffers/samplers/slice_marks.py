"""SliceMarks: the end signals of slices, whose last steps count as truncated."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.samplers.signals import END_KEY
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple


class SliceMarks:
    """Reads "truncated" and "done" of slices, and sets both for the last step of each.

    Args:
        storage: where they are stored; an entry that is not there is False for all but last steps.
        key: of "truncated"; "done" is beside it.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10))
        >>> index = rb.extend({"done": torch.zeros(6, 1, dtype=torch.bool)})
        >>> marks = SliceMarks(rb.storage, "truncated").of(np.array([1, 2, 4, 5]), np.array([1, 3]))
        >>> marks["done"].ravel(), marks["truncated"].shape
        (tensor([False,  True, False,  True]), torch.Size([4, 1]))
    """

    def __init__(self, storage: Storage, key: NestedKey) -> None:
        parts = as_tuple(key)
        keys = [as_key(parts), as_key((*parts[:-1], DONE))]
        stored = getattr(storage, "columns", {})
        columns = [stored.get(name) for name in keys]
        self._columns = {
            name: column if isinstance(column, Column) else None for name, column in zip(keys, columns, strict=True)
        }
        example = next((c for c in (*columns, stored.get(END_KEY)) if isinstance(c, Column)), None)
        self._shape = (1,) if example is None else example.tensor.shape[storage.ndim :]
        self._device = getattr(storage, "device", None)

    def of(self, positions: np.ndarray, last: np.ndarray) -> dict[Any, Any]:
        """Read the end signals.

        Args:
            positions: of the steps, shape ``[n]``.
            last: which of these are the last ones of slices.

        Returns:
            Entries that lead with ``n``, by their keys.
        """
        where = torch.from_numpy(positions)
        found: dict[Any, Any] = {}
        for key, column in self._columns.items():
            if column is None:
                values = torch.zeros((len(positions), *self._shape), dtype=torch.bool, device=self._device)
            else:
                values = column.take(where)
            if values.dtype is torch.bool and values.device.type == "cpu":
                values.numpy()[last] = 1  # several times as fast as torch
            else:
                values[torch.from_numpy(last).to(values.device)] = 1
            found[key] = values
        return found
