"""MultiOneHot: several choices at once, each a one-hot vector."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.data.specs.boxes import BoxList
from rlnb.data.specs.categorical import index_dtype
from rlnb.data.specs.counts import Counts, as_counts, flat_mask, padded_rows
from rlnb.data.specs.maskable import MaskableSpec, gather_last
from rlnb.data.specs.masks import legal_text
from rlnb.data.specs.multi import MultiCategorical
from rlnb.data.specs.normalize import Device, Shape, as_lead, as_size
from rlnb.data.specs.one_hot import comparable_entries, refuse_register, vector_text
from rlnb.data.specs.variable import blank_size, fits_shape


class MultiOneHot(MaskableSpec):
    """Several choices, each a one-hot vector, one after the other along the last dim.

    Args:
        nvec: how many choices each entry has; any number of dims from one on.
        shape: the shape of one value, ending with the sum of ``nvec``; ``(sum(nvec),)`` when None.
        device: where the values live; torch's default device when None.
        dtype: the dtype.
        use_register: only False: choices are numbered, not learnt from the values that are encoded.
        mask: booleans of the shape of a value, True where an entry may be 1; see `update_mask`. All may when None.
        start: the number of the first choice of each entry where choices are written as integers.

    Raises:
        TypeError: the mask is none of booleans.
        ValueError: an entry has no choices, or the shape or that of the mask does not fit.

    Example:
        >>> spec = MultiOneHot([2, 3])
        >>> spec.encode([1, 2])
        tensor([False,  True, False, False,  True])
    """

    _event_dims = 1
    _fields = ("nvec", "start", "_mask")
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
        refuse_register(type(self).__name__, use_register)
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
        #: For each entry of the vector, the choice that it belongs to and its place there.
        self._owner = torch.repeat_interleave(counts)
        self._begin = torch.cumsum(counts, 0) - counts
        self._place = torch.arange(len(self._owner), device=self._device) - self._begin[self._owner]
        self._place_float = self._place.double()
        self._prepare_mask()

    @property
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def space(self) -> BoxList:
        """The choices of each entry."""
        return BoxList.from_nvec(self.nvec, self.start)

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw vectors, each legal choice as likely.

        Args:
            shape: sizes in front of the spec's shape.

        Raises:
            ValueError: the mask leaves nothing to choose from.
        """
        if self._table is not None:
            return self._from_positions(self._table.draw(as_lead(shape), "MultiOneHot.rand"))
        size = self._size(shape)
        drawn = torch.rand((*size[:-1], len(self._lengths)), dtype=torch.float64, device=self._device)
        return self._written(drawn.mul_(self._wide_counts).floor_(), self._place_float)

    def _written(self, positions: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Write positions (last dim: one for each choice) as one-hot vectors."""
        vector = torch.eq(positions.index_select(-1, self._owner), place)
        return vector if self._dtype == torch.bool else vector.to(self._dtype)

    _choice_dims = 1

    def _given_mask(self, mask: Any) -> Any:
        return None if mask is None else flat_mask(mask, self.nvec.flatten())

    def _mask_size(self) -> torch.Size:
        return blank_size(self._shape)

    def _table_rows(self, mask: torch.Tensor) -> torch.Tensor:
        return padded_rows(mask, self.nvec)

    def _counts(self) -> list[int]:
        return self._lengths

    def _rows(self) -> torch.Size:
        return torch.Size((*self._shape[:-1], len(self._lengths)))

    def _positions(self, value: torch.Tensor) -> torch.Tensor:
        return self._argmax(value.to(torch.uint8))

    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        return self._written(position, self._place)

    def _taken(self, index: torch.Tensor, tensor: torch.Tensor, width: int, who: str) -> torch.Tensor:
        return gather_last(self._positions(index) + self._begin, tensor, width, who).unflatten(-1, self.nvec.shape)

    def _contains(self, value: torch.Tensor) -> bool:
        return not bool(self._outside(value).any())

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

    def _offence(self, value: torch.Tensor, index: tuple[int, ...]) -> tuple[str, None]:
        return vector_text(value[index]), None

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        if self._table is not None:
            self._table.refuse_empty("MultiOneHot.project")
        return self._from_positions(self._argmax(comparable_entries(value, self._mask)))

    def _argmax(self, value: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.argmax(-1) for part in value.split(self._lengths, -1)], -1)

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        if fits_shape(value.shape, (*expected[:-1], *self.nvec.shape)) and not value.is_floating_point():
            return (
                f"Integers were given where one-hot vectors of lengths {self._lengths} are expected: "
                "spec.encode(value)."
            )
        return super()._shape_fix(expected, value)

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> torch.Tensor:
        """Turn integers, or vectors that are one-hot already, into one-hot vectors.

        Args:
            val: integers of shape ``[..., *spec.shape[:-1], *nvec.shape]``; or boolean or floating vectors of shape
                ``[..., *spec.shape]``. An integer tensor always counts as choices.
            check: whether to raise for floating or boolean vectors that are not one-hot, and for masked choices.
            ignore_device: whether to leave the value on the device where it is; otherwise it goes to the spec's.

        Returns:
            A tensor of shape ``[..., *spec.shape]``.

        Raises:
            TypeError: it cannot be made a tensor.
            ValueError: the shape does not fit, or there is no such choice.
        """
        raw = self._as_tensor(val)
        there = self._placed(raw, ignore_device)
        return there._encode_choices(raw.to(there._device), check)

    def _encode_choices(self, raw: torch.Tensor, check: bool) -> torch.Tensor:
        if raw.is_floating_point() or raw.dtype == torch.bool:
            return self._encode_tensor(raw, check, type(self).__name__)
        integers = (self if check else self._maskless()).to_categorical_spec()
        position = integers._encode_tensor(raw, True, type(self).__name__) - self.start
        return self._from_positions(position.flatten(-self.nvec.ndim))

    def _index_dtype(self) -> torch.dtype:
        return index_dtype(self._dtype, int(self.start.min()), int((self.start + self.nvec).max()) - 1)

    def _decode(self, value: torch.Tensor) -> Any:
        index = self._positions(value).unflatten(-1, self.nvec.shape) + self.start.cpu()
        return index.to(self._index_dtype()).numpy()

    def _hash_key(self) -> Any:
        return tuple(self.nvec.flatten()[:8].tolist()), tuple(self.start.flatten()[:8].tolist())

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Turn one-hot vectors into integers.

        Args:
            val: vectors of shape ``[..., *spec.shape]``, of any dtype.
            safe: whether to check the value; its mask does not matter.

        Returns:
            An int64 tensor of shape ``[..., *spec.shape[:-1], *nvec.shape]``.

        Raises:
            ValueError: the value is not one-hot.
        """
        like = self._maskless().to(val.dtype)
        if safe and not like.is_in(val):
            raise ValueError(f"MultiOneHot.to_categorical: {like._complaints(val)[0]}")
        return self._positions(val).unflatten(-1, self.nvec.shape) + self.start

    def to_categorical_spec(self) -> MultiCategorical:
        """Return the `MultiCategorical` of the same choices and mask."""
        spec = MultiCategorical(
            self.nvec, shape=(*self._shape[:-1], *self.nvec.shape), device=self._device, start=self.start
        )
        if self._table is not None:
            spec._adopt_rows(self._table.mask)
        return spec

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Return ``val`` as it is: it is one-hot already."""
        return val

    def to_one_hot_spec(self) -> MultiOneHot:
        """Return a copy: it is one-hot already."""
        return self.clone()
