"""MaskableSpec: base class of the specs of choices, with masks of legal choices, counting and indexing."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch

from rlnb.data.specs.enumeration import combinations
from rlnb.data.specs.leaf import LeafSpec
from rlnb.data.specs.masks import MaskTable, as_mask
from rlnb.data.specs.normalize import Shape, as_lead
from rlnb.data.specs.variable import blank_size


class MaskableSpec(LeafSpec):
    """A spec of one or more choices.

    Every choice has a *position*: its number, counted from 0, whatever its encoding. Subclasses convert values to
    positions and back.
    """

    _rowed = ("_mask",)
    _masked_advice: ClassVar[str] = "Choose one of them, or take the nearest: spec.project(value)."

    #: The number of trailing dims of the positions that hold the choices of one row.
    _choice_dims: int
    #: The legal positions, a row for each entry of the leading shape; None if all are legal.
    _mask: torch.Tensor | None = None
    _table: MaskTable | None = None
    #: Draws values of the given size, ignoring the mask.
    _draw: Callable[[torch.Size], torch.Tensor]

    @abstractmethod
    def _mask_size(self) -> torch.Size:
        """Return the shape of a mask as users write it: that of the one-hot encoding."""

    @abstractmethod
    def _counts(self) -> list[int]:
        """Return the number of positions of each choice in one row."""

    @abstractmethod
    def _rows(self) -> torch.Size:
        """Return the shape of the positions of one value. The choices of one row come last."""

    @abstractmethod
    def _positions(self, value: torch.Tensor) -> torch.Tensor:
        """Convert a value to positions."""

    @abstractmethod
    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        """Convert positions to a value."""

    def _packed_mask(self, mask: torch.Tensor) -> torch.Tensor:
        """Convert a mask of `_mask_size` to the form of ``_mask``."""
        return mask

    def _table_rows(self, mask: torch.Tensor) -> torch.Tensor:
        """Convert ``_mask`` to one row of positions for each choice."""
        return mask

    def _prepare_mask(self) -> None:
        self._table = None if self._mask is None else MaskTable(self._table_rows(self._mask))

    @property
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def mask(self) -> torch.Tensor | None:
        """A copy of the mask, in the shape of the one-hot encoding; None if every value is legal."""
        return None if self._mask is None else self._mask.clone()

    def update_mask(self, mask: Any) -> None:
        """Set which values are legal, in place.

        With a mask, `rand` draws only legal values, `is_in` accepts only those and `project` returns the nearest.
        Conversions (`to_one_hot`, `to_categorical`, `index`) ignore it, so that old data stays readable.

        Args:
            mask: booleans, True for a legal value, in the shape of the one-hot encoding (``to_one_hot_spec().shape``)
                or one that broadcasts to it. None makes all values legal.

        Raises:
            TypeError: If the entries are not booleans.
            ValueError: If the shape does not fit. The spec keeps its previous mask.

        Example:
            >>> from rlnb.data import Categorical
            >>> spec = Categorical(3)
            >>> spec.update_mask(torch.tensor([True, False, True]))
            >>> spec.is_in(torch.tensor(1)), spec.enumerate(use_mask=True).tolist()
            (False, [0, 2])
        """
        name, given = type(self).__name__, self._as_flat_mask(mask)
        self._mask = None if given is None else self._packed_mask(as_mask(name, given, self._mask_size(), self._device))
        self._prepare_mask()

    def _as_flat_mask(self, mask: Any) -> Any:
        """Convert the user's mask to the shape of the one-hot encoding."""
        return mask

    def _maskless(self) -> Self:
        return self if self._mask is None else self._with(_mask=None)

    def _domain_fix(self) -> str:
        return self._domain_advice if self._mask is None else self._masked_advice

    def _extra_repr(self) -> str:
        if self._mask is None:
            return ""
        return f",\n    mask=Tensor(shape={self._mask_size()}, device={self._device}, dtype=torch.bool)"

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw choices; all legal ones are equally likely.

        Args:
            shape: sizes in front of the spec's shape.

        Raises:
            ValueError: If the mask leaves no legal choice.
        """
        if self._table is None:
            return self._draw(self._size(shape))
        return self._from_positions(self._table.draw(as_lead(shape), f"{type(self).__name__}.rand"))

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of values of one row: the product over its choices. Batch dims do not multiply it.

        Args:
            use_mask: whether to count only the choices that the mask allows.

        Raises:
            ValueError: If the mask differs between the rows (with ``use_mask``).

        Example:
            >>> from rlnb.data import Categorical, MultiOneHot
            >>> MultiOneHot([2, 3]).cardinality(), Categorical(5, shape=(3,)).cardinality()
            (6, 5)
        """
        return math.prod(self._choice_counts(use_mask, "cardinality"))

    def _choice_counts(self, use_mask: bool, call: str) -> list[int]:
        if self._table is None or not use_mask:
            return self._counts()
        return [int(count) for count in self._row_mask(self._table, call).sum(-1).tolist()]

    def _row_mask(self, table: MaskTable, call: str) -> torch.Tensor:
        """Return the mask that all rows share, of shape ``[choices, positions]``."""
        rows = table.mask.reshape(-1, len(self._counts()), table.mask.shape[-1])
        if bool((rows != rows[:1]).any()):
            raise ValueError(
                f"{type(self).__name__}.{call}: the mask differs between the rows of shape {list(self._shape)}, so "
                f"that they have no common values. Ask for those of one row: spec[0].{call}(use_mask=True)."
            )
        return rows[0]

    def enumerate(self, use_mask: bool = False) -> torch.Tensor:
        """List all values of one row, stacked along a new first dim. The last choice changes fastest.

        In each value of the list, all rows of the batch are the same.

        Args:
            use_mask: whether to list only the choices that the mask allows.

        Returns:
            A tensor of shape ``[cardinality, *spec.shape]``, with size 1 in dims of variable size.

        Raises:
            ValueError: If there are too many values to list, or the mask differs between the rows (with ``use_mask``).

        Example:
            >>> from rlnb.data import OneHot
            >>> OneHot(3, mask=torch.tensor([True, False, True])).enumerate(use_mask=True).int().tolist()
            [[1, 0, 0], [0, 0, 1]]
        """
        counts = self._choice_counts(use_mask, "enumerate")
        position = combinations(counts, type(self).__name__).to(self._device)
        if use_mask and self._table is not None:
            order = MaskTable(self._row_mask(self._table, "enumerate")).order
            position = order[torch.arange(len(order), device=self._device), position]
        rows = blank_size(self._rows())
        own = rows[len(rows) - self._choice_dims :]
        lead = [1] * (len(rows) - len(own))
        return self._from_positions(position.reshape(len(position), *lead, *own).expand(len(position), *rows))

    def index(self, index: torch.Tensor, tensor_to_index: torch.Tensor) -> torch.Tensor:
        """Select the numbers of ``tensor_to_index`` that a value of the spec chooses, whatever its encoding.

        Args:
            index: a value of the spec, with any leading dims. The mask is ignored.
            tensor_to_index: a number for each choice along the last dim, whose size is ``n`` or the sum of ``nvec``.
                The other dims broadcast against the leading dims of ``index``.

        Returns:
            The number of each choice.

        Raises:
            ValueError: If ``index`` is not a value of the spec, or ``tensor_to_index`` has another size.

        Example:
            >>> from rlnb.data import Categorical, OneHot
            >>> scores = torch.tensor([[0.5, 2.0, 1.0], [4.0, 3.0, 5.0]])
            >>> Categorical(3).index(torch.tensor([1, 0]), scores)
            tensor([2., 4.])
            >>> OneHot(3).index(OneHot(3).encode([1, 0]), scores)
            tensor([2., 4.])
        """
        who = f"{type(self).__name__}.index"
        like = self._maskless()
        if not like.is_in(index):
            raise ValueError(f"{who}: {like._messages(index)[0]}")
        return self._select_numbers(index, tensor_to_index, self._mask_size()[-1], who)

    def _select_numbers(self, index: torch.Tensor, tensor: torch.Tensor, width: int, who: str) -> torch.Tensor:
        return gather_last(self._positions(index).unsqueeze(-1), tensor, width, who).squeeze(-1)


def gather_last(place: torch.Tensor, tensor: torch.Tensor, width: int, who: str) -> torch.Tensor:
    """Select the numbers at ``place`` along the last dim of ``tensor``; the leading dims broadcast.

    Args:
        place: int64, shape ``[..., k]``.
        tensor: shape ``[..., width]``.
        width: the number of choices.
        who: the operation, for the error message.

    Returns:
        A tensor of shape ``[..., k]``.

    Raises:
        ValueError: If the shapes do not fit.
    """
    if not tensor.ndim or tensor.shape[-1] != width:
        raise ValueError(
            f"{who}: expected a tensor with a number for each choice, so {width} along its last dim, got shape "
            f"{list(tensor.shape)}."
        )
    try:
        lead = torch.broadcast_shapes(place.shape[:-1], tensor.shape[:-1])
    except RuntimeError:
        raise ValueError(
            f"{who}: the leading dims {list(place.shape[:-1])} of the choices do not fit those of the tensor, "
            f"{list(tensor.shape[:-1])}. Give both the same batch dimensions."
        ) from None
    return tensor.expand(*lead, width).gather(-1, place.expand(*lead, place.shape[-1]))
