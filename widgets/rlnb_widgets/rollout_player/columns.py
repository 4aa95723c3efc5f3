"""Compact encoding of columns of numbers: deflated, and shifted copies are sent once."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from rlnb_widgets._core.display import narrowest


class PackedColumns:
    """A growing list of columns ``[E * T]``, and the bytes that hold them.

    Each column is described by a small dict: ``{"k": kind, "o": offset}`` for numbers at a byte offset, or
    ``{"s": column, "k", "o", "x", "n"}`` for a copy of another column moved one step ahead, except at the *n* rows
    listed as int32 at ``x``, whose values are at ``o``. These are too far away for `deflated`, which finds all
    other repeats.

    Args:
        rows: Length of every column.

    Attributes:
        size: Bytes so far.
        described: The descriptions so far.

    Example:
        >>> columns = PackedColumns(4)
        >>> columns.add(np.ones(4)), columns.add(np.array([0, 5, 7, 9]))
        (0, 1)
        >>> columns.add(np.array([5, 7, 9, 2]), ahead_of=1)
        2
        >>> columns.described
        [{'k': 'i1', 'o': 0}, {'k': 'i1', 'o': 4}, {'s': 1, 'k': 'i1', 'o': 8, 'x': 12, 'n': 1}]
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.described: list[dict[str, Any]] = []
        self._data: list[np.ndarray] = []
        self._known: dict[bytes, int] = {}
        self.size = 0
        self._chunks: list[bytes] = []

    @property
    def blob(self) -> bytes:
        """The bytes of all columns."""
        return b"".join(self._chunks)

    def add(self, column: np.ndarray, ahead_of: int | None = None) -> int:
        """Add a column ``[rows]`` and return its number.

        It may be a copy of the column ``ahead_of``, moved one step ahead.
        """
        column = np.ascontiguousarray(column).reshape(self.rows)
        digest = column.dtype.str.encode() + hashlib.blake2b(column.tobytes(), digest_size=16).digest()
        if digest in self._known:
            return self._known[digest]
        description = self._shifted(column, ahead_of)
        if description is None:
            kind, packed = _narrow(column)
            description = {"k": kind, "o": self._put(packed)}
        self._known[digest] = len(self.described)
        self.described.append(description)
        self._data.append(column)
        return len(self.described) - 1

    def _shifted(self, column: np.ndarray, ahead_of: int | None) -> dict[str, Any] | None:
        if ahead_of is None or "s" in self.described[ahead_of]:
            return None
        source = self._data[ahead_of]
        if source.dtype != column.dtype:
            return None
        odd = np.append(np.flatnonzero(~_same(column[:-1], source[1:])), self.rows - 1).astype(np.int32)
        if len(odd) > self.rows // 4:
            return None
        kind, packed = _narrow(column[odd])
        where = self._put(packed)
        return {"s": ahead_of, "k": kind, "o": where, "x": self._put(odd), "n": len(odd)}

    def _put(self, data: np.ndarray) -> int:
        offset = self.size
        raw = data.tobytes()
        raw += b"\0" * (-len(raw) % 4)
        self._chunks.append(raw)
        self.size += len(raw)
        return offset


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a == b) | ((a != a) & (b != b)))


def _whole(column: np.ndarray) -> bool:
    # Rewards and returns are often whole numbers, which fit into one or two bytes.
    return bool(np.isfinite(column).all() and (np.abs(column) < 2**31).all() and (column == np.rint(column)).all())


def _narrow(column: np.ndarray) -> tuple[str, np.ndarray]:
    if column.dtype.kind == "f" and _whole(column):
        column = column.astype(np.int64)
    if column.dtype.kind in "biu" and (found := narrowest(column))[0] != "f8":
        return found
    if column.dtype == np.float32:
        return "f4", column
    wide = column.astype(np.float64)
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
    exact = (single == wide) | np.isnan(wide)
    return ("f4", single) if exact.all() else ("f8", wide)
