"""The head of a saved storage: how much is in it, what an element looks like, and whether it fits a storage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rlnb.data.replay_buffers.checkpointers.plain import Encoder, decode
from rlnb.data.replay_buffers.faults import checkpoints as faults
from rlnb.data.replay_buffers.forms import Form, Leaf, form_from
from rlnb.data.replay_buffers.forms.structure import dtype_named, read_shape
from rlnb.data.ted.keys import as_key, as_tuple

Path = tuple[Any, ...]
_MOST = 1 << 48
_WIDEST = 1 << 20  # elements in a row; more only where the storage has room for more


@dataclass
class Head:
    """What is saved of a storage beside its elements.

    Attributes:
        cursor: the row that is written next.
        length: how many rows are filled.
        written: how many rows were ever written.
        rows: how many rows there is room for.
        others: the dimensions beside time that count elements.
        leaves: what the leaves of an element look like, by their paths; None if nothing was ever written.
        form: the description of the form; None if it has none that JSON can hold.
        checked: whether the checksums of all files were compared just now.
    """

    cursor: int
    length: int
    written: int
    rows: int
    others: tuple[int, ...]
    leaves: dict[Path, Leaf] | None
    form: dict[str, Any] | None
    checked: bool = False

    @property
    def width(self) -> int:
        """How many elements a row has."""
        return math.prod(self.others)

    def fits(self, storage: Any) -> None:
        """Refuse a storage that cannot take what was saved.

        Args:
            storage: of contiguous memory.

        Raises:
            ValueError: if it has another capacity, or holds other data.
        """
        known = storage.form is not None
        if self.leaves is None:
            own = [storage.ring.size, *storage._others] if known else [storage._asked_size]
            if math.prod(own) != self.rows:
                raise ValueError(faults.other_capacity([self.rows], own))
            return
        own = [storage.ring.size, *storage._others] if known else [storage._asked_size]
        rows = own[0] if known else -(-own[0] // self.width)
        fits = own[1:] == list(self.others) if known else self.width <= max(own[0], _WIDEST)
        if storage.ndim != 1 + len(self.others) or rows != self.rows or not fits:
            own += [1] * (storage.ndim - len(own))
            raise ValueError(faults.other_capacity([self.rows, *self.others], own))
        if not known:
            if self.form is None:
                raise ValueError(faults.no_structure())
            return
        here = {as_tuple(leaf.key): leaf for leaf in storage.form.leaves}
        differ = [
            (as_key(path), _shown(self.leaves.get(path)), _shown(here.get(path)))
            for path in {**self.leaves, **here}
            if _shown(self.leaves.get(path)) != _shown(here.get(path))
        ]
        if differ:
            raise ValueError(faults.other_data(differ))

    def make_form(self) -> Form:
        """Make the form of the elements.

        Raises:
            ValueError: if the description makes no sense.
        """
        assert self.form is not None and self.leaves is not None
        form = form_from(self.form)
        if {as_tuple(leaf.key): _shown(leaf) for leaf in form.leaves} != {
            path: _shown(leaf) for path, leaf in self.leaves.items()
        }:
            raise ValueError("its form and its list of entries differ")
        return form


def _shown(leaf: Leaf | None) -> str:
    if leaf is None:
        return "nothing"
    return "non-tensor data" if leaf.dtype is None else f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"


def head_of(storage: Any) -> Any:
    """Describe a storage in plain values.

    Args:
        storage: of contiguous memory.

    Returns:
        What JSON can hold.
    """
    ring, form = storage.ring, storage.form
    state = {"cursor": ring.cursor, "length": ring.length, "written": ring.written, "others": list(storage._others)}
    if form is None:
        return {**state, "rows": storage.max_size, "leaves": None, "form": None}
    plain = Encoder(None, "key")
    leaves = [
        [plain.encode(list(as_tuple(leaf.key))), list(leaf.shape), None if leaf.dtype is None else _dtype(leaf)]
        for leaf in form.leaves
    ]
    try:
        description = plain.encode(form.describe())
    except (NotImplementedError, TypeError, ValueError):  # such as a namedtuple, which only code can make
        description = None
    return {**state, "rows": ring.size, "leaves": leaves, "form": description}


def _dtype(leaf: Leaf) -> str:
    return str(leaf.dtype).removeprefix("torch.")


def read_head(plain: Any) -> Head:
    """Read what :func:`head_of` returned.

    Args:
        plain: what a file held.

    Returns:
        The head.

    Raises:
        ValueError: if it makes no sense; it may also be another error of a wrong type or key.
    """
    counts = [plain[name] for name in ("cursor", "length", "written", "rows")]
    others = tuple(plain["others"])
    if not all(type(count) is int and 0 <= count < _MOST for count in (*counts, *others)):
        raise ValueError("a count that is none")
    cursor, length, written, rows = counts
    if length > rows or cursor >= max(rows, 1) or 0 in others or math.prod((rows, *others)) >= _MOST:
        raise ValueError(f"{length} of {rows} rows are filled, and {cursor} is the next")
    leaves: dict[Path, Leaf] | None = None
    if plain["leaves"] is not None:
        leaves = {}
        for parts, shape, dtype in plain["leaves"]:
            path = tuple(decode(parts, None, "key"))
            leaves[path] = Leaf(as_key(path), read_shape(shape), None if dtype is None else dtype_named(dtype))
    elif length:
        raise ValueError(f"{length} rows of nothing")
    return Head(cursor, length, written, rows, others, leaves, decode(plain["form"], None, "key"))
