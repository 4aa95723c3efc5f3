"""Helpers for text views: fixed-width tables, sparklines, and consistent numbers, keys and values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rlnb._text import printable

_BLOCKS = "▁▂▃▄▅▆▇█"
MAX_PREVIEW = 80  # characters


def number(x: float | int | bool, digits: int = 4) -> str:
    """Format a number with at most ``digits`` significant digits, the same on every machine.

    Example:
        >>> number(1.0), number(0.123456), number(1234567.0), number(-0.0), number(float("nan"))
        ('1', '0.1235', '1.235e+06', '0', 'nan')
    """
    if isinstance(x, (bool, np.bool_)):
        return str(bool(x))
    if isinstance(x, (int, np.integer)):
        return str(int(x))
    value = float(x)
    if not math.isfinite(value):
        return str(value)
    text = f"{value:.{digits}g}"
    return "0" if text == "-0" else text


def bytes_text(size: float) -> str:
    """Format a number of bytes with three significant digits; from 1000 GB on with all digits of the gigabytes.

    Example:
        >>> [bytes_text(size) for size in (0, 999, 2048, 3.5e6, 10**12)]
        ['0 B', '999 B', '2.05 kB', '3.5 MB', '1000 GB']
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= 0.9995 * scale:
            amount = size / scale
            return f"{amount:.0f} {unit}" if amount >= 999.5 else f"{amount:.3g} {unit}"
    return f"{size:.3g} B"


def duration(microseconds: float) -> str:
    """Format a time span in microseconds with three digits.

    Example:
        >>> duration(0.4), duration(12.34), duration(12_345), duration(2_500_000), duration(float("nan"))
        ('0.4 µs', '12.3 µs', '12.3 ms', '2.5 s', 'unknown')
    """
    if not math.isfinite(microseconds):
        return "unknown"
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if abs(microseconds) >= 0.9995 * size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} µs"


def short_rate(rate: float) -> str:
    """Format a rate with three digits.

    Example:
        >>> short_rate(12345.0), short_rate(12.345), short_rate(0.5)
        ('12,300', '12.3', '0.5')
    """
    if rate < 100:
        return f"{rate:.3g}"
    size = 10 ** max(math.floor(math.log10(rate)) - 2, 0)
    return f"{round(rate / size) * size:,}"


def percent(share: float) -> str:
    """Format a share of 1 as a whole percentage.

    Example:
        >>> percent(0.203), percent(1)
        ('20%', '100%')
    """
    return f"{share:.0%}"


def plural(n: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun.

    Example:
        >>> plural(1, "step"), plural(2, "step"), plural(0, "entry", "entries")
        ('1 step', '2 steps', '0 entries')
    """
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"


def shorten(text: str, width: int) -> str:
    """Truncate `text` to `width` characters, ending in an ellipsis if something was cut.

    Example:
        >>> shorten("observation", 6)
        'obser…'
    """
    text = " ".join(str(text).split())
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def sparkline(values: Iterable[float], width: int = 32) -> str:
    """Draw values as a line of block characters, each the mean of an equal share of the values.

    A share without finite numbers is drawn as ``·``.

    Example:
        >>> sparkline([0, 1, 2, 3, float("nan"), 0])
        '▁▃▆█·▁'
    """
    data = np.asarray(list(values) if not isinstance(values, np.ndarray) else values, dtype=np.float64).ravel()
    if data.size == 0:
        return ""
    chunks = np.array_split(data, min(width, data.size))
    means = np.array([c[np.isfinite(c)].mean() if np.isfinite(c).any() else np.nan for c in chunks])
    good = means[np.isfinite(means)]
    if good.size == 0:
        return "·" * len(means)
    low, span = good.min(), np.ptp(good)
    if span == 0:
        return "".join("▄" if np.isfinite(m) else "·" for m in means)
    return "".join("·" if not np.isfinite(m) else _BLOCKS[round((m - low) / span * 7)] for m in means)


def table(rows: Sequence[Sequence[Any]], headers: Sequence[str] | None = None, right: Iterable[int] = ()) -> str:
    """Format rows as columns of fixed width, two spaces apart, without trailing blanks.

    Args:
        rows: Cells, converted by `str`.
        headers: Column titles, which are underlined. None: no titles.
        right: Indices of right-aligned columns.

    Example:
        >>> print(table([["a", 1], ["bcd", 20]], ["key", "n"], right=[1]))
        key   n
        ---  --
        a     1
        bcd  20
    """
    cells = [[str(c) for c in row] for row in rows]
    if headers is not None:
        cells = [list(headers), *cells]
    if not cells:
        return ""
    widths = [max(len(row[i]) if i < len(row) else 0 for row in cells) for i in range(max(map(len, cells)))]
    flush = set(right)
    lines = [
        "  ".join(c.rjust(widths[i]) if i in flush else c.ljust(widths[i]) for i, c in enumerate(row)).rstrip()
        for row in cells
    ]
    if headers is not None:
        lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def key_text(key: str | tuple[str, ...]) -> str:
    """Return a TensorDict key as Python code.

    Example:
        >>> key_text("reward"), key_text(("next", "reward"))
        ('"reward"', '("next", "reward")')
    """
    if isinstance(key, tuple):
        if len(key) == 1:
            return key_text(key[0])
        return "(" + ", ".join(key_text(k) for k in key) + ")"
    return '"' + printable(str(key).replace("\\", "\\\\").replace('"', '\\"')) + '"'


def visible(text: str, width: int = 40) -> str:
    r"""Return a key on one line, with control characters escaped, truncated to a width.

    Example:
        >>> visible("a\nb")
        'a\\nb'
    """
    text = printable(text, one_line=True)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def keys_of(path: tuple[str, ...]) -> dict[str, Any]:
    r"""Return the keys of a row for the page, and how they are shown if that differs: on one line, escaped.

    Example:
        >>> keys_of(("next", "reward")), keys_of(("a\nb",))
        ({'path': ['next', 'reward']}, {'path': ['a\nb'], 'shown': ['a\\nb']})
    """
    keys = list(path)
    shown = [printable(key, one_line=True) for key in keys]
    return {"path": keys} if shown == keys else {"path": keys, "shown": shown}


def path_text(path: tuple[str, ...]) -> str:
    """Join the keys of a path with dots, for labels."""
    return ".".join(visible(key) for key in path)


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
