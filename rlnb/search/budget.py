"""How long a search runs: its budget, its progress, and an interrupt that waits until a simulation is whole."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlnb.search import faults

#: Called with the simulations done, how many there shall be (None without a limit) and the seconds that passed.
Progress = Callable[[int, int | None, float], Any]
#: Seconds between two reports.
INTERVAL = 0.1
_WIDTH = 30


class Budget:
    """Counts simulations and seconds, and reports them.

    Args:
        simulations: the most; None: no limit.
        seconds: the most; None: no limit. The simulation in which they end is completed.
        progress: True for a bar of text on stderr, or a function to be told.
        clock: in seconds.

    Raises:
        ValueError: if there is no limit, or one is not positive.
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
            raise ValueError(faults.budget(simulations, seconds))
        self.simulations, self.seconds, self.clock = simulations, seconds, clock
        self.report: Progress | None = bar if progress is True else (progress or None)
        self.done, self.start = 0, clock()
        self._next = self.start

    def spent(self) -> bool:
        """Tell whether the budget is used up."""
        if self.done == self.simulations:
            return True
        return self.seconds is not None and self.done > 0 and self.clock() - self.start >= self.seconds

    def count(self) -> None:
        """Count a simulation, and report if it is time to."""
        self.done += 1
        if self.report is not None and self.clock() >= self._next:
            self.tell()

    def tell(self) -> None:
        """Report."""
        if self.report is not None:
            now = self.clock()
            self._next = now + INTERVAL
            self.report(self.done, self.simulations, now - self.start)


def bar(done: int, total: int | None, seconds: float) -> None:
    """Write a progress bar over the one before.

    Args:
        done: simulations.
        total: how many there shall be, None without a limit.
        seconds: that passed.
    """
    rate = f"{done / seconds:,.0f} simulations/s" if seconds > 0 else ""
    if total is None:
        text = f"{done:,} simulations, {seconds:.1f} s, {rate}"
    else:
        filled = _WIDTH * done // total
        text = f"|{'#' * filled}{'.' * (_WIDTH - filled)}| {done:,} of {total:,}, {rate}"
    sys.stderr.write(f"\r{text}" + ("\n" if done == total else ""))
    sys.stderr.flush()


class Interrupt:
    """Whether an interrupt was asked for."""

    asked = False


@contextmanager
def held_interrupt() -> Iterator[Interrupt]:
    """Hold an interrupt (Ctrl-C, or the stop button of a notebook) until it is looked at; a second one is not held.

    Only the main thread gets interrupts, and only there anything is changed; on leaving all is as before.

    Yields:
        What tells whether an interrupt was asked for.
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
        # None: the handler before was set by no Python code, and cannot be set again.
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)


__all__ = ["Budget", "Progress", "bar", "held_interrupt"]
