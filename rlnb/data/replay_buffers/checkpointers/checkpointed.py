"""Checkpointed: base of storages, which their checkpointer saves and loads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar

from rlnb.data.replay_buffers.checkpointers.base import Hook, StorageCheckpointerBase
from rlnb.data.replay_buffers.checkpointers.folder import loading, saving
from rlnb.data.replay_buffers.checkpointers.list import ListStorageCheckpointer


class Checkpointed:
    """Base of storages, which their checkpointer saves and loads."""

    _default_checkpointer: ClassVar[type[StorageCheckpointerBase]] = ListStorageCheckpointer
    _checkpointer: StorageCheckpointerBase | None = None

    @property
    def checkpointer(self) -> StorageCheckpointerBase:
        """Saves the items in a folder and loads them. It can be set; ``None`` sets the default again."""
        if self._checkpointer is None:
            self._checkpointer = self._default_checkpointer()
        return self._checkpointer

    @checkpointer.setter
    def checkpointer(self, value: StorageCheckpointerBase | Callable[[], StorageCheckpointerBase] | None) -> None:
        made = value() if callable(value) else value
        if made is not None and not isinstance(made, StorageCheckpointerBase):
            got = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
            raise TypeError(
                f"checkpointer must be a StorageCheckpointerBase or a function that makes one, got {got}. "
                "Fix: checkpointer=TensorStorageCheckpointer()."
            )
        self._checkpointer = made

    def register_save_hook(self, hook: Hook) -> None:
        """Add a function that changes what is saved; see :meth:`StorageCheckpointerBase.register_save_hook`.

        Args:
            hook: The function, such as :class:`~rlnb.data.TED2Flat`.
        """
        self.checkpointer.register_save_hook(hook)

    def register_load_hook(self, hook: Hook) -> None:
        """Add a function that changes what is loaded; see :meth:`StorageCheckpointerBase.register_load_hook`.

        Args:
            hook: The function, such as :class:`~rlnb.data.Flat2TED`.
        """
        self.checkpointer.register_load_hook(hook)

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Save the items in a folder, in place of what was saved there before.

        Args:
            path: Folder of the checkpoint.

        Raises:
            NotImplementedError: If items of this kind cannot be saved.
            OSError: If they cannot be written; the old checkpoint is kept.
        """
        with saving(path) as folder:
            (folder / "storage").mkdir()
            self.checkpointer.dumps(self, folder / "storage")

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Load what :meth:`dumps` saved.

        Args:
            path: Folder of the checkpoint.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If it is damaged or does not fit. Nothing is changed then.
        """
        with loading(path) as folder:
            self.checkpointer.loads(self, folder / "storage")

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`dumps`."""
        self.dumps(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`dumps`."""
        self.dumps(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Do the same as :meth:`loads`."""
        self.loads(path)
