"""Counting: all combinations of several choices in a row."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

#: More values than this are not written out: a slip such as a batch of choices would fill the memory.
LIMIT = 2**24

Count = int | float


def combinations(counts: Sequence[Count], what: str) -> torch.Tensor:
    """List all ways to take one of ``counts[i]`` at each place ``i``; the last place changes fastest.

    Args:
        counts: how many there are at each place; infinity where they cannot be listed.
        what: whose values these are, for the error.

    Returns:
        An int64 tensor of shape ``[prod(counts), len(counts)]``, entry ``i`` from 0 to ``counts[i] - 1``.

    Raises:
        ValueError: there are too many, or endlessly many.

    Example:
        >>> combinations([2, 3], "MultiCategorical").tolist()
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    total = math.prod(counts)
    if total > LIMIT:
        many = "endlessly many" if total == math.inf else f"{total:,}" if total < 10**15 else "more than 10^15"
        raise ValueError(
            f"{what} has {many} values, of which at most {LIMIT:,} can be listed. Draw some instead: spec.rand((n,))."
        )
    columns, below = [], int(total)
    number = torch.arange(int(total))
    for count in counts:
        below //= max(int(count), 1)
        columns.append(number // max(below, 1) % max(int(count), 1))
    return torch.stack(columns, -1) if columns else number.unsqueeze(-1)[:, :0]
