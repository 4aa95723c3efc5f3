"""Unchecked construction and access of TensorDicts, for hot paths whose entries are known to be valid.

TensorDict validates entries on every construction and every ``set``, which costs more than a small env step. These
functions skip that, and fall back to the public methods wherever a private attribute of tensordict is missing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict import utils as _utils

_new_unsafe = getattr(TensorDict, "_new_unsafe", None)
#: Returns the name of the file or folder that ``TensorDict.memmap`` writes for one part of a key, without the suffix.
file_name: Callable[[str], str] = getattr(_utils, "_encode_key_for_filesystem", str)
_stored = operator.attrgetter("_tensordict")


def fast_tensordict(source: dict[str, Any], batch_size: torch.Size, device: torch.device | None = None) -> TensorDict:
    """Build a TensorDict without checking its entries. It takes over the dictionary ``source``.

    The caller guarantees that the shape of every tensor starts with ``batch_size``, and that it is on ``device`` (if
    given). Nested dictionaries become TensorDicts with the same batch size and device.

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
    """Return the entries of a TensorDict by name, as they are stored: nested TensorDicts, wrapped non-tensor data.

    Read-only, because the result may be the storage of ``data`` itself.
    """
    if type(data) is TensorDict:
        stored = getattr(data, "_tensordict", None)
        if type(stored) is dict:
            return stored
    return {key: data.get(key) for key in data.keys()}  # noqa: SIM118 - iterating a TensorDict iterates its rows


def raw_entries_of_each(items: Sequence[Any]) -> list[Mapping[str, Any]] | None:
    """Return the entries of many TensorDicts, in a fifth of the time of :func:`raw_entries` for each.

    ``None`` unless all are plain TensorDicts.
    """
    if set(map(type, items)) != {TensorDict}:
        return None
    try:
        stored = list(map(_stored, items))
    except AttributeError:
        return None
    return stored if set(map(type, stored)) == {dict} else None


def _storage(data: TensorDictBase) -> dict[str, Any] | None:
    """The dictionary that holds the entries of a TensorDict; ``None`` if entries must be set by its own methods."""
    if type(data) is not TensorDict or data.is_locked or getattr(data, "_td_dim_names", ()) is not None:
        return None
    return getattr(data, "_tensordict", None)


def entry(data: TensorDictBase, key: str | tuple[str, ...]) -> Any:
    """Return an entry of a TensorDict as it is stored, or ``None``."""
    if type(data) is TensorDict:
        stored = getattr(data, "_tensordict", None)
        if stored is not None:
            if type(key) is str:
                return stored.get(key)
            below = stored.get(key[0])
            if below is None or len(key) == 1:
                return below
            if type(below) is TensorDict:
                return entry(below, key[1] if len(key) == 2 else key[1:])
    return data.get(key, None)


def set_entry(data: TensorDictBase, key: str | tuple[str, ...], value: Any) -> TensorDictBase:
    """Set an entry of a TensorDict, and return the TensorDict.

    The caller guarantees that the shape of ``value`` starts with the batch size of ``data``. Its device may differ.
    """
    stored = _storage(data)
    if stored is None or (data.device is not None and value.device != data.device):
        return data.set(key, value)
    if type(key) is str:
        stored[key] = value
        return data
    below = stored.get(key[0])
    if len(key) < 2 or type(below) is not TensorDict or below.batch_size != data.batch_size:
        return data.set(key, value)
    set_entry(below, key[1] if len(key) == 2 else key[1:], value)
    return data


def del_entry(data: TensorDictBase, key: str | tuple[str, ...]) -> None:
    """Delete an entry of a TensorDict."""
    stored = _storage(data)
    if stored is None or type(key) is not str:
        data.del_(key)
    else:
        del stored[key]


def like(source: dict[str, Any], model: TensorDictBase) -> TensorDict:
    """Build a TensorDict of valid entries with the batch size, device and dimension names of another one."""
    unnamed = type(model) is TensorDict and getattr(model, "_td_dim_names", ()) is None
    if unnamed or all(name is None for name in model.names):
        return fast_tensordict(source, model.batch_size, model.device)
    return named(TensorDict(source, model.batch_size, device=model.device), model.names)


def named(data: TensorDict, names: Sequence[str | None]) -> TensorDict:
    """Name the batch dimensions of a TensorDict, and return it.

    The argument ``names`` of the constructor fails if a nested TensorDict has more dimensions and another device.

    Example:
        >>> nested = TensorDict({}, [2, 3])
        >>> named(TensorDict({"agents": nested}, [2], device="cpu"), ["time"])["agents"].names
        ['time', None]
    """
    data.names = list(names)
    return data


def shallow_copy(data: TensorDictBase) -> TensorDictBase:
    """Copy a TensorDict and its nested TensorDicts; tensors are shared."""
    if type(data) is not TensorDict or data.is_locked:
        return data.copy()
    entries = {}
    for name, value in raw_entries(data).items():
        plain = type(value) is torch.Tensor or not isinstance(value, TensorDictBase)
        entries[name] = value if plain else shallow_copy(value)
    return like(entries, data)


def merge_entries(data: TensorDictBase, entries: Mapping[str, Any]) -> None:
    """Set valid entries of a TensorDict; nested dictionaries are merged into existing nested TensorDicts."""
    stored = _storage(data) if data.device is None else None
    for name, value in entries.items():
        if type(value) is dict:
            below = entry(data, name)
            if not isinstance(below, TensorDictBase):
                below = entry(data.set(name, data.empty()), name)
            merge_entries(below, value)
        elif stored is not None:
            stored[name] = value
        else:
            data.set(name, value)
