"""Default checkpointer of storages in contiguous memory, and how their entries are written to files."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import file_name
from rlnb.data.replay_buffers.checkpointers import files
from rlnb.data.replay_buffers.checkpointers.base import StorageCheckpointerBase
from rlnb.data.replay_buffers.columns import ObjectColumn
from rlnb.data.replay_buffers.forms.base import Form, Leaf
from rlnb.data.replay_buffers.forms.structure import dtype_name, dtype_named, read_shape
from rlnb.data.replay_buffers.forms.tensordict_form import TensorDictForm
from rlnb.data.replay_buffers.forms.tree_form import form_from
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.ted.keys import as_key, as_tuple

KeyPath = tuple[Any, ...]
Columns = dict[KeyPath, Any]
Entries = dict[KeyPath, tuple[torch.Tensor, Iterable[torch.Tensor]]]  # like what is saved, and blocks that make it up
Objects = dict[KeyPath, tuple[int, np.ndarray]]  # the number of the file, and an object for each item
Numbers = dict[KeyPath, int]  # of the files of objects
Shapes = dict[KeyPath, tuple[tuple[int, ...], torch.dtype]]
Fill = Callable[[Columns], None]  # reads the items into columns
# The objects of all items, and what opens the tensors: something like Files.
Opened = tuple[dict[KeyPath, list[Any]], Callable[[], AbstractContextManager[Any]]]
HEAD = "storage.json"
_HOOKED = "hooked"  # what the files of data that hooks made begin with
_WIDEST = 1 << 20  # items in a row; more only where the storage has room for more
_LINE = 1024  # objects in a line of a file
_LONGEST_NAME = 200
_COUNTS = ("cursor", "length", "written", "rows")


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
        cursor, length, written, rows = (read_shape([plain[name]])[0] for name in _COUNTS)
        _, *others = read_shape([rows, *plain["others"]])
        if length > rows or cursor >= max(rows, 1) or 0 in others:
            raise ValueError(f"{length} of {rows} rows are filled, and {cursor} is the next")
        form, leaves, codec = None, None, files.Codec()
        if plain["form"] is not None:
            form = form_from(codec.decode(plain["form"]))
            leaves = {as_tuple(leaf.key): leaf for leaf in form.leaves}
        elif plain["leaves"] is not None:
            leaves = {}
            for parts, shape, name in plain["leaves"]:
                path, dtype = tuple(codec.decode(parts)), None if name is None else dtype_named(name)
                leaves[path] = Leaf(path, read_shape(shape), dtype)
        elif length:
            raise ValueError(f"{length} rows of nothing")
        return cls(cursor, length, written, rows, tuple(others), leaves, form)

    def check_fit(self, storage: Any) -> None:
        """Raise ``ValueError`` if a storage has another capacity than what was saved, or holds other data."""
        known, saved = storage.form is not None, [self.rows, *self.others]
        own = [storage.ring.size, *storage._others] if known else [storage._asked_size]
        if self.leaves is None:
            fits = math.prod(own) == self.rows
        elif known:
            fits = own == saved
        else:  # the storage takes over the other dimensions
            fits = storage.ndim == len(saved) and self.rows == -(-own[0] // self.width)
            fits = fits and self.width <= max(own[0], _WIDEST)
            own += [1] * (storage.ndim - 1)
        if not fits:
            times = [" x ".join(map(str, shape)) for shape in (saved, own)]
            raise ValueError(
                f"The checkpoint is of a storage with room for {times[0]} items, and this one has room for "
                f"{times[1]}. {files.KEPT} "
                f"Fix: make the storage with max_size={math.prod(saved)} and ndim={len(saved)}."
            )
        if self.leaves is None:
            return
        if not known and self.form is None:
            raise ValueError(
                "The containers that hold the data of this checkpoint cannot be made from a file, for example because "
                f"one is a namedtuple, and this storage has not seen any data yet. {files.KEPT} "
                "Fix: write one batch of such data first, buffer.extend(batch), and then load."
            )
        here = {as_tuple(leaf.key): leaf for leaf in storage.form.leaves} if known else self.leaves
        pairs = [(path, _shown(self.leaves.get(path)), _shown(here.get(path))) for path in {**self.leaves, **here}]
        lines = [f"\n  {as_key(path)!r}: saved {was}, stored here {own}" for path, was, own in pairs if was != own]
        if lines:
            lines[8:] = [f"\n  and {len(lines) - 8} more"] if len(lines) > 8 else []
            raise ValueError(
                f"The checkpoint holds other data than this storage.{''.join(lines)}\n{files.KEPT} "
                "Fix: load it into a new buffer, whose storage learns from the checkpoint what the data is like."
            )


def _shown(leaf: Leaf | None) -> str:
    if leaf is None:
        return "nothing"
    return "non-tensor data" if leaf.dtype is None else f"{dtype_name(leaf.dtype)}{list(leaf.shape)}"


def _write_head(storage: Any) -> dict[str, Any]:
    ring, form, codec = storage.ring, storage.form, files.Codec()
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


class Files(NamedTuple):
    """Files of tensors by path, which were checked."""

    paths: dict[KeyPath, Path]

    def read_into(self, path: KeyPath, into: torch.Tensor, start: int = 0) -> None:
        """Fill a tensor with the rows from ``start`` on of the one at a path."""
        files.read_tensor(self.paths[path], into, start * into[:1].nbytes)


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
        files.write_document(folder / HEAD, {"saved_by": type(self).__name__, "head": head, "content": content})

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
        counts = head.cursor, head.length, head.written
        storage._refill(form, head.others, counts, lambda: fill(self._columns(storage)))

    def _open(self, storage: Any, folder: Path, rehearse: bool) -> tuple[Head, Callable[[Form], Fill] | None]:
        self._columns(storage)
        with files.sensible(folder / HEAD):
            head, content = self._read_head(folder)
            head.check_fit(storage)
            return head, None if head.leaves is None else self._check(head, content, folder, rehearse)

    def _read_head(self, folder: Path) -> tuple[Head, Any]:
        """Read the head of a saved storage, and what :meth:`_write` returned."""
        document, own = files.read_document(folder / HEAD), type(self).__name__
        other = document["saved_by"]
        if other != own:
            raise ValueError(
                f"The checkpoint was saved by a {other}, and the storage has a {own}. {files.KEPT} "
                f"Fix: storage.checkpointer = {other}()."
            )
        return Head.read(document["head"]), document["content"]

    def _columns(self, storage: Any) -> Columns:
        """Return the memory of a storage by the path of each leaf."""
        if not hasattr(storage, "columns"):
            raise self._other_storage(storage, "contiguous memory")
        return {as_tuple(key): column for key, column in storage.columns.items()}

    # Items ------------------------------------------------------------------------------------------------------------

    def _write(self, storage: Any, columns: Columns, folder: Path) -> Any:
        """Write the items; return what has to be known to read them, in plain values."""
        length, lead, form = storage.ring.length, tuple(storage.shape), storage.form
        if self._save_hooks:
            files.write_values(folder, _HOOKED, self._hooked(storage))
            return {"hooked": True}
        entries: Entries = {}
        objects: Objects = {}
        for number, (path, column) in enumerate(columns.items()):
            if isinstance(column, ObjectColumn):
                objects[path] = number, column.array[:length].reshape(-1)
            else:
                entries[path] = column.rows(slice(length)), [column.rows(slice(length))]
        like = form.skeleton(lead) if isinstance(form, TensorDictForm) else TensorDict(batch_size=lead)
        self._write_entries(folder, entries, objects, like)
        return {"hooked": False}

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
            data = files.read_values(folder, _HOOKED)
            return lambda form: self._undo_hooks(data, head, form)
        lead, leaves = (head.length, *head.others), head.leaves.items()
        shapes = {path: ((*lead, *leaf.shape), leaf.dtype) for path, leaf in leaves if leaf.dtype}
        numbers = {path: number for number, (path, leaf) in enumerate(leaves) if leaf.dtype is None}
        objects, opened = self._open_entries(folder, shapes, numbers, head.items, rehearse)

        def fill(columns: Columns) -> None:
            put_objects(columns, objects)
            with opened() as tensors:
                for path in shapes:
                    tensors.read_into(path, columns[path].rows(slice(head.length)))

        return lambda form: fill

    def _hooked(self, storage: Any) -> Any:
        """Return what the save hooks make of the filled part, whose last dimension is time."""
        length, *others = storage.shape
        if others:
            places = _time_last(length, math.prod(others))
            data = storage.read(Where(None, None, places, torch.Size((*others, length))))
        else:
            data = storage._view(slice(length))
        for hook in self._save_hooks:
            for name, value in (("shift", storage.ring.cursor), ("is_full", storage.ring.is_full)):
                if hasattr(hook, name):
                    setattr(hook, name, value)
            data = hook(data)
        return data

    def _undo_hooks(self, data: Any, head: Head, form: Form) -> Fill:
        for hook in self._load_hooks:
            data = hook(data)
        leaves, places = form.take_apart(data, (*head.others, head.length)), _time_last(head.length, head.width)

        def fill(columns: Columns) -> None:
            for column, leaf in zip(columns.values(), leaves, strict=True):
                is_tensor = isinstance(leaf, torch.Tensor)
                column.scatter(places, leaf.flatten(0, len(head.others)) if is_tensor else leaf)

        return fill

    # Files ------------------------------------------------------------------------------------------------------------

    def _write_entries(self, folder: Path, entries: Entries, objects: Objects, like: TensorDictBase) -> None:
        """Write tensors in the layout of ``TensorDict.memmap``, without a copy in memory, and objects as lines of JSON.

        ``like`` has the batch sizes of the TensorDicts that the entries make up, and perhaps entries like them.
        """
        keys = _file_keys(entries)
        if list(keys.values()) != list(entries):
            like = TensorDict(batch_size=like.batch_size)
        for path, (tensor, _) in entries.items():
            like[keys[path]] = tensor
        with system_errors():
            like.memmap_like(os.fspath(folder), existsok=True, robust_key=True)
        for path, file in _files_of(folder, keys).items():
            tensor, blocks = entries[path]
            if tensor.numel():  # files that would be empty are not made
                files.write_tensor(file, blocks)
        codec = files.Codec()
        for path, (number, values) in objects.items():
            with (folder / f"objects.{number}.jsonl").open("w") as lines:
                for start in range(0, len(values), _LINE):
                    plain = [codec.encode(value, path) for value in values[start : start + _LINE]]
                    lines.write(json.dumps(plain) + "\n")

    def _open_entries(self, folder: Path, shapes: Shapes, numbers: Numbers, count: int, rehearse: bool) -> Opened:
        """Check the files of tensors and of ``count`` objects each; return the objects, and what opens the tensors."""
        paths, objects, codec = _files_of(folder, _file_keys(shapes)), {}, files.Codec()
        for path, (shape, dtype) in shapes.items():
            files.check_bytes(paths[path], torch.Size(shape).numel() * dtype.itemsize)
        for path, number in numbers.items():
            file = folder / f"objects.{number}.jsonl"
            if not file.is_file():
                raise files.missing(file)
            with file.open() as lines:
                objects[path] = [codec.decode(value) for line in lines for value in json.loads(line)]
            if len(objects[path]) != count:
                raise ValueError(f"{len(objects[path])} objects for {count} items")
        return objects, lambda: contextlib.nullcontext(Files(paths))


def put_objects(columns: Columns, objects: Mapping[KeyPath, Sequence[Any]]) -> None:
    """Write the first items of the leaves of non-tensor data."""
    for path, values in objects.items():
        for place, value in enumerate(values):  # one by one: numpy would look into lists
            columns[path].flat_array[place] = value


def _time_last(length: int, width: int) -> torch.Tensor:
    """Return the positions of all items, those of each env behind one another."""
    return torch.arange(length * width).view(length, width).t().flatten()


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
