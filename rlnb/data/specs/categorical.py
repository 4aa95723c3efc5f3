"""Categorical: one of n choices, written as an integer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from rlnb.data.specs.bounded import _saturating_cast
from rlnb.data.specs.boxes import CategoricalBox
from rlnb.data.specs.maskable import MaskableSpec
from rlnb.data.specs.masks import legal_text
from rlnb.data.specs.normalize import Device, Shape, as_lead, whole_numbers
from rlnb.data.specs.sampling import Draw, draw_choice
from rlnb.data.specs.variable import blank_size, fits_shape

if TYPE_CHECKING:
    from rlnb.data.specs.one_hot import OneHot


class Categorical(MaskableSpec):
    """One of ``n`` choices as an integer: ``start, ..., start + n - 1``.

    Args:
        n: how many choices there are.
        shape: the shape of one value; ``()`` is one choice.
        device: where the values live; torch's default device when None.
        dtype: an integer dtype, ``torch.bool`` for two choices (as done flags are), or a floating dtype: whole numbers.
        mask: booleans, True where a value is legal; see `update_mask`. All are legal when None.
        start: the smallest value, as in Gymnasium's ``Discrete(n, start=...)``.

    Raises:
        TypeError: the mask is not one of booleans.
        ValueError: ``n`` is not positive, the dtype cannot hold the values, or the mask has the wrong shape.

    Example:
        >>> spec = Categorical(3)
        >>> spec.is_in(torch.tensor([0, 2, 1])), spec.is_in(torch.tensor(3))
        (True, False)
        >>> spec.to_one_hot(torch.tensor(1))
        tensor([False,  True, False])
    """

    _fields = ("n", "start", "_mask")
    _domain_advice = "Check how the value is computed, or give the spec more choices."
    _draw: Draw

    def __init__(
        self,
        n: int,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = torch.int64,
        mask: Any = None,
        start: int = 0,
    ) -> None:
        super().__init__(() if shape is None else shape, device, dtype, torch.int64)
        self.n, self.start = check_choices(type(self).__name__, n, start, self._dtype)
        self._prepare()
        self.update_mask(mask)

    def _prepare(self) -> None:
        self._prepare_mask()
        self._draw = partial(draw_choice, self.n, self.start, self._dtype, self._device)

    @property
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def space(self) -> CategoricalBox:
        """The choices."""
        return CategoricalBox(self.n, self.start)

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw choices, each legal one as likely.

        Args:
            shape: sizes in front of the spec's shape.

        Raises:
            ValueError: the mask leaves nothing to choose from.
        """
        if self._table is None:
            return self._draw(self._size(shape))
        return self._from_positions(self._table.draw(as_lead(shape), "Categorical.rand"))

    _choice_dims = 0

    def _mask_size(self) -> torch.Size:
        return torch.Size((*blank_size(self._shape), self.n))

    def _counts(self) -> list[int]:
        return [self.n]

    def _rows(self) -> torch.Size:
        return self._shape

    def _positions(self, value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.int64) - self.start

    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        return (position + self.start if self.start else position).to(self._dtype)

    def _contains(self, value: torch.Tensor) -> bool:
        if self._table is not None:
            return not bool(self._outside(value).any())
        if self._dtype == torch.bool:
            return self.n == 2 or not bool((value != self.start).any())
        if self._dtype.is_floating_point and not torch.equal(value.round(), value):
            return False
        return torch.equal(torch.clamp(value, self.start, self.start + self.n - 1), value)

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        if self._table is not None:
            return ~self._table.allows(self._positions(value)) | fractions(value)
        number = value if value.is_floating_point() else value.to(torch.int64)
        return (number < self.start) | (number >= self.start + self.n) | fractions(value)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        if self._mask is not None:
            return f"{legal_text(self._mask[index], self.start)}, the values that the mask leaves"
        return choices_text(self.n, self.start)

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        whole = value.nan_to_num(0.0).round() if value.is_floating_point() else value
        near = _saturating_cast(whole, torch.int64).clamp(self.start, self.start + self.n - 1)
        if self._table is not None:
            return self._from_positions(self._table.nearest(near - self.start, "Categorical.project"))
        return near.to(self._dtype)

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        if fits_shape(value.shape, (*expected, self.n)):
            return (
                "A one-hot vector was given where an integer is expected: spec.to_one_hot_spec().to_categorical(value)."
            )
        return super()._shape_fix(expected, value)

    def _decode(self, value: torch.Tensor) -> Any:
        # Gymnasium's Discrete takes integers only.
        return value.to(index_dtype(value.dtype, self.start, self.start + self.n - 1)).numpy()[()]

    def _to_dtype(self, dtype: torch.dtype) -> Categorical:
        check_choices(type(self).__name__, self.n, self.start, dtype)
        return self._with(_dtype=dtype)

    def _hash_key(self) -> Any:
        return self.n, self.start

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Turn integers into one-hot vectors.

        Args:
            val: integers of the spec, shape ``[..., *spec.shape]``.
            safe: whether to check the value; its mask does not matter.

        Returns:
            A boolean tensor of shape ``[..., *spec.shape, n]``.

        Raises:
            ValueError: the value is not in the spec.
        """
        like = self._maskless()
        if safe and not like.is_in(val):
            raise ValueError(f"{type(self).__name__}.to_one_hot: " + like._complaints(val)[0])
        return torch.eq(val.unsqueeze(-1), torch.arange(self.start, self.start + self.n, device=val.device))

    def to_one_hot_spec(self) -> OneHot:
        """Return the `OneHot` of the same choices and mask."""
        from rlnb.data.specs.one_hot import OneHot

        return OneHot(self.n, shape=(*self._shape, self.n), device=self._device, mask=self._mask, start=self.start)

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Return ``val`` as it is: it is categorical already."""
        return val

    def to_categorical_spec(self) -> Categorical:
        """Return a copy: it is categorical already."""
        return self.clone()


