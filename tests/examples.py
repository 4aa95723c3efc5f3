"""Numbers of examples for properties that are slow to test."""

from __future__ import annotations

import hypothesis


def at_most(count: int) -> hypothesis.settings:
    """Try at most so many examples of a property, and as few as any other where ``make test`` runs it.

    Example:
        >>> at_most(3).max_examples
        3
    """
    return hypothesis.settings(max_examples=min(count, hypothesis.settings().max_examples))
