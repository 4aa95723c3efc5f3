"""Timeline: positions of the steps of TED data in the flat form."""

from __future__ import annotations

from typing import Any

import torch

# Integers of each width: data of any dtype is copied and compared bit by bit.
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_CHUNK_BYTES = 1 << 18  # of a comparison: fits into the L2 cache of a core


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
        >>> timeline.slot.tolist(), timeline.size
        ([0, 1, 3, 4], 6)
        >>> timeline.source().tolist()
        [0, 1, 1, 2, 3, 3]
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
        self.breaks = self._stored(self._at_break)

    def _stored(self, steps: torch.Tensor) -> torch.Tensor:
        """Convert chronological step numbers to step indices."""
        if not self.shift:
            return steps
        row = steps.div(self.length, rounding_mode="floor")
        return row * self.length + (steps - row * self.length + self.shift) % self.length

    def place_in_order(self, steps: torch.Tensor) -> torch.Tensor:
        """Convert step indices to chronological step numbers."""
        if not self.shift:
            return steps
        row = steps.div(self.length, rounding_mode="floor")
        return row * self.length + (steps - row * self.length - self.shift) % self.length

    def source(self) -> torch.Tensor:
        """Return the step index of each observation of the flat form."""
        times = torch.add(self._in_order, 1).to(self.slot.dtype)
        return self._stored(torch.repeat_interleave(times, output_size=self.size))

    def lengths(self) -> torch.Tensor:
        """Return the number of steps of each trajectory, in the order of the flat form."""
        return torch.diff(self._at_break, prepend=self._at_break.new_full((1,), -1))

    def after_breaks(self) -> torch.Tensor:
        """Return the positions of the observations after the breaks."""
        return self.slot_in_order[self._at_break].long() + 1

    def in_order(self, column: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Sort a stored column chronologically.

        Args:
            column: one row per step, shape ``[rows * length, ...]``.
            out: written to, if given.

        Returns:
            ``out`` if given; else the column itself if it is in order already, or a new tensor.
        """
        return self._roll(column, self.shift, out)

    def as_stored(self, column: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Undo :meth:`in_order`.

        Args:
            column: one row per step, shape ``[rows * length, ...]``.
            out: written to, if given.

        Returns:
            ``out`` if given; else the column itself if it is stored in order, or a new tensor.
        """
        return self._roll(column, (self.length - self.shift) if self.shift else 0, out)

    def roll_list(self, values: list[Any], back: bool = False) -> list[Any]:
        """Sort a list chronologically, like :meth:`in_order` for tensors.

        Args:
            values: one value per step.
            back: whether to undo the sorting, like :meth:`as_stored`.

        Returns:
            The list itself, or a new one.
        """
        if not self.shift:
            return values
        shift = self.length - self.shift if back else self.shift
        rows = [values[start : start + self.length] for start in range(0, len(values), self.length)]
        return [value for row in rows for value in (*row[shift:], *row[:shift])]

    def _roll(self, column: torch.Tensor, shift: int, out: torch.Tensor | None) -> torch.Tensor:
        """Rotate each row so that the element at ``shift`` comes first."""
        if not shift:
            return column if out is None else out.copy_(column)
        out = torch.empty_like(column) if out is None else out
        old = column.view(self.rows, self.length, *column.shape[1:])
        new = out.view(self.rows, self.length, *column.shape[1:])
        new[:, : self.length - shift] = old[:, shift:]
        new[:, self.length - shift :] = old[:, :shift]
        return out


def bits(column: torch.Tensor) -> torch.Tensor:
    """View a column as integers, which compare and copy exactly in every dtype, including NaN and negative zero.

    Args:
        column: a tensor of any dtype.

    Returns:
        A view.

    Example:
        >>> bits(torch.tensor([0.0, -0.0])).tolist()
        [0, -2147483648]
    """
    column = column.detach().as_subclass(torch.Tensor)
    if column.dtype == torch.complex128:
        column = torch.view_as_real(column)
    return column.view(_BITS[column.dtype.itemsize])


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
