"""Specs of one of n choices: Categorical (an integer) and OneHot (a one-hot vector)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from rlnb.data.specs.boxes import CategoricalBox
from rlnb.data.specs.maskable import MaskableSpec
from rlnb.data.specs.masks import legal_text
from rlnb.data.specs.normalize import Device, Shape, as_size, saturating_cast, whole_numbers
from rlnb.data.specs.sampling import draw_choice
from rlnb.data.specs.variable import blank_size, fits_shape


class Categorical(MaskableSpec):
    """One of ``n`` choices as an integer: ``start, ..., start + n - 1``.

    Args:
        n: the number of choices.
        shape: the shape of one value; ``()`` is a single choice.
        device: the device of the values; torch's default device if None.
        dtype: an integer dtype, ``torch.bool`` for two choices (such as done flags), or a floating dtype that holds
            whole numbers.
        mask: booleans, True for a legal value; see `update_mask`. None makes all values legal.
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
        self._draw = partial(draw_choice, self.n, self.start, self._dtype, self._device)

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
        near = saturating_cast(whole, torch.int64).clamp(self.start, self.start + self.n - 1)
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
        # Gymnasium's Discrete takes only integers.
        return value.to(index_dtype(value.dtype, self.start, self.start + self.n - 1)).numpy()[()]

    def _to_dtype(self, dtype: torch.dtype) -> Categorical:
        self._check_dtype(dtype)
        return self._with(_dtype=dtype)

    def _hash_key(self) -> Any:
        return self.n, self.start

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert integers to one-hot vectors.

        Args:
            val: integers of the spec, shape ``[..., *spec.shape]``.
            safe: whether to check the value. The mask is ignored.

        Returns:
            A boolean tensor of shape ``[..., *spec.shape, n]``.

        Raises:
            ValueError: If the value is not in the spec.
        """
        like = self._maskless()
        if safe and not like.is_in(val):
            raise ValueError(f"{type(self).__name__}.to_one_hot: " + like._messages(val)[0])
        return torch.eq(val.unsqueeze(-1), torch.arange(self.start, self.start + self.n, device=val.device))

    def to_one_hot_spec(self) -> OneHot:
        """Return the `OneHot` of the same choices and mask."""
        return OneHot(self.n, shape=(*self._shape, self.n), device=self._device, mask=self._mask, start=self.start)

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Return ``val`` unchanged: it is categorical already."""
        return val

    def to_categorical_spec(self) -> Categorical:
        """Return a copy: the spec is categorical already."""
        return self.clone()


