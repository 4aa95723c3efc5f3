"""Specs of one of n choices: Categorical (an integer) and OneHot (a one-hot vector)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from rlnb.data.specs.boxes import CategoricalBox
from rlnb.data.specs.maskable import MaskableSpec, check_no_register, choices_text, index_dtype, legal_text
from rlnb.data.specs.normalize import Device, Shape, as_size, whole_numbers
from rlnb.data.specs.variable import blank_size, fits_shape


class Categorical(MaskableSpec):
    """One of ``n`` choices as an integer: ``start, ..., start + n - 1``.

    Args:
        n: the number of choices.
        shape: the shape of one value; ``()`` is a single choice.
        device: the device of the values; torch's default device if None.
        dtype: an integer dtype, ``torch.bool`` for two choices (such as done flags), or a floating dtype that holds
            whole numbers.
        mask: booleans, True for a legal value; see ``update_mask``. None makes all values legal.
        start: the smallest value, as in Gymnasium's ``Discrete(n, start=...)``.

    Raises:
        TypeError: If the mask is not boolean.
        ValueError: If ``n`` is not positive, the dtype cannot hold the values, or the mask has the wrong shape.

    Example:
        >>> spec = Categorical(3)
        >>> spec.is_in(torch.tensor([0, 2, 1])), spec.is_in(torch.tensor(3))
        (True, False)
        >>> spec.to_one_hot(torch.tensor(1))
        tensor([False,  True, False])
    """

    _fields = ("n", "start", "_mask")
    _choice_dims = 0
    _domain_advice = "Check how the value is computed, or give the spec more choices."

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
        self.n, self.start = int(n), int(start)
        if self.n < 1:
            raise ValueError(f"{type(self).__name__} needs at least one choice, got n={self.n}.")
        self._check_dtype(self._dtype)
        self._prepare()
        self.update_mask(mask)

    def _check_dtype(self, dtype: torch.dtype) -> None:
        low, high = whole_numbers(dtype)
        if self.start < low or self.start + self.n - 1 > high:
            raise ValueError(
                f"{type(self).__name__}: the choices {choices_text(self.n, self.start)} do not fit {dtype}, which "
                f"holds {low} to {high}. Use torch.int64."
            )

    def _prepare(self) -> None:
        self._prepare_mask()
        self._low, self._high, self._offset = self.start, self.start + self.n - 1, self.start or None
        self._draw = partial(torch.randint, self.start, self.start + self.n, dtype=self._dtype, device=self._device)

    @property
    def space(self) -> CategoricalBox:
        """The choices."""
        return CategoricalBox(self.n, self.start)

    def _mask_size(self) -> torch.Size:
        return torch.Size((*blank_size(self._shape), self.n))

    def _counts(self) -> list[int]:
        return [self.n]

    def _rows(self) -> torch.Size:
        return self._shape

    def _domain_text(self, index: tuple[int, ...]) -> str:
        return choices_text(self.n, self.start, None if self._mask is None else self._mask[index])

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        if fits_shape(value.shape, (*expected, self.n)):
            return (
                "A one-hot vector was given where an integer is expected: spec.to_one_hot_spec().to_categorical(value)."
            )
        return super()._shape_fix(expected, value)

    def _decode(self, value: torch.Tensor) -> Any:
        # Gymnasium's Discrete takes only integers.
        return value.to(index_dtype(value.dtype, self._low, self._high)).numpy()[()]

    def _to_dtype(self, dtype: torch.dtype) -> Categorical:
        self._check_dtype(dtype)
        return self._with(_dtype=dtype)

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert integers to boolean one-hot vectors, ``[..., *spec.shape, n]``; see ``MaskableSpec.to_one_hot``."""
        if safe:
            self._check_readable(val, "to_one_hot")
        return torch.eq(val.unsqueeze(-1), torch.arange(self.start, self.start + self.n, device=val.device))

    def to_one_hot_spec(self) -> OneHot:
        """Return the ``OneHot`` of the same choices and mask."""
        return OneHot(self.n, shape=(*self._shape, self.n), device=self._device, mask=self._mask, start=self.start)