def fractions(value: torch.Tensor) -> torch.Tensor:
    """Mark what is no whole number, NaN and infinities included; no number is a fraction where there are integers."""
    if not value.is_floating_point():
        return torch.zeros_like(value, dtype=torch.bool)
    return (value.round() != value) | value.isinf()


def choices_text(n: int, start: int) -> str:
    """Write the set of choices.

    Example:
        >>> choices_text(2, 0), choices_text(10, 1)
        ('{0, 1}', '{1, ..., 10}')
    """
    values = [str(start + i) for i in range(n)] if n <= 3 else [str(start), "...", str(start + n - 1)]
    return "{" + ", ".join(values) + "}"


def check_choices(name: str, n: int, start: int, dtype: torch.dtype) -> tuple[int, int]:
    """Return ``n`` and ``start`` as ints.

    Raises:
        ValueError: ``n`` is not positive, or ``dtype`` does not hold all of the choices.
    """
    n, start = int(n), int(start)
    if n < 1:
        raise ValueError(f"{name} needs at least one choice, got n={n}.")
    low, high = whole_numbers(dtype)
    if start < low or start + n - 1 > high:
        raise ValueError(
            f"{name}: the choices {choices_text(n, start)} do not fit {dtype}, which holds {low} to {high}. "
            "Use torch.int64."
        )
    return n, start


def index_dtype(dtype: torch.dtype, low: int, high: int) -> torch.dtype:
    """Return the dtype in which choices are written as integers: ``dtype`` if it holds them all, else int64.

    Args:
        dtype: the dtype of a one-hot spec.
        low: the smallest choice.
        high: the largest choice.

    Example:
        >>> index_dtype(torch.int32, 0, 5), index_dtype(torch.bool, 0, 5), index_dtype(torch.int8, 0, 500)
        (torch.int32, torch.int64, torch.int64)
    """
    if dtype == torch.bool or dtype.is_floating_point:
        return torch.int64
    info = torch.iinfo(dtype)
    return dtype if info.min <= low and high <= info.max else torch.int64
