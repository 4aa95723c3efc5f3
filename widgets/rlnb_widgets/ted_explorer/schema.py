"""Data model of a TED explorer: rows, cells and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlnb_widgets._core.dims import Dim, dims_text
from rlnb_widgets._core.text import path_text

Side = Literal["root", "next"]


@dataclass(frozen=True)
class Stats:
    """Statistics of the numbers of one leaf.

    Args:
        count: number of numbers.
        low: the smallest finite number; None without finite numbers.
        mean: the mean of the finite numbers; None without finite numbers.
        high: the largest finite number; None without finite numbers.
        nan: number of NaNs.
        inf: number of infinite numbers.
        of: ``"value"``, or ``"|z|"`` for the absolute values of complex numbers.
        sampled: whether only every n-th number was read, since the leaf is very large.
    """

    count: int
    low: float | None
    mean: float | None
    high: float | None
    nan: int = 0
    inf: int = 0
    of: str = "value"
    sampled: bool = False


@dataclass(frozen=True)
class Thumb:
    """A thumbnail of a leaf: levels from 0 (the smallest value) to 63 (the largest), -1 for a gap.

    Args:
        kind: ``"spark"`` (a line over time), ``"band"`` (the smallest and the largest value of each time bin),
            ``"heat"`` (rows of features over time) or ``"hist"`` (a histogram).
        rows: number of rows; 1 unless it is a heat map.
        levels: the levels, row by row.
    """

    kind: Literal["spark", "band", "heat", "hist"]
    rows: int
    levels: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """One entry on one side (root or ``"next"``).

    Args:
        dtype: ``"float32"`` and so on; ``"TensorDict"`` for a node, the Python type for non-tensor data.
        device: ``"cpu"`` and so on; empty without a device.
        dims: the shape.
        nbytes: bytes of the data; None if not known.
        storage: ``"in memory"``, ``"shared"``, ``"memory-mapped"``, ``"lazily stacked"`` or ``"non-tensor"``.
        stats: statistics of a numeric leaf.
        thumb: thumbnail of a numeric leaf.
        preview: the value as short text, if it does not depend on time (non-tensor data, or no time dimension).
        message: the reason if the entry cannot be summarised, or a remark about it.
    """

    dtype: str
    device: str
    dims: tuple[Dim, ...]
    nbytes: int | None
    storage: str
    stats: Stats | None = None
    thumb: Thumb | None = None
    preview: str = ""
    message: str = ""

    @property
    def shape(self) -> str:
        """The shape as text; see :func:`dims_text`."""
        return dims_text(self.dims)


@dataclass(frozen=True)
class Carry:
    """What ``step_mdp`` does with one entry, and whether the data agree.

    Args:
        kind: ``"carried"`` (from ``"next"`` to the next root), ``"kept"`` (only in the root, stays there),
            ``"dropped"`` (action or reward), or ``""`` (nodes, data without ``"next"``).
        holds: whether ``next[t] == root[t+1]`` inside every episode; None if that is undefined.
        index: the first index (in ``"next"``) where it does not hold.
        next_value: the value in ``"next"`` there.
        root_value: the value in the root one step later.
        why: the reason for ``holds=None``, or for a failure that does not concern a value.
    """

    kind: Literal["", "carried", "kept", "dropped"] = ""
    holds: bool | None = None
    index: tuple[int, ...] = ()
    next_value: str = ""
    root_value: str = ""
    why: str = ""


@dataclass(frozen=True)
class Finding:
    """A mismatch with the spec, or a difference from the other data.

    Args:
        side: the side of the entry.
        kind: ``"missing"``, ``"extra"``, ``"type"``, ``"shape"``, ``"dtype"``, ``"device"``, ``"domain"`` (against a
            spec), ``"only here"``, ``"only in the other"``, ``"shape"``, ``"dtype"``, ``"value"``,
            ``"not compared"`` (against other data).
        expected: the requirement of the spec, or the value of the other data.
        got: the value of these data.
        index: the first index of the mismatch; empty if it does not concern a value.
        fix: a line of code that fixes it; empty if there is none.
    """

    side: Side
    kind: str
    expected: str
    got: str
    index: tuple[int, ...] = ()
    fix: str = ""

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
    """One row of the tree: an entry of the root next to the same entry of ``"next"``.

    Args:
        path: the keys inside one side, for example ``("agents", "reward")``.
        leaf: whether it is a leaf (a node is a nested TensorDict).
        root: the entry at the root; None if it is missing.
        next: the entry in ``"next"``; None if it is missing.
        carry: what ``step_mdp`` does with it.
        problems: mismatches with the spec.
        differences: differences from the other data.
    """

    path: tuple[str, ...]
    leaf: bool
    root: Cell | None
    next: Cell | None
    carry: Carry = Carry()
    problems: tuple[Finding, ...] = ()
    differences: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Boundary:
    """The end of an episode.

    Args:
        env: the flat index of the batch element.
        t: the last step of the episode.
        kind: ``"terminated"``, ``"truncated"``, ``"both"`` or ``"done"`` (the cause is not in the data).
    """

    env: int
    t: int
    kind: Literal["terminated", "truncated", "both", "done"]


@dataclass(frozen=True)
class Place:
    """One place where a rule is broken.

    Args:
        side: side of the entry. None: the place is the whole data.
        path: keys of the entry inside of that side.
        element: flat index of the batch element. None: all of them.
        t: the step. None: all of them.
        found: what is wrong there.
        cause: the likely cause.
        fix: the fix.
    """

    side: Side | None
    path: tuple[str, ...]
    element: int | None
    t: int | None
    found: str
    cause: str
    fix: str

    @property
    def where(self) -> str:
        """Entry and step in a few words."""
        entry = "the whole" if self.side is None else f"{self.side} {path_text(self.path)}".strip()
        if self.t is None:
            return entry
        return f"{entry} at step {self.t}" + (f" of element {self.element}" if self.element else "")


@dataclass(frozen=True)
class Verdict:
    """A rule of TED, and where the data break it.

    Args:
        rule: name of the rule.
        sentence: the rule in words.
        places: where it is broken; empty if it is kept.
    """

    rule: str
    sentence: str
    places: tuple[Place, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether the data keep the rule."""
        return not self.places


