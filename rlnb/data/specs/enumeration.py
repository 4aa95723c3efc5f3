"""Enumeration of all combinations of several choices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

#: The largest number of values to list. A mistake, such as a batch of choices, could otherwise fill the memory.
LIMIT = 2**24

Count = int | float


def combinations(counts: Sequence[Count], what: str) -> torch.Tensor:
    """List all combinations of one of ``counts[i]`` choices for each ``i``. The last one changes fastest.

    Args:
        counts: the numbers of choices; infinity if they cannot be listed.
        what: the name of the spec, for the error message.

    Returns:
        An int64 tensor of shape ``[prod(counts), len(counts)]``, with column ``i`` from 0 to ``counts[i] - 1``.

    Raises:
        ValueError: If there are infinitely many combinations, or too many to list.

    Example:
        >>> combinations([2, 3], "MultiCategorical").tolist()
        [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    total = math.prod(counts)
    if total > LIMIT:
        many = "infinitely many" if total == math.inf else f"{total:,}" if total < 10**15 else "more than 10^15"
        raise ValueError(
            f"{what} has {many} values, of which at most {LIMIT:,} can be listed. Draw some instead: spec.rand((n,))."
        )
    columns, below = [], int(total)
    number = torch.arange(int(total))
    for count in counts:
        below //= max(int(count), 1)
        columns.append(number // max(below, 1) % max(int(count), 1))
    return torch.stack(columns, -1) if columns else number.unsqueeze(-1)[:, :0]
