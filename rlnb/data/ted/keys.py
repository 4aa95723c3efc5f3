"""Nested keys: one spelling for a place in a TensorDict, and the end-of-episode keys of a level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

NestedKey: TypeAlias = str | tuple[str, ...]

DONE, TERMINATED, TRUNCATED = "done", "terminated", "truncated"
END_KEYS = (DONE, TERMINATED, TRUNCATED)


def as_tuple(key: NestedKey) -> tuple[str, ...]:
    """Spell a key as a tuple.

    Args:
        key: a string, or a tuple of strings for a nested entry.

    Returns:
        The tuple of its parts.

    Example:
        >>> as_tuple("reward"), as_tuple(("agents", "reward"))
        (('reward',), ('agents', 'reward'))
    """
    return (key,) if isinstance(key, str) else tuple(key)


def as_key(parts: Sequence[str]) -> NestedKey:
    """Spell a key as users do: a string at the root, a tuple below it.

    Args:
        parts: the parts of the key.

    Returns:
        A string for one part, a tuple for several.

    Example:
        >>> as_key(("reward",)), as_key(("agents", "reward"))
        ('reward', ('agents', 'reward'))
    """
    return parts[0] if len(parts) == 1 else tuple(parts)


def as_keys(keys: NestedKey | Iterable[NestedKey]) -> list[tuple[str, ...]]:
    """Spell one key or many keys as a list of tuples.

    Args:
        keys: a string, a tuple of strings (one nested key), or a list of keys.

    Returns:
        The keys, each as a tuple.

    Example:
        >>> as_keys(("agents", "reward")), as_keys(["reward", ("agents", "reward")])
        ([('agents', 'reward')], [('reward',), ('agents', 'reward')])
    """
    if isinstance(keys, (str, tuple)):
        return [as_tuple(keys)] if keys else []
    return [as_tuple(key) for key in keys]


def by_depth(keys: Iterable[NestedKey]) -> list[NestedKey]:
    """Sort keys: those at the root first, then alphabetically.

    Args:
        keys: the keys to sort.

    Returns:
        A new list.

    Example:
        >>> by_depth([("agents", "done"), "truncated", "done"])
        ['done', 'truncated', ('agents', 'done')]
    """
    return [as_key(parts) for parts in sorted(map(as_tuple, keys), key=lambda parts: (len(parts), parts))]


def split_keys(keys: Iterable[NestedKey]) -> tuple[set[str], dict[str, list[tuple[str, ...]]]]:
    """Divide keys into names at this level and, by first name, what remains of the longer ones.

    Args:
        keys: the keys to divide.

    Returns:
        The names, and the paths below each name.

    Example:
        >>> split_keys(["done", ("agents", "done")])
        ({'done'}, {'agents': [('done',)]})
    """
    here: set[str] = set()
    below: dict[str, list[tuple[str, ...]]] = {}
    for first, *rest in map(as_tuple, keys):
        if rest:
            below.setdefault(first, []).append(tuple(rest))
        else:
            here.add(first)
    return here, below
