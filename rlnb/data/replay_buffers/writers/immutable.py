"""ImmutableDatasetWriter: refuses to write."""

from __future__ import annotations

from typing import Any, NoReturn

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.writers.base import Writer


class ImmutableDatasetWriter(Writer):
    """The writer of datasets: whoever writes gets an error.

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
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(faults.immutable())

    def add(self, data: Any) -> NoReturn:
        """Refuse.

        Args:
            data: what shall be written.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(faults.immutable())

    def extend(self, data: Any) -> NoReturn:
        """Refuse.

        Args:
            data: what shall be written.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(faults.immutable())

    def overwrite(self, place: Where, data: Any) -> NoReturn:
        """Refuse.

        Args:
            place: which elements shall be written over.
            data: the new ones.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(faults.immutable())

    def __repr__(self) -> str:
        return "ImmutableDatasetWriter()"
