"""LazyTensorStorage: columns in memory, made when the first data comes."""

from __future__ import annotations

from rlnb.data.replay_buffers.storages.column_storage import ColumnStorage


class LazyTensorStorage(ColumnStorage):
    """A storage in memory that is made when the first data comes.

    Args:
        max_size: how many elements there is room for. With ``ndim`` above 1 it is rounded up to whole rows.
        device: where the memory is; ``"auto"``: where the first data is.
        ndim: how many leading dimensions of the data count elements; one of them is time.

    Raises:
        ValueError: if ``max_size`` or ``ndim`` is no positive integer.

    Example:
        >>> import torch
        >>> from rlnb.data import ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10))
        >>> rb.extend((torch.arange(3), torch.ones(3, 2)))  # a tuple is one PyTree: three elements
        tensor([0, 1, 2])
        >>> rb[-1]
        (tensor(2), tensor([1., 1.]))
    """
