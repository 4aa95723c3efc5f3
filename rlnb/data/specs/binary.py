"""Binary: spec of tensors of zeros and ones."""

from __future__ import annotations

import math

import torch

from rlnb.data.specs.boxes import CategoricalBox
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.leaf import LeafSpec
from rlnb.data.specs.normalize import Device, Shape, as_size
from rlnb.data.specs.sampling import combinations
from rlnb.data.specs.variable import blank_size


class Binary(LeafSpec):
    """Independent entries that are 0 or 1.

    Args:
        n: the size of the last dim; optional if ``shape`` is given.
        shape: the shape of one value; ``(n,)`` if None.
        device: the device of the values; torch's default device if None.
        dtype: the dtype of the values.

    Raises:
        TypeError: If neither ``n`` nor ``shape`` is given.
        ValueError: If the shape does not end with ``n``.

    Example:
        >>> spec = Binary(3)
        >>> spec.encode([1, 0, 1])
        tensor([1, 0, 1], dtype=torch.int8)
    """

    #: Whether the spec was made from a ``MultiBinary([n])``, which Gymnasium distinguishes from ``MultiBinary(n)``.
    _size_in_list = False
    _domain_advice = "Threshold it first, for example (value > 0.5), or round it with spec.project(value)."

    def __init__(
        self,
        n: int | None = None,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = torch.int8,
    ) -> None:
        if n is None and shape is None:
            raise TypeError("Binary needs n or shape: Binary(3) or Binary(shape=(2, 3)).")
        size = as_size((n,) if shape is None else shape)  # type: ignore[arg-type]  # n or shape is given
        if n is not None and (not size or size[-1] != n):
            raise ValueError(f"Binary(n={n}) needs a shape that ends with n, got shape {list(size)}.")
        super().__init__(size, device, dtype, torch.int8)

    @property
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def space(self) -> CategoricalBox:
        """The two values of an entry."""
        return CategoricalBox(2)

    @property
    def n(self) -> int:
        """The size of the last dim; 1 if the shape is empty."""
        return self._shape[-1] if self._shape else 1

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw zeros and ones with equal probabilities; see ``TensorSpec.rand``."""
        return torch.randint(0, 2, self._size(shape), dtype=self._dtype, device=self._device)

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of values of one row, ``2 ** n``. Batch dims do not multiply it."""
        return math.inf if self.n == -1 else 2**self.n

    def enumerate(self, use_mask: bool = False) -> torch.Tensor:
        """List all values of one row, counting up in binary. In each of them, all rows of the batch are the same.

        Example:
            >>> Binary(2).enumerate().tolist()
            [[0, 0], [0, 1], [1, 0], [1, 1]]
        """
        counts = [math.inf] if self.n == -1 else [2] * self.n
        bits = combinations(counts, "Binary").to(self._device, self._dtype)
        size = blank_size(self._shape)
        return bits.view(len(bits), *[1] * (len(size) - 1), *size[-1:]).expand(len(bits), *size).clone()

    def to_categorical_spec(self) -> Categorical:
        """Return the ``Categorical`` of two choices for each entry."""
        return Categorical(2, shape=self._shape, device=self._device)

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert bits of any dtype to int64; raise a ``ValueError`` if one is not 0 or 1 (with ``safe``)."""
        like = self.to(val.dtype)
        if safe and not like.is_in(val):
            raise ValueError(f"Binary.to_categorical: {like._messages(val)[0]}")
        return val.to(torch.int64)

    def to_one_hot_spec(self) -> OneHot:
        """Return the ``OneHot`` of two choices for each entry."""
        return self.to_categorical_spec().to_one_hot_spec()

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert bits to boolean one-hot vectors, ``[..., *spec.shape, 2]``; see ``to_categorical``."""
        return self.to_categorical_spec().to_one_hot(self.to_categorical(val, safe), safe)

    def _contains(self, value: torch.Tensor) -> bool:
        if self._dtype == torch.bool:
            return True
        if self._dtype.is_floating_point:
            return not bool(self._outside(value).any())
        return torch.equal(torch.clamp(value, 0, 1), value)

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        return (value != 0) & (value != 1)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        return "{0, 1}"

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        if value.dtype == torch.bool:
            return value.to(self._dtype)
        near = value.nan_to_num(0.0).round() if value.is_floating_point() else value
        return near.clamp(0, 1).to(self._dtype)
