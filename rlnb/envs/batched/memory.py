"""Memory that several processes see: anonymous, so that nothing is left behind however they end."""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from rlnb.envs.batched.wire import Closed, Wire

_ALIGNMENT = 64


class SharedMemory:
    """A piece of memory without a name, out of which numpy arrays are cut one after another.

    It lives as long as a process has it open: there is no file to unlink and nothing to leak.

    Args:
        size: in bytes, see :func:`bytes_for`.
        on_disk: back it by a temporary file on disk rather than by RAM.
        descriptor: of the memory that another process made; None to make it.

    Example:
        >>> memory = SharedMemory(bytes_for([((2, 3), np.dtype("float32"))]))
        >>> memory.array((2, 3), np.dtype("float32")).sum()
        np.float32(0.0)
    """

    def __init__(self, size: int, on_disk: bool = False, descriptor: int | None = None) -> None:
        self.size = max(size, _ALIGNMENT)
        self.descriptor = _new_descriptor(self.size, on_disk) if descriptor is None else descriptor
        self._map = mmap.mmap(self.descriptor, self.size)
        self._used = 0

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Cut the next array out; it holds zeros.

        Args:
            shape: of the array.
            dtype: of the array.

        Returns:
            The array, which keeps the memory alive.
        """
        count = int(np.prod(shape, dtype=np.int64))
        array: np.ndarray = np.frombuffer(self._map, dtype, count, self._used).reshape(shape)
        self._used += _aligned(count * dtype.itemsize)
        return array

    def send(self, wire: Wire, pid: int, until: float | None) -> None:
        """Hand the memory to another process.

        Args:
            wire: to it.
            pid: its process id.
            until: when to give up, in seconds of ``time.monotonic``; None: never.
        """
        wire.wait_writable(until)
        try:
            reduction.send_handle(wire.connection, self.descriptor, pid)
        except OSError as error:
            raise Closed from error

    @classmethod
    def receive(cls, connection: Connection, size: int) -> SharedMemory:
        """Take the memory that another process sends.

        Args:
            connection: to it.
            size: of the memory, in bytes.

        Returns:
            The same memory, here.
        """
        return cls(size, descriptor=reduction.recv_handle(connection))

    def close(self) -> None:
        """Give the descriptor back; the memory itself goes with the last array."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()


def bytes_for(arrays: list[tuple[tuple[int, ...], np.dtype]]) -> int:
    """Tell how much memory arrays take.

    Args:
        arrays: the shape and dtype of each.

    Returns:
        The number of bytes.
    """
    return sum(_aligned(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize) for shape, dtype in arrays)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _new_descriptor(size: int, on_disk: bool) -> int:
    memfd_create: Any = getattr(os, "memfd_create", None)  # Linux
    if memfd_create is not None and not on_disk:
        descriptor: int = memfd_create("rlnb")
    else:
        # The file has no name from the start, or loses it at once.
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


__all__ = ["SharedMemory", "bytes_for"]
