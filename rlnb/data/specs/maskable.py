"""MaskableSpec: base class of the specs of choices, with masks of legal choices, counting and indexing."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import torch

from rlnb.data.specs.leaf import LeafSpec
from rlnb.data.specs.normalize import Shape, as_lead, saturating_cast
from rlnb.data.specs.sampling import combinations
from rlnb.data.specs.variable import blank_size


class MaskTable:
    """The legal positions of one or more choices: those where ``mask``, of shape ``[*rows, width]``, is True.

    Example:
        >>> table = MaskTable(torch.tensor([True, False, True]))
        >>> table.nearest(torch.tensor([0, 1, 2]))
        tensor([0, 0, 2])
        >>> table.allows(torch.tensor([0, 1, 2]))
        tensor([ True, False,  True])
    """

    def __init__(self, mask: torch.Tensor) -> None:
        self.mask = mask

    @cached_property
    def counts(self) -> torch.Tensor:
        """The number of legal positions, float64, shape ``[*rows]``."""
        return self.mask.sum(-1).double()

    @cached_property
    def order(self) -> torch.Tensor:
        """The positions of each row, legal ones first, int64, shape ``[*rows, width]``."""
        return self.mask.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)

    @cached_property
    def _nearest(self) -> torch.Tensor:
        width = self.mask.shape[-1]
        place = torch.arange(width, device=self.mask.device).expand(self.mask.shape)
        left = torch.where(self.mask, place, -width).cummax(-1).values
        right = torch.where(self.mask, place, 3 * width).flip(-1).cummin(-1).values.flip(-1)
        return torch.where(place - left <= right - place, left, right)

    def draw(self, lead: Sequence[int], who: str) -> torch.Tensor:
        """Draw legal positions, int64, shape ``[*lead, *rows]``, from one uniform number for each choice."""
        self.check_not_empty(who)
        size = torch.Size((*lead, *self.counts.shape))
        # In float64, the product of a count and a uniform number below 1 never rounds up to the count.
        drawn = torch.rand(size, dtype=torch.float64, device=self.mask.device).mul_(self.counts).long()
        return _pick(self.order, drawn)

    def allows(self, position: torch.Tensor) -> torch.Tensor:
        """Return whether positions of shape ``[..., *rows]`` are legal. Those outside of the table are not."""
        width = self.mask.shape[-1]
        inside = (position >= 0) & (position < width)
        return inside & _pick(self.mask, position.clamp(0, width - 1))

    def nearest(self, position: torch.Tensor) -> torch.Tensor:
        """Return the legal positions nearest to ``position`` (int64, ``[..., *rows]``); the smaller of two."""
        return _pick(self._nearest, position.clamp(0, self.mask.shape[-1] - 1))

    def check_not_empty(self, who: str) -> None:
        """Raise a ``ValueError`` in the name of the operation ``who`` if a choice has no legal position."""
        if bool(self.counts.all()):
            return
        index = tuple((self.counts == 0).nonzero()[0].tolist())
        where = f" at index {index}" if index else ""
        raise ValueError(
            f"{who}: the mask leaves no legal choice{where}: all of its entries are False there. Give it one with "
            "spec.update_mask(mask), or remove it with spec.update_mask(None)."
        )


def _pick(table: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Look up positions of shape ``[..., *rows]`` in a table of shape ``[*rows, width]``."""
    if table.ndim == 1:
        return table[position]
    return table.expand(*position.shape, table.shape[-1]).gather(-1, position.unsqueeze(-1)).squeeze(-1)


