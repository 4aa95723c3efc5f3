"""FlatLayout: where the entries of flat data belong in TED, so that the conversion back is exact."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from rlnb.data.ted.columns import Branch, Column, Constant, alike
from rlnb.data.ted.keys import as_key
from rlnb.data.ted.ragged import Path

LAYOUT_KEY = "_layout"
BREAKS_KEY = "_breaks"
ROOT_KEY = "_root"
RESERVED = (LAYOUT_KEY, BREAKS_KEY, ROOT_KEY)


@dataclass
class FlatLayout:
    """Where the entries of flat data belong in TED.

    Args:
        batch_size: batch size of the TED data.
        shared: entries of the root and of "next" that are stored once, with one final value per trajectory.
        root: entries of the root only.
        next: entries of "next".
        twice: entries of the root that differ in shape or dtype from the entry of "next" with the same name; stored
            under "_root".
        unset: end-of-episode signals of the root that are all False, and not stored.
        branches: the nested TensorDicts of the TED data.
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
        """Number of steps in all rows."""
        return math.prod(self.batch_size)

    @property
    def rows(self) -> int:
        """Number of rows, each of which holds steps along time."""
        return math.prod(self.batch_size[:-1])

    @property
    def single(self) -> dict[Path, Path]:
        """Paths in the flat form, by paths in TED, of the entries with one row per step."""
        found = {path: path for path in self.root} | {("next", *path): path for path in self.next}
        return found | {path: (ROOT_KEY, *path) for path in self.twice}

    def to_json(self) -> str:
        """Write the layout as JSON."""
        lists = {name: getattr(self, name) for name in _LISTS}
        branches = [[list(branch.path), list(branch.extra), branch.names] for branch in self.branches]
        return json.dumps({"batch_size": list(self.batch_size), **lists, "branches": branches})

    @classmethod
    def from_json(cls, text: Any) -> FlatLayout:
        """Parse what :meth:`to_json` wrote, which may come from an untrusted file.

        Raises:
            ValueError: If the text is not a valid layout.
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
            raise ValueError(_BROKEN.format("a key is not a string, or a size is not a count"))
        return cls(batch_size, branches=branches, **lists)


_LISTS = ("shared", "root", "next", "twice", "unset")
_BROKEN = (
    f"The entry {LAYOUT_KEY!r} describes how to convert flat data back to TED, but cannot be parsed ({{}}). "
    "The data was changed or cut short. Fix: save it again with TED2Flat, TED2Nested or H5Split."
)


def plan(
    columns: Mapping[Path, Column], branches: Iterable[Branch], batch_size: Iterable[int], apart: Collection[Path]
) -> FlatLayout:
    """Decide how each entry of TED data is stored.

    Entries in ``apart``, the rewards and end-of-episode signals, are never shared between the root and "next".
    """
    layout = FlatLayout(tuple(batch_size), branches=list(branches))
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


def infer(columns: Mapping[Path, Column], steps: int, ends: Collection[Path], rewards: Collection[Path]) -> FlatLayout:
    """Infer the layout of flat data that was not written by :class:`TED2Flat` from its keys and lengths.

    Entries longer than ``steps`` belong to the root and to "next", rewards and end-of-episode signals to "next", all
    others to the root.
    """
    layout = FlatLayout((steps,))
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


def check_lengths(columns: Mapping[Path, Column], layout: FlatLayout, observations: int) -> None:
    """Check that flat data has all entries of its layout, the shared ones with one row for each of ``observations``.

    Raises:
        KeyError: If an entry is missing.
        ValueError: If an entry has another length.
    """
    expected = dict.fromkeys(layout.single.values(), layout.steps) | dict.fromkeys(layout.shared, observations)
    for path, rows in expected.items():
        column = columns.get(path)
        if column is None:
            raise KeyError(
                f"The flat data lacks the entry {as_key(path)!r}, which its layout lists. Its entries are: "
                f"{', '.join(repr(as_key(found)) for found in columns)}. "
                "It was changed or cut short. Fix: save it again."
            )
        if isinstance(column, Constant):
            continue
        found = column.shape[0] if isinstance(column, torch.Tensor) and column.dim() else len(column)
        if found != rows:
            what = "one per step and one more per trajectory" if path in layout.shared else "one per step"
            raise ValueError(
                f"The entry {as_key(path)!r} of the flat data must have {rows} rows, {what}, got {found}. "
                "It was changed or cut short. Fix: save it again."
            )
