"""Checkpointers of TED data that save each observation once: in files, to be read as nested tensors, and in HDF5."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.replay_buffers.checkpointers import files
from rlnb.data.replay_buffers.checkpointers.column import (
    HEAD,
    Columns,
    Entries,
    Fill,
    Head,
    KeyPath,
    Read,
    Shapes,
    TensorStorageCheckpointer,
)
from rlnb.data.replay_buffers.checkpointers.folder import loading
from rlnb.data.replay_buffers.columns import Column, ObjectColumn
from rlnb.data.replay_buffers.forms.tensordict_form import TensorDictForm
from rlnb.data.ted.columns import build
from rlnb.data.ted.ends import end_flags
from rlnb.data.ted.flat import write_rows
from rlnb.data.ted.hdf5 import h5_filters, no_h5_name, open_h5, write_h5
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_keys
from rlnb.data.ted.layout import plan
from rlnb.data.ted.nested import nest, offsets_of
from rlnb.data.ted.timeline import Timeline, find_breaks


class FlatStorageCheckpointer(TensorStorageCheckpointer):
    """Checkpointer that saves each observation of TED data once, and the last one of each trajectory.

    Where observations are most of the data, that is half of it; what is loaded is equal bit by bit. No second copy of
    the data is made in memory.

    The data needs an end signal with one element for each step, ``("next", "done")``. The step that was written last
    counts as the end of its trajectory.

    The files are those of a TensorDict, see ``TensorDict.load_memmap``: below "data" the entries in the order of the
    storage, and below "last" what is under "next" of the steps that "breaks" lists, at which a trajectory ends or the
    next step starts from somewhere else. Of all other steps that is what stands at the root of the step behind. End
    signals that are all False are not written.

    Args:
        done_keys: End signals. The first one says, below "next", where trajectories end. Default: "done", "truncated",
            "terminated".
        reward_keys: Rewards. Default: "reward".

    Example:
        >>> import tempfile
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> from rlnb.envs import GymEnv
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(100), checkpointer=FlatStorageCheckpointer())
        >>> index, folder = rb.extend(GymEnv("CartPole-v1").rollout(5)), tempfile.mkdtemp()
        >>> rb.dumps(folder)
        >>> saved = TensorDict.load_memmap(f"{folder}/storage")
        >>> len(saved["data", "observation"]), len(saved["last", "next", "observation"])
        (5, 1)
    """

    _no_hooks = (
        "A {} decides by itself what is written, and calls no hooks. "
        "Fix: storage.checkpointer = TensorStorageCheckpointer() before the hook is registered."
    )

    def __init__(
        self, done_keys: Sequence[NestedKey] | None = None, reward_keys: Sequence[NestedKey] | None = None
    ) -> None:
        super().__init__()
        self.done_keys = tuple(as_keys(list(END_KEYS if done_keys is None else done_keys)))
        self.reward_keys = tuple(as_keys(["reward"] if reward_keys is None else list(reward_keys)))

    def _breaks(self, storage: Any, columns: Columns) -> tuple[list[KeyPath], torch.Tensor | None]:
        is_tensordict = isinstance(storage.form, TensorDictForm)
        if not is_tensordict or not any(path[0] == "next" and len(path) > 1 for path in columns):
            what = "TensorDict without one" if is_tensordict else storage.form._name()
            raise ValueError(
                f"A {type(self).__name__} saves data in the TED format, which is a TensorDict with an entry 'next', "
                f"and the storage holds a {what}. "
                "Fix: storage.checkpointer = TensorStorageCheckpointer(), which saves any data."
            )
        tensors = {path: column.tensor for path, column in columns.items()}
        shared = plan(tensors, (), (), {*self.done_keys, *self.reward_keys}).shared
        ring, steps, width = storage.ring, len(storage), storage.shape[1:].numel()
        flags = end_flags(storage._view(slice(ring.length)), ("next", *self.done_keys[0])).cpu().flatten().clone()
        newest = ((ring.cursor if ring.is_full else ring.length) - 1) % max(ring.length, 1)
        flags[newest * width :][:width] = True
        pairs = ((columns[path].flat[:steps], columns["next", *path].flat[:steps]) for path in shared)
        first = torch.arange(width)
        breaks = find_breaks(flags, pairs, first, first + steps - width, width)
        return [("next", *path) for path in shared], breaks.nonzero().flatten()


class NestedStorageCheckpointer(FlatStorageCheckpointer):
    """Checkpointer that saves TED data so that it can be read trajectory by trajectory.

    It writes the files of a :class:`FlatStorageCheckpointer`. :meth:`read` gives nested tensors: the steps of a
    trajectory stand behind one another, oldest first, also those of a trajectory that goes over the seam of the ring,
    or that is one of several envs.

    Args:
        done_keys: As for :class:`FlatStorageCheckpointer`, like ``reward_keys``.

    Example:
        >>> import tempfile
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> from rlnb.envs import GymEnv
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(100), checkpointer=NestedStorageCheckpointer())
        >>> index, folder = rb.extend(GymEnv("CartPole-v1").rollout(5)), tempfile.mkdtemp()
        >>> rb.dumps(folder)
        >>> [len(row) for row in NestedStorageCheckpointer.read(folder)["observation"].unbind()]
        [6]
    """

    def _breaks(self, storage: Any, columns: Columns) -> tuple[list[KeyPath], torch.Tensor | None]:
        for path, column in columns.items():
            if isinstance(column, ObjectColumn):
                raise TypeError(
                    f"The entry {as_key(path)!r} is non-tensor data, which a nested tensor does not hold. "
                    "Fix: storage.checkpointer = FlatStorageCheckpointer(), which saves it too."
                )
        return super()._breaks(storage, columns)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TensorDict:
        """Read the checkpoint of a buffer or a storage as nested tensors.

        Returns:
            A TensorDict ``[trajectories]``. A row of an observation has one element more than the trajectory has steps.
            What is only under "next" is there too, under "next".

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If it is damaged, or was saved by another checkpointer.
        """
        with loading(path) as top, files.reading(top / "storage" / HEAD) as document:
            head = Head.read(document, cls.__name__)
            if not head.leaves:
                raise ValueError(
                    "The storage had not been written to when it was saved. Fix: fill the buffer, and save it."
                )
            return _nested(head, *cls()._check(head, top / "storage", rehearse=False))


def _nested(head: Head, breaks: torch.Tensor, fill: Fill) -> TensorDict:
    """Read the items as nested tensors, entry by entry."""
    length, width, dims = head.length, head.width, len(head.others)
    flags, shift = torch.zeros(length, width, dtype=torch.bool), head.cursor if length == head.rows else 0
    flags.view(-1)[breaks] = True
    if length and not flags[shift - 1].all():
        raise ValueError("the newest step of an env does not end a trajectory")
    timeline = Timeline(flags.t().flatten(), width, length, shift)
    source, lengths = timeline.source(), timeline.lengths()
    offsets = {longer: offsets_of(lengths + longer) for longer in (False, True)}
    found = TensorDict({}, [len(lengths)])
    for path, (_, shape, dtype) in head.leaves.items():
        if path not in head.last:
            paths = [path, *(each for each in head.last if each[1:] == path)]
            columns = {
                each: Column(torch.empty((length, *head.others, *shape), dtype=dtype), dims + 1) for each in paths
            }
            fill(columns)
            # The steps of an env stand behind one another.
            column, *after = (each.tensor.movedim(0, dims).flatten(0, dims) for each in columns.values())
            rows = column.new_empty((timeline.size if after else length * width, *shape))
            write_rows(rows, column, after[0] if after else None, timeline, source)
            found[as_key(path)] = nest(rows, offsets[bool(after)])
    return found


class H5StorageCheckpointer(FlatStorageCheckpointer):
    """Checkpointer that saves TED data in an HDF5 file, each observation once.

    The file holds what a :class:`FlatStorageCheckpointer` writes: the groups "data" and "last", and the dataset
    "breaks". :func:`~rlnb.data.read_h5` and any HDF5 viewer read it. Non-tensor data is beside it, as JSON. It needs
    h5py.

    Args:
        checkpoint_file: Name of the file.
        done_keys: As for :class:`FlatStorageCheckpointer`, like ``reward_keys``.
        h5_kwargs: How to compress: "compression" is "gzip", "lzf" or a level of gzip from 0 to 9, and
            "compression_opts" the level of gzip. Default: no compression.

    Raises:
        ValueError: If the file name has a folder in it, or there is no such compression.
        TypeError: If ``h5_kwargs`` has other keys.

    Example:
        >>> H5StorageCheckpointer(h5_kwargs={"compression": "gzip", "compression_opts": 9})
        H5StorageCheckpointer(checkpoint_file='checkpoint.h5', h5_kwargs={'compression': 'gzip', 'compression_opts': 9})
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
            raise ValueError(
                f"checkpoint_file must be a name without a folder, such as 'checkpoint.h5', got {checkpoint_file!r}."
            )
        options = dict(h5_kwargs or {})
        self._compression = options.pop("compression", None), options.pop("compression_opts", 4)
        if options:
            raise TypeError(
                f"h5_kwargs can have 'compression', 'compression_opts', got {', '.join(map(repr, options))}. "
                "Fix: leave the others out."
            )
        self.checkpoint_file, self._filters = checkpoint_file, h5_filters(*self._compression)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(checkpoint_file={self.checkpoint_file!r}, h5_kwargs={self._filters})"

    def _write_tensors(self, folder: Path, entries: Entries, like: TensorDictBase) -> None:
        tensors: dict[KeyPath, Any] = {}
        for path, (rows, index) in entries.items():
            tensors[path] = rows if index is None else rows.index_select(0, index.to(rows.device))
            for reason in filter(None, map(no_h5_name, path[1:])):
                key = as_key(path[1:])
                raise ValueError(
                    f"The key {key!r} cannot be written to an HDF5 file, where {reason}. Fix: fill the buffer with "
                    f"data whose key was renamed with data.rename_key_({key!r}, ...), or "
                    "storage.checkpointer = TensorStorageCheckpointer(), which saves any key."
                )
        write_h5(build(tensors, []), folder / self.checkpoint_file, *self._compression)

    def _open_tensors(self, folder: Path, shapes: Shapes, rehearse: bool) -> Read:
        file = folder / self.checkpoint_file
        if not file.is_file():
            raise files.missing(file)
        try:
            with open_h5(file) as h5:
                for path, (shape, dtype) in shapes.items():
                    h5.check(path, shape, dtype, rehearse)
        except ValueError as error:
            raise files.damaged(file, f"is not what was written: {error}") from error

        def read(path: KeyPath, into: torch.Tensor, start: int = 0) -> None:
            with open_h5(file) as h5:
                h5.read_into(path, into, start)

        return read