@dataclass(frozen=True)
class TedModel:
    """The data that a TED explorer shows, without the tensors themselves.

    Args:
        is_ted: whether there is a ``"next"``.
        batch: the batch dimensions without time.
        steps: the length of the time dimension; None without one.
        rows: the tree, parents before children.
        nbytes: bytes of all leaves whose size is known.
        boundaries: the ends of episodes, at most :data:`MAX_BOUNDARIES`.
        ends: number of ends.
        past: batch element and step of steps past an end, whose root is done.
        verdicts: each rule of TED, and where it is broken; empty without a time dimension or ``"next"``.
        notes: notes for the reader.
        compared: whether the data were compared with others.
        checked: whether the data were checked against a spec.
    """

    is_ted: bool
    batch: tuple[int, ...]
    steps: int | None
    rows: tuple[Row, ...]
    nbytes: int
    boundaries: tuple[Boundary, ...] = ()
    ends: int = 0
    past: tuple[tuple[int, int], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    compared: bool = False
    checked: bool = False

    @property
    def leaves(self) -> int:
        """Number of leaves, those of the root and of ``"next"`` counted separately."""
        return sum((row.root is not None) + (row.next is not None) for row in self.rows if row.leaf)

    def row(self, *path: str) -> Row:
        """Return the row of a path.

        Args:
            *path: the keys inside one side.

        Returns:
            The row.

        Raises:
            KeyError: If there is no such row; the text lists the existing paths.
        """
        for row in self.rows:
            if row.path == path:
                return row
        names = ", ".join(repr(row.path if len(row.path) > 1 else row.path[0]) for row in self.rows[:30])
        raise KeyError(f"no row {path!r}; there are: {names}")


MAX_BOUNDARIES = 5_000
