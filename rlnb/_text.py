"""Printable text: control characters, lone surrogates and bidirectional marks as escape sequences."""

from __future__ import annotations

import re

# Control characters except tab and line feed; bidirectional marks; surrogates; noncharacters. XML forbids most of them,
# too. Joiners (U+200C, U+200D) are kept, because scripts and emoji need them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufdd0-\ufdef\ufeff\ufff0-\ufffb\ufffe\uffff]"
)


def printable(text: str, *, one_line: bool = False) -> str:
    r"""Escape characters that a terminal or browser would interpret or not show; with ``one_line``, newlines too.

    The result can be encoded as UTF-8 and is valid in XML.

    Example:
        >>> print(printable("red\x1b[31m \u202e"), printable("a\nb", one_line=True))
        red\x1b[31m \u202e a\nb
    """
    text = _UNPRINTABLE.sub(_escape, text)
    return text.replace("\n", "\\n").replace("\t", "\\t") if one_line else text


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