class OneHot(MaskableSpec):
    """One of ``n`` choices as a vector of ``n`` entries, one of which is 1 (or True) and the others 0.

    `zero` and `one` return blanks, neither of which is a one-hot vector.

    Args:
        n: the number of choices.
        shape: the shape of one value, which must end with ``n``; ``(n,)`` if None.
        device: the device of the values; torch's default device if None.
        dtype: the dtype of the values.
        use_register: must be False: choices are not numbered in the order in which they are encoded.
        mask: booleans, True for a legal value; see `update_mask`. None makes all values legal.
        start: the number of the first choice when choices are written as integers, as in Gymnasium's
            ``Discrete(n, start=...)``. It only affects `encode`, `to_numpy` and `to_categorical`.

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

    def _positions(self, value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.uint8).argmax(-1)

    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        return self._written(position.unsqueeze(-1))

    def _contains(self, value: torch.Tensor) -> bool:
        return not bool(self._outside(value).any())

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

    def _offender(self, value: torch.Tensor, index: tuple[int, ...]) -> tuple[str, None]:
        return vector_text(value[index]), None

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        if self._table is not None:
            self._table.check_not_empty("OneHot.project")
        return self._written(comparable_entries(value, self._mask).argmax(-1, keepdim=True))

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        if fits_shape(value.shape, expected[:-1]) and not value.is_floating_point():
            return f"An integer was given where a one-hot vector of length {self.n} is expected: spec.encode(value)."
        return super()._shape_fix(expected, value)

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> torch.Tensor:
        """Convert integers to one-hot vectors, or check vectors that are one-hot already.

        Args:
            val: integers ``start, ..., start + n - 1`` of shape ``[..., *spec.shape[:-1]]``; or boolean or floating
                vectors of shape ``[..., *spec.shape]``. An integer tensor always holds choices.
            check: whether to raise for floating or boolean vectors that are not one-hot, and for masked choices.
            ignore_device: whether to leave the value on its current device instead of moving it to the spec's.

        Returns:
            A tensor of shape ``[..., *spec.shape]``.

        Raises:
            TypeError: If ``val`` cannot be converted to a tensor.
            ValueError: If the shape does not fit, or a choice does not exist.

        Example:
            >>> OneHot(3, start=1).encode([1, 3])
            tensor([[ True, False, False],
                    [False, False,  True]])
        """
        raw = self._as_tensor(val)
        spec = self._on_device_of(raw, ignore_device)
        raw = raw.to(spec._device)
        if raw.is_floating_point() or raw.dtype == torch.bool:
            return spec._encode_tensor(raw, check, type(self).__name__)
        integers = (spec if check else spec._maskless()).to_categorical_spec()
        return spec._from_positions(integers._encode_tensor(raw, True, type(self).__name__) - self.start)

    def _index_dtype(self) -> torch.dtype:
        return index_dtype(self._dtype, self.start, self.start + self.n - 1)

    def _decode(self, value: torch.Tensor) -> Any:
        index = self._positions(value) + self.start
        return index.to(self._index_dtype()).numpy()[()]

    def _hash_key(self) -> Any:
        return self.n, self.start

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert one-hot vectors to integers.

        Args:
            val: one-hot vectors of shape ``[..., *spec.shape]``, of any dtype.
            safe: whether to check the value. The mask is ignored.

        Returns:
            An int64 tensor of shape ``[..., *spec.shape[:-1]]``.

        Raises:
            ValueError: If the value is not one-hot.
        """
        like = self._maskless().to(val.dtype)
        if safe and not like.is_in(val):
            raise ValueError(f"OneHot.to_categorical: {like._messages(val)[0]}")
        index = self._positions(val)
        return index + self.start if self.start else index

    def to_categorical_spec(self) -> Categorical:
        """Return the `Categorical` of the same choices and mask."""
        return Categorical(self.n, shape=self._shape[:-1], device=self._device, mask=self._mask, start=self.start)

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Return ``val`` unchanged: it is one-hot already."""
        return val

    def to_one_hot_spec(self) -> OneHot:
        """Return a copy: the spec is one-hot already."""
        return self.clone()


def fractions(value: torch.Tensor) -> torch.Tensor:
    """Return a mask of the entries that are not whole numbers, including NaN and infinities."""
    if not value.is_floating_point():
        return torch.zeros_like(value, dtype=torch.bool)
    return (value.round() != value) | value.isinf()


def choices_text(n: int, start: int) -> str:
    """Format the set of choices for a message.

    Example:
        >>> choices_text(2, 0), choices_text(10, 1)
        ('{0, 1}', '{1, ..., 10}')
    """
    values = [str(start + i) for i in range(n)] if n <= 3 else [str(start), "...", str(start + n - 1)]
    return "{" + ", ".join(values) + "}"


def index_dtype(dtype: torch.dtype, low: int, high: int) -> torch.dtype:
    """Return the dtype for choices as integers: ``dtype`` if it is an integer dtype that holds them all, else int64.

    Args:
        dtype: the dtype of the spec.
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


def check_no_register(name: str, use_register: bool) -> None:
    """Raise if choices are to be numbered in the order in which they are encoded.

    Raises:
        NotImplementedError: If ``use_register`` is True.
    """
    if use_register:
        raise NotImplementedError(
            f"{name}(use_register=True) would number the choices in the order in which they are encoded, so that two "
            "runs differ. Number them beforehand, and encode the numbers: use_register=False."
        )


def comparable_entries(value: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return entries whose argmax is that of the legal entries of ``value``, with NaN as the smallest number.

    Args:
        value: any numbers.
        mask: which of them are legal; None for all.

    Example:
        >>> comparable_entries(torch.tensor([1.0, 5.0, float("nan")]), torch.tensor([True, False, True])).argmax()
        tensor(0)
    """
    if mask is None:
        return value.nan_to_num(nan=-torch.inf) if value.is_floating_point() else value.to(torch.int64)
    lowest = torch.finfo(torch.float64).min
    return value.double().nan_to_num(nan=lowest, neginf=lowest).where(mask, -torch.inf)


def vector_text(vector: torch.Tensor) -> str:
    """Format a vector for a message: booleans as 0 and 1, at most eight entries.

    Example:
        >>> vector_text(torch.tensor([True, False]))
        '[1, 0]'
    """
    shown = [int(v) if isinstance(v, bool) else float(f"{v:.4g}") for v in vector[:8].tolist()]
    text = ", ".join(f"{v:g}" for v in shown)
    return f"[{text}, ...]" if len(vector) > 8 else f"[{text}]"
