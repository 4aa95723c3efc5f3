"""Moves and winning lines of games, computed from sequences of positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb_widgets.scenes.inputs import Floats

Ints = npt.NDArray[np.int64]
_LOOK_AHEAD = 256  # a position whose forerunner is farther away is taken for a start


def last_moves(boards: Ints, played: Floats | None = None) -> Ints:
    """Return the cell of the last move of each position, [N]; -1 if the position before is not found.

    It is the piece that the position before lacks. That is the one in the row above or, since players append the last
    positions of episodes at the end, the first earlier one that no other row continues. ``played`` holds the cell that
    is played in each position, NaN for none; moves that contradict it do not count.

    Example:
        >>> boards = np.array([[-1, -1], [-1, 0], [-1, -1], [1, 0]])
        >>> last_moves(boards).tolist()
        [-1, 1, -1, 0]
    """
    count = (boards >= 0).sum(1)
    found = np.full(len(boards), -1, np.int64)
    if len(boards) > 1:
        found[1:] = _between(boards[:-1], boards[1:], count[:-1], None if played is None else played[:-1])
    goes_on = np.append(found[1:] >= 0, False)
    open_rows, start = np.flatnonzero(~goes_on), 0
    for i in np.flatnonzero((found < 0) & (count > 0)):
        rows = open_rows[start : start + _LOOK_AHEAD]
        rows = rows[rows < i]
        cells = _between(boards[rows], boards[[i]], count[rows], None if played is None else played[rows])
        if (cells >= 0).any():
            k = int((cells >= 0).argmax())
            found[i], start = cells[k], start + k + 1
    return found


def _between(before: Ints, after: Ints, count: Ints, played: Floats | None) -> Ints:
    """Return the last cell put from `before` to `after`, a move or a move and its answer later; -1 for none."""
    new = before != after
    size = new.sum(1)
    mover = count % 2
    own = (new & (after == mover[:, None])).argmax(1)
    legal = ~(new & (before >= 0)).any(1) & (after[:, :] >= -1).all(1)
    legal &= (size == 1) | ((size == 2) & (new & (after == 1 - mover[:, None])).any(1))
    legal &= (new & (after == mover[:, None])).sum(1) == 1
    if played is not None:
        legal &= played == own
    last = np.where(size == 2, (new & (after == 1 - mover[:, None])).argmax(1), own)
    return np.where(legal, last, -1)


def won_lines(boards: Ints, lines: Ints) -> npt.NDArray[np.bool_]:
    """Return which lines [L, connect] are full of one player's pieces, bool [N, L].

    Example:
        >>> won_lines(np.array([[1, 1, 0]]), np.array([[0, 1], [1, 2]])).tolist()
        [[True, False]]
    """
    pieces: Any = boards[:, lines]
    return np.asarray((pieces[..., 0] >= 0) & (pieces == pieces[..., :1]).all(-1))
