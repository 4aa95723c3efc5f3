"""The wire between a batch and a worker: a byte to start or end a step, and messages for all that is rare."""

from __future__ import annotations

import os
import pickle
import select
import sys
import time
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

STEP, RESET_ROW, DONE, MESSAGE = b"s", b"r", b"d", b"m"

# What Connection.send_bytes makes of a single byte: its length in four bytes, and the byte. Written and read without
# the Connection, a signal costs one system call.
_FRAME = len(b"\0\0\0\1s")
_RAW = sys.platform != "win32"


class Closed(Exception):
    """The other end of the wire is gone."""


class Wire:
    """One end of the wire.

    Args:
        connection: to the other end, from ``Pipe(duplex=True)``.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._fd = connection.fileno()

    def ring(self, signal: bytes) -> None:
        """Send a signal.

        Args:
            signal: a single byte.

        Raises:
            Closed: if nobody is there.
        """
        try:
            if _RAW:
                os.write(self._fd, b"\0\0\0\1" + signal)
            else:
                self.connection.send_bytes(signal)
        except OSError as error:
            raise Closed from error

    def hear(self) -> bytes:
        """Wait for a signal.

        Returns:
            A single byte.

        Raises:
            Closed: if the other end is gone.
        """
        try:
            if not _RAW:
                return self.connection.recv_bytes()
            frame = os.read(self._fd, _FRAME)
            while 0 < len(frame) < _FRAME:
                more = os.read(self._fd, _FRAME - len(frame))
                if not more:
                    raise Closed
                frame += more
        except (OSError, EOFError) as error:
            raise Closed from error
        if not frame:
            raise Closed
        return frame[4:]

    def send(self, message: Any) -> None:
        """Send a message: a signal first, so that the other end knows to take it.

        Args:
            message: anything that can be pickled. Functions and classes of a notebook or script go by value.

        Raises:
            Closed: if nobody is there.
        """
        content = cloudpickle.dumps(message)
        self.ring(MESSAGE)
        try:
            self.connection.send_bytes(content)
        except OSError as error:
            raise Closed from error

    def take(self) -> Any:
        """Take the message that the signal announced.

        Returns:
            The message.

        Raises:
            Closed: if the other end is gone.
        """
        try:
            return pickle.loads(self.connection.recv_bytes())
        except (OSError, EOFError) as error:
            raise Closed from error


class Watch:
    """Waits for several wires at once.

    Args:
        wires: this side's ends.
    """

    def __init__(self, wires: list[Wire]) -> None:
        self.wires = wires
        self._of_fd = {wire._fd: i for i, wire in enumerate(wires)}
        self._poll = select.poll() if hasattr(select, "poll") else None
        self._registered: set[int] = set()

    def ready(self, which: set[int], timeout: float | None) -> list[int]:
        """Wait until some of the wires have something to hear, or are closed.

        Args:
            which: indices of the wires that count.
            timeout: in seconds; None: as long as it takes.

        Returns:
            Their indices; empty if nothing came in time.
        """
        if self._poll is None:
            heard = wait([self.wires[i].connection for i in which], timeout)
            return [i for i in which if self.wires[i].connection in heard]
        until = None if timeout is None else time.monotonic() + timeout
        self._register(which)
        while True:
            left = None if until is None else max(0.0, until - time.monotonic()) * 1000
            found = [self._of_fd[fd] for fd, _ in self._poll.poll(left)]
            if found or (until is not None and time.monotonic() >= until):
                return found

    def _register(self, which: set[int]) -> None:
        """Poll only the wires that count: a closed one would be ready for ever."""
        assert self._poll is not None
        if which == self._registered:
            return
        for i in self._registered - which:
            self._poll.unregister(self.wires[i]._fd)
        for i in which - self._registered:
            self._poll.register(self.wires[i]._fd, select.POLLIN)
        self._registered = set(which)


__all__ = ["DONE", "MESSAGE", "RESET_ROW", "STEP", "Closed", "Watch", "Wire"]
