"""Trajectories in a buffer, found by end signals or by trajectory ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import DONE, EPISODE, TRAJECTORY_KEYS, NestedKey, as_key, as_tuple
from rlnb_widgets._core.text import key_text, visible
from rlnb_widgets.buffer_explorer.model import Arcs, StorageState, Trajectories
from rlnb_widgets.buffer_explorer.slices import is_slicing

#: The most trajectories that are drawn; if there are more, only their lengths are shown.
MAX_ARCS = 160
_MOST_LENGTHS = 512

_ENDS: tuple[NestedKey, ...] = (("next", DONE), DONE)
_MOST_ITEMS = 20_000


@dataclass(frozen=True, eq=False)
class TrajectorySource:
    """The entries that separate trajectories. If there are both, each of them does."""

    ids: NestedKey | torch.Tensor | None = None  #: the entry with an id for each step, or the ids themselves
    ends: NestedKey | torch.Tensor | None = None  #: the entry with end signals, or the flags themselves

    @property
    def label(self) -> str:
        """The entries as text."""
        parts = [part for part in (self.ids, self.ends) if part is not None]
        return " and ".join(_label(part) for part in parts)


class _CannotReadError(Exception):
    """An entry does not separate trajectories; the message says why."""


def trajectory_source(buffer: Any, end_key: NestedKey | None, traj_key: NestedKey | None) -> TrajectorySource:
    """Choose what separates trajectories: the given keys, what a slice sampler reads, else ids or end signals."""
    if traj_key is not None or end_key is not None:
        return TrajectorySource(traj_key, end_key)
    has, sampler = _keys(buffer.storage), buffer.sampler
    if is_slicing(sampler):
        given = getattr(sampler, "trajectories", None), getattr(sampler, "ends", None)
        if any(value is not None for value in given):
            return TrajectorySource(*given)
        asked = TrajectorySource(sampler.traj_key, sampler.end_key)
        if asked.label:
            return asked
        return TrajectorySource(ids=EPISODE) if EPISODE in has else TrajectorySource(ends=_ENDS[0])
    ids = next((key for key in map(as_key, TRAJECTORY_KEYS) if key in has), None)
    return TrajectorySource(ids, None if ids is not None else next((key for key in _ENDS if key in has), None))


def trajectories_of(buffer: Any, ring: StorageState, source: TrajectorySource) -> Trajectories:
    """Find the trajectories: runs of rows in order of time, column by column."""
    if not ring.ordered:
        return no_trajectories("The rows are not in order of time, so that no trajectories are drawn.")
    if not ring.length:
        return no_trajectories("Nothing is stored.")
    storage = buffer.storage
    if storage.element_dims:
        return no_trajectories("Each item has a batch size of its own, such as a whole trajectory, and is one cell.")
    if not source.label:
        return no_trajectories(
            'The data has no entry that tells trajectories apart, such as ("next", "done"). '
            "end_key or traj_key names another one."
        )
    try:
        ids, ends = (None if key is None else _values(storage, key, ring) for key in (source.ids, source.ends))
    except _CannotReadError as error:
        return no_trajectories(str(error))
    order = (ring.first + np.arange(ring.length)) % ring.size
    of_ids, of_ends = (None if values is None else values[order] for values in (ids, ends))
    parts = [
        _runs(None if of_ids is None else of_ids[:, i], None if of_ends is None else of_ends[:, i], ring, i)
        for i in range(ring.columns)
    ]
    columns, starts, lengths, named, begun, ended = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Trajectories(source.label, columns, starts, lengths, named, begun, ended, named=ids is not None)


def _runs(ids: np.ndarray | None, ends: np.ndarray | None, ring: StorageState, column: int) -> tuple[np.ndarray, ...]:
    """Return the runs of one column, whose values are in order of time."""
    parted = np.zeros(ring.length - 1, bool)
    if ids is not None:
        parted |= ids[1:] != ids[:-1]
    if ends is not None:
        parted |= ends[:-1] != 0
    starts = np.concatenate([[0], np.flatnonzero(parted) + 1]).astype(np.int64)
    lengths = np.diff(np.append(starts, ring.length))
    begun, ended = np.ones(len(starts), bool), np.ones(len(starts), bool)
    # The rows before the oldest one were overwritten.
    begun[0] = ring.written <= ring.length
    ended[-1] = ends is not None and bool(ends[-1])
    named = np.full(len(starts), -1, np.int64) if ids is None else np.nan_to_num(ids[starts]).astype(np.int64)
    return np.full(len(starts), column), (ring.first + starts) % ring.size, lengths, named, begun, ended


def _values(storage: Any, part: Any, ring: StorageState) -> np.ndarray:
    """Return a part of the source for all filled rows, ``[rows, columns]``."""
    found = part[: ring.length] if isinstance(part, torch.Tensor) else _column(storage, as_key(as_tuple(part)), ring)
    label = _label(part)
    if found is None or not found.numel():
        raise _CannotReadError(
            f"The data has no entry {label} with a number for each step, so that its trajectories are not known."
        )
    flat = found.detach().cpu().reshape(ring.length, ring.columns, -1)
    if flat.is_complex():
        raise _CannotReadError(f"The entry {label} has complex numbers, which are neither ids nor flags.")
    if flat.dtype == torch.bool:
        return np.asarray(flat.any(-1).numpy())
    if flat.shape[-1] > 1:
        raise _CannotReadError(
            f"The entry {label} has several numbers for each step, so that its trajectories are not known."
        )
    values = flat[..., 0]
    return np.asarray((values.float() if values.dtype == torch.bfloat16 else values).numpy())


def _label(part: Any) -> str:
    if isinstance(part, torch.Tensor):
        return "what the sampler was given"
    return visible(key_text(as_tuple(part)), 60)


def _column(storage: Any, key: NestedKey, ring: StorageState) -> torch.Tensor | None:
    if hasattr(storage, "columns"):
        column = storage.columns.get(key)
        if column is not None and column.tensor is None:
            return _numbered(column.array[: ring.length].reshape(-1))
        return None if column is None else torch.as_tensor(column.tensor[: ring.length])
    if ring.length > _MOST_ITEMS:
        return None
    values = [item.get(key, None) if isinstance(item, TensorDictBase) else None for item in storage.get(slice(None))]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    alike = len(tensors) == len(values) and len({value.shape for value in tensors}) == 1
    return torch.stack(tensors) if alike else None


def _numbered(objects: np.ndarray) -> torch.Tensor | None:
    """Number ids that are Python objects, such as strings, in order of appearance."""
    if len(objects) > _MOST_ITEMS:
        return None
    numbers: dict[str, int] = {}
    return torch.tensor([numbers.setdefault(repr(value), len(numbers)) for value in objects])


def _keys(storage: Any) -> set[Any]:
    if hasattr(storage, "columns"):
        return set(storage.columns)
    first = storage.get(0) if len(storage) else None
    return {as_key(as_tuple(key)) for key in first.keys(True, True)} if isinstance(first, TensorDictBase) else set()


def arcs_of(found: Trajectories) -> Arcs:
    """Count trajectories and lengths; keep the trajectories themselves if they are few enough to be drawn."""
    lengths, counts = np.unique(found.length, return_counts=True)
    if len(lengths) > _MOST_LENGTHS:
        group = np.arange(len(lengths)) * _MOST_LENGTHS // len(lengths)
        first = np.searchsorted(group, np.arange(_MOST_LENGTHS))
        rows, counts = np.add.reduceat(lengths * counts, first), np.add.reduceat(counts, first)
        lengths = rows // counts
    drawn = found if len(found) <= MAX_ARCS else no_trajectories(found.note, found.source)
    return Arcs(drawn, len(found), found.interleaved, np.stack([lengths, counts], 1))


def no_trajectories(note: str, source: str = "") -> Trajectories:
    """Return an empty set of trajectories, with the reason."""
    empty = np.zeros(0, np.int64)
    flags = np.zeros(0, bool)
    return Trajectories(source, empty, empty, empty, empty, flags, flags, note)
