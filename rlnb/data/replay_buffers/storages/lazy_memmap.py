"""Storage in memory-mapped files that several processes can share."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import MemoryMappedTensor, TensorDict

from rlnb._tensordict import file_name
from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.columns import AnyColumn, Column
from rlnb.data.replay_buffers.forms.base import Form
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.ring import Ring
from rlnb.data.replay_buffers.shared_ring import SharedRing, WriteLog, positions_of_rows, reserve_bytes
from rlnb.data.replay_buffers.storages.base import Rows
from rlnb.data.replay_buffers.storages.tensor import LazyTensorStorage
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple

# The files are sparse. Disk space is reserved ahead of the writes in steps of this many bytes a file: without reserved
# space, touching a page kills the process when the disk is full.
_STEP_BYTES = 1 << 26
RING_FILE = "ring.state"
LOG_FILE = "ring.log"
_OWN_FILES = (RING_FILE, LOG_FILE)
_META_FILE = "meta.json"  # in each folder of a TensorDict


class LazyMemmapStorage(LazyTensorStorage):
    """A storage in memory-mapped files, which are created when the first data is written.

    It can be larger than the memory of the machine. The files have the layout of ``TensorDict.memmap``:
    ``TensorDict.load_memmap(storage.scratch_dir)`` reads all places of the ring, filled or not. Disk space is taken as
    the storage fills.

    Once it contains data, the storage can be shared: a forked process, or one that receives the storage as an argument,
    reads and writes the same items, and all processes see one length and one cursor. The write of one call is complete
    or absent, even if its process is killed; for that, items that overwrite others are first written to a log, as soon
    as a second process is involved. Samples, and items that are read with a list or a mask, are copies of whole rows; a
    single item or a slice is a view of the files, which other processes may overwrite.

    Args:
        max_size: as for :class:`LazyTensorStorage`, like ``ndim``, ``compilable`` and ``shared_init``.
        scratch_dir: folder of the files. Default: a temporary folder, which is deleted with the storage; the attribute
            ``scratch_dir`` names it once data is written.
        device: device of the data; only ``"cpu"`` can be mapped.
        existsok: whether existing files in ``scratch_dir`` may be overwritten.

    Raises:
        ValueError: If ``max_size`` or ``ndim`` is not a positive integer, or ``device`` is not the CPU.
        NotImplementedError: If ``compilable`` or ``shared_init`` is True.

    Example:
        >>> from rlnb.data import ReplayBuffer
        >>> storage = LazyMemmapStorage(10)
        >>> rb = ReplayBuffer(storage=storage, batch_size=2)
        >>> rb.extend(TensorDict({"image": torch.zeros(3, 64, 64, dtype=torch.uint8)}, [3]))
        tensor([0, 1, 2])
        >>> TensorDict.load_memmap(storage.scratch_dir)["image"].shape
        torch.Size([10, 64, 64])
    """

    def __init__(
        self,
        max_size: int,
        *,
        scratch_dir: str | os.PathLike[str] | None = None,
        device: torch.device | str = "cpu",
        ndim: int = 1,
        existsok: bool = False,
        compilable: bool = False,
        shared_init: bool = False,
    ) -> None:
        super().__init__(max_size, device=device, ndim=ndim, compilable=compilable, shared_init=shared_init)
        if self.device is not None and self.device.type != "cpu":
            raise ValueError(
                f"Files are mapped into the memory of the CPU, and the device given is {self.device}. "
                'Fix: device="cpu", and move samples: buffer.sample().to("cuda").'
            )
        self.device = torch.device("cpu")
        self.existsok = existsok
        self.scratch_dir = None if scratch_dir is None else Path(scratch_dir)
        self._reserved_rows = 0
        self._paths: list[Path] = []

    def _allocate(self, form: Form, shape: tuple[int, ...]) -> list[AnyColumn]:
        objects = [leaf.key for leaf in form.leaves if leaf.dtype is None]
        if objects:
            raise TypeError(
                f"Memory-mapped files hold tensors, and these entries are non-tensor data: {errors.listed(objects)}. "
                "Fix: LazyTensorStorage or ListStorage, or data.exclude(...)."
            )
        keys = [tuple(map(str, as_tuple(leaf.key))) or ("data",) for leaf in form.leaves]  # as in load_memmap
        names = [tuple(map(file_name, key)) for key in keys]
        _check_names([leaf.key for leaf in form.leaves], names)
        self._delete_files()  # left by a first write that was interrupted
        folder = self.scratch_dir or Path(tempfile.gettempdir(), f"rlnb-{secrets.token_hex(8)}")
        # Registered before the folder exists, so that an interrupt in between leaves nothing behind.
        remove = weakref.finalize(self, _remove, folder, os.getpid()) if self.scratch_dir is None else None
        files = _files_in(folder, names)
        there = [path for path in (*files, *(folder / name for name in _OWN_FILES)) if path.exists()]
        if there and not self.existsok:
            raise FileExistsError(
                f"{there[0]} exists already, and would be overwritten. "
                "Fix: give another scratch_dir, or existsok=True to write over it."
            )
        source = TensorDict(batch_size=shape)
        for key, leaf in zip(keys, form.leaves, strict=True):
            source[key] = torch.empty((), dtype=leaf.dtype).expand(*shape, *leaf.shape)
        try:
            folder.mkdir(0o700 if remove else 0o777, parents=True, exist_ok=not remove)
            mapped = source.memmap_like(folder, existsok=True)
            columns: list[AnyColumn] = [Column(mapped[key].as_subclass(torch.Tensor), self.ndim) for key in keys]
            paths = [Path(mapped[key].filename) for key in keys]
            self.scratch_dir, self._paths, self._reserved_rows = folder, paths, 0
        except BaseException as error:
            _delete([path for path in files if path not in there])
            if remove:
                remove()
            if isinstance(error, (OSError, RuntimeError)):
                raise OSError(
                    f"The memory-mapped files could not be made in {folder}: {error}. Nothing was written. "
                    "Fix: a smaller max_size, or a scratch_dir that can hold them."
                ) from error
            raise
        return columns

    def _forget_memory(self) -> None:
        super()._forget_memory()
        self._delete_files()

    def _delete_files(self) -> None:
        if self._paths:
            assert self.scratch_dir is not None
            names = [path.relative_to(self.scratch_dir).with_suffix("").parts for path in self._paths]
            _delete([*_files_in(self.scratch_dir, names), *(self.scratch_dir / name for name in _OWN_FILES)])
            self._paths, self._reserved_rows = [], 0

    def _make_ring(self, rows: int) -> Ring:
        assert self.scratch_dir is not None
        return SharedRing(rows, self.scratch_dir / RING_FILE)

    def _reserve(self, start: int, count: int) -> None:
        needed = min(start + count, self.ring.size)
        if needed <= self._reserved_rows:
            return
        assert self.form is not None
        width = math.prod(self._others)
        sizes = [leaf.shape.numel() * leaf.dtype.itemsize * width for leaf in self.form.leaves if leaf.dtype]
        ahead = max(1, _STEP_BYTES // max(*sizes, 1))
        target = min(self.ring.size, max(needed, self._reserved_rows + ahead))
        assert self.scratch_dir is not None
        if shutil.disk_usage(self.scratch_dir).free < (target - self._reserved_rows) * sum(sizes):
            target = needed  # otherwise the first file could take the space that the others need
        try:
            self._take_room(target, sizes)
        except OSError:
            with contextlib.suppress(OSError):
                self._take_room(needed, sizes)
                return
            if not self._reserved_rows and not self.ring.written and self.ring.alone:
                self._forget_memory()  # smaller data may fit
            raise

    def _take_room(self, rows: int, sizes: Sequence[int]) -> None:
        """Reserve disk space for the first rows; ``sizes`` are the bytes of a row in each file."""
        for path, size in zip(self._paths, sizes, strict=True):
            reserve_bytes(path, self._reserved_rows * size, (rows - self._reserved_rows) * size)
        self._reserved_rows = rows

    # Overwriting items, so that no process ever finds half of a write -------------------------------------------------

    def _adopt(self, form: Form, columns: list[AnyColumn], others: tuple[int, ...]) -> None:
        assert isinstance(self.ring, SharedRing) and self.scratch_dir is not None
        mapped = [column for column in columns if isinstance(column, Column)]
        self.ring.log = WriteLog(self.scratch_dir / LOG_FILE, mapped, self.ndim)
        super()._adopt(form, columns, others)

    def _make_way(self, place: int, rows: Rows) -> None:
        ring = self.ring
        count = min(rows.count, ring.size)
        self._reserve(place, count)
        if not ring.alone and (place < ring.length or place + count > ring.size):
            leaves = rows.parts if rows.count == count else [leaf[rows.count - count :] for leaf in rows.parts]
            self._announce(positions_of_rows(place, count, ring.size, math.prod(self._others)), leaves, rows.count)

    def _write_over(self, place: Where, leaves: list[Any]) -> None:
        positions = place.positions(math.prod(self._others)).numpy()
        if len(positions) and not self.ring.alone:
            self._announce(positions, leaves, 0)
            super()._write_over(place, leaves)
            self.ring.advance(0)
        else:
            super()._write_over(place, leaves)

    def _announce(self, positions: np.ndarray, leaves: list[Any], count: int) -> None:
        """Write items to the log, from where they count as written, before they are copied to their places."""
        assert isinstance(self.ring, SharedRing) and self.ring.log is not None
        self.ring.log.record(positions, leaves)
        self.ring.announce(len(positions), count)

    @property
    def _storage(self) -> Any:
        """The whole memory as one piece of data whose tensors know their files; None before the first data."""
        if self.form is None or not isinstance(self.ring, SharedRing) or not self.ring.writable:
            return super()._storage
        shape = (self.ring.size, *self._others)
        leaves = [
            MemoryMappedTensor.from_filename(path, dtype=leaf.dtype, shape=torch.Size((*shape, *leaf.shape)))
            for path, leaf in zip(self._paths, self.form.leaves, strict=True)
        ]
        return self.form.build(leaves, torch.Size(shape))

    # Between processes ------------------------------------------------------------------------------------------------

    def _can_be_shared(self) -> bool:
        return self.form is not None

    def _not_shared(self) -> str:
        return (
            "Cannot share a LazyMemmapStorage between processes before its first data: its files are not there yet, "
            "and each process would make its own. Fix: write the first batch, buffer.extend(batch), before the process "
            "is started."
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_columns": [], "_rows": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.form is None:
            return
        # Map the existing files in another process. Where they cannot be written to, writes stay in this process.
        assert isinstance(self.ring, SharedRing)
        columns: list[AnyColumn] = []
        for path, leaf in zip(self._paths, self.form.leaves, strict=True):
            assert leaf.dtype is not None
            whole = (self.ring.size, *self._others, *leaf.shape)
            size = math.prod(whole)
            if self.ring.writable:
                tensor = torch.from_file(str(path), shared=True, size=size, dtype=leaf.dtype)
            else:
                memory = np.memmap(path, np.uint8, "c", shape=(size * leaf.dtype.itemsize,))
                tensor = torch.from_numpy(memory).view(leaf.dtype)
            columns.append(Column(tensor.reshape(whole), self.ndim))
        self._adopt(self.form, columns, self._others)

    def __deepcopy__(self, memo: dict[int, Any]) -> LazyMemmapStorage:
        """Copy the items, too, to files in a temporary folder; a storage that is pickled shares its files."""
        copied = copy.copy(self)
        memo[id(self)] = copied
        if self.form is not None:
            copied._forget_columns()
            copied.form, copied.scratch_dir, copied._paths, copied._reserved_rows = None, None, [], 0
            copied.ring = Ring(self._asked_size)
            with self.ring.reading:
                copied.load_state_dict(self.state_dict())
        return copied


def _check_names(keys: Sequence[NestedKey], names: Sequence[tuple[str, ...]]) -> None:
    """Refuse leaves that would share a file, or be a file where another leaf needs a folder."""
    leaves: dict[tuple[str, ...], str] = {}
    shown = [repr(as_key(as_tuple(key))) for key in keys]
    for key, name in zip(shown, names, strict=True):
        if name in leaves:
            raise ValueError(_same_file(leaves[name], key))
        leaves[name] = key
    files = {(*name[:-1], f"{name[-1]}.memmap"): key for name, key in leaves.items()}
    files |= {(name,): f"{name}, which the storage needs," for name in (_META_FILE, *_OWN_FILES)}
    for key, name in zip(shown, names, strict=True):
        for folder in (name[:depth] for depth in range(1, len(name))):
            if other := leaves.get(folder) or files.get(folder):
                raise ValueError(_same_file(key, other))


def _same_file(one: str, other: str) -> str:
    return (
        f"{one} and {other} would be the same file. Nothing was written. "
        "Fix: rename one of them, or use LazyTensorStorage, which needs no files."
    )


def _files_in(folder: Path, names: Sequence[tuple[str, ...]]) -> list[Path]:
    """Return the files of a TensorDict in a folder: the descriptions of its levels, and its leaves."""
    levels = sorted({name[:depth] for name in names for depth in range(len(name))}, key=len)
    described = [folder.joinpath(*level, _META_FILE) for level in levels]
    return [*described, *(folder.joinpath(*name[:-1], f"{name[-1]}.memmap") for name in names)]


def _delete(files: Sequence[Path]) -> None:
    """Delete files if they exist, and the folders of levels that are empty after that."""
    for path in files:
        with contextlib.suppress(OSError):  # the folder may be a file
            path.unlink()
    for level in sorted({path.parent for path in files}, key=lambda level: -len(level.parts))[:-1]:
        with contextlib.suppress(OSError):
            level.rmdir()


def _remove(folder: Path, owner: int) -> None:
    """Delete a temporary folder in the process that created it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
