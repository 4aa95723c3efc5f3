"""Specs of several choices at once: MultiCategorical (integers) and MultiOneHot (one-hot vectors in a row)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.boxes import BoxList
from rlnb.data.specs.maskable import (
    MaskableSpec,
    check_no_register,
    choices_text,
    flat_rows,
    gather_last,
    index_dtype,
    legal_text,
    padded_rows,
)
from rlnb.data.specs.normalize import Device, Shape, as_size, whole_numbers
from rlnb.data.specs.sampling import chooser
from rlnb.data.specs.variable import blank_size, fits_shape

Counts = Sequence[Any] | np.ndarray | torch.Tensor


class MultiCategorical(MaskableSpec):
    """Several choices, each an integer: entry ``i`` is one of ``start[i], ..., start[i] + nvec[i] - 1``.

    Args:
        nvec: the number of choices of each entry, with at least one dim.
        shape: the shape of one value, which must end with the shape of ``nvec``; the shape of ``nvec`` if None.
        device: the device of the values; torch's default device if None.
        dtype: an integer dtype, or a floating one that holds whole numbers.
        mask: booleans, True for a legal value: the choices one after the other along the last dim, or a row for each
            choice, ``[len(nvec), max(nvec)]``; see ``update_mask``. None makes all values legal.
        start: the smallest value of each entry, as in Gymnasium's ``MultiDiscrete(nvec, start=...)``.

    Raises:
        TypeError: If the dtype is ``torch.bool``, or the mask is not boolean.
        ValueError: If an entry has no choices, or the shape or the mask does not fit.

    Example:
        >>> spec = MultiCategorical([2, 3])
        >>> spec.is_in(torch.tensor([1, 2])), spec.is_in(torch.tensor([2, 1]))
        (True, False)
    """

    _fields = ("nvec", "start", "_mask")
    _shaped = ("nvec", "start")
    _domain_advice = "Check how the value is computed, or give the spec more choices."
    nvec: torch.Tensor
    start: torch.Tensor

    def __init__(
        self,
        nvec: Counts,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = torch.int64,
        mask: Any = None,
        start: Counts | int = 0,
    ) -> None:
        counts, first = as_counts(type(self).__name__, nvec, start)
        size = counts.shape if shape is None else as_size(shape)
        super().__init__(size, device, dtype, torch.int64)
        check_range(type(self).__name__, counts, first, self._dtype)
        if size[max(len(size) - counts.ndim, 0) :] != counts.shape:
            raise ValueError(
                f"MultiCategorical: the shape must end with the shape of nvec, {list(counts.shape)}, got {list(size)}."
            )
        self._mask = None
        self.nvec, self.start = (part.to(self._device).expand(blank_size(size)) for part in (counts, first))
        self._prepare()
        self.update_mask(mask)

    def _prepare(self) -> None:
        if self._mask is not None:
            # Indexing may have removed the entries with the most choices.
            self._mask = self._mask[..., : int(self.nvec.max())] if self.nvec.numel() else self._mask[..., :0]
        self._prepare_mask()
        self._low, self._high = self.start.to(self._dtype), (self.start + self.nvec - 1).to(self._dtype)
        self._offset = self.start if bool(self.start.any()) else None
        self._draw = chooser(self.nvec, self._offset, self._dtype)

    @property
    def space(self) -> BoxList | Any:
        """The choices of each entry, without leading dims along which they repeat."""
        _, nvec, start = self._repeated()
        return BoxList.from_nvec(nvec, start) if nvec.ndim else BoxList.from_nvec(nvec[None], start[None])[0]

    def _repeated(self) -> tuple[int, torch.Tensor, torch.Tensor]:
        """Return the number of leading dims along which the choices repeat, and ``nvec`` and ``start`` without them."""
        lead, nvec, start = 0, self.nvec, self.start
        while nvec.ndim > 1 and len(nvec) and bool((nvec == nvec[:1]).all() and (start == start[:1]).all()):
            nvec, start, lead = nvec[0], start[0], lead + 1
        return lead, nvec, start

    @property
    def _choice_dims(self) -> int:  # type: ignore[override]  # a constant of other specs
        return self._repeated()[1].ndim

    def _mask_size(self) -> torch.Size:
        lead, nvec, _ = self._repeated()
        return torch.Size((*self.nvec.shape[:lead], int(nvec.sum())))

    def _packed_mask(self, mask: torch.Tensor) -> torch.Tensor:
        return padded_rows(mask, self._repeated()[1]).reshape(*self.nvec.shape, -1)

    @property
    def mask(self) -> torch.Tensor | None:
        """A copy of the mask, in the shape of the one-hot encoding; None if every value is legal."""
        if self._mask is None:
            return None
        lead, nvec, _ = self._repeated()
        return flat_rows(self._mask.reshape(*self.nvec.shape[:lead], nvec.numel(), -1), nvec)

    def _counts(self) -> list[int]:
        counts: list[int] = self._repeated()[1].flatten().tolist()
        return counts

    def _rows(self) -> torch.Size:
        return self._shape

    def _domain_text(self, index: tuple[int, ...]) -> str:
        mask = None if self._mask is None else self._mask[index]
        return choices_text(int(self.nvec[index]), int(self.start[index]), mask)

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        total = int(self.nvec.sum())
        if expected == self._shape and value.shape == torch.Size((total,)) and total != expected.numel():
            return (
                "One-hot vectors were given where integers are expected: spec.to_one_hot_spec().to_categorical(value)."
            )
        return super()._shape_fix(expected, value)

    def _to_dtype(self, dtype: torch.dtype) -> MultiCategorical:
        check_range(type(self).__name__, self.nvec, self.start, dtype)
        return self._with(_dtype=dtype)

    def _decode(self, value: torch.Tensor) -> Any:
        # Gymnasium's MultiDiscrete takes only integers.
        return value.to(index_dtype(value.dtype, 0, 0)).numpy()

    def index(self, index: torch.Tensor, tensor_to_index: torch.Tensor) -> torch.Tensor:
        """Select the numbers of ``tensor_to_index`` that a value of the spec chooses; see ``MaskableSpec.index``."""
        taken = self._maskless().to_one_hot_spec().index(self.to_one_hot(index), tensor_to_index)
        # A single choice comes back as a list of one.
        return taken if self._repeated()[1].ndim else taken.squeeze(-1)

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert integers to boolean one-hot vectors in a row; see ``MaskableSpec.to_one_hot``."""
        if safe:
            self._check_readable(val, "to_one_hot")
        lead, nvec, _ = self._repeated()
        extra = val.shape[: val.ndim - self.ndim + lead]
        vectors = self._maskless().to_one_hot_spec()
        return vectors._from_positions(self._positions(val).reshape(*extra, nvec.numel()))

    def to_one_hot_spec(self) -> MultiOneHot:
        """Return the ``MultiOneHot`` of the same choices and mask.

        Leading dims along which the choices repeat are kept; the others are flattened into the last dim.

        Raises:
            ValueError: If a dim of variable size would be flattened.
        """
        lead, nvec, start = self._repeated()
        if -1 in self._shape[lead:]:
            raise ValueError(
                "MultiCategorical.to_one_hot_spec: the choices differ along a dim before one of variable size, so that "
                "the length of the vector would vary. Put the variable dim first."
            )
        counts, first = (part if part.ndim else part[None] for part in (nvec, start))
        shape = (*self._shape[:lead], int(nvec.sum()))
        return MultiOneHot(counts, shape=shape, device=self._device, mask=self.mask, start=first)


