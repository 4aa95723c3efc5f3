"""split_trajectories: a batch of steps with one row per trajectory, padded or nested."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.ted.columns import Branch, Column, build, read_columns
from rlnb.data.ted.ends import end_flags, ends_of_ids, require_time, run_lengths
from rlnb.data.ted.keys import COLLECTOR, MASK, TRAJ_IDS, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import is_branch, leaf_keys
from rlnb.data.ted.nested import nest, offsets_of
from rlnb.data.ted.ragged import Path


def split_trajectories(
    rollout_tensordict: TensorDictBase,
    *,
    prefix: NestedKey | None = None,
    trajectory_key: NestedKey | None = None,
    done_key: NestedKey | None = None,
    as_nested: bool | torch.layout = False,
) -> TensorDictBase:
    """Rearrange a batch so that each row holds one trajectory.

    A trajectory is a run of steps along time (the last dimension) with the same id, or without ids, up to a step with
    "done". Rows of the batch are never joined. Steps masked out by an earlier split are dropped.

    Args:
        rollout_tensordict: steps of batch size ``[*batch, T]``.
        prefix: key of the nested TensorDict in which "traj_ids" is read and "mask" is written. Default: "collector" if
            the data has it, else the root.
        trajectory_key: key of the trajectory ids, instead of "traj_ids" under the prefix; "mask" is written beside it.
        done_key: key of an end signal, with or without "next", to split at instead of the ids. Default: the ids, or
            "done" if there are none.
        as_nested: whether to return nested tensors instead of padded ones; or their layout.

    Returns:
        A TensorDict of batch size ``[trajectories, longest]``, padded with zeros (``None`` for non-tensor data), with a
        "mask" that is False for padding, and with "traj_ids", numbered from 0, if there were no ids. Nested tensors
        have no mask; their batch size is ``[trajectories, -1]``, or ``[trajectories]`` for ``torch.jagged``.

    Raises:
        ValueError: If the data has no time dimension, or the ids are not one per step.
        KeyError: If there is no entry with the ids or end signals.

    Example:
        >>> done = torch.tensor([[False], [False], [True], [False]])
        >>> data = TensorDict({"step": torch.arange(4), "next": {"done": done}}, batch_size=[4])
        >>> split = split_trajectories(data)
        >>> split["step"]
        tensor([[0, 1, 2],
                [3, 0, 0]])
        >>> split["mask"]
        tensor([[ True,  True,  True],
                [ True, False, False]])
    """
    data = rollout_tensordict
    require_time(data)
    if trajectory_key is not None:
        ids_key = as_tuple(trajectory_key)
        where = ids_key[:-1]
    else:
        collected = prefix is None and is_branch(data.get(COLLECTOR, None))
        where = (COLLECTOR,) if collected else as_tuple(prefix or ())
        ids_key = (*where, TRAJ_IDS)
    flags, has_ids = _stops(data, ids_key, trajectory_key is not None, done_key)
    columns, branches = read_columns(data)
    mask = columns.pop((*where, MASK), None)
    if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and mask.numel() == data.batch_size.numel():
        kept = mask.flatten()
        columns = {path: _select(column, kept) for path, column in columns.items()}
        # A trajectory that ended at a dropped step ends at the last kept step before it.
        flags = ends_of_ids((flags.cumsum(0) - flags.long())[kept])
    lengths = run_lengths(flags) if flags.shape[0] else torch.zeros(0, dtype=torch.int64, device=flags.device)
    if not has_ids and (ids_key not in columns):
        columns[ids_key] = torch.repeat_interleave(lengths)
    if as_nested:
        return _nested(columns, lengths, as_nested, data.device)
    return _padded(columns, branches, lengths, (*where, MASK), data)


def _stops(data: TensorDictBase, ids_key: Path, named: bool, done_key: NestedKey | None) -> tuple[torch.Tensor, bool]:
    """True at the last step of each trajectory, with the batch flattened; and whether ids were used."""
    ids = data.get(as_key(ids_key), None)
    if named and not isinstance(ids, torch.Tensor):
        raise KeyError(
            f"The data has no entry {as_key(ids_key)!r}, the ids of the trajectories. Its entries are: "
            f"{', '.join(map(repr, leaf_keys(data)))}. Fix: omit trajectory_key to split where 'done' is True."
        )
    if isinstance(ids, torch.Tensor) and (named or done_key is None):
        if ids.numel() != data.batch_size.numel():
            raise ValueError(
                f"{as_key(ids_key)!r} must have one id per step of the batch of size {list(data.batch_size)}, got "
                f"shape {list(ids.shape)}. Fix: pass the trajectory_key of an entry with one id per step."
            )
        return ends_of_ids(ids.reshape(data.batch_size)).flatten(), True
    key = as_tuple("done" if done_key is None else done_key)
    stops = end_flags(data, key if key[0] == "next" else ("next", *key)).clone()
    stops[..., -1:] = True
    return stops.flatten(), False


def _select(column: Column, kept: torch.Tensor) -> Column:
    if isinstance(column, list):
        return [value for value, keep in zip(column, kept.tolist(), strict=True) if keep]
    return column[kept] if isinstance(column, torch.Tensor) else column


def _padded(
    columns: dict[Path, Column], branches: list[Branch], lengths: torch.Tensor, mask_key: Path, data: TensorDictBase
) -> TensorDictBase:
    count, longest = lengths.shape[0], int(lengths.max()) if lengths.shape[0] else 0
    mask = torch.arange(longest, device=lengths.device) < lengths[:, None]
    places = mask.flatten().nonzero().flatten()
    padded = {path: _pad(column, places, count * longest) for path, column in columns.items()}
    padded[mask_key] = mask.flatten()
    named = [branch.renamed((None, "time"), data.batch_dims) for branch in branches]
    return build(padded, [count, longest], named, data.device)


def _pad(column: Column, places: torch.Tensor, size: int) -> Column:
    if isinstance(column, torch.Tensor):
        out = torch.zeros((size, *column.shape[1:]), dtype=column.dtype, device=column.device)
        return out.index_copy_(0, places, column) if out.numel() else out
    if isinstance(column, list):
        filled: list[Any] = [None] * size
        for place, value in zip(places.tolist(), column, strict=True):
            filled[place] = value
        return filled
    return column


def _nested(
    columns: dict[Path, Column], lengths: torch.Tensor, layout: bool | torch.layout, device: torch.device | None
) -> TensorDictBase:
    strided = layout is True or layout == torch.strided
    offsets = offsets_of(lengths)
    entries: dict[NestedKey, Any] = {}
    for path, column in columns.items():
        if not isinstance(column, torch.Tensor):
            raise TypeError(
                f"The entry {as_key(path)!r} is non-tensor data, which a nested tensor cannot hold. "
                f"Fix: as_nested=False, or leave it out with data.exclude({as_key(path)!r})."
            )
        entries[as_key(path)] = nest(column, offsets, strided)
    return TensorDict(entries, [lengths.shape[0], *([-1] if strided else [])], device=device)
