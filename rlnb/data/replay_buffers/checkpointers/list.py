"""ListStorageCheckpointer: says why a list of objects is not saved."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from rlnb.data.replay_buffers.checkpointers.base import StorageCheckpointerBase
from rlnb.data.replay_buffers.faults import checkpoints as faults


class ListStorageCheckpointer(StorageCheckpointerBase):
    """The checkpointer of a :class:`ListStorage`, which cannot be saved in a folder.

    Its elements are any Python objects. To read such from a file means to run the code that makes them.

    Example:
        >>> from rlnb.data import ReplayBuffer
        >>> ReplayBuffer().dumps("checkpoint")
        Traceback (most recent call last):
        ...
        NotImplementedError: A ListStorage holds any Python objects, and a checkpoint holds tensors and plain ...
    """

    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> NoReturn:
        """Refuse.

        Args:
            storage: the storage.
            path: of the folder.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.list_storage())

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> NoReturn:
        """Refuse.

        Args:
            storage: the storage.
            path: of the folder.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.list_storage())
