"""SliceMarks: the first and last steps of slices, marked in the end signals and in "is_init"."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.samplers.signals import END_KEY
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple


class SliceMarks:
    """Reads "truncated" and "done" of slices, and sets both for the last step of each; "is_init" for the first one.

    Args:
        storage: where they are stored. "truncated" and "done" are False where they are not stored.
        key: of "truncated"; "done" is beside it. None: neither is marked.
        init_key: of "is_init", by which recurrent networks know where to start anew. None, or if it is not stored: it
            is not marked.

    Example:
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10))
        >>> index = rb.extend({"done": torch.zeros(6, 1, dtype=torch.bool)})
        >>> marks = SliceMarks(rb.storage, "truncated").of(np.array([1, 2, 4, 5]), np.array([1, 3]), np.array([0, 2]))
        >>> marks["done"].ravel(), marks["truncated"].shape
        (tensor([False,  True, False,  True]), torch.Size([4, 1]))
    """

    def __init__(self, storage: Storage, key: NestedKey | None, init_key: NestedKey | None = None) -> None:
        parts = () if key is None else as_tuple(key)
        keys = [as_key(parts), as_key((*parts[:-1], DONE))] if parts else []
        stored = getattr(storage, "columns", {})
        self._init_key = None if init_key is None else as_key(as_tuple(init_key))
        init = stored.get(self._init_key)
        self._init = init if isinstance(init, Column) else None
        columns = [stored.get(name) for name in keys]
        self._columns = {
            name: column if isinstance(column, Column) else None for name, column in zip(keys, columns, strict=True)
        }
        example = next((c for c in (*columns, stored.get(END_KEY)) if isinstance(c, Column)), None)
        self._shape = (1,) if example is None else example.tensor.shape[storage.ndim :]
        self._device = getattr(storage, "device", None)

    def of(self, positions: np.ndarray, last: np.ndarray, first: np.ndarray) -> dict[Any, Any]:
        """Read the marks.

        Args:
            positions: of the steps, shape ``[n]``.
            last: which of these are the last ones of slices.
            first: which of these are the first ones of slices.

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
            found[key] = _set(values, last)
        if self._init is not None:
            found[self._init_key] = _set(self._init.take(where), first)
        return found


def _set(values: torch.Tensor, places: np.ndarray) -> torch.Tensor:
    if values.dtype is torch.bool and values.device.type == "cpu":
        values.numpy()[places] = 1  # several times as fast as torch
    else:
        values[torch.from_numpy(places).to(values.device)] = 1
    return values
