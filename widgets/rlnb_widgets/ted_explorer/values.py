"""Values of TED data for the page, within a byte budget, so that the playhead needs no Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlnb_widgets._core.text import object_text, values_text
from rlnb_widgets.ted_explorer.entries import Path, TedEntry, ted_entries
from rlnb_widgets.ted_explorer.numbers import as_array
from rlnb_widgets.ted_explorer.schema import Side

BUDGET = 2_000_000  # bytes
FEATURES = 8  # numbers sent of one leaf for one step; the page shows no more
MAX_TEXTS = 2_000  # of one non-tensor leaf

Ref = dict[str, Any]
Refs = dict[tuple[Side, Path], Ref]


def pack_values(td: Any, following: Any, budget: int = BUDGET) -> tuple[bytes, Refs]:
    """Pack the first numbers of each leaf at each step, smallest leaves first, into at most ``budget`` bytes.

    Returns the bytes, and for each leaf where it lies: ``kind`` (``"f4"``, ``"f8"``, ``"u1"``), ``at`` (byte offset),
    ``n`` (numbers of one step), ``of`` (numbers that the leaf has), flags ``bool`` and ``complex``; or ``texts``; or
    ``why`` it was left out. Order of the numbers: batch element, step, feature. Nothing is packed without ``"next"``.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> td = TensorDict({"next": {"reward": torch.ones(5, 1)}}, [5])
        >>> pack_values(td, td["next"])[1]["next", ("reward",)]
        {'kind': 'f4', 'n': 1, 'of': 1, 'at': 0}
    """
    if following is None or not td.batch_size:
        return b"", {}
    shape = tuple(td.batch_size)
    refs: Refs = {}
    packed: list[tuple[int, tuple[Side, Path], np.ndarray, Ref]] = []
    for key, entry in _leaves(td, following):
        try:
            refs[key], array = _pack(entry, shape)
        except Exception as error:
            refs[key], array = {"why": f"the values cannot be read: {type(error).__name__}"}, None
        if array is not None:
            packed.append((array.nbytes, key, array, refs[key]))
    chunks: list[bytes] = []
    used = 0
    for nbytes, key, array, ref in sorted(packed, key=lambda item: item[0]):
        size = -(-nbytes // 8) * 8
        if used + size > budget:
            refs[key] = {"why": "left out of the page, which would get too large"}
            continue
        ref["at"] = used
        chunks.append(array.tobytes().ljust(size, b"\0"))
        used += size
    return b"".join(chunks), refs


def _leaves(td: Any, following: Any) -> Any:
    sides: tuple[tuple[Side, Any, frozenset[str]], ...] = (
        ("root", td, frozenset({"next"})),
        ("next", following, frozenset()),
    )
    for side, data, skip in sides:
        for entry in ted_entries(data, skip):
            if entry.kind in ("leaf", "non-tensor", "ragged"):
                yield (side, entry.path), entry


def _pack(entry: TedEntry, shape: tuple[int, ...]) -> tuple[Ref, np.ndarray | None]:
    if entry.kind == "ragged":
        return _varying(entry.value, shape), None
    if entry.kind == "non-tensor":
        return _texts(entry.value, shape), None
    tensor = entry.value.detach()
    features = math.prod(tensor.shape[len(shape) :])
    if features == 0 or tensor.numel() == 0:
        return {"why": "no elements"}, None
    # cut before the conversion: a view of an image leaf, not a copy of it
    some = tensor.reshape(*shape, features)[..., :FEATURES]
    array = as_array(some)
    ref: Ref = {"kind": "f4", "n": array.shape[-1], "of": features}
    if array.dtype.kind == "c":
        ref["complex"] = True
        array = np.stack([array.real, array.imag], -1)
    if array.dtype.kind == "b":
        ref["bool"] = True
    if array.dtype.kind == "b" or array.dtype == np.uint8:
        ref["kind"] = "u1"
        return ref, np.ascontiguousarray(array).view(np.uint8)
    if array.dtype.kind in "iu":
        largest = max(abs(int(array.max())), abs(int(array.min())))
        if largest > 2**53:
            return {"why": "these whole numbers are too large for the page"}, None
        if largest > 2**24:
            ref["kind"] = "f8"
    return ref, np.ascontiguousarray(array, dtype=np.float64 if ref["kind"] == "f8" else np.float32)


def _varying(elements: np.ndarray, shape: tuple[int, ...]) -> Ref:
    """Return the values of an entry whose shape varies from step to step, as text."""
    if math.prod(shape) > MAX_TEXTS:
        return {"why": "the sizes vary, over too many steps for the page"}
    rows = elements.reshape(math.prod(shape), -1)
    return {"texts": ["; ".join(_sized(value) for value in row[:FEATURES]) for row in rows]}


def _sized(value: Any) -> str:
    return "missing" if value is None else f"{list(value.shape)} {values_text(as_array(value))}"


def _texts(value: Any, shape: tuple[int, ...]) -> Ref:
    data = value.tolist()
    if not isinstance(data, list):
        return {"texts": [object_text(data)]}
    if math.prod(shape) > MAX_TEXTS:
        return {"why": "too many objects for the page"}
    for _ in shape[1:]:
        data = [item for part in data for item in part]
    texts = [object_text(item) for item in data]
    return {"texts": texts[:1] if len(set(texts)) == 1 else texts}
