"""ColumnCheckpointer: what all checkpointers of storages in contiguous memory have in common."""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import Any

import torch

from rlnb.data.replay_buffers.checkpointers.base import Hook, StorageCheckpointerBase
from rlnb.data.replay_buffers.checkpointers.files import read_document, write_document
from rlnb.data.replay_buffers.checkpointers.head import Head, head_of, read_head
from rlnb.data.replay_buffers.checkpointers.state import SENSELESS
from rlnb.data.replay_buffers.faults import checkpoints as faults
from rlnb.data.ted.keys import as_tuple

HEAD = "storage.json"


class ColumnCheckpointer(StorageCheckpointerBase):
    """The base of the checkpointers of storages in contiguous memory.

    A subclass writes :meth:`_write`, :meth:`_check` and :meth:`_read`.
    """

    def _refuse(self, storage: Any) -> None:
        if not hasattr(storage, "columns"):
            raise TypeError(faults.other_storage(type(self).__name__, storage, "contiguous memory"))

    # Writing ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _write(self, storage: Any, folder: Path) -> Any:
        """Write the elements.

        Returns:
            What has to be known to read them, in plain values.
        """

    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Write a storage; see :meth:`StorageCheckpointerBase.dumps`.

        Args:
            storage: the storage.
            path: of the folder.

        Raises:
            TypeError: if the storage is not one of contiguous memory, or holds what is neither tensor nor plain.
        """
        self._refuse(storage)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with storage.ring.reading:
            head = head_of(storage)
            content = None if storage.form is None else self._write(storage, folder)
        write_document(folder / HEAD, {"saved_by": type(self).__name__, "head": head, "content": content})

    # Reading ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _check(self, head: Head, content: Any, folder: Path, whole: bool) -> None:
        """Refuse files that :meth:`_read` would refuse.

        Args:
            head: of the storage; it has leaves.
            content: what :meth:`_write` returned.
            folder: where the files are.
            whole: whether to read all of them; otherwise what can be seen from outside, such as their sizes.
        """

    @abstractmethod
    def _read(self, storage: Any, head: Head, content: Any, folder: Path) -> None:
        """Read the elements into the memory of a storage, and check them meanwhile."""

    def _open(self, storage: Any, path: str | os.PathLike[str], whole: bool) -> tuple[Head, Any]:
        self._refuse(storage)
        folder = Path(path)
        document = read_document(folder / HEAD)
        try:
            saved_by, content = document["saved_by"], document["content"]
            if saved_by != type(self).__name__:
                raise ValueError(faults.other_checkpointer(saved_by, type(self).__name__))
            head = read_head(document["head"])
            head.fits(storage)
            if head.leaves is not None:
                if storage.form is None:
                    head.make_form()
                self._check(head, content, folder, whole)
                head.checked = whole
        except SENSELESS as error:
            if isinstance(error, ValueError) and "Fix:" in str(error):
                raise
            raise ValueError(faults.unreadable(folder / HEAD, error)) from error
        return head, content

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Refuse what :meth:`loads` would refuse; see :meth:`StorageCheckpointerBase.check`.

        Args:
            storage: the storage.
            path: of the folder.

        Raises:
            ValueError: if the files are damaged or do not fit the storage.
        """
        self._open(storage, path, whole=True)

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote; see :meth:`StorageCheckpointerBase.loads`.

        Files are checked before the memory of a storage is written to. A storage that has none yet gets new memory,
        which it keeps only if all files were read; they are read once then.

        Args:
            storage: the storage.
            path: of the folder.

        Raises:
            ValueError: if the files are damaged or do not fit the storage; it was not changed then.
        """
        fresh = getattr(storage, "form", None) is None
        head, content = self._open(storage, path, whole=not fresh)
        if head.leaves is None or (fresh and not head.length):  # no file says how large an element may be
            storage._empty()
            return
        if fresh:
            storage._initialize(head.make_form(), head.others, torch.device("cpu"))
        with storage.ring.lock:
            try:
                storage._reserve(0, head.length)
                if not fresh:
                    storage.ring.jump(0, 0)  # a read that fails half way must leave nothing that counts as filled
                self._read(storage, head, content, Path(path))
            except BaseException as error:
                if fresh:
                    storage._forget_memory()
                elif not storage.ring.length and isinstance(error, (OSError, *SENSELESS)):
                    raise OSError(faults.left_empty(error)) from error
                raise
            storage.ring.jump(head.cursor, head.length, head.written)


class Hookless(ColumnCheckpointer):
    """The base of checkpointers that call no hooks, for they know what they write."""

    def register_save_hook(self, hook: Hook) -> None:
        """Refuse.

        Args:
            hook: the hook.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.no_hooks(type(self).__name__))

    def register_load_hook(self, hook: Hook) -> None:
        """Refuse.

        Args:
            hook: the hook.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(faults.no_hooks(type(self).__name__))


def columns_of(storage: Any) -> dict[tuple[Any, ...], Any]:
    """The memory of a storage, by the path of each leaf.

    Args:
        storage: of contiguous memory.

    Returns:
        The columns.
    """
    return {as_tuple(key): column for key, column in storage.columns.items()}
