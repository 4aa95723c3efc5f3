"""The leaves of a saved storage: a raw file for tensors, lines of JSON for objects."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlnb.data.replay_buffers.checkpointers.files import Note, RawReader, check_size, read_raw, write_raw
from rlnb.data.replay_buffers.checkpointers.head import Head
from rlnb.data.replay_buffers.checkpointers.plain import Encoder, decode
from rlnb.data.replay_buffers.columns import AnyColumn, ObjectColumn
from rlnb.data.replay_buffers.forms import Leaf

_LINE = 1024  # objects in a line


def file_name(number: int, path: tuple[Any, ...], kind: str = "raw") -> str:
    """Name the file of a leaf: for people by its key, and by its number so that no two are the same.

    Args:
        number: of the leaf.
        path: its key.
        kind: the end of the name.

    Returns:
        The name.

    Example:
        >>> file_name(3, ("next", "a/b"))
        '3.next.a_b.raw'
    """
    label = ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", str(part))[:40] for part in path)
    return f"{number}.{label or 'data'}.{kind}"[-120:] if label else f"{number}.data.{kind}"


def write_leaf(column: AnyColumn, length: int, path: tuple[Any, ...], file: Path) -> Note:
    """Write the filled part of a column.

    Args:
        column: the memory of the leaf.
        length: how many rows are filled.
        path: the key of the leaf, for errors.
        file: to write.

    Returns:
        What the file must look like.
    """
    if isinstance(column, ObjectColumn):
        return write_raw(file, _lines(column, length, path))
    return write_raw(file, [column.rows(slice(length))])


def _lines(column: ObjectColumn, length: int, path: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    objects, plain = column.array[:length].reshape(-1), Encoder(None, "objects")
    for start in range(0, len(objects), _LINE):
        values = [plain.encode(value, path) for value in objects[start : start + _LINE]]
        yield torch.frombuffer(bytearray(json.dumps(values).encode() + b"\n"), dtype=torch.uint8)


def check_leaf(leaf: Leaf, head: Head, note: Note, file: Path, whole: bool) -> None:
    """Refuse a file that does not fit a leaf.

    Args:
        leaf: what an element looks like.
        head: of the storage.
        note: what the file must look like.
        file: the file.
        whole: whether to read it.

    Raises:
        ValueError: if it does not fit.
    """
    if leaf.dtype is None:
        read_objects(head, note, file)
        return
    check_tensor(file, note, head.length * head.width * leaf.shape.numel() * leaf.dtype.itemsize, whole)


def check_tensor(file: Path, note: Note, size: int, whole: bool) -> None:
    """Refuse a file of tensors.

    Args:
        file: the file.
        note: what it must look like.
        size: how many bytes it must have.
        whole: whether to read it.

    Raises:
        ValueError: if it is damaged or of another size.
    """
    if note["bytes"] != size:
        raise ValueError(f"{note['bytes']} bytes for {size}")
    if whole:
        read_raw(file, note, [])
    else:
        check_size(file, note)


def read_leaf(column: AnyColumn, head: Head, note: Note, file: Path) -> None:
    """Read a file into a column.

    Args:
        column: the memory of the leaf.
        head: of the storage.
        note: what the file must look like.
        file: the file.

    Raises:
        ValueError: if it is damaged.
    """
    if isinstance(column, ObjectColumn):
        objects = read_objects(head, note, file)
        column.array[: head.length].reshape(-1)[:] = objects
        return
    read_raw(file, note, [column.rows(slice(head.length))], head.checked)


def read_objects(head: Head, note: Note, file: Path) -> np.ndarray:
    """Read the objects of a leaf.

    Args:
        head: of the storage.
        note: what the file must look like.
        file: the file.

    Returns:
        An array of them, of one dimension.

    Raises:
        ValueError: if the file is damaged, or there are not as many.
    """
    count = head.length * head.width
    if note["bytes"] < 2 * count:
        raise ValueError(f"{note['bytes']} bytes for {count} objects")
    with RawReader(file, note) as reader:
        text = torch.empty(note["bytes"], dtype=torch.uint8)
        reader.into(text)
        reader.finish()
    objects: list[Any] = []
    for line in text.numpy().tobytes().splitlines():
        objects += map(functools.partial(decode, folder=None, label="objects"), json.loads(line))
    if len(objects) != count:
        raise ValueError(f"{len(objects)} objects for {count}")
    array = np.empty(count, dtype=object)
    for place, value in enumerate(objects):  # one by one: numpy would look into lists
        array[place] = value
    return array
