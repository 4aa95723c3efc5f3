"""Entries of batches: one value for each item set in a new batch, and entries of stored items replaced."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import set_entry
from rlnb.data.replay_buffers import errors
from rlnb.data.ted.keys import NestedKey


def set_per_item(batch: Any, key: NestedKey, values: Any, value_dims: int = 0) -> None:
    """Set an entry of a new batch to one value for each item, repeated over the item's own dimensions, such as time.

    Args:
        batch: a TensorDict or tensorclass of batch size ``[*lead, *item]``.
        key: of the entry.
        values: a tensor of shape ``[*lead, *value]``; anything else is set unchanged.
        value_dims: number of dimensions of each value.

    Example:
        >>> from tensordict import TensorDict
        >>> batch = TensorDict(batch_size=[2, 3])
        >>> set_per_item(batch, "index", torch.tensor([3, 4]))
        >>> batch["index"]
        tensor([[3, 3, 3],
                [4, 4, 4]])
    """
    is_tensor = isinstance(values, torch.Tensor)
    missing = len(batch.batch_size) - (values.ndim - value_dims) if is_tensor else 0
    if missing > 0:
        lead = values.ndim - value_dims
        own = values.shape[lead:]
        values = values.reshape((*values.shape[:lead], *[1] * missing, *own)).expand((*batch.batch_size, *own))
    if is_tensor and isinstance(batch, TensorDictBase):
        set_entry(batch, key, values)
    else:
        batch.set(key, values)


def with_entries(data: Any, entries: dict[NestedKey, Any]) -> Any:
    """Return a shallow copy of a TensorDict, or of a list of them, with new values of stored entries.

    The values have the batch size of ``data``; for a list, one value for each item.
    """
    if isinstance(data, list):
        values = {key: list(value) for key, value in entries.items()}
        return [with_entries(item, {key: value[i] for key, value in values.items()}) for i, item in enumerate(data)]
    if not isinstance(data, TensorDictBase):
        raise TypeError(f"Only TensorDicts have entries to set, and the buffer holds: {type(data).__name__}.")
    changed = data.copy()
    for key, value in entries.items():
        if key not in changed.keys(True):
            raise KeyError(errors.no_such_entry(key, list(data.keys(True, True))))
        changed.set(key, value)
    return changed
