"""How the texts of errors write keys and lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rlnb.data.ted.keys import NestedKey

MANY = 8  # lists in a text end after this many


def listed(values: Iterable[Any]) -> str:
    """Write values one after another, the first few of many.

    Example:
        >>> listed(["a", ("b", "c")])
        "'a', ('b', 'c')"
    """
    values = list(values)
    more = f" and {len(values) - MANY} more" if len(values) > MANY else ""
    return ", ".join(map(repr, values[:MANY])) + more


def at(key: NestedKey) -> str:
    """Write the place of a leaf in a sentence; nothing for a bare tensor."""
    return "" if key == () else f" at {key!r}"
