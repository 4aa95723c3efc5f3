"""Data model of a spec explorer: rows, domains, and differences between two specs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlnb_widgets._core.dims import Dim, shape_text

Path = tuple[str, ...]
LaneKind = Literal["line", "choices", "cells", "bits"]
DomainKind = Literal[
    "interval",
    "any",
    "choices",
    "one-hot",
    "binary",
    "multi",
    "non-tensor",
    "composite",
    "stack",
    "choice",
    "nothing",
    "unknown",
]


@dataclass(frozen=True)
class Lane:
    """One line of the picture of a domain: all elements that may take the same values.

    Args:
        kind: ``"line"`` (numbers between two ends), ``"choices"`` (a few integers), ``"cells"`` (the places of a
            one-hot vector) or ``"bits"`` (entries that are 0 or 1).
        label: which elements it is about, such as ``"[0]"``; empty for all.
        low: the lower end of a line, ``None`` where it is open.
        high: the upper end of a line, ``None`` where it is open.
        view: the stretch of numbers that the picture of a line shows.
        whole: whether only whole numbers are legal on a line.
        n: how many choices, cells or bits there are.
        start: the number of the first choice.
        barred: which of the choices are masked out, counted from 0.
        elements: flat indices of the elements of a value that it is about; ``None`` for all.
        begin: where its cells begin along the last dimension.
    """

    kind: LaneKind
    label: str = ""
    low: float | None = None
    high: float | None = None
    view: tuple[float, float] = (0.0, 1.0)
    whole: bool = False
    n: int = 0
    start: int = 0
    barred: tuple[int, ...] = ()
    elements: tuple[int, ...] | None = None
    begin: int = 0


@dataclass(frozen=True)
class Domain:
    """Which values a spec allows.

    Args:
        kind: what sort of domain it is.
        text: the domain in one line.
        lanes: its picture, line by line.
        more: how many lanes there are beyond those.
        note: what is special about it; the ``repr`` of a spec of unknown kind.
    """

    kind: DomainKind
    text: str
    lanes: tuple[Lane, ...] = ()
    more: int = 0
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """One spec, without its parts.

    Args:
        kind: the class.
        dims: the shape, batch dimensions told apart from feature dimensions.
        dtype: ``"float32"`` and so on; empty where there is no single one.
        device: ``"cpu"`` and so on; empty where there is no single one.
        domain: which values it allows.
        space: the gymnasium space it converts to; empty where there is none.
        why: the reason why there is no such space.
    """

    kind: str
    dims: tuple[Dim, ...]
    dtype: str
    device: str
    domain: Domain
    space: str = ""
    why: str = ""

    @property
    def shape(self) -> str:
        """The shape as text, such as ``[B=4 | 3]``."""
        return shape_text(self.dims)


@dataclass(frozen=True)
class Difference:
    """One way in which the spec differs from the other one.

    Args:
        kind: ``"only here"``, ``"only in the other"``, ``"class"``, ``"shape"``, ``"dtype"``, ``"device"``,
            ``"domain"`` or ``"details"``.
        here: what this spec has.
        other: what the other spec has.
    """

    kind: str
    here: str = ""
    other: str = ""

    def text(self) -> str:
        """The difference in one line.

        Example:
            >>> Difference("shape", "[3]", "[4]").text()
            'shape: [3] here, [4] in the other'
        """
        if self.kind == "only here":
            return f"only here: {self.here}"
        if self.kind == "only in the other":
            return f"only in the other: {self.other}"
        if self.kind == "details":
            return "they are unequal, though shape, dtype and domain look alike"
        return f"{self.kind}: {self.here} here, {self.other} in the other"


@dataclass(frozen=True)
class Row:
    """One line of the tree.

    Args:
        path: the keys, ``"[0]"`` and so on for the members of a stack; empty for the spec itself.
        leaf: whether it has no entries of its own.
        code: how it is read in code, such as ``spec["a", "b"]``.
        cell: the spec there (of the other spec where this one has none).
        differences: in what it differs from the other spec.
    """

    path: Path
    leaf: bool
    code: str
    cell: Cell
    differences: tuple[Difference, ...] = ()

    @property
    def here(self) -> bool:
        """Whether the entry is in this spec."""
        return all(difference.kind != "only in the other" for difference in self.differences)


@dataclass(frozen=True)
class SpecModel:
    """Everything that a spec explorer shows, apart from samples.

    Args:
        name: what the spec is called in code: ``"spec"`` or ``"env.specs"``.
        rows: the tree, parents before children; the first row is the spec itself.
        compared: whether there is another spec to differ from.
    """

    name: str
    rows: tuple[Row, ...]
    compared: bool = False

    @property
    def leaves(self) -> int:
        """How many leaves this spec has."""
        return sum(row.leaf and row.here for row in self.rows)

    def row(self, *path: str) -> Row:
        """The row of a path.

        Args:
            *path: the keys; none for the spec itself.

        Raises:
            KeyError: there is none; the text lists the paths there are.
        """
        for row in self.rows:
            if row.path == path:
                return row
        names = ", ".join(repr(row.path if len(row.path) > 1 else row.path[0]) for row in self.rows[1:31])
        raise KeyError(f"no entry {path!r} in the spec; it has {names or 'no entries'}.")
