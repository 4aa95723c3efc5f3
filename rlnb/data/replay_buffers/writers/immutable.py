"""ImmutableDatasetWriter: a writer for read-only buffers, such as datasets."""

from __future__ import annotations

from typing import Any, NoReturn

from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.writers.base import Writer


class ImmutableDatasetWriter(Writer):
    """The writer of read-only buffers: every write raises an error.

    Example:
        >>> import torch
        >>> from rlnb.data import ReplayBuffer, TensorStorage
        >>> rb = ReplayBuffer(storage=TensorStorage(torch.arange(3)), writer=ImmutableDatasetWriter())
        >>> rb.add(torch.tensor(1))
        Traceback (most recent call last):
        ...
        RuntimeError: This buffer is read-only: its writer is an ImmutableDatasetWriter. Fix: ...
    """

    def check_writable(self) -> NoReturn:
        """Raise ``RuntimeError``."""
        raise RuntimeError(
            "This buffer is read-only: its writer is an ImmutableDatasetWriter. "
            "Fix: buffer.set_writer(RoundRobinWriter()) to make it writable."
        )

    def add(self, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :meth:`Writer.add`."""
        self.check_writable()

    def extend(self, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :meth:`Writer.extend`."""
        self.check_writable()

    def overwrite(self, place: Where, data: Any) -> NoReturn:
        """Raise ``RuntimeError``; see :meth:`Writer.overwrite`."""
        self.check_writable()

    def __repr__(self) -> str:
        return "ImmutableDatasetWriter()"