class MaskableSpec(LeafSpec):
    """A spec of one or more choices, which are written as integers or (with ``_event_dims``) as one-hot vectors.

    Every choice has a *position*: its number, counted from 0, whatever its encoding.
    """

    _rowed = ("_mask",)
    _masked_advice: ClassVar[str] = "Choose one of them, or take the nearest: spec.project(value)."

    #: The number of trailing dims of the positions that hold the choices of one row.
    _choice_dims: int
    #: The legal positions, a row for each entry of the leading shape; None if all are legal.
    _mask: torch.Tensor | None = None
    _table: MaskTable | None = None
    #: Draws values of the given size, ignoring the mask.
    _draw: Callable[[torch.Size], torch.Tensor]
    #: For integers: the smallest value, the largest one, and the value at position 0 (None for 0).
    _low: Any
    _high: Any
    _offset: Any

    @abstractmethod
    def _mask_size(self) -> torch.Size:
        """Return the shape of a mask as users write it: that of the one-hot encoding."""

    @abstractmethod
    def _counts(self) -> list[int]:
        """Return the number of positions of each choice in one row."""

    @abstractmethod
    def _rows(self) -> torch.Size:
        """Return the shape of the positions of one value. The choices of one row come last."""

    def _positions(self, value: torch.Tensor) -> torch.Tensor:
        """Convert a value to positions."""
        if self._event_dims:
            return self._argmax(value.to(torch.uint8))
        whole = value.to(torch.int64)
        return whole if self._offset is None else whole - self._offset

    def _from_positions(self, position: torch.Tensor) -> torch.Tensor:
        """Convert positions to a value."""
        return (position if self._offset is None else position + self._offset).to(self._dtype)

    def _argmax(self, value: torch.Tensor) -> torch.Tensor:
        """Return the positions of the largest entries of vectors."""
        return value.argmax(-1)

    def _from_integers(self, value: torch.Tensor) -> torch.Tensor:
        """Convert values of ``to_categorical_spec`` to vectors."""
        raise NotImplementedError

    def _packed_mask(self, mask: torch.Tensor) -> torch.Tensor:
        """Convert a mask of ``_mask_size`` to the form of ``_mask``."""
        return mask

    def _table_rows(self, mask: torch.Tensor) -> torch.Tensor:
        """Convert ``_mask`` to one row of positions for each choice."""
        return mask

    def _prepare_mask(self) -> None:
        self._table = None if self._mask is None else MaskTable(self._table_rows(self._mask))

    @property
    def domain(self) -> str:
        """``"discrete"``."""
        return "discrete"

    @property
    def mask(self) -> torch.Tensor | None:
        """A copy of the mask, in the shape of the one-hot encoding; None if every value is legal."""
        return None if self._mask is None else self._mask.clone()

    def update_mask(self, mask: Any) -> None:
        """Set which values are legal, in place.

        With a mask, ``rand`` draws only legal values, ``is_in`` accepts only those and ``project`` returns the nearest.
        Conversions (``to_one_hot``, ``to_categorical``, ``index``) ignore it, so that old data stays readable.

        Args:
            mask: booleans, True for a legal value, in the shape of the one-hot encoding (``to_one_hot_spec().shape``)
                or one that broadcasts to it. None makes all values legal.

        Raises:
            TypeError: If the entries are not booleans.
            ValueError: If the shape does not fit. The spec keeps its previous mask.

        Example:
            >>> from rlnb.data import Categorical
            >>> spec = Categorical(3)
            >>> spec.update_mask(torch.tensor([True, False, True]))
            >>> spec.is_in(torch.tensor(1)), spec.enumerate(use_mask=True).tolist()
            (False, [0, 2])
        """
        if mask is not None:
            given = as_mask(type(self).__name__, mask, self._counts(), self._mask_size(), self._device)
            mask = self._packed_mask(given)
        self._mask = mask
        self._prepare_mask()

    def _maskless(self) -> Self:
        return self if self._mask is None else self._with(_mask=None)

    def _check_readable(self, value: torch.Tensor, call: str) -> None:
        """Raise a ``ValueError`` unless ``value`` is in the spec, whatever its mask."""
        like = self._maskless()
        if not like.is_in(value):
            raise ValueError(f"{type(self).__name__}.{call}: {like._messages(value)[0]}")

    def _contains(self, value: torch.Tensor) -> bool:
        if self._table is None and not self._event_dims:
            if self._dtype == torch.bool:
                return self._low != self._high or not bool((value != self._low).any())
            if not self._dtype.is_floating_point:
                return torch.equal(torch.clamp(value, self._low, self._high), value)
        return not bool(self._outside(value).any())

    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        if self._table is not None:
            return ~self._table.allows(self._positions(value)) | _fractions(value)
        return (value < self._low) | (value > self._high) | _fractions(value)

    def _domain_fix(self) -> str:
        return self._domain_advice if self._mask is None else self._masked_advice

    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        if self._table is not None:
            self._table.check_not_empty(f"{type(self).__name__}.project")
        if self._event_dims:
            return self._largest(_comparable_entries(value, self._mask))
        whole = value.nan_to_num(0.0).round() if value.is_floating_point() else value
        near = saturating_cast(whole, torch.int64).clamp(self._low, self._high)
        if self._table is not None:
            return self._from_positions(self._table.nearest(self._positions(near)))
        return near.to(self._dtype)

    def _largest(self, value: torch.Tensor) -> torch.Tensor:
        """Return the one-hot vectors with their 1s at the largest entries of vectors."""
        return self._from_positions(self._argmax(value))

    def _encode_tensor(self, raw: torch.Tensor, check: bool, who: str) -> torch.Tensor:
        if not self._event_dims or raw.is_floating_point() or raw.dtype == torch.bool:
            return super()._encode_tensor(raw, check, who)
        integers = (self if check else self._maskless()).to_categorical_spec()
        return self._from_integers(integers._encode_tensor(raw, True, who))

    def _hash_key(self) -> Any:
        return tuple(self._counts()[:8])

    def _extra_repr(self) -> str:
        if self._mask is None:
            return ""
        return f",\n    mask=Tensor(shape={self._mask_size()}, device={self._device}, dtype=torch.bool)"

    def rand(self, shape: Shape | None = ()) -> torch.Tensor:
        """Draw choices; all legal ones are equally likely. Raises a ``ValueError`` if the mask leaves none."""
        if self._table is None:
            return self._draw(self._size(shape))
        return self._from_positions(self._table.draw(as_lead(shape), f"{type(self).__name__}.rand"))

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of values of one row: the product over its choices. Batch dims do not multiply it.

        Args:
            use_mask: whether to count only the choices that the mask allows.

        Raises:
            ValueError: If the mask differs between the rows (with ``use_mask``).

        Example:
            >>> from rlnb.data import Categorical, MultiOneHot
            >>> MultiOneHot([2, 3]).cardinality(), Categorical(5, shape=(3,)).cardinality()
            (6, 5)
        """
        return math.prod(self._choice_counts(use_mask, "cardinality"))

    def _choice_counts(self, use_mask: bool, call: str) -> list[int]:
        if self._table is None or not use_mask:
            return self._counts()
        return [int(count) for count in self._row_mask(self._table, call).sum(-1).tolist()]

    def _row_mask(self, table: MaskTable, call: str) -> torch.Tensor:
        """Return the mask that all rows share, of shape ``[choices, positions]``."""
        rows = table.mask.reshape(-1, len(self._counts()), table.mask.shape[-1])
        if bool((rows != rows[:1]).any()):
            raise ValueError(
                f"{type(self).__name__}.{call}: the mask differs between the rows of shape {list(self._shape)}, so "
                f"that they have no common values. Ask for those of one row: spec[0].{call}(use_mask=True)."
            )
        return rows[0]

    def enumerate(self, use_mask: bool = False) -> torch.Tensor:
        """List all values of one row, stacked along a new first dim. The last choice changes fastest.

        In each value of the list, all rows of the batch are the same.

        Args:
            use_mask: whether to list only the choices that the mask allows.

        Returns:
            A tensor of shape ``[cardinality, *spec.shape]``, with size 1 in dims of variable size.

        Raises:
            ValueError: If there are too many values to list, or the mask differs between the rows (with ``use_mask``).

        Example:
            >>> from rlnb.data import OneHot
            >>> OneHot(3, mask=torch.tensor([True, False, True])).enumerate(use_mask=True).int().tolist()
            [[1, 0, 0], [0, 0, 1]]
        """
        counts = self._choice_counts(use_mask, "enumerate")
        position = combinations(counts, type(self).__name__).to(self._device)
        if use_mask and self._table is not None:
            order = MaskTable(self._row_mask(self._table, "enumerate")).order
            position = order[torch.arange(len(order), device=self._device), position]
        rows = blank_size(self._rows())
        own = rows[len(rows) - self._choice_dims :]
        lead = [1] * (len(rows) - len(own))
        return self._from_positions(position.reshape(len(position), *lead, *own).expand(len(position), *rows))

    def index(self, index: torch.Tensor, tensor_to_index: torch.Tensor) -> torch.Tensor:
        """Select the numbers of ``tensor_to_index`` that a value of the spec chooses, whatever its encoding.

        Args:
            index: a value of the spec, with any leading dims. The mask is ignored.
            tensor_to_index: a number for each choice along the last dim, whose size is ``n`` or the sum of ``nvec``.
                The other dims broadcast against the leading dims of ``index``.

        Returns:
            The number of each choice.

        Raises:
            ValueError: If ``index`` is not a value of the spec, or ``tensor_to_index`` has another size.

        Example:
            >>> from rlnb.data import Categorical, OneHot
            >>> scores = torch.tensor([[0.5, 2.0, 1.0], [4.0, 3.0, 5.0]])
            >>> Categorical(3).index(torch.tensor([1, 0]), scores)
            tensor([2., 4.])
            >>> OneHot(3).index(OneHot(3).encode([1, 0]), scores)
            tensor([2., 4.])
        """
        self._check_readable(index, "index")
        return self._select_numbers(index, tensor_to_index, self._mask_size()[-1], f"{type(self).__name__}.index")

    def _select_numbers(self, index: torch.Tensor, tensor: torch.Tensor, width: int, who: str) -> torch.Tensor:
        return gather_last(self._positions(index).unsqueeze(-1), tensor, width, who).squeeze(-1)

    def to_categorical(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert a value to integers.

        Args:
            val: a value of the spec, ``[..., *spec.shape]``. Vectors may have any dtype; integers are returned as is.
            safe: whether to check the value. The mask is ignored.

        Returns:
            Integers of shape ``[..., *spec.to_categorical_spec().shape]``, in int64 if they are converted.

        Raises:
            ValueError: If the value is not in the spec.
        """
        return val

    def to_categorical_spec(self) -> Any:
        """Return the ``Categorical`` or ``MultiCategorical`` of these choices and mask; a copy if it is one already."""
        return self.clone()

    def to_one_hot(self, val: torch.Tensor, safe: bool = True) -> torch.Tensor:
        """Convert a value to one-hot vectors, which stand in a row along the last dim if there are several choices.

        Args:
            val: a value of the spec, ``[..., *spec.shape]``. Vectors are returned unchanged.
            safe: whether to check the value. The mask is ignored.

        Returns:
            Vectors of shape ``[..., *spec.to_one_hot_spec().shape]``, boolean if they are converted.

        Raises:
            ValueError: If the value is not in the spec.
        """
        return val

    def to_one_hot_spec(self) -> Any:
        """Return the ``OneHot`` or ``MultiOneHot`` of the same choices and mask; a copy if it is one already."""
        return self.clone()


