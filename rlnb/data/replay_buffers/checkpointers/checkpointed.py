"""Checkpointed: what a storage has to do with checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar

from rlnb.data.replay_buffers.checkpointers.base import Hook, StorageCheckpointerBase
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving
from rlnb.data.replay_buffers.checkpointers.list import ListStorageCheckpointer
from rlnb.data.replay_buffers.faults import checkpoints as faults


class Checkpointed:
    """What can be saved by a checkpointer: all storages."""

    _default_checkpointer: ClassVar[type[StorageCheckpointerBase]] = ListStorageCheckpointer
    _checkpointer: StorageCheckpointerBase | None = None

    @property
    def checkpointer(self) -> StorageCheckpointerBase:
        """What saves the elements in a folder and loads them; it can be set, and None sets the default again."""
        if self._checkpointer is None:
            self._checkpointer = self._default_checkpointer()
        return self._checkpointer

    @checkpointer.setter
    def checkpointer(self, value: StorageCheckpointerBase | Callable[[], StorageCheckpointerBase] | None) -> None:
        made = value() if callable(value) else value
        if made is not None and not isinstance(made, StorageCheckpointerBase):
            raise TypeError(faults.no_checkpointer(value))
        self._checkpointer = made

    def register_save_hook(self, hook: Hook) -> None:
        """Have a function change what is saved; see :meth:`StorageCheckpointerBase.register_save_hook`.

        Args:
            hook: the function, such as :class:`~rlnb.data.TED2Flat`.
        """
        self.checkpointer.register_save_hook(hook)

    def register_load_hook(self, hook: Hook) -> None:
        """Have a function change what is loaded; see :meth:`StorageCheckpointerBase.register_load_hook`.

        Args:
            hook: the function, such as :class:`~rlnb.data.Flat2TED`.
        """
        self.checkpointer.register_load_hook(hook)

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save the elements in a folder, in place of what was saved there before.

        Args:
            path: of the folder.

        Raises:
            NotImplementedError: if elements of this kind cannot be saved.
            OSError: if they cannot be written; what was there before is kept.
        """
        with saving(path) as folder:
            self.checkpointer.dumps(self, folder)

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved.

        Args:
            path: of the folder.

        Raises:
            FileNotFoundError: if nothing was saved there.
            ValueError: if it is damaged or does not fit; nothing was changed then.
        """
        with loading(path) as folder:
            self.checkpointer.loads(self, folder)

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`dumps`."""
        self.dumps(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`dumps`."""
        self.dumps(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`loads`."""
        self.loads(path)
