"""The wire between a batch and a worker: a byte to start or end a step, and messages for all that is rare."""

from __future__ import annotations

import os
import pickle
import select
import struct
import sys
import time
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

STEP, STEP_ROW, RESET_ROW, DONE, MESSAGE = b"s", b"w", b"r", b"d", b"m"

# What Connection.send_bytes makes of a single byte: its length in four bytes, and the byte. Written and read without
# the Connection, a signal costs one system call.
_FRAME = len(b"\0\0\0\1s")
_RAW = sys.platform != "win32"
_LENGTH = struct.Struct("!Q")


class Closed(Exception):
    """The other end of the pipe is closed."""


class Late(Exception):
    """The other end did not read or write in time."""


class Wire:
    """One end of a pipe between the batch and a worker.

    With ``blocking=False``, each method has a time ``until`` which it may take, in seconds of ``time.monotonic``: a
    message may be larger than the system's buffer, and the other process may be stopped in the middle of it. On
    Windows nothing interrupts a message that is half sent.

    Args:
        connection: this end, from ``Pipe(duplex=True)``.
        blocking: whether to wait for the other end without a limit, as workers do.
    """

    def __init__(self, connection: Connection, blocking: bool = True) -> None:
        self.connection = connection
        self._fd = connection.fileno()
        if _RAW and not blocking:
            os.set_blocking(self._fd, False)

    def ring(self, signal: bytes, until: float | None = None) -> None:
        """Send a signal.

        Args:
            signal: a single byte.
            until: when to give up; None: never.

        Raises:
            Closed: if the other end is closed.
            Late: if the other end does not read in time.
        """
        try:
            if _RAW:
                frame = b"\0\0\0\1" + signal
                self._write(frame, until)
            else:
                self.connection.send_bytes(signal)
        except OSError as error:
            raise Closed from error

    def hear(self, until: float | None = None) -> bytes:
        """Wait for a signal.

        Args:
            until: when to give up; None: never.

        Returns:
            A single byte.

        Raises:
            Closed: if the other end is closed.
            Late: if nothing arrives in time.
        """
        try:
            if not _RAW:
                return self.connection.recv_bytes()
            try:
                frame = os.read(self._fd, _FRAME)
            except BlockingIOError:
                frame = b""
                self._wait(select.POLLIN, until)
            if len(frame) < _FRAME:  # an end is read again as an end
                frame += self._read(_FRAME - len(frame), until)
            return frame[4:]
        except (OSError, EOFError) as error:
            raise Closed from error

    def send(self, message: Any, until: float | None = None) -> None:
        """Send a message: a signal first, so that the other end knows to take it.

        Args:
            message: anything that can be pickled. Functions and classes of a notebook or script go by value.
            until: when to give up; None: never.

        Raises:
            Closed: if the other end is closed.
            Late: if the other end does not read in time.
        """
        content = cloudpickle.dumps(message)
        self.ring(MESSAGE, until)
        try:
            if _RAW:
                self._write(_LENGTH.pack(len(content)), until)
                self._write(content, until)
            else:
                self.connection.send_bytes(content)
        except OSError as error:
            raise Closed from error

    def take(self, until: float | None = None) -> Any:
        """Take the message that the signal announced.

        Args:
            until: when to give up; None: never.

        Returns:
            The message.

        Raises:
            Closed: if the other end is closed.
            Late: if the message is not complete in time.
        """
        try:
            if _RAW:
                (length,) = _LENGTH.unpack(self._read(_LENGTH.size, until))
                content: Any = self._read(length, until)
            else:
                content = self.connection.recv_bytes()
        except (OSError, EOFError) as error:
            raise Closed from error
        return pickle.loads(content)

    def wait_writable(self, until: float | None) -> None:
        """Wait until the other end can be written to.

        Args:
            until: when to give up; None: never.

        Raises:
            Late: if it cannot be in time.
        """
        if _RAW:
            self._wait(select.POLLOUT, until)

    def _write(self, content: bytes, until: float | None) -> None:
        left = memoryview(content)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, until)

    def _read(self, size: int, until: float | None) -> bytearray:
        content = bytearray(size)
        left = memoryview(content)
        while left:
            try:
                read = os.readv(self._fd, [left])
            except BlockingIOError:
                self._wait(select.POLLIN, until)
                continue
            if not read:
                raise EOFError
            left = left[read:]
        return content

    def _wait(self, event: int, until: float | None) -> None:
        poll = select.poll()
        poll.register(self._fd, event)
        left = None if until is None else max(0.0, until - time.monotonic()) * 1000
        if not poll.poll(left):
            raise Late


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


__all__ = ["DONE", "MESSAGE", "RESET_ROW", "STEP", "STEP_ROW", "Closed", "Late", "Watch", "Wire"]
