"""Prefetcher: threads that prepare the next batches of a buffer."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch


class Ahead(NamedTuple):
    """A batch on its way, and whether it is the last of a pass."""

    future: Future[Any]
    last: bool


class Prefetcher:
    """Prepares batches ahead, and gives them in the order in which they were drawn.

    What a batch is made of is drawn by the caller, one batch after another, so that a seed gives one sequence however
    the threads run. What takes long is left to the threads.

    Args:
        depth: how many batches, and threads.
        draw: chooses a batch; returns what ``finish`` needs, and whether it is the last of a pass.
        finish: makes the batch of it, in a thread.

    Example:
        >>> numbers = iter(range(10))
        >>> prefetcher = Prefetcher(2, lambda: (next(numbers), False), lambda number: number * 10)
        >>> prefetcher.next().future.result(), prefetcher.next().future.result()
        (0, 10)
        >>> prefetcher.close()
    """

    def __init__(self, depth: int, draw: Callable[[], tuple[Any, bool]], finish: Callable[[Any], Any]) -> None:
        self.depth, self._draw, self._finish = depth, draw, finish
        self._ahead: deque[Ahead] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self._owner = 0

    def next(self) -> Ahead:
        """Return the next batch.

        Returns:
            The batch, which may still be on its way: whoever waits for it must hold no lock that a transform may want.
        """
        pool = self._running()
        # A pass ends with its last batch: what comes after it is drawn when it is asked for.
        while len(self._ahead) < self.depth and not (self._ahead and self._ahead[-1].last):
            with torch.inference_mode(False):  # who asks for the batch later may need gradients
                drawn, last = self._draw()
            self._ahead.append(Ahead(pool.submit(self._finish, drawn), last))
        return self._ahead.popleft()

    def _running(self) -> ThreadPoolExecutor:
        """The threads; new ones in a forked process, which has none of its parent's."""
        if self._pool is None or self._owner != os.getpid():
            self._ahead.clear()
            self._pool, self._owner = ThreadPoolExecutor(self.depth, "rlnb-prefetch"), os.getpid()
            weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
        return self._pool

    def clear(self) -> None:
        """Forget the batches on their way."""
        for batch in self._ahead:
            batch.future.cancel()
        self._ahead.clear()

    def close(self) -> None:
        """Stop the threads, after the batch that each is at."""
        self.clear()
        if self._pool is not None and self._owner == os.getpid():
            self._pool.shutdown(wait=True)
        self._pool = None
