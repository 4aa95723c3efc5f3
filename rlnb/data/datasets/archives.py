"""Archives and arrays from foreign sources: tar, zip, gzip and npy, read without trusting what they say."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import math
import os
import pickle
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple

import numpy as np

MAX_FILES = 100_000
"""The default of ``max_files``: the most members that an archive may have."""
_BLOCK = 2**20
_LONGEST_HEADER = 2**25  # bytes of one header in a tar archive, far more than honest ones have
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, tarfile.ReadError, zipfile.BadZipFile)


class ArchiveError(ValueError):
    """An archive or array that is damaged, is of another format, or contains something that is not allowed."""


class ArchiveMember(NamedTuple):
    """A file in an archive: its path, with ``/`` between the parts, and its content, opened for reading."""

    name: str
    file: IO[bytes]


def safe_path(folder: str | os.PathLike[str], name: str) -> Path:
    """Return the path of a file in a folder, by a name from an untrusted source.

    Args:
        folder: the folder.
        name: the path relative to it, with ``/`` between the parts.

    Raises:
        ValueError: If the path leaves the folder, on this system or on Windows.

    Example:
        >>> safe_path("data", "a/b.npy").as_posix()
        'data/a/b.npy'
        >>> safe_path("data", "../b.npy")
        Traceback (most recent call last):
        ValueError: A file must be inside of its folder, got the path '../b.npy'.
    """
    windows, posix = PureWindowsPath(name), PurePosixPath(name)
    leaves = windows.drive or windows.root or posix.root or ".." in windows.parts or ".." in posix.parts
    if leaves or not posix.parts or "\0" in name:
        raise ValueError(f"A file must be inside of its folder, got the path {name!r}.")
    return Path(folder, *posix.parts)


def default_limit(archive: str | os.PathLike[str]) -> int:
    """The default of ``max_bytes``: 4 GiB and a hundred times the size of the archive."""
    return 2**32 + 100 * Path(archive).stat().st_size


def extract(
    archive: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    max_files: int = MAX_FILES,
) -> list[Path]:
    """Extract an archive into a new folder, all of it or nothing.

    Reads tar archives, plain or compressed with gzip, xz or bzip2, and zip archives, which are told apart by their
    content. They may contain files and folders, no links or devices, and nothing outside of the folder. The files are
    written to ``{folder}.part``, which is renamed at the end and removed if anything fails.

    Args:
        archive: the archive.
        folder: the folder to make. It may exist if it is empty.
        max_bytes: the most bytes of all files together. Both the sizes that the archive states and what it really
            contains are compared with it. Default: see :func:`default_limit`.
        max_files: the most files and folders.

    Returns:
        The paths of the files, in the order of the archive.

    Raises:
        ArchiveError: If the archive is damaged, is too large, or contains something that is not allowed.
        FileExistsError: If the folder exists and is not empty.

    Example:
        >>> import tempfile, zipfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with zipfile.ZipFile(f"{folder}/a.zip", "w") as archive:
        ...         archive.writestr("b/c.txt", "hello")
        ...     [path.read_text() for path in extract(f"{folder}/a.zip", f"{folder}/a")]
        ['hello']
    """
    folder = Path(folder)
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise FileExistsError(f"{archive} is extracted into a new folder, and {folder} exists. Fix: remove it first.")
    part = folder.with_name(f"{folder.name}.part")
    if part.is_symlink():
        part.unlink()
    elif part.exists():  # left by a process that was killed
        shutil.rmtree(part)
    part.mkdir(parents=True)
    try:
        names = [_write(part, member, archive) for member in iterate(archive, max_bytes=max_bytes, max_files=max_files)]
        if folder.exists():
            folder.rmdir()
        os.replace(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return [safe_path(folder, name) for name in names]


def _write(folder: Path, member: ArchiveMember, archive: Any) -> str:
    """Write a file of an archive."""
    path = safe_path(folder, member.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            shutil.copyfileobj(member.file, file, _BLOCK)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise ArchiveError(f"{archive} contains {member.name!r} and another entry that needs the same name.") from None
    return member.name


def iterate(
    archive: str | os.PathLike[str] | io.BufferedReader, *, max_bytes: int | None = None, max_files: int = MAX_FILES
) -> Iterator[ArchiveMember]:
    """Iterate over the files of an archive without extracting it.

    What is refused, and the arguments, are those of :func:`extract`. Each file can be read until the next one is asked
    for, from its beginning to its end. A tar archive may also be an opened file that need not be seekable, which may
    contain 1 TiB by default.

    Raises:
        ArchiveError: As :func:`extract`, at the member that is at fault; everything before has been handed out.

    Example:
        >>> import tempfile, zipfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with zipfile.ZipFile(f"{folder}/a.zip", "w") as archive:
        ...         archive.writestr("b/c.txt", "hello")
        ...     [(name, file.read()) for name, file in iterate(f"{folder}/a.zip")]
        [('b/c.txt', b'hello')]
    """
    source: Any = archive
    if isinstance(archive, io.BufferedReader):
        head, limit = archive.peek(262)[:262], 2**40
        archive = str(getattr(archive, "name", "The archive"))
    else:
        with open(archive, "rb") as content:
            head, limit = content.read(262), default_limit(archive)
    limit = limit if max_bytes is None else max_bytes
    members = _zip_members if head[:4] in (b"PK\x03\x04", b"PK\x05\x06") else _tar_members
    seen, stated = set[PurePosixPath](), 0
    with _damage_explained(archive):
        for name, size, file in members(source, archive, head, limit, max_files):
            path = _checked_name(archive, name)
            if path in seen and file is not None:
                raise ArchiveError(f"{archive} contains {name!r} twice.")
            seen.add(path)
            if len(seen) > max_files:
                raise ArchiveError(f"{archive} has more than {max_files:,} files. Fix: pass a larger max_files.")
            stated += size
            if stated > limit:
                raise _too_large(archive, limit)
            if file is not None:
                yield ArchiveMember(path.as_posix(), _guard(file, archive, size, exact=True))


def _checked_name(archive: Any, name: str) -> PurePosixPath:
    try:
        safe_path("", name)
    except ValueError:
        raise ArchiveError(
            f"{archive} contains {name!r}, which is outside of the folder that it is extracted to. The archive is "
            "hostile, or was made in a careless way."
        ) from None
    return PurePosixPath(name)


def _too_large(archive: Any, limit: int) -> ArchiveError:
    return ArchiveError(
        f"{archive} contains more than {limit:,} bytes, which is more than it may. It may be a decompression bomb. "
        "Fix: pass a larger max_bytes if you know that it is as large."
    )


@contextlib.contextmanager
def _damage_explained(archive: Any) -> Iterator[None]:
    """Raise ``ArchiveError`` for the errors that the readers raise for damaged archives."""
    try:
        yield
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # one of the disk; those of bz2 and gzip have none
            raise
        raise ArchiveError(
            f"{archive} is damaged or cut off ({error}). Fix: remove it, and it is downloaded again."
        ) from error


# Formats --------------------------------------------------------------------------------------------------------------

_Members = Iterator[tuple[str, int, IO[bytes] | None]]


def _zip_members(source: Any, archive: Any, head: bytes, limit: int, max_files: int) -> _Members:
    """Name, stated size and content of each member; no content for folders."""
    with zipfile.ZipFile(source) as opened:
        members = opened.infolist()
        if sum(member.file_size for member in members) > limit:
            raise _too_large(archive, limit)
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _not_a_file(archive, member.filename)
            if member.is_dir():
                yield member.filename, 0, None
                continue
            if member.flag_bits & 1:
                raise ArchiveError(f"{archive} is encrypted. Fix: extract it yourself.")
            try:
                file = opened.open(member)
            except NotImplementedError as error:
                raise ArchiveError(f"{archive} cannot be read ({error}). Fix: extract it yourself.") from None
            with file:
                yield member.filename, member.file_size, file


def _tar_members(source: Any, archive: Any, head: bytes, limit: int, max_files: int) -> _Members:
    """Name, stated size and content of each member; no content for folders."""
    openers: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\0": lzma.open, b"BZh": bz2.open}
    opener = next((opener for magic, opener in openers.items() if head.startswith(magic)), None)
    if opener is None and head[257:] != b"ustar":
        raise ArchiveError(f"{archive} is not a tar, tar.gz, tar.xz, tar.bz2 or zip archive.")
    plain = contextlib.nullcontext(source) if isinstance(source, io.BufferedReader) else None
    with plain if plain and not opener else (opener or open)(source, "rb") as content:
        # Each member has a header and padding on top of what it contains.
        reader: Any = _TarReader(content, archive, limit, limit + 4096 * max_files)
        with tarfile.open(fileobj=reader, mode="r:") as opened:  # reads the first header
            while (member := reader.next_member(opened)) is not None:
                if member.isdir():
                    yield member.name, 0, None
                    continue
                if not member.isfile():
                    raise _not_a_file(archive, member.name)
                _checked_name(archive, member.name)
                tarfile.data_filter(member, os.curdir)  # the rules of the standard library, on top of ours
                file = opened.extractfile(member)
                assert file is not None  # it is one for a file
                yield member.name, member.size, file
        if any(reader.last) or not reader.last:  # a block of zeros ends an archive
            raise EOFError("the end of the archive is missing")
        while reader.read(_BLOCK):  # to the end of the compressed data, so that its checksum is compared
            pass


def _not_a_file(archive: Any, name: str) -> ArchiveError:
    return ArchiveError(
        f"{archive} contains {name!r}, which is a link or a device. Only files and folders are allowed."
    )


class _TarReader:
    """What tarfile reads from: a file that is only read forward, with limits on all bytes and on those of a header."""

    def __init__(self, file: Any, archive: Any, limit: int, room: int) -> None:
        self.file, self.archive, self.limit, self.room = file, archive, limit, room
        self.position = 0
        self.last = b""  # what the last call of read returned
        self.header: int | None = _LONGEST_HEADER  # bytes that the present header may still have

    def next_member(self, opened: tarfile.TarFile) -> tarfile.TarInfo | None:
        """The next member. tarfile reads a header into memory, whatever length it states."""
        self.header = _LONGEST_HEADER
        member = opened.next()
        self.header = None
        return member

    def read(self, size: int) -> bytes:
        """Read bytes, fewer only at the end."""
        if self.header is not None:
            self.header -= size
            if self.header < 0:
                raise ArchiveError(f"{self.archive} has a header of more than {_LONGEST_HEADER:,} bytes.")
        self.last = self._read(size)
        return self.last

    def _read(self, size: int) -> bytes:
        content: bytes = self.file.read(size)
        self.position += len(content)
        if self.position > self.room:
            raise _too_large(self.archive, self.limit)
        return content

    def seek(self, position: int) -> int:
        """Skip to a later byte."""
        if position < self.position:
            raise ArchiveError(f"{self.archive} has a header that points backwards.")
        while self.position < position and self._read(min(position - self.position, _BLOCK)):
            pass
        return self.position

    def tell(self) -> int:
        """The number of bytes read."""
        return self.position


class _Guarded(io.RawIOBase):
    """A file that raises ArchiveError if it is damaged or longer than a limit, or shorter, if the limit is exact."""

    def __init__(self, file: Any, archive: Any, limit: int, exact: bool) -> None:
        self.file, self.archive, self.limit, self.exact = file, archive, limit, exact
        self.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _damage_explained(self.archive):
            count: int = self.file.readinto(buffer)
            self.position += count
            if self.exact and not count and len(buffer) and self.position < self.limit:
                raise EOFError(f"a file of {self.limit:,} bytes has only {self.position:,}")
        if self.position > self.limit:
            raise _too_large(self.archive, self.limit)
        return count

    def close(self) -> None:
        super().close()
        self.file.close()


def _guard(file: Any, archive: Any, limit: int, *, exact: bool) -> io.BufferedReader:
    return io.BufferedReader(_Guarded(file, archive, limit, exact), _BLOCK)


def open_gzip(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> io.BufferedReader:
    """Open a file that is compressed with gzip, to be read as a stream.

    Args:
        path: the file.
        max_bytes: the most bytes that it may contain. Default: see :func:`default_limit`.

    Raises:
        ArchiveError: If the file is damaged, cut off or contains more than ``max_bytes``; raised while it is read.

    Example:
        >>> import gzip, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with gzip.open(f"{folder}/a.gz", "wb") as file:
        ...         _ = file.write(b"hello")
        ...     with open_gzip(f"{folder}/a.gz") as file:
        ...         file.read()
        b'hello'
    """
    return _guard(gzip.open(path), path, default_limit(path) if max_bytes is None else max_bytes, exact=False)


# Arrays and pickles ---------------------------------------------------------------------------------------------------


class NpyHeader(NamedTuple):
    """The header of an npy file: shape, dtype, and whether the first index varies fastest."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool


