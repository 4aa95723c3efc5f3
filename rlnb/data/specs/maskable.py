"""MaskableSpec: what the specs of choices share: masks of legal values, counting, and taking what a value chooses."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Self

import torch

from rlnb.data.specs.enumeration import combinations
from rlnb.data.specs.leaf import LeafSpec
from rlnb.data.specs.masks import MaskTable, as_mask
from rlnb.data.specs.variable import blank_size


class MaskableSpec(LeafSpec):
    """A spec of choices. The position of a choice is its number from 0 on, however it is written in the value."""

    _rowed = ("_mask",)

    #: How many trailing dims of the positions hold the choices of one row.
    _choice_dims: int
    _masked_advice: ClassVar[str] = "Choose one of them, or take the nearest: spec.project(value)."
    #: The legal positions, a row for each entry of the leading shape; None when all are legal.
    _mask: torch.Tensor | None = None
    _table: MaskTable | None = None

    @abstractmethod
    def _mask_size(self) -> torch.Size:
        """The shape of a mask as users write it: that of the one-hot encoding."""

    @abstractmethod
    def _counts(self) -> list[int]:
        """How many positions each choice of one value has, of all rows of the batch together just those of one row."""

    @abstractmethod
    def _rows(self) -> torch.Size:
        """The shape of the positions of one value; the choices of one row come last."""

    @abstractmethod
    def _positions(self, value: torch.Tensor) -> torch.Tensor:
        """Read the positions off a value."""

    @abstractmethod
    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        """Write positions as a value."""

    def _stored(self, mask: torch.Tensor) -> torch.Tensor:
        return mask

    def _table_rows(self, mask: torch.Tensor) -> torch.Tensor:
        return mask

    def _prepare_mask(self) -> None:
        self._table = None if self._mask is None else MaskTable(self._table_rows(self._mask))

    @property
    def mask(self) -> torch.Tensor | None:
        """A copy of the mask, of the shape of the one-hot encoding; None when every value is legal."""
        return None if self._mask is None else self._mask.clone()

    def update_mask(self, mask: Any) -> None:
        """Say which values are legal from now on, in place.

        With a mask, `rand` draws legal values only, `is_in` accepts only those and `project` moves to the nearest.
        Conversions (`to_one_hot`, `to_categorical`, `index`) do not look at it: old data stays readable.

        Args:
            mask: booleans, True where a value is legal; the shape is that of the one-hot encoding,
                ``to_one_hot_spec().shape``, or broadcasts to it. None makes all values legal.

        Raises:
            TypeError: the entries are not booleans.
            ValueError: the shape does not fit. The spec keeps the mask that it has.

        Example:
            >>> from rlnb.data import Categorical
            >>> spec = Categorical(3)
            >>> spec.update_mask(torch.tensor([True, False, True]))
            >>> spec.is_in(torch.tensor(1)), spec.enumerate(use_mask=True).tolist()
            (False, [0, 2])
        """
        name, given = type(self).__name__, self._given_mask(mask)
        self._mask = None if given is None else self._stored(as_mask(name, given, self._mask_size(), self._device))
        self._prepare_mask()

    def _given_mask(self, mask: Any) -> Any:
        """Read what the user gave as a mask of the shape of the one-hot encoding."""
        return mask

    def _maskless(self) -> Self:
        return self if self._mask is None else self._with(_mask=None)

    def _domain_fix(self) -> str:
        return self._domain_advice if self._mask is None else self._masked_advice

    def _extra_repr(self) -> str:
        if self._mask is None:
            return ""
        return f",\n    mask=Tensor(shape={self._mask_size()}, device={self._device}, dtype=torch.bool)"

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return how many values one row has: the product over its choices. Batch dims count once.

        Args:
            use_mask: whether to count only what the mask leaves.

        Raises:
            ValueError: the mask differs between the rows (with ``use_mask``).

        Example:
            >>> from rlnb.data import Categorical, MultiOneHot
            >>> MultiOneHot([2, 3]).cardinality(), Categorical(5, shape=(3,)).cardinality()
            (6, 5)
        """
        return math.prod(self._choice_counts(use_mask, "cardinality"))

    def _choice_counts(self, use_mask: bool, call: str) -> list[int]:
        if self._table is None or not use_mask:
            return self._counts()
        return [int(count) for count in self._row_mask(call).sum(-1).tolist()]

    def _row_mask(self, call: str) -> torch.Tensor:
        """Return the mask of one row, shape ``[choices, positions]``, which the others must share."""
        assert self._table is not None
        rows = self._table.mask.reshape(-1, len(self._counts()), self._table.mask.shape[-1])
        if bool((rows != rows[:1]).any()):
            raise ValueError(
                f"{type(self).__name__}.{call}: the mask differs between the rows of shape {list(self._shape)}, so "
                f"that they have no common values. Ask one row: spec[0].{call}(use_mask=True)."
            )
        return rows[0]

    def enumerate(self, use_mask: bool = False) -> torch.Tensor:
        """List all values of one row, stacked along a new first dim; the last choice changes fastest.

        All rows of the batch have the same value in each entry of the list.

        Args:
            use_mask: whether to list only what the mask leaves.

        Returns:
            A tensor of shape ``[cardinality, *spec.shape]``, with size 1 in dims of variable size.

        Raises:
            ValueError: there are too many to list, or the mask differs between the rows (with ``use_mask``).

        Example:
            >>> from rlnb.data import OneHot
            >>> OneHot(3, mask=torch.tensor([True, False, True])).enumerate(use_mask=True).int().tolist()
            [[1, 0, 0], [0, 0, 1]]
        """
        counts = self._choice_counts(use_mask, "enumerate")
        position = combinations(counts, type(self).__name__).to(self._device)
        if use_mask and self._table is not None:
            order = MaskTable(self._row_mask("enumerate")).order
            position = order[torch.arange(len(order), device=self._device), position]
        rows = blank_size(self._rows())
        own = rows[len(rows) - self._choice_dims :]
        lead = [1] * (len(rows) - len(own))
        return self._from_positions(position.reshape(len(position), *lead, *own).expand(len(position), *rows))

    def index(self, index: torch.Tensor, tensor_to_index: torch.Tensor) -> torch.Tensor:
        """Take from ``tensor_to_index`` what a value of the spec chooses, whichever way the choice is written.

        Args:
            index: a value of the spec, with any leading dims. Its mask does not matter.
            tensor_to_index: a number for each choice, along the last dim: of size ``n``, or the sum of ``nvec``. The
                other dims broadcast against the leading ones of ``index``.

        Returns:
            The number of each choice.

        Raises:
            ValueError: ``index`` is no value of the spec, or ``tensor_to_index`` does not have as many numbers.

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
            raise ValueError(f"{who}: {like._complaints(index)[0]}")
        return self._taken(index, tensor_to_index, self._mask_size()[-1], who)

    def _taken(self, index: torch.Tensor, tensor: torch.Tensor, width: int, who: str) -> torch.Tensor:
        return gather_last(self._positions(index).unsqueeze(-1), tensor, width, who).squeeze(-1)


def gather_last(place: torch.Tensor, tensor: torch.Tensor, width: int, who: str) -> torch.Tensor:
    """Take the numbers at ``place`` along the last dim of ``tensor``, the leading dims broadcasting.

    Args:
        place: int64, shape ``[..., k]``.
        tensor: shape ``[..., width]``.
        width: how many numbers there are to choose from.
        who: the operation, for the error.

    Returns:
        A tensor of shape ``[..., k]``.

    Raises:
        ValueError: the shapes do not fit.
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
