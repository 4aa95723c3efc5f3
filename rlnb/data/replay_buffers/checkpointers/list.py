"""Checkpointer of lists of Python objects, which explains why they are not saved."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from rlnb.data.replay_buffers.checkpointers.base import StorageCheckpointerBase


class ListStorageCheckpointer(StorageCheckpointerBase):
    """Checkpointer of a :class:`ListStorage`, which cannot be saved in a folder.

    Its items are any Python objects. To read such objects from a file is to run the code that makes them.

    Example:
        >>> from rlnb.data import ReplayBuffer
        >>> ReplayBuffer().dumps("checkpoint")
        Traceback (most recent call last):
        ...
        NotImplementedError: A ListStorage holds any Python objects, and a checkpoint holds tensors and plain ...
    """

    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> NoReturn:
        """Raise ``NotImplementedError``."""
        raise NotImplementedError(
            "A ListStorage holds any Python objects, and a checkpoint holds tensors and plain values, so that nothing "
            "in it is executed when it is loaded. Fix: use LazyTensorStorage or LazyMemmapStorage for tensors, "
            "TensorDicts and PyTrees; or torch.save(buffer.state_dict(), file), and load only files that you trust."
        )

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> NoReturn:
        """Raise ``NotImplementedError``."""
        self.dumps(storage, path)
