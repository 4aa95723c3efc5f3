"""Formatting of values from data as short text on one line."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rlnb_widgets._core.text import number

MAX_PREVIEW = 80


def number_text(value: Any) -> str:
    """Format a number, boolean or complex number with at most four significant digits.

    Example:
        >>> [number_text(v) for v in (3, 0.1234567, True, float("nan"), 1 - 2j)]
        ['3', '0.1235', 'True', 'nan', '1-2j']
    """
    if isinstance(value, (complex, np.complexfloating)):
        return f"{value.real:.4g}{value.imag:+.4g}j"
    return number(value)


def values_text(array: np.ndarray, most: int = 4) -> str:
    """Format the first numbers of an array: a single one as such, several in brackets.

    Example:
        >>> values_text(np.arange(6))
        '[0, 1, 2, 3, ... 6 values]'
    """
    flat = array.reshape(-1)
    if array.ndim == 0 or flat.size == 1:
        return number_text(flat[0])
    shown = ", ".join(number_text(v) for v in flat[:most])
    return f"[{shown}]" if flat.size <= most else f"[{shown}, ... {flat.size} values]"


def object_text(value: Any) -> str:
    """Format any object as its ``repr`` on one short line, without memory addresses.

    Example:
        >>> object_text(object())
        '<object object>'
    """
    try:
        text = without_addresses(repr(value))
    except Exception as error:
        text = f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return text if len(text) <= MAX_PREVIEW else f"{text[: MAX_PREVIEW - 3]}..."


def without_addresses(text: str) -> str:
    """Remove memory addresses from a ``repr``.

    Example:
        >>> without_addresses("<A object at 0x7f00>, <function f at 0x7f01>")
        '<A object>, <function f>'
    """
    return re.sub(r" (?:object )?at 0x[0-9a-fA-F]+", lambda m: " object" if "object" in m[0] else "", text)
