"""Prefetcher: threads that prepare the next batches of a buffer."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch

from rlnb.data.replay_buffers.samplers import Info

Chosen = tuple[Any, Info, bool]  # the index of a batch, what its sampler says, and whether it is the last of a pass


class Ahead(NamedTuple):
    """A batch on its way, and what it is made of."""

    future: Future[Any]
    chosen: Chosen

    @property
    def last(self) -> bool:
        """Whether it is the last of a pass."""
        return self.chosen[2]


class Prefetcher:
    """Prepares batches ahead, and gives them in the order in which they were drawn.

    What a batch is made of is drawn by the caller, one batch after another, so that a seed gives one sequence however
    the threads run. What takes long is left to the threads.

    Args:
        depth: how many batches, and threads.
        draw: chooses a batch; returns its data, its index and what the sampler says, and whether it is the last of a
            pass.
        draw_again: gathers the data of a batch chosen before, of its index and what the sampler said.
        finish: makes the batch of the three, in a thread.

    Example:
        >>> numbers = iter(range(10))
        >>> def draw():
        ...     number = next(numbers)
        ...     return (number * 10, number, {}), False
        >>> prefetcher = Prefetcher(2, draw, lambda index, info: (index * 10, index, info), lambda drawn: drawn[0])
        >>> prefetcher.next().future.result(), prefetcher.next().future.result()
        (0, 10)
        >>> prefetcher.chosen
        [(2, {}, False)]
        >>> prefetcher.close()
    """

    def __init__(
        self,
        depth: int,
        draw: Callable[[], tuple[Any, bool]],
        draw_again: Callable[[Any, Info], Any],
        finish: Callable[[Any], Any],
    ) -> None:
        self.depth, self._draw, self._draw_again, self._finish = depth, draw, draw_again, finish
        self._ahead: deque[Ahead] = deque()
        self._chosen: deque[Chosen] = deque()  # nothing is on its way yet
        self._pool: ThreadPoolExecutor | None = None
        self._owner = 0

    def next(self) -> Ahead:
        """Return the next batch.

        Returns:
            The batch, which may still be on its way: whoever waits for it must hold no lock that a transform may want.
        """
        pool = self._running()
        with torch.inference_mode(False):  # who asks for a batch later may need gradients
            while self._chosen:
                index, info, last = self._chosen[0]
                self._submit(pool, self._draw_again(index, info), last)
                self._chosen.popleft()
            # A pass ends with its last batch: what comes after it is drawn when it is asked for.
            while len(self._ahead) < self.depth and not (self._ahead and self._ahead[-1].last):
                self._submit(pool, *self._draw())
        return self._ahead.popleft()

    def _submit(self, pool: ThreadPoolExecutor, drawn: tuple[Any, Any, Info], last: bool) -> None:
        self._ahead.append(Ahead(pool.submit(self._finish, drawn), (*drawn[1:], last)))

    def _running(self) -> ThreadPoolExecutor:
        """The threads; new ones in a forked process, which has none of its parent's."""
        if self._pool is None or self._owner != os.getpid():
            self._pool, self._owner = ThreadPoolExecutor(self.depth, "rlnb-prefetch"), os.getpid()
            weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
            self.begin_with(self.chosen)
        return self._pool

    @property
    def chosen(self) -> list[Chosen]:
        """What the batches are made of that were drawn and not given yet."""
        return [*(batch.chosen for batch in self._ahead), *self._chosen]

    def begin_with(self, chosen: Iterable[Chosen]) -> None:
        """Give batches of these elements first, in place of those on their way.

        Args:
            chosen: as :attr:`chosen` returns it.
        """
        chosen = deque(chosen)
        self.clear()
        self._chosen = chosen

    def clear(self) -> None:
        """Forget the batches that were drawn."""
        for batch in self._ahead:
            batch.future.cancel()
        self._ahead.clear()
        self._chosen.clear()

    def close(self, wait: bool = True) -> None:
        """Stop the threads, after the batch that each is at.

        Args:
            wait: whether to wait until they have ended.
        """
        if self._pool is not None and self._owner == os.getpid():
            self._pool.shutdown(wait=wait)
        self._pool = None
