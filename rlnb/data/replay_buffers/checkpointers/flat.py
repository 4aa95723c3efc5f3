"""FlatStorageCheckpointer: observations once, and the last one of each trajectory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from rlnb.data.replay_buffers.checkpointers.column import columns_of
from rlnb.data.replay_buffers.checkpointers.files import Note, RawReader, check_size, read_raw, write_raw
from rlnb.data.replay_buffers.checkpointers.head import Head
from rlnb.data.replay_buffers.checkpointers.leaf import check_leaf, check_tensor, file_name, read_leaf, write_leaf
from rlnb.data.replay_buffers.checkpointers.ted import (
    MOST_UNSET,
    TEDCheckpointer,
    block_rows,
    check_breaks,
    follow,
    in_blocks,
    is_unset,
    put_at,
)
from rlnb.data.replay_buffers.columns import Column

_PLAIN, _UNSET, _LAST = "as it is", "all False", "last ones"
_BREAKS = "breaks.raw"


class FlatStorageCheckpointer(TEDCheckpointer):
    """A checkpointer that saves each observation of TED data once, and the last one of each trajectory.

    Where observations are most of the data, that is half of it. Nothing is lost: what is loaded is equal bit by bit.
    It is written and read in small pieces, so that no second copy of the data is made.

    The data needs an end signal with one element for each step, ``("next", "done")``. The step that was written last
    counts as the end of its trajectory, as the writer's cursor says.

    The files hold the steps in the order of the storage: an entry of the root as it is, and of the entry under "next"
    what belongs to the steps that ``breaks.raw`` lists. End signals that are all False are not written.

    Args:
        done_keys: the end signals. Default: "done", "truncated", "terminated".
        reward_keys: the rewards. Default: "reward".

    Example:
        >>> import tempfile
        >>> from tensordict import TensorDict
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> def make():
        ...     return ReplayBuffer(storage=LazyTensorStorage(100), checkpointer=FlatStorageCheckpointer())
        >>> rb, other, folder = make(), make(), tempfile.mkdtemp()
        >>> done = torch.tensor([[False], [True], [False]])
        >>> below = TensorDict({"observation": torch.tensor([1.0, 2.0, 6.0]), "done": done}, [3])
        >>> rollout = TensorDict({"observation": torch.tensor([0.0, 1.0, 5.0]), "next": below}, [3])
        >>> index = rb.extend(rollout)
        >>> rb.dumps(folder)
        >>> other.loads(folder)
        >>> other[:]["next", "observation"]
        tensor([1., 2., 6.])
    """

    def _write(self, storage: Any, folder: Path) -> Any:
        twice = self._twice(storage)
        length = storage.ring.length
        breaks = self._breaks(storage, twice).flatten().nonzero().flatten()
        entries: list[Any] = []
        for number, (path, column) in enumerate(columns_of(storage).items()):
            file = folder / file_name(number, path)
            if path[0] == "next" and path[1:] in twice:
                entries.append([_LAST, write_raw(file, in_blocks(column, breaks))])
            elif is_unset(column, length):
                entries.append([_UNSET, None])
            else:
                entries.append([_PLAIN, write_leaf(column, length, path, file)])
        return {"breaks": write_raw(folder / _BREAKS, [breaks]), "entries": entries}

    def _check(self, head: Head, content: Any, folder: Path, whole: bool) -> None:
        assert head.leaves is not None
        breaks = _read_breaks(head, content["breaks"], folder)
        for number, ((path, leaf), (how, note)) in enumerate(zip(head.leaves.items(), content["entries"], strict=True)):
            file = folder / file_name(number, path)
            if how == _UNSET and leaf.dtype == torch.bool and leaf.shape.numel() <= MOST_UNSET:
                continue
            if how == _PLAIN:
                check_leaf(leaf, head, note, file, whole)
                continue
            root = head.leaves.get(path[1:])
            if how != _LAST or path[0] != "next" or leaf.dtype is None or root is None or root[1:] != leaf[1:]:
                raise ValueError(f"the entry {path} is written in an unknown way")
            check_tensor(file, note, len(breaks) * leaf.shape.numel() * leaf.dtype.itemsize, whole)

    def _read(self, storage: Any, head: Head, content: Any, folder: Path) -> None:
        assert head.leaves is not None
        columns, breaks = columns_of(storage), _read_breaks(head, content["breaks"], folder)
        after: list[tuple[tuple[Any, ...], Note, Path]] = []
        for number, (path, (how, note)) in enumerate(zip(head.leaves, content["entries"], strict=True)):
            file = folder / file_name(number, path)
            if how == _UNSET:
                columns[path].tensor[: head.length] = False
            elif how == _PLAIN:
                read_leaf(columns[path], head, note, file)
            else:
                after.append((path, note, file))
        for path, note, file in after:
            follow(columns[path[1:]], columns[path], head.length)
            _put_last(columns[path], breaks, RawReader(file, note, head.checked))


def _read_breaks(head: Head, note: Note, folder: Path) -> torch.Tensor:
    check_size(folder / _BREAKS, note)
    breaks = torch.empty(note["bytes"] // 8, dtype=torch.int64)
    read_raw(folder / _BREAKS, note, [breaks])
    check_breaks(breaks, head)
    return breaks


def _put_last(column: Column, breaks: torch.Tensor, file: RawReader) -> None:
    with file as reader:
        for part in breaks.split(block_rows(column)):
            block = torch.empty((len(part), *column.flat.shape[1:]), dtype=column.flat.dtype)
            reader.into(block)
            put_at(column, part, block)
        reader.finish()
