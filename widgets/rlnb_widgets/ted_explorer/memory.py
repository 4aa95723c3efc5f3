"""Which tensors of two TensorDicts are in the same memory, so that a write to one changes the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from tensordict import LazyStackedTensorDict, is_non_tensor, is_tensor_collection

from rlnb_widgets.ted_explorer.entries import Path

SAME, PART = "same memory", "overlapping memory"


class _Span(NamedTuple):
    """The bytes of a tensor in a block of memory or in a file."""

    block: str | int  #: name of the file, or address of the block
    start: int  #: offset of the first byte
    stop: int  #: offset behind the last byte


def sharing_of(td: Any, other: Any) -> dict[Path, str]:
    """Return the paths of the tensors of ``td`` that share memory with ``other``, and how in words.

    Memory-mapped tensors share if they map the same file, even where they are mapped to two addresses. A lazy stack
    shares what one of its pieces shares.

    Example:
        >>> from tensordict import TensorDict
        >>> td = TensorDict({"a": torch.zeros(4), "b": torch.zeros(4)}, [4])
        >>> sharing_of(td, TensorDict({"a": td["a"], "b": td["b"].clone()}, [4]))
        {('a',): 'same memory'}
        >>> sharing_of(td, td[1:].exclude("a"))
        {('b',): 'overlapping memory'}
    """
    blocks: dict[str | int, list[tuple[Path, _Span]]] = {}
    for path, span in _spans(other, ()):
        blocks.setdefault(span.block, []).append((path, span))
    found: dict[Path, list[str]] = {}
    for path, span in _spans(td, ()):
        places = blocks.get(span.block, ())
        same = any(span == place and path == there for there, place in places)
        part = any(span.start < place.stop and place.start < span.stop for _, place in places)
        found.setdefault(path, []).append(SAME if same else PART if part else "")
    return {path: kinds[0] if len({*kinds}) == 1 else PART for path, kinds in found.items() if any(kinds)}


def _spans(value: Any, path: Path) -> Iterator[tuple[Path, _Span]]:
    if isinstance(value, LazyStackedTensorDict):
        for piece in value.tensordicts:
            yield from _spans(piece, path)
    elif is_tensor_collection(value):
        if not is_non_tensor(value):
            for key in value.keys():  # noqa: SIM118 - iterating a TensorDict iterates its rows
                yield from _spans(value.get(key), (*path, key))
    elif isinstance(value, torch.Tensor) and value.numel() and not value.is_meta:
        with contextlib.suppress(RuntimeError, NotImplementedError):  # sparse tensors and the like have no block
            yield path, _span(value)


def _span(tensor: Any) -> _Span:
    memory = tensor.untyped_storage()
    block: str | int = memory.data_ptr()
    with contextlib.suppress(AttributeError, RuntimeError):  # plain tensors, and files without a name
        block = str(tensor.filename)
    start = tensor.storage_offset()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return _Span(block, start * tensor.itemsize, (start + last + 1) * tensor.itemsize)
