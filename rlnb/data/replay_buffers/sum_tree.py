"""Sum trees: block sums of non-negative numbers, to draw positions in proportion to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

# Number of children of a node. A whole batch descends level by level, with a few array operations on each: a larger
# fan-out means fewer levels and longer blocks. 32 was the fastest of 8 to 128 for a million numbers, and the 32
# comparisons within a block fit into the bits of one uint32.
_FAN_OUT = 32
_SHIFT = 5
_ONES = np.ones(_FAN_OUT)
# Up to this many blocks are summed by BLAS, in half the time; for more of them BLAS would start threads.
_FEW = 256
# The top level is searched by bisection, so it need not be a single node.
_TOP = 1024
# If more than this share of all numbers changed, all sums are recomputed.
_REBUILD_SHARE = 1 / 8


class SumTree:
    """Sums of ``capacity`` non-negative numbers, all 0 at first, in blocks of blocks.

    Level 0 holds the numbers, each level above the sums of blocks of the level below, in flat float64 arrays. Setting
    numbers only notes their positions; the sums above are computed from the level below when they are next needed, so
    that rounding errors do not accumulate over updates.

    The tree remembers one position of the smallest positive number. All numbers are searched only if that one was
    overwritten.

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
        # Every node has a full block, so that a search that rounding misleads still ends at a number.
        self._sums = [np.zeros(top * _FAN_OUT**below) for below in reversed(range(levels))]
        self._least, self._least_at = math.inf, 0
        self._touched: list[np.ndarray] = []  # positions that were set, unless they are too many
        self._touched_count, self._rebuild_at = 0, capacity * _REBUILD_SHARE
        self._before = np.zeros(top + 1)  # running sums of the top level, starting with 0

    def set(self, positions: np.ndarray, values: np.ndarray | float) -> None:
        """Set numbers, finite and not negative, at positions of shape ``[n]``; at the same position the last counts."""
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
        if 0 < least < self._least:  # first, so that an interrupt before the next line does no harm
            self._least, self._least_at = float(least), positions.item(place)
        self._sums[0][positions] = values

    def get(self, positions: np.ndarray) -> np.ndarray:
        """Read the numbers at positions of shape ``[n]``."""
        return self._sums[0].take(positions)

    def total(self) -> float:
        """Return the sum of all numbers."""
        self._refresh()
        return float(self._before[-1])

    def least(self) -> float:
        """Return the smallest positive number; infinity if all are 0."""
        if self._sums[0][self._least_at] != self._least:
            positive = _positive(self._sums[0])
            self._least = float(positive.min())
            # The middle of equal ones: a ring is overwritten in order, and would reach the first of them soon.
            places = np.flatnonzero(positive == self._least)
            self._least_at = int(places[len(places) // 2])
        return self._least

    def most(self) -> float:
        """Return the largest number."""
        return float(self._sums[0].max())

    def values(self) -> np.ndarray:
        """Return a view of all numbers, shape ``[capacity]``."""
        return self._sums[0][: self.capacity]

    def find(self, masses: np.ndarray) -> np.ndarray:
        """Find the items whose intervals contain the given masses: where the running sum first exceeds them.

        A mass drawn uniformly from 0 to :meth:`total`, which must be positive, finds each position with a probability
        proportional to its number. A position whose number is 0 is never found. Both arrays have the shape ``[n]``.
        """
        self._refresh()
        found = self._before[1:-1].searchsorted(masses, "right")
        short = self._before.take(found) - masses  # minus the mass that is left in the block
        places = np.arange(len(masses)) * _FAN_OUT - 1
        for level in reversed(self._sums[:-1]):
            blocks = level.reshape(-1, _FAN_OUT).take(found, 0)
            blocks[:, 0] += short
            # torch computes running sums of short rows several times as fast as numpy. Both go from left to right, so
            # a 0 repeats the sum before it.
            sums = torch.from_numpy(blocks).cumsum(1).numpy()
            # The sum of a block and those of its parts are rounded differently, so a mass can lie beyond all of them.
            inside = np.minimum(np.bitwise_count(np.packbits(sums <= 0).view(np.uint32)), _FAN_OUT - 1)
            found = found * _FAN_OUT + inside
            if level is not self._sums[0]:
                short = np.where(inside > 0, sums.reshape(-1).take(places + inside, mode="wrap"), short)
        numbers = self._sums[0]
        if not numbers.take(found).all():  # rounding again: take the last position before it that has mass
            for i in np.flatnonzero(numbers.take(found) == 0):
                found[i] = np.flatnonzero(numbers[: found[i]])[-1]
        return found

    def clear(self) -> None:
        """Set all numbers to 0."""
        self._touched, self._touched_count = [], max(self.capacity, 1)  # too many: all sums are recomputed
        self._sums[0][:] = 0

    def _refresh(self) -> None:
        """Update the sums above the numbers that were set."""
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


class StartTree(SumTree):
    """A :class:`SumTree` of priorities in which only some positions can be drawn: those where a slice can start.

    Totals, least numbers and draws refer to these positions, none before :meth:`allow` is called; :meth:`values` and
    :meth:`most` refer to all. The caller keeps in ``allowed_for`` what it last called :meth:`allow` for.

    Example:
        >>> tree = StartTree(3)
        >>> tree.set(np.arange(3), np.array([1.0, 2.0, 4.0]))
        >>> tree.allow(np.array([0, 2]), np.array([True, True]))
        >>> tree.total(), tree.values()
        (5.0, array([1., 2., 4.]))
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._priorities = np.zeros(capacity)
        self._allowed = np.zeros(capacity, dtype=bool)
        self.allowed_for: Any = None

    @property
    def allows_any(self) -> bool:
        """Whether any position can be drawn."""
        return bool(self._allowed.any())

    def allow(self, positions: np.ndarray, allowed: np.ndarray, only: bool = False) -> None:
        """Set whether each of some different positions can be drawn; with ``only``, no other position can."""
        if only:
            everywhere = np.zeros(self.capacity, dtype=bool)
            everywhere[positions] = allowed
            positions, allowed = np.arange(self.capacity), everywhere
        self._allowed[positions] = allowed
        super().set(positions, self._priorities[positions] * allowed)

    def set(self, positions: np.ndarray, values: np.ndarray | float) -> None:
        """Set numbers, of any position; see :meth:`SumTree.set`."""
        self._priorities[positions] = values
        super().set(positions, self._priorities[positions] * self._allowed[positions])

    def values(self) -> np.ndarray:
        """Return a view of all numbers, including those that cannot be drawn; see :meth:`SumTree.values`."""
        return self._priorities

    def most(self) -> float:
        """Return the largest number, including those that cannot be drawn."""
        return float(self._priorities.max())

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "allowed_for": None}

    def clear(self) -> None:
        """Set all numbers to 0, and let no position be drawn."""
        super().clear()
        self._priorities[:] = 0
        self._allowed[:] = False
        self.allowed_for = None


def _positive(numbers: np.ndarray) -> np.ndarray:
    """Return the numbers with infinity in place of 0."""
    return np.where(numbers > 0, numbers, np.inf)
