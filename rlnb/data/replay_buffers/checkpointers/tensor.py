"""TensorStorageCheckpointer: every leaf as it is, in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers.checkpointers.column import ColumnCheckpointer, columns_of
from rlnb.data.replay_buffers.checkpointers.head import Head
from rlnb.data.replay_buffers.checkpointers.leaf import check_leaf, file_name, read_leaf, write_leaf
from rlnb.data.replay_buffers.checkpointers.state import read_state, write_state
from rlnb.data.replay_buffers.columns import ObjectColumn

_HOOKED = "hooked"  # what the files of data that hooks made begin with


class TensorStorageCheckpointer(ColumnCheckpointer):
    """The checkpointer of storages in contiguous memory, unless they are given another.

    The filled part of each leaf is one file with the bytes of the tensor as they are in memory, and is written and
    read in small pieces, so that no second copy of the data is made. Non-tensor data is written as JSON.

    With hooks, see :meth:`~StorageCheckpointerBase.register_save_hook`, what they return is written instead, which is
    made in memory.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(5))
        >>> index = rb.extend(torch.arange(7))
        >>> folder = tempfile.mkdtemp()
        >>> rb.dumps(folder)
        >>> other = ReplayBuffer(storage=LazyTensorStorage(5))
        >>> other.loads(folder)
        >>> other[:].tolist(), other.add(torch.tensor(7))
        ([5, 6, 2, 3, 4], 2)
    """

    def _write(self, storage: Any, folder: Path) -> Any:
        length = storage.ring.length
        if self._save_hooks:
            write_state(folder, _HOOKED, self._hooked(storage, length))
            return {"hooked": True, "notes": []}
        notes = []
        for number, (path, column) in enumerate(columns_of(storage).items()):
            file = folder / file_name(number, path)
            notes.append([file.name, write_leaf(column, length, path, file)])
        return {"hooked": False, "notes": notes}

    def _check(self, head: Head, content: Any, folder: Path, whole: bool) -> None:
        assert head.leaves is not None
        if content["hooked"]:
            read_state(folder, _HOOKED)
            return
        for number, ((path, leaf), (_, note)) in enumerate(zip(head.leaves.items(), content["notes"], strict=True)):
            check_leaf(leaf, head, note, folder / file_name(number, path), whole)

    def _read(self, storage: Any, head: Head, content: Any, folder: Path) -> None:
        assert head.leaves is not None
        columns = columns_of(storage)
        if content["hooked"]:
            self._unhook(storage, head, read_state(folder, _HOOKED))
            return
        for number, (path, (_, note)) in enumerate(zip(head.leaves, content["notes"], strict=True)):
            read_leaf(columns[path], head, note, folder / file_name(number, path))

    # Hooks ------------------------------------------------------------------------------------------------------------

    def _hooked(self, storage: Any, length: int) -> Any:
        """What the hooks make of the filled part, whose last dimension is time."""
        dims = [*range(1, storage.ndim), 0]
        leaves = [_turned(column, length, dims) for column in columns_of(storage).values()]
        data = storage.form.build(leaves, torch.Size((*storage._others, length)))
        for hook in self._save_hooks:
            for name, value in (("shift", storage.ring.cursor), ("is_full", storage.ring.is_full)):
                if hasattr(hook, name):
                    setattr(hook, name, value)
            data = hook(data)
        return data

    def _unhook(self, storage: Any, head: Head, data: Any) -> None:
        for hook in self._load_hooks:
            data = hook(data)
        leaves = storage.form.take_apart(data, (*head.others, head.length))
        back = [storage.ndim - 1, *range(storage.ndim - 1)]
        for column, leaf in zip(storage._columns, leaves, strict=True):
            if isinstance(column, ObjectColumn):
                turned = ObjectColumn((*head.others, head.length))
                turned.flat_array[:] = _objects(leaf, turned.array.size)
                column.array[: head.length] = turned.array.transpose(back)
            else:
                column.put(0, leaf.permute(*back, *range(storage.ndim, leaf.ndim)))


def _turned(column: Any, length: int, dims: list[int]) -> Any:
    if isinstance(column, ObjectColumn):
        array = column.array[:length].transpose(dims)
        turned = ObjectColumn(array.shape)
        turned.array[...] = array
        return turned.rows(slice(None))
    rows = column.rows(slice(length))
    return rows.permute(*dims, *range(len(dims), rows.ndim))


def _objects(leaf: Any, size: int) -> np.ndarray:
    column = ObjectColumn((size,))
    column.scatter(torch.arange(size), leaf)
    return column.array