def read_npy_header(file: IO[bytes], name: str = "the array") -> NpyHeader:
    """Read the header of an npy file. The content follows in ``file``.

    Args:
        file: an opened file, which need not be seekable.
        name: what to call it in errors.

    Raises:
        ArchiveError: If it is not an npy file.

    Example:
        >>> file = io.BytesIO()
        >>> np.save(file, np.zeros((2, 3), "uint8"))
        >>> _ = file.seek(0)
        >>> read_npy_header(file)
        NpyHeader(shape=(2, 3), dtype=dtype('uint8'), fortran_order=False)
    """
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version[0]}.{version[1]} of the format is not supported")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read(file)
        if any(size < 0 for size in shape):
            raise ValueError(f"its shape is {shape}")
    except ArchiveError:
        raise
    except Exception as error:  # numpy parses what somebody else wrote, and anything may happen
        raise ArchiveError(f"{name} is damaged or is not an npy file ({error}).") from error
    return NpyHeader(shape, dtype, fortran_order)


def load_npy(
    file: str | os.PathLike[str] | IO[bytes],
    *,
    allow_pickle: bool = False,
    needed_by: str = "this function",
    name: str | None = None,
) -> np.ndarray:
    """Read an npy file, from a stream, too; one with pickled objects only if that is allowed.

    Args:
        file: its path, or an opened file, which need not be seekable.
        allow_pickle: whether to load arrays of Python objects, which are pickled. A pickle runs any code that whoever
            made it put there.
        needed_by: whose argument ``allow_pickle`` is, for the error.
        name: what to call the file in errors. Default: its path.

    Raises:
        ArchiveError: If it is damaged, cut off, or is not an npy file.
        ValueError: If it holds pickled objects and they are not allowed.

    Example:
        >>> file = io.BytesIO()
        >>> np.save(file, np.arange(3, dtype="uint8"))
        >>> _ = file.seek(0)
        >>> load_npy(file)
        array([0, 1, 2], dtype=uint8)
    """
    if isinstance(file, str | os.PathLike):
        with open(file, "rb") as opened:
            return load_npy(opened, allow_pickle=allow_pickle, needed_by=needed_by, name=name or os.fspath(file))
    name = name or "the array"
    shape, dtype, fortran_order = read_npy_header(file, name)
    if dtype.hasobject:
        return np.asarray(load_pickle(file, allow_pickle=allow_pickle, needed_by=needed_by, name=name))
    flat = _empty(math.prod(shape), dtype, name)
    _fill(flat, file, name)
    return flat.reshape(shape[::-1]).T if fortran_order else flat.reshape(shape)


