"""Budgets of simulations and seconds, progress reports, and interrupts that wait for the end of a simulation."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Called with the simulations done, their total (None without a limit) and the seconds elapsed.
Progress = Callable[[int, int | None, float], Any]
#: Seconds between two reports.
INTERVAL = 0.1
#: Width of the progress bar in characters.
_WIDTH = 30


class Budget:
    """Counts simulations and seconds against their limits, and reports progress.

    Args:
        simulations: the most simulations. None: no limit.
        seconds: the most seconds; the last simulation may exceed them. None: no limit.
        progress: True for a progress bar on stderr, or a function to call.
        clock: returns the time in seconds.

    Raises:
        ValueError: If there is no limit, or a limit is not positive.

    Example:
        >>> budget = Budget(simulations=1, seconds=None)
        >>> budget.count()
        >>> budget.spent()
        True
    """

    def __init__(
        self,
        simulations: int | None,
        seconds: float | None,
        progress: bool | Progress = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        fine = simulations is None or (not isinstance(simulations, bool) and simulations == int(simulations) > 0)
        if not fine or not (seconds is None or seconds > 0) or (simulations is None and seconds is None):
            raise ValueError(
                "run takes a budget: simulations, a positive integer, or seconds, a positive number, or both; got "
                f"simulations={simulations!r}, seconds={seconds!r}. Fix: search.run(simulations=100)."
            )
        self.simulations, self.seconds, self.clock = simulations, seconds, clock
        self._progress: Progress | None = bar if progress is True else (progress or None)
        self.done, self.start = 0, clock()
        self._next = self.start

    def spent(self) -> bool:
        """Return whether the budget is used up."""
        if self.done == self.simulations:
            return True
        return self.seconds is not None and self.done > 0 and self.clock() - self.start >= self.seconds

    def count(self) -> None:
        """Count a simulation, and report progress if the last report is old enough."""
        self.done += 1
        if self._progress is not None and self.clock() >= self._next:
            self.report()

    def report(self) -> None:
        """Report progress now."""
        if self._progress is not None:
            now = self.clock()
            self._next = now + INTERVAL
            self._progress(self.done, self.simulations, now - self.start)


def bar(done: int, total: int | None, seconds: float) -> None:
    """Write a progress bar to stderr, over the previous one. The arguments are those of ``Progress``."""
    rate = f"{done / seconds:,.0f} simulations/s" if seconds > 0 else ""
    if total is None:
        text = f"{done:,} simulations, {seconds:.1f} s, {rate}"
    else:
        filled = _WIDTH * done // total
        text = f"|{'#' * filled}{'.' * (_WIDTH - filled)}| {done:,} of {total:,}, {rate}"
    sys.stderr.write(f"\r{text}" + ("\n" if done == total else ""))
    sys.stderr.flush()


class Interrupt:
    """Whether an interrupt has arrived."""

    asked = False


@contextmanager
def held_interrupt() -> Iterator[Interrupt]:
    """Defer an interrupt (Ctrl-C, or the stop button of a notebook); a second one raises ``KeyboardInterrupt``.

    Yields an object whose ``asked`` tells whether an interrupt has arrived. Only the main thread receives interrupts,
    so in other threads this does nothing. The previous handler is restored at the end.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def hold(number: int, frame: Any) -> None:
        if interrupt.asked:
            raise KeyboardInterrupt
        interrupt.asked = True

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield interrupt
    finally:
        # None: the previous handler was not installed from Python, and cannot be restored from Python.
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)


__all__ = ["Budget", "Progress", "bar", "held_interrupt"]
