"""Nested keys of TensorDicts, and the names of the entries that mark episodes and trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

NestedKey: TypeAlias = str | tuple[str, ...]

#: The end-of-episode signals of a level.
DONE, TERMINATED, TRUNCATED = "done", "terminated", "truncated"
END_KEYS = (DONE, TERMINATED, TRUNCATED)

#: The TensorDict in which collectors write what belongs neither to the env nor to the policy.
COLLECTOR = "collector"
#: The trajectory id of each step, and the flags of the steps that are not padding.
TRAJ_IDS, MASK = "traj_ids", "mask"
#: Where trajectory ids and masks are looked for; the first one that exists counts.
TRAJ_IDS_KEYS = ((COLLECTOR, TRAJ_IDS), (TRAJ_IDS,))
MASK_KEYS = ((COLLECTOR, MASK), (MASK,))
#: The episode number of each step, as datasets store it.
EPISODE = "episode"
#: Where the trajectory of stored steps is looked for; the first one that exists counts.
TRAJECTORY_KEYS = (*TRAJ_IDS_KEYS, (EPISODE,))
#: Names of entries that may hold trajectory ids.
TRAJECTORY_NAMES = (EPISODE, TRAJ_IDS, "traj")


def as_tuple(key: NestedKey) -> tuple[str, ...]:
    """Convert a key to a tuple: a string becomes a tuple of one part."""
    return (key,) if isinstance(key, str) else tuple(key)


def as_key(parts: Sequence[str]) -> NestedKey:
    """Convert the parts of a key to the key as users write it: a string at the root, a tuple below it."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def as_keys(keys: NestedKey | Iterable[NestedKey]) -> list[tuple[str, ...]]:
    """Convert one key (a string, or a tuple for a nested entry) or several keys to a list of tuples.

    Example:
        >>> as_keys(("agents", "reward")), as_keys(["reward", ("agents", "reward")])
        ([('agents', 'reward')], [('reward',), ('agents', 'reward')])
    """
    if isinstance(keys, (str, tuple)):
        return [as_tuple(keys)] if keys else []
    return [as_tuple(key) for key in keys]


def by_depth(keys: Iterable[NestedKey]) -> list[NestedKey]:
    """Sort keys by depth, then alphabetically."""
    return [as_key(parts) for parts in sorted(map(as_tuple, keys), key=lambda parts: (len(parts), parts))]


def split_keys(keys: Iterable[NestedKey]) -> tuple[set[str], dict[str, list[tuple[str, ...]]]]:
    """Split keys into the names at this level and the remaining paths of nested keys, by their first name.

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


def nested_dict(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Convert values by path to nested dictionaries.

    Example:
        >>> nested_dict({("reward",): 1, ("agents", "reward"): 2})
        {'reward': 1, 'agents': {'reward': 2}}
    """
    tree: dict[str, Any] = {}
    for path, value in values.items():
        level = tree
        for name in path[:-1]:
            level = level.setdefault(name, {})
        level[path[-1]] = value
    return tree
