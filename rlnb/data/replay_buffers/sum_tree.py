"""SumTree: sums of non-negative numbers by blocks, to draw positions in proportion to them."""

from __future__ import annotations

import math

import numpy as np
import torch

# A node is the sum of this many below. The whole batch descends level by level, a few array operations each: a larger
# fan-out means fewer levels and longer blocks. 32 was the fastest of 8 to 128 for a million elements, and the answers
# about a block fill the bits of one uint32.
_FAN_OUT = 32
_SHIFT = 5
_ONES = np.ones(_FAN_OUT)
# So many blocks are summed by BLAS, in half of the time; of more of them it would make work for several threads.
_FEW = 256
# The uppermost level is searched by bisection, so it need not be a single node.
_TOP = 1024
# From this share of all elements on, everything is summed anew.
_REBUILD_SHARE = 1 / 8


class SumTree:
    """Sums of non-negative numbers, in blocks of blocks.

    Level 0 holds the numbers, each level above the sums of blocks of the one below, in flat float64 arrays. Setting
    numbers only notes where; the sums above them are formed anew from what is below when they are next needed, so that
    no error adds up over any number of updates.

    Of the smallest positive number it knows one place. While the number is still there and no smaller one came, it is
    the smallest; only if another one was written over it, all are searched.

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
        top, levels = max(capacity, 1), 1
        while top > _TOP:
            top, levels = math.ceil(top / _FAN_OUT), levels + 1
        # Every node has all of its blocks, so that a search led astray by rounding still ends at a number.
        self._sums = [np.zeros(top * _FAN_OUT**below) for below in reversed(range(levels))]
        self._least, self._least_at = math.inf, 0
        self._touched: list[np.ndarray] = []  # what was set, unless it is too much
        self._touched_count, self._rebuild_at = 0, capacity * _REBUILD_SHARE
        self._before = np.zeros(top + 1)  # the running sums of the uppermost level, beginning with 0

    def set(self, positions: np.ndarray, values: np.ndarray | float) -> None:
        """Set numbers; the last one counts where a position comes twice.

        Args:
            positions: shape ``[n]``, from 0 to ``capacity - 1``.
            values: shape ``[n]``, or one for all; finite and not negative.
        """
        if not len(positions):
            return
        self._touched_count += len(positions)
        if self._touched_count > self._rebuild_at:
            self._touched.clear()
        else:
            self._touched.append(positions.copy())
        place, least = 0, values
        if isinstance(values, np.ndarray):
            place = int(values.argmin())
            if values[place] == 0:
                place = int(_positive(values).argmin())
            least = values.item(place)
        if 0 < least < self._least:  # noted first: whatever interrupts the next line leaves nothing wrong behind
            self._least, self._least_at = float(least), positions.item(place)
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
        if self._sums[0][self._least_at] != self._least:
            positive = _positive(self._sums[0])
            self._least = float(positive.min())
            # The middle one of equal ones: in order, as a ring is written, it is not the next to be written over.
            places = np.flatnonzero(positive == self._least)
            self._least_at = int(places[len(places) // 2])
        return self._least

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
        found = self._before[1:-1].searchsorted(masses, "right")
        short = self._before.take(found) - masses  # how far what lies before falls short of the mass
        places = np.arange(len(masses)) * _FAN_OUT - 1
        for level in reversed(self._sums[:-1]):
            blocks = level.reshape(-1, _FAN_OUT).take(found, 0)
            blocks[:, 0] += short
            # torch forms running sums of short rows several times as fast as numpy. Both go from left to right, so a
            # number 0 repeats the sum before it.
            sums = torch.from_numpy(blocks).cumsum(1).numpy()
            # Sums of a block and of its parts differ in rounding, so a mass can lie behind all of them.
            inside = np.minimum(np.bitwise_count(np.packbits(sums <= 0).view(np.uint32)), _FAN_OUT - 1)
            found = found * _FAN_OUT + inside
            if level is not self._sums[0]:
                short = np.where(inside > 0, sums.reshape(-1).take(places + inside, mode="wrap"), short)
        numbers = self._sums[0]
        if not numbers.take(found).all():  # rounding again: the one before, that has mass, was meant
            for i in np.flatnonzero(numbers.take(found) == 0):
                found[i] = np.flatnonzero(numbers[: found[i]])[-1]
        return found

    def clear(self) -> None:
        """Set all numbers to 0."""
        self._touched, self._touched_count = [], max(self.capacity, 1)  # too many to be noted: all sums are formed anew
        self._sums[0][:] = 0

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
            blocks = self._sums[level - 1].reshape(-1, _FAN_OUT)
            if nodes is None:
                np.einsum("ij->i", blocks, out=self._sums[level])
            else:
                blocks = blocks.take(nodes, 0)
                sums = blocks.dot(_ONES) if len(nodes) <= _FEW else np.einsum("ij->i", blocks)
                self._sums[level][nodes] = sums
        self._sums[-1].cumsum(out=self._before[1:])
        self._touched, self._touched_count = [], 0


def _positive(numbers: np.ndarray) -> np.ndarray:
    """The numbers, with infinity in place of 0."""
    return np.where(numbers > 0, numbers, np.inf)
