"""Memory of a storage, entry by entry."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass

from rlnb.data.replay_buffers.storages.lazy_memmap import LazyMemmapStorage
from rlnb_widgets._core.text import key_text, plural, visible
from rlnb_widgets.buffer_explorer.model import KeyMemory, Memory

_MOST_KEYS, _MOST_ITEMS, _MOST_KINDS = 40, 4096, 4


def memory_of(buffer: Any) -> Memory:
    """Measure the memory of a buffer by entry; Python objects are counted, but not measured."""
    storage = buffer.storage
    if not hasattr(storage, "columns"):
        return _listed(storage)
    device = getattr(storage, "device", None)
    where = "memory-mapped files" if isinstance(storage, LazyMemmapStorage) else f"memory, {device or 'cpu'}"
    if not storage.columns:
        return Memory((), where, "Nothing is reserved before the first data, which decides keys, shapes and dtypes.")
    found, objects = [], []
    for key, column in storage.columns.items():
        tensor = column.tensor
        if tensor is None:
            objects.append(_label(key))
            continue
        places = tensor.shape[: storage.ndim].numel()
        form = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape[storage.ndim :])}"
        found.append(KeyMemory(_label(key), form, tensor.nbytes / places, tensor.nbytes))
    note = f"Not measured, since they hold Python objects: {', '.join(objects)}." if objects else ""
    return Memory(_largest(found), where, note)


def _listed(storage: Any) -> Memory:
    """Measure the items of a list that are tensors, and count the others by class."""
    count = len(storage)
    some = storage.get(slice(0, min(count, _MOST_ITEMS)))
    sizes: dict[str, list[int]] = {}
    kinds: Counter[str] = Counter()
    for item in some:
        parts = _tensors(item)
        if parts is None:
            kinds[type(item).__name__] += 1
        for key, tensor in parts or ():
            sizes.setdefault(key, []).append(tensor.nbytes)
    scale = count / max(len(some), 1)
    found = [
        KeyMemory(key, "in each item", sum(each) / len(each), round(sum(each) * scale)) for key, each in sizes.items()
    ]
    notes = []
    if kinds:
        named = ", ".join(f"{n:,} {visible(kind)}" for kind, n in kinds.most_common(_MOST_KINDS))
        notes.append(f"Python objects, which are not measured: {named}.")
    if count > len(some):
        notes.append(f"Estimated from the first {plural(len(some), 'item')}.")
    return Memory(_largest(found), "memory, a Python list", " ".join(notes))


def _tensors(item: Any) -> list[tuple[str, torch.Tensor]] | None:
    if isinstance(item, torch.Tensor):
        return [("the item", item)]
    if isinstance(item, TensorDictBase) or is_tensorclass(item):
        leaves = ((key, item.get(key)) for key in item.keys(True, True))
        return [(_label(key), value) for key, value in leaves if isinstance(value, torch.Tensor)]
    return None


def _label(key: Any) -> str:
    if key == ():
        return "the item"
    parts = key if isinstance(key, tuple) else (key,)
    return visible(key_text(tuple(map(str, parts))), 60)


def _largest(found: list[KeyMemory]) -> tuple[KeyMemory, ...]:
    found = sorted(found, key=lambda key: (-key.reserved, key.key))
    if len(found) <= _MOST_KEYS:
        return tuple(found)
    rest = found[_MOST_KEYS - 1 :]
    more = KeyMemory(f"{len(rest)} more", "", sum(key.row_bytes for key in rest), sum(key.reserved for key in rest))
    return (*found[: _MOST_KEYS - 1], more)
