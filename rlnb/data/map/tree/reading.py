"""Reading rollouts for a forest: which entries count, whether they fit, and what each row is known by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase

from rlnb.data.map.rows import RowKey, row_keys
from rlnb.data.map.tree import faults
from rlnb.data.ted.columns import Branch, Column, Path, read_columns
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple


class Keys(NamedTuple):
    """Which entries mean what, as users name them."""

    observation: list[NestedKey]
    action: list[NestedKey]


class ReadRollout(NamedTuple):
    """A rollout taken apart.

    Attributes:
        columns: a column for each entry, with the batch flattened.
        branches: the nested TensorDicts.
        kinds: shape, dtype and device of a row of each entry; None for Python objects.
        before: what the state before each step is known by.
        actions: what each action is known by.
        after: what the state after each step is known by.
    """

    columns: dict[Path, Column]
    branches: list[Branch]
    kinds: dict[Path, Kind | None]
    before: list[RowKey]
    actions: list[RowKey]
    after: list[RowKey]


Kind = tuple[torch.Size, torch.dtype, torch.device]


def columns_of(data: TensorDictBase, excluded: Sequence[NestedKey]) -> tuple[dict[Path, Column], list[Branch]]:
    """Take a rollout or a step apart.

    Args:
        data: of any batch size.
        excluded: keys of entries that are left out, at the root and under ``"next"``.

    Returns:
        A column for each entry, with at least one row, and the branches.
    """
    columns, branches = read_columns(data if data.batch_dims else data.unsqueeze(0))
    for parts in map(as_tuple, excluded):
        under_next = ("next", *parts)
        for path in list(columns):
            if parts == path[: len(parts)] or under_next == path[: len(under_next)]:
                del columns[path]
    return columns, branches


def guess_observation_keys(columns: dict[Path, Column], others: Sequence[NestedKey]) -> list[NestedKey]:
    """Find what a state is known by: ``"observation"``, or all that is there before the step and after it.

    Args:
        columns: of a rollout.
        others: keys that are no observations, such as rewards and ends of episodes.

    Returns:
        The keys.

    Raises:
        KeyError: if there are none.
    """
    if ("observation",) in columns:
        return ["observation"]
    no = {as_tuple(key) for key in others}
    found = [
        as_key(path)
        for path in columns
        if ("next", *path) in columns and path not in no and path[-1] not in END_KEYS and not path[-1].startswith("_")
    ]
    if not found:
        raise KeyError(faults.no_keys("observation", [as_key(path) for path in columns]))
    return found


def guess_action_keys(columns: dict[Path, Column]) -> list[NestedKey]:
    """Find the actions: ``"action"``, or all entries of that name in nested TensorDicts.

    Args:
        columns: of a rollout.

    Returns:
        The keys.

    Raises:
        KeyError: if there are none.
    """
    if ("action",) in columns:
        return ["action"]
    found = [as_key(path) for path in columns if path[0] != "next" and path[-1] == "action"]
    if not found:
        raise KeyError(faults.no_keys("action", [as_key(path) for path in columns]))
    return found


def read_rollout(
    columns: dict[Path, Column], branches: list[Branch], rows: int, keys: Keys, known: dict[Path, Kind | None] | None
) -> ReadRollout:
    """Check a rollout, and find what its rows are known by.

    Args:
        columns: of the rollout.
        branches: of the rollout.
        rows: how many steps it has.
        keys: which entries mean what.
        known: what the entries of the rollouts before it were like; None for the first one.

    Returns:
        The rollout.

    Raises:
        KeyError: if an entry is missing, or there is another one.
        ValueError: if an entry has another shape, dtype or device, or differs before and after a step.
        TypeError: if a value that tells states apart has no hash.
    """
    before = _entries(columns, keys.observation, "observation", False)
    actions = _entries(columns, keys.action, "action", False)
    after = _entries(columns, keys.observation, "observation", True)
    kinds = {path: kind_of(column) for path, column in columns.items()}
    if known is None:
        for parts in map(as_tuple, keys.observation):
            if kinds[parts] != kinds["next", *parts]:
                raise ValueError(faults.unlike_next(parts, _text(kinds[parts]), _text(kinds["next", *parts])))
    elif kinds != known:
        _compare(kinds, known)
    named = [*keys.observation, *keys.action, *keys.observation]
    _assert_hashable([*before, *actions, *after], named)
    return ReadRollout(columns, branches, kinds, row_keys(before, rows), row_keys(actions, rows), row_keys(after, rows))


def state_key(columns: dict[Path, Column], keys: Sequence[NestedKey], known: dict[Path, Kind | None]) -> RowKey:
    """What a single state is known by.

    Args:
        columns: of the state.
        keys: the observation keys.
        known: what the entries of the rollouts are like.

    Returns:
        Its key.

    Raises:
        KeyError: if an entry is missing.
        ValueError: if an entry has another shape or dtype.
        TypeError: if a value has no hash.
    """
    entries = _entries(columns, keys, "observation", False, "The root")
    for key, column in zip(keys, entries, strict=True):
        kind, expected = kind_of(column), known[as_tuple(key)]
        if (kind and kind[:2]) != (expected and expected[:2]):
            raise ValueError(faults.other_kind(as_tuple(key), _text(expected), _text(kind)))
    _assert_hashable(entries, keys)
    return row_keys(entries, 1)[0]


def action_key(columns: dict[Path, Column], keys: Sequence[NestedKey]) -> RowKey:
    """What a single action is known by; see :func:`state_key`."""
    entries = _entries(columns, keys, "action", False, "The step")
    _assert_hashable(entries, keys)
    return row_keys(entries, 1)[0]


def kind_of(column: Column) -> Kind | None:
    """Shape, dtype and device of a row; None for Python objects.

    Args:
        column: with rows first.

    Returns:
        The kind.
    """
    return (column.shape[1:], column.dtype, column.device) if isinstance(column, torch.Tensor) else None


def _entries(
    columns: dict[Path, Column], keys: Sequence[NestedKey], what: str, after: bool, where: str = "The rollout"
) -> list[Any]:
    found = []
    for key in keys:
        path = ("next", *as_tuple(key)) if after else as_tuple(key)
        if path not in columns:
            there = [as_key(p[1:] if after else p) for p in columns if (p[0] == "next") == after]
            raise KeyError(faults.missing(what, key, where, there, after))
        found.append(columns[path])
    return found


def _assert_hashable(columns: Sequence[Any], keys: Sequence[NestedKey]) -> None:
    for column, key in zip(columns, keys, strict=True):
        if not isinstance(column, torch.Tensor):
            try:
                row_keys([column], 1 if not isinstance(column, list) else len(column))
            except TypeError as error:
                raise TypeError(faults.unhashable(key, error)) from error


def _compare(kinds: dict[Path, Kind | None], known: dict[Path, Kind | None]) -> None:
    missing = [as_key(path) for path in known if path not in kinds]
    extra = [as_key(path) for path in kinds if path not in known]
    if missing or extra:
        raise KeyError(faults.other_entries(missing, extra))
    for path, kind in kinds.items():
        if kind != known[path]:
            raise ValueError(faults.other_kind(path, _text(known[path]), _text(kind)))


def _text(kind: Kind | None) -> str:
    if kind is None:
        return "a Python object"
    shape, dtype, device = kind
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}" + ("" if device.type == "cpu" else f" on {device}")
