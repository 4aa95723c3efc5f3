"""TrajectoryIndex: where the trajectories in a storage begin and end, kept up to date as it is written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlnb.data.replay_buffers.samplers.signals import Signals


class Trajectories(NamedTuple):
    """Trajectories that are stored, whole or in part: those that ended in the order of their ends, then the open ones.

    Attributes:
        env: which element of a row, shape ``[n]``.
        start: the step where they begin, shape ``[n]``.
        length: how many steps of them are stored, shape ``[n]``.
    """

    env: np.ndarray
    start: np.ndarray
    length: np.ndarray


class _Seen(NamedTuple):
    """The ring as it was."""

    cursor: int
    length: int
    written: int
    changes: int


class TrajectoryIndex:
    """An index of the trajectories in a storage.

    A *step* is the number of a row since the first one that was ever written, so that it grows over time and a
    trajectory that crosses the end of the memory is as plain as any other. :meth:`refresh` reads only what was written
    since, whoever wrote it. All is read anew only when the ring did something else than to go on, such as being
    emptied or loaded, and when the ends of trajectories were written over.

    A trajectory ends at the latest where the newest step is, and begins at the earliest at the oldest step that is
    stored, so none crosses the cursor.

    Args:
        signals: say which steps are the last of their trajectory.

    Attributes:
        version: changes when anything does.
        epoch: changes when all was read anew.
        oldest: the oldest step that is stored.
        written: the step that is written next.
        known: the step up to which it is known where trajectories ended.

    Example:
        >>> import torch
        >>> from rlnb.data.replay_buffers.columns import Column
        >>> from rlnb.data.replay_buffers.ring import Ring
        >>> ring = Ring(5)
        >>> index = TrajectoryIndex(Signals(ring, 1, ends=[Column(torch.tensor([0, 1, 0, 1, 0]), 1)]))
        >>> ring.advance(5)
        >>> index.refresh()
        >>> index.trajectories(2)
        Trajectories(env=array([0, 0]), start=array([0, 2]), length=array([2, 2]))
    """

    def __init__(self, signals: Signals) -> None:
        self.signals, self._ring, self._width = signals, signals.ring, signals.width
        self._size = signals.ring.size
        self._stop = np.zeros((self._size, self._width), dtype=bool)  # by row
        self._seen: _Seen | None = None
        self.version = self.epoch = 0
        self._begin(_Seen(0, 0, 0, 0))

    # Keeping up -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take in what was written since the last time. The caller holds the ring, at least for reading."""
        ring, old = self._ring, self._seen
        now = _Seen(ring.cursor, ring.length, ring.written, ring.changes)
        if now == old:
            return
        if old is None or not self._goes_on(old, now):
            self._begin(now)
        self._advance(now)
        self._seen = now
        self.version += 1

    def _goes_on(self, old: _Seen, now: _Seen) -> bool:
        """Whether all that happened is that rows were written at the cursor."""
        new = now.written - old.written
        return new >= 0 and now.changes == old.changes and now.cursor == (old.cursor + new) % self._size

    def _begin(self, now: _Seen) -> None:
        self.written, self.oldest = now.written, now.written - now.length
        self.known = self.oldest
        self._shift = (now.cursor - now.written) % self._size  # from a step to its row
        self._open = np.full(self._width, self.oldest)  # where the trajectories begin that have not ended
        self._closed = np.zeros((3, 64), dtype=np.int64)  # env, start and end of those that have, by their ends
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
        """Find the row of a step."""
        return (step + self._shift) % self._size

    def _note(self, first: int, flags: np.ndarray) -> None:
        """Take in which of the steps from ``first`` on are the last of their trajectory."""
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
        is_first = np.concatenate([[True], env_of[1:] != env_of[:-1]])  # of those of its env
        start_of = np.where(is_first, self._open[env_of], np.concatenate([[0], end_of[:-1]]))
        self._open[env_of] = end_of  # the last one of an env stays
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
        """Hear that elements were written over. If that moved no end of a trajectory, nothing is read anew.

        The caller holds the ring, at least for reading.

        Args:
            positions: of the elements, shape ``[n]``.
        """
        seen, ring = self._seen, self._ring
        if seen is None or ring.changes != seen.changes + 1 or (ring.cursor - ring.written) % self._size != self._shift:
            return
        if self.signals.looks_ahead:  # the steps before them may end or go on now
            positions = np.concatenate([positions, (positions - self._width) % (self._size * self._width)])
        step = self._step(positions // self._width)
        positions = positions[(step >= ring.written - ring.length) & (step < self.known)]
        if (self.signals.stops_at(positions) == self._stop.reshape(-1).take(positions)).all():
            self._seen = seen._replace(changes=ring.changes)

    def _step(self, row: np.ndarray) -> np.ndarray:
        ring = self._ring
        return np.asarray(ring.written - 1 - (ring.cursor - 1 - row) % self._size)

    # What there is ----------------------------------------------------------------------------------------------------

    def trajectories(self, least: int = 1) -> Trajectories:
        """List the trajectories.

        Args:
            least: how many steps of them must be stored.

        Returns:
            The trajectories.
        """
        env, start, end = self._closed[:, self._head : self._tail]
        begun = np.flatnonzero(self._open < self.written)
        env = np.concatenate([env, begun])
        start = np.maximum(np.concatenate([start, self._open[begun]]), self.oldest)
        length = np.concatenate([end, np.full(len(begun), self.written)]) - start
        enough = length >= least
        if np.count_nonzero(enough) == len(enough):
            return Trajectories(env, start, length)
        chosen = np.flatnonzero(enough)  # taking them is faster than a mask
        return Trajectories(env.take(chosen), start.take(chosen), length.take(chosen))

    def positions(self, env: np.ndarray, first: np.ndarray, lengths: int | np.ndarray) -> np.ndarray:
        """Find where slices are stored.

        Args:
            env: which element of a row, shape ``[n]``.
            first: the first step of each, shape ``[n]``.
            lengths: of all of them, or of each, shape ``[n]``.

        Returns:
            The positions, one slice after another.
        """
        row = first + self._shift
        if isinstance(lengths, int):
            rows = (row[:, None] + np.arange(lengths)) % self._size
            return rows.reshape(-1) if self._width == 1 else (rows * self._width + env[:, None]).reshape(-1)
        begin = lengths.cumsum() - lengths
        rows = (np.repeat(row - begin, lengths) + np.arange(lengths.sum())) % self._size
        return rows if self._width == 1 else rows * self._width + np.repeat(env, lengths)

    def steps_at(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Say which element of its row, and which step, is at a position: the inverse of :meth:`positions`.

        Args:
            positions: shape ``[n]``.

        Returns:
            The envs and the steps, each of shape ``[n]``.
        """
        row, env = np.divmod(positions, self._width)
        return env, self._step(row)

    def goes_on(self, first: int, last: int, count: int) -> np.ndarray:
        """Say from which steps on a trajectory goes on for a while.

        Args:
            first: the first step.
            last: behind the last step.
            count: for how many steps, the step itself among them.

        Returns:
            Flags of shape ``[last - first, width]``.
        """
        end = min(last + count - 1, self.written)
        rows = (np.arange(first, end) + self._shift) % self._size
        before = np.zeros((end - first + 1, self._width), dtype=np.int32)  # how many trajectories ended before a step
        np.cumsum(self._stop[rows], axis=0, out=before[1:])
        inside = max(end - first - count + 1, 0)
        found = np.zeros((last - first, self._width), dtype=bool)
        found[:inside] = before[count - 1 : count - 1 + inside] == before[:inside]
        return found

    def left(self, env: np.ndarray, step: np.ndarray, most: int) -> np.ndarray:
        """Count the steps of a trajectory from a step on.

        Args:
            env: which element of a row, shape ``[n]``.
            step: the steps, shape ``[n]``.
            most: where counting stops.

        Returns:
            How many there are, the step itself among them, shape ``[n]``.
        """
        rows = (step[:, None] + np.arange(most) + self._shift) % self._size
        stops = self._stop[rows, env[:, None]]
        count = np.where(stops.any(1), stops.argmax(1) + 1, most)
        return np.minimum(count, self.written - step)
