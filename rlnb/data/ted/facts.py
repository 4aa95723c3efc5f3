"""What the rules of TED look at: the entries of the root and of "next" side by side, and where episodes end."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.columns import Column, Path, read_columns
from rlnb.data.ted.keys import END_KEYS, as_key
from rlnb.data.ted.varying import Rows, gaps_of, lazy_branches, padded

IDS_KEYS: tuple[Path, ...] = (("collector", "traj_ids"), ("traj_ids",))
MASK_KEYS: tuple[Path, ...] = (("collector", "mask"), ("mask",))
REWARD, ACTION = "reward", "action"


class Facts:
    """Data to check, taken apart once.

    Args:
        data: what is to be TED data.

    Attributes:
        data: the same.
        root: the columns of the root.
        next: the columns below "next". Where one of two namesakes has sizes that vary, both are
            :class:`~rlnb.data.ted.varying.Rows`.
        gaps: for each entry of a lazy stack that comes and goes, the flattened steps where it is there.

    Example:
        >>> from tensordict import TensorDict
        >>> facts = Facts(TensorDict({"a": torch.zeros(3), "next": {"a": torch.zeros(3)}}, batch_size=[3]))
        >>> list(facts.root), list(facts.next), facts.length
        ([('a',)], [('a',)], 3)
    """

    def __init__(self, data: TensorDictBase) -> None:
        self.data = data
        columns, branches = read_columns(data, varying=True)
        self.root: dict[Path, Column] = {}
        self.next: dict[Path, Column] = {}
        for path, column in columns.items():
            inside = path[0] == "next" and len(path) > 1
            if isinstance(column, Rows) and path[-1] in END_KEYS:
                # Agents that are not there end nothing.
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
    def has_next(self) -> bool:
        """Whether there is anything below "next"."""
        return bool(self.next)

    @property
    def has_time(self) -> bool:
        """Whether time is the last dimension, and there are steps along it."""
        names = self.data.names if self.data.batch_dims else ["no time"]
        return (names[-1] == "time" or "time" not in names) and bool(
            self.data.batch_dims and self.data.batch_size.numel()
        )

    @property
    def length(self) -> int:
        """Steps along time."""
        return self.data.batch_size[-1] if self.data.batch_dims else 1

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return self.data.batch_size.numel() // self.length if self.length else 0

    @cached_property
    def levels(self) -> list[Path]:
        """The levels of "next" with end signals, the root's first."""
        found = {path[:-1] for path in self.next if path[-1] in END_KEYS}
        return sorted(found, key=lambda path: (len(path), path))

    @cached_property
    def mask(self) -> torch.Tensor | None:
        """True where there is a step, for padded data."""
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
        """The ids of the trajectories and where they stand."""
        for path in IDS_KEYS:
            ids = self.root.get(path)
            if isinstance(ids, torch.Tensor) and ids.numel() == self.data.batch_size.numel():
                return path, ids.flatten()
        return None

    @cached_property
    def ends(self) -> torch.Tensor | None:
        """True where an end signal of "next" says that an episode ended, for anybody."""
        ends = None
        for path, column in self.next.items():
            if path[-1] in END_KEYS and isinstance(column, torch.Tensor):
                flags = per_step(column)
                ends = flags if ends is None else ends | flags
        return ends

    @cached_property
    def stops(self) -> torch.Tensor:
        """True where the step that follows is not the next one of the same episode."""
        stops = torch.zeros(self.data.batch_size.numel(), dtype=torch.bool, device=self.data.device)
        if self.ends is not None:
            stops |= self.ends
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
        """Clear flags of steps that are padding.

        Args:
            flags: one for each step.

        Returns:
            The flags.
        """
        return flags if self.mask is None else flags & self.mask

    def index(self, step: int) -> tuple[int, ...]:
        """Say where a step of the flattened batch is.

        Args:
            step: its number.

        Returns:
            Its index in the batch; time is the last number.
        """
        index = []
        for size in reversed(self.data.batch_size):
            step, place = divmod(step, size)
            index.append(place)
        return tuple(reversed(index))


def _vary(one: Column, two: Column) -> bool:
    tensors = isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor)
    return isinstance(one, Rows) or isinstance(two, Rows) or (tensors and one.shape != two.shape)  # type: ignore[union-attr]


def _as_rows(column: Column) -> Column:
    return Rows(column.unbind(0)) if isinstance(column, torch.Tensor) else column


def per_step(column: torch.Tensor) -> torch.Tensor:
    """One flag for each step: whether any of its elements is True.

    Args:
        column: of shape ``[steps, ...]``.

    Returns:
        Flags of shape ``[steps]``.

    Example:
        >>> per_step(torch.tensor([[False, True], [False, False]]))
        tensor([ True, False])
    """
    return column.bool().flatten(1).any(1) if column.dim() > 1 else column.bool()


def name_of(path: Path, in_next: bool = False) -> str:
    """Spell a key the way it is used.

    Args:
        path: its parts.
        in_next: whether it stands below "next".

    Returns:
        Text.

    Example:
        >>> name_of(("reward",), in_next=True)
        "('next', 'reward')"
    """
    return repr(as_key(("next", *path) if in_next else path))


def index_text(index: tuple[int, ...] | None) -> str:
    """Write an index the way it is used.

    Args:
        index: of a step, or None.

    Returns:
        Text; empty for None.

    Example:
        >>> index_text((3,)), index_text((0, 3))
        ('3', '(0, 3)')
    """
    return "" if index is None else str(index[0]) if len(index) == 1 else str(index)


def show(value: Any) -> str:
    """Write a value of one step in few characters.

    Args:
        value: a tensor or an object.

    Returns:
        Text.

    Example:
        >>> show(torch.tensor([0.25, 1.0]))
        '[0.25, 1]'
    """
    if isinstance(value, list) and any(isinstance(part, torch.Tensor) for part in value):
        return f"[{', '.join(map(show, value))}]"
    if not isinstance(value, torch.Tensor):
        return repr(value)
    numbers = value.flatten()[:4].tolist()
    text = ", ".join(f"{number:.6g}" if isinstance(number, float) else str(number) for number in numbers)
    more = ", ..." if value.numel() > 4 else ""
    return text if value.dim() == 0 else f"[{text}{more}]"
