"""Typical wrong answers, each made by changing a piece of the solution."""

from __future__ import annotations

import textwrap

from .exercise import WrongAnswer


def instead(solution: str, *, of: str, put: str, says: str) -> WrongAnswer:
    """Make a wrong answer of the solution by one change, so that what is wrong with it can be seen.

    Args:
        solution: source of the solution; it may be indented.
        of: the piece to change, which occurs in it; lines after its first are indented as in the dedented solution.
        put: what to write there.
        says: a piece of what the check must say.

    Returns:
        The wrong answer.

    Raises:
        ValueError: when ``of`` is not in the solution.

    Example:
        >>> instead("def double(x): return 2 * x", of="2 * x", put="x", says="not doubled").source
        'def double(x): return x'
    """
    source = textwrap.dedent(solution).strip("\n")
    if of not in source:
        raise ValueError(f"{of!r} is not in the solution:\n{source}")
    return WrongAnswer(source.replace(of, put), says=says)
