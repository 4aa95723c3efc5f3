"""MultiCategorical and MultiOneHot: several choices at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.bounded import _saturating_cast
from rlnb.data.specs.boxes import BoxList
from rlnb.data.specs.categorical import choices_text, index_dtype
from rlnb.data.specs.leaf import LeafSpec
from rlnb.data.specs.normalize import Device, Shape, as_size
from rlnb.data.specs.one_hot import vector_text
from rlnb.data.specs.sampling import Draw, draw_choices

Counts = Sequence[Any] | np.ndarray | torch.Tensor


class MultiCategorical(LeafSpec):
    """Several choices, each an integer: entry ``i`` is one of ``start[i], ..., start[i] + nvec[i] - 1``.

    Args:
        nvec: how many choices each entry has; any number of dims from one on.
        shape: the shape of one value, which ``nvec`` broadcasts to; the shape of ``nvec`` when None.
        device: where the values live; torch's default device when None.
        dtype: an integer dtype.
        start: the smallest value of each entry, as in Gymnasium's ``MultiDiscrete(nvec, start=...)``.

    Raises:
        ValueError: an entry has no choices, or the shape does not fit.

    Example:
        >>> spec = MultiCategorical([2, 3])
        >>> spec.is_in(torch.tensor([1, 2])), spec.is_in(torch.tensor([2, 1]))
        (True, False)
    """

    _fields = ("nvec", "start")
    _shaped = ("nvec", "start")
    _domain_fix = "Check how the value is computed, or give the spec more choices."
    nvec: torch.Tensor
    start: torch.Tensor
    _draw: Draw

    def __init__(
        self,
        nvec: Counts,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = torch.int64,
        start: Counts | int = 0,
    ) -> None:
        counts, first = _counts(type(self).__name__, nvec, start)
        size = counts.shape if shape is None else as_size(shape)
        super().__init__(size, device, dtype, torch.int64)
        if self._dtype.is_floating_point or self._dtype == torch.bool:
            raise TypeError(f"MultiCategorical needs an integer dtype, got {self._dtype}. Use torch.int64.")
        if size[len(size) - counts.ndim :] != counts.shape:
            raise ValueError(
                f"MultiCategorical: the shape must end with the shape of nvec, {list(counts.shape)}, got {list(size)}."
            )
        _check_range(type(self).__name__, counts, first, self._dtype)
        self.nvec = counts.to(self._device).expand(size)
        self.start = first.to(self._device).expand(size)
        self._prepare()

    def _prepare(self) -> None:
        self._low, self._high = self.start.to(self._dtype), (self.start + self.nvec - 1).to(self._dtype)
        start = self.start if bool(self.start.any()) else None
        self._draw = partial(draw_choices, self.nvec.double(), start, self._dtype)

    @property
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def space(self) -> BoxList | Any:
        """The choices of each entry; leading dims along which they repeat are left out."""
        nvec, start = self.nvec, self.start
        while nvec.ndim > 1 and len(nvec) and bool((nvec == nvec[:1]).all() and (start == start[:1]).all()):
            nvec, start = nvec[0], start[0]
        return BoxList.from_nvec(nvec, start) if nvec.ndim else BoxList.from_nvec(nvec[None], start[None])[0]

    def rand(self, shape: Shape = ()) -> torch.Tensor:
        """Draw choices, each as likely.

        Args:
            shape: sizes in front of the spec's shape.
        """
        return self._draw(self._size(shape))

    def _contains(self, value: torch.Tensor) -> bool:
        return torch.equal(torch.clamp(value, self._low, self._high), value)

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        return (value < self._low) | (value > self._high)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        return choices_text(int(self.nvec[index]), int(self.start[index]))

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        whole = value.nan_to_num(0.0).round() if value.is_floating_point() else value
        wide = _saturating_cast(whole, torch.int64)
        return wide.clamp(self.start, self.start + self.nvec - 1).to(self._dtype)

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        total = int(self.nvec.sum())
        if expected == self._shape and value.shape == torch.Size((total,)) and total != expected.numel():
            return (
                "One-hot vectors were given where integers are expected: spec.to_one_hot_spec().to_categorical(value)."
            )
        return super()._shape_fix(expected, value)

    def _to_dtype(self, dtype: torch.dtype) -> MultiCategorical:
        if dtype.is_floating_point or dtype == torch.bool:
            raise TypeError(f"MultiCategorical needs an integer dtype, got {dtype}. Use torch.int64.")
        _check_range(type(self).__name__, self.nvec, self.start, dtype)
        return self._with(_dtype=dtype)

    def to_one_hot(self, value: torch.Tensor) -> torch.Tensor:
        """Turn integers into one-hot vectors, one after the other along the last dim.

        Args:
            value: integers of the spec.

        Returns:
            A boolean tensor whose last dim has the sum of ``nvec`` entries.

        Raises:
            ValueError: the value is not in the spec.
        """
        if not self.is_in(value):
            raise ValueError(f"MultiCategorical.to_one_hot: {self._complaints(value)[0]}")
        return self.to_one_hot_spec().encode(value)

    def to_one_hot_spec(self) -> MultiOneHot:
        """Return the `MultiOneHot` of the same choices.

        Leading dims along which the choices repeat stay dims; the others are laid out along the last one.
        """
        lead = 0
        nvec, start = self.nvec, self.start
        while nvec.ndim > 1 and len(nvec) and bool((nvec == nvec[:1]).all() and (start == start[:1]).all()):
            nvec, start, lead = nvec[0], start[0], lead + 1
        shape = (*self._shape[:lead], int(nvec.sum()))
        return MultiOneHot(nvec, shape=shape, device=self._device, start=start)

    def to_categorical(self, value: torch.Tensor) -> torch.Tensor:
        """Return ``value`` as it is: it is categorical already."""
        return value

    def to_categorical_spec(self) -> MultiCategorical:
        """Return a copy: it is categorical already."""
        return self.clone()


class MultiOneHot(LeafSpec):
    """Several choices, each a one-hot vector, one after the other along the last dim.

    Args:
        nvec: how many choices each entry has; any number of dims from one on.
        shape: the shape of one value, ending with the sum of ``nvec``; ``(sum(nvec),)`` when None.
        device: where the values live; torch's default device when None.
        dtype: the dtype.
        start: the number of the first choice of each entry where choices are written as integers.

    Raises:
        ValueError: an entry has no choices, or the shape does not fit.

    Example:
        >>> spec = MultiOneHot([2, 3])
        >>> spec.encode([1, 2])
        tensor([False,  True, False, False,  True])
    """

    _event_dims = 1
    _fields = ("nvec", "start")
    _domain_fix = "Make it with spec.encode(choices), or take the largest entries: spec.project(value)."
    nvec: torch.Tensor
    start: torch.Tensor

    def __init__(
        self,
        nvec: Counts,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = torch.bool,
        start: Counts | int = 0,
    ) -> None:
        counts, first = _counts(type(self).__name__, nvec, start)
        total = int(counts.sum())
        size = as_size((total,) if shape is None else shape)
        if not size or size[-1] != total:
            raise ValueError(f"MultiOneHot: the shape must end with the sum of nvec, {total}, got {list(size)}.")
        super().__init__(size, device, dtype, torch.bool)
        self.nvec, self.start = counts.to(self._device), first.to(self._device)
        self._prepare()

    def _prepare(self) -> None:
        counts = self.nvec.flatten()
        self._counts = counts.double()
        self._lengths = counts.tolist()
        #: For each entry of the vector, the choice that it belongs to and its place there.
        self._owner = torch.repeat_interleave(counts)
        begin = torch.cumsum(counts, 0) - counts
        self._place = torch.arange(len(self._owner), device=self._device) - begin[self._owner]
        self._place_float = self._place.double()

    @property
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def space(self) -> BoxList:
        """The choices of each entry."""
        return BoxList.from_nvec(self.nvec, self.start)

    def rand(self, shape: Shape = ()) -> torch.Tensor:
        """Draw vectors, each choice as likely.

        Args:
            shape: sizes in front of the spec's shape.
        """
        size = self._size(shape)
        drawn = torch.rand((*size[:-1], len(self._lengths)), dtype=torch.float64, device=self._device)
        return self._written(drawn.mul_(self._counts).floor_(), self._place_float)

    def _written(self, positions: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Write positions (last dim: one for each choice) as one-hot vectors."""
        vector = torch.eq(positions.index_select(-1, self._owner), place)
        return vector if self._dtype == torch.bool else vector.to(self._dtype)

    def _contains(self, value: torch.Tensor) -> bool:
        return not bool(self._outside(value).any())

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        blank = torch.zeros((*value.shape[:-1], len(self._lengths)), dtype=torch.int64, device=value.device)
        filled = blank.index_add(-1, self._owner, (value != 0).to(torch.int64))
        wrong = (filled != 1).any(-1)
        return wrong if value.dtype == torch.bool else wrong | ((value != 0) & (value != 1)).any(-1)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        return f"the one-hot vectors of lengths {self._lengths} in a row (one entry of each is 1, the others are 0)"

    def _offence(self, value: torch.Tensor, index: tuple[int, ...]) -> tuple[str, None]:
        return vector_text(value[index]), None

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        comparable = value.nan_to_num(nan=-torch.inf) if value.is_floating_point() else value.to(torch.int64)
        return self._written(self._argmax(comparable), self._place)

    def _argmax(self, value: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.argmax(-1) for part in value.split(self._lengths, -1)], -1)

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        if value.shape == torch.Size((*expected[:-1], *self.nvec.shape)) and not value.is_floating_point():
            return (
                f"Integers were given where one-hot vectors of lengths {self._lengths} are expected: "
                "spec.encode(value)."
            )
        return super()._shape_fix(expected, value)

    def encode(self, value: Any, *, check: bool = True) -> torch.Tensor:
        """Turn integers, or vectors that are one-hot already, into one-hot vectors.

        Args:
            value: integers of shape ``[..., *spec.shape[:-1], *nvec.shape]``; or boolean or floating vectors of shape
                ``[..., *spec.shape]``. An integer tensor always counts as choices.
            check: whether to raise for floating or boolean vectors that are not one-hot.

        Returns:
            A tensor of shape ``[..., *spec.shape]``.

        Raises:
            TypeError: it cannot be made a tensor.
            ValueError: the shape does not fit, or there is no such choice.
        """
        raw = self._as_tensor(value)
        if raw.is_floating_point() or raw.dtype == torch.bool:
            return self._encode_tensor(raw, check, type(self).__name__)
        position = self.to_categorical_spec()._encode_tensor(raw, True, type(self).__name__) - self.start
        return self._written(position.flatten(-self.nvec.ndim), self._place)

    def _index_dtype(self) -> torch.dtype:
        return index_dtype(self._dtype, int(self.start.min()), int((self.start + self.nvec).max()) - 1)

    def _decode(self, value: torch.Tensor) -> Any:
        index = self._argmax(value.to(torch.uint8)).unflatten(-1, self.nvec.shape) + self.start.cpu()
        return index.to(self._index_dtype()).numpy()

    def to_categorical(self, value: torch.Tensor) -> torch.Tensor:
        """Turn one-hot vectors into integers.

        Args:
            value: vectors of shape ``[..., *spec.shape]``, of any dtype.

        Returns:
            An int64 tensor of shape ``[..., *spec.shape[:-1], *nvec.shape]``.

        Raises:
            ValueError: the value is not one-hot.
        """
        like = self.to(value.dtype)
        if not like.is_in(value):
            raise ValueError(f"MultiOneHot.to_categorical: {like._complaints(value)[0]}")
        return self._argmax(value.to(torch.uint8)).unflatten(-1, self.nvec.shape) + self.start

    def to_categorical_spec(self) -> MultiCategorical:
        """Return the `MultiCategorical` of the same choices."""
        shape = (*self._shape[:-1], *self.nvec.shape)
        return MultiCategorical(self.nvec, shape=shape, device=self._device, start=self.start)

    def to_one_hot(self, value: torch.Tensor) -> torch.Tensor:
        """Return ``value`` as it is: it is one-hot already."""
        return value

    def to_one_hot_spec(self) -> MultiOneHot:
        """Return a copy: it is one-hot already."""
        return self.clone()


def _counts(name: str, nvec: Counts, start: Counts | int) -> tuple[torch.Tensor, torch.Tensor]:
    counts = torch.as_tensor(np.array(nvec) if not isinstance(nvec, torch.Tensor) else nvec).to(torch.int64).clone()
    if counts.ndim == 0 or counts.numel() == 0 or bool((counts < 1).any()):
        raise ValueError(f"{name} needs nvec as a list of positive numbers, got {counts.tolist()}.")
    first = torch.as_tensor(np.array(start) if not isinstance(start, torch.Tensor) else start).to(torch.int64)
    try:
        return counts, first.to(counts.device).expand(counts.shape).clone()
    except RuntimeError:
        raise ValueError(
            f"{name}: start has shape {list(first.shape)}, but nvec has shape {list(counts.shape)}."
        ) from None


def _check_range(name: str, nvec: torch.Tensor, start: torch.Tensor, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    low, high = int(start.min()), int((start + nvec).max()) - 1
    if low < info.min or high > info.max:
        raise ValueError(
            f"{name}: the choices go from {low} to {high}, but {dtype} holds {info.min} to {info.max}. Use torch.int64."
        )
