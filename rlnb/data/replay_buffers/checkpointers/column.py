"""Base of the checkpointers of storages in contiguous memory, and what they save beside the transitions."""

from __future__ import annotations

import json
import math
import os
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers.checkpointers import errors
from rlnb.data.replay_buffers.checkpointers.base import StorageCheckpointerBase
from rlnb.data.replay_buffers.checkpointers.files import read_document, write_document
from rlnb.data.replay_buffers.checkpointers.memmap import KeyPath
from rlnb.data.replay_buffers.checkpointers.plain import Encoder, decode
from rlnb.data.replay_buffers.checkpointers.state import SENSELESS, explained
from rlnb.data.replay_buffers.columns import ObjectColumn
from rlnb.data.replay_buffers.forms import Form, Leaf, form_from
from rlnb.data.replay_buffers.forms.structure import dtype_name, dtype_named, read_shape
from rlnb.data.ted.keys import as_key, as_tuple

HEAD = "storage.json"
_MOST = 1 << 48
_WIDEST = 1 << 20  # items in a row; more only where the storage has room for more
_LINE = 1024  # objects in a line of a file


@dataclass
class Head:
    """What is saved of a storage beside its items.

    Attributes:
        cursor: Row that is written next.
        length: Number of rows filled.
        written: Number of rows ever written.
        rows: Number of rows there is room for.
        others: Dimensions beside time that count items.
        leaves: Leaf of each path; ``None`` if nothing was ever written.
        form: Form of the items; ``None`` if it cannot be made from a file.
    """

    cursor: int
    length: int
    written: int
    rows: int
    others: tuple[int, ...]
    leaves: dict[KeyPath, Leaf] | None
    form: Form | None

    @property
    def width(self) -> int:
        """Number of items in a row."""
        return math.prod(self.others)

    def check_fit(self, storage: Any) -> None:
        """Raise ``ValueError`` if a storage has another capacity than what was saved, or holds other data."""
        known = storage.form is not None
        own = [storage.ring.size, *storage._others] if known else [storage._asked_size]
        if self.leaves is None:
            if math.prod(own) != self.rows:
                raise ValueError(_other_capacity([self.rows], own))
            return
        rows = own[0] if known else -(-own[0] // self.width)
        fits = own[1:] == list(self.others) if known else self.width <= max(own[0], _WIDEST)
        if storage.ndim != 1 + len(self.others) or rows != self.rows or not fits:
            own += [1] * (storage.ndim - len(own))
            raise ValueError(_other_capacity([self.rows, *self.others], own))
        if not known and self.form is None:
            raise ValueError(
                "The containers that hold the data of this checkpoint cannot be made from a file, for example because "
                f"one is a namedtuple, and this storage has not seen any data yet. {errors.KEPT} "
                "Fix: write one batch of such data first, buffer.extend(batch), and then load."
            )
        here = {as_tuple(leaf.key): leaf for leaf in storage.form.leaves} if known else self.leaves
        pairs = [(path, _shown(self.leaves.get(path)), _shown(here.get(path))) for path in {**self.leaves, **here}]
        differ = [pair for pair in pairs if pair[1] != pair[2]]
        if differ:
            lines = "".join(
                f"\n  {as_key(path)!r}: saved {saved}, stored here {own}" for path, saved, own in differ[:8]
            )
            more = f"\n  and {len(differ) - 8} more" if len(differ) > 8 else ""
            raise ValueError(
                f"The checkpoint holds other data than this storage.{lines}{more}\n{errors.KEPT} "
                "Fix: load it into a new buffer, whose storage learns from the checkpoint what the data is like."
            )


def _other_capacity(saved: list[int], own: list[int]) -> str:
    times = [" x ".join(map(str, shape)) for shape in (saved, own)]
    return (
        f"The checkpoint is of a storage with room for {times[0]} elements, and this one has room for {times[1]}. "
        f"{errors.KEPT} Fix: make the storage with max_size={math.prod(saved)} and ndim={len(saved)}."
    )


def _shown(leaf: Leaf | None) -> str:
    if leaf is None:
        return "nothing"
    return "non-tensor data" if leaf.dtype is None else f"{dtype_name(leaf.dtype)}{list(leaf.shape)}"


def _write_head(storage: Any) -> Any:
    ring, form = storage.ring, storage.form
    counts = {"cursor": ring.cursor, "length": ring.length, "written": ring.written, "others": list(storage._others)}
    counts["rows"] = storage.max_size if form is None else ring.size
    if form is None:
        return {**counts, "form": None, "leaves": None}
    plain = Encoder(None, "key")
    try:
        return {**counts, "form": plain.encode(form.describe()), "leaves": None}
    except (NotImplementedError, TypeError, ValueError):  # such as a namedtuple, which only code can make
        leaves = [
            [plain.encode(list(as_tuple(leaf.key))), list(leaf.shape), leaf.dtype and dtype_name(leaf.dtype)]
            for leaf in form.leaves
        ]
        return {**counts, "form": None, "leaves": leaves}


def _read_head(plain: Any) -> Head:
    counts = [plain[name] for name in ("cursor", "length", "written", "rows")]
    others = tuple(plain["others"])
    if not all(type(count) is int and 0 <= count < _MOST for count in (*counts, *others)):
        raise ValueError("a count of rows is not a number of rows")
    cursor, length, written, rows = counts
    if length > rows or cursor >= max(rows, 1) or 0 in others or math.prod((rows, *others)) >= _MOST:
        raise ValueError(f"{length} of {rows} rows are filled, and {cursor} is the next")
    form = None if plain["form"] is None else form_from(decode(plain["form"], None, "key"))
    leaves: list[Leaf] | None = None if form is None else form.leaves
    if form is None and plain["leaves"] is not None:
        leaves = [
            Leaf(
                as_key(tuple(decode(parts, None, "key"))),
                read_shape(shape),
                None if dtype is None else dtype_named(dtype),
            )
            for parts, shape, dtype in plain["leaves"]
        ]
    if leaves is None and length:
        raise ValueError(f"{length} rows of nothing")
    by_path = None if leaves is None else {as_tuple(leaf.key): leaf for leaf in leaves}
    return Head(cursor, length, written, rows, others, by_path, form)


class ColumnCheckpointer(StorageCheckpointerBase):
    """Base of the checkpointers of storages in contiguous memory.

    A subclass implements :meth:`_write`, :meth:`_check` and :meth:`_read`.
    """

    @abstractmethod
    def _write(self, storage: Any, folder: Path) -> Any:
        """Write the items; return what has to be known to read them, in plain values."""

    @abstractmethod
    def _check(self, head: Head, content: Any, folder: Path, rehearse: bool) -> Any:
        """Raise for files that :meth:`_read` could not read.

        Args:
            head: Head of a storage that has leaves.
            content: What :meth:`_write` returned, as somebody else may have written it.
            folder: Folder of the files.
            rehearse: Whether memory with other data is overwritten later, so that nothing may go wrong then.

        Returns:
            What :meth:`_read` needs.
        """

    def _prepare(self, form: Form, head: Head, checked: Any) -> Any:
        """Do what runs code of users, before the storage changes; return what :meth:`_read` needs."""
        return checked

    @abstractmethod
    def _read(self, storage: Any, head: Head, checked: Any, folder: Path) -> None:
        """Read the items into the memory of a storage."""

    def dumps(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Write a storage; see :meth:`StorageCheckpointerBase.dumps`."""
        self._refuse(storage)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with storage.ring.reading:
            head = _write_head(storage)
            content = None if storage.form is None else self._write(storage, folder)
        write_document(folder / HEAD, {"saved_by": type(self).__name__, "head": head, "content": content})

    def check(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Raise for what :meth:`loads` could not load; see :meth:`StorageCheckpointerBase.check`."""
        self._open(storage, Path(path), rehearse=True)

    def loads(self, storage: Any, path: str | os.PathLike[str]) -> None:
        """Read what :meth:`dumps` wrote; see :meth:`StorageCheckpointerBase.loads`."""
        fresh, folder = getattr(storage, "form", None) is None, Path(path)
        head, checked = self._open(storage, folder, rehearse=not fresh)
        if head.leaves is None or (fresh and not head.length):  # no file says how large an item may be
            storage._empty()
            return
        form = head.form if fresh else storage.form
        assert form is not None
        checked = self._prepare(form, head, checked)
        if fresh:
            storage._initialize(form, head.others, torch.device("cpu"))
        with storage.ring.lock:
            try:
                storage._reserve(0, head.length)
                if not fresh:
                    storage.ring.jump(0, 0)  # a read that fails half way must leave nothing that counts as filled
                self._read(storage, head, checked, folder)
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

    def _open(self, storage: Any, folder: Path, rehearse: bool) -> tuple[Head, Any]:
        self._refuse(storage)
        head, content = read_saved(folder, type(self).__name__)
        try:
            head.check_fit(storage)
            return head, None if head.leaves is None else self._check(head, content, folder, rehearse)
        except SENSELESS as error:
            raise explained(folder / HEAD, error) from error

    def _refuse(self, storage: Any) -> None:
        if not hasattr(storage, "columns"):
            raise TypeError(errors.other_storage(type(self).__name__, storage, "contiguous memory"))


def read_saved(folder: Path, saved_by: str) -> tuple[Head, Any]:
    """Read the head of a saved storage, and what its checkpointer, ``saved_by``, has to know to read the items."""
    document = read_document(folder / HEAD)
    try:
        other = document["saved_by"]
        if other != saved_by:
            raise ValueError(
                f"The checkpoint was saved by a {other}, and the storage has a {saved_by}. {errors.KEPT} "
                f"Fix: storage.checkpointer = {other}()."
            )
        return _read_head(document["head"]), document["content"]
    except SENSELESS as error:
        raise explained(folder / HEAD, error) from error


def columns_of(storage: Any) -> dict[KeyPath, Any]:
    """Return the memory of a storage by the path of each leaf."""
    return {as_tuple(key): column for key, column in storage.columns.items()}


# Non-tensor data ------------------------------------------------------------------------------------------------------


def write_objects(column: ObjectColumn, length: int, path: KeyPath, folder: Path, number: int) -> None:
    """Write the non-tensor data of a leaf as lines of JSON; raises ``TypeError`` for what JSON cannot hold."""
    with _objects_file(folder, number).open("w") as file:
        file.writelines(_lines(column.array[:length].reshape(-1), path))


def _lines(objects: np.ndarray, path: KeyPath) -> Iterator[str]:
    plain = Encoder(None, "objects")
    for start in range(0, len(objects), _LINE):
        yield json.dumps([plain.encode(value, path) for value in objects[start : start + _LINE]]) + "\n"


def read_objects(head: Head, folder: Path, number: int) -> np.ndarray:
    """Read the non-tensor data of a leaf: an array with one object for each item."""
    path, count = _objects_file(folder, number), head.length * head.width
    if not path.is_file():
        raise ValueError(errors.missing(path))
    objects: list[Any] = []
    with path.open() as file:
        for line in file:
            objects += [decode(value, None, "objects") for value in json.loads(line)]
    if len(objects) != count:
        raise ValueError(f"{len(objects)} objects for {count} items")
    return as_objects(objects)


def as_objects(values: list[Any]) -> np.ndarray:
    """Return an array of Python objects ``[n]``."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):  # one by one: numpy would look into lists
        array[place] = value
    return array


def put_objects(column: ObjectColumn, objects: np.ndarray, length: int) -> None:
    """Write what :func:`read_objects` returned into the memory of a leaf."""
    column.array[:length].reshape(-1)[:] = objects


def _objects_file(folder: Path, number: int) -> Path:
    return folder / f"objects.{number}.jsonl"
