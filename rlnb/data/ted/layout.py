"""The layout of flat TED data: which entry stood where, so that the TED comes back exactly."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from rlnb.data.ted.columns import Branch, Column, Constant, Path, alike
from rlnb.data.ted.keys import as_key

LAYOUT_KEY = "_layout"
BREAKS_KEY = "_breaks"
ROOT_KEY = "_root"
RESERVED = (LAYOUT_KEY, BREAKS_KEY, ROOT_KEY)


@dataclass
class Layout:
    """Where the entries of flat data belong in the TED.

    Args:
        batch_size: of the TED.
        shared: entries of the root and of "next" that are stored once, with one more for the end of each trajectory.
        root: entries of the root alone.
        next: entries of "next".
        twice: entries of the root that have a namesake in "next" which they do not resemble; stored under "_root".
        unset: end signals of the root that are False throughout, so that nothing is stored of them.
        branches: the nested TensorDicts of the TED.
    """

    batch_size: tuple[int, ...]
    shared: list[Path] = field(default_factory=list)
    root: list[Path] = field(default_factory=list)
    next: list[Path] = field(default_factory=list)
    twice: list[Path] = field(default_factory=list)
    unset: list[Path] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """The number of steps in all rows."""
        return math.prod(self.batch_size)

    def to_json(self) -> str:
        """Write the layout as text.

        Returns:
            JSON.
        """
        lists = {name: getattr(self, name) for name in _LISTS}
        branches = [[list(branch.path), list(branch.extra), branch.names] for branch in self.branches]
        return json.dumps({"batch_size": list(self.batch_size), **lists, "branches": branches})

    @classmethod
    def from_json(cls, text: Any) -> Layout:
        """Read a layout; it may come from a file that somebody else wrote.

        Args:
            text: what :meth:`to_json` wrote.

        Returns:
            The layout.

        Raises:
            ValueError: if the text is no layout.

        Example:
            >>> Layout.from_json(Layout((2, 3), shared=[("observation",)]).to_json()).shared
            [('observation',)]
        """
        try:
            found = json.loads(text)
            batch_size = tuple(found["batch_size"])
            lists = {name: [tuple(path) for path in found[name]] for name in _LISTS}
            branches = [
                Branch(tuple(path), tuple(extra), None if names is None else tuple(names))
                for path, extra, names in found["branches"]
            ]
            paths = [path for listed in lists.values() for path in listed]
            sizes = [*batch_size, *(size for branch in branches for size in branch.extra)]
            whole = (
                all(path and all(isinstance(part, str) for part in path) for path in paths)
                and all(isinstance(part, str) for branch in branches for part in branch.path)
                and all(type(size) is int and 0 <= size < 2**48 for size in sizes)
                and len(batch_size) > 0
            )
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            raise ValueError(_BROKEN.format(f"{type(error).__name__}: {error}")) from error
        if not whole:
            raise ValueError(_BROKEN.format("a key that is no text, or a size that is no count"))
        return cls(batch_size, branches=branches, **lists)


_LISTS = ("shared", "root", "next", "twice", "unset")
_BROKEN = (
    f"The entry {LAYOUT_KEY!r} says how flat data becomes TED again, and it does not read as such ({{}}). "
    "The data was changed or cut short. Fix: save it again with TED2Flat, TED2Nested or H5Split."
)


def plan(
    columns: Mapping[Path, Column],
    branches: Iterable[Branch],
    batch_size: Iterable[int],
    apart: Collection[Path],
) -> Layout:
    """Decide how each entry of a TED is stored.

    Args:
        columns: of the TED.
        branches: of the TED.
        batch_size: of the TED.
        apart: entries that differ between the root and "next", such as rewards and end signals.

    Returns:
        The layout.

    Example:
        >>> columns = {("observation",): torch.zeros(3), ("next", "observation"): torch.zeros(3)}
        >>> plan(columns, [], [3], []).shared
        [('observation',)]
    """
    layout = Layout(tuple(batch_size), branches=list(branches))
    after = {path[1:]: column for path, column in columns.items() if path[0] == "next" and len(path) > 1}
    for path, column in columns.items():
        if path[0] == "next" and len(path) > 1:
            continue
        other = after.get(path)
        if path in apart and isinstance(column, torch.Tensor) and column.dtype == torch.bool and not column.any():
            layout.unset.append(path)
        elif other is None:
            layout.root.append(path)
        elif path not in apart and alike(column, other):
            layout.shared.append(path)
        else:
            layout.twice.append(path)
    layout.next = [path for path in after if path not in set(layout.shared)]
    return layout


def infer(columns: Mapping[Path, Column], steps: int, ends: Collection[Path], rewards: Collection[Path]) -> Layout:
    """Guess the layout of flat data that was not written by :class:`TED2Flat`, from its keys and lengths.

    Args:
        columns: of the flat data.
        steps: how many steps there are.
        ends: the end signals.
        rewards: the rewards.

    Returns:
        The layout: what is longer than ``steps`` belongs to the root and to "next", rewards and end signals to "next",
        the rest to the root.
    """
    layout = Layout((steps,))
    for path, column in columns.items():
        if path in ends or path in rewards:
            layout.next.append(path)
            if path in ends:
                layout.unset.append(path)
        elif isinstance(column, torch.Tensor) and column.dim() and column.shape[0] > steps:
            layout.shared.append(path)
        else:
            layout.root.append(path)
    return layout


def check_lengths(columns: Mapping[Path, Column], layout: Layout, observations: int) -> None:
    """Refuse flat data whose entries are missing or too short.

    Args:
        columns: of the flat data.
        layout: of it.
        observations: how many rows a shared entry must have.

    Raises:
        KeyError: if an entry is missing.
        ValueError: if an entry has another length.
    """
    expected = {path: layout.steps for path in (*layout.root, *layout.next)}
    expected |= {(ROOT_KEY, *path): layout.steps for path in layout.twice}
    expected |= dict.fromkeys(layout.shared, observations)
    for path, rows in expected.items():
        column = columns.get(path)
        if column is None:
            raise KeyError(
                f"The flat data has no entry {as_key(path)!r}, which its layout lists. It has: "
                f"{', '.join(repr(as_key(found)) for found in columns)}. "
                "It was changed or cut short. Fix: save it again."
            )
        if isinstance(column, Constant):
            continue
        found = column.shape[0] if isinstance(column, torch.Tensor) and column.dim() else len(column)
        if found != rows:
            what = "observations (one a step, and one more for each trajectory)" if path in layout.shared else "steps"
            raise ValueError(
                f"The entry {as_key(path)!r} of the flat data has {found} rows, and there are {rows} {what}. "
                "It was changed or cut short. Fix: save it again."
            )