def as_mask(name: str, mask: Any, counts: list[int], shape: torch.Size, device: torch.device) -> torch.Tensor:
    """Return a copy of the user's mask as a boolean tensor of ``shape``, the shape of the one-hot encoding.

    A mask with a row for each of several choices, ``[..., len(counts), max(counts)]``, is flattened; the padding of
    shorter rows is ignored. Raises a ``TypeError`` or ``ValueError`` if the entries are not booleans, or the shape does
    not broadcast.
    """
    try:
        given = torch.as_tensor(mask)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name}: a mask must be a boolean tensor of shape {list(shape)}, got a {type(mask).__name__} ({error})."
        ) from None
    if given.dtype != torch.bool:
        raise TypeError(
            f"{name}: a mask must be a boolean tensor, True for a legal value, got dtype {given.dtype}. Cast it: "
            "mask.bool()."
        )
    if len(counts) > 1 and given.shape[-2:] == (len(counts), max(counts)):
        given = flat_rows(given, torch.tensor(counts, device=given.device))
    try:
        return given.to(device).expand(shape).clone(memory_format=torch.contiguous_format)
    except RuntimeError:
        raise ValueError(
            f"{name}: expected a mask of shape {list(shape)}, one entry for each value, or one that broadcasts to it, "
            f"got {list(given.shape)}."
        ) from None


