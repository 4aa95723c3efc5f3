"""Conversion of datasets into memory-mapped TED data: chunk after chunk, and published as a whole.

The memory that a conversion takes is that of one chunk, however large the dataset is. What is written goes to a folder
of its own, which takes its place with one rename when it is complete: nobody ever reads half of a dataset.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import torch
from filelock import FileLock
from tensordict import MemoryMappedTensor, TensorDict, TensorDictBase, is_non_tensor, pad

from rlnb.data.ted.ends import episode_end_flags
from rlnb.data.ted.keys import DONE, MASK, TERMINATED, TRUNCATED
from rlnb.data.ted.leaves import leaf_keys

#: Bytes of data that a reader should hold at a time.
CHUNK_BYTES = 1 << 22
_STATE = "unfinished.json"  # of a folder whose job goes on after an interrupt


def ted_steps(
    root: Mapping[str, Any],
    next: Mapping[str, Any],
    *,
    reward: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor | None = None,
) -> TensorDict:
    """Build TED data from the columns of a dataset.

    Args:
        root: what was known before each step: observations, actions, numbers of episodes. Each ``[T, ...]``.
        next: what was known after each step, ``[T, ...]``: the next observations.
        reward: ``[T]`` or ``[T, 1]``.
        terminated: ``[T]`` or ``[T, 1]``: the task ended with this step, and no reward can follow.
        truncated: ``[T]`` or ``[T, 1]``: the episode was cut off after this step. Default: never.

    Returns:
        Data of batch size ``[T]``, with "done" (terminated or truncated), "terminated" and "truncated" of shape
        ``[T, 1]`` under "next", and at the root, where they are False.

    Raises:
        ValueError: If there is not one flag for each step.

    Example:
        >>> observation = torch.arange(4.0)[:, None]
        >>> data = ted_steps(
        ...     {"observation": observation[:-1], "action": torch.zeros(3, 2)},
        ...     {"observation": observation[1:]},
        ...     reward=torch.ones(3),
        ...     terminated=torch.tensor([False, False, True]),
        ... )
        >>> data["next", "done"].flatten().tolist(), data["done"].any().item()
        ([False, False, True], False)
    """
    steps = len(reward)
    for name, flag in ((TERMINATED, terminated), (TRUNCATED, truncated)):
        if flag is not None and flag.shape not in ((steps,), (steps, 1)):
            raise ValueError(
                f"{name!r} has the shape {list(flag.shape)}, and the {steps} steps need one flag each: [{steps}] or "
                f"[{steps}, 1]."
            )
    ended = terminated.bool().reshape(steps, 1)
    cut = torch.zeros_like(ended) if truncated is None else truncated.bool().reshape(steps, 1)
    before = {name: torch.zeros_like(ended) for name in (DONE, TERMINATED, TRUNCATED)}
    after = {"reward": reward.reshape(steps, *(reward.shape[1:] or (1,))), DONE: ended | cut}
    after |= {TERMINATED: ended, TRUNCATED: cut}
    return TensorDict({**root, **before, "next": TensorDict({**next, **after}, [steps])}, [steps])


class _Leaf(NamedTuple):
    """The file of an entry, and what each chunk must have in common with the first one."""

    file: IO[bytes]
    path: Path
    dtype: torch.dtype
    shape: torch.Size  # behind the dimension along which the chunks follow each other


class MemmapWriter:
    """Writes data of a length that nobody knows yet into a folder that ``TensorDict.load_memmap`` reads.

    Args:
        folder: the folder, which must not exist or be empty.
        job: what the data is made from, as plain values, for work that goes on after an interrupt: the chunks that are
            complete are kept in the folder, and :attr:`rows` says how many rows they are. What was written for another
            job is deleted. Default: nothing is kept.

    Attributes:
        rows: number of rows that are written.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with MemmapWriter(folder) as writer:
        ...     for start in range(0, 6, 3):
        ...         writer.append(TensorDict({"step": torch.arange(start, start + 3)}, [3]))
        >>> TensorDict.load_memmap(folder)["step"].tolist()
        [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, folder: str | os.PathLike[str], job: Mapping[str, Any] | None = None) -> None:
        self.folder = Path(folder)
        self.job = job
        self.rows = 0
        self._files = contextlib.ExitStack()
        self._leaves: dict[Any, _Leaf] = {}
        self._batch = torch.Size([])

    def __enter__(self) -> Self:
        if self.job is not None:
            self._resume()
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._files.close()
        if kind is None:
            self._describe()
            (self.folder / _STATE).unlink(missing_ok=True)

    def append(self, data: TensorDictBase) -> None:
        """Write a chunk behind the others.

        Args:
            data: a chunk of batch size ``[n, *B]``, with the entries, shapes and dtypes of the first one.

        Raises:
            TypeError: If an entry is not a tensor.
            ValueError: If the chunk differs from the first one. Nothing of it is written.
            OSError: If the disk is full.
        """
        values = {key: data.get(key) for key in leaf_keys(data)}
        if not self._leaves:
            self._open(values, data.batch_size[1:])
        self._check(values, data.batch_size[1:])
        for key, leaf in self._leaves.items():
            value = values[key].detach()
            if value.numel():
                leaf.file.write(memoryview(value.contiguous().reshape(-1).view(torch.uint8).numpy()))
        rows = self.rows + len(data)
        if self.job is not None:
            self._note(rows)
        self.rows = rows

    def _note(self, rows: int) -> None:
        """Note how many rows are complete, in place of the last note."""
        for leaf in self._leaves.values():
            leaf.file.flush()
        leaves = [[key, str(leaf.dtype).removeprefix("torch."), list(leaf.shape)] for key, leaf in self._leaves.items()]
        state = {"job": self.job, "rows": rows, "batch": list(self._batch), "leaves": leaves}
        new = self.folder / f"{_STATE}.new"
        new.write_text(json.dumps(state), encoding="utf-8")
        os.replace(new, self.folder / _STATE)

    def _resume(self) -> None:
        """Go on after the last complete chunk of the same job, or delete what the folder holds."""
        try:
            state = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
            same = state["job"] == json.loads(json.dumps(self.job))
        except (OSError, ValueError, KeyError, TypeError):
            same = False
        if not same:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        self.rows, self._batch = state["rows"], torch.Size(state["batch"])
        for name, dtype, shape in state["leaves"]:
            key = name if isinstance(name, str) else tuple(name)
            row = torch.empty((1, *shape), dtype=getattr(torch, dtype))
            self._add(key, row.dtype, row.shape[1:], "r+b")
            file = self._leaves[key].file
            file.seek(self.rows * row.nbytes)
            file.truncate()  # what an interrupted chunk left

    def _open(self, values: Mapping[Any, torch.Tensor], batch: torch.Size) -> None:
        for key, value in values.items():
            if not isinstance(value, torch.Tensor):
                raise TypeError(
                    f"Memory-mapped files hold tensors, and {key!r} is {_described(value)}. "
                    f"Fix: write it as numbers, or leave it out with data.exclude({key!r})."
                )
        for key, value in values.items():
            self._add(key, value.dtype, value.shape[1:], "xb" if self.job is None else "wb")
        self._batch = batch

    def _add(self, key: Any, dtype: torch.dtype, shape: torch.Size, mode: str) -> None:
        names = (key,) if isinstance(key, str) else key
        path = self.folder.joinpath(*names[:-1], f"{names[-1]}.memmap")
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError(
                f"The entry {key!r} would be a file outside of {os.fspath(self.folder)!r}. Fix: rename it."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        self._leaves[key] = _Leaf(self._files.enter_context(path.open(mode)), path, dtype, shape)

    def _check(self, values: Mapping[Any, Any], batch: torch.Size) -> None:
        for key in self._leaves.keys() - values.keys() or values.keys() - self._leaves.keys():
            has, lacks = ("the first chunk", "this one") if key in self._leaves else ("this chunk", "the first one")
            raise ValueError(
                f"The chunk behind row {self.rows} has other entries: {has} has {key!r}, {lacks} does not. "
                "Fix: give all chunks of a dataset the same entries."
            )
        for key, leaf in self._leaves.items():
            value = values[key]
            if not isinstance(value, torch.Tensor) or value.dtype != leaf.dtype or value.shape[1:] != leaf.shape:
                raise ValueError(
                    f"{key!r} in the chunk behind row {self.rows} is {_described(value)}, and the rows before are "
                    f"{leaf.dtype} of shape {_rows_of(leaf.shape)}. Fix: convert it, so that all rows are alike."
                )
        if batch != self._batch:
            raise ValueError(
                f"The chunk behind row {self.rows} has batch size {_rows_of(batch)}, and the rows before "
                f"{_rows_of(self._batch)}. Fix: give all chunks of a dataset one batch size."
            )

    def _describe(self) -> None:
        """Write the descriptions of the folders, which ``memmap_`` does for tensors that are in their files already."""
        if not self.rows:
            raise ValueError(
                f"The dataset for {os.fspath(self.folder)!r} has no rows. Fix: look whether its files are empty."
            )
        batch = torch.Size([self.rows, *self._batch])
        data = TensorDict({}, batch)
        for key, leaf in self._leaves.items():
            shape = torch.Size([self.rows, *leaf.shape])
            data.set(key, MemoryMappedTensor.from_filename(leaf.path, leaf.dtype, shape))
        data.memmap_(self.folder)


def _rows_of(shape: torch.Size) -> str:
    return f"[{', '.join(['n', *map(str, shape)])}]"


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} of shape {_rows_of(value.shape[1:])}"
    return "text or other non-tensor data" if is_non_tensor(value) else f"a {type(value).__name__}"


