"""Masks of choices: tables of legal positions for drawing and projection, and validation of the user's masks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch


class MaskTable:
    """The legal positions of one or more choices.

    Args:
        mask: a boolean tensor of shape ``[*rows, width]``, True for a legal position.

    Example:
        >>> table = MaskTable(torch.tensor([True, False, True]))
        >>> table.nearest(torch.tensor([0, 1, 2]))
        tensor([0, 0, 2])
        >>> table.allows(torch.tensor([0, 1, 2]))
        tensor([ True, False,  True])
    """

    def __init__(self, mask: torch.Tensor) -> None:
        self.mask = mask

    @cached_property
    def counts(self) -> torch.Tensor:
        """The number of legal positions, float64, shape ``[*rows]``."""
        return self.mask.sum(-1).double()

    @cached_property
    def order(self) -> torch.Tensor:
        """The positions of each row, legal ones first, int64, shape ``[*rows, width]``."""
        return self.mask.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)

    @cached_property
    def _nearest(self) -> torch.Tensor:
        width = self.mask.shape[-1]
        place = torch.arange(width, device=self.mask.device).expand(self.mask.shape)
        left = torch.where(self.mask, place, -width).cummax(-1).values
        right = torch.where(self.mask, place, 3 * width).flip(-1).cummin(-1).values.flip(-1)
        return torch.where(place - left <= right - place, left, right)

    def draw(self, lead: Sequence[int], who: str) -> torch.Tensor:
        """Draw legal positions with equal probabilities, from one uniform number for each choice.

        Args:
            lead: sizes in front of the rows.
            who: the operation, for the error message.

        Returns:
            An int64 tensor of shape ``[*lead, *rows]``.

        Raises:
            ValueError: If a choice has no legal position.
        """
        self.check_not_empty(who)
        size = torch.Size((*lead, *self.counts.shape))
        # In float64, the product of a count and a uniform number below 1 never rounds up to the count.
        drawn = torch.rand(size, dtype=torch.float64, device=self.mask.device).mul_(self.counts).long()
        return _pick(self.order, drawn)

    def allows(self, position: torch.Tensor) -> torch.Tensor:
        """Return whether positions of shape ``[..., *rows]`` are legal. Those outside of the table are not."""
        width = self.mask.shape[-1]
        inside = (position >= 0) & (position < width)
        return inside & _pick(self.mask, position.clamp(0, width - 1))

    def nearest(self, position: torch.Tensor, who: str = "project") -> torch.Tensor:
        """Return the legal positions nearest to ``position``; the smaller of two equally near ones.

        Args:
            position: int64, shape ``[..., *rows]``.
            who: the operation, for the error message.

        Raises:
            ValueError: If a choice has no legal position.
        """
        self.check_not_empty(who)
        return _pick(self._nearest, position.clamp(0, self.mask.shape[-1] - 1))

    def check_not_empty(self, who: str) -> None:
        """Raise if a choice has no legal position.

        Args:
            who: the operation, for the error message.

        Raises:
            ValueError: If a choice has no legal position. The message contains its index.
        """
        if bool(self.counts.all()):
            return
        index = tuple((self.counts == 0).nonzero()[0].tolist())
        where = f" at index {index}" if index else ""
        raise ValueError(
            f"{who}: the mask leaves no legal choice{where}: all of its entries are False there. Give it one with "
            "spec.update_mask(mask), or remove it with spec.update_mask(None)."
        )


def _pick(table: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Look up positions of shape ``[..., *rows]`` in a table of shape ``[*rows, width]``."""
    if table.ndim == 1:
        return table[position]
    return table.expand(*position.shape, table.shape[-1]).gather(-1, position.unsqueeze(-1)).squeeze(-1)


def as_mask(name: str, mask: Any, shape: torch.Size, device: torch.device) -> torch.Tensor:
    """Return a copy of a mask as a boolean tensor of shape ``shape``.

    Args:
        name: the class of the spec, for the error message.
        mask: booleans, of a shape that broadcasts to ``shape``.
        shape: the shape of the one-hot encoding.
        device: the device of the spec.

    Raises:
        TypeError: If the entries are not booleans.
        ValueError: If the shape does not broadcast.

    Example:
        >>> as_mask("Categorical", [True, False], torch.Size([3, 2]), torch.device("cpu")).shape
        torch.Size([3, 2])
    """
    try:
        given = mask if isinstance(mask, torch.Tensor) else torch.as_tensor(mask)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name}: a mask must be a boolean tensor of shape {list(shape)}, got a {type(mask).__name__} ({error})."
        ) from None
    if given.dtype != torch.bool:
        raise TypeError(
            f"{name}: a mask must be a boolean tensor, True for a legal value, got dtype {given.dtype}. Cast it: "
            "mask.bool()."
        )
    try:
        return given.to(device).expand(shape).clone(memory_format=torch.contiguous_format)
    except RuntimeError:
        raise ValueError(
            f"{name}: expected a mask of shape {list(shape)}, one entry for each value, or one that broadcasts to it, "
            f"got {list(given.shape)}."
        ) from None


def legal_text(mask: torch.Tensor, start: int = 0) -> str:
    """Format the values that a row of a mask allows, at most eight of them.

    Example:
        >>> legal_text(torch.tensor([True, False, True])), legal_text(torch.tensor([False]))
        ('{0, 2}', '{}')
    """
    legal = (mask.nonzero().flatten() + start).tolist()
    return "{" + ", ".join([*map(str, legal[:8]), *(["..."] if len(legal) > 8 else [])]) + "}"