def load_npz(
    file: str | os.PathLike[str] | IO[bytes], *, max_bytes: int = 2**30, name: str | None = None
) -> dict[str, np.ndarray]:
    """Read all arrays of an npz file; arrays of pickled objects are refused.

    Args:
        file: its path, or an opened file that is seekable.
        max_bytes: the most bytes that the arrays may have.
        name: what to call the file in errors. Default: its path.

    Raises:
        ArchiveError: If it is damaged, cut off, is not an npz file, or has more bytes.
        ValueError: If it holds pickled objects.

    Example:
        >>> file = io.BytesIO()
        >>> np.savez(file, a=np.arange(3), b=np.zeros(2))
        >>> load_npz(file)["a"].tolist()
        [0, 1, 2]
    """
    name = name or (os.fspath(file) if isinstance(file, str | os.PathLike) else "the file")
    arrays = {}
    with _damage_explained(name):
        for member, size, content in _zip_members(file, name, b"", max_bytes, MAX_FILES):
            if content is not None:
                content = _guard(content, name, size, exact=True)
                array = load_npy(content, needed_by="numpy.load", name=f"{member} in {name}")
                arrays[member.removesuffix(".npy")] = array
    return arrays


def iterate_npy(file: IO[bytes], rows: int, name: str = "the array") -> Iterator[np.ndarray]:
    """Iterate over the rows of an npy file in blocks, so that an array larger than the memory can be read.

    Args:
        file: an opened file, which need not be seekable.
        rows: the number of rows of each block; the last one may have fewer.
        name: what to call the file in errors.

    Raises:
        ArchiveError: If it is damaged, cut off, is not an npy file, or has no rows that follow one another.
        ValueError: If it holds pickled objects.

    Example:
        >>> file = io.BytesIO()
        >>> np.save(file, np.arange(5, dtype="uint8"))
        >>> _ = file.seek(0)
        >>> [block.tolist() for block in iterate_npy(file, 2)]
        [[0, 1], [2, 3], [4]]
    """
    shape, dtype, fortran_order = read_npy_header(file, name)
    if not shape or (fortran_order and len(shape) > 1):
        raise ArchiveError(f"{name} cannot be read row by row: its shape is {shape}, in the order of Fortran or C.")
    if dtype.hasobject:
        raise pickle_refused(name, "numpy.load")
    for start in range(0, shape[0], rows):
        part = (min(rows, shape[0] - start), *shape[1:])
        flat = _empty(math.prod(part), dtype, name)
        _fill(flat, file, name)
        yield flat.reshape(part)


