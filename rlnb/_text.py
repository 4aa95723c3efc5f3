"""Printable text: control characters, lone surrogates and marks that reorder a line, written as escapes."""

from __future__ import annotations

import re

# Control characters but tab and line feed; marks of direction; surrogates; what Unicode keeps for no character. The
# last three groups are also what XML forbids. Joiners (U+200C, U+200D) stay: scripts and emoji need them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufdd0-\ufdef\ufeff\ufff0-\ufffb\ufffe\uffff]"
)


def printable(text: str, *, one_line: bool = False) -> str:
    r"""Write what a terminal or a browser would not show as characters, or would obey, as Python's escapes.

    Args:
        text: any string, for example a key or an error text from data.
        one_line: whether tabs and line feeds are escaped too.

    Returns:
        Text that encodes as UTF-8 and is legal in XML.

    Example:
        >>> print(printable("red\x1b[31m \u202e"), printable("a\nb", one_line=True))
        red\x1b[31m \u202e a\nb
    """
    text = _UNPRINTABLE.sub(_escape, text)
    return text.replace("\n", "\\n").replace("\t", "\\t") if one_line else text


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
