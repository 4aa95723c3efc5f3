"""Data model of a TED explorer: rows, cells and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlnb_widgets._core.dims import Dim, dims_text
from rlnb_widgets._core.text import path_text

Side = Literal["root", "next"]


@dataclass(frozen=True)
class Stats:
    """Statistics of the numbers of one leaf."""

    count: int  #: number of numbers
    low: float | None  #: the smallest finite number; None without finite numbers
    mean: float | None  #: the mean of the finite numbers; None without finite numbers
    high: float | None  #: the largest finite number; None without finite numbers
    nan: int = 0  #: number of NaNs
    inf: int = 0  #: number of infinite numbers
    of: str = "value"  #: ``"value"``, or ``"|z|"`` for the absolute values of complex numbers
    sampled: bool = False  #: whether only every n-th number was read, since the leaf is very large


@dataclass(frozen=True)
class Thumb:
    """A thumbnail of a leaf: levels from 0 (the smallest value) to 63 (the largest), -1 for a gap."""

    #: ``"spark"`` (a line over time), ``"band"`` (the smallest and the largest value of each time bin), ``"heat"``
    #: (rows of features over time) or ``"hist"`` (a histogram)
    kind: Literal["spark", "band", "heat", "hist"]
    rows: int  #: number of rows; 1 unless it is a heat map
    levels: tuple[int, ...]  #: the levels, row by row


@dataclass(frozen=True)
class Cell:
    """One entry on one side (root or ``"next"``)."""

    dtype: str  #: ``"float32"`` and so on; ``"TensorDict"`` for a node, the Python type for non-tensor data
    device: str  #: ``"cpu"`` and so on; empty without a device
    dims: tuple[Dim, ...]  #: the shape
    nbytes: int | None  #: bytes of the data; None if not known
    #: ``"in memory"``, ``"shared"``, ``"memory-mapped"``, ``"lazily stacked"``, ``"saved"`` (in a file, not loaded),
    #: ``"no values"`` (on the meta device) or ``"non-tensor"``
    storage: str
    stats: Stats | None = None  #: statistics of a numeric leaf
    thumb: Thumb | None = None  #: thumbnail of a numeric leaf
    preview: str = ""  #: the value as short text, if it does not depend on time (non-tensor data, or no time dimension)
    message: str = ""  #: the reason if the entry cannot be summarised, or a remark about it
    sharing: str = ""  #: ``"same memory"`` or ``"overlapping memory"`` if the other data are there, too

    @property
    def place(self) -> str:
        """Where the values are, in words; empty for memory of their own."""
        storage = "" if self.storage in ("in memory", "non-tensor") else self.storage
        whose = f"{self.sharing} {'as' if self.sharing == 'same memory' else 'with'} other" if self.sharing else ""
        return ", ".join(filter(None, (storage, whose)))

    @property
    def shape(self) -> str:
        """The shape as text; see :func:`dims_text`."""
        return dims_text(self.dims)


@dataclass(frozen=True)
class Carry:
    """What ``step_mdp`` does with one entry, and whether the data agree."""

    #: ``"carried"`` (from ``"next"`` to the next root), ``"kept"`` (only in the root, stays there), ``"dropped"``
    #: (action or reward), or ``""`` (nodes, data without ``"next"``)
    kind: Literal["", "carried", "kept", "dropped"] = ""
    holds: bool | None = None  #: whether ``next[t] == root[t+1]`` inside every episode; None if that is undefined
    index: tuple[int, ...] = ()  #: the first index (in ``"next"``) where it does not hold
    next_value: str = ""  #: the value in ``"next"`` there
    root_value: str = ""  #: the value in the root one step later
    why: str = ""  #: the reason for ``holds=None``, or for a failure that does not concern a value


@dataclass(frozen=True)
class Finding:
    """A mismatch with the spec, or a difference from the other data."""

    side: Side  #: the side of the entry
    #: ``"missing"``, ``"extra"``, ``"type"``, ``"shape"``, ``"dtype"``, ``"device"``, ``"domain"`` (against a spec),
    #: ``"only here"``, ``"only in the other"``, ``"shape"``, ``"dtype"``, ``"value"``, ``"not compared"`` (against
    #: other data)
    kind: str
    expected: str  #: the requirement of the spec, or the value of the other data
    got: str  #: the value of these data
    index: tuple[int, ...] = ()  #: the first index of the mismatch; empty if it does not concern a value
    fix: str = ""  #: a line of code that fixes it; empty if there is none

    def text(self) -> str:
        """Return the finding in one line.

        Example:
            >>> Finding("next", "shape", "[3]", "[4]").text()
            'next: shape: expected [3], got [4]'
        """
        where = f" at {list(self.index)}" if self.index else ""
        if self.kind == "missing":
            return f"{self.side}: in the spec and not in the data: expected {self.expected}"
        if self.kind == "extra":
            return f"{self.side}: in the data and not in the spec"
        if self.kind == "only here":
            return f"{self.side}: only here, the other has none: {self.got}"
        if self.kind == "only in the other":
            return f"{self.side}: only in the other: {self.expected}"
        if self.kind == "not compared":
            return f"{self.side}: could not be compared: {self.got}"
        what = "outside its domain" if self.kind == "domain" else self.kind
        return f"{self.side}: {what}{where}: expected {self.expected}, got {self.got}"


@dataclass(frozen=True)
class Row:
    """One row of the tree: an entry of the root next to the same entry of ``"next"``."""

    path: tuple[str, ...]  #: the keys inside one side, for example ``("agents", "reward")``
    leaf: bool  #: whether it is a leaf (a node is a nested TensorDict)
    root: Cell | None  #: the entry at the root; None if it is missing
    next: Cell | None  #: the entry in ``"next"``; None if it is missing
    carry: Carry = Carry()  #: what ``step_mdp`` does with it
    problems: tuple[Finding, ...] = ()  #: mismatches with the spec
    differences: tuple[Finding, ...] = ()  #: differences from the other data


@dataclass(frozen=True)
class Boundary:
    """The end of an episode."""

    env: int  #: the flat index of the batch element
    t: int  #: the last step of the episode
    #: ``"terminated"``, ``"truncated"``, ``"both"`` or ``"done"`` (the cause is not in the data)
    kind: Literal["terminated", "truncated", "both", "done"]


@dataclass(frozen=True)
class Place:
    """One place where a rule is broken."""

    side: Side | None  #: side of the entry. None: the place is the whole data.
    path: tuple[str, ...]  #: keys of the entry inside of that side
    element: int | None  #: flat index of the batch element. None: all of them.
    t: int | None  #: the step. None: all of them.
    found: str  #: what is wrong there
    cause: str  #: the likely cause
    fix: str  #: the fix

    @property
    def where(self) -> str:
        """Entry and step in a few words."""
        entry = "the whole" if self.side is None else f"{self.side} {path_text(self.path)}".strip()
        if self.t is None:
            return entry
        return f"{entry} at step {self.t}" + (f" of element {self.element}" if self.element else "")


@dataclass(frozen=True)
class Verdict:
    """A rule of TED, and where the data break it."""

    rule: str  #: name of the rule
    sentence: str  #: the rule in words
    places: tuple[Place, ...] = ()  #: where it is broken; empty if it is kept

    @property
    def kept(self) -> bool:
        """Whether the data keep the rule."""
        return not self.places


@dataclass(frozen=True)
class TedModel:
    """The data that a TED explorer shows, without the tensors themselves."""

    is_ted: bool  #: whether there is a ``"next"``
    batch: tuple[int, ...]  #: the batch dimensions without time
    steps: int | None  #: the length of the time dimension; None without one
    rows: tuple[Row, ...]  #: the tree, parents before children
    nbytes: int  #: bytes of all leaves whose size is known
    boundaries: tuple[Boundary, ...] = ()  #: the ends of episodes, at most :data:`MAX_BOUNDARIES`
    ends: int = 0  #: number of ends
    past: tuple[tuple[int, int], ...] = ()  #: batch element and step of steps past an end, whose root is done
    #: each rule of TED, and where it is broken; empty without a time dimension or ``"next"``
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()  #: notes for the reader
    compared: bool = False  #: whether the data were compared with others
    checked: bool = False  #: whether the data were checked against a spec

    @property
    def leaves(self) -> int:
        """Number of leaves, those of the root and of ``"next"`` counted separately."""
        return sum((row.root is not None) + (row.next is not None) for row in self.rows if row.leaf)

    def row(self, *path: str) -> Row:
        """Return the row of a path, which consists of the keys inside one side.

        Raises:
            KeyError: If there is no such row; the text lists the existing paths.
        """
        for row in self.rows:
            if row.path == path:
                return row
        names = ", ".join(repr(row.path if len(row.path) > 1 else row.path[0]) for row in self.rows[:30])
        raise KeyError(f"no row {path!r}; there are: {names}")


MAX_BOUNDARIES = 5_000
