"""Facts: TED data prepared for validation: the columns of the root and of "next", end signals, ids and masks."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.columns import Column, read_columns
from rlnb.data.ted.ends import episode_ends
from rlnb.data.ted.keys import DONE, END_KEYS, MASK_KEYS, TRAJ_IDS_KEYS, as_key
from rlnb.data.ted.ragged import Path, RaggedColumn, gaps_of, lazy_branches, padded

REWARD, ACTION = "reward", "action"


class Facts:
    """TED data to validate, split into columns once.

    Attributes:
        data: the data.
        root: the columns of the root.
        next: the columns under "next". If one of two entries with the same name has rows of varying shape, both are
            :class:`~rlnb.data.ted.ragged.RaggedColumn`.
        gaps: for each entry of a lazy stack that some steps lack, the flattened flags of the steps that have it.
    """

    def __init__(self, data: TensorDictBase) -> None:
        self.data = data
        columns, branches = read_columns(data, varying=True)
        self.root: dict[Path, Column] = {}
        self.next: dict[Path, Column] = {}
        for path, column in columns.items():
            inside = path[0] == "next" and len(path) > 1
            if isinstance(column, RaggedColumn) and path[-1] in END_KEYS:
                # Padding adds False: missing agents do not end anything.
                column = padded(column)
            (self.next if inside else self.root)[path[1:] if inside else path] = column
        self.extra = {branch.path: len(branch.extra) for branch in branches}
        lazy = lazy_branches(data)
        self.gaps: dict[Path, torch.Tensor] = {
            (*path, *name): torch.from_numpy(there.ravel())
            for path, stack in lazy
            for name, there in gaps_of(stack, data.batch_dims).items()
        }
        for path in self.root.keys() & self.next.keys() if lazy else ():
            one, two = self.root[path], self.next[path]
            if path[-1] not in END_KEYS and _vary(one, two):
                self.root[path], self.next[path] = _as_rows(one), _as_rows(two)

    @property
    def has_time(self) -> bool:
        """Whether time is the last batch dimension, and there is at least one step."""
        names = self.data.names if self.data.batch_dims and self.data.batch_size.numel() else []
        return bool(names) and (names[-1] == "time" or "time" not in names)

    @property
    def length(self) -> int:
        """Number of steps along time."""
        return self.data.batch_size[-1] if self.data.batch_dims else 1

    @property
    def rows(self) -> int:
        """Number of rows of the batch."""
        return self.data.batch_size.numel() // self.length if self.length else 0

    @cached_property
    def levels(self) -> list[Path]:
        """Paths of the levels of "next" with end signals, the root first."""
        found = {path[:-1] for path in self.next if path[-1] in END_KEYS}
        return sorted(found, key=lambda path: (len(path), path))

    @cached_property
    def mask(self) -> torch.Tensor | None:
        """True for steps, False for padding; ``None`` without a mask."""
        for path in MASK_KEYS:
            mask = self.root.get(path)
            if (
                isinstance(mask, torch.Tensor)
                and mask.dtype == torch.bool
                and mask.numel() == self.data.batch_size.numel()
            ):
                return mask.flatten()
        return None

    @cached_property
    def ids(self) -> tuple[Path, torch.Tensor] | None:
        """Path and values of the trajectory ids; ``None`` without ids."""
        for path in TRAJ_IDS_KEYS:
            ids = self.root.get(path)
            if isinstance(ids, torch.Tensor) and ids.numel() == self.data.batch_size.numel():
                return path, ids.flatten()
        return None

    @cached_property
    def any_end(self) -> torch.Tensor | None:
        """True where any end signal of "next" is True, even if the episode goes on for other agents.

        An agent may be reset alone there, so nothing can be said about the step that follows.
        """
        flags = [per_step(column) for column in _signals(self.next).values()]
        return torch.stack(flags).any(0) if flags else None

    @cached_property
    def episode_ends(self) -> torch.Tensor | None:
        """True where an episode ends, as :func:`~rlnb.data.ted.ends.episode_ends` defines it."""
        return episode_ends(_signals(self.next), _signals(self.root)).get(DONE)

    @cached_property
    def stops(self) -> torch.Tensor:
        """True where the following step need not continue this one: at end signals, new ids, padding and row ends."""
        stops = torch.zeros(self.data.batch_size.numel(), dtype=torch.bool, device=self.data.device)
        if self.any_end is not None:
            stops |= self.any_end
        marks = [self.mask] if self.mask is not None else []
        if self.ids is not None:
            marks.append(self.ids[1])
        for mark in marks:
            stops[:-1] |= mark[1:] != mark[:-1]
        if self.mask is not None:
            stops |= ~self.mask
        stops.view(-1, self.length)[:, -1] = True
        return stops

    def only_valid(self, flags: torch.Tensor) -> torch.Tensor:
        """Clear the flags of padding, of one flag per step."""
        return flags if self.mask is None else flags & self.mask

    def index(self, step: int) -> tuple[int, ...]:
        """Convert the number of a step in the flattened batch to its index, time last."""
        index = []
        for size in reversed(self.data.batch_size):
            step, place = divmod(step, size)
            index.append(place)
        return tuple(reversed(index))


def _signals(columns: dict[Path, Column]) -> dict[Path, torch.Tensor]:
    """The end signals, each with at least two dimensions."""
    return {
        path: column if column.dim() > 1 else column.unsqueeze(-1)
        for path, column in columns.items()
        if path[-1] in END_KEYS and isinstance(column, torch.Tensor)
    }


def _vary(one: Column, two: Column) -> bool:
    tensors = isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor)
    return isinstance(one, RaggedColumn) or isinstance(two, RaggedColumn) or (tensors and one.shape != two.shape)  # type: ignore[union-attr]


def _as_rows(column: Column) -> Column:
    return RaggedColumn(column.unbind(0)) if isinstance(column, torch.Tensor) else column


def per_step(column: torch.Tensor) -> torch.Tensor:
    """Reduce flags ``[steps, ...]`` to one per step: whether any element is True."""
    return column.bool().flatten(1).any(1) if column.dim() > 1 else column.bool()


def all_of_step(flags: torch.Tensor) -> torch.Tensor:
    """Reduce flags ``[steps, ...]`` to one per step: whether all elements are True."""
    return flags.flatten(1).all(1) if flags.dim() > 1 else flags


def key_code(path: Path, in_next: bool = False) -> str:
    """Write a key, of the root or of "next", as code."""
    return repr(as_key(("next", *path) if in_next else path))


def index_text(index: tuple[int, ...] | None) -> str:
    """Write the index of a step as code: ``3`` or ``(0, 3)``; empty for ``None``."""
    return "" if index is None else str(index[0]) if len(index) == 1 else str(index)


def show(value: Any) -> str:
    """Write the value of one step, abbreviated to four numbers."""
    if isinstance(value, list) and any(isinstance(part, torch.Tensor) for part in value):
        return f"[{', '.join(map(show, value))}]"
    if not isinstance(value, torch.Tensor):
        return repr(value)
    numbers = value.flatten()[:4].tolist()
    text = ", ".join(f"{number:.6g}" if isinstance(number, float) else str(number) for number in numbers)
    more = ", ..." if value.numel() > 4 else ""
    return text if value.dim() == 0 else f"[{text}{more}]"
