"""OneHot: one of n choices, written as a vector with a single 1."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.specs.boxes import CategoricalBox
from rlnb.data.specs.categorical import Categorical, index_dtype
from rlnb.data.specs.maskable import MaskableSpec
from rlnb.data.specs.masks import legal_text
from rlnb.data.specs.normalize import Device, Shape, as_lead, as_size
from rlnb.data.specs.variable import blank_size, fits_shape


class OneHot(MaskableSpec):
    """One of ``n`` choices as a vector of ``n`` entries, one of which is 1 (or True) and the others 0.

    `zero` and `one` make blanks: neither is a one-hot vector.

    Args:
        n: how many choices there are.
        shape: the shape of one value, ending with ``n``; ``(n,)`` when None.
        device: where the values live; torch's default device when None.
        dtype: the dtype.
        use_register: only False: choices are numbered, not learnt from the values that are encoded.
        mask: booleans, True where a value is legal; see `update_mask`. All are legal when None.
        start: the number of the first choice where choices are written as integers: Gymnasium's
            ``Discrete(n, start=...)``. It only matters to `encode`, `to_numpy` and `to_categorical`.

    Raises:
        TypeError: the mask is not one of booleans.
        ValueError: ``n`` is not positive, the shape does not end with ``n``, or the mask has the wrong shape.

    Example:
        >>> spec = OneHot(3)
        >>> spec.encode(1)
        tensor([False,  True, False])
        >>> print(spec.to_numpy(spec.encode(1)))
        1
    """

    _event_dims = 1
    _fields = ("n", "start", "_mask")
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
        refuse_register(type(self).__name__, use_register)
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
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def space(self) -> CategoricalBox:
        """The choices."""
        return CategoricalBox(self.n, self.start)

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw one-hot vectors, each legal choice as likely.

        Args:
            shape: sizes in front of the spec's shape.

        Raises:
            ValueError: the mask leaves nothing to choose from.
        """
        if self._table is not None:
            return self._from_positions(self._table.draw(as_lead(shape), "OneHot.rand"))
        size = (*self._size(shape)[:-1], 1)
        return self._written(torch.randint(self.n, size, device=self._device))

    def _written(self, position: torch.Tensor) -> torch.Tensor:
        """Write positions (with a last dim of size 1) as one-hot vectors."""
        vector = torch.eq(position, self._ticks)
        return vector if self._dtype == torch.bool else vector.to(self._dtype)

    _choice_dims = 0

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
            # One entry that is not zero, and it is 1.
            wrong = (torch.count_nonzero(value, -1) != 1) | ~(value == 1).any(-1)
        return wrong if self._mask is None else wrong | ((value != 0) & ~self._mask).any(-1)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        if self._mask is not None:
            legal = legal_text(self._mask[index])
            return f"the one-hot vectors of length {self.n} with the 1 at {legal}, as the mask says"
        return f"the one-hot vectors of length {self.n} (one entry is 1, the others are 0)"

    def _offence(self, value: torch.Tensor, index: tuple[int, ...]) -> tuple[str, None]:
        return vector_text(value[index]), None

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        if self._table is not None:
            self._table.refuse_empty("OneHot.project")
        return self._written(comparable_entries(value, self._mask).argmax(-1, keepdim=True))

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        if fits_shape(value.shape, expected[:-1]) and not value.is_floating_point():
            return f"An integer was given where a one-hot vector of length {self.n} is expected: spec.encode(value)."
        return super()._shape_fix(expected, value)

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> torch.Tensor:
        """Turn integers, or vectors that are one-hot already, into one-hot vectors.

        Args:
            val: integers ``start, ..., start + n - 1`` of shape ``[..., *spec.shape[:-1]]``; or boolean or floating
                vectors of shape ``[..., *spec.shape]``. An integer tensor always counts as choices.
            check: whether to raise for floating or boolean vectors that are not one-hot, and for masked choices.
            ignore_device: whether to leave the value on the device where it is; otherwise it goes to the spec's.

        Returns:
            A tensor of shape ``[..., *spec.shape]``.

        Raises:
            TypeError: it cannot be made a tensor.
            ValueError: the shape does not fit, or there is no such choice.

        Example:
            >>> OneHot(3, start=1).encode([1, 3])
            tensor([[ True, False, False],
                    [False, False,  True]])
        """
        raw = self._as_tensor(val)
        there = self._placed(raw, ignore_device)
        return there._encode_choices(raw.to(there._device), check)

    def _encode_choices(self, raw: torch.Tensor, check: bool) -> torch.Tensor:
        if raw.is_floating_point() or raw.dtype == torch.bool:
            return self._encode_tensor(raw, check, type(self).__name__)
        integers = (self if check else self._maskless()).to_categorical_spec()
        return self._from_positions(integers._encode_tensor(raw, True, type(self).__name__) - self.start)

    def _index_dtype(self) -> torch.dtype:
        return index_dtype(self._dtype, self.start, self.start + self.n - 1)

    def _decode(self, value: torch.Tensor) -> Any:
        index = self._positions(value) + self.start
        return index.to(self._index_dtype()).numpy()[()]

    def _hash_key(self) -> Any:
        return self.n, self.start

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Turn one-hot vectors into integers.

        Args:
            val: one-hot vectors of shape ``[..., *spec.shape]``, of any dtype.
            safe: whether to check the value; its mask does not matter.

        Returns:
            An int64 tensor of shape ``[..., *spec.shape[:-1]]``.

        Raises:
            ValueError: the value is not one-hot.
        """
        like = self._maskless().to(val.dtype)
        if safe and not like.is_in(val):
            raise ValueError(f"OneHot.to_categorical: {like._complaints(val)[0]}")
        index = self._positions(val)
        return index + self.start if self.start else index

    def to_categorical_spec(self) -> Categorical:
        """Return the `Categorical` of the same choices and mask."""
        return Categorical(self.n, shape=self._shape[:-1], device=self._device, mask=self._mask, start=self.start)

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Return ``val`` as it is: it is one-hot already."""
        return val

    def to_one_hot_spec(self) -> OneHot:
        """Return a copy: it is one-hot already."""
        return self.clone()


def refuse_register(name: str, use_register: bool) -> None:
    """Raise if choices shall be numbered in the order in which they are encoded.

    Raises:
        NotImplementedError: they shall.
    """
    if use_register:
        raise NotImplementedError(
            f"{name}(use_register=True) would number the choices in the order in which they come, so that two runs "
            "differ. Number them beforehand, and encode the numbers: use_register=False."
        )


def comparable_entries(value: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return entries whose largest is that of ``value`` among the legal ones, NaN counting least.

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
    """Write a vector for an error, booleans as 0 and 1, cut after eight entries.

    Example:
        >>> vector_text(torch.tensor([True, False]))
        '[1, 0]'
    """
    shown = [int(v) if isinstance(v, bool) else float(f"{v:.4g}") for v in vector[:8].tolist()]
    text = ", ".join(f"{v:g}" for v in shown)
    return f"[{text}, ...]" if len(vector) > 8 else f"[{text}]"
