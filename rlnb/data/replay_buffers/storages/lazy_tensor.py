"""LazyTensorStorage: columns in memory, made when the first data comes."""

from __future__ import annotations

import torch

from rlnb.data.replay_buffers.storages.base import refuse_compilable
from rlnb.data.replay_buffers.storages.tensor import TensorStorage


class LazyTensorStorage(TensorStorage):
    """A storage in memory that is made when the first data comes.

    The first data written decides keys, shapes and dtypes.

    Args:
        max_size: how many elements there is room for. With ``ndim`` above 1 it is rounded up to whole rows once the
            other dimensions are known: 100 elements of 3 envs make 34 rows, 102 elements.
        device: where the memory is; ``"auto"``: where the first data is.
        ndim: how many leading dimensions of the data count elements. The first one, along which the storage grows, is
            time; a buffer moves the time dimension there (see ``dim_extend``).
        compilable: taken, so that code for TorchRL runs; only False.
        shared_init: likewise; only False. A :class:`LazyMemmapStorage` is shared once it has data.

    Raises:
        ValueError: if ``max_size`` or ``ndim`` is no positive integer.
        NotImplementedError: If ``compilable`` or ``shared_init`` is True.

    Example:
        >>> import torch
        >>> from rlnb.data import ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(10))
        >>> rb.extend((torch.arange(3), torch.ones(3, 2)))  # a tuple is one PyTree: three elements
        tensor([0, 1, 2])
        >>> rb[-1]
        (tensor(2), tensor([1., 1.]))
    """

    def __init__(
        self,
        max_size: int,
        *,
        device: torch.device | str = "cpu",
        ndim: int = 1,
        compilable: bool = False,
        shared_init: bool = False,
    ) -> None:
        refuse_compilable(compilable)
        if shared_init:
            raise NotImplementedError(
                "shared_init=True is not available: memory is made by the process that writes first, and other "
                "processes must get the storage after that. Fix: leave it out, use LazyMemmapStorage, and write the "
                "first batch before the processes are started."
            )
        self._begin(max_size, device, ndim)
