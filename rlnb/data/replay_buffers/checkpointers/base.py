"""Abstract base class of all checkpointers, which save storages in folders and load them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

Hook = Callable[[Any], Any]


class StorageCheckpointerBase(ABC):
    """Abstract base class of all checkpointers of storages.

    ``storage.checkpointer`` decides what ``storage.dumps`` and ``buffer.dumps`` write of a storage. They give it a new
    folder, and replace the old checkpoint as a whole once it is written; a checkpointer only writes and reads files.

    A subclass implements :meth:`dumps` and :meth:`loads`, and :meth:`check` if its storages can be part of an ensemble.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> class LastOnly(StorageCheckpointerBase):
        ...     def dumps(self, storage, path):
        ...         torch.save(storage[-1], path / "last.pt")
        ...     def loads(self, storage, path):
        ...         storage._empty()
        ...         storage.append(storage.prepare(torch.load(path / "last.pt"), many=False))
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(5), checkpointer=LastOnly())
        >>> index = rb.extend(torch.arange(3))
        >>> folder = tempfile.mkdtemp()
        >>> rb.dumps(folder)
        >>> rb.loads(folder)
        >>> rb[:]
        tensor([2])
    """

    _save_hooks: tuple[Hook, ...] = ()
    _load_hooks: tuple[Hook, ...] = ()

    @abstractmethod
    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Write a storage.

        Args:
            storage: The storage.
            path: Folder to write to.
        """

    @abstractmethod
    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote into a storage.

        Args:
            storage: The storage.
            path: Folder to read from.

        Raises:
            ValueError: If the files are damaged or do not fit the storage. It is not changed then.
        """

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Raise for what :meth:`loads` could not load, and change nothing.

        Args:
            storage: The storage.
            path: Folder to read from.

        Raises:
            ValueError: If the files are damaged or do not fit the storage.
        """
        return

    def register_save_hook(self, hook: Hook) -> None:
        """Add a function that changes data before it is saved, such as :class:`~rlnb.data.TED2Flat`.

        Args:
            hook: Gets what is stored, time as its last dimension, and returns what is saved: tensors, TensorDicts and
                plain values. If it has the attributes ``shift`` and ``is_full``, they are set to the writer's cursor
                and to whether the storage is full.

        Raises:
            NotImplementedError: If this checkpointer calls no hooks.
        """
        self._save_hooks = (*self._save_hooks, hook)

    def register_load_hook(self, hook: Hook) -> None:
        """Add a function that undoes a save hook, such as :class:`~rlnb.data.Flat2TED`.

        Args:
            hook: Gets what was saved, and returns what is stored. Hooks are called in the order of their
                registration.

        Raises:
            NotImplementedError: If this checkpointer calls no hooks.
        """
        self._load_hooks = (*self._load_hooks, hook)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
