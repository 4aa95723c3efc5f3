"""Prefetcher: threads that prepare the next batches of a buffer."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import torch

from rlnb.data.replay_buffers.samplers.base import Info

Draw = tuple[Any, Info, bool]  # the index of a batch, the sampler's info, and whether it is the last one of an epoch


class Prefetchable(Protocol):
    """A buffer, as its prefetcher uses it."""

    def _draw_ahead(self) -> tuple[tuple[Any, Any, Info], bool]:
        """Draw a batch: its data, index and info, and whether it is the last one of an epoch."""

    def _gather_again(self, index: Any, info: Info) -> tuple[Any, Any, Info]:
        """Return data, index and info of a batch that was drawn before."""

    def _finish(self, drawn: tuple[Any, Any, Info]) -> Any:
        """Make the batch, in a thread."""


class Prefetched(NamedTuple):
    """A batch in preparation, the draw that it is made of, and whether it is the last one of an epoch."""

    future: Future[Any]
    draw: Draw
    last: bool


class Prefetcher:
    """Prepares ``depth`` batches ahead in as many threads, and returns them in the order of drawing.

    The calling thread draws the items of one batch after another, so that a seed gives one sequence of batches,
    whatever the timing of the threads. The threads do the slow rest.

    Example:
        >>> class Numbers:
        ...     count = 0
        ...     def _draw_ahead(self):
        ...         self.count += 1
        ...         return (self.count * 10, self.count, {}), False
        ...     def _finish(self, drawn):
        ...         return drawn[0]
        >>> prefetcher, numbers = Prefetcher(2), Numbers()
        >>> prefetcher.next(numbers).future.result(), prefetcher.next(numbers).future.result()
        (10, 20)
        >>> prefetcher.draws
        [(3, {}, False)]
        >>> prefetcher.close()
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._queue: deque[Prefetched] = deque()
        self._to_repeat: deque[Draw] = deque()  # draws that were made before, and are not in the queue yet
        self._pool: ThreadPoolExecutor | None = None
        self._pool_process = 0

    def next(self, source: Prefetchable) -> Prefetched:
        """Return the next batch of a buffer, to which no reference is kept: a buffer is freed with its last user.

        The batch may still be in preparation. Wait for it without holding a lock that a transform may need.
        """
        pool = self._running_pool()
        with torch.inference_mode(False):  # the batch may be used later where gradients are needed
            while self._to_repeat:
                index, info, last = self._to_repeat[0]
                self._submit(pool, source, source._gather_again(index, info), last)
                self._to_repeat.popleft()
            # Stops at the end of an epoch: the next epoch is drawn only when it is asked for.
            while len(self._queue) < self.depth and not (self._queue and self._queue[-1].last):
                self._submit(pool, source, *source._draw_ahead())
        return self._queue.popleft()

    def _submit(self, pool: ThreadPoolExecutor, source: Prefetchable, drawn: tuple[Any, Any, Info], last: bool) -> None:
        self._queue.append(Prefetched(pool.submit(source._finish, drawn), (*drawn[1:], last), last))

    def _running_pool(self) -> ThreadPoolExecutor:
        """The threads; a forked process does not inherit them and starts its own."""
        if self._pool is None or self._pool_process != os.getpid():
            self._pool, self._pool_process = ThreadPoolExecutor(self.depth, "rlnb-prefetch"), os.getpid()
            weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
            self.restart(self.draws)
        return self._pool

    @property
    def draws(self) -> list[Draw]:
        """The draws of the batches that were not returned yet."""
        return [*(prefetched.draw for prefetched in self._queue), *self._to_repeat]

    def restart(self, draws: Iterable[Draw]) -> None:
        """Drop the batches in preparation, and prepare those of ``draws`` first, as :attr:`draws` returns them."""
        draws = deque(draws)
        self.clear()
        self._to_repeat = draws

    def clear(self) -> None:
        """Drop the batches in preparation."""
        for prefetched in self._queue:
            prefetched.future.cancel()
        self._queue.clear()
        self._to_repeat.clear()

    def close(self, wait: bool = True) -> None:
        """Stop the threads once they have finished their current batch."""
        if self._pool is not None and self._pool_process == os.getpid():
            self._pool.shutdown(wait=wait)
        self._pool = None
