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
_encoded: Callable[[str], str] = getattr(_utils, "_encode_key_for_filesystem", str)
_stored = operator.attrgetter("_tensordict")


def fast_tensordict(source: dict[str, Any], batch_size: torch.Size, device: torch.device | None = None) -> TensorDict:
    """Build a TensorDict without checking its entries.

    The caller guarantees that the shape of every tensor starts with ``batch_size``, and that it is on ``device`` (if
    given). Nested dictionaries become TensorDicts with the same batch size and device.

    Args:
        source: entries by name. The TensorDict takes over the dictionary.
        batch_size: the batch size.
        device: device of the TensorDict, or ``None`` if it has none.

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

    Args:
        data: any TensorDict.

    Returns:
        The entries, read-only, because the result may be the storage of ``data`` itself. Non-tensor entries are wrapped
        (``NonTensorData``), and nested entries are TensorDicts.

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


def raw_entries_of_each(items: Sequence[Any]) -> list[Mapping[str, Any]] | None:
    """Return the entries of many TensorDicts, in a fifth of the time of :func:`raw_entries` for each.

    Args:
        items: the TensorDicts.

    Returns:
        The entries of each; ``None`` unless all are plain TensorDicts.

    Example:
        >>> raw_entries_of_each([TensorDict({"a": 1}), TensorDict({})]), raw_entries_of_each([3])
        ([{'a': tensor(1)}, {}], None)
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
    """Return an entry of a TensorDict as it is stored, or ``None``.

    Args:
        data: any TensorDict.
        key: key of the entry.

    Returns:
        The entry.

    Example:
        >>> entry(TensorDict({"a": torch.zeros(2)}), "a"), entry(TensorDict({}), "a")
        (tensor([0., 0.]), None)
    """
    if type(data) is TensorDict and type(key) is str:
        stored = getattr(data, "_tensordict", None)
        if stored is not None:
            return stored.get(key)
    return data.get(key, None)


def set_entry(data: TensorDictBase, key: str | tuple[str, ...], value: Any) -> TensorDictBase:
    """Set an entry of a TensorDict that is known to be valid.

    Args:
        data: the TensorDict, which is changed.
        key: key of the entry.
        value: a tensor or TensorDict whose shape starts with the batch size of ``data``. It is moved to the device of
            ``data``.

    Returns:
        ``data``.

    Example:
        >>> set_entry(TensorDict({"b": {}}), ("b", "a"), torch.ones(1))["b", "a"]
        tensor([1.])
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
    """Delete an entry of a TensorDict.

    Args:
        data: the TensorDict, which is changed.
        key: key of the entry.
    """
    stored = _storage(data)
    if stored is None or type(key) is not str:
        data.del_(key)
    else:
        del stored[key]


def has_names(data: TensorDictBase) -> bool:
    """Whether a dimension of a TensorDict has a name.

    Args:
        data: any TensorDict.

    Returns:
        True if one has.

    Example:
        >>> has_names(TensorDict({}, [2])), has_names(TensorDict({}, [2], names=["time"]))
        (False, True)
    """
    if type(data) is TensorDict and getattr(data, "_td_dim_names", ()) is None:
        return False
    return any(name is not None for name in data.names)


def like(source: dict[str, Any], model: TensorDictBase) -> TensorDict:
    """Build a TensorDict with the batch size, device and dimension names of another one.

    Args:
        source: entries by name, known to be valid.
        model: the other TensorDict.

    Returns:
        The TensorDict.

    Example:
        >>> like({"a": torch.zeros(2)}, TensorDict({}, [2], names=["time"])).names
        ['time']
    """
    if has_names(model):
        return named(TensorDict(source, model.batch_size, device=model.device), model.names)
    return fast_tensordict(source, model.batch_size, model.device)


def named(data: TensorDict, names: Sequence[str | None]) -> TensorDict:
    """Name the dimensions of a TensorDict.

    The argument ``names`` of the constructor fails if a nested TensorDict has more dimensions and another device.

    Args:
        data: the TensorDict, which is changed.
        names: a name for each batch dimension, or ``None``.

    Returns:
        ``data``.

    Example:
        >>> nested = TensorDict({}, [2, 3])
        >>> named(TensorDict({"agents": nested}, [2], device="cpu"), ["time"])["agents"].names
        ['time', None]
    """
    data.names = list(names)
    return data


def shallow_copy(data: TensorDictBase) -> TensorDictBase:
    """Copy a TensorDict and its nested TensorDicts; tensors are shared.

    Args:
        data: any TensorDict.

    Returns:
        The copy. Setting its entries does not change ``data``.

    Example:
        >>> td = TensorDict({"a": torch.zeros(2), "b": {"c": torch.ones(2)}}, [2])
        >>> copied = shallow_copy(td)
        >>> copied["b"].del_("c").is_empty(), td["b"].is_empty(), copied["a"] is td["a"]
        (True, False, True)
    """
    if type(data) is not TensorDict or data.is_locked:
        return data.copy()
    entries = {}
    for name, value in raw_entries(data).items():
        plain = type(value) is torch.Tensor or not isinstance(value, TensorDictBase)
        entries[name] = value if plain else shallow_copy(value)
    return like(entries, data)


def merge_entries(data: TensorDictBase, entries: Mapping[str, Any]) -> None:
    """Set entries of a TensorDict; nested dictionaries are merged into existing nested TensorDicts.

    Args:
        data: the TensorDict, which is changed.
        entries: entries by name, known to be valid.
    """
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


def file_name(key: str) -> str:
    """Return the name of the file or folder that ``TensorDict.memmap`` writes for an entry, without the suffix.

    Args:
        key: one part of the key of the entry.

    Returns:
        The key, with characters that are invalid in file names encoded.

    Example:
        >>> file_name("reward")
        'reward'
    """
    return _encoded(key)
