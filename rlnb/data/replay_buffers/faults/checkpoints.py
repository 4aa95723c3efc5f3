"""What checkpoints say when they cannot be written or read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlnb.data.replay_buffers.errors import listed
from rlnb.data.ted.keys import NestedKey, as_key

_KEPT = "Nothing was changed."
_AGAIN = "Fix: load another copy, or save the buffer again with dumps."


def _name(path: Path) -> str:
    """A file within a checkpoint, without the folders that lead there."""
    return "/".join(path.parts[-2:])


# Writing --------------------------------------------------------------------------------------------------------------


def not_written(path: Path, cause: OSError) -> str:
    """Say that there is no room, or no way to write."""
    return (
        f"The checkpoint in {os.fspath(path)!r} could not be written: {cause.strerror}. A checkpoint that was there "
        "before is still there. Fix: free some space, or give a folder that can be written to."
    )


def not_confirmed(path: Path, cause: OSError) -> str:
    """Say that a checkpoint counts, and may not be on the disk."""
    return (
        f"The checkpoint in {os.fspath(path)!r} was written and is what loads reads, and the system could not confirm "
        f"that it is on the disk: {cause.strerror}. Fix: look after the disk, and save again with dumps."
    )


def list_storage() -> str:
    """Say why lists of objects are not saved."""
    return (
        "A ListStorage holds any Python objects, and a checkpoint holds tensors and plain values, so that nothing in "
        "it is executed when it is loaded. Fix: use LazyTensorStorage or LazyMemmapStorage for tensors, TensorDicts "
        "and PyTrees; or torch.save(buffer.state_dict(), file), and load only files that you trust."
    )


def not_plain(path: Sequence[Any], value: object) -> str:
    """Say which value cannot be written as JSON."""
    where = f" at {'.'.join(map(str, path))}" if path else ""
    return (
        f"A checkpoint holds tensors, text, numbers, True, False, None, and lists, tuples and dictionaries of these; "
        f"and there is a {type(value).__name__}{where}. Fix: convert it, or leave it out of the data."
    )


def other_storage(name: str, storage: object, needed: str) -> str:
    """Say that a checkpointer is for other storages."""
    return (
        f"A {name} saves {needed}, and the storage is a {type(storage).__name__}. "
        "Fix: storage.checkpointer = None gives the storage its own checkpointer back."
    )


def no_checkpointer(got: object) -> str:
    """Say that something is no checkpointer."""
    what = f"the class {got.__name__}" if isinstance(got, type) else f"a {type(got).__name__}"
    return (
        f"checkpointer must be a StorageCheckpointerBase or a function that makes one, and got {what}. "
        "Fix: checkpointer=TensorStorageCheckpointer()."
    )


def no_hooks(name: str) -> str:
    """Say that a checkpointer does without hooks."""
    return (
        f"A {name} decides by itself what is written, and calls no hooks. "
        "Fix: storage.checkpointer = TensorStorageCheckpointer() before the hook is registered."
    )


def not_ted(name: str, what: str) -> str:
    """Say that data is not in the TED format."""
    return (
        f"A {name} saves data in the TED format, which is a TensorDict with an entry 'next', and the storage holds "
        f"a {what}. Fix: storage.checkpointer = TensorStorageCheckpointer(), which saves any data."
    )


# Reading --------------------------------------------------------------------------------------------------------------


def no_checkpoint(path: Path, pointer: str) -> str:
    """Say that there is nothing to load."""
    if not path.is_dir():
        return f"There is no checkpoint in {os.fspath(path)!r}: there is no such folder. {_KEPT}"
    found = sorted(os.listdir(path))
    return (
        f"There is no checkpoint in {os.fspath(path)!r}: a checkpoint has a file {pointer!r}, and the folder has "
        f"{listed(found) or 'nothing'}. {_KEPT} Fix: give the folder that dumps was given."
    )


def missing(path: Path) -> str:
    """Say that a part of a checkpoint is not there."""
    return f"The checkpoint is not complete: {_name(path)!r} is missing. {_KEPT} {_AGAIN}"


def cut_short(path: Path, size: int, expected: int) -> str:
    """Say that a file has another length than when it was written."""
    return (
        f"The file {_name(path)!r} of the checkpoint has {size:,} bytes, and had {expected:,} when it was written. "
        f"It was cut short or altered. {_KEPT} {_AGAIN}"
    )


def damaged(path: Path) -> str:
    """Say that a file is not what was written."""
    return (
        f"The file {_name(path)!r} of the checkpoint was altered or damaged: its content does not fit its checksum. "
        f"{_KEPT} {_AGAIN}"
    )


def other_format(path: Path, found: object, expected: str) -> str:
    """Say that a file was written by something else."""
    return (
        f"The file {_name(path)!r} is of the format {str(found)[:60]!r}, and {expected!r} can be read. {_KEPT} "
        "Fix: load it with the version that wrote it."
    )


def unreadable(path: Path, cause: BaseException) -> str:
    """Say that a file has a right checksum and content that makes no sense."""
    reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    return f"{_name(path)!r} of the checkpoint does not read as one ({reason}). {_KEPT} {_AGAIN}"


def other_checkpointer(saved: object, own: str) -> str:
    """Say that another checkpointer wrote the checkpoint."""
    return (
        f"The checkpoint was saved by a {saved}, and the storage has a {own}. {_KEPT} "
        f"Fix: storage.checkpointer = {saved}()."
    )


def other_capacity(saved: Sequence[int], own: Sequence[int]) -> str:
    """Say that a storage has room for another number of elements."""
    return (
        f"The checkpoint is of a storage with room for {_times(saved)} elements, and this one has room for "
        f"{_times(own)}. {_KEPT} Fix: make the storage with max_size={_product(saved)} and ndim={len(saved)}."
    )


def _times(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _product(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def other_data(differ: Sequence[tuple[NestedKey, str, str]]) -> str:
    """Say in which entries a checkpoint differs from what a storage holds."""
    lines = "".join(f"\n  {key!r}: saved {saved}, stored here {own}" for key, saved, own in differ[:8])
    more = f"\n  and {len(differ) - 8} more" if len(differ) > 8 else ""
    return (
        f"The checkpoint holds other data than this storage.{lines}{more}\n{_KEPT} "
        "Fix: load it into a new buffer, whose storage learns from the checkpoint what the data is like."
    )


def no_structure() -> str:
    """Say that only a storage that knows its data can load a checkpoint."""
    return (
        "The containers that hold the data of this checkpoint cannot be made from a file, for example because one is a "
        f"namedtuple, and this storage has not seen any data yet. {_KEPT} "
        "Fix: write one batch of such data first, buffer.extend(batch), and then load."
    )


def other_component(what: str, saved: object, own: str) -> str:
    """Say that a buffer has another sampler or writer."""
    return (
        f"The checkpoint has the state of a {saved}, and the {what} is a {own}. {_KEPT} "
        f"Fix: make the buffer with {what}={saved}(...)."
    )


def left_empty(cause: BaseException) -> str:
    """Say that loading failed when everything had been checked."""
    return (
        f"The checkpoint was checked and could then not be read ({cause}). The storage had been written to, so it was "
        "emptied. Fix: load again, or look after the disk."
    )


def other_members(saved: int, own: int) -> str:
    """Say that an ensemble has another number of members."""
    return (
        f"The checkpoint is of {saved} storages, and the ensemble has {own}. {_KEPT} "
        "Fix: make the ensemble of as many members as were saved."
    )


def hooks_of_members() -> str:
    """Say that hooks are registered with the members of an ensemble."""
    return "An ensemble has no hooks of its own. Fix: ensemble[i].register_save_hook(hook) for each member."


def not_nested(path: Sequence[Any]) -> str:
    """Say that nested tensors hold no objects."""
    key = path[0] if len(path) == 1 else tuple(path)
    return (
        f"The entry {key!r} is non-tensor data, which a nested tensor does not hold. "
        "Fix: storage.checkpointer = FlatStorageCheckpointer(), which saves it too."
    )


def nothing_saved() -> str:
    """Say that there was nothing in a storage when it was saved."""
    return "The storage had not been written to when it was saved, so there are no trajectories to read."


def no_file_name(got: object) -> str:
    """Say that a file name is none."""
    return f"checkpoint_file is a name without a folder, such as 'checkpoint.h5', and got {got!r}."


def unknown_h5_kwargs(unknown: Sequence[str], legal: Sequence[str]) -> str:
    """Say which options of HDF5 there are."""
    return f"h5_kwargs can have {listed(legal)}, and got {listed(unknown)}. Fix: leave the others out."


def no_h5_name(path: Sequence[str], reason: str) -> str:
    """Say which key an HDF5 file cannot have."""
    key = as_key(path)
    return (
        f"The key {key!r} cannot be written to an HDF5 file, where {reason}. Fix: fill the buffer with data whose key "
        f"was renamed with data.rename_key_({key!r}, ...), or storage.checkpointer = TensorStorageCheckpointer(), "
        "which saves any key."
    )


def no_compression(compression: object, level: object) -> str:
    """Say how an HDF5 file can be compressed."""
    return (
        f"The compression is 'gzip', 'lzf', None or a level of gzip from 0 to 9, and the level a number from 0 to 9; "
        f'got {compression!r} and {level!r}. Fix: h5_kwargs={{"compression": "gzip", "compression_opts": 4}}.'
    )


def h5_damaged(path: Path, cause: object) -> str:
    """Say that the HDF5 file of a checkpoint is not what was written."""
    return f"The file {_name(path)!r} of the checkpoint is not what was written: {cause} {_KEPT} {_AGAIN}"
