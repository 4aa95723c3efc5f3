"""Samples of products of parameters: ``make test`` runs the sample, ``make test-deep`` the rest of the product."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

Row = tuple[int, ...]


def covering(sizes: Sequence[int], strength: int = 2) -> list[Row]:
    """Choose rows of a product so that each value, or each pair of values of two factors, is in one of them.

    The choice is the same each time. Pairs are covered greedily: a row starts with the first pair that is missing, and
    takes of each other factor the value that covers the most pairs, the one that was used least if there are several.

    Args:
        sizes: how many values each factor has.
        strength: 1 to cover the values, 2 to cover the pairs.

    Returns:
        The rows, as indices of the values.

    Example:
        >>> covering([3, 2], strength=1)
        [(0, 0), (1, 1), (2, 1)]
        >>> len(covering([4, 3, 2])), 4 * 3 * 2
        (12, 24)
    """
    if strength == 1 or len(sizes) < 2:
        # Each time around a factor, its values come one later, so that they do not go along with a period of another.
        return [tuple((i + i // size) % size for size in sizes) for i in range(max(sizes))]
    factors = range(len(sizes))
    missing = dict.fromkeys(
        (f, i, g, j) for f, g in itertools.combinations(factors, 2) for i in range(sizes[f]) for j in range(sizes[g])
    )
    rows, used = [], Counter[tuple[int, int]]()
    while missing:
        f, i, g, j = next(iter(missing))
        row = {f: i, g: j}
        for h in factors:
            if h not in row:
                row[h] = max(
                    range(sizes[h]), key=lambda k, h=h: (sum(p in missing for p in _with(row, h, k)), -used[h, k])
                )
        used.update(row.items())
        for h in factors:
            for pair in _with(row, h, row[h]):
                missing.pop(pair, None)
        rows.append(tuple(row[h] for h in factors))
    return rows


def _with(row: dict[int, int], h: int, k: int) -> Iterator[tuple[int, int, int, int]]:
    """The pairs of value k of factor h with the values that a row has of other factors."""
    return ((f, i, h, k) if f < h else (h, k, f, i) for f, i in row.items() if f != h)


def sampled(*factors: Iterable[Any], strength: int = 2) -> list[Any]:
    """Give the product of factors to ``pytest.mark.parametrize``, with all but a sample of it marked ``deep``.

    Args:
        factors: the values of each parameter. A mapping names them; a ``pytest.param`` with an id may stand for
            several parameters.
        strength: as for :func:`covering`.

    Returns:
        A ``pytest.param`` for each row of the product.
    """
    lists = [list(map(_param, each.items() if isinstance(each, Mapping) else map(_named, each))) for each in factors]
    chosen = set(covering([len(each) for each in lists], strength))
    params = []
    for row in itertools.product(*(range(len(each)) for each in lists)):
        cells = [each[i] for each, i in zip(lists, row, strict=True)]
        values = [value for cell in cells for value in cell.values]
        name = "-".join(cell.id for cell in cells)
        params.append(pytest.param(*values, id=name, marks=() if row in chosen else pytest.mark.deep))
    return params


def few(cases: Iterable[Any], chosen: int | Collection[Any] = 1) -> list[Any]:
    """Give cases to ``pytest.mark.parametrize``, with all but a few marked ``deep``.

    Args:
        cases: values of one parameter, tuples of several, or each a ``pytest.param``.
        chosen: what ``make test`` runs: so many of the first cases, or these.

    Returns:
        A ``pytest.param`` for each case.
    """
    params = []
    for nth, case in enumerate(cases):
        param = case if hasattr(case, "marks") else pytest.param(*(case if isinstance(case, tuple) else (case,)))
        runs = nth < chosen if isinstance(chosen, int) else case in chosen
        params.append(pytest.param(*param.values, id=param.id, marks=param.marks if runs else pytest.mark.deep))
    return params


def _named(value: Any) -> tuple[str, Any]:
    return getattr(value, "__name__", str(value)), value


def _param(named: tuple[str, Any]) -> Any:
    name, value = named
    return value if hasattr(value, "marks") else pytest.param(value, id=name)
