"""StartTree: a sum tree in which only some positions can be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb.data.replay_buffers.sum_tree import SumTree


class StartTree(SumTree):
    """A :class:`SumTree` of priorities that counts only the positions where a slice can start.

    Totals, least numbers and draws are those of these positions. :meth:`values` and :meth:`most` are about all of them.

    Args:
        capacity: how many numbers, at first 0. None of them can be drawn before :meth:`allow` says so.

    Attributes:
        allowed_for: what :meth:`allow` was last called for; for the caller.

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
        """Say which positions can be drawn.

        Args:
            positions: each at most once, shape ``[n]``.
            allowed: whether each can be drawn, shape ``[n]``.
            only: whether no other position can be drawn.
        """
        if only:
            everywhere = np.zeros(self.capacity, dtype=bool)
            everywhere[positions] = allowed
            positions, allowed = np.arange(self.capacity), everywhere
        self._allowed[positions] = allowed
        super().set(positions, self._priorities[positions] * allowed)

    def set(self, positions: np.ndarray, values: np.ndarray | float) -> None:
        """Set numbers, whether or not they count; see :meth:`SumTree.set`."""
        self._priorities[positions] = values
        super().set(positions, self._priorities[positions] * self._allowed[positions])

    def values(self) -> np.ndarray:
        """Look at all numbers, those that do not count among them; see :meth:`SumTree.values`."""
        return self._priorities

    def most(self) -> float:
        """Return the largest number, of those that do not count as well."""
        return float(self._priorities.max())

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "allowed_for": None}

    def clear(self) -> None:
        """Set all numbers to 0, and let none be drawn."""
        super().clear()
        self._priorities[:] = 0
        self._allowed[:] = False
        self.allowed_for = None
