"""Parser of typed values: literals of numbers, lists, dictionaries and text, which are never executed."""

from __future__ import annotations

import ast
import math
from typing import Any

MAX_TEXT = 10_000
#: What JSON and people write, beside Python's own words.
WORDS = {"true": True, "false": False, "null": None, "nan": math.nan, "NaN": math.nan, "inf": math.inf}
WORDS["Infinity"] = math.inf

_EXPECTED = "a number, a list such as [0.5, 2.0], a dictionary, or text in quotes"


def read_literal(text: str) -> Any:
    """Parse a Python or JSON literal; ``nan``, ``inf``, ``true``, ``false`` and ``null`` are accepted.

    Raises:
        ValueError: it is something else; the text says what is expected.

    Example:
        >>> read_literal("[1, 2.5, -inf, true]")
        [1, 2.5, -inf, True]
    """
    if not text.strip():
        raise ValueError(f"nothing was typed; type {_EXPECTED}.")
    if len(text) > MAX_TEXT:
        raise ValueError(f"{len(text):,} characters are more than {MAX_TEXT:,}; call try_value in code instead.")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return ast.literal_eval(_Words().visit(tree))
    except SyntaxError as error:
        raise ValueError(f"this cannot be read ({error.msg}); type {_EXPECTED}.") from None
    except (ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"only literals are read, nothing is run; type {_EXPECTED}.") from None


class _Words(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(WORDS[node.id]), node) if node.id in WORDS else node
