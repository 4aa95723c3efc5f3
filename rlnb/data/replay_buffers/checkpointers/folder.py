"""The folder of a checkpoint: a new one is complete or not there, and until then the one before it counts."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from rlnb.data.replay_buffers.checkpointers.files import read_document, sync, write_document
from rlnb.data.replay_buffers.faults import checkpoints as faults
from rlnb.data.replay_buffers.file_lock import FileLock, Hold

POINTER = "checkpoint.json"  # names the folder that counts
_PARTIAL, _LOCK = ".checkpoint.json.partial", ".lock"
_MARK = ".rlnb"  # the first file in each folder that is made here: no other folder is ever deleted
# To open what stands under the name of the lock neither waits, as a pipe makes it, nor follows a link.
_PLAIN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_NAME = re.compile(r"rlnb-checkpoint-([0-9]{1,15})")
_NUMBERS = 10**15
_TRIES = 100


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
        FileExistsError: If a file that is not of a checkpoint has the name of one.
        OSError: if it cannot be written. What was there before is kept, unless the error says that the new one counts.
    """
    top, say = Path(path), faults.not_written
    try:
        with _alone(top):
            _refuse_foreign(top)
            before, made = _named(top), top / _free_name(top)
            try:
                made.mkdir()
                (made / _MARK).touch()
                yield made
                _sync_all(made)
                _point_to(made)
            except BaseException:
                with contextlib.suppress(OSError):  # Ctrl+C can come when the new one counts: only the pointer knows
                    if _named(top) == made.name:
                        say = faults.not_confirmed
                    else:
                        _delete(made)
                raise
            say = faults.not_confirmed
            sync(top)
            with contextlib.suppress(OSError):
                for name in os.listdir(top):
                    if _NAME.fullmatch(name) and name != made.name and (name == before or _is_ours(top / name)):
                        _delete(top / name)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, say(top, error)) from error


def _refuse_foreign(top: Path) -> None:
    """Refuse to write over a file that somebody else keeps under the name of the pointer."""
    pointer = top / POINTER
    if pointer.is_file():
        with pointer.open("rb") as file:
            start = file.read(1 << 12)
        foreign = bool(start) and b"rlnb-checkpoint" not in start and not any(map(_is_ours, top.iterdir()))
    else:
        foreign = os.path.lexists(pointer)
    if foreign:
        raise FileExistsError(
            f"There is a file {POINTER!r} in {os.fspath(top)!r} that is not of a checkpoint, and a checkpoint there "
            "would replace it. Nothing was written. Fix: give dumps a folder of its own."
        )


def _is_ours(path: Path) -> bool:
    """Whether a folder was made for a checkpoint; one that was made just before a crash is still empty."""
    if not _NAME.fullmatch(path.name) or path.is_symlink() or not path.is_dir():
        return False
    there = os.listdir(path)
    return not there or _MARK in there


def _free_name(top: Path) -> str:
    """A name behind that of the folder that counts, so that it does not come back while somebody may still read it."""
    taken, last = set(os.listdir(top)), _NAME.fullmatch(_named(top) or "")
    numbers = ((int(last[1]) if last else 0) + more for more in itertools.count(1))
    return next(name for n in numbers if (name := f"rlnb-checkpoint-{n % _NUMBERS}") not in taken)


def _sync_all(path: Path) -> None:
    if path.is_dir():
        for child in path.iterdir():
            _sync_all(child)
    sync(path)


def _point_to(made: Path) -> None:
    """Have a folder count from now on."""
    partial = made / _PARTIAL  # in a new folder, where nobody put a link under this name
    partial.touch(exist_ok=False)
    write_document(partial, {"folder": made.name})
    sync(partial)
    sync(made.parent)
    os.replace(partial, made.parent / POINTER)


def _delete(path: Path) -> None:
    """Delete a file or folder; what cannot be deleted stays.

    shutil.rmtree, when Ctrl+C reaches it, can close a file twice, which may by then be that of another thread.
    """
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            for child in sorted(path.iterdir(), key=lambda child: child.name == _MARK):  # the mark last: a crash
                _delete(child)  # leaves a folder that is known as ours
            path.rmdir()
        else:
            path.unlink()


# The pointer ----------------------------------------------------------------------------------------------------------


def _read_pointer(top: Path) -> str:
    content = read_document(top / POINTER)
    name = content.get("folder") if isinstance(content, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(faults.damaged(top / POINTER))
    return name


def _named(top: Path) -> str | None:
    """The name of the folder that counts; None if none does."""
    try:
        return _read_pointer(top)
    except ValueError:
        return None


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
    lock = None
    with contextlib.suppress(OSError):  # one that lies where nobody can write needs none
        if (top / _LOCK).is_file() and not (top / _LOCK).is_symlink():
            lock = FileLock(top / _LOCK)
    with contextlib.nullcontext() if lock is None else Hold(lock, shared=True):
        name = _read_pointer(top)
        if not (top / name).is_dir():
            raise ValueError(faults.missing(top / name))
        yield top / name


# The lock -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _alone(top: Path) -> Iterator[None]:
    """Have a folder for oneself, which is made if it is not there, and then deleted again if nothing comes of it.

    The lock is deleted with it, by who holds it. Others may have waited for just that file: they start again.
    """
    for tries in itertools.count(1):
        made, file, lock = _find_lock(top)
        try:
            with Hold(lock):
                # A file system whose numbers of files mean nothing is taken at its word in the end.
                if not _is_at(file, top / _LOCK) and tries < _TRIES:
                    continue
                try:
                    yield
                except BaseException:
                    if made:
                        _forget(top)
                    raise
                return
        finally:
            os.close(file)


def _find_lock(top: Path) -> tuple[bool, int, FileLock]:
    """Open the lock of a folder; also whether the folder was made for it.

    The file is opened twice: while it is open, no other gets its number, by which :func:`_is_at` knows it.
    """
    tries = 0
    while True:
        tries, file = tries + 1, None
        try:
            made = _make(top)
            file = os.open(top / _LOCK, os.O_RDONLY | os.O_CREAT | _PLAIN, 0o666)
            _refuse_odd(top / _LOCK, file)
            return made, file, FileLock(top / _LOCK)
        except BaseException as error:
            if file is not None:
                os.close(file)
            # Somebody else may have deleted the folder just now.
            if not isinstance(error, (FileNotFoundError, FileExistsError)) or tries == _TRIES:
                raise


def _refuse_odd(path: Path, file: int) -> None:
    """Refuse a lock that is not a regular file, such as a pipe."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise OSError(
            f"{os.fspath(path)!r}, which checkpoints use as a lock, is not a regular file. Nothing was written. "
            "Fix: remove it, or give dumps a folder of its own."
        )


def _make(top: Path) -> bool:
    """Make a folder if it is not there; whether it was made."""
    top.parent.mkdir(parents=True, exist_ok=True)
    try:
        top.mkdir()
    except OSError:
        if not top.is_dir():
            raise
        return False
    return True


def _is_at(file: int, path: Path) -> bool:
    """Whether a file that is open is still the one at a path; Windows deletes none that is open."""
    try:
        return os.name == "nt" or os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _forget(top: Path) -> None:
    """Delete the folder of a first checkpoint that came to nothing, and the lock, which is held."""
    with contextlib.suppress(OSError):
        if os.listdir(top) == [_LOCK]:
            (top / _LOCK).unlink()
            top.rmdir()
