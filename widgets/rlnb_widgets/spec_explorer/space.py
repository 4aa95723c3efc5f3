"""The gymnasium space of a spec as text, or the reason why there is none."""

from __future__ import annotations

from typing import Any

from rlnb.data import space_from_spec
from rlnb_widgets._core.literals import without_addresses
from rlnb_widgets._core.text import shorten

MAX_TEXT = 400


def space_text(spec: Any) -> tuple[str, str]:
    """Return the gymnasium space of a spec as text, and the reason if there is none; one of the two is empty.

    Example:
        >>> from rlnb.data import OneHot
        >>> space_text(OneHot(3))
        ('Discrete(3)', '')
    """
    if spec is None:
        return "", "this entry has no spec, so it is left out"
    try:
        space = space_from_spec(spec)
    except Exception as error:
        return "", shorten(without_addresses(str(error)) or type(error).__name__, MAX_TEXT)
    return shorten(without_addresses(repr(space)), MAX_TEXT), ""
