"""The timeline of flat data: where each step's observation stands, and the one after it."""

from __future__ import annotations

from typing import Any

import torch

# Signed integers as wide as any element: data is copied and compared bit by bit, whatever its dtype.
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_CHUNK_BYTES = 1 << 18  # of a comparison: what the cache of a core holds


class Timeline:
    """The places of the steps of ``rows`` x ``length`` in the flat form.

    In the flat form the steps of each row stand in the order in which they happened, and behind the last step of each
    trajectory stands one more observation. Indices of steps count them as they are stored, row after row.

    Args:
        breaks: flags of shape ``[rows * length]``: True where the observation after a step is not that of another.
        rows: how many rows.
        length: steps in a row.
        shift: where the oldest step of a row stands, if the row was written in a ring.

    Attributes:
        breaks: the steps with an observation of their own behind them, in the order in which they happened.
        slot: for each step, where its observation stands; the one after it stands behind that.
        size: the number of observations.

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
        # Half the memory, where it is enough: the indices are a good part of what is touched beside the data.
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
        """Where steps, counted in the order in which they happened, are stored."""
        if not self.shift:
            return steps
        row = steps.div(self.length, rounding_mode="floor")
        return row * self.length + (steps - row * self.length + self.shift) % self.length

    def place_in_order(self, steps: torch.Tensor) -> torch.Tensor:
        """Where steps, counted as they are stored, stand in the order in which they happened."""
        if not self.shift:
            return steps
        row = steps.div(self.length, rounding_mode="floor")
        return row * self.length + (steps - row * self.length - self.shift) % self.length

    def source(self) -> torch.Tensor:
        """For each observation of the flat form, the step that it belongs to."""
        times = torch.add(self._in_order, 1).to(self.slot.dtype)
        return self._stored(torch.repeat_interleave(times, output_size=self.size))

    def lengths(self) -> torch.Tensor:
        """The steps of each trajectory, in the order of the flat form."""
        return torch.diff(self._at_break, prepend=self._at_break.new_full((1,), -1))

    def after_breaks(self) -> torch.Tensor:
        """Where the observations after the breaks stand."""
        return self.slot_in_order[self._at_break].long() + 1

    def in_order(self, column: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Put what is stored into the order in which it happened.

        Args:
            column: of shape ``[rows * length, ...]``.
            out: written to, if given.

        Returns:
            ``out``, or the column itself if it is in order, or a new tensor.
        """
        return self._roll(column, self.shift, out)

    def as_stored(self, column: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Undo :meth:`in_order`.

        Args:
            column: of shape ``[rows * length, ...]``.
            out: written to, if given.

        Returns:
            ``out``, or the column itself if it is stored in order, or a new tensor.
        """
        return self._roll(column, (self.length - self.shift) if self.shift else 0, out)

    def roll_list(self, values: list[Any], back: bool = False) -> list[Any]:
        """Do to a list what :meth:`in_order` and :meth:`as_stored` do to a tensor.

        Args:
            values: one for each step.
            back: undo it.

        Returns:
            The list, or a new one.
        """
        if not self.shift:
            return values
        shift = self.length - self.shift if back else self.shift
        rows = [values[start : start + self.length] for start in range(0, len(values), self.length)]
        return [value for row in rows for value in (*row[shift:], *row[:shift])]

    def _roll(self, column: torch.Tensor, shift: int, out: torch.Tensor | None) -> torch.Tensor:
        """Bring the elements from ``shift`` on to the front of each row."""
        if not shift:
            return column if out is None else out.copy_(column)
        out = torch.empty_like(column) if out is None else out
        old = column.view(self.rows, self.length, *column.shape[1:])
        new = out.view(self.rows, self.length, *column.shape[1:])
        new[:, : self.length - shift] = old[:, shift:]
        new[:, self.length - shift :] = old[:, :shift]
        return out


def bits(column: torch.Tensor) -> torch.Tensor:
    """Look at a column as integers, which compare and copy exactly (NaN, minus zero) in every dtype.

    Args:
        column: of any dtype.

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


def not_adjacent(root: torch.Tensor, after: torch.Tensor, breaks: torch.Tensor) -> torch.Tensor:
    """Find steps whose ``after`` is not the root of the step that follows.

    Args:
        root: observations of the steps, ``[N, ...]``.
        after: observations after the steps, ``[N, ...]``, of the same dtype.
        breaks: flags of shape ``[N]``; what comes after these is not compared. The last is True.

    Returns:
        The indices, in order.

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
    # What follows a break is patched, so that one comparison without any index does for a whole chunk.
    buffer = torch.empty_like(root[:chunk], memory_format=torch.contiguous_format)
    found = []
    for number, start in enumerate(range(0, steps, chunk)):
        stop = min(start + chunk, steps)
        expected = buffer[: stop - start]
        expected[: min(stop + 1, steps) - start - 1] = root[start + 1 : stop + 1]
        here = at[cuts[number] : cuts[number + 1]]
        if here.shape[0]:
            expected[here - start] = after[here]
        if not torch.equal(expected, after[start:stop]):
            differs = (expected != after[start:stop]).reshape(stop - start, -1).any(1)
            found.append(differs.nonzero().flatten() + start)
    return torch.cat(found) if found else at[:0]
