"""Default checkpointer of storages in contiguous memory, and how their entries are written to files."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import file_name
from rlnb.data.replay_buffers.checkpointers.base import StorageCheckpointerBase
from rlnb.data.replay_buffers.checkpointers.files import (
    KEPT,
    SENSELESS,
    Codec,
    check_bytes,
    missing,
    read_document,
    read_tensor,
    read_values,
    sensible,
    write_document,
    write_tensor,
    write_values,
)
from rlnb.data.replay_buffers.columns import ObjectColumn
from rlnb.data.replay_buffers.forms import Form, Leaf, TensorDictForm, form_from
from rlnb.data.replay_buffers.forms.structure import dtype_name, dtype_named, read_shape
from rlnb.data.ted.keys import as_key, as_tuple

KeyPath = tuple[Any, ...]
Entry = tuple[torch.Tensor, Iterable[torch.Tensor]]  # a tensor like what is saved, and blocks that make that up
Objects = tuple[int, np.ndarray]  # the number of the file, and an object for each item
Shapes = Mapping[KeyPath, tuple[Sequence[int], torch.dtype]]
Fill = Callable[[dict[KeyPath, Any]], None]  # reads the items into columns
HEAD = "storage.json"
_HOOKED = "hooked"  # what the files of data that hooks made begin with
_MOST = 1 << 48
_WIDEST = 1 << 20  # items in a row; more only where the storage has room for more
_LINE = 1024  # objects in a line of a file
_LONGEST_NAME = 200


class Head(NamedTuple):
    """What is saved of a storage beside its items."""

    cursor: int
    length: int  # rows that are filled
    written: int  # rows that were ever written
    rows: int  # rows there is room for
    others: tuple[int, ...]  # dimensions beside time that count items
    leaves: dict[KeyPath, Leaf] | None  # None if nothing was ever written
    form: Form | None  # None if it cannot be made from a file

    @property
    def width(self) -> int:
        """Number of items in a row."""
        return math.prod(self.others)

    @property
    def items(self) -> int:
        """Number of items that are stored."""
        return self.length * self.width

    @classmethod
    def read(cls, plain: Any) -> Head:
        """Read what :func:`_write_head` wrote, or somebody else."""
        codec, others = Codec(None, "key"), tuple(plain["others"])
        cursor, length, written, rows = counts = [plain[name] for name in ("cursor", "length", "written", "rows")]
        if not all(type(count) is int and 0 <= count < _MOST for count in (*counts, *others)):
            raise ValueError("a count of rows is not a number of rows")
        if length > rows or cursor >= max(rows, 1) or 0 in others or math.prod((rows, *others)) >= _MOST:
            raise ValueError(f"{length} of {rows} rows are filled, and {cursor} is the next")
        form = None if plain["form"] is None else form_from(codec.decode(plain["form"]))
        leaves = None if form is None else form.leaves
        if form is None and plain["leaves"] is not None:
            leaves = [
                Leaf(as_key(codec.decode(parts)), read_shape(shape), None if dtype is None else dtype_named(dtype))
                for parts, shape, dtype in plain["leaves"]
            ]
        if leaves is None and length:
            raise ValueError(f"{length} rows of nothing")
        by_path = None if leaves is None else {as_tuple(leaf.key): leaf for leaf in leaves}
        return cls(cursor, length, written, rows, others, by_path, form)

    def check_fit(self, storage: Any) -> None:
        """Raise ``ValueError`` if a storage has another capacity than what was saved, or holds other data."""
        known, saved = storage.form is not None, [self.rows, *self.others]
        own = [storage.ring.size, *storage._others] if known else [storage._asked_size]
        if self.leaves is None:
            fits = math.prod(own) == self.rows
        else:
            rows = own[0] if known else -(-own[0] // self.width)
            fits = own[1:] == saved[1:] if known else self.width <= max(own[0], _WIDEST)
            fits = fits and storage.ndim == len(saved) and rows == self.rows
            own += [1] * (storage.ndim - len(own))
        if not fits:
            times = [" x ".join(map(str, shape)) for shape in (saved, own)]
            raise ValueError(
                f"The checkpoint is of a storage with room for {times[0]} elements, and this one has room for "
                f"{times[1]}. {KEPT} Fix: make the storage with max_size={math.prod(saved)} and ndim={len(saved)}."
            )
        if self.leaves is None:
            return
        if not known and self.form is None:
            raise ValueError(
                "The containers that hold the data of this checkpoint cannot be made from a file, for example because "
                f"one is a namedtuple, and this storage has not seen any data yet. {KEPT} "
                "Fix: write one batch of such data first, buffer.extend(batch), and then load."
            )
        here = {as_tuple(leaf.key): leaf for leaf in storage.form.leaves} if known else self.leaves
        pairs = [(path, _shown(self.leaves.get(path)), _shown(here.get(path))) for path in {**self.leaves, **here}]
        lines = [f"\n  {as_key(path)!r}: saved {was}, stored here {own}" for path, was, own in pairs if was != own]
        if lines:
            lines[8:] = [f"\n  and {len(lines) - 8} more"] if len(lines) > 8 else []
            raise ValueError(
                f"The checkpoint holds other data than this storage.{''.join(lines)}\n{KEPT} "
                "Fix: load it into a new buffer, whose storage learns from the checkpoint what the data is like."
            )


def _shown(leaf: Leaf | None) -> str:
    if leaf is None:
        return "nothing"
    return "non-tensor data" if leaf.dtype is None else f"{dtype_name(leaf.dtype)}{list(leaf.shape)}"


def _write_head(storage: Any) -> dict[str, Any]:
    ring, form, codec = storage.ring, storage.form, Codec(None, "key")
    head = {"cursor": ring.cursor, "length": ring.length, "written": ring.written, "others": list(storage._others)}
    head |= {"rows": storage.max_size if form is None else ring.size, "form": None, "leaves": None}
    if form is not None:
        try:
            head["form"] = codec.encode(form.describe())
        except (NotImplementedError, TypeError, ValueError):  # such as a namedtuple, which only code can make
            head["leaves"] = [
                [codec.encode(list(as_tuple(leaf.key))), list(leaf.shape), leaf.dtype and dtype_name(leaf.dtype)]
                for leaf in form.leaves
            ]
    return head


class TensorStorageCheckpointer(StorageCheckpointerBase):
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
        >>> rb, other = (ReplayBuffer(storage=LazyTensorStorage(5)) for _ in range(2))
        >>> index = rb.extend(TensorDict({"number": torch.arange(7)}, [7]))
        >>> folder = Path(tempfile.mkdtemp())
        >>> rb.dumps(folder)
        >>> other.loads(folder)
        >>> other[:]["number"].tolist(), TensorDict.load_memmap(folder / "storage")["number"].tolist()
        ([5, 6, 2, 3, 4], [5, 6, 2, 3, 4])
    """

    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Write a storage; see :meth:`StorageCheckpointerBase.dumps`."""
        folder, columns = Path(path), self._columns(storage)
        folder.mkdir(parents=True, exist_ok=True)
        with storage.ring.reading:
            head = _write_head(storage)
            content = None if storage.form is None else self._write(storage, columns, folder)
        write_document(folder / HEAD, {"saved_by": type(self).__name__, "head": head, "content": content})

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Raise for what :meth:`loads` could not load; see :meth:`StorageCheckpointerBase.check`."""
        self._open(storage, Path(path), rehearse=True)

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote; see :meth:`StorageCheckpointerBase.loads`."""
        fresh = getattr(storage, "form", None) is None
        head, prepare = self._open(storage, Path(path), rehearse=not fresh)
        form = head.form if fresh else storage.form
        if prepare is None or form is None or (fresh and not head.length):  # no file says how large an item may be
            storage._empty()
            return
        fill = prepare(form)
        if fresh:
            storage._initialize(form, head.others, torch.device("cpu"))
        with storage.ring.lock:
            try:
                storage._reserve(0, head.length)
                if not fresh:
                    storage.ring.jump(0, 0)  # a read that fails half way must leave nothing that counts as filled
                fill(self._columns(storage))
            except BaseException as error:
                if fresh:
                    storage._forget_memory()
                elif not storage.ring.length and isinstance(error, (OSError, *SENSELESS)):
                    raise OSError(
                        f"The checkpoint was checked and could then not be read ({error}). The storage had been "
                        "written to, so it was emptied. Fix: load again, or look after the disk."
                    ) from error
                raise
            storage.ring.jump(head.cursor, head.length, head.written)

    def _open(self, storage: Any, folder: Path, rehearse: bool) -> tuple[Head, Callable[[Form], Fill] | None]:
        self._columns(storage)
        with sensible(folder / HEAD):
            head, content = self._read_head(folder)
            head.check_fit(storage)
            return head, None if head.leaves is None else self._check(head, content, folder, rehearse)

    def _read_head(self, folder: Path) -> tuple[Head, Any]:
        """Read the head of a saved storage, and what :meth:`_write` returned."""
        document, own = read_document(folder / HEAD), type(self).__name__
        other = document["saved_by"]
        if other != own:
            raise ValueError(
                f"The checkpoint was saved by a {other}, and the storage has a {own}. {KEPT} "
                f"Fix: storage.checkpointer = {other}()."
            )
        return Head.read(document["head"]), document["content"]

    def _columns(self, storage: Any) -> dict[KeyPath, Any]:
        """Return the memory of a storage by the path of each leaf."""
        if not hasattr(storage, "columns"):
            raise self._other_storage(storage, "contiguous memory")
        return {as_tuple(key): column for key, column in storage.columns.items()}

    def _write(self, storage: Any, columns: dict[KeyPath, Any], folder: Path) -> Any:
        """Write the items; return what has to be known to read them, in plain values."""
        length, form = storage.ring.length, storage.form
        if self._save_hooks:
            write_values(folder, _HOOKED, self._hooked(storage, columns))
            return {"hooked": True}
        entries: dict[KeyPath, Entry] = {}
        objects: dict[KeyPath, Objects] = {}
        for number, (path, column) in enumerate(columns.items()):
            if isinstance(column, ObjectColumn):
                objects[path] = number, column.array[:length].reshape(-1)
            else:
                rows = column.rows(slice(length))
                entries[path] = rows, [rows]
        lead = (length, *storage._others)
        like = form.skeleton(lead) if isinstance(form, TensorDictForm) else None
        write_entries(folder, entries, objects, lead, like)
        return {"hooked": False}

    def _hooked(self, storage: Any, columns: dict[KeyPath, Any]) -> Any:
        """Return what the save hooks make of the filled part, whose last dimension is time."""
        leaves, length = [], storage.ring.length
        lead = (*storage._others, length)
        for column in columns.values():
            if isinstance(column, ObjectColumn):
                turned = ObjectColumn(lead)
                turned.array[...] = np.moveaxis(column.array[:length], 0, -1)
                leaves.append(turned.rows(slice(None)))
            else:
                leaves.append(column.rows(slice(length)).movedim(0, storage.ndim - 1))
        data = storage.form.build(leaves, torch.Size(lead))
        for hook in self._save_hooks:
            for name, value in (("shift", storage.ring.cursor), ("is_full", storage.ring.is_full)):
                if hasattr(hook, name):
                    setattr(hook, name, value)
            data = hook(data)
        return data

    def _check(self, head: Head, content: Any, folder: Path, rehearse: bool) -> Callable[[Form], Fill]:
        """Raise for files that could not be read; return what calls the hooks of users, and returns what reads.

        Args:
            head: Head of a storage that has leaves.
            content: What :meth:`_write` returned, as somebody else may have written it.
            folder: Folder of the files.
            rehearse: Whether memory with other data is overwritten later, so that nothing may go wrong then.
        """
        assert head.leaves is not None
        if content["hooked"]:
            data = read_values(folder, _HOOKED)
            return lambda form: self._undo_hooks(data, head, form)
        lead, leaves = (head.length, *head.others), head.leaves.items()
        shapes = {path: ((*lead, *leaf.shape), leaf.dtype) for path, leaf in leaves if leaf.dtype}
        numbers = {path: number for number, (path, leaf) in enumerate(leaves) if leaf.dtype is None}
        files, objects = open_entries(folder, shapes, numbers, head.items)

        def fill(columns: dict[KeyPath, Any]) -> None:
            for path, file in files.items():
                read_tensor(file, columns[path].rows(slice(head.length)))
            put_objects(columns, objects)

        return lambda form: fill

    def _undo_hooks(self, data: Any, head: Head, form: Form) -> Fill:
        for hook in self._load_hooks:
            data = hook(data)
        leaves = form.take_apart(data, (*head.others, head.length))
        places = torch.arange(head.items).view(head.length, head.width).t().flatten()

        def fill(columns: dict[KeyPath, Any]) -> None:
            for column, leaf in zip(columns.values(), leaves, strict=True):
                is_tensor = isinstance(leaf, torch.Tensor)
                column.scatter(places, leaf.flatten(0, len(head.others)) if is_tensor else leaf)

        return fill


# Files of entries -----------------------------------------------------------------------------------------------------


def write_entries(
    folder: Path,
    entries: Mapping[KeyPath, Entry],
    objects: Mapping[KeyPath, Objects],
    batch_size: Sequence[int] = (),
    like: TensorDictBase | None = None,
) -> None:
    """Write tensors in the layout of ``TensorDict.memmap``, without a copy in memory, and objects as lines of JSON.

    ``like`` is a TensorDict of these entries with the batch sizes of nested TensorDicts, which needs no memory.
    """
    keys = _file_keys(entries)
    if like is None or list(keys.values()) != list(entries):
        like = TensorDict(batch_size=torch.Size(batch_size))
        for path, (tensor, _) in entries.items():
            like[keys[path]] = tensor
    with system_errors():
        like.memmap_like(os.fspath(folder), existsok=True, robust_key=True)
    for path, file in _files_of(folder, keys).items():
        tensor, blocks = entries[path]
        if tensor.numel():  # files that would be empty are not made
            write_tensor(file, blocks)
    codec = Codec(None, "objects")
    for path, (number, values) in objects.items():
        with (folder / f"objects.{number}.jsonl").open("w") as lines:
            for start in range(0, len(values), _LINE):
                lines.write(json.dumps([codec.encode(value, path) for value in values[start : start + _LINE]]) + "\n")


def open_entries(
    folder: Path, shapes: Shapes, numbers: Mapping[KeyPath, int], count: int
) -> tuple[dict[KeyPath, Path], dict[KeyPath, list[Any]]]:
    """Return the file of each tensor, which has as many bytes as it needs, and the objects, one for each item."""
    files, objects, codec = _files_of(folder, _file_keys(shapes)), {}, Codec(None, "objects")
    for path, (shape, dtype) in shapes.items():
        check_bytes(files[path], torch.Size(shape).numel() * dtype.itemsize)
    for path, number in numbers.items():
        file = folder / f"objects.{number}.jsonl"
        if not file.is_file():
            raise missing(file)
        with file.open() as lines:
            objects[path] = [codec.decode(value) for line in lines for value in json.loads(line)]
        if len(objects[path]) != count:
            raise ValueError(f"{len(objects[path])} objects for {count} items")
    return files, objects


def _files_of(folder: Path, keys: Mapping[KeyPath, tuple[str, ...]]) -> dict[KeyPath, Path]:
    names = {path: [*map(file_name, key)] for path, key in keys.items()}
    return {path: folder.joinpath(*name[:-1], f"{name[-1]}.memmap") for path, name in names.items()}


def _file_keys(paths: Iterable[KeyPath]) -> dict[KeyPath, tuple[str, ...]]:
    """Return the keys in the TensorDict that the files make up: numbers if one cannot be the name of a file."""
    keys = {path: tuple(map(str, path)) or ("data",) for path in paths}
    names = {tuple(map(file_name, key)) for key in keys.values()}
    folders = {name[:depth] for name in names for depth in range(1, len(name))}
    reserved = any(folder[-1].endswith((".json", ".memmap", ".rlnb")) for folder in folders)
    parts = [(part, part.encode(errors="ignore")) for name in names for part in name]
    usable = all(0 < len(code) <= _LONGEST_NAME and code.decode() == part for part, code in parts)
    if len(names) == len(keys) and usable and not reserved and not folders & names:
        return keys
    return {path: (f"{number}",) for number, path in enumerate(keys)}


@contextlib.contextmanager
def system_errors() -> Iterator[None]:
    """Raise an error of the system as the ``OSError`` it is, where torch and h5py raise another class."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        number = re.search(r"errno = (\d+)|\((\d+)\)$", str(error))
        if number is None or getattr(error, "errno", None):
            raise
        code = int(number[1] or number[2])
        raise OSError(code, os.strerror(code)) from error


def put_objects(columns: dict[KeyPath, Any], objects: Mapping[KeyPath, Sequence[Any]]) -> None:
    """Write the first items of the leaves of non-tensor data."""
    for path, values in objects.items():
        for place, value in enumerate(values):  # one by one: numpy would look into lists
            columns[path].flat_array[place] = value
