"""TrajectoryIndex: where the trajectories in a storage start and end, updated as data is written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlnb.data.replay_buffers.samplers.signals import Signals


class StoredTrajectories(NamedTuple):
    """Env, first stored step and number of stored steps of trajectories, each of shape ``[n]``.

    First come those that ended, in the order of their ends, then the open ones.
    """

    env: np.ndarray
    start: np.ndarray
    length: np.ndarray


class _Seen(NamedTuple):
    """The state of the ring at the last refresh."""

    cursor: int
    length: int
    written: int
    changes: int


class TrajectoryIndex:
    """An index of the trajectories in a storage.

    A *step* is the number of a row, counted since the first row that was ever written. It grows over time, so that a
    trajectory that wraps around the end of the memory needs no special treatment. :meth:`refresh` reads only rows
    written since, by any process. Everything is read again only if the ring did more than advance (it was emptied or
    loaded, for example), or if ends of trajectories were overwritten.

    A trajectory ends at the newest step at the latest, and starts at the oldest stored step at the earliest, so none
    crosses the cursor.

    Attributes:
        version: changes with every change of the index.
        epoch: changes when everything was read again.
        oldest: the oldest stored step.
        written: the step that is written next.
        known: the first step whose end signal has not been read.

    Example:
        >>> import torch
        >>> from rlnb.data.replay_buffers.columns import Column
        >>> from rlnb.data.replay_buffers.ring import Ring
        >>> ring = Ring(5)
        >>> index = TrajectoryIndex(Signals(ring, 1, ends=[Column(torch.tensor([0, 1, 0, 1, 0]), 1)]))
        >>> ring.advance(5)
        >>> index.refresh()
        >>> index.trajectories(2)
        StoredTrajectories(env=array([0, 0]), start=array([0, 2]), length=array([2, 2]))
    """

    def __init__(self, signals: Signals) -> None:
        self.signals, self._ring, self._width = signals, signals.ring, signals.width
        self._size = signals.ring.size
        self._stop = np.zeros((self._size, self._width), dtype=bool)  # by row
        self._seen: _Seen | None = None
        self.version = self.epoch = 0
        self._begin(_Seen(0, 0, 0, 0))

    def refresh(self) -> None:
        """Read what was written since the last call. The caller holds the ring, at least for reading."""
        ring, old = self._ring, self._seen
        now = _Seen(ring.cursor, ring.length, ring.written, ring.changes)
        if now == old:
            return
        if old is None or not self._advanced(old, now):
            self._begin(now)
        self._advance(now)
        self._seen = now
        self.version += 1

    def _advanced(self, old: _Seen, now: _Seen) -> bool:
        """Whether the only change is that rows were written at the cursor."""
        new = now.written - old.written
        return new >= 0 and now.changes == old.changes and now.cursor == (old.cursor + new) % self._size

    def _begin(self, now: _Seen) -> None:
        self.written, self.oldest = now.written, now.written - now.length
        self.known = self.oldest
        self._shift = (now.cursor - now.written) % self._size  # from a step to its row
        self._open = np.full(self._width, self.oldest)  # starts of the trajectories that have not ended
        self._closed = np.zeros((3, 64), dtype=np.int64)  # env, start and end of those that have, ordered by end
        self._head = self._tail = 0
        self.epoch += 1

    def _advance(self, now: _Seen) -> None:
        self.written, self.oldest = now.written, now.written - now.length
        first = max(self.known, self.oldest)
        last = max(self.written - self.signals.looks_ahead, first)
        if last > first:
            self._note(first, self.signals.stops(self.row(first), last - first))
        self.known = last
        self._head += int(self._closed[2, self._head : self._tail].searchsorted(self.oldest, "right"))

    def row(self, step: int) -> int:
        """Return the row of a step."""
        return (step + self._shift) % self._size

    def _note(self, first: int, flags: np.ndarray) -> None:
        """Record the end signals of the steps from ``first`` on."""
        start = self.row(first)
        before_end = min(len(flags), self._size - start)
        self._stop[start : start + before_end] = flags[:before_end]
        self._stop[: len(flags) - before_end] = flags[before_end:]
        place = np.flatnonzero(flags)
        if not len(place):
            return
        if self._width == 1:
            end = place + (first + 1)
            self._append(0, np.concatenate([self._open, end[:-1]]), end)
            self._open = end[-1:]
            return
        step, env = np.divmod(place, self._width)
        end = step + first + 1
        order = env.argsort(kind="stable")
        env_of, end_of = env[order], end[order]
        is_first = np.concatenate([[True], env_of[1:] != env_of[:-1]])  # of the ends in its env
        start_of = np.where(is_first, self._open[env_of], np.concatenate([[0], end_of[:-1]]))
        self._open[env_of] = end_of  # the last assignment of each env wins
        starts = np.empty_like(end)
        starts[order] = start_of
        self._append(env, starts, end)

    def _append(self, env: np.ndarray | int, start: np.ndarray, end: np.ndarray) -> None:
        count, used = len(end), self._tail - self._head
        if self._tail + count > self._closed.shape[1]:
            room = np.zeros((3, max(2 * (used + count), 64)), dtype=np.int64)
            room[:, :used] = self._closed[:, self._head : self._tail]
            self._closed, self._head, self._tail = room, 0, used
        for row, values in zip(self._closed, (env, start, end), strict=True):
            row[self._tail : self._tail + count] = values
        self._tail += count

    def overwritten(self, positions: np.ndarray) -> None:
        """Check items that were overwritten; if no trajectory ends elsewhere now, nothing needs to be read again.

        The caller holds the ring, at least for reading.
        """
        seen, ring = self._seen, self._ring
        if seen is None or ring.changes != seen.changes + 1 or (ring.cursor - ring.written) % self._size != self._shift:
            return
        if self.signals.looks_ahead:  # the steps before them may now be last ones, or no longer
            positions = np.concatenate([positions, (positions - self._width) % (self._size * self._width)])
        step = self._step(positions // self._width)
        positions = positions[(step >= ring.written - ring.length) & (step < self.known)]
        if (self.signals.stops_at(positions) == self._stop.reshape(-1).take(positions)).all():
            self._seen = seen._replace(changes=ring.changes)

    def _step(self, row: np.ndarray) -> np.ndarray:
        ring = self._ring
        return np.asarray(ring.written - 1 - (ring.cursor - 1 - row) % self._size)

    def trajectories(self, least: int = 1) -> StoredTrajectories:
        """List the trajectories with at least ``least`` stored steps."""
        env, start, end = self._closed[:, self._head : self._tail]
        begun = np.flatnonzero(self._open < self.written)
        env = np.concatenate([env, begun])
        start = np.maximum(np.concatenate([start, self._open[begun]]), self.oldest)
        length = np.concatenate([end, np.full(len(begun), self.written)]) - start
        enough = length >= least
        if np.count_nonzero(enough) == len(enough):
            return StoredTrajectories(env, start, length)
        chosen = np.flatnonzero(enough)  # faster than a mask
        return StoredTrajectories(env.take(chosen), start.take(chosen), length.take(chosen))

    def positions(self, env: np.ndarray, first: np.ndarray, lengths: int | np.ndarray) -> np.ndarray:
        """Return the concatenated positions of slices of one length, or of one for each, shape ``[n]``."""
        row = first + self._shift
        if isinstance(lengths, int):
            rows = (row[:, None] + np.arange(lengths)) % self._size
            return rows.reshape(-1) if self._width == 1 else (rows * self._width + env[:, None]).reshape(-1)
        begin = lengths.cumsum() - lengths
        rows = (np.repeat(row - begin, lengths) + np.arange(lengths.sum())) % self._size
        return rows if self._width == 1 else rows * self._width + np.repeat(env, lengths)

    def steps_at(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the env and the step at each position: the inverse of :meth:`positions`."""
        row, env = np.divmod(positions, self._width)
        return env, self._step(row)

    def goes_on(self, first: int, last: int, count: int) -> np.ndarray:
        """Check from which steps on, of ``[last - first, width]``, a trajectory has at least ``count`` steps left."""
        end = min(last + count - 1, self.written)
        rows = (np.arange(first, end) + self._shift) % self._size
        before = np.zeros((end - first + 1, self._width), np.int32)  # number of trajectories that ended before a step
        np.cumsum(self._stop[rows], axis=0, out=before[1:])
        inside = max(end - first - count + 1, 0)
        found = np.zeros((last - first, self._width), dtype=bool)
        found[:inside] = before[count - 1 : count - 1 + inside] == before[:inside]
        return found

    def left(self, env: np.ndarray, step: np.ndarray, most: int) -> np.ndarray:
        """Count the steps from each given one to the end of its trajectory, itself included, up to ``most``."""
        rows = (step[:, None] + np.arange(most) + self._shift) % self._size
        stops = self._stop[rows, env[:, None]]
        count = np.where(stops.any(1), stops.argmax(1) + 1, most)
        return np.minimum(count, self.written - step)
