"""Checkpointer that saves TED data in an HDF5 file, compressed if asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict

from rlnb.data.replay_buffers.checkpointers import errors
from rlnb.data.replay_buffers.checkpointers.column import Head, as_objects
from rlnb.data.replay_buffers.checkpointers.flat import BREAKS, OBJECTS, FlatStorageCheckpointer
from rlnb.data.replay_buffers.checkpointers.memmap import Entry, KeyPath, system_errors
from rlnb.data.replay_buffers.columns import ObjectColumn
from rlnb.data.ted.hdf5 import no_h5_name, read_h5_into, write_h5
from rlnb.data.ted.keys import NestedKey, as_key

_LEVEL = 4
_OPTIONS = ("compression", "compression_opts")


class H5StorageCheckpointer(FlatStorageCheckpointer):
    """Checkpointer that saves TED data in an HDF5 file, each observation once.

    The file holds a group "data" with the entries in the order of the storage, time first, and a group "last" with
    what is under "next" of the steps that the dataset "breaks" lists; of all other steps that is what stands at the
    root of the step behind. :func:`~rlnb.data.read_h5` and any HDF5 viewer read it. It needs h5py.

    Args:
        checkpoint_file: Name of the file.
        done_keys: End signals. Default: "done", "truncated", "terminated".
        reward_keys: Rewards. Default: "reward".
        h5_kwargs: How to compress: "compression" is "gzip", "lzf" or a level of gzip from 0 to 9, and
            "compression_opts" the level of gzip. Default: no compression.

    Raises:
        ValueError: If the file name has a folder in it, or there is no such compression.
        TypeError: If ``h5_kwargs`` has other keys.

    Example:
        >>> H5StorageCheckpointer(h5_kwargs={"compression": "gzip", "compression_opts": 9})
        H5StorageCheckpointer(checkpoint_file='checkpoint.h5', compression='gzip', level=9)
    """

    _most_breaks = 1 / 4  # what follows more steps would be too much to copy

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
            raise ValueError(
                f"checkpoint_file must be a name without a folder, such as 'checkpoint.h5', got {checkpoint_file!r}."
            )
        options = dict(h5_kwargs or {})
        unknown = [name for name in options if name not in _OPTIONS]
        if unknown:
            raise TypeError(
                f"h5_kwargs can have {', '.join(map(repr, _OPTIONS))}, got {', '.join(map(repr, unknown))}. "
                "Fix: leave the others out."
            )
        compression, level = options.get("compression"), options.get("compression_opts", _LEVEL)
        if type(compression) is int:
            compression, level = "gzip", compression
        if compression not in (None, "gzip", "lzf") or type(level) is not int or not 0 <= level <= 9:
            raise ValueError(
                f"compression must be 'gzip', 'lzf', None or a level of gzip from 0 to 9, and the level a number from "
                f"0 to 9; got {compression!r} and {level!r}. "
                'Fix: h5_kwargs={"compression": "gzip", "compression_opts": 4}.'
            )
        self.checkpoint_file, self._compression, self._level = checkpoint_file, compression, level

    def __repr__(self) -> str:
        level = f", level={self._level}" if self._compression == "gzip" else ""
        name = type(self).__name__
        return f"{name}(checkpoint_file={self.checkpoint_file!r}, compression={self._compression!r}{level})"

    def _write_entries(
        self, folder: Path, entries: dict[KeyPath, Entry], objects: dict[KeyPath, ObjectColumn], length: int
    ) -> None:
        data: dict[str, Any] = {"data": {}, "last": {}}
        values: dict[KeyPath, Any] = {}
        for path, entry in entries.items():
            first, *more = entry.blocks
            values[path] = torch.cat([first, *more]) if more else first
        for path, column in objects.items():
            values["data", *path] = NonTensorData(column.array[:length].reshape(-1).tolist())
        for path, value in values.items():
            for reason in filter(None, map(no_h5_name, path[1:])):
                key = as_key(path[1:])
                raise ValueError(
                    f"The key {key!r} cannot be written to an HDF5 file, where {reason}. Fix: fill the buffer with "
                    f"data whose key was renamed with data.rename_key_({key!r}, ...), or "
                    "storage.checkpointer = TensorStorageCheckpointer(), which saves any key."
                )
            group = data
            for name in path[:-1]:
                group = group.setdefault(name, {})
            group[path[-1]] = value
        with system_errors():
            write_h5(TensorDict(data, []), folder / self.checkpoint_file, self._compression, self._level)

    def _check_entries(
        self, head: Head, kinds: dict[KeyPath, str], shapes: dict[KeyPath, Any], folder: Path, rehearse: bool
    ) -> tuple[torch.Tensor, dict[KeyPath, Any], Any]:
        file = folder / self.checkpoint_file
        into = {
            path: torch.empty(shape, dtype=dtype, device="cpu" if path == BREAKS else "meta")
            for path, (shape, dtype) in shapes.items()
        }
        try:
            found = read_h5_into(file, into, checksum=False, rehearse=rehearse)
        except FileNotFoundError:
            raise ValueError(errors.missing(file)) from None
        except ValueError as error:
            raise ValueError(
                f"The file {file.name!r} of the checkpoint is not what was written: {error} "
                f"{errors.KEPT} {errors.AGAIN}"
            ) from error
        for path in into:
            if found.get(path, None) is None:
                raise ValueError(f"the entry {path} is missing")
        objects = {}
        for path in (path for path, kind in kinds.items() if kind == OBJECTS):
            values = found.get(("data", *path)).data
            if type(values) is not list or len(values) != head.length * head.width:
                raise ValueError(f"the entry {path} does not have one object for each step")
            objects[path] = as_objects(values)
        return into[BREAKS], objects, file

    def _read_entries(
        self, whole: dict[KeyPath, torch.Tensor], shapes: dict[KeyPath, Any], source: Any
    ) -> Callable[[KeyPath, int, torch.Tensor], None]:
        into = {
            path: whole[path[1:]] if path[0] == "data" else torch.empty(shape, dtype=dtype)
            for path, (shape, dtype) in shapes.items()
        }
        read_h5_into(source, into, checksum=False)

        def copy_last(path: KeyPath, start: int, out: torch.Tensor) -> None:
            out.copy_(into["last", *path][start : start + len(out)])

        return copy_last
