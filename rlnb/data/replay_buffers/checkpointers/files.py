"""Files of a checkpoint: tensors as raw bytes, JSON documents, and a manifest with the checksum of every file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import torch
import xxhash

from rlnb.data.replay_buffers.checkpointers import errors

FORMAT = "rlnb-checkpoint-2"
MANIFEST = "checkpoint.json"
MARK = ".rlnb"  # an empty file in each folder that was made for a checkpoint: no other folder is ever deleted
PARTS = ("storage", "state")  # the folders of a checkpoint
PIECE_BYTES = 1 << 20  # read and written at once, so that no second copy of the data is made

# Tensors --------------------------------------------------------------------------------------------------------------


def write_tensor(path: Path, blocks: Iterable[torch.Tensor]) -> None:
    """Write a tensor as the bytes it has in memory.

    Args:
        path: Path of the file.
        blocks: Blocks ``[rows, ...]`` that make up the tensor, on any device.
    """
    with path.open("wb", buffering=0) as file:
        for block in blocks:
            for piece in [block] if _is_plain(block) else _pieces(block):
                data = _as_bytes(piece.detach().cpu().resolve_conj().resolve_neg().contiguous())
                for start in range(0, len(data), PIECE_BYTES):
                    _write(file, data[start : start + PIECE_BYTES])


def _write(file: Any, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


def read_tensor(path: Path, into: torch.Tensor, offset: int = 0) -> None:
    """Fill a tensor with the bytes of a file.

    Args:
        path: Path of the file. It may be missing if the tensor has no elements.
        into: Tensor ``[rows, ...]``, on any device.
        offset: Where to start, in bytes.

    Raises:
        ValueError: If the file ends before the tensor is full.
    """
    if not into.numel():
        return
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        if _is_plain(into):
            _read(file, _as_bytes(into), path)
            return
        for piece in _pieces(into):
            copy = torch.empty(piece.shape, dtype=piece.dtype)
            _read(file, _as_bytes(copy), path)
            piece.copy_(copy)


def _read(file: Any, data: memoryview, path: Path) -> None:
    while data:
        count = file.readinto(data[:PIECE_BYTES])
        if not count:
            raise ValueError(errors.damaged(path))
        data = data[count:]


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor holds its bytes in order."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    row = max(tensor[:1].numel() * tensor.element_size(), 1)
    return tensor.split(max(PIECE_BYTES // row, 1))


def _as_bytes(tensor: torch.Tensor) -> memoryview:
    # A dimension of size 1 may have any stride, which ``view`` with another dtype refuses.
    flat = tensor.detach().as_subclass(torch.Tensor).as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().data


def check_bytes(path: Path, expected: int) -> None:
    """Raise ``ValueError`` if a file does not have the size of its tensor, before memory is allocated for it."""
    if not path.is_file() and expected:
        raise ValueError(errors.missing(path))
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
        raise ValueError(errors.missing(path))
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(errors.damaged(path)) from error


# The manifest ---------------------------------------------------------------------------------------------------------


def seal(folder: Path) -> None:
    """Write the manifest of a checkpoint, which lists the size and the checksum of every file."""
    files = {name: [path.stat().st_size, _checksum(path)] for name, path in _files_in(folder).items()}
    write_document(folder / MANIFEST, {"format": FORMAT, "checksum": _checksum_of(files), "files": files})


def verify(folder: Path) -> None:
    """Compare every file of a checkpoint with the manifest.

    Args:
        folder: Folder of the checkpoint.

    Raises:
        ValueError: If a file is missing, cut short or altered, or the checkpoint has another format.
    """
    manifest, there = read_document(folder / MANIFEST), _files_in(folder)
    known = manifest.get("format") if isinstance(manifest, dict) else None
    if known not in (None, FORMAT):
        raise ValueError(
            f"The file {errors.name_of(folder / MANIFEST)!r} has the format {str(known)[:60]!r}, and this "
            f"version reads {FORMAT!r} only. {errors.KEPT} "
            "Fix: load it with the version that wrote it, or save the buffer again with dumps."
        )
    files = manifest.get("files") if known else None
    if not isinstance(files, dict) or manifest.get("checksum") != _checksum_of(files):
        raise ValueError(errors.damaged(folder / MANIFEST))
    for name, note in files.items():
        if not isinstance(note, list) or [type(each) for each in note] != [int, str]:
            raise ValueError(errors.damaged(folder / MANIFEST))
        if name not in there:
            raise ValueError(errors.missing(PurePosixPath(name)))
        size = there[name].stat().st_size
        if size != note[0]:
            raise ValueError(
                f"The file {errors.name_of(there[name])!r} of the checkpoint has {size:,} bytes, and had {note[0]:,} "
                f"when it was written. It was cut short or altered. {errors.KEPT} {errors.AGAIN}"
            )
    for name, (_, checksum) in files.items():
        if _checksum(there[name]) != checksum:
            raise ValueError(errors.damaged(there[name]))


def _files_in(folder: Path) -> dict[str, Path]:
    """Return the files of a checkpoint by their names in the manifest."""
    paths = sorted(path for part in PARTS for path in (folder / part).rglob("*") if path.name != MARK)
    return {path.relative_to(folder).as_posix(): path for path in paths if path.is_file() and not path.is_symlink()}


def _checksum(path: Path) -> str:
    # XXH3 takes a seventh of the time of ``zlib.crc32``, which would be as long as reading from a fast disk.
    digest, buffer = xxhash.xxh3_64(), memoryview(bytearray(PIECE_BYTES))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()


def _checksum_of(content: Any) -> str:
    return xxhash.xxh3_64_hexdigest(json.dumps(content).encode())


# The disk -------------------------------------------------------------------------------------------------------------


def files_first(folder: Path) -> Iterator[Path]:
    """Iterate over what lies in a folder, each folder after its content, and last the folder itself."""
    for child in sorted(folder.iterdir()):
        if child.name != MARK:
            yield from files_first(child) if child.is_dir() else [child]
    yield folder


def sync(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot, and keeps its folders without
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
