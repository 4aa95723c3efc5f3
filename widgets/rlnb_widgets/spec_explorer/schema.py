"""Data model of a spec explorer: rows, domains, and differences between two specs."""

from __future__ import annotations

from dataclasses import dataclass

from rlnb_widgets._core.dims import Dim, dims_text
from rlnb_widgets._core.spec_domain import Domain
from rlnb_widgets._core.spec_entries import Path

#: A spec of at most so many rows is shown whole.
FEW = 6


@dataclass(frozen=True)
class Cell:
    """One spec, without its entries."""

    kind: str  #: name of the class
    dims: tuple[Dim, ...]  #: the shape, with batch and feature dimensions
    dtype: str  #: ``"float32"`` and so on; empty if its entries have several
    device: str  #: ``"cpu"`` and so on; empty if its entries have several
    domain: Domain  #: the values that it allows
    space: str = ""  #: the gymnasium space that it converts to; empty if there is none
    why: str = ""  #: the reason if there is no such space

    @property
    def shape(self) -> str:
        """The shape as text, such as ``[B=4 | 3]``."""
        return dims_text(self.dims)


@dataclass(frozen=True)
class Difference:
    """One difference between the spec and the other one."""

    #: ``"only here"``, ``"only in the other"``, ``"class"``, ``"shape"``, ``"dtype"``, ``"device"``, ``"domain"`` or
    #: ``"details"``
    kind: str
    here: str = ""  #: the value in this spec
    other: str = ""  #: the value in the other spec

    def text(self) -> str:
        """Return the difference in one line.

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
    """One row of the tree."""

    path: Path  #: the keys, ``"[0]"`` and so on for the members of a stack; empty for the spec itself
    leaf: bool  #: whether it has no entries
    code: str  #: code that reads it, such as ``spec["a", "b"]``
    cell: Cell  #: the spec (from the other spec if this one lacks the entry)
    differences: tuple[Difference, ...] = ()  #: differences from the other spec

    @property
    def here(self) -> bool:
        """Whether the entry is in this spec."""
        return all(difference.kind != "only in the other" for difference in self.differences)


@dataclass(frozen=True)
class SpecModel:
    """The data that a spec explorer shows, without samples."""

    name: str  #: name of the spec in code: ``"spec"`` or ``"env.specs"``
    rows: tuple[Row, ...]  #: the tree, parents before children; the first row is the spec itself
    compared: bool = False  #: whether the spec was compared with another one

    @property
    def leaves(self) -> int:
        """Number of leaves of this spec."""
        return sum(row.leaf and row.here for row in self.rows)

    @property
    def opening(self) -> tuple[Row, ...]:
        """The rows shown at first: leaves and differences of a large spec that is mostly Composites, else all."""
        leaves = tuple(row for row in self.rows if row.leaf or row.differences)
        return leaves if len(self.rows) > FEW and 2 * len(leaves) < len(self.rows) else self.rows

    def row(self, *path: str) -> Row:
        """Return the row of a path; without keys that of the spec itself.

        Raises:
            KeyError: If there is no such row; the text lists the existing paths.
        """
        for row in self.rows:
            if row.path == path:
                return row
        names = ", ".join(repr(row.path if len(row.path) > 1 else row.path[0]) for row in self.rows[1:31])
        raise KeyError(f"no entry {path!r} in the spec; it has {names or 'no entries'}.")
