"""Checkpointer that saves every entry of a storage as it is, in the layout of ``TensorDict.memmap``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers.checkpointers.column import (
    ColumnCheckpointer,
    Head,
    columns_of,
    put_objects,
    read_objects,
    write_objects,
)
from rlnb.data.replay_buffers.checkpointers.files import check_bytes, read_tensor
from rlnb.data.replay_buffers.checkpointers.memmap import Entry, files_of, write_entries
from rlnb.data.replay_buffers.checkpointers.state import read_values, write_values
from rlnb.data.replay_buffers.columns import ObjectColumn
from rlnb.data.replay_buffers.forms import Form, TensorDictForm

_HOOKED = "hooked"  # what the files of data that hooks made begin with


class TensorStorageCheckpointer(ColumnCheckpointer):
    """Default checkpointer of storages in contiguous memory.

    The filled part of each entry is one file with the bytes of the tensor. It is written and read in small pieces, so
    that no second copy of the data is made. Non-tensor data is written as JSON.

    The files have the layout of ``TensorDict.memmap``: after ``buffer.dumps(path)``,
    ``TensorDict.load_memmap(path / "storage")`` gives the filled part of a storage of TensorDicts, without non-tensor
    data. Entries whose key cannot be the name of a file are numbered.

    With hooks, see :meth:`~StorageCheckpointerBase.register_save_hook`, what they return is written instead, and is
    made in memory.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(5))
        >>> index = rb.extend(TensorDict({"number": torch.arange(7)}, [7]))
        >>> folder = Path(tempfile.mkdtemp())
        >>> rb.dumps(folder)
        >>> other = ReplayBuffer(storage=LazyTensorStorage(5))
        >>> other.loads(folder)
        >>> other[:]["number"].tolist(), TensorDict.load_memmap(folder / "storage")["number"].tolist()
        ([5, 6, 2, 3, 4], [5, 6, 2, 3, 4])
    """

    def _write(self, storage: Any, folder: Path) -> Any:
        length, columns = storage.ring.length, columns_of(storage)
        if self._save_hooks:
            write_values(folder, _HOOKED, self._hooked(storage, length))
            return {"hooked": True}
        lead, entries = (length, *storage._others), {}
        for number, (path, column) in enumerate(columns.items()):
            if isinstance(column, ObjectColumn):
                write_objects(column, length, path, folder, number)
            else:
                rows = column.rows(slice(length))
                entries[path] = Entry(rows.shape, rows.dtype, [rows])
        like = storage.form.skeleton(lead) if isinstance(storage.form, TensorDictForm) else None
        write_entries(folder, entries, lead, like)
        return {"hooked": False}

    def _check(self, head: Head, content: Any, folder: Path, rehearse: bool) -> Any:
        assert head.leaves is not None
        if content["hooked"]:
            return read_values(folder, _HOOKED), None
        sizes = {
            path: head.length * head.width * leaf.shape.numel() * leaf.dtype.itemsize
            for path, leaf in head.leaves.items()
            if leaf.dtype is not None
        }
        files = files_of(folder, list(sizes))
        for path, size in sizes.items():
            check_bytes(files[path], size)
        objects = {
            path: read_objects(head, folder, number)
            for number, (path, leaf) in enumerate(head.leaves.items())
            if leaf.dtype is None
        }
        return None, (files, objects)

    def _read(self, storage: Any, head: Head, checked: Any, folder: Path) -> None:
        leaves, plain = checked
        if plain is None:
            _put_leaves(storage, leaves, (*head.others, head.length))
            return
        columns, (files, objects) = columns_of(storage), plain
        for path, file in files.items():
            read_tensor(file, columns[path].rows(slice(head.length)))
        for path, values in objects.items():
            put_objects(columns[path], values, head.length)

    # Hooks ------------------------------------------------------------------------------------------------------------

    def _hooked(self, storage: Any, length: int) -> Any:
        """Return what the save hooks make of the filled part, whose last dimension is time."""
        dims = [*range(1, storage.ndim), 0]
        leaves = [_turned(column, length, dims) for column in columns_of(storage).values()]
        data = storage.form.build(leaves, torch.Size((*storage._others, length)))
        for hook in self._save_hooks:
            for name, value in (("shift", storage.ring.cursor), ("is_full", storage.ring.is_full)):
                if hasattr(hook, name):
                    setattr(hook, name, value)
            data = hook(data)
        return data

    def _prepare(self, form: Form, head: Head, checked: Any) -> Any:
        data, plain = checked
        if plain is not None:
            return checked
        for hook in self._load_hooks:
            data = hook(data)
        return form.take_apart(data, (*head.others, head.length)), None


def _put_leaves(storage: Any, leaves: list[Any], lead: tuple[int, ...]) -> None:
    """Write the leaves of data whose last dimension is time."""
    back = [storage.ndim - 1, *range(storage.ndim - 1)]
    for column, leaf in zip(storage._columns, leaves, strict=True):
        if isinstance(column, ObjectColumn):
            turned = ObjectColumn(lead)
            turned.flat_array[:] = _objects(leaf, turned.array.size)
            column.array[: lead[-1]] = turned.array.transpose(back)
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
