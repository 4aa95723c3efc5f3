"""Files of a checkpoint: tensors as raw bytes, JSON documents, and a manifest with the checksum of every file."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import torch
import xxhash

FORMAT = "rlnb-checkpoint-2"
MANIFEST = "checkpoint.json"
MARK = ".rlnb"  # an empty file in each folder that was made for a checkpoint: no other folder is ever deleted
PARTS = ("storage", "state")  # the folders of a checkpoint
WRITEBACK_BYTES = 1 << 20  # 141 MB are saved in 105 ms without writeback, 67 ms with pieces of 8 MiB, 62 of 1 MiB
PIECE_BYTES = 1 << 18  # read and written at once, so that no second copy of the data is made: fits into the L2 cache

# The checksums of tensors that were written since ``saving`` began: hashed from memory, they need not be read again,
# which is an eighth of the processor time of ``dumps``.
written: dict[Path, str] = {}

KEPT = "Nothing was changed."
_AGAIN = "Fix: load another copy, or save the buffer again with dumps."


def missing(path: PurePath) -> ValueError:
    """Return the error of a part of a checkpoint that is missing."""
    return ValueError(f"The checkpoint is not complete: {_name_of(path)!r} is missing. {KEPT} {_AGAIN}")


def damaged(path: PurePath, why: str = "was altered or damaged: its content does not fit its checksum.") -> ValueError:
    """Return the error of a file that is not what was written."""
    return ValueError(f"The file {_name_of(path)!r} of the checkpoint {why} {KEPT} {_AGAIN}")


def unreadable(path: PurePath, cause: BaseException) -> ValueError:
    """Return the error of a file whose checksum is right and whose content makes no sense."""
    reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    return ValueError(f"{_name_of(path)!r} of the checkpoint does not read as one ({reason}). {KEPT} {_AGAIN}")


def _name_of(path: PurePath) -> str:
    return "/".join(path.parts[-2:])  # without the folders above, which may be long


# Tensors --------------------------------------------------------------------------------------------------------------


def write_tensor(path: Path, blocks: Iterable[torch.Tensor]) -> None:
    """Write blocks ``[rows, ...]`` of a tensor, on any device, as the bytes that they have in memory."""
    digest, started = xxhash.xxh3_64(), 0
    with path.open("wb", buffering=0) as file:
        for block in blocks:
            for piece in _pieces(block):
                data = _as_bytes(piece.detach().cpu().resolve_conj().resolve_neg().contiguous())
                for start in range(0, len(data), PIECE_BYTES):
                    digest.update(data[start : start + PIECE_BYTES])
                    _write(file, data[start : start + PIECE_BYTES])
                    if file.tell() - started >= WRITEBACK_BYTES:
                        started = _start_writeback(file, started)
        _start_writeback(file, started)
    written[path] = digest.hexdigest()


def _start_writeback(file: Any, start: int) -> int:
    """Let the system write a file to the disk from ``start`` on, while more is hashed; return where the file ends.

    The sync of all files at the end of ``dumps`` then waits for less.
    """
    end: int = file.tell()
    if hasattr(os, "posix_fadvise"):  # on Linux
        os.posix_fadvise(file.fileno(), start, end - start, os.POSIX_FADV_DONTNEED)
    return end


def _write(file: Any, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


def read_tensor(path: Path, into: torch.Tensor, offset: int = 0) -> None:
    """Fill a tensor, on any device, with the bytes of a file from ``offset`` on; none is needed for an empty tensor."""
    if not into.numel():
        return
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        for piece in _pieces(into):
            target = piece if _is_plain(piece) else torch.empty(piece.shape, dtype=piece.dtype)
            _read(file, _as_bytes(target), path)
            if target is not piece:
                piece.copy_(target)


def _read(file: Any, data: memoryview, path: Path) -> None:
    while data:
        count = file.readinto(data)
        if not count:
            raise damaged(path)
        data = data[count:]


def _pieces(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Split a tensor whose bytes must be copied, so that no second copy of all of it is made."""
    return [tensor] if _is_plain(tensor) else tensor.split(max(PIECE_BYTES // max(tensor[:1].nbytes, 1), 1))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor holds its bytes in order."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def _as_bytes(tensor: torch.Tensor) -> memoryview:
    # A dimension of size 1 may have any stride, which ``view`` with another dtype refuses.
    flat = tensor.detach().as_subclass(torch.Tensor).as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().data


def check_bytes(path: Path, expected: int) -> None:
    """Raise ``ValueError`` if a file does not have the size of its tensor, before memory is allocated for it."""
    if not path.is_file() and expected:
        raise missing(path)
    size = path.stat().st_size if path.is_file() else 0
    if size != expected:
        raise ValueError(f"{path.name!r} has {size:,} bytes, and its tensor needs {expected:,}")


# Documents ------------------------------------------------------------------------------------------------------------


def write_document(path: Path, content: Any) -> None:
    """Write plain values as JSON."""
    path.write_text(json.dumps(content, indent=1) + "\n")


def read_document(path: Path) -> Any:
    """Read JSON that somebody else may have written; raises ``ValueError`` if the file is missing or is not JSON."""
    if not path.is_file():
        raise missing(path)
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise damaged(path) from error


# The manifest ---------------------------------------------------------------------------------------------------------


def seal(folder: Path) -> None:
    """Write the manifest of a checkpoint, which lists the size and the checksum of every file."""
    scratch = memoryview(bytearray(PIECE_BYTES))
    files = {
        name: [path.stat().st_size, written.pop(path, None) or _checksum(path, scratch)]
        for name, path in _files_in(folder).items()
    }
    write_document(folder / MANIFEST, {"format": FORMAT, "checksum": _checksum_of(files), "files": files})


def verify(folder: Path) -> None:
    """Raise ``ValueError`` if a file of a checkpoint is missing, cut short or altered, or its format is another one."""
    manifest, there = read_document(folder / MANIFEST), _files_in(folder)
    known = manifest.get("format") if isinstance(manifest, dict) else None
    if known not in (None, FORMAT):
        raise ValueError(
            f"The file {_name_of(folder / MANIFEST)!r} has the format {str(known)[:60]!r}, and this "
            f"version reads {FORMAT!r} only. {KEPT} "
            "Fix: load it with the version that wrote it, or save the buffer again with dumps."
        )
    files = manifest.get("files") if known else None
    if not isinstance(files, dict) or manifest.get("checksum") != _checksum_of(files):
        raise damaged(folder / MANIFEST)
    for name, note in files.items():
        if not isinstance(note, list) or [type(each) for each in note] != [int, str]:
            raise damaged(folder / MANIFEST)
        if name not in there:
            raise missing(PurePosixPath(name))
        size = there[name].stat().st_size
        if size != note[0]:
            had = f"has {size:,} bytes, and had {note[0]:,} when it was written. It was cut short or altered."
            raise damaged(there[name], had)
    scratch = memoryview(bytearray(PIECE_BYTES))
    for name, (_, checksum) in files.items():
        if _checksum(there[name], scratch) != checksum:
            raise damaged(there[name])


def _files_in(folder: Path) -> dict[str, Path]:
    """Return the files of a checkpoint by their names in the manifest."""
    walks = (walk for part in PARTS for walk in os.walk(folder / part))
    paths = [os.path.join(at, name) for at, _, names in walks for name in names if name != MARK]
    paths = [path for path in paths if stat.S_ISREG(os.lstat(path).st_mode)]
    start = len(os.path.join(folder, ""))
    return {"/".join(parts): folder.joinpath(*parts) for parts in sorted(path[start:].split(os.sep) for path in paths)}


def _checksum(path: Path, scratch: memoryview) -> str:
    # XXH3 takes a seventh of the time of ``zlib.crc32``, which would be as long as reading from a fast disk.
    digest = xxhash.xxh3_64()
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(scratch):
            digest.update(scratch[:count])
    return digest.hexdigest()


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
