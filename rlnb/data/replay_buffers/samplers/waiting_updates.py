"""WaitingUpdates: updates of priorities, noted until something is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_ROWS = 32


class WaitingUpdates:
    """Updates of equally many priorities, as rows of arrays: looked at as they come, all stored at once later.

    An update of a few hundred priorities is mostly the price of the calls it takes. So each row is there beforehand in
    all the forms that are needed, and two questions decide whether an update can be taken as it is: read as unsigned
    integers, a position below 0 is larger than any other, and the bits of what is no priority are more than those of
    the largest one.

    Args:
        count: how many priorities each update has.
        most: the largest priority there can be.

    Attributes:
        shape: of positions and priorities of each update, ``[count]``.

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
        with torch.inference_mode(False):  # a tensor made in that mode could not be written to outside of it
            self._rows = [_forms(*row) for row in zip(self._positions, self._values, strict=True)]
        self._used = 0

    def __bool__(self) -> bool:
        return self._used > 0

    @property
    def full(self) -> bool:
        """Whether there is no row left."""
        return self._used == _ROWS

    def note(self, index: torch.Tensor, priority: torch.Tensor, end: int) -> bool:
        """Note an update, unless there may be anything wrong with it. There must be a row left.

        Args:
            index: the positions, int64 of shape :attr:`shape`.
            priority: floating point, of the same shape.
            end: the positions must be below it.

        Returns:
            Whether it was noted.
        """
        positions, values, position_bits, value_bits = self._rows[self._used]
        positions.copy_(index)
        values.copy_(priority)
        # For as few as these, argmax is several times as fast as max.
        fine = (
            position_bits.item(position_bits.argmax()) < end and value_bits.item(value_bits.argmax()) <= self._most_bits
        )
        self._used += fine
        return fine

    def add(self, positions: np.ndarray, values: np.ndarray) -> None:
        """Note an update with which nothing is wrong. There must be a row left.

        Args:
            positions: shape :attr:`shape`.
            values: the same.
        """
        self._positions[self._used], self._values[self._used] = positions, values
        self._used += 1

    def all(self) -> tuple[np.ndarray, np.ndarray]:
        """Look at all that wait.

        Returns:
            The positions and the priorities, oldest first; updates after :meth:`clear` write over them.
        """
        used = slice(self._used)
        return self._positions[used].reshape(-1), self._values[used].reshape(-1)

    def clear(self) -> None:
        """Forget all that wait."""
        self._used = 0

    def __reduce__(self) -> Any:
        # The forms of a row look at one memory, and those of a copy at another.
        most = float(np.uint64(self._most_bits).view(np.float64))
        return _noted, (self.shape[0], most, *(part.copy() for part in self.all()))


def _noted(count: int, most: float, positions: np.ndarray, values: np.ndarray) -> WaitingUpdates:
    """A copy of what waits."""
    waiting = WaitingUpdates(count, most)
    for row in zip(positions.reshape(-1, count), values.reshape(-1, count), strict=True):
        waiting.add(*row)
    return waiting


def _forms(positions: np.ndarray, values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, np.ndarray, np.ndarray]:
    """A row as tensors to copy into, and as the unsigned integers of the same bits."""
    bits = positions.view(np.uint64), values.view(np.uint64)
    return torch.from_numpy(positions), torch.from_numpy(values), *bits
