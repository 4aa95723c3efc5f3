"""TED data in a storage: which entries stand twice, and where a step is not followed by the one behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from rlnb.data.replay_buffers.checkpointers.column import Hookless, columns_of
from rlnb.data.replay_buffers.checkpointers.files import PIECE_BYTES, pieces
from rlnb.data.replay_buffers.checkpointers.head import Head
from rlnb.data.replay_buffers.columns import Column
from rlnb.data.replay_buffers.faults import checkpoints as faults
from rlnb.data.replay_buffers.forms.tensordict_form import TensorDictForm
from rlnb.data.ted.ends import end_flags
from rlnb.data.ted.flat import DONE_KEYS
from rlnb.data.ted.keys import NestedKey, as_keys
from rlnb.data.ted.timeline import bits

Path = tuple[Any, ...]
REWARD_KEYS = ("reward",)
MOST_UNSET = 1 << 10  # flags of one element that need no file if all are False
_WORDS = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))


class TEDCheckpointer(Hookless):
    """The base of the checkpointers of TED data, which save an observation once.

    In TED an observation stands under "next" of a step and at the root of the step behind it. What is found to be the
    same, bit by bit, is saved once. At a *break* what "next" holds is saved as well: where an episode ends, at the step
    that was written last (the one behind it is older, or not there), and wherever else the two differ.

    Args:
        done_keys: the end signals, which are saved as they are. The first of them says, below "next", where
            trajectories end, and has one element for each step.
        reward_keys: the rewards, which are saved as they are.
    """

    def __init__(
        self, done_keys: Sequence[NestedKey] | None = None, reward_keys: Sequence[NestedKey] | None = None
    ) -> None:
        super().__init__()
        self.done_keys = tuple(as_keys(list(DONE_KEYS if done_keys is None else done_keys)))
        self.reward_keys = tuple(as_keys(list(REWARD_KEYS if reward_keys is None else reward_keys)))

    def _twice(self, storage: Any) -> list[Path]:
        """The paths of entries that stand at the root and under "next" alike; refuses what is no TED data."""
        columns = columns_of(storage)
        below = {path[1:] for path in columns if path[0] == "next" and len(path) > 1}
        if not isinstance(storage.form, TensorDictForm) or not below:
            what = "TensorDict without one" if isinstance(storage.form, TensorDictForm) else storage.form._name()
            raise ValueError(faults.not_ted(type(self).__name__, what))
        apart = {*self.done_keys, *self.reward_keys}
        return [
            path for path, column in columns.items() if path in below - apart and _alike(column, columns["next", *path])
        ]

    def _breaks(self, storage: Any, twice: Sequence[Path]) -> torch.Tensor:
        """Flags of shape ``[length, *others]`` where what follows a step has to be saved."""
        ring, columns = storage.ring, columns_of(storage)
        length = ring.length
        flags = end_flags(storage._view(slice(length)), ("next", *self.done_keys[0])).cpu().clone()
        if not length:
            return flags
        flags[(ring.cursor - 1) % length if ring.is_full else length - 1] = True
        by_row = flags.view(length, -1)
        for path in twice:
            root, after = columns[path].rows(slice(length)), columns["next", *path].rows(slice(length))
            for start, stop, behind in _behind(root, length):
                by_row[start:stop] |= _differ(after[start:stop], behind, by_row.shape[1])
        return flags


def _alike(one: Any, other: Any) -> bool:
    both = isinstance(one, Column) and isinstance(other, Column)
    return both and one.tensor.shape == other.tensor.shape and one.tensor.dtype == other.tensor.dtype


def _behind(root: torch.Tensor, length: int) -> Iterator[tuple[int, int, torch.Tensor]]:
    """Spans of rows, and the rows behind them; behind the last row comes the first one."""
    start = 0
    for part in pieces(root[1:]) if length > 1 else ():
        yield start, start + len(part), part
        start += len(part)
    yield length - 1, length, root[:1]


def _differ(after: torch.Tensor, behind: torch.Tensor, width: int) -> torch.Tensor:
    """Whether elements differ in any bit, shape ``[n, width]``."""
    if not after.numel():
        return torch.zeros(len(after), width, dtype=torch.bool)
    count = len(after) * width
    return (_words(after, count) != _words(behind, count)).any(1).view(len(after), width).cpu()


def _words(rows: torch.Tensor, count: int) -> torch.Tensor:
    """Elements as a few integers each, which compare sooner than many numbers."""
    flat = bits(rows).reshape(count, -1)
    size = flat.element_size()
    row, offset = flat.shape[1] * size, flat.storage_offset() * size
    for width, dtype in _WORDS:
        if row % width == 0 and offset % width == 0:
            return flat.view(dtype) if width >= size else flat
    return flat


def is_unset(column: Any, length: int) -> bool:
    """Whether a column holds flags that are all False, of which nothing needs to be written.

    Args:
        column: the memory of an entry.
        length: how many rows are filled.
    """
    if not isinstance(column, Column) or column.tensor.dtype != torch.bool:
        return False
    if column.flat.shape[1:].numel() > MOST_UNSET:
        return False
    return not column.rows(slice(length)).any()


def check_breaks(breaks: torch.Tensor, head: Head) -> None:
    """Refuse places of steps that are none.

    Args:
        breaks: the places, in order, shape ``[n]``.
        head: of the storage.

    Raises:
        ValueError: if one is not there, or they are not in order.
    """
    steps = head.length * head.width
    if len(breaks) and not (breaks[0] >= 0 and breaks[-1] < steps and bool((breaks.diff() > 0).all())):
        raise ValueError(f"the breaks are no places of {steps} steps")


def follow(root: Column, after: Column, length: int) -> None:
    """Write under "next" what stands at the root of the step behind.

    Args:
        root: the memory of the root's entry, which is filled.
        after: that of the entry under "next".
        length: how many rows are filled.
    """
    if not length:
        return
    for start, stop, behind in _behind(root.rows(slice(length)), length):
        after.tensor[start:stop] = behind


def put_at(column: Column, positions: torch.Tensor, values: torch.Tensor) -> None:
    """Write elements anywhere, each bit as it is.

    Args:
        column: the memory.
        positions: along ``column.flat``, shape ``[n]``, no two the same.
        values: shape ``[n, *shape]``.
    """
    if values.numel():
        flat = column.flat
        bits(flat).index_copy_(0, positions.to(flat.device), bits(values).to(flat.device))


def in_blocks(column: Column, positions: torch.Tensor) -> Iterator[torch.Tensor]:
    """Gather elements, a few at a time.

    Args:
        column: the memory.
        positions: along ``column.flat``, shape ``[n]``.

    Yields:
        Copies of shape ``[k, *shape]``.
    """
    for part in positions.split(block_rows(column)):
        yield column.take(part)


def block_rows(column: Column) -> int:
    """How many elements are handled at once."""
    element = column.flat.shape[1:].numel() * column.flat.element_size()
    return max(PIECE_BYTES // max(element, 1), 1)