class MultiOneHot(MaskableSpec):
    """Several choices, each a one-hot vector, in a row along the last dim.

    ``encode`` takes integers of shape ``[..., *spec.shape[:-1], *nvec.shape]``, or boolean or floating vectors of shape
    ``[..., *spec.shape]``. An integer tensor always holds choices.

    Args:
        nvec: the number of choices of each entry, with at least one dim.
        shape: the shape of one value, which must end with the sum of ``nvec``; ``(sum(nvec),)`` if None.
        device: the device of the values; torch's default device if None.
        dtype: the dtype of the values.
        use_register: must be False: choices are not numbered as they are encoded.
        mask: booleans of the shape of a value, True where an entry may be 1; see ``update_mask``. None allows all.
        start: the number of the first choice of each entry when choices are written as integers.

    Raises:
        NotImplementedError: If ``use_register`` is True.
        TypeError: If the mask is not boolean.
        ValueError: If an entry has no choices, or the shape or the mask does not fit.

    Example:
        >>> spec = MultiOneHot([2, 3])
        >>> spec.encode([1, 2])
        tensor([False,  True, False, False,  True])
    """

    _event_dims = 1
    _fields = ("nvec", "start", "_mask")
    _choice_dims = 1
    _domain_advice = "Make it with spec.encode(choices), or take the largest entries: spec.project(value)."
    nvec: torch.Tensor
    start: torch.Tensor

    def __init__(
        self,
        nvec: Counts,
        shape: Shape | None = None,
        device: Device = None,
        dtype: torch.dtype | str | None = torch.bool,
        use_register: bool = False,
        mask: Any = None,
        start: Counts | int = 0,
    ) -> None:
        check_no_register(type(self).__name__, use_register)
        counts, first = as_counts(type(self).__name__, nvec, start)
        total = int(counts.sum())
        size = as_size((total,) if shape is None else shape)
        if not size or size[-1] != total:
            raise ValueError(f"MultiOneHot: the shape must end with the sum of nvec, {total}, got {list(size)}.")
        super().__init__(size, device, dtype, torch.bool)
        self.nvec, self.start = counts.to(self._device), first.to(self._device)
        self._prepare()
        self.update_mask(mask)

    def _prepare(self) -> None:
        counts = self.nvec.flatten()
        self._wide_counts = counts.double()
        self._lengths = counts.tolist()
        # For each entry of the vector, the choice that it belongs to and its place there.
        self._owner = torch.repeat_interleave(counts)
        self._begin = torch.cumsum(counts, 0) - counts
        self._place = torch.arange(len(self._owner), device=self._device) - self._begin[self._owner]
        self._place_float = self._place.double()
        self._prepare_mask()

    @property
    def space(self) -> BoxList:
        """The choices of each entry."""
        return BoxList.from_nvec(self.nvec, self.start)

    def _draw(self, size: torch.Size) -> torch.Tensor:
        drawn = torch.rand((*size[:-1], len(self._lengths)), dtype=torch.float64, device=self._device)
        return self._written(drawn.mul_(self._wide_counts).floor_(), self._place_float)

    def _written(self, positions: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Convert positions (last dim: one for each choice) to one-hot vectors."""
        vector = torch.eq(positions.index_select(-1, self._owner), place)
        return vector if self._dtype == torch.bool else vector.to(self._dtype)

    def _mask_size(self) -> torch.Size:
        return blank_size(self._shape)

    def _table_rows(self, mask: torch.Tensor) -> torch.Tensor:
        return padded_rows(mask, self.nvec)

    def _counts(self) -> list[int]:
        return self._lengths

    def _rows(self) -> torch.Size:
        return torch.Size((*self._shape[:-1], len(self._lengths)))

    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        return self._written(position, self._place)

    def _from_integers(self, value: torch.Tensor) -> torch.Tensor:
        return self._from_positions((value - self.start).flatten(-self.nvec.ndim))

    def _select_numbers(self, index: torch.Tensor, tensor: torch.Tensor, width: int, who: str) -> torch.Tensor:
        return gather_last(self._positions(index) + self._begin, tensor, width, who).unflatten(-1, self.nvec.shape)

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        blank = torch.zeros((*value.shape[:-1], len(self._lengths)), dtype=torch.int64, device=value.device)
        filled = blank.index_add(-1, self._owner, (value != 0).to(torch.int64))
        wrong = (filled != 1).any(-1)
        if value.dtype != torch.bool:
            wrong |= ((value != 0) & (value != 1)).any(-1)
        return wrong if self._mask is None else wrong | ((value != 0) & ~self._mask).any(-1)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        if self._table is not None:
            legal = ", ".join(legal_text(row) for row in self._table.mask[index])
            return f"the one-hot vectors of lengths {self._lengths} in a row with the 1s at {legal}, as the mask says"
        return f"the one-hot vectors of lengths {self._lengths} in a row (one entry of each is 1, the others are 0)"

    def _argmax(self, value: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.argmax(-1) for part in value.split(self._lengths, -1)], -1)

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        if fits_shape(value.shape, (*expected[:-1], *self.nvec.shape)) and not value.is_floating_point():
            return (
                f"Integers were given where one-hot vectors of lengths {self._lengths} are expected: "
                "spec.encode(value)."
            )
        return super()._shape_fix(expected, value)

    def _index_dtype(self) -> torch.dtype:
        return index_dtype(self._dtype, int(self.start.min()), int((self.start + self.nvec).max()) - 1)

    def _decode(self, value: torch.Tensor) -> Any:
        index = self._positions(value).unflatten(-1, self.nvec.shape) + self.start.cpu()
        return index.to(self._index_dtype()).numpy()

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert vectors to int64, ``[..., *spec.shape[:-1], *nvec.shape]``; see ``MaskableSpec.to_categorical``."""
        if safe:
            self.to(val.dtype)._check_readable(val, "to_categorical")
        return self._positions(val).unflatten(-1, self.nvec.shape) + self.start

    def to_categorical_spec(self) -> MultiCategorical:
        """Return the ``MultiCategorical`` of the same choices and mask."""
        spec = MultiCategorical(
            self.nvec, shape=(*self._shape[:-1], *self.nvec.shape), device=self._device, start=self.start
        )
        if self._table is not None:
            spec._mask = self._table.mask.reshape(*spec.nvec.shape, -1)
            spec._prepare_mask()
        return spec


def as_counts(name: str, nvec: Counts, start: Counts | int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return copies of ``nvec`` and ``start`` as int64 tensors of one shape.

    Raises a ``ValueError`` if a count is not positive, there are no counts, or the shapes do not fit.
    """
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


def check_range(name: str, nvec: torch.Tensor, start: torch.Tensor, dtype: torch.dtype) -> None:
    """Raise unless ``dtype`` holds all choices from ``start`` to ``start + nvec - 1``, and is not ``torch.bool``."""
    if dtype == torch.bool:
        raise TypeError(f"MultiCategorical needs an integer dtype, got {dtype}. Use torch.int64.")
    first, last = whole_numbers(dtype)
    low, high = int(start.min()), int((start + nvec).max()) - 1
    if low < first or high > last:
        raise ValueError(
            f"{name}: the choices go from {low} to {high}, but {dtype} holds {first} to {last}. Use torch.int64."
        )
