"""Checkpointer of an ensemble: each storage in a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

from rlnb.data.replay_buffers.checkpointers import errors
from rlnb.data.replay_buffers.checkpointers.base import Hook, StorageCheckpointerBase


class StorageEnsembleCheckpointer(StorageCheckpointerBase):
    """Checkpointer of a :class:`StorageEnsemble`: leaves each storage to the checkpointer of that storage.

    All of them are checked before the first one is loaded.

    Example:
        >>> from rlnb.data import LazyTensorStorage, StorageEnsemble
        >>> StorageEnsemble(LazyTensorStorage(5), LazyTensorStorage(5)).checkpointer
        StorageEnsembleCheckpointer()
    """

    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Write the storages of an ensemble; see :meth:`StorageCheckpointerBase.dumps`."""
        for number, member in enumerate(_members(storage)):
            folder = Path(path) / str(number)
            folder.mkdir(parents=True)
            member.checkpointer.dumps(member, folder)

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote; see :meth:`StorageCheckpointerBase.loads`."""
        self.check(storage, path)
        for number, member in enumerate(_members(storage)):
            member.checkpointer.loads(member, Path(path) / str(number))

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Raise for what :meth:`loads` could not load; see :meth:`StorageCheckpointerBase.check`."""
        members = _members(storage)
        saved = len([name for name in os.listdir(path) if name.isdigit()]) if Path(path).is_dir() else 0
        if saved != len(members):
            raise ValueError(
                f"The checkpoint is of {saved} storages, and the ensemble has {len(members)}. {errors.KEPT} "
                "Fix: make the ensemble of as many members as were saved."
            )
        for number, member in enumerate(members):
            member.checkpointer.check(member, Path(path) / str(number))

    def register_save_hook(self, hook: Hook) -> NoReturn:
        """Raise ``NotImplementedError``: hooks belong to the storages."""
        raise NotImplementedError(
            "An ensemble has no hooks of its own. Fix: ensemble[i].register_save_hook(hook) for each member."
        )

    register_load_hook = register_save_hook


def _members(storage: Any) -> list[Any]:
    members = getattr(storage, "storages", None)
    if members is None:
        raise TypeError(errors.other_storage("StorageEnsembleCheckpointer", storage, "the storages of an ensemble"))
    return list(members)