def padded_rows(flat: torch.Tensor, nvec: torch.Tensor) -> torch.Tensor:
    """Split ``[..., sum(nvec)]`` into rows padded with False, ``[..., len(nvec), max(nvec)]``: undoes ``flat_rows``.

    Example:
        >>> padded_rows(torch.tensor([True, True, False, False, True]), torch.tensor([2, 3])).int().tolist()
        [[1, 1, 0], [0, 0, 1]]
    """
    used = torch.arange(int(nvec.max()), device=nvec.device) < nvec.reshape(-1, 1)
    rows = torch.zeros((*flat.shape[:-1], *used.shape), dtype=flat.dtype, device=flat.device)
    rows[..., used] = flat
    return rows


def flat_rows(rows: torch.Tensor, nvec: torch.Tensor) -> torch.Tensor:
    """Concatenate rows of lengths ``nvec``, ``[..., len(nvec), max(nvec)]`` or wider, to ``[..., sum(nvec)]``."""
    return rows[..., torch.arange(rows.shape[-1], device=nvec.device) < nvec.reshape(-1, 1)]


def gather_last(place: torch.Tensor, tensor: torch.Tensor, width: int, who: str) -> torch.Tensor:
    """Select the numbers at ``place`` (``[..., k]``) along the last dim of ``tensor`` (``[..., width]``): ``[..., k]``.

    The leading dims broadcast. Raises a ``ValueError`` in the name of ``who`` if the shapes do not fit.
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


def _fractions(value: torch.Tensor) -> torch.Tensor:
    """Return a mask of the entries that are not whole numbers, including NaN and infinities."""
    if not value.is_floating_point():
        return torch.zeros_like(value, dtype=torch.bool)
    return (value.round() != value) | value.isinf()


def _comparable_entries(value: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return entries whose argmax is that of the legal entries of ``value``, with NaN as the smallest number."""
    if mask is None:
        return value.nan_to_num(nan=-torch.inf) if value.is_floating_point() else value.to(torch.int64)
    lowest = torch.finfo(torch.float64).min
    return value.double().nan_to_num(nan=lowest, neginf=lowest).where(mask, -torch.inf)


