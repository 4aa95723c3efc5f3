"""Components of a buffer: the ring, and storage, sampler, writer and transform as boxes."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.writers import ImmutableDatasetWriter, TensorDictMaxValueWriter
from rlnb_widgets._core.text import key_text, object_text, plural, visible
from rlnb_widgets.buffer_explorer.model import Component, Grid, StorageState

#: Most cells of all rings, and most rings, that are drawn.
MAX_CELLS, MAX_COLUMNS = 512, 8

_NO_LIMIT = 1 << 62
_SIMPLE = (bool, int, float, str, torch.dtype, torch.device)
# Properties that are settings; other settings are attributes.
_PROPERTIES = ("alpha", "beta", "device")
_MOST_SETTINGS, _MOST_TRANSFORMS = 12, 8


def check_buffer(buffer: Any) -> None:
    """Raise ``TypeError`` if an argument is an ensemble, or not a replay buffer."""
    name = type(buffer).__name__
    if "Ensemble" in name or "Ensemble" in type(getattr(buffer, "storage", None)).__name__:
        raise TypeError(
            f"BufferExplorer shows one buffer, and {name} is several: each has a ring of its own. "
            "Fix: BufferExplorer(buffer[0]) shows the first of them."
        )
    if not isinstance(getattr(buffer, "storage", None), Storage) or not hasattr(buffer, "sampler"):
        raise TypeError(
            f"BufferExplorer shows a ReplayBuffer, got {name}. A storage or a TensorDict alone has no sampler and no "
            "writer. Fix: BufferExplorer(ReplayBuffer(storage=...))."
        )


def ring_of(buffer: Any) -> StorageState:
    """Return the rows of a buffer's storage, and the position of its writer."""
    storage = buffer.storage
    ring, shape = storage.ring, storage.shape
    limit = None if ring.size >= _NO_LIMIT else int(ring.size)
    return StorageState(
        size=max(ring.length, 1) if limit is None else limit,
        limit=limit,
        length=ring.length,
        cursor=ring.cursor,
        written=ring.written,
        columns=max(int(shape[1:].numel()), 1),
        ordered=not isinstance(buffer.writer, TensorDictMaxValueWriter),
        frozen=isinstance(buffer.writer, ImmutableDatasetWriter),
    )


def grid_of(ring: StorageState) -> Grid:
    """Choose the cells of a ring: one per row if they fit."""
    columns = min(ring.columns, MAX_COLUMNS)
    return Grid(ring.size, min(ring.size, MAX_CELLS // columns), columns, ring.columns)


def components_of(buffer: Any) -> tuple[Component, ...]:
    """Describe writer, storage, sampler and transforms, in the order in which data passes them."""
    storage, sampler, writer = buffer.storage, buffer.sampler, buffer.writer
    ring = ring_of(buffer)
    room = "no limit" if ring.limit is None else f"{storage.max_size:,} items"
    dims = [("ndim", str(storage.ndim))]
    if ring.columns > 1:
        dims.append(("row", plural(ring.columns, "item")))
    batch = "asked for by each call" if buffer.batch_size is None else f"{buffer.batch_size:,}"
    goes = "nothing: it refuses" if ring.frozen else f"row {ring.cursor:,}"
    goes = goes if ring.ordered else "where the lowest rank is, if the new one is higher"
    return (
        Component(
            "writer",
            type(writer).__name__,
            (*_settings(writer), ("next", goes), ("written", plural(ring.written, "row"))),
        ),
        Component(
            "storage", type(storage).__name__, (("room", room), *dims, *_settings(storage, skip=("ndim", "max_size")))
        ),
        Component("sampler", type(sampler).__name__, (*_settings(sampler, skip=("device",)), ("batch_size", batch))),
        _transform(buffer.transform),
    )


def _settings(part: Any, skip: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
    """Return the settings of a component: its public attributes of simple types."""
    names = [name for name in vars(part) if not name.startswith("_")]
    names = [name for name in _PROPERTIES if name not in names and hasattr(part, name)] + names
    found = []
    for name in names:
        value = getattr(part, name)
        if name in skip or _is_path(name):
            continue
        if isinstance(value, tuple) and value and all(isinstance(key, str) for key in value):
            found.append((name, visible(key_text(value))))
        elif isinstance(value, _SIMPLE):
            found.append((name, _value(value)))
    return tuple(found[:_MOST_SETTINGS])


def _is_path(name: str) -> bool:
    # Paths differ between machines, but the text must not.
    return "dir" in name or "path" in name


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return visible(value if isinstance(value, str) else str(value))


def _transform(pipeline: Any) -> Component:
    members = list(pipeline)
    if not members:
        return Component("transform", "none", (("reading and writing", "leave the data as it is"),))
    rows = [
        (str(i), visible(getattr(member, "__name__", None) or object_text(member)))
        for i, member in enumerate(members[:_MOST_TRANSFORMS])
    ]
    if len(members) > _MOST_TRANSFORMS:
        rows.append(("more", str(len(members) - _MOST_TRANSFORMS)))
    return Component("transform", plural(len(members), "transform"), tuple(rows))
