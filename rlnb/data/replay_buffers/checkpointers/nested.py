"""NestedStorageCheckpointer: one row for each trajectory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from rlnb.data.replay_buffers.checkpointers.column import HEAD, columns_of
from rlnb.data.replay_buffers.checkpointers.files import Note, RawReader, check_size, read_document, read_raw, write_raw
from rlnb.data.replay_buffers.checkpointers.folder import loading
from rlnb.data.replay_buffers.checkpointers.head import Head, read_head
from rlnb.data.replay_buffers.checkpointers.leaf import check_tensor, file_name
from rlnb.data.replay_buffers.checkpointers.ted import Path as KeyPath
from rlnb.data.replay_buffers.checkpointers.ted import TEDCheckpointer, block_rows, put_at
from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.faults import checkpoints as faults
from rlnb.data.replay_buffers.forms import Leaf
from rlnb.data.ted.keys import as_key
from rlnb.data.ted.nested import nest, offsets_of
from rlnb.data.ted.timeline import Timeline, bits

_LENGTHS = "lengths.raw"


class NestedStorageCheckpointer(TEDCheckpointer):
    """A checkpointer that saves TED data trajectory by trajectory.

    Like :class:`FlatStorageCheckpointer` it saves each observation once, and one more at the end of each trajectory.
    The steps of a trajectory stand behind one another in the files, oldest first, also those of a trajectory that goes
    over the seam of the ring, or that is one of several envs. :meth:`read` gives the files as nested tensors.

    Args:
        done_keys: the end signals. Default: "done", "truncated", "terminated".
        reward_keys: the rewards. Default: "reward".

    Example:
        >>> import tempfile
        >>> from rlnb.data import LazyTensorStorage, ReplayBuffer
        >>> rb = ReplayBuffer(storage=LazyTensorStorage(100), checkpointer=NestedStorageCheckpointer())
        >>> done = torch.tensor([[False], [True], [False]])
        >>> below = TensorDict({"observation": torch.tensor([1.0, 2.0, 6.0]), "done": done}, [3])
        >>> rollout = TensorDict({"observation": torch.tensor([0.0, 1.0, 5.0]), "next": below}, [3])
        >>> index, folder = rb.extend(rollout), tempfile.mkdtemp()
        >>> rb.dumps(folder)
        >>> saved = NestedStorageCheckpointer.read(folder)
        >>> [row.tolist() for row in saved["observation"].unbind()]
        [[0.0, 1.0, 2.0], [5.0, 6.0]]
    """

    def _write(self, storage: Any, folder: Path) -> Any:
        twice, columns = self._twice(storage), columns_of(storage)
        for path, column in columns.items():
            if not isinstance(column, Column):
                raise TypeError(faults.not_nested(path))
        ring = storage.ring
        flags = self._breaks(storage, twice).view(ring.length, -1)
        places = _Places(flags, ring.cursor if ring.is_full else 0)
        entries: list[Any] = []
        for number, (path, column) in enumerate(columns.items()):
            if path[0] == "next" and path[1:] in twice:
                entries.append(None)
                continue
            after = columns["next", *path] if path in twice else None
            entries.append([after is not None, write_raw(folder / file_name(number, path), places.rows(column, after))])
        return {"lengths": write_raw(folder / _LENGTHS, [places.timeline.lengths()]), "entries": entries}

    def _check(self, head: Head, content: Any, folder: Path, whole: bool) -> None:
        lengths = _read_lengths(head, content, folder)
        for _, leaf, longer, note, file in _files(head, content, folder):
            assert leaf.dtype is not None
            rows = head.length * head.width + longer * len(lengths)
            check_tensor(file, note, rows * leaf.shape.numel() * leaf.dtype.itemsize, whole)

    def _read(self, storage: Any, head: Head, content: Any, folder: Path) -> None:
        columns, places = columns_of(storage), _places_of(head, _read_lengths(head, content, folder))
        for path, _, longer, note, file in _files(head, content, folder):
            places.read(columns[path], columns["next", *path] if longer else None, RawReader(file, note, head.checked))

    @staticmethod
    def read(path: str | os.PathLike[str]) -> TensorDict:
        """Read what was saved as nested tensors.

        Args:
            path: of the checkpoint of a buffer or a storage.

        Returns:
            A TensorDict of batch size ``[trajectories]``. A row of an observation has one element more than the
            trajectory has steps. What is only under "next" is there too, under "next".

        Raises:
            FileNotFoundError: if there is no checkpoint.
            ValueError: if it is damaged, or was saved by another checkpointer.
        """
        with loading(path) as top:
            folder = top / "storage" if (top / "storage").is_dir() else top
            document = read_document(folder / HEAD)
            if document["saved_by"] != NestedStorageCheckpointer.__name__:
                raise ValueError(faults.other_checkpointer(document["saved_by"], NestedStorageCheckpointer.__name__))
            head, content = read_head(document["head"]), document["content"]
            if head.leaves is None:
                raise ValueError(faults.nothing_saved())
            lengths = _read_lengths(head, content, folder)
            found = TensorDict({}, [len(lengths)])
            offsets = {longer: offsets_of(lengths + longer) for longer in (False, True)}
            for key, leaf, longer, note, file in _files(head, content, folder):
                values = torch.empty((int(offsets[longer][-1]), *leaf.shape), dtype=leaf.dtype)
                read_raw(file, note, [values])
                found[as_key(key)] = nest(values, offsets[longer])
            return found


def _files(head: Head, content: Any, folder: Path) -> Iterator[tuple[KeyPath, Leaf, bool, Note, Path]]:
    """The entries that have a file: path, leaf, whether it has an element more for each trajectory, note, file."""
    assert head.leaves is not None
    for number, ((path, leaf), entry) in enumerate(zip(head.leaves.items(), content["entries"], strict=True)):
        if entry is not None:
            longer, note = entry
            if leaf.dtype is None or (longer and head.leaves["next", *path][1:] != leaf[1:]):
                raise ValueError(f"the entry {path} is written in an unknown way")
            yield path, leaf, bool(longer), note, folder / file_name(number, path)
        elif path[0] != "next" or not content["entries"][list(head.leaves).index(path[1:])][0]:
            raise ValueError(f"the entry {path} is not written")


def _read_lengths(head: Head, content: Any, folder: Path) -> torch.Tensor:
    note = content["lengths"]
    check_size(folder / _LENGTHS, note)
    lengths = torch.empty(note["bytes"] // 8, dtype=torch.int64)
    read_raw(folder / _LENGTHS, note, [lengths])
    ends = lengths.cumsum(0)
    steps = torch.arange(1, head.width + 1) * head.length  # no trajectory goes from one env to the next
    whole = bool((lengths > 0).all()) and bool(torch.isin(steps, ends).all()) if head.length else not len(lengths)
    if not whole or (len(ends) and int(ends[-1]) != head.length * head.width):
        raise ValueError(f"trajectories of {head.length * head.width} steps have other lengths")
    return lengths


def _places_of(head: Head, lengths: torch.Tensor) -> _Places:
    """The places of the steps, from the lengths of the trajectories."""
    start = head.cursor if head.length == head.rows else 0
    flags = torch.zeros(head.width * head.length, dtype=torch.bool)
    flags[lengths.cumsum(0) - 1] = True
    flags = flags.view(head.width, head.length).roll(start, 1)
    return _Places(flags.t(), start)


class _Places:
    """Where the steps of a storage stand in a file that has one trajectory behind the other, env by env.

    Args:
        breaks: flags of shape ``[length, width]``, True for the last step of each trajectory.
        start: the oldest row.
    """

    def __init__(self, breaks: torch.Tensor, start: int) -> None:
        self.length, self.width = breaks.shape
        self.timeline = Timeline(breaks.t().reshape(-1), self.width, self.length, start)
        self._last = self.timeline.after_breaks()  # rows of the file that hold what comes behind a trajectory
        self._source = self.timeline.source().long()

    def _stored(self, steps: torch.Tensor) -> torch.Tensor:
        """Positions in the storage of steps that are counted env by env."""
        return steps % self.length * self.width + steps.div(self.length, rounding_mode="floor")

    def _single(self) -> torch.Tensor:
        """For each row of a file without further elements, the step."""
        keep = torch.ones(len(self._source), dtype=torch.bool)
        keep[self._last] = False
        return self._source[keep]

    def rows(self, column: Column, after: Column | None) -> Iterator[torch.Tensor]:
        """The rows of a file, a few at a time.

        Args:
            column: the memory of the entry.
            after: that of its namesake under "next", whose last element of each trajectory is among the rows.

        Yields:
            Copies.
        """
        size = block_rows(column)
        if after is None:
            for steps in self._single().split(size):
                yield column.take(self._stored(steps))
            return
        for start, steps, last in self._spans(size):
            positions = self._stored(steps)
            block = column.take(positions)
            if len(last):
                # As integers of the same width, for torch does not write unsigned ones by index.
                bits(block)[(last - start).to(block.device)] = bits(after.take(positions[last - start]))
            yield block

    def _spans(self, size: int) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """Spans of a file: where each starts, the steps of its rows, and the rows that come behind a trajectory."""
        for start in range(0, len(self._source), size):
            first, end = torch.searchsorted(self._last, torch.tensor([start, start + size])).tolist()
            yield start, self._source[start : start + size], self._last[first:end]

    def read(self, column: Column, after: Column | None, file: RawReader) -> None:
        """Read a file into the memory of an entry, and of its namesake under "next".

        Args:
            column: the memory of the entry.
            after: that of its namesake.
            file: the file.
        """
        size, shape, dtype = block_rows(column), column.flat.shape[1:], column.flat.dtype
        with file as reader:
            if after is None:
                for steps in self._single().split(size):
                    block = torch.empty((len(steps), *shape), dtype=dtype)
                    reader.into(block)
                    put_at(column, self._stored(steps), block)
            else:
                before: torch.Tensor | None = None  # the step of the row before this span
                for start, steps, last in self._spans(size):
                    block = torch.empty((len(steps), *shape), dtype=dtype)
                    reader.into(block)
                    is_root = torch.ones(len(steps), dtype=torch.bool)
                    is_root[last - start] = False
                    put_at(column, self._stored(steps[is_root]), block[is_root])
                    # A row is what the step of the row before it led to, unless that one ends a trajectory.
                    leads = torch.cat([is_root.new_tensor([before is not None]), is_root[:-1]])
                    origin = torch.cat([steps[:1] if before is None else before, steps[:-1]])
                    put_at(after, self._stored(origin[leads]), block[leads])
                    before = steps[-1:] if is_root[-1] else None
            reader.finish()
