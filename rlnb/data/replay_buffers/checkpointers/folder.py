"""Folder of a checkpoint: a new checkpoint replaces the old one as a whole; see the package for the protocol."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from rlnb.data.replay_buffers.checkpointers.files import KEPT, MANIFEST, MARK, PARTS, seal, sync, verify, written

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
                written.clear()  # of files that came to nothing
                new.mkdir()
                (new / MARK).touch()
                yield new
                beside = {each.name for each in new.iterdir()} - {MARK, *PARTS}
                if beside:
                    raise RuntimeError(f"{sorted(beside)} must be written into one of the folders {PARTS}")
                for part in PARTS:
                    (new / part).mkdir(exist_ok=True)
                    (new / part / MARK).touch()
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
    except OSError as error:
        if error.errno is None:
            raise
        if counts:
            text = (
                f"The checkpoint in {os.fspath(top)!r} was written and is what loads reads, and the system could not "
                f"confirm that it is on the disk: {error.strerror}. "
                "Fix: look after the disk, and save again with dumps."
            )
        else:
            text = (
                f"The checkpoint in {os.fspath(top)!r} could not be written: {error.strerror}. A checkpoint that was "
                "there before is still there. Fix: free some space, or give a folder that can be written to."
            )
        raise OSError(error.errno, text) from error


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
            raise FileNotFoundError(f"{where} there is no such folder. {KEPT}")
        names = sorted(os.listdir(top))
        found = ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise FileNotFoundError(
            f"{where} a checkpoint has a file {MANIFEST!r}, and the folder has {found or 'nothing'}. {KEPT} "
            "Fix: give the folder that dumps was given."
        )
    with contextlib.ExitStack() as stack:
        if (top / _LOCK).is_file() and not (top / _LOCK).is_symlink():
            with contextlib.suppress(OSError):  # a folder that nobody can write to needs no lock
                stack.enter_context(FileLock(top / _LOCK))
        _finish(top)
        verify(top)
        yield top


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
    with path.open("rb") as file:
        start = file.read(1 << 12)
    damaged = any((path.parent / part / MARK).exists() for part in PARTS)
    return b"rlnb-checkpoint" in start or not start or damaged


def _refuse_foreign(top: Path, *names: str) -> None:
    """Refuse to write over what somebody else keeps under the name of a part."""
    for path in (top / name for name in names):
        if os.path.lexists(path) and not _is_ours(path):
            kind = "folder" if path.is_dir() else "file"
            raise FileExistsError(
                f"There is a {kind} {path.name!r} in {os.fspath(top)!r} that is not of a checkpoint, and a checkpoint "
                "there would replace it. Nothing was written. Fix: give dumps a folder of its own."
            )


# The lock -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _alone(top: Path) -> Iterator[None]:
    """Hold the lock of a folder. A folder that was made for it is deleted again, with the lock, if nothing comes of it.

    Others may have waited for just that lock: ``filelock`` notices, and they start again.
    """
    lock = top / _LOCK
    with contextlib.ExitStack() as stack:
        while True:
            made = _make(top)
            if lock.is_symlink() or (lock.exists() and not lock.is_file()):
                raise OSError(
                    f"{os.fspath(lock)!r}, which checkpoints use as a lock, is not a regular file. Nothing was "
                    "written. Fix: remove it, or give dumps a folder of its own."
                )
            try:
                stack.enter_context(FileLock(lock))
                break
            except FileNotFoundError:  # another one has just deleted the folder
                continue
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                if made and os.listdir(top) == [_LOCK]:
                    lock.unlink()
                    top.rmdir()
            raise


def _make(top: Path) -> bool:
    """Make a folder; return whether it was made, and is not there or was deleted by another one just now."""
    top.parent.mkdir(parents=True, exist_ok=True)
    try:
        top.mkdir()
    except OSError:
        if not top.is_dir() and os.path.lexists(top):
            raise
        return False
    return True
