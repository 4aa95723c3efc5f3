"""StorageEnsembleCheckpointer: each storage of an ensemble in a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rlnb.data.replay_buffers.checkpointers.base import Hook, StorageCheckpointerBase
from rlnb.data.replay_buffers.faults import checkpoints as faults


class StorageEnsembleCheckpointer(StorageCheckpointerBase):
    """The checkpointer of a :class:`StorageEnsemble`: it leaves each storage to the checkpointer of that storage.

    All of them are checked before the first is loaded.

    Example:
        >>> from rlnb.data import LazyTensorStorage, StorageEnsemble
        >>> StorageEnsemble(LazyTensorStorage(5), LazyTensorStorage(5)).checkpointer
        StorageEnsembleCheckpointer()
    """

    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Write the storages; see :meth:`StorageCheckpointerBase.dumps`.

        Args:
            storage: the ensemble.
            path: of the folder.
        """
        for number, member in enumerate(_members(storage)):
            folder = Path(path) / str(number)
            folder.mkdir(parents=True)
            member.checkpointer.dumps(member, folder)

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote; see :meth:`StorageCheckpointerBase.loads`.

        Args:
            storage: the ensemble.
            path: of the folder.

        Raises:
            ValueError: if a file is damaged, or a storage does not fit; none was changed then.
        """
        self.check(storage, path)
        for number, member in enumerate(_members(storage)):
            member.checkpointer.loads(member, Path(path) / str(number))

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Refuse what :meth:`loads` would refuse; see :meth:`StorageCheckpointerBase.check`.

        Args:
            storage: the ensemble.
            path: of the folder.

        Raises:
            ValueError: if a file is damaged, or a storage does not fit.
        """
        members = _members(storage)
        saved = len([name for name in os.listdir(path) if name.isdigit()]) if Path(path).is_dir() else 0
        if saved != len(members):
            raise ValueError(faults.other_members(saved, len(members)))
        for number, member in enumerate(members):
            member.checkpointer.check(member, Path(path) / str(number))

    def register_save_hook(self, hook: Hook) -> None:
        """Refuse: hooks belong to the storages.

        Args:
            hook: the hook.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.hooks_of_members())

    def register_load_hook(self, hook: Hook) -> None:
        """Refuse: hooks belong to the storages.

        Args:
            hook: the hook.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.hooks_of_members())


def _members(storage: Any) -> list[Any]:
    members = getattr(storage, "storages", None)
    if members is None:
        raise TypeError(faults.other_storage("StorageEnsembleCheckpointer", storage, "the storages of an ensemble"))
    return list(members)