class OneHot(MaskableSpec):
    """One of ``n`` choices as a vector of ``n`` entries, one of which is 1 (or True) and the others 0.

    ``zero`` and ``one`` return blanks, neither of which is a one-hot vector. ``encode`` takes integers from ``start``
    on, of shape ``[..., *spec.shape[:-1]]``, or boolean or floating vectors of shape ``[..., *spec.shape]``. An integer
    tensor always holds choices.

    Args:
        n: the number of choices.
        shape: the shape of one value, which must end with ``n``; ``(n,)`` if None.
        device: the device of the values; torch's default device if None.
        dtype: the dtype of the values.
        use_register: must be False: choices are not numbered as they are encoded.
        mask: booleans, True for a legal value; see ``update_mask``. None makes all values legal.
        start: the number of the first choice when choices are written as integers, as in Gymnasium's
            ``Discrete(n, start=...)``. It only affects ``encode``, ``to_numpy`` and ``to_categorical``.

    Raises:
        NotImplementedError: If ``use_register`` is True.
        TypeError: If the mask is not boolean.
        ValueError: If ``n`` is not positive, the shape does not end with ``n``, or the mask has the wrong shape.

    Example:
        >>> spec = OneHot(3)
        >>> spec.encode(1)
        tensor([False,  True, False])
        >>> print(spec.to_numpy(spec.encode(1)))
        1
        >>> OneHot(3, start=1).encode([1, 3])
        tensor([[ True, False, False],
                [False, False,  True]])
    """

    _event_dims = 1
    _fields = ("n", "start", "_mask")
    _choice_dims = 0
    _domain_advice = "Make it with spec.encode(i), or take the largest entry: spec.project(value)."
    _ticks: torch.Tensor

    def __init__(
        self,
        n: int,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = torch.bool,
        use_register: bool = False,
        mask: Any = None,
        start: int = 0,
    ) -> None:
        check_no_register(type(self).__name__, use_register)
        size = as_size((int(n),) if shape is None else shape)
        if int(n) < 1 or not size or size[-1] != n:
            raise ValueError(f"OneHot(n={n}) needs n >= 1 and a shape that ends with n, got shape {list(size)}.")
        super().__init__(size, device, dtype, torch.bool)
        self.n, self.start = int(n), int(start)
        self._prepare()
        self.update_mask(mask)

    def _prepare(self) -> None:
        self._prepare_mask()
        self._ticks = torch.arange(self.n, device=self._device)

    @property
    def space(self) -> CategoricalBox:
        """The choices."""
        return CategoricalBox(self.n, self.start)

    def _draw(self, size: torch.Size) -> torch.Tensor:
        return self._written(torch.randint(self.n, (*size[:-1], 1), device=self._device))

    def _written(self, position: torch.Tensor) -> torch.Tensor:
        """Convert positions (with a last dim of size 1) to one-hot vectors."""
        vector = torch.eq(position, self._ticks)
        return vector if self._dtype == torch.bool else vector.to(self._dtype)

    def _mask_size(self) -> torch.Size:
        return blank_size(self._shape)

    def _counts(self) -> list[int]:
        return [self.n]

    def _rows(self) -> torch.Size:
        return self._shape[:-1]

    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        return self._written(position.unsqueeze(-1))

    def _largest(self, value: torch.Tensor) -> torch.Tensor:
        return self._written(value.argmax(-1, keepdim=True))

    def _from_integers(self, value: torch.Tensor) -> torch.Tensor:
        return self._from_positions(value - self.start)

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        if value.dtype == torch.bool:
            wrong = value.sum(-1) != 1
        else:
            # Exactly one entry is not zero, and it is 1.
            wrong = (torch.count_nonzero(value, -1) != 1) | ~(value == 1).any(-1)
        return wrong if self._mask is None else wrong | ((value != 0) & ~self._mask).any(-1)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        if self._mask is not None:
            legal = legal_text(self._mask[index])
            return f"the one-hot vectors of length {self.n} with the 1 at {legal}, as the mask says"
        return f"the one-hot vectors of length {self.n} (one entry is 1, the others are 0)"

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        if fits_shape(value.shape, expected[:-1]) and not value.is_floating_point():
            return f"An integer was given where a one-hot vector of length {self.n} is expected: spec.encode(value)."
        return super()._shape_fix(expected, value)

    def _index_dtype(self) -> torch.dtype:
        return index_dtype(self._dtype, self.start, self.start + self.n - 1)

    def _decode(self, value: torch.Tensor) -> Any:
        index = self._positions(value) + self.start
        return index.to(self._index_dtype()).numpy()[()]

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert one-hot vectors to int64, ``[..., *spec.shape[:-1]]``; see ``MaskableSpec.to_categorical``."""
        if safe:
            self.to(val.dtype)._check_readable(val, "to_categorical")
        index = self._positions(val)
        return index + self.start if self.start else index

    def to_categorical_spec(self) -> Categorical:
        """Return the ``Categorical`` of the same choices and mask."""
        return Categorical(self.n, shape=self._shape[:-1], device=self._device, mask=self._mask, start=self.start)
