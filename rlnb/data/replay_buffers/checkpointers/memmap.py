"""Layout of ``TensorDict.memmap``: a ``.memmap`` file for each tensor and a ``meta.json`` in each folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import file_name
from rlnb.data.replay_buffers.checkpointers.files import write_tensor

KeyPath = tuple[Any, ...]
_LONGEST_NAME = 200


class Entry(NamedTuple):
    """Tensor to be written: its shape, its dtype, and blocks ``[rows, ...]`` that make it up."""

    shape: Sequence[int]
    dtype: torch.dtype
    blocks: Iterable[torch.Tensor]


def write_entries(
    folder: Path, entries: Mapping[KeyPath, Entry], batch_size: Sequence[int] = (), like: TensorDictBase | None = None
) -> None:
    """Write tensors in the layout of ``TensorDict.memmap``, without a copy in memory.

    Args:
        folder: Folder to write to.
        entries: Tensors by their keys.
        batch_size: Batch size of the TensorDict, which all shapes start with.
        like: A TensorDict of these entries with the batch sizes of nested TensorDicts. It needs no memory.

    Raises:
        OSError: If there is no room.
    """
    keys = _file_keys(list(entries))
    if like is None or keys != list(entries):
        like = TensorDict(batch_size=torch.Size(batch_size))
        for key, entry in zip(keys, entries.values(), strict=True):
            like[key] = torch.empty((), dtype=entry.dtype).expand(*entry.shape)
    with system_errors():
        like.memmap_like(os.fspath(folder), existsok=True, robust_key=True)
    for path, file in files_of(folder, list(entries)).items():
        if torch.Size(entries[path].shape).numel():  # files that would be empty are not made
            write_tensor(file, entries[path].blocks)


def files_of(folder: Path, paths: Sequence[KeyPath]) -> dict[KeyPath, Path]:
    """Return the file of each entry that :func:`write_entries` wrote."""
    files = {}
    for path, key in zip(paths, _file_keys(paths), strict=True):
        *parents, name = map(file_name, key)
        files[path] = folder.joinpath(*parents, f"{name}.memmap")
    return files


def _file_keys(paths: Sequence[KeyPath]) -> list[tuple[str, ...]]:
    """Return the keys in the TensorDict that the files make up: numbers if a key cannot be the name of a file."""
    keys = [tuple(map(str, path)) or ("data",) for path in paths]
    if _are_distinct([tuple(map(file_name, key)) for key in keys]):
        return keys
    return [(f"{number}",) for number in range(len(paths))]


def _are_distinct(names: Sequence[tuple[str, ...]]) -> bool:
    """Whether names can be those of files and folders, none of which is another one or a file of a checkpoint."""
    folders = {name[:depth] for name in names for depth in range(1, len(name))}
    files = {(*name[:-1], f"{name[-1]}.memmap") for name in names}
    reserved = any(folder[-1].endswith((".json", ".memmap", ".rlnb")) for folder in folders)
    usable = all(_is_usable(part) for name in names for part in name)
    return usable and not reserved and len(files) == len(names) and not folders & set(names)


def _is_usable(name: str) -> bool:
    try:
        return 0 < len(name.encode()) <= _LONGEST_NAME
    except UnicodeEncodeError:
        return False


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
