"""The folder of a checkpoint: a new one is complete or not there, and until then the one before it counts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rlnb.data.replay_buffers.checkpointers.files import read_document, sync, write_document
from rlnb.data.replay_buffers.faults import checkpoints as faults
from rlnb.data.replay_buffers.file_lock import FileLock

POINTER = "checkpoint.json"  # names the folder that counts
_PARTIAL, _LOCK = ".checkpoint.json.partial", ".lock"
_NAME = re.compile(r"rlnb-checkpoint-(\d{1,15})")
_THREADS = 4  # the disk takes several files at once


@contextlib.contextmanager
def saving(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a checkpoint that replaces the one before as a whole.

    Everything is written into a new folder below ``path``. Once all of it is on the disk, one file is exchanged that
    names the folder which counts; that is a single operation of the file system. Whatever happens before leaves the
    checkpoint that was there, whatever happens after it only leaves files that the next checkpoint deletes.

    Args:
        path: of the checkpoint; made if it is not there.

    Yields:
        The folder to write to.

    Raises:
        OSError: if it cannot be written. What was there before is kept.
    """
    top = Path(path)
    new = not top.exists()
    try:
        top.mkdir(parents=True, exist_ok=True)
        (top / _LOCK).touch()
        with _held(top, shared=False):
            yield from _save(top)
    except BaseException as error:
        if new:
            _forget(top)
        if not isinstance(error, OSError) or error.errno is None:
            raise
        raise type(error)(error.errno, faults.not_written(top, error)) from error


def _forget(top: Path) -> None:
    """Delete the folder of a first checkpoint that came to nothing."""
    with contextlib.suppress(OSError):
        (top / _LOCK).unlink()
        top.rmdir()


def _save(top: Path) -> Iterator[Path]:
    numbers = [0, *(int(match[1]) for match in map(_NAME.fullmatch, os.listdir(top)) if match)]
    made = top / f"rlnb-checkpoint-{max(numbers) + 1}"
    partial = top / _PARTIAL
    try:
        made.mkdir()
        yield made
        _sync_all(made)
        write_document(partial, {"folder": made.name})
        sync(partial)
        sync(top)
        os.replace(partial, top / POINTER)
    except BaseException:
        partial.unlink(missing_ok=True)
        shutil.rmtree(made, ignore_errors=True)
        raise
    sync(top)
    for name in os.listdir(top):
        if _NAME.fullmatch(name) and name != made.name:
            shutil.rmtree(top / name, ignore_errors=True)


def _sync_all(folder: Path) -> None:
    paths = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    with ThreadPoolExecutor(_THREADS, "rlnb-sync") as pool:
        list(pool.map(sync, paths))
    for parent, _, _ in os.walk(folder):
        sync(Path(parent))


@contextlib.contextmanager
def loading(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Find the checkpoint that counts, and keep it from being replaced meanwhile.

    Args:
        path: of the checkpoint.

    Yields:
        The folder to read.

    Raises:
        FileNotFoundError: if there is no checkpoint.
        ValueError: if it is damaged.
    """
    top = Path(path)
    if not (top / POINTER).is_file():
        raise FileNotFoundError(faults.no_checkpoint(top, POINTER))
    with _held(top, shared=True):
        name = read_document(top / POINTER).get("folder")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(faults.damaged(top / POINTER))
        if not (top / name).is_dir():
            raise ValueError(faults.missing(top / name))
        yield top / name


@contextlib.contextmanager
def _held(top: Path, shared: bool) -> Iterator[None]:
    """Hold the lock of a checkpoint; one that lies where nobody can write needs none."""
    lock = None
    try:
        lock = FileLock(top / _LOCK)
    except OSError:
        if not shared:
            raise
    if lock is None:
        yield
        return
    lock.acquire(shared)
    try:
        yield
    finally:
        lock.release()