def legal_text(mask: torch.Tensor, start: int = 0) -> str:
    """Format the values that a row of a mask allows, at most eight of them: ``{0, 2}``."""
    legal = (mask.nonzero().flatten() + start).tolist()
    return "{" + ", ".join([*map(str, legal[:8]), *(["..."] if len(legal) > 8 else [])]) + "}"


def choices_text(n: int, start: int, mask: torch.Tensor | None = None) -> str:
    """Format ``n`` choices for a message, ``{1, ..., 10}``, or those that a row of a mask allows."""
    if mask is not None:
        return f"{legal_text(mask, start)}, the values that the mask leaves"
    values = [str(start + i) for i in range(n)] if n <= 3 else [str(start), "...", str(start + n - 1)]
    return "{" + ", ".join(values) + "}"


def check_no_register(name: str, use_register: bool) -> None:
    """Raise a ``NotImplementedError`` if choices are to be numbered as they are first encoded."""
    if use_register:
        raise NotImplementedError(
            f"{name}(use_register=True) would number the choices as they are first encoded, so that two runs could "
            "differ. Number them beforehand, and encode the numbers: use_register=False."
        )


def index_dtype(dtype: torch.dtype, low: int, high: int) -> torch.dtype:
    """Return the dtype for integers from ``low`` to ``high``: ``dtype`` if it holds them as integers, else int64."""
    if dtype == torch.bool or dtype.is_floating_point:
        return torch.int64
    info = torch.iinfo(dtype)
    return dtype if info.min <= low and high <= info.max else torch.int64
