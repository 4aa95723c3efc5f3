"""Arguments for the envs of a batch, and entries by nested key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.envs.batched import faults


def nested(entries: Mapping[NestedKey, Any]) -> dict[str, Any]:
    """Nest entries by their keys.

    Args:
        entries: by key.

    Returns:
        Dictionaries within dictionaries.

    Example:
        >>> nested({"a": 1, ("b", "c"): 2})
        {'a': 1, 'b': {'c': 2}}
    """
    found: dict[str, Any] = {}
    for key, value in entries.items():
        *path, name = as_tuple(key)
        place = found
        for part in path:
            place = place.setdefault(part, {})
        place[name] = value
    return found


def one_each(given: Any, n: int, name: str) -> list[Any]:
    """Spell an argument as one for each env.

    Args:
        given: a list, or a single one for all.
        n: how many envs there are.
        name: of the argument, for the error.

    Returns:
        A list of n.

    Raises:
        ValueError: if a list has another length.
    """
    if not isinstance(given, (list, tuple)):
        return [given] * n
    if len(given) != n:
        raise ValueError(faults.list_length(name, len(given), n))
    return list(given)


def kwargs_each(given: Any, n: int, name: str = "create_env_kwargs") -> list[dict[str, Any]]:
    """Spell keyword arguments as a dictionary for each env.

    Args:
        given: a mapping for all, a list of them, or None for none.
        n: how many envs there are.
        name: of the argument, for the error.

    Returns:
        New dictionaries.

    Raises:
        ValueError: if a list has another length.
        TypeError: if one is no mapping.
    """
    each = one_each({} if given is None else given, n, name)
    for i, kwargs in enumerate(each):
        if not isinstance(kwargs, Mapping):
            raise TypeError(faults.kwargs_type(name, i, kwargs))
    return [dict(kwargs) for kwargs in each]


__all__ = ["kwargs_each", "nested", "one_each"]
