"""Data model of a TED explorer: rows, cells and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlnb_widgets._core.dims import Dim, shape_text

if TYPE_CHECKING:
    from rlnb_widgets.ted_explorer.verdicts import Verdict

Side = Literal["root", "next"]


@dataclass(frozen=True)
class Stats:
    """What the numbers of one leaf are like.

    Args:
        count: how many numbers were looked at.
        low: the smallest finite one; ``None`` if there is none.
        mean: the mean of the finite ones; ``None`` if there is none.
        high: the largest finite one; ``None`` if there is none.
        nan: how many are NaN.
        inf: how many are infinite.
        of: ``"value"``, or ``"|z|"`` where the absolute values of complex numbers were taken.
        sampled: whether only every n-th element was looked at, because the leaf is very large.
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
    """A tiny picture of a leaf: levels from 0 (the smallest value) to 63 (the largest), -1 for a gap.

    Args:
        kind: ``"spark"`` (a line over time), ``"band"`` (pairs of the smallest and largest of each share of the time),
            ``"heat"`` (features down, time across) or ``"hist"`` (a histogram).
        rows: rows of the picture (1 unless a heat map).
        levels: row after row.
    """

    kind: Literal["spark", "band", "heat", "hist"]
    rows: int
    levels: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """One entry on one side (root or ``"next"``).

    Args:
        dtype: ``"float32"`` and so on; ``"TensorDict"`` for a node, the Python type for non-tensor data.
        device: ``"cpu"`` and so on; empty where there is none.
        dims: the shape.
        nbytes: bytes of the data; ``None`` where that is not known.
        storage: ``"in memory"``, ``"shared"``, ``"memory-mapped"``, ``"lazily stacked"`` or ``"non-tensor"``.
        stats: of numeric leaves.
        thumb: of numeric leaves.
        preview: the value in a few words, where it does not depend on the time (non-tensor data, no time dimension).
        message: why the entry could not be summarised, or what is special about it.
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
        """The shape as text, see :func:`shape_text`."""
        return shape_text(self.dims)


@dataclass(frozen=True)
class Carry:
    """What ``step_mdp`` does with one entry, and whether the data agree.

    Args:
        kind: ``"carried"`` (from ``"next"`` to the next root), ``"kept"`` (only in the root, stays there),
            ``"dropped"`` (action or reward), or ``""`` where there is nothing to say (nodes, data without ``"next"``).
        holds: whether ``next[t] == root[t+1]`` inside every episode; ``None`` where that cannot be asked.
        index: the first index (in ``"next"``) where it does not hold.
        next_value: the value in ``"next"`` there.
        root_value: the value in the root one step later.
        why: the reason for ``holds=None`` or for a failure that is not about a value.
    """

    kind: Literal["", "carried", "kept", "dropped"] = ""
    holds: bool | None = None
    index: tuple[int, ...] = ()
    next_value: str = ""
    root_value: str = ""
    why: str = ""


@dataclass(frozen=True)
class Finding:
    """Something that does not fit: against the spec, or against the other TED.

    Args:
        side: where it was found.
        kind: ``"missing"``, ``"extra"``, ``"type"``, ``"shape"``, ``"dtype"``, ``"device"``, ``"domain"`` (against a
            spec), ``"only here"``, ``"only in the other"``, ``"shape"``, ``"dtype"``, ``"value"``,
            ``"not compared"`` (against a TED).
        expected: what the spec asks for, or what the other TED has.
        got: what is here.
        index: the first index where it happens; empty where it is not about a value.
        fix: the line that puts it right, where there is one.
    """

    side: Side
    kind: str
    expected: str
    got: str
    index: tuple[int, ...] = ()
    fix: str = ""

    def text(self) -> str:
        """The finding in one line.

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
    """One line of the tree: the entry of the root beside the same entry of ``"next"``.

    Args:
        path: the keys inside one side, for example ``("agents", "reward")``.
        leaf: whether it is a leaf (a node is a nested TensorDict).
        root: the entry at the root, if it is there.
        next: the entry in ``"next"``, if it is there.
        carry: what ``step_mdp`` does with it.
        problems: what does not fit the spec.
        differences: what differs from the other TED.
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
class TedModel:
    """Everything that a TED explorer shows, without the data themselves.

    Args:
        is_ted: whether there is a ``"next"``.
        batch: the batch dimensions without time.
        steps: the length of the time dimension; ``None`` where there is no time dimension.
        rows: the tree, parents before children.
        nbytes: bytes of all leaves whose size is known.
        boundaries: the ends of episodes, at most :data:`MAX_BOUNDARIES`.
        ends: how many ends there are in all.
        past: batch element and step where the root itself is done: a step past the end.
        verdicts: each rule of TED with where it is broken; empty where there is no time or no ``"next"``.
        notes: plain sentences about the whole.
        compared: whether there is another TED to differ from.
        checked: whether there is a spec to hold it against.
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
        """How many leaves there are, root and ``"next"`` counted apart."""
        return sum((row.root is not None) + (row.next is not None) for row in self.rows if row.leaf)

    def row(self, *path: str) -> Row:
        """The row of a path.

        Args:
            *path: the keys inside one side.

        Returns:
            The row.

        Raises:
            KeyError: if there is none; the text lists the paths there are.
        """
        for row in self.rows:
            if row.path == path:
                return row
        names = ", ".join(repr(row.path if len(row.path) > 1 else row.path[0]) for row in self.rows[:30])
        raise KeyError(f"no row {path!r}; there are: {names}")


MAX_BOUNDARIES = 5_000
