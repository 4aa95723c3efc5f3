"""Explanations of two common mistakes with the data of an env: missing keys, and unpacking a TensorDict."""

from __future__ import annotations

import difflib
from typing import Any

from tensordict import TensorDictBase

from rlnb.data.ted.keys import as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys

_SHOWN = 12
_ALIASES = {
    "obs": "observation",
    "state": "observation",
    "next_obs": "observation",
    "next_observation": "observation",
    "rew": "reward",
    "rewards": "reward",
    "act": "action",
    "actions": "action",
    "dones": "done",
    "terminal": "terminated",
    "truncation": "truncated",
    "termination": "terminated",
}


def explain_missing_key(td: TensorDictBase, key: Any) -> str:
    """Explain in two or three sentences why a TensorDict lacks a key.

    Args:
        td: the TensorDict.
        key: the key that was asked for: a string, or a tuple of strings for a nested entry.

    Returns:
        A text with the missing key, the likely cause with a line to paste, and the entries of ``td``.

    Example:
        >>> from tensordict import TensorDict
        >>> td = TensorDict({"observation": [0.0], "next": {"reward": [1.0]}})
        >>> print(explain_missing_key(td, "reward"))
        No entry 'reward'. The results of a step are under "next". Fix: td["next", "reward"].
        Entries: 'observation', ('next', 'reward').
        >>> print(explain_missing_key(td, "obs").splitlines()[0])
        No entry 'obs'. The nearest name is 'observation'. Fix: td["observation"].
    """
    parts = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, tuple) else ()
    entries = [as_tuple(found) for found in leaf_keys(td)]
    known = ", ".join(repr(as_key(path)) for path in entries[:_SHOWN])
    more = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
    listing = f"\nEntries: {known}{more}." if entries else "\nThe TensorDict has no entries."
    if not parts or not all(isinstance(part, str) for part in parts):
        return f"{key!r} is not a key: a key is a string, or a tuple of strings for a nested entry.{listing}"
    return f"No entry {as_key(parts)!r}. {_advice(parts, entries)}{listing}"


def explain_unpacking(td: TensorDictBase) -> str:
    """Explain why ``obs, info = env.reset()`` and ``obs, reward, ... = env.step(...)`` fail.

    Args:
        td: what the env returned.

    Example:
        >>> from tensordict import TensorDict
        >>> print(explain_unpacking(TensorDict({"observation": [0.0]})))
        reset and step return one TensorDict, not a tuple, so it cannot be unpacked into several names. Fix: td = env.reset(), then td["observation"].
    """  # noqa: E501 - a doctest shows the text as one line
    stepped = any(as_tuple(key)[0] == "next" for key in leaf_keys(td))
    names = [key for key in leaf_keys(td) if as_tuple(key)[0] != "next"]
    first = "observation" if "observation" in names else next(iter(names), "observation")
    fix = f"td = env.reset(), then {_read(as_tuple(first))}."
    if stepped:
        fix = f'td = env.step(td), then {_read(("next", *as_tuple(first)))} and td["next", "reward"].'
    return f"reset and step return one TensorDict, not a tuple, so it cannot be unpacked into several names. Fix: {fix}"


def _advice(parts: tuple[str, ...], entries: list[tuple[str, ...]]) -> str:
    """Suggest an entry: the same name elsewhere first, then the most similar name."""
    elsewhere = [path for path in entries if path != parts and path[-len(parts) :] == parts]
    below_next = ("next", *parts)
    if below_next in elsewhere:
        return f'The results of a step are under "next". Fix: {_read(below_next)}.'
    if elsewhere:
        return f"It is nested. Fix: {_read(elsewhere[0])}."
    if parts[0] == "next":
        if not any(path[0] == "next" for path in entries):
            root = f", or {_read(parts[1:])} for the entry at the root" if parts[1:] in entries else ""
            return f'There is nothing under "next" yet: env.step writes it. Fix: td = env.step(td){root}.'
        if parts[1:] in entries:
            return f'It is at the root and not under "next". Fix: {_read(parts[1:])}.'
    if parts[-1] == "reward" and not any(path[0] == "next" for path in entries):
        fix = 'td = env.step(td), then td["next", "reward"].'
        return f'A reset returns no reward; a step writes it under "next". Fix: {fix}'
    if parts == ("action",) and entries:
        return "Nothing has chosen an action yet. Fix: td = env.rand_action(td), or td = policy(td)."
    near = _nearest(parts, entries)
    if near is not None:
        return f"The nearest name is {as_key(near)!r}. Fix: {_read(near)}."
    return "Fix: read one of the entries that are there."


def _nearest(parts: tuple[str, ...], entries: list[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The entry with the most similar name, preferably at the root, or under "next" if the key starts with it."""
    name = parts[-1]
    below_next = parts[0] == "next" or name.startswith("next_")
    name = _ALIASES.get(name, name)
    candidates = sorted(entries, key=lambda path: ((path[0] == "next") != below_next, len(path)))
    names = list(dict.fromkeys(path[-1] for path in candidates))
    close = [name] if name in names else [known for known in names if len(name) > 1 and known.startswith(name)]
    close = close or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return next((path for path in candidates if close and path[-1] == close[0]), None)


def _read(path: tuple[str, ...]) -> str:
    """Write the code that reads an entry."""
    return "td[" + ", ".join('"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"' for part in path) + "]"
