"""Keys of a Composite: names, tuples of names for nested entries, and the error for an unknown key."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from rlnb.data.ted.keys import NestedKey, as_key

#: Marks a missing key where None means a key without a spec.
MISSING: Any = object()


class SpecKeyError(KeyError):
    """A missing key. Unlike a bare ``KeyError``, it prints its message without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


class KeyList(list[NestedKey]):
    """Keys in order. A tuple of one name equals that name: ``("a",) in keys`` if ``"a" in keys``."""

    def __contains__(self, key: object) -> bool:
        return super().__contains__(as_key(as_path(key)) if _is_key(key) else key)


def _is_key(key: Any) -> bool:
    return isinstance(key, str) or (isinstance(key, tuple) and bool(key) and all(map(_is_key, key)))


def as_path(key: Any) -> tuple[str, ...]:
    """Return a key, a name or a (nested) tuple of names, as a flat tuple of names; raise a ``TypeError`` for others."""
    if isinstance(key, str):
        return (key,)
    if isinstance(key, tuple) and key:
        return tuple(name for part in key for name in as_path(part))
    raise TypeError(f"a key is a string or a tuple of strings such as ('agents', 'action'), got {key!r}.")


def unknown_key(key: Any, legal: Sequence[Any], where: str) -> SpecKeyError:
    """Return the error for a key that ``where`` does not have. It lists the legal keys and suggests the likeliest one.

    Example:
        >>> print(unknown_key("acton", ["observation", "action"], "the spec"))
        no key 'acton' in the spec, which has 'observation', 'action'. Did you mean 'action'?
    """
    names = ", ".join(map(repr, legal)) or "no keys"
    text = f"no key {key!r} in {where}, which has {names}."
    spelled = {_spelled(known): known for known in legal}
    near = difflib.get_close_matches(_spelled(key), spelled, n=1, cutoff=0.75)
    if not near:
        # The right name at the wrong depth is as common as a typo.
        last = _spelled(key).rpartition("/")[-1]
        near = [text for text in spelled if text.rpartition("/")[-1] == last][:1]
    return SpecKeyError(f"{text} Did you mean {spelled[near[0]]!r}?" if near else text)


def _spelled(key: Any) -> str:
    return "/".join(as_path(key)) if isinstance(key, (str, tuple)) else str(key)
