"""Cursor and length of a storage that is written as a ring."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from rlnb.data.replay_buffers.process_lock import follow


class Ring:
    """Cursor of a storage: rows are written one after another and overwrite the oldest once all are filled.

    A row is one position along the dimension in which a storage grows: one item of a one-dimensional storage, one step
    of all envs in a two-dimensional storage. A write looks like this::

        with ring.lock:
            ...  # write the rows from ring.cursor on, modulo ring.size
            ring.advance(count)

    A call that fails before ``advance`` leaves the cursor where it was.

    Attributes:
        cursor: Row that is written next.
        length: Number of rows that are filled: the first ones.
        written: Number of rows that were ever written.
        changes: Number of changes to rows other than writes at the cursor.
        lock: Context for writing.
        reading: Context for reading, in which no row is written.

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
        """Whether no other process knows of the ring and could find a write of this process unfinished."""
        return True

    @property
    def is_full(self) -> bool:
        """Whether all rows are filled, so that the next write overwrites the oldest."""
        return self.length == self.size

    def advance(self, count: int) -> None:
        """Move the cursor behind ``count`` rows that have been written."""
        end = self.cursor + count
        length = max(self.length, min(end, self.size))
        # One statement without a call: an interrupt comes before or after it, so cursor and length always agree.
        self.cursor, self.length, self.written = end % self.size, length, self.written + count

    def jump(self, cursor: int, length: int, written: int | None = None) -> None:
        """Set the whole state, for example after loading a checkpoint; ``written`` is ``length`` by default."""
        written, changes = length if written is None else written, self.changes + 1
        self.cursor, self.length, self.written, self.changes = cursor % self.size, length, written, changes

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("lock", "reading")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._new_lock()


def finish(write: Callable[[], None]) -> None:
    """Write; if Ctrl+C interrupts it, write all again before the interrupt goes on, so that nothing is half done."""
    try:
        write()
    except KeyboardInterrupt:
        write()
        raise
