"""HDF5 files of datasets: columns of numbers, read row by row into tensors, from files that nobody trusts."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlnb.data.datasets.conversion import CHUNK_BYTES
from rlnb.data.ted.hdf5 import damage, import_h5py, is_stored
from rlnb.data.ted.keys import as_key


@dataclass(slots=True)
class H5Column:
    """A dataset of a file, in h5py's interface to the C library: its objects take longer than reading a short episode.

    Attributes:
        dataset: the identifier of the dataset.
        path: its path in the file.
        shape: the number of rows, and the shape of each.
        dtype: its dtype in NumPy.
        offset: the position in the file of the rows, if they follow one another as NumPy holds them.
    """

    dataset: Any
    path: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int | None

    @property
    def row_bytes(self) -> int:
        """The size of a row."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]


#: The columns below a group of a file, by their paths.
Columns = dict[tuple[str, ...], H5Column]

_MAX_DEPTH = 32
_MAX_PLAIN_BYTES = 1 << 26


class H5Source:
    """An HDF5 file whose datasets are columns: entries with one row for each step.

    Columns of text are left out; links to other places, data in other files and entries that are neither numbers nor
    text are refused. Memory is needed for the rows that are asked for, whatever size the file states.

    Args:
        path: path of the file.
        user: who reads it, for the error if h5py is not installed.

    Raises:
        ImportError: If h5py is not installed.
        ValueError: If the file, or an entry that is read, is damaged, cut short or of another kind.

    Example:
        >>> import h5py, tempfile
        >>> path = Path(tempfile.mkdtemp(), "steps.h5")
        >>> with h5py.File(path, "w") as file:
        ...     file["infos/goal"] = [[1.0, 2.0], [3.0, 4.0]]
        >>> with H5Source(path) as source:
        ...     columns = source.columns()
        ...     print(list(columns), source.read(columns["infos", "goal"], 1, 2))
        [('infos', 'goal')] tensor([[3., 4.]], dtype=torch.float64)
    """

    def __init__(self, path: str | os.PathLike[str], user: str = "HDF5 files need") -> None:
        self.path = Path(path)
        self._h5py = import_h5py(user, "datasets")
        with self._damage(f"The file {os.fspath(self.path)!r}"):
            self.file = self._h5py.File(self.path, "r")
            # HDF5 states positions of data that is not in the file, if a block of the user precedes it.
            self._positions = self.file.userblock_size == 0
        self._bytes = self.path.open("rb", buffering=0)
        # The types of the file, with their dtypes and whether NumPy has the same bytes: h5py needs long to find out.
        self._types: list[tuple[Any, np.dtype[Any], bool]] = []

    def __enter__(self) -> H5Source:
        return self

    def __exit__(self, *error: object) -> None:
        self._bytes.close()
        self.file.close()

    def groups(self, **options: Any) -> Iterator[tuple[str, Columns]]:
        """Iterate over the groups at the root of the file, numbers in names in their order.

        Args:
            **options: as for :meth:`columns`, which is called for each group.

        Yields:
            The name of a group, and its columns.
        """
        with self._damage(self._name(())):
            links = self._links(self.file.id)
        for name in sorted(links, key=lambda name: [int(p) if p.isdecimal() else p for p in re.split(r"(\d+)", name)]):
            with self._damage(self._name((name,))):
                group = self._item(self.file.id, (name,), links[name])
            if isinstance(group, self._h5py.h5g.GroupID):
                yield name, self._columns(group, (name,), **options)

    def columns(
        self,
        *group: str,
        required: Iterable[tuple[str, ...] | str] = (),
        nested: Collection[str] = (),
        blobs: Collection[tuple[str, ...]] = (),
    ) -> Columns:
        """List the datasets of numbers below a group, by their paths in it.

        Args:
            *group: path of the group. Default: the root of the file.
            required: paths of datasets that the group must have.
            nested: those of the required names that may be groups of datasets, too.
            blobs: paths of datasets whose rows are files, such as images, for :meth:`read_blobs`.

        Raises:
            ValueError: If an entry is refused, or one that is required is missing.
        """
        with self._damage(self._name(group)):
            top: Any = self.file.id
            for depth in range(len(group)):
                top = self._item(top, group[: depth + 1])
        return self._columns(top, group, required, nested, blobs)

    def _columns(
        self,
        top: Any,
        group: tuple[str, ...],
        required: Iterable[tuple[str, ...] | str] = (),
        nested: Collection[str] = (),
        blobs: Collection[tuple[str, ...]] = (),
    ) -> Columns:
        found: Columns = {}
        with self._damage(self._name(group)):
            self._walk(top, group, (), found, blobs, set())
        for path in required:
            parts = (path,) if isinstance(path, str) else path
            if parts not in found and not (path in nested and any(each[: len(parts)] == parts for each in found)):
                here = ", ".join(repr(as_key(each)) for each in found) or "nothing"
                raise ValueError(
                    f"{self._name(group)} has no entry {as_key(parts)!r} of numbers; it has {here}. "
                    "Fix: look whether it is the file that it should be."
                )
        return found

    def _walk(
        self,
        group: Any,
        path: tuple[str, ...],
        below: tuple[str, ...],
        found: Columns,
        blobs: Collection[tuple[str, ...]],
        seen: set[Any],
    ) -> None:
        """Collect the columns below a group."""
        self._check_new(group, path, seen)
        for name, kind in self._links(group).items():
            item = self._item(group, (*path, name), kind)
            if isinstance(item, self._h5py.h5g.GroupID):
                self._walk(item, (*path, name), (*below, name), found, blobs, seen)
            elif (column := self._column(item, (*path, name), (*below, name) in blobs)) is not None:
                found[*below, name] = column

    def _check_new(self, group: Any, path: tuple[str, ...], seen: set[Any]) -> None:
        """Refuse a group that was met before, or is below too many others."""
        address = self._h5py.h5o.get_info(group).addr
        if address in seen or len(path) > _MAX_DEPTH:
            raise ValueError(f"{self._name(path)} contains itself, or is nested more than {_MAX_DEPTH} deep.")
        seen.add(address)

    @staticmethod
    def _links(group: Any) -> dict[str, int]:
        """List the names in a group, with the kinds of links that they are."""
        found: dict[str, int] = {}
        group.links.iterate(lambda name, link: found.update({name.decode(): link.type}), info=True)
        return found

    def _item(self, group: Any, path: tuple[str, ...], kind: int | None = None) -> Any:
        """Return the identifier of the group or dataset at a path, the kind of whose link may be known."""
        name = path[-1].encode()
        if kind is None:
            if not group.links.exists(name):
                raise ValueError(f"{self._name(path)} is missing. Fix: look whether it is the file that it should be.")
            kind = group.links.get_info(name).type
        item = self._h5py.h5o.open(group, name) if kind == self._h5py.h5l.TYPE_HARD else None
        if not isinstance(item, (self._h5py.h5g.GroupID, self._h5py.h5d.DatasetID)):
            raise ValueError(
                f"{self._name(path)} is not data, but a link to another place or file, or a type, which no dataset "
                "needs. Fix: do not use a file that you do not trust."
            )
        return item

    def _check_inside(self, dataset: Any, path: tuple[str, ...]) -> None:
        """Refuse a dataset whose data is in another file."""
        settings = dataset.get_create_plist()
        if settings.get_layout() == self._h5py.h5d.VIRTUAL or settings.get_external_count():
            raise ValueError(
                f"{self._name(path)} has its data in another file, which no dataset needs. "
                "Fix: do not use a file that you do not trust."
            )

    def _column(self, dataset: Any, path: tuple[str, ...], blobs: bool) -> H5Column | None:
        """Check a dataset; text and single values are not columns."""
        offset = dataset.get_offset() if self._positions else None
        if offset is None:  # asking for more takes longer
            self._check_inside(dataset, path)
        dtype, same = self._dtype(dataset.get_type())
        column = H5Column(dataset, path, dataset.shape, dtype, offset if same else None)
        number = dtype.kind in "biufc"
        if not column.shape or (not number and self._h5py.check_string_dtype(dtype) is not None):
            return None
        if blobs and self._h5py.check_vlen_dtype(dtype) == np.uint8:
            return column
        # torch has no numbers of 16 bytes.
        if not number or dtype.itemsize > (16 if dtype.kind == "c" else 8):
            raise ValueError(
                f"{self._name(path)} holds {column.dtype}, not numbers. "
                "Fix: write it as an array of numbers, or delete it from the file with h5py."
            )
        size, stored = len(column) * column.row_bytes, dataset.get_storage_size()
        if not is_stored(size, stored):
            raise ValueError(
                f"{self._name(path)} states {size:,} bytes, more than the {stored:,} in the file can hold. "
                "Fix: do not use a file that you do not trust."
            )
        return column

    def _dtype(self, stored: Any) -> tuple[np.dtype[Any], bool]:
        """Return the dtype of a type in the file, and whether NumPy has the same bytes."""
        for known, dtype, same in self._types:
            if known.equal(stored):
                return dtype, same
        dtype = stored.dtype
        same = dtype.kind in "biufc" and self._h5py.h5t.py_create(dtype, logical=True).equal(stored)
        self._types.append((stored, dtype, same and dtype.isnative))
        return self._types[-1][1:]

    def read(self, column: H5Column, start: int = 0, stop: int | None = None) -> torch.Tensor:
        """Read some rows of a column; see ``columns``."""
        stop = len(column) if stop is None else min(stop, len(column))
        # Of the byte order of this machine, which torch needs.
        array = np.empty((max(stop - start, 0), *column.shape[1:]), column.dtype.newbyteorder("="))
        if array.size:
            with self._reading(column):
                if column.offset is None:
                    self._h5py.Dataset(column.dataset).read_direct(array, np.s_[start:stop])
                else:
                    # For short episodes, the library takes longer than the disk.
                    self._bytes.seek(column.offset + start * column.row_bytes)
                    if self._bytes.readinto(array.data) != array.nbytes:
                        raise OSError("the file is cut short")
        return torch.from_numpy(array)

    def _reading(self, column: H5Column) -> contextlib.AbstractContextManager[None]:
        return self._damage(lambda: self._name(column.path))

    def read_blobs(self, column: H5Column, start: int, stop: int) -> list[bytes]:
        """Read some rows of a column of files, of one length, filled with zeros, or each of its own."""
        with self._reading(column):
            rows = self._h5py.Dataset(column.dataset)[start:stop]
            return [np.asarray(row, np.uint8).tobytes() for row in rows]

    def plain(self, group: str) -> dict[str, Any]:
        """Read all of a group as text, numbers, lists and dictionaries, which JSON can hold; empty without it."""
        left, seen = _MAX_PLAIN_BYTES, set[Any]()

        def convert(item: Any, path: tuple[str, ...]) -> Any:
            nonlocal left
            if isinstance(item, self._h5py.h5g.GroupID):
                self._check_new(item, path, seen)
                links = self._links(item).items()
                return {name: convert(self._item(item, (*path, name), kind), (*path, name)) for name, kind in links}
            self._check_inside(item, path)
            dataset = self._h5py.Dataset(item)
            left -= dataset.size * max(dataset.dtype.itemsize, 16)
            if left < 0:
                raise ValueError(f"{self._name(path)} is too large for metadata.")
            value = dataset[()]
            return _decoded(value.tolist() if hasattr(value, "tolist") else value)

        with self._damage(self._name((group,))):
            top = self.file.id
            return convert(self._item(top, (group,)), (group,)) if group in self.file else {}

    def same_rows(self, columns: Mapping[tuple[str, ...], Any], rows: int) -> None:
        """Raise ``ValueError`` if a column has another number of rows."""
        for path, column in columns.items():
            if len(column) != rows:
                raise ValueError(
                    f"{self._name(path)} has {len(column):,} rows, and others have {rows:,}. "
                    "Fix: look whether the file is complete."
                )

    def _name(self, path: tuple[str, ...]) -> str:
        file = f"the file {os.fspath(self.path)!r}"
        return f"The entry {as_key(path)!r} of {file}" if path else f"T{file[1:]}"

    def _damage(self, what: str | Callable[[], str]) -> contextlib.AbstractContextManager[None]:
        return damage(what, self._h5py, " Fix: delete the file, and make the dataset again.")


def cut_rows(columns: Mapping[Any, H5Column], rows: int) -> Iterator[tuple[int, int]]:
    """Cut rows into parts whose data has about ``CHUNK_BYTES``."""
    row = sum(column.row_bytes for column in columns.values())
    size = max(CHUNK_BYTES // max(row, 1), 1)
    for start in range(0, rows, size):
        yield start, min(start + size, rows)


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value
