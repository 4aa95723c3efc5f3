"""H5StorageCheckpointer: TED data in an HDF5 file, compressed if asked."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict

from rlnb.data.replay_buffers.checkpointers.column import columns_of
from rlnb.data.replay_buffers.checkpointers.head import Head
from rlnb.data.replay_buffers.checkpointers.ted import (
    MOST_UNSET,
    TEDCheckpointer,
    check_breaks,
    follow,
    is_unset,
    put_at,
)
from rlnb.data.replay_buffers.checkpointers.ted import Path as KeyPath
from rlnb.data.replay_buffers.columns import ObjectColumn
from rlnb.data.replay_buffers.faults import checkpoints as faults
from rlnb.data.ted.hdf5 import no_h5_name, read_h5_into, write_h5
from rlnb.data.ted.keys import NestedKey

# From this share of all steps on, what follows them is written whole: to pick them would copy too much.
_MANY = 1 / 4
_LEVEL = 4
_OPTIONS = ("compression", "compression_opts")
_KINDS = _DATA, _LAST, _UNSET, _OBJECTS = "as it is", "last ones", "all False", "objects"


class H5StorageCheckpointer(TEDCheckpointer):
    """A checkpointer that saves TED data in an HDF5 file, each observation once.

    The file holds a group "data" with the entries in the order of the storage, time first, and a group "last" with
    what is under "next" of the steps that the dataset "breaks" lists; of all other steps that is what stands at the
    root of the step behind. :func:`~rlnb.data.read_h5` and any HDF5 viewer read it. It needs h5py.

    Args:
        checkpoint_file: the name of the file.
        done_keys: the end signals. Default: "done", "truncated", "terminated".
        reward_keys: the rewards. Default: "reward".
        h5_kwargs: how to compress: "compression" is "gzip", "lzf" or a level of gzip from 0 to 9, and
            "compression_opts" the level of gzip. Default: not at all.

    Raises:
        ValueError: if the file name has a folder in it, or there is no such compression.
        TypeError: if ``h5_kwargs`` has something else.

    Example:
        >>> H5StorageCheckpointer(h5_kwargs={"compression": "gzip", "compression_opts": 9})
        H5StorageCheckpointer(checkpoint_file='checkpoint.h5', compression='gzip', level=9)
    """

    def __init__(
        self,
        *,
        checkpoint_file: str = "checkpoint.h5",
        done_keys: Sequence[NestedKey] | None = None,
        reward_keys: Sequence[NestedKey] | None = None,
        h5_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(done_keys, reward_keys)
        if not isinstance(checkpoint_file, str) or Path(checkpoint_file).name != checkpoint_file:
            raise ValueError(faults.no_file_name(checkpoint_file))
        options = dict(h5_kwargs or {})
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise TypeError(faults.unknown_h5_kwargs(unknown, _OPTIONS))
        compression, level = options.get("compression"), options.get("compression_opts", _LEVEL)
        if type(compression) is int:
            compression, level = "gzip", compression
        if compression not in (None, "gzip", "lzf") or type(level) is not int or not 0 <= level <= 9:
            raise ValueError(faults.no_compression(compression, level))
        self.checkpoint_file, self._compression, self._level = checkpoint_file, compression, level

    def __repr__(self) -> str:
        level = f", level={self._level}" if self._compression == "gzip" else ""
        return f"{type(self).__name__}({self.checkpoint_file=}, compression={self._compression!r}{level})".replace(
            "self.", ""
        )

    def _write(self, storage: Any, folder: Path) -> Any:
        twice, length = self._twice(storage), storage.ring.length
        _check_names(columns_of(storage))
        flags = self._breaks(storage, twice)
        breaks = flags.flatten().nonzero().flatten()
        entries: dict[str, Any] = {"breaks": breaks, "data": {}, "last": {}}
        kinds: list[str] = []
        for path, column in columns_of(storage).items():
            kind, value = _DATA, None
            if isinstance(column, ObjectColumn):
                kind, value = _OBJECTS, NonTensorData(column.array[:length].reshape(-1).tolist())
            elif path[0] == "next" and path[1:] in twice and len(breaks) <= _MANY * flags.numel():
                kind, value = _LAST, column.take(breaks)
            elif is_unset(column, length):
                kind = _UNSET
            else:
                value = column.rows(slice(length))
            kinds.append(kind)
            if value is not None:
                _put(entries["last" if kind == _LAST else "data"], path, value)
        with _errors_of_the_system():
            write_h5(TensorDict(entries, []), folder / self.checkpoint_file, self._compression, self._level)
        return {"breaks": len(breaks), "kinds": kinds}

    def _into(self, head: Head, content: Any, columns: Mapping[KeyPath, Any] | None) -> dict[KeyPath, torch.Tensor]:
        """The memory for the entries of the file; of none but the breaks if there are no columns yet."""
        assert head.leaves is not None
        device, breaks, rows = "meta" if columns is None else "cpu", content["breaks"], (head.length, *head.others)
        if type(breaks) is not int or not 0 <= breaks <= head.length * head.width:
            raise ValueError("the number of breaks does not fit the number of steps")
        into = {("breaks",): torch.empty(breaks, dtype=torch.int64)}
        for (path, leaf), kind in zip(head.leaves.items(), content["kinds"], strict=True):
            if kind not in _KINDS or (kind == _OBJECTS) != (leaf.dtype is None):
                raise ValueError(f"the entry {path} is written in an unknown way")
            if kind == _UNSET and (leaf.dtype != torch.bool or leaf.shape.numel() > MOST_UNSET):
                raise ValueError(f"the entry {path} has no flags")
            if kind == _LAST and (path[0] != "next" or head.leaves[path[1:]][1:] != leaf[1:]):
                raise ValueError(f"the entry {path} is like none of the root")
            if kind == _LAST:
                into["last", *path] = torch.empty((breaks, *leaf.shape), dtype=leaf.dtype, device=device)
            elif kind == _DATA and columns is None:
                into["data", *path] = torch.empty((*rows, *leaf.shape), dtype=leaf.dtype, device=device)
            elif kind == _DATA and columns is not None:
                into["data", *path] = columns[path].rows(slice(head.length))
        return into

    def _objects(self, head: Head, content: Any, found: TensorDict) -> dict[KeyPath, list[Any]]:
        assert head.leaves is not None
        objects: dict[KeyPath, list[Any]] = {}
        for path, kind in zip(head.leaves, content["kinds"], strict=True):
            if kind == _OBJECTS:
                objects[path] = found.get(("data", *path)).data
                if type(objects[path]) is not list or len(objects[path]) != head.length * head.width:
                    raise ValueError(f"the entry {path} has not one object for each element")
        return objects

    def _check(self, head: Head, content: Any, folder: Path, whole: bool) -> None:
        into = self._into(head, content, None)
        try:
            found = read_h5_into(folder / self.checkpoint_file, into, rehearse=whole)
        except FileNotFoundError:
            raise ValueError(faults.missing(folder / self.checkpoint_file)) from None
        except ValueError as error:
            raise ValueError(faults.h5_damaged(folder / self.checkpoint_file, error)) from error
        for path in into:
            if found.get(path, None) is None:
                raise ValueError(f"the entry {path} is missing")
        check_breaks(into["breaks",], head)
        self._objects(head, content, found)

    def _read(self, storage: Any, head: Head, content: Any, folder: Path) -> None:
        assert head.leaves is not None
        columns = columns_of(storage)
        into = self._into(head, content, columns)
        found = read_h5_into(folder / self.checkpoint_file, into, checksum=False)
        for path, objects in self._objects(head, content, found).items():
            flat = columns[path].array[: head.length].reshape(-1)
            for i, value in enumerate(objects):
                flat[i] = value
        for path, kind in zip(head.leaves, content["kinds"], strict=True):
            if kind == _UNSET:
                columns[path].tensor[: head.length] = False
            elif kind == _LAST:
                follow(columns[path[1:]], columns[path], head.length)
                put_at(columns[path], into["breaks",], into["last", *path])


def _put(entries: dict[str, Any], path: KeyPath, value: Any) -> None:
    for name in path[:-1]:
        entries = entries.setdefault(name, {})
    entries[path[-1]] = value


def _check_names(paths: Iterable[KeyPath]) -> None:
    """Refuse keys that HDF5 takes for others; the file holds them in a group, of which users know nothing."""
    for path in paths:
        for name in path:
            if reason := no_h5_name(name):
                raise ValueError(faults.no_h5_name(path, reason))


@contextlib.contextmanager
def _errors_of_the_system() -> Iterator[None]:
    """Raise what the system said of a write as the OSError that it is, which h5py does for some calls only."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        number = re.search(r"errno = (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
