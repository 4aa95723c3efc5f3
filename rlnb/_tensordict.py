"""Cheap construction of TensorDicts for hot paths whose entries are known to be well formed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDict

_new_unsafe = getattr(TensorDict, "_new_unsafe", None)


def fast_tensordict(source: dict[str, Any], batch_size: torch.Size, device: torch.device | None = None) -> TensorDict:
    """Build a TensorDict without checking its entries.

    The caller vouches that every tensor leads with ``batch_size`` and lives on ``device`` (when one is given). Nested
    dictionaries become TensorDicts with the same batch size and device.

    Args:
        source: entries by name. The dictionary is owned by the TensorDict afterwards.
        batch_size: the batch size, already a ``torch.Size``.
        device: the device of the TensorDict, or None for "as the entries are".

    Returns:
        The TensorDict.

    Example:
        >>> td = fast_tensordict({"a": torch.zeros(2), "b": {"c": torch.ones(2)}}, torch.Size([2]))
        >>> td["b", "c"].tolist(), td["b"].batch_size
        ([1.0, 1.0], torch.Size([2]))
    """
    for key, value in source.items():
        if type(value) is dict:
            source[key] = fast_tensordict(value, batch_size, device)
    if _new_unsafe is None:
        return TensorDict(source, batch_size=batch_size, device=device)
    return _new_unsafe(source=source, batch_size=batch_size, device=device, nested=False)


def raw_entries(data: Any) -> Mapping[str, Any]:
    """Return the entries of a TensorDict by name, as they are stored.

    Non-tensor entries stay wrapped (``NonTensorData``) and nested TensorDicts stay TensorDicts. The result is for
    reading only: it may be the storage of ``data`` itself.

    Example:
        >>> td = TensorDict({"a": torch.zeros(2)}, batch_size=[2])
        >>> list(raw_entries(td))
        ['a']
    """
    if type(data) is TensorDict:
        stored = getattr(data, "_tensordict", None)
        if type(stored) is dict:
            return stored
    return {key: data.get(key) for key in data.keys()}  # noqa: SIM118 - iterating a TensorDict iterates its rows
