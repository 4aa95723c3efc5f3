"""Collection in a background thread, which can be paused and stopped between two batches."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any


class Background:
    """Thread that collects batches into a replay buffer.

    An error ends the thread. The next call of :meth:`start`, :meth:`pause` or :meth:`stop` raises it.

    Args:
        owner: name of the class of the collector, for errors.

    Example:
        >>> batches = []
        >>> def collect():
        ...     batches.append(len(batches))
        ...     return len(batches) < 3
        >>> background = Background("Collector")
        >>> background.start(collect, replay_buffer=batches)
        >>> background.join()
        >>> batches
        [0, 1, 2]
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = self._collecting = False
        self._pauses = 0
        self._error: BaseException | None = None

    def is_running(self) -> bool:
        """Return whether the thread collects, or is paused."""
        return self._thread is not None and self._thread.is_alive()

    def refuse(self, what: str) -> None:
        """Raise ``RuntimeError`` if the thread runs, which ``what`` must not interfere with."""
        if self.is_running() and threading.current_thread() is not self._thread:
            raise RuntimeError(
                f"The {self._owner} collects in the background, into its replay buffer, and {what} would take a batch "
                "from it. Fix: replay_buffer.sample(), or collector.async_shutdown() first."
            )

    def start(self, collect: Callable[[], bool], replay_buffer: Any) -> None:
        """Start the thread.

        Args:
            collect: collects a batch, and returns whether there are more to collect.
            replay_buffer: the buffer that it writes to.

        Raises:
            RuntimeError: If there is no replay buffer, or the thread runs already.
        """
        self._raise_error()
        if replay_buffer is None:
            raise RuntimeError(
                f"{self._owner}.start() collects into a replay buffer, and there is none. "
                f"Fix: {self._owner}(..., replay_buffer=ReplayBuffer(storage=LazyTensorStorage(1000)))."
            )
        if self.is_running():
            raise RuntimeError(f"The {self._owner} runs already. Fix: collector.async_shutdown() first.")
        self._stopped = False
        self._thread = threading.Thread(target=self._run, args=(collect,), name="rlnb-collector", daemon=True)
        self._thread.start()

    def _run(self, collect: Callable[[], bool]) -> None:
        try:
            more = True
            while more:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped or not self._pauses)
                    if self._stopped:
                        return
                    self._collecting = True
                try:
                    more = collect()
                finally:
                    with self._changed:
                        self._collecting = False
                        self._changed.notify_all()
        except BaseException as error:
            self._error = error

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Wait for the end of the batch that is being collected, and collect nothing until the end of the block."""
        if threading.current_thread() is self._thread:
            yield
            return
        self._raise_error()
        if self._thread is None:
            raise RuntimeError(
                f"{self._owner}.pause() pauses a collector that runs in the background, and it does not. "
                "Fix: collector.start() first."
            )
        with self._changed:
            self._pauses += 1
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._collecting)
            self._raise_error()
            yield
        finally:
            with self._changed:
                self._pauses -= 1
                self._changed.notify_all()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has collected everything, and raise its error if there was one."""
        if self._thread is not None:
            self._thread.join(timeout)
        self._raise_error()

    def stop(self, timeout: float | None = None) -> None:
        """End the thread after the batch that is being collected, and raise its error if there was one.

        Raises:
            TimeoutError: If the batch takes longer than ``timeout`` seconds.
        """
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        thread, until = self._thread, time.monotonic() + (timeout or 0)
        if thread is not None and thread is not threading.current_thread():
            thread.join(None if timeout is None else max(until - time.monotonic(), 0))
            if thread.is_alive():
                raise TimeoutError(
                    f"The {self._owner} did not finish its batch in the background within {timeout:g} s. "
                    "Fix: a longer timeout, or a smaller frames_per_batch."
                )
        self._thread = None
        self._raise_error()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
