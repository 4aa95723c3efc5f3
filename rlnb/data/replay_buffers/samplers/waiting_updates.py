"""WaitingUpdates: updates of priorities that wait until the next draw stores them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_ROWS = 32


class WaitingUpdates:
    """Updates of equally many priorities, as rows of arrays: checked when they arrive, stored together later.

    The cost of updating a few hundred priorities is mostly that of the calls involved. So each row exists beforehand in
    all the forms that are needed, and two comparisons check an update: read as unsigned integers, a negative position
    is larger than any valid one, and the bits of an invalid priority are larger than those of the largest valid one.
    Positions and priorities of an update have the shape ``[count]``; ``most`` is the largest priority allowed.

    Example:
        >>> waiting = WaitingUpdates(2, 100.0)
        >>> waiting.note(torch.tensor([0, 3]), torch.tensor([0.5, 2.0]), 4)
        True
        >>> waiting.note(torch.tensor([0, 4]), torch.tensor([0.5, 2.0]), 4)
        False
        >>> waiting.all()
        (array([0, 3]), array([0.5, 2. ]))
    """

    def __init__(self, count: int, most: float) -> None:
        self.shape = torch.Size([count])
        self._most_bits = int(np.float64(most).view(np.uint64))
        self._positions = np.empty((_ROWS, count), np.int64)
        self._values = np.empty((_ROWS, count))
        with torch.inference_mode(False):  # outside of that mode, nothing could write to a tensor made in it
            self._rows = [_forms(*row) for row in zip(self._positions, self._values, strict=True)]
        self._used = 0

    def __bool__(self) -> bool:
        return self._used > 0

    @property
    def full(self) -> bool:
        """Whether there is no row left."""
        return self._used == _ROWS

    def note(self, index: torch.Tensor, priority: torch.Tensor, end: int) -> bool:
        """Add an update of int64 positions below ``end`` and floating priorities if it is valid; return whether."""
        positions, values, position_bits, value_bits = self._rows[self._used]
        positions.copy_(index)
        values.copy_(priority)
        # For small arrays, argmax is several times as fast as max.
        fine = (
            position_bits.item(position_bits.argmax()) < end and value_bits.item(value_bits.argmax()) <= self._most_bits
        )
        self._used += fine
        return fine

    def add(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Add an update that is known to be valid; like :meth:`note`, only while there is a row left."""
        self._positions[self._used], self._values[self._used] = positions, values
        self._used += 1

    def all(self) -> tuple[np.ndarray, np.ndarray]:
        """Return views of all positions and priorities, oldest first; updates after :meth:`clear` overwrite them."""
        used = slice(self._used)
        return self._positions[used].reshape(-1), self._values[used].reshape(-1)

    def clear(self) -> None:
        """Remove all waiting updates."""
        self._used = 0

    def __reduce__(self) -> Any:
        # The forms of a row share memory; copied one by one, they would not.
        most = float(np.uint64(self._most_bits).view(np.float64))
        return _rebuild, (self.shape[0], most, *(part.copy() for part in self.all()))


def _rebuild(count: int, most: float, positions: np.ndarray, values: np.ndarray) -> WaitingUpdates:
    """Make a copy of waiting updates."""
    waiting = WaitingUpdates(count, most)
    for row in zip(positions.reshape(-1, count), values.reshape(-1, count), strict=True):
        waiting.add(*row)
    return waiting


def _forms(positions: np.ndarray, values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, np.ndarray, np.ndarray]:
    """Return a row as tensors to copy into, and as unsigned integers that share their memory."""
    bits = positions.view(np.uint64), values.view(np.uint64)
    return torch.from_numpy(positions), torch.from_numpy(values), *bits
