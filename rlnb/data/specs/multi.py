"""MultiCategorical: several choices at once, each an integer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from rlnb.data.specs.bounded import _saturating_cast
from rlnb.data.specs.boxes import BoxList
from rlnb.data.specs.categorical import choices_text, fractions, index_dtype
from rlnb.data.specs.counts import Counts, as_counts, check_range, flat_mask, flat_rows, padded_rows
from rlnb.data.specs.maskable import MaskableSpec
from rlnb.data.specs.masks import legal_text
from rlnb.data.specs.normalize import Device, Shape, as_lead, as_size
from rlnb.data.specs.sampling import Draw, chooser
from rlnb.data.specs.variable import blank_size

if TYPE_CHECKING:
    from rlnb.data.specs.multi_one_hot import MultiOneHot


class MultiCategorical(MaskableSpec):
    """Several choices, each an integer: entry ``i`` is one of ``start[i], ..., start[i] + nvec[i] - 1``.

    Args:
        nvec: how many choices each entry has; any number of dims from one on.
        shape: the shape of one value, which ``nvec`` broadcasts to; the shape of ``nvec`` when None.
        device: where the values live; torch's default device when None.
        dtype: an integer dtype, or a floating one for whole numbers.
        mask: booleans, True where a value is legal, the choices one after the other along the last dim, or a row for
            each choice, ``[len(nvec), max(nvec)]``; see `update_mask`. All are legal when None.
        start: the smallest value of each entry, as in Gymnasium's ``MultiDiscrete(nvec, start=...)``.

    Raises:
        TypeError: the dtype is ``torch.bool``, or the mask is not boolean.
        ValueError: an entry has no choices, or the shape or that of the mask does not fit.

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
    _draw: Draw

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
        if self._dtype == torch.bool:
            raise TypeError(f"MultiCategorical needs an integer dtype, got {self._dtype}. Use torch.int64.")
        if size[max(len(size) - counts.ndim, 0) :] != counts.shape:
            raise ValueError(
                f"MultiCategorical: the shape must end with the shape of nvec, {list(counts.shape)}, got {list(size)}."
            )
        check_range(type(self).__name__, counts, first, self._dtype)
        self._mask = None
        self.nvec, self.start = (part.to(self._device).expand(blank_size(size)) for part in (counts, first))
        self._prepare()
        self.update_mask(mask)

    def _prepare(self) -> None:
        if self._mask is not None:
            # An index may have left the entries with the most choices behind.
            self._mask = self._mask[..., : int(self.nvec.max())] if self.nvec.numel() else self._mask[..., :0]
        self._prepare_mask()
        self._low, self._high = self.start.to(self._dtype), (self.start + self.nvec - 1).to(self._dtype)
        start = self.start if bool(self.start.any()) else None
        self._draw = chooser(self.nvec, start, self._dtype)

    @property
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def space(self) -> BoxList | Any:
        """The choices of each entry; leading dims along which they repeat are left out."""
        _, nvec, start = self._repeated()
        return BoxList.from_nvec(nvec, start) if nvec.ndim else BoxList.from_nvec(nvec[None], start[None])[0]

    def _repeated(self) -> tuple[int, torch.Tensor, torch.Tensor]:
        """Count the leading dims along which the choices repeat; return that, ``nvec`` and ``start`` without them."""
        lead, nvec, start = 0, self.nvec, self.start
        while nvec.ndim > 1 and len(nvec) and bool((nvec == nvec[:1]).all() and (start == start[:1]).all()):
            nvec, start, lead = nvec[0], start[0], lead + 1
        return lead, nvec, start

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw choices, each legal one as likely.

        Args:
            shape: sizes in front of the spec's shape.

        Raises:
            ValueError: the mask leaves nothing to choose from.
        """
        if self._table is None:
            return self._draw(self._size(shape))
        return self._from_positions(self._table.draw(as_lead(shape), "MultiCategorical.rand"))

    @property
    def _choice_dims(self) -> int:  # type: ignore[override]  # a constant of other specs
        return self._repeated()[1].ndim

    def _given_mask(self, mask: Any) -> Any:
        return None if mask is None else flat_mask(mask, self._repeated()[1].flatten())

    def _mask_size(self) -> torch.Size:
        lead, nvec, _ = self._repeated()
        return torch.Size((*self.nvec.shape[:lead], int(nvec.sum())))

    def _stored(self, mask: torch.Tensor) -> torch.Tensor:
        _, nvec, _ = self._repeated()
        return padded_rows(mask, nvec.flatten()).reshape(*self.nvec.shape, -1)

    def _adopt_rows(self, rows: torch.Tensor) -> None:
        """Take a mask over from a spec whose rows are laid out already, shape ``[*lead, number of choices, width]``."""
        self._mask = rows.reshape(*self.nvec.shape, -1)
        self._prepare_mask()

    @property
    def mask(self) -> torch.Tensor | None:
        """A copy of the mask, of the shape of the one-hot encoding; None when every value is legal."""
        if self._mask is None:
            return None
        lead, nvec, _ = self._repeated()
        rows = self._mask.reshape(*self.nvec.shape[:lead], nvec.numel(), -1)
        return flat_rows(rows, nvec.flatten())

    def _counts(self) -> list[int]:
        counts: list[int] = self._repeated()[1].flatten().tolist()
        return counts

    def _rows(self) -> torch.Size:
        return self._shape

    def _positions(self, value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.int64) - self.start

    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        return (position + self.start).to(self._dtype)

    def _contains(self, value: torch.Tensor) -> bool:
        if self._table is not None or self._dtype.is_floating_point:
            return not bool(self._outside(value).any())
        return torch.equal(torch.clamp(value, self._low, self._high), value)

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        if self._table is not None:
            return ~self._table.allows(self._positions(value)) | fractions(value)
        return (value < self._low) | (value > self._high) | fractions(value)

    def _domain_text(self, index: tuple[int, ...]) -> str:
        if self._mask is not None:
            return f"{legal_text(self._mask[index], int(self.start[index]))}, the values that the mask leaves"
        return choices_text(int(self.nvec[index]), int(self.start[index]))

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        whole = value.nan_to_num(0.0).round() if value.is_floating_point() else value
        near = _saturating_cast(whole, torch.int64).clamp(self.start, self.start + self.nvec - 1)
        if self._table is not None:
            return self._from_positions(self._table.nearest(near - self.start, "MultiCategorical.project"))
        return near.to(self._dtype)

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        total = int(self.nvec.sum())
        if expected == self._shape and value.shape == torch.Size((total,)) and total != expected.numel():
            return (
                "One-hot vectors were given where integers are expected: spec.to_one_hot_spec().to_categorical(value)."
            )
        return super()._shape_fix(expected, value)

    def _to_dtype(self, dtype: torch.dtype) -> MultiCategorical:
        if dtype == torch.bool:
            raise TypeError(f"MultiCategorical needs an integer dtype, got {dtype}. Use torch.int64.")
        check_range(type(self).__name__, self.nvec, self.start, dtype)
        return self._with(_dtype=dtype)

    def _decode(self, value: torch.Tensor) -> Any:
        # Gymnasium's MultiDiscrete takes integers only.
        return value.to(index_dtype(value.dtype, 0, 0)).numpy()

    def _hash_key(self) -> Any:
        return tuple(self.nvec.flatten()[:8].tolist()), tuple(self.start.flatten()[:8].tolist())

    def index(self, index: torch.Tensor, tensor_to_index: torch.Tensor) -> torch.Tensor:
        """Take from ``tensor_to_index`` what a value of the spec chooses; see `MultiOneHot.index`."""
        taken = self._maskless().to_one_hot_spec().index(self.to_one_hot(index), tensor_to_index)
        # A single choice comes back as a list of one.
        return taken if self._repeated()[1].ndim else taken.squeeze(-1)

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Turn integers into one-hot vectors, one after the other along the last dim.

        Args:
            val: integers of the spec.
            safe: whether to check the value; its mask does not matter.

        Returns:
            A boolean tensor whose last dim has the sum of ``nvec`` entries.

        Raises:
            ValueError: the value is not in the spec.
        """
        like = self._maskless()
        if safe and not like.is_in(val):
            raise ValueError(f"MultiCategorical.to_one_hot: {like._complaints(val)[0]}")
        lead, nvec, _ = self._repeated()
        extra = val.shape[: val.ndim - self.ndim + lead]
        return like.to_one_hot_spec()._from_positions(self._positions(val).reshape(*extra, nvec.numel()))

    def to_one_hot_spec(self) -> MultiOneHot:
        """Return the `MultiOneHot` of the same choices and mask.

        Leading dims along which the choices repeat stay dims; the others are laid out along the last one.

        Raises:
            ValueError: a dim of variable size would be laid out.
        """
        from rlnb.data.specs.multi_one_hot import MultiOneHot

        lead, nvec, start = self._repeated()
        if -1 in self._shape[lead:]:
            raise ValueError(
                "MultiCategorical.to_one_hot_spec: a dim of variable size stands behind one along which the choices "
                "differ, so that the length of the vector would vary. Put it first."
            )
        counts, first = (part if part.ndim else part[None] for part in (nvec, start))
        shape = (*self._shape[:lead], int(nvec.sum()))
        return MultiOneHot(counts, shape=shape, device=self._device, mask=self.mask, start=first)

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Return ``val`` as it is: it is categorical already."""
        return val

    def to_categorical_spec(self) -> MultiCategorical:
        """Return a copy: it is categorical already."""
        return self.clone()