def write_chunks(chunks: Iterable[TensorDictBase], folder: Path) -> None:
    """Write chunks of data to a folder, which is deleted if anything goes wrong.

    Raises:
        OSError: If the disk is full, or cannot be written to.
        ValueError: If the chunks differ, or there are none.
    """
    try:
        with MemmapWriter(folder) as writer:
            for chunk in chunks:
                writer.append(chunk)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            raise OSError(
                error.errno,
                f"The dataset could not be written to {os.fspath(folder)!r}: {error.strerror}. Files that were "
                "downloaded are kept. Fix: free some space, or give another root, and make the dataset again.",
            ) from error
        raise


def split_chunks(data: TensorDictBase) -> Iterator[TensorDict]:
    """Cut TED data ``[T]`` into its trajectories, each padded with zeros to the length of the longest.

    A trajectory ends where the library says that an episode ends, and at the last step.

    Yields:
        Data of batch size ``[1, longest]``, with a "mask" that is False for padding.
    """
    ends = episode_end_flags(data).clone()
    ends[-1] = True
    stops = (ends.nonzero().flatten() + 1).tolist()
    starts = [0, *stops[:-1]]
    longest = max(stop - start for start, stop in zip(starts, stops, strict=True))
    for start, stop in zip(starts, stops, strict=True):
        rows = data[start:stop]
        padded = pad(rows, [0, longest - len(rows)]).unsqueeze(0)
        yield padded.set(MASK, (torch.arange(longest) < len(rows))[None])


