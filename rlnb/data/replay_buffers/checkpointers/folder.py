"""Folder of a checkpoint: its manifest, and how a new checkpoint replaces the old one; see the package for both."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import xxhash
from filelock import FileLock

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.checkpointers import files

FORMAT = "rlnb-checkpoint-3"
MANIFEST = "checkpoint.json"
MARK = ".rlnb"  # an empty file in each folder that was made for a checkpoint: no other folder is ever deleted
PARTS = ("storage", "state")  # the folders of a checkpoint
_NEW, _READY, _LOCK = ".rlnb-new", ".rlnb-ready", ".lock"


@contextlib.contextmanager
def saving(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a checkpoint that replaces the old one as a whole.

    Yields:
        The folder to write to: the storage into ``storage``, the state of all else into ``state``.

    Raises:
        FileExistsError: If something that is not part of a checkpoint has the name of a part.
        OSError: If the checkpoint cannot be written. The old one is kept, unless the error says otherwise.
    """
    top, counts = Path(path), False
    try:
        with _alone(top):
            _finish(top)
            _refuse_foreign(top, _NEW, _READY, *PARTS, MANIFEST)
            new = top / _NEW
            try:
                _delete(new)
                files.written.clear()  # of files that came to nothing
                for made in (new, *(new / part for part in PARTS)):
                    made.mkdir()
                    (made / MARK).touch()
                yield new
                seal(new)
                for at, _, names in os.walk(new, topdown=False):
                    for name in (*names, ""):
                        if name != MARK:
                            sync(Path(at, name))
                os.rename(new, top / _READY)
            finally:  # Ctrl+C can come right after the new checkpoint counts: only the folder knows
                counts = (top / _READY).is_dir()
                if not counts:
                    with contextlib.suppress(OSError):
                        _delete(new)
            _finish(top)
    except (OSError, RuntimeError) as error:
        number = files.errno_of(error)
        if number is None:
            raise
        where, reason = f"The checkpoint in {os.fspath(top)!r}", os.strerror(number)
        if counts:
            text = (
                f"{where} was written and is what loads reads, and the system could not confirm that it is on the "
                f"disk: {reason}. Fix: look after the disk, and save again with dumps."
            )
        else:
            text = (
                f"{where} could not be written: {reason}. A checkpoint that was there before is still there. "
                "Fix: free some space, or give a folder that can be written to."
            )
        raise OSError(number, text) from error


