"""Abstract base class of the checkpointers of storages, and the checkpointers of lists and ensembles."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from rlnb.data.replay_buffers.checkpointers.files import KEPT

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
        >>> index, folder = rb.extend(torch.arange(3)), tempfile.mkdtemp()
        >>> rb.dumps(folder)
        >>> rb.loads(folder)
        >>> rb[:]
        tensor([2])
    """

    _save_hooks: tuple[Hook, ...] = ()
    _load_hooks: tuple[Hook, ...] = ()
    _no_hooks: str | None = None  # the error of a checkpointer that calls no hooks, with {} for the name of its class

    @abstractmethod
    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Write a storage to a folder."""

    @abstractmethod
    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote to a folder into a storage.

        Raises:
            ValueError: If the files are damaged or do not fit the storage. It is not changed then.
        """

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Raise for what :meth:`loads` could not load, and change nothing."""
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
        self._save_hooks = (*self._save_hooks, self._checked(hook))

    def register_load_hook(self, hook: Hook) -> None:
        """Add a function that undoes a save hook, such as :class:`~rlnb.data.Flat2TED`.

        Args:
            hook: Gets what was saved, and returns what is stored. Hooks are called in the order of registration.

        Raises:
            NotImplementedError: If this checkpointer calls no hooks.
        """
        self._load_hooks = (*self._load_hooks, self._checked(hook))

    def _checked(self, hook: Hook) -> Hook:
        if self._no_hooks is not None:
            raise NotImplementedError(self._no_hooks.format(type(self).__name__))
        return hook

    def _other_storage(self, storage: Any, needed: str) -> TypeError:
        return TypeError(
            f"A {type(self).__name__} saves {needed}, and the storage is a {type(storage).__name__}. "
            "Fix: storage.checkpointer = None gives the storage its own checkpointer back."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


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

    loads = dumps


class StorageEnsembleCheckpointer(StorageCheckpointerBase):
    """Checkpointer of a :class:`StorageEnsemble`: leaves each storage to the checkpointer of that storage.

    All of them are checked before the first one is loaded.

    Example:
        >>> from rlnb.data import LazyTensorStorage, StorageEnsemble
        >>> StorageEnsemble(LazyTensorStorage(5), LazyTensorStorage(5)).checkpointer
        StorageEnsembleCheckpointer()
    """

    _no_hooks = "An ensemble has no hooks of its own. Fix: ensemble[i].register_save_hook(hook) for each member."

    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Write each storage to a folder of its own."""
        for member, folder in self._members(storage, path):
            folder.mkdir(parents=True)
            member.checkpointer.dumps(member, folder)

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote; see :meth:`StorageCheckpointerBase.loads`."""
        self.check(storage, path)
        for member, folder in self._members(storage, path):
            member.checkpointer.loads(member, folder)

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Raise for what :meth:`loads` could not load; see :meth:`StorageCheckpointerBase.check`."""
        members = self._members(storage, path)
        saved = len([name for name in os.listdir(path) if name.isdigit()]) if Path(path).is_dir() else 0
        if saved != len(members):
            raise ValueError(
                f"The checkpoint is of {saved} storages, and the ensemble has {len(members)}. {KEPT} "
                "Fix: make the ensemble of as many members as were saved."
            )
        for member, folder in members:
            member.checkpointer.check(member, folder)

    def _members(self, storage: Any, path: str | os.PathLike[str]) -> list[tuple[Any, Path]]:
        """Return the storages of an ensemble, and the folder of each."""
        members = getattr(storage, "storages", None)
        if members is None:
            raise self._other_storage(storage, "the storages of an ensemble")
        return [(member, Path(path) / str(number)) for number, member in enumerate(members)]
