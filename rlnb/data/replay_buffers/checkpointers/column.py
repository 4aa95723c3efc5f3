"""Default checkpointer of storages in contiguous memory, and how their entries are written to files."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import file_name
from rlnb.data.replay_buffers import errors
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
Entries = dict[KeyPath, tuple[torch.Tensor, torch.Tensor | None]]  # tensors whose rows are saved: all, or those listed
Shapes = dict[KeyPath, tuple[torch.Size, Any]]  # and dtypes
Read = Callable[..., None]  # fills a tensor with the saved one at a path, from a row on: read(path, into, start=0)
Fill = Callable[[Columns], None]  # reads the items into columns
HEAD = "storage.json"
BREAKS = ("breaks",)
_HOOKED = "hooked.json"  # data that hooks made
# Names of files and folders that every system takes, and that are not those of our own files.
_NAME = re.compile(r"[^.\ud800-\udfff][^\ud800-\udfff]{0,59}(?<!\.json)(?<!\.memmap)")
_MOST_UNSET = 1 << 10


class Head(NamedTuple):
    """The description of a storage in ``storage.json``, a file that somebody else may have written."""

    cursor: int
    length: int  # rows that are filled
    written: int  # rows that were ever written
    rows: int  # rows there is room for
    others: tuple[int, ...]  # dimensions beside time that count items
    leaves: dict[KeyPath, Leaf]  # none if nothing was ever written
    form: Form | None  # None if it cannot be made from a file
    objects: dict[KeyPath, list[Any]]  # the items of each leaf of non-tensor data
    last: list[KeyPath]  # leaves that are saved only at the breaks; see FlatStorageCheckpointer
    breaks: int | None  # number of the breaks; None for data that is saved as it is
    unset: list[KeyPath]  # flags that are not saved, as all are False; only with breaks
    hooked: bool

    @property
    def width(self) -> int:
        """Number of items in a row."""
        return math.prod(self.others)

    @classmethod
    def read(cls, plain: Any, own: str) -> Head:
        """Check a document that the checkpointer of a class named ``own`` wrote, or somebody else."""
        other = plain["saved_by"]
        if other != own:
            raise ValueError(
                f"The checkpoint was saved by a {other}, and the storage has a {own}. {files.KEPT} "
                f"Fix: storage.checkpointer = {other}()."
            )
        cursor, length, written = (read_shape([plain[name]])[0] for name in ("cursor", "length", "written"))
        rows, *others = read_shape([plain["rows"], *plain["others"]])
        if length > rows or cursor >= max(rows, 1) or 0 in others:
            raise ValueError(f"{length} of {rows} rows are filled, and {cursor} is the next")
        form = None if plain["form"] is None else form_from(plain["form"])
        leaves = {} if form is None else {as_tuple(leaf.key): leaf for leaf in form.leaves}
        for path, shape, dtype in plain["leaves"] if form is None else ():
            leaves[path] = Leaf(path, read_shape(shape), None if dtype is None else dtype_named(dtype))
        if length and not leaves:
            raise ValueError(f"{length} rows of nothing")
        last, breaks, items = plain["last"], plain["breaks"], length * math.prod(others)
        for path in last:
            root, leaf = leaves[path[1:]], leaves[path]
            if path[0] != "next" or path[1:] in last or leaf.dtype is None or root[1:] != leaf[1:]:
                raise ValueError(f"the entry {path} is not the same at the root")
        if any(path in last or not _are_few_flags(*leaves[path][1:]) for path in plain["unset"]):
            raise ValueError("an entry that is not saved is more than a few flags")
        if breaks is not None and read_shape([breaks])[0] > items:
            raise ValueError("the number of breaks does not fit the number of steps")
        non_tensor = () if plain["hooked"] else [path for path, leaf in leaves.items() if leaf.dtype is None]
        objects = {path: plain["objects"][as_key(path)] for path in non_tensor}
        for path, values in objects.items():
            if type(values) is not list or len(values) != items:
                raise ValueError(f"the entry {path} does not have one object for each item")
        more = leaves, form, objects, last, breaks, plain["unset"], bool(plain["hooked"])
        return cls(cursor, length, written, rows, tuple(others), *more)

    def check_fit(self, storage: Any) -> None:
        """Raise ``ValueError`` if a storage has another capacity than what was saved, or holds other data."""
        known, saved = storage.form is not None, [self.rows, *self.others]
        own = [storage.ring.size, *(storage._others if known else [1] * (storage.ndim - 1))]
        if not self.leaves:
            fits = math.prod(own) == self.rows
        elif known:
            fits = own == saved
        else:  # the storage takes over the other dimensions
            fits = len(own) == len(saved) and self.rows == -(-own[0] // self.width)
        if not fits:
            times = [" x ".join(map(str, shape)) for shape in (saved, own)]
            raise ValueError(
                f"The checkpoint is of a storage with room for {times[0]} items, and this one has room for "
                f"{times[1]}. {files.KEPT} "
                f"Fix: make the storage with max_size={math.prod(saved)} and ndim={len(saved)}."
            )
        if self.leaves and not known and self.form is None:
            raise ValueError(
                "The containers that hold the data of this checkpoint cannot be made from a file, for example because "
                f"one is a namedtuple, and this storage has not seen any data yet. {files.KEPT} "
                "Fix: write one batch of such data first, buffer.extend(batch), and then load."
            )
        was = _looks(self.leaves.values())
        now = _looks(storage.form.leaves) if known and self.leaves else was
        pairs = {key: (was.get(key, "nothing"), now.get(key, "nothing")) for key in {**was, **now}}
        lines = [f"\n  {key!r}: saved {one}, stored here {two}" for key, (one, two) in pairs.items() if one != two]
        if lines:
            lines[8:] = [f"\n  and {len(lines) - 8} more"] if len(lines) > 8 else []
            raise ValueError(
                f"The checkpoint holds other data than this storage.{''.join(lines)}\n{files.KEPT} "
                "Fix: load it into a new buffer, whose storage learns from the checkpoint what the data is like."
            )


def _are_few_flags(shape: torch.Size, dtype: torch.dtype | None) -> bool:
    """Whether no file has to show that there are so many numbers in an item."""
    return dtype == torch.bool and shape.numel() <= _MOST_UNSET


def _looks(leaves: Iterable[Leaf]) -> dict[Any, str]:
    return {as_key(as_tuple(leaf.key)): errors.looks(leaf.shape, leaf.dtype) for leaf in leaves}


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
        folder, columns, ring, form = Path(path), self._columns(storage), storage.ring, storage.form
        folder.mkdir(parents=True, exist_ok=True)
        with ring.reading:
            saved = {"saved_by": type(self).__name__, "cursor": ring.cursor, "length": ring.length}
            saved |= {"written": ring.written, "rows": ring.size, "others": list(storage._others)}
            saved |= {"form": None, "leaves": []}
            if form is not None:
                try:
                    saved["form"] = form.describe()
                except NotImplementedError:  # such as a namedtuple, which only code can make
                    saved["leaves"] = [
                        (as_tuple(key), shape, dtype and dtype_name(dtype)) for key, shape, dtype in form.leaves
                    ]
            saved |= self._write(storage, columns, folder)
        files.write_values(folder / HEAD, saved, tensors=False)

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Raise for what :meth:`loads` could not load; see :meth:`StorageCheckpointerBase.check`."""
        self._open(storage, Path(path))

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote; see :meth:`StorageCheckpointerBase.loads`."""
        head, fill = self._open(storage, Path(path))
        if head.length:
            form, counts = storage.form or head.form, (head.cursor, head.length, head.written)
            storage._refill(form, head.others, counts, lambda: fill(self._columns(storage)))
        else:  # no file says how large an item may be
            storage._empty()

    def _open(self, storage: Any, folder: Path) -> tuple[Head, Fill]:
        """Check what was saved, and that it fits; return what reads the items."""
        self._columns(storage)
        with files.reading(folder / HEAD) as document:
            head = Head.read(document, type(self).__name__)
            head.check_fit(storage)
            if not head.length:
                return head, lambda columns: None
            if not head.hooked:
                return head, self._check(head, folder, rehearse=storage.form is not None)[1]
        with files.reading(folder / _HOOKED) as data:
            pass  # what the hooks raise is no fault of the file
        for hook in self._load_hooks:
            data = hook(data)
        form: Any = storage.form or head.form
        place = _time_last(head.length, head.others)
        leaves = form.take_apart(data, tuple(place.lead))
        return head, lambda columns: storage._write_over(place, leaves)

    def _columns(self, storage: Any) -> Columns:
        """Return the memory of a storage by the path of each leaf."""
        if not hasattr(storage, "columns"):
            raise self._other_storage(storage, "contiguous memory")
        return {as_tuple(key): column for key, column in storage.columns.items()}

    # Items ------------------------------------------------------------------------------------------------------------

    def _write(self, storage: Any, columns: Columns, folder: Path) -> dict[str, Any]:
        """Write the tensors, or what the hooks make of the items; return all else that has to be known to read them."""
        saved: dict[str, Any] = {"hooked": False, "objects": {}, "last": [], "breaks": None, "unset": []}
        if storage.form is None:
            return saved
        if self._save_hooks:
            data = storage.read(_time_last(storage.ring.length, storage._others))
            for hook in self._save_hooks:
                for name, value in (("shift", storage.ring.cursor), ("is_full", storage.ring.is_full)):
                    if hasattr(hook, name):
                        setattr(hook, name, value)
                data = hook(data)
            files.write_values(folder / _HOOKED, data)
            return {**saved, "hooked": True}
        filled, last, breaks = slice(storage.ring.length), *self._breaks(storage, columns)
        entries: Entries = {}
        for path, column in columns.items():
            if isinstance(column, ObjectColumn):
                saved["objects"][as_key(path)] = column.array[filled].flatten().tolist()
            elif path in last:
                entries["last", *path] = column.flat, breaks
            elif breaks is None:
                entries[path] = column.rows(filled), None
            elif _are_few_flags(column.flat.shape[1:], column.flat.dtype) and not column.rows(filled).any():
                saved["unset"].append(path)
            else:
                entries["data", *path] = column.rows(filled), None
        like = TensorDict(batch_size=storage.shape)
        if breaks is not None:
            entries[BREAKS], like = (breaks, None), TensorDict()
        elif isinstance(storage.form, TensorDictForm):
            like = storage.form.skeleton(storage.shape)
        self._write_tensors(folder, entries, like)
        return {**saved, "last": last, "breaks": None if breaks is None else len(breaks)}

    def _breaks(self, storage: Any, columns: Columns) -> tuple[list[KeyPath], torch.Tensor | None]:
        """Return the leaves that are saved in part, and the positions of their saved items; see :class:`Head`."""
        return [], None

    def _check(self, head: Head, folder: Path, rehearse: bool) -> tuple[torch.Tensor, Fill]:
        """Raise for files that could not be read; return the breaks, and what reads the items.

        ``rehearse`` says that memory with other data is overwritten then, so that nothing may go wrong.
        """
        places, shapes = {}, {}
        for path, leaf in head.leaves.items():
            if leaf.dtype is not None and path not in head.unset:
                lead = (head.breaks,) if path in head.last else (head.length, *head.others)
                places[path] = path if head.breaks is None else ("last" if path in head.last else "data", *path)
                shapes[places[path]] = torch.Size((*lead, *leaf.shape)), leaf.dtype
        breaks, items = torch.empty(head.breaks or 0, dtype=torch.int64), head.length * head.width
        if head.breaks:
            shapes[BREAKS] = breaks.shape, breaks.dtype
        read = self._open_tensors(folder, shapes, rehearse)
        if head.breaks:
            read(BREAKS, breaks)
            if not (breaks[0] >= 0 and breaks[-1] < items and bool((breaks.diff() > 0).all())):
                raise ValueError(f"the breaks are not positions of {items} steps in order")

        def fill(columns: Columns) -> None:
            filled = slice(head.length)
            for path in sorted(columns, key=head.last.__contains__):  # the root before what is under "next"
                column = columns[path]
                if path in head.objects:
                    column.flat_array[:items] = np.fromiter(head.objects[path], object)  # numpy would look into lists
                elif path in head.unset:
                    column.rows(filled).zero_()
                elif path not in head.last:
                    read(places[path], column.rows(filled))
                else:
                    rows, root, start = column.rows(filled), columns[path[1:]].rows(filled), 0
                    rows[:-1], rows[-1] = root[1:], root[0]
                    for part in breaks.split(files.rows_in_piece(column.flat)):
                        block = torch.empty((len(part), *column.flat.shape[1:]), dtype=column.flat.dtype)
                        read(places[path], block, start)
                        column.scatter(part, block)
                        start += len(part)

        return breaks, fill

    # Tensors ----------------------------------------------------------------------------------------------------------

    def _write_tensors(self, folder: Path, entries: Entries, like: TensorDictBase) -> None:
        """Write tensors in the layout of ``TensorDict.memmap``, without a copy in memory."""
        keys = _file_keys(entries)
        if list(keys.values()) != list(entries):
            like = TensorDict(batch_size=like.batch_size)
        for path, (tensor, index) in entries.items():
            like[keys[path]] = tensor if index is None else tensor[:1].expand(len(index), *tensor.shape[1:])
        like.memmap_like(os.fspath(folder))
        for path, (tensor, index) in entries.items():
            if like[keys[path]].numel():  # files that would be empty are not made
                files.write_tensor(_file(folder, keys[path]), tensor, index)

    def _open_tensors(self, folder: Path, shapes: Shapes, rehearse: bool) -> Read:
        """Check that there are files of such tensors; return what reads them. For ``rehearse`` see :meth:`_check`."""
        paths = {path: _file(folder, key) for path, key in _file_keys(shapes).items()}
        for path, (shape, dtype) in shapes.items():
            files.check_bytes(paths[path], math.prod(shape) * dtype.itemsize)
        return lambda path, into, start=0: files.read_tensor(paths[path], into, start * into[:1].nbytes)


def _time_last(length: int, others: Sequence[int]) -> Where:
    """Return the place of all items, those of each env behind one another."""
    lead = torch.Size((*others, length))
    if not others:
        return Where(None, slice(0, length), None, lead)
    return Where(None, None, torch.arange(lead.numel()).view(length, -1).t().flatten(), lead)


def _file(folder: Path, key: tuple[str, ...]) -> Path:
    *folders, name = map(file_name, key)
    return folder.joinpath(*folders, f"{name}.memmap")


def _file_keys(paths: Iterable[KeyPath]) -> dict[KeyPath, tuple[str, ...]]:
    """Return the keys in the TensorDict that the files make up: numbers if one cannot be the name of a file."""
    keys = {path: tuple(map(str, path)) or ("data",) for path in paths}
    branches = {key[:depth] for key in keys.values() for depth in range(1, len(key))}
    fit = all(_NAME.fullmatch(file_name(part)) for key in keys.values() for part in key)
    if fit and len({*keys.values(), *branches}) == len(keys) + len(branches):
        return keys
    return {path: (f"{number}",) for number, path in enumerate(keys)}
