"""Ring: where a storage is written next, and how much of it is filled."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

from rlnb.data.replay_buffers.forks import follow


class Ring:
    """The cursor of a storage: rows are written one after another, and over the oldest once all are filled.

    A row is one position along the dimension that a storage grows in: one element of a storage of one dimension, one
    step of all envs in a storage of two. Whoever writes does it so::

        with ring.lock:
            ...  # write the rows from ring.cursor on, modulo ring.size
            ring.advance(count)

    A call that fails in between has changed nothing that counts: the cursor has not moved.

    Args:
        size: how many rows there are room for.

    Attributes:
        size: the same.
        cursor: the row that is written next.
        length: how many rows are filled: the first ones.
        written: how many rows were ever written.
        changes: how often rows changed in another way than by being written at the cursor.
        lock: held by whoever writes.
        reading: held by whoever reads rows, so that none is written meanwhile.

    Example:
        >>> ring = Ring(3)
        >>> ring.advance(4)
        >>> ring.cursor, ring.length, ring.written
        (1, 3, 4)
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.cursor = self.length = self.written = self.changes = 0
        self._new_lock()

    def _new_lock(self) -> None:
        self.lock: AbstractContextManager[Any] = threading.RLock()
        self.reading: AbstractContextManager[Any] = self.lock
        follow(self)

    def _before_fork(self) -> None:
        return

    def _after_fork(self, child: bool) -> None:
        if child:
            self._new_lock()

    @property
    def alone(self) -> bool:
        """Whether no other process knows of the ring, which would find what this one leaves half done."""
        return True

    @property
    def is_full(self) -> bool:
        """Whether all rows are filled, so that writing goes over the oldest."""
        return self.length == self.size

    def advance(self, count: int) -> None:
        """Say that rows have been written.

        Args:
            count: how many, from the cursor on.
        """
        end = self.cursor + count
        length = max(self.length, min(end, self.size))
        # One statement without a call, in which Python lets no interrupt in.
        self.cursor, self.length, self.written = end % self.size, length, self.written + count

    def jump(self, cursor: int, length: int, written: int | None = None) -> None:
        """Set the state as a whole, such as one that was loaded.

        Args:
            cursor: the row that is written next.
            length: how many rows are filled.
            written: how many rows were ever written. Default: ``length``.
        """
        written, changes = length if written is None else written, self.changes + 1
        self.cursor, self.length, self.written, self.changes = cursor % self.size, length, written, changes

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("lock", "reading")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._new_lock()
