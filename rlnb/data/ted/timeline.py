"""Timeline: positions of the steps of TED data in the flat form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

# Integers of each width: data of any dtype is copied and compared bit by bit.
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_CHUNK_BYTES = 1 << 20  # of a comparison: 13 MB take 2.5 ms in such chunks, and 3.6 in quarters of them


class Timeline:
    """Positions of ``rows * length`` steps in the flat form.

    In the flat form, the steps of each row are in chronological order, and the last step of each trajectory is followed
    by one more observation. Step indices count the steps as they are stored, row by row.

    Args:
        breaks: flags of shape ``[rows * length]``: True where the observation after a step is not that of another step.
        rows: number of rows.
        length: number of steps per row.
        shift: position of the oldest step in a row that was written as a ring.

    Attributes:
        breaks: the steps followed by an observation that is stored separately, in chronological order.
        slot: position of the observation of each step; the observation after the step is at the next position.
        size: number of observations.

    Example:
        >>> timeline = Timeline(torch.tensor([False, True, False, True]), 1, 4)
        >>> timeline.slot.tolist(), timeline.size, timeline.source().tolist()
        ([0, 1, 3, 4], 6, [0, 1, 1, 2, 3, 3])
    """

    def __init__(self, breaks: torch.Tensor, rows: int, length: int, shift: int = 0) -> None:
        self.rows, self.length, self.shift = rows, length, shift
        in_order = self.in_order(breaks)
        steps = breaks.shape[0]
        # int32 where it suffices: apart from the data, the indices are most of the memory traffic.
        dtype = torch.int32 if 2 * steps < 2**31 else torch.int64
        self._in_order = in_order
        self.slot_in_order = torch.cumsum(in_order, 0, dtype=dtype)
        self.size = steps + (int(self.slot_in_order[-1]) if steps else 0)
        self.slot_in_order += torch.arange(steps, dtype=dtype, device=breaks.device)
        self.slot_in_order -= in_order.view(torch.int8)
        self.slot = self.as_stored(self.slot_in_order)
        self._at_break = in_order.nonzero().flatten()
        self.breaks = self._moved(self._at_break, shift)

    def _moved(self, steps: torch.Tensor, by: int) -> torch.Tensor:
        """Convert chronological step numbers to step indices, by the shift; back, by minus the shift."""
        if not by:
            return steps
        row = steps.div(self.length, rounding_mode="floor")
        return row * self.length + (steps - row * self.length + by) % self.length

    def place_in_order(self, steps: torch.Tensor) -> torch.Tensor:
        """Convert step indices to chronological step numbers."""
        return self._moved(steps, -self.shift)

    def source(self) -> torch.Tensor:
        """Return the step index of each observation of the flat form."""
        times = torch.add(self._in_order, 1).to(self.slot.dtype)
        return self._moved(torch.repeat_interleave(times, output_size=self.size), self.shift)

    def lengths(self) -> torch.Tensor:
        """Return the number of steps of each trajectory, in the order of the flat form."""
        return torch.diff(self._at_break, prepend=self._at_break.new_full((1,), -1))

    def after_breaks(self) -> torch.Tensor:
        """Return the positions of the observations after the breaks."""
        return self.slot_in_order[self._at_break].long() + 1

    def in_order(self, column: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Sort a stored column ``[rows * length, ...]`` chronologically, into ``out`` if given.

        A column that is in order already is returned itself.
        """
        return rolled(column, self.rows, self.length, self.shift, out)

    def as_stored(self, column: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Undo :meth:`in_order`."""
        return rolled(column, self.rows, self.length, -self.shift, out)

    def roll_list(self, values: list[Any], back: bool = False) -> list[Any]:
        """Sort a list of one value per step chronologically, or with ``back`` undo that."""
        if not self.shift:
            return values
        shift = self.length - self.shift if back else self.shift
        rows = [values[start : start + self.length] for start in range(0, len(values), self.length)]
        return [value for row in rows for value in (*row[shift:], *row[:shift])]


def rolled(column: torch.Tensor, rows: int, length: int, shift: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """Rotate each of the rows of a column so that the step at ``shift`` comes first; see :meth:`Timeline.in_order`."""
    if not shift:
        return column if out is None else out.copy_(column)
    shift %= length
    out = torch.empty_like(column) if out is None else out
    old = column.view(rows, length, *column.shape[1:])
    new = out.view(rows, length, *column.shape[1:])
    new[:, : length - shift] = old[:, shift:]
    new[:, length - shift :] = old[:, :shift]
    return out


def bits(column: torch.Tensor) -> torch.Tensor:
    """View a column as integers, which compare and copy exactly in every dtype, including NaN and negative zero.

    Example:
        >>> bits(torch.tensor([0.0, -0.0])).tolist()
        [0, -2147483648]
    """
    column = column.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    if column.dtype == torch.complex128:
        column = torch.view_as_real(column)
    return column.view(_BITS[column.dtype.itemsize])


def find_breaks(
    ends: torch.Tensor,
    pairs: Iterable[tuple[torch.Tensor, torch.Tensor]],
    first: torch.Tensor,
    last: torch.Tensor,
    lag: int = 1,
) -> torch.Tensor:
    """Flag the steps whose observation after them is not that of the next step, bit by bit; see :class:`Timeline`.

    Args:
        ends: flags ``[N]`` of the steps that are breaks anyway, among them the newest one of each row.
        pairs: columns ``[N, ...]`` of the root and of what comes after.
        first: the first stored step of each row, which follows the last one, as in a ring.
        last: the last stored step of each row.
        lag: see :func:`not_adjacent`.

    Example:
        >>> pair = torch.tensor([3.0, 4.0, 0.0, 9.0]), torch.tensor([4.0, 5.0, 1.0, 3.0])
        >>> find_breaks(torch.tensor([False, True, False, False]), [pair], torch.tensor([0]), torch.tensor([3]))
        tensor([False,  True,  True, False])
    """
    breaks = ends.clone()
    for root, after in pairs if len(ends) else ():
        stops = breaks.clone()
        stops[last] = True
        breaks[not_adjacent(root, after, stops, lag).to(breaks.device)] = True
        differs = bits(root)[first] != bits(after)[last]
        breaks[last] |= differs.reshape(len(last), -1).any(1).to(breaks.device)
    return breaks


def not_adjacent(root: torch.Tensor, after: torch.Tensor, breaks: torch.Tensor, lag: int = 1) -> torch.Tensor:
    """Find the steps whose ``after`` differs from the ``root`` of the following step, bit by bit.

    Both have shape ``[N, ...]`` and one dtype. Steps flagged in ``breaks``, among them the last ``lag``, are not
    compared. The following step is ``lag`` positions behind: the number of rows, if steps are stored time by time.

    Example:
        >>> observation = torch.tensor([0.0, 1.0, 2.0])
        >>> not_adjacent(observation, torch.tensor([1.0, 5.0, 3.0]), torch.tensor([False, False, True]))
        tensor([1])
    """
    root, after = bits(root), bits(after)
    if _has_words(root) and _has_words(after):
        root, after = (column.flatten(1).view(torch.int64) for column in (root, after))
    steps = root.shape[0]
    width = max(root[:1].numel(), 1) * root.dtype.itemsize
    chunk = max(_CHUNK_BYTES // width, 1) if root.device.type == "cpu" else max(steps, 1)
    at = breaks.nonzero().flatten()
    starts = torch.arange(0, steps, chunk, device=at.device)
    cuts = [*torch.searchsorted(at, starts).tolist(), at.shape[0]]
    # The values at breaks are patched, so that one comparison without indexing covers a whole chunk.
    buffer = torch.empty_like(root[:chunk], memory_format=torch.contiguous_format)
    found = []
    for number, start in enumerate(range(0, steps, chunk)):
        stop = min(start + chunk, steps)
        expected = buffer[: stop - start]
        follow = root[start + lag : stop + lag]
        expected[: len(follow)] = follow
        here = at[cuts[number] : cuts[number + 1]]
        if here.shape[0]:
            expected[here - start] = after[here]
        if not torch.equal(expected, after[start:stop]):
            differs = (expected != after[start:stop]).reshape(stop - start, -1).any(1)
            found.append(differs.nonzero().flatten() + start)
    return torch.cat(found) if found else at[:0]


def _has_words(column: torch.Tensor) -> bool:
    """Whether the bytes of each step are whole words, which compare eight bytes at a time."""
    size, start = column[:1].nbytes, column.storage_offset() * column.dtype.itemsize
    return column.ndim > 1 and column.is_contiguous() and bool(size) and not (size % 8 or start % 8)