# A folder that takes its place as a whole -----------------------------------------------------------------------------


def beside(place: Path, what: str) -> Path:
    """Return the hidden folder or file beside a dataset that serves its making.

    Example:
        >>> beside(Path("cache", "door"), "new").as_posix()
        'cache/.door.new'
    """
    return place.with_name(f".{place.name}.{what}")


def holds_data(place: Path) -> bool:
    """Whether a folder holds a memory-mapped TensorDict; folders take their places as a whole."""
    return (place / "meta.json").exists()


def guard(place: Path, root: Path) -> None:
    """Refuse to make a dataset where its folder would replace something else, or be inside of another dataset.

    Raises:
        ValueError: If the folder exists and is not a dataset, or one between it and ``root`` is a dataset.
    """
    if place.exists() and not holds_data(place) and (not place.is_dir() or any(place.iterdir())):
        raise ValueError(
            f"{os.fspath(place)!r} is there already, and is not a dataset, which would replace it. "
            "Fix: give another folder, or delete it if you do not need it."
        )
    for parent in place.parents:
        if parent.is_relative_to(root) and holds_data(parent):
            raise ValueError(
                f"{os.fspath(place)!r} would be inside of the dataset at {os.fspath(parent)!r}. Fix: give another root."
            )


def publish(new: Path, place: Path) -> None:
    """Put a complete folder in its place. Whoever has mapped the files of an old one keeps reading those."""
    old = beside(place, "old")
    if place.exists():
        os.rename(place, old)
    os.rename(new, place)
    shutil.rmtree(old, ignore_errors=True)


def tidy(place: Path) -> None:
    """Delete what a process that was killed has left beside a dataset; an old one that lost its place has it again."""
    old = beside(place, "old")
    if old.exists() and not place.exists():
        os.rename(old, place)
    for left in (old, beside(place, "new")):
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Hold the lock of a dataset: while one process makes it, the others wait, and find it made."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(beside(place, "lock")):
        yield