@contextlib.contextmanager
def loading(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Verify all files of a checkpoint, and yield its folder, which nobody replaces meanwhile.

    Raises:
        FileNotFoundError: If there is no checkpoint.
        ValueError: If it is damaged.
    """
    top = Path(path)
    if not (top / MANIFEST).is_file() and not (top / _READY).is_dir():
        where = f"There is no checkpoint in {os.fspath(top)!r}:"
        if not top.is_dir():
            raise FileNotFoundError(f"{where} there is no such folder. {files.KEPT}")
        found = errors.listed(sorted(os.listdir(top)))
        raise FileNotFoundError(
            f"{where} a checkpoint has a file {MANIFEST!r}, and the folder has {found or 'nothing'}. {files.KEPT} "
            "Fix: give the folder that dumps was given."
        )
    lock = top / _LOCK
    with contextlib.ExitStack() as stack:
        if lock.is_file() and not lock.is_symlink():
            with contextlib.suppress(OSError):  # a folder that nobody can write to needs no lock
                stack.enter_context(FileLock(lock))
        _finish(top)
        verify(top)
        yield top


@contextlib.contextmanager
def _alone(top: Path) -> Iterator[None]:
    """Make a folder and hold its lock. If nothing comes of it, a folder that was made is deleted again, with the lock.

    Others may have waited for just that lock: ``filelock`` notices, and they start again.
    """
    lock, made, held = top / _LOCK, False, False
    if lock.is_symlink() or (lock.exists() and not lock.is_file()):
        raise OSError(
            f"{os.fspath(lock)!r}, which checkpoints use as a lock, is not a regular file. Nothing was written. "
            "Fix: remove it, or give dumps a folder of its own."
        )
    with contextlib.ExitStack() as stack:
        while not held:
            made = not os.path.lexists(top)
            with contextlib.suppress(FileNotFoundError):  # another one has just deleted the folder
                stack.enter_context(FileLock(lock))
                held = True
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                if made and os.listdir(top) == [_LOCK]:
                    lock.unlink()
                    top.rmdir()
            raise


# The exchange ---------------------------------------------------------------------------------------------------------


def _finish(top: Path) -> None:
    """Put the parts of a checkpoint that is ready in the place of the old ones; after a crash, those that are left."""
    ready = top / _READY
    if not _is_ours(ready):
        return
    sync(top)
    for name in (*PARTS, MANIFEST):
        if (ready / name).exists():
            if name in PARTS and os.path.lexists(top / name):
                _refuse_foreign(top, name)
                os.replace(top / name, ready / f"old-{name}")
            os.replace(ready / name, top / name)
    _delete(ready)


def _delete(path: Path) -> None:
    """Delete a folder of a checkpoint, its mark last: a crash leaves a folder that is known as ours."""
    if not path.is_dir():
        return
    for child in sorted(os.scandir(path), key=lambda child: child.name == MARK):
        if child.is_dir(follow_symlinks=False):
            _delete(Path(child.path))
        else:
            os.unlink(child.path)
    path.rmdir()


def _is_ours(path: Path) -> bool:
    """Whether a folder or a manifest is of a checkpoint."""
    if path.name != MANIFEST:  # right after a folder was made, it has no mark yet
        return path.is_dir() and not path.is_symlink() and ((path / MARK).exists() or not os.listdir(path))
    if not path.is_file():
        return False
    content, marked = path.read_bytes(), any((path.parent / part / MARK).exists() for part in PARTS)
    return marked or not content or b"rlnb-checkpoint" in content[: 1 << 12]


def _refuse_foreign(top: Path, *names: str) -> None:
    """Refuse to write over what somebody else keeps under the name of a part."""
    for path in (top / name for name in names):
        if os.path.lexists(path) and not _is_ours(path):
            kind = "folder" if path.is_dir() else "file"
            raise FileExistsError(
                f"There is a {kind} {path.name!r} in {os.fspath(top)!r} that is not of a checkpoint, and a checkpoint "
                "there would replace it. Nothing was written. Fix: give dumps a folder of its own."
            )


# The manifest ---------------------------------------------------------------------------------------------------------


def seal(folder: Path) -> None:
    """Write the manifest of a checkpoint, which lists the size and the checksum of every file."""
    noted = {
        name: [path.stat().st_size, files.written.pop(path, None) or _checksum(path)]
        for name, path in _files_in(folder).items()
    }
    files.write_values(folder / MANIFEST, {"format": FORMAT, "checksum": _checksum_of(noted), "files": noted})


def verify(folder: Path) -> None:
    """Raise ``ValueError`` if a file of a checkpoint is missing, cut short or altered, or its format is another one."""
    path, there = folder / MANIFEST, _files_in(folder)
    with files.reading(path) as manifest:
        known = manifest["format"]
        if known != FORMAT:
            raise ValueError(
                f"The file {files.name_of(path)!r} has the format {str(known)[:60]!r}, and this version reads "
                f"{FORMAT!r} only. {files.KEPT} "
                "Fix: load it with the version that wrote it, or save the buffer again with dumps."
            )
        if manifest["checksum"] != _checksum_of(manifest["files"]):
            raise files.damaged(path)
        for name, (size, checksum) in manifest["files"].items():
            if name not in there:
                raise files.missing(PurePosixPath(name))
            found = there[name].stat().st_size
            if found != size:
                had = f"has {found:,} bytes, and had {size:,} when it was written. It was cut short or altered."
                raise files.damaged(there[name], had)
            if _checksum(there[name]) != checksum:
                raise files.damaged(there[name])


def _files_in(folder: Path) -> dict[str, Path]:
    """Return the files of a checkpoint by their names in the manifest."""
    places = (place for part in PARTS for place in os.walk(folder / part))
    paths = sorted(Path(at, name) for at, _, names in places for name in names if name != MARK)
    return {path.relative_to(folder).as_posix(): path for path in paths if path.is_file() and not path.is_symlink()}


def _checksum(path: Path) -> str:
    # XXH3 takes a seventh of the time of ``zlib.crc32``, which would be as long as reading from a fast disk.
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, xxhash.xxh3_64).hexdigest()


def _checksum_of(content: Any) -> str:
    return xxhash.xxh3_64_hexdigest(json.dumps(content).encode())


def sync(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot, and keeps its folders without
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