def _empty(size: int, dtype: np.dtype[Any], name: str) -> np.ndarray:
    try:
        return np.empty(size, dtype)
    except (MemoryError, ValueError, OverflowError):
        raise ArchiveError(f"{name} states {size:,} items of {dtype}, more than the memory holds.") from None


def _fill(flat: np.ndarray, file: IO[bytes], name: str) -> None:
    """Read the content of an array."""
    content: Any = flat.view(np.uint8) if flat.nbytes else b""
    content = memoryview(content)
    readinto, position = getattr(file, "readinto", None), 0
    while position < len(content):
        part = content[position : position + _BLOCK]
        if readinto is not None:  # without a copy
            count = readinto(part)
        else:
            block = file.read(len(part))
            count = len(block)
            part[:count] = block
        if not count:
            raise ArchiveError(f"{name} is cut off: {position:,} of {len(content):,} bytes are there.")
        position += count


def load_pickle(file: IO[bytes], *, allow_pickle: bool, needed_by: str, name: str) -> Any:
    """Load a pickle, if that is allowed.

    Args:
        file: an opened file.
        allow_pickle: whether to. A pickle runs any code that whoever made it put there.
        needed_by: whose argument ``allow_pickle`` is, for the error.
        name: what to call the file in errors.

    Raises:
        ArchiveError: If it is damaged or cut off.
        ValueError: If it is not allowed.

    Example:
        >>> load_pickle(io.BytesIO(pickle.dumps([1])), allow_pickle=True, needed_by="this example", name="a.pkl")
        [1]
    """
    if not allow_pickle:
        raise pickle_refused(name, needed_by)
    try:
        return pickle.load(file)
    except (EOFError, pickle.UnpicklingError) as error:
        raise ArchiveError(f"{name} is damaged or cut off ({error}).") from error


def pickle_refused(name: str, needed_by: str) -> ValueError:
    """Make the error about pickled objects that nobody has allowed."""
    return ValueError(
        f"{name} holds pickled Python objects. Loading them runs any code that whoever made the file put there, so it "
        f"is refused unless you ask for it. Fix: if you trust the source of the file, pass allow_pickle=True to "
        f"{needed_by}."
    )
