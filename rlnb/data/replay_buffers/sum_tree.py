"""SumTree: sums of non-negative numbers by blocks, to draw positions in proportion to them."""

from __future__ import annotations

import math

import numpy as np
import torch

# A node is the sum of this many below. The whole batch descends level by level, a few array operations each: a larger
# fan-out means fewer levels and longer blocks. 32 was the fastest of 8 to 128 for a million elements.
_FAN_OUT = 32
_SHIFT = 5
# The uppermost level is searched by bisection, so it need not be a single node.
_TOP = 1024
# From this share of all elements on, everything is summed anew.
_REBUILD_SHARE = 1 / 8


class SumTree:
    """Sums of non-negative numbers, in blocks of blocks.

    Level 0 holds the numbers, each level above the sums of blocks of the one below, in flat float64 arrays. Setting
    numbers only notes where; the sums above them are formed anew from what is below when they are next needed, so that
    no error adds up over any number of updates. The smallest positive number is kept in the same way.

    Args:
        capacity: how many numbers, at first 0.

    Attributes:
        capacity: the same.

    Example:
        >>> tree = SumTree(5)
        >>> tree.set(np.array([1, 3]), np.array([3.0, 1.0]))
        >>> tree.total(), tree.least()
        (4.0, 1.0)
        >>> tree.find(np.array([0.0, 2.9, 3.5]))
        array([1, 1, 3])
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        sizes = [_blocks(capacity) * _FAN_OUT]
        while sizes[-1] > _TOP:
            sizes.append(_blocks(sizes[-1] // _FAN_OUT) * _FAN_OUT)
        self._sums = [np.zeros(size) for size in sizes]
        self._least = [np.full(size, np.inf) for size in sizes[1:]]  # level 0 is the numbers themselves
        self._touched: list[np.ndarray] = []  # what was set, unless it is too much
        self._touched_count, self._rebuild_at = 0, capacity * _REBUILD_SHARE
        self._sum_top()

    def set(self, positions: np.ndarray, values: np.ndarray | float) -> None:
        """Set numbers; the last one counts where a position comes twice.

        Args:
            positions: shape ``[n]``, from 0 to ``capacity - 1``.
            values: shape ``[n]``, or one for all; finite and not negative.
        """
        self._touched_count += len(positions)
        if self._touched_count > self._rebuild_at:
            self._touched.clear()
        else:
            self._touched.append(positions.copy())
        self._sums[0][positions] = values

    def get(self, positions: np.ndarray) -> np.ndarray:
        """Read numbers.

        Args:
            positions: shape ``[n]``.

        Returns:
            The numbers, shape ``[n]``.
        """
        return self._sums[0].take(positions)

    def total(self) -> float:
        """Sum all numbers up."""
        self._refresh()
        return float(self._before[-1])

    def least(self) -> float:
        """Return the smallest positive number; infinity if there is none."""
        self._refresh()
        return float(self._least[-1].min() if self._least else _positive(self._sums[0]).min())

    def most(self) -> float:
        """Return the largest number."""
        return float(self._sums[0].max())

    def values(self) -> np.ndarray:
        """Look at all numbers, shape ``[capacity]``."""
        return self._sums[0][: self.capacity]

    def find(self, masses: np.ndarray) -> np.ndarray:
        """Find where the running sum of the numbers first exceeds given masses.

        A mass drawn uniformly from 0 to :meth:`total` finds each position with a probability in proportion to its
        number. A position whose number is 0 is never found.

        Args:
            masses: shape ``[n]``, from 0 to :meth:`total`; this must be positive.

        Returns:
            The positions, shape ``[n]``.
        """
        self._refresh()
        # Sums of a block and of its parts differ in rounding: a mass is kept below the end of where it looks.
        masses = np.minimum(masses, np.nextafter(self._before[-1], 0))
        found = self._before[1:].searchsorted(masses, "right")
        masses = masses - self._before.take(found)
        places = np.arange(len(masses)) * _FAN_OUT - 1
        for level in reversed(self._sums[:-1]):
            # torch forms running sums of short rows several times as fast as numpy. Both go from left to right, so a
            # number 0 repeats the sum before it.
            sums = torch.from_numpy(level.reshape(-1, _FAN_OUT).take(found, 0)).cumsum(1).numpy()
            masses = np.minimum(masses, np.nextafter(sums[:, -1], 0))
            inside = (sums > masses[:, None]).argmax(1)
            masses -= sums.reshape(-1).take(places + inside, mode="wrap") * (inside > 0)
            found = found * _FAN_OUT + inside
        return found

    def clear(self) -> None:
        """Set all numbers to 0."""
        for sums in self._sums:
            sums[:] = 0
        for least in self._least:
            least[:] = np.inf
        self._touched, self._touched_count = [], 0
        self._sum_top()

    def _sum_top(self) -> None:
        """Form the running sums of the uppermost level, beginning with 0."""
        self._before = np.concatenate([[0.0], self._sums[-1].cumsum()])

    def _refresh(self) -> None:
        """Form the sums above the numbers that were set."""
        if not self._touched_count:
            return
        touched = self._touched
        nodes = None if not touched else touched[0] if len(touched) == 1 else np.concatenate(touched)
        for level in range(1, len(self._sums)):
            if nodes is not None:
                nodes = nodes >> _SHIFT
                if len(nodes) > _TOP:
                    nodes = np.unique(nodes)
            self._form(level, nodes)
        self._sum_top()
        self._touched, self._touched_count = [], 0

    def _form(self, level: int, nodes: np.ndarray | None) -> None:
        """Form nodes of a level from the blocks below them; None: all."""
        blocks = self._sums[level - 1].reshape(-1, _FAN_OUT)
        into = slice(len(blocks)) if nodes is None else nodes
        if nodes is not None:
            blocks = blocks.take(nodes, 0)
        self._sums[level][into] = np.einsum("ij->i", blocks)
        if level == 1:
            least = _least_of(blocks)
            if not least.all():  # the least of them is 0, which does not count
                least = _least_of(_positive(blocks))
        else:
            below = self._least[level - 2].reshape(-1, _FAN_OUT)
            least = _least_of(below if nodes is None else below.take(nodes, 0))
        self._least[level - 1][into] = least


def _least_of(blocks: np.ndarray) -> np.ndarray:
    # Several times as fast as numpy, for short rows.
    least: np.ndarray = torch.from_numpy(blocks).amin(1).numpy()
    return least


def _positive(numbers: np.ndarray) -> np.ndarray:
    """The numbers, with infinity in place of 0."""
    return np.where(numbers > 0, numbers, np.inf)


def _blocks(size: int) -> int:
    return math.ceil(max(size, 1) / _FAN_OUT)
