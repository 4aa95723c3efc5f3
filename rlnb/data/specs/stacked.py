"""Stacked: the spec of a stack of tensors whose specs differ."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.lazy_stack import LazyStack
from rlnb.data.specs.variable import shape_text
from rlnb.data.specs.violations import Frame, Violation


class Stacked(LazyStack):
    """A lazy stack of specs of one class that differ in their domains or sizes. ``torch.stack`` creates it.

    If the members have the same shape, a value is a plain tensor that includes the stack's dim. If their sizes differ,
    the shape has a -1 there, and a value is a nested tensor (``torch.nested``) of the members' values:
    ``value.unbind()[i]`` is a value of member ``i``, including any leading dims, wherever the stack's dim is.

    For Python and NumPy, a value is a tuple with one value for each member: `to_numpy` returns it, `encode` takes it.

    Args:
        *specs: the members, which must have the same class, dtype, device and number of dims.
        dim: the position of the stack's dim in the shape.

    Raises:
        ValueError: If there are no members, or they cannot be stacked.

    Example:
        >>> from rlnb.data import Bounded
        >>> spec = torch.stack([Bounded(0, 1, shape=(3,)), Bounded(-1, 1, shape=(4,))])
        >>> spec.shape, spec[1].shape
        (torch.Size([2, -1]), torch.Size([4]))
        >>> [value.shape for value in spec.rand().unbind()]
        [torch.Size([3]), torch.Size([4])]
    """

    def __init__(self, *specs: TensorSpec, dim: int) -> None:
        for i, spec in enumerate(specs):
            _check_member(spec, specs[0], i)
        self._set_members(specs, dim)
        self._dtype = specs[0].dtype
        shapes = [spec.shape for spec in specs]
        #: Whether the shapes of the members differ, so that only a nested tensor can hold their values.
        self._ragged = any(shape != shapes[0] for shape in shapes)
        if self._ragged and (self._dtype is None or isinstance(specs[0], Stacked)):
            raise ValueError(
                f"torch.stack: the shapes {', '.join(map(shape_text, shapes))} differ, and values of a "
                f"{type(specs[0]).__name__} do not fit in a nested tensor. Stack Composites that hold them instead."
            )

    @property
    def _event_dims(self) -> int:  # type: ignore[override]  # a constant of other specs
        count: int = self._members[0]._event_dims
        return count

    @property
    def domain(self) -> str | None:
        """The domain of the members."""
        domain: str | None = self._members[0].domain
        return domain

    @property
    def space(self) -> tuple[Any, ...]:
        """The spaces of the members."""
        return tuple(spec.space for spec in self._members)

    def _join(self, values: list[Any], lead: int) -> Any:
        if not self._ragged and all(value.shape == values[0].shape for value in values):
            return torch.stack(values, lead + self._stack_dim)
        pairs = zip(values, self._members, strict=True)
        leads = {tuple(value.shape[: value.ndim - spec.ndim]) for value, spec in pairs}
        if len(leads) > 1:
            raise ValueError(f"Stacked: the members' values have different leading dimensions: {sorted(leads)}.")
        with warnings.catch_warnings():
            # torch warns that nested tensors are a prototype, which does not help users of specs.
            warnings.filterwarnings("ignore", message=".*nested tensors")
            return torch.nested.as_nested_tensor(values)

    def _parts(self, value: Any, at: int) -> Sequence[Any] | None:
        count = len(self._members)
        if isinstance(value, torch.Tensor) and value.is_nested:
            return value.unbind() if value.size(0) == count else None
        if self._ragged or not isinstance(value, (torch.Tensor, NonTensorData, NonTensorStack)):
            return None
        shape = value.shape
        return value.unbind(at) if 0 <= at < len(shape) and shape[at] == count else None

    def _lead(self, value: Any, lead: torch.Size | None, timed: bool = False) -> torch.Size:
        """Return ``lead``, or the leading sizes of the value if it is None."""
        if lead is not None:
            return lead
        if isinstance(value, torch.Tensor) and value.is_nested:
            shape, own = value.unbind()[0].shape if value.size(0) else torch.Size(()), self.ndim - 1
        else:
            shape, own = getattr(value, "shape", torch.Size(())), self.ndim
        return torch.Size(shape[: max(len(shape) - own - timed, 0)])

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        lead = self._lead(value, lead)
        parts = self._parts(value, len(lead) + self._stack_dim)
        if parts is None:
            return False
        return all(spec._accepts(part, lead) for spec, part in zip(self._members, parts, strict=True))

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        timed = frame.time_at is not None
        frame = Frame(self._lead(value, frame.lead, timed), frame.time_at, frame.steps)
        parts = self._parts(value, frame.stack_position(self._stack_dim))
        if parts is not None:
            return self._member_violations(parts, key, frame)
        count = len(self._members)
        if self._ragged:
            text = f"a nested tensor of {count} tensors"
            got = "nested" if isinstance(value, torch.Tensor) and value.is_nested else type(value).__name__
            fix = "Build it from one value for each member: spec.encode([...])."
            return [Violation(key, "type", text, got, fix=fix)]
        if not isinstance(value, torch.Tensor) or value.is_nested:
            got = "a nested tensor" if isinstance(value, torch.Tensor) else type(value).__name__
            fix = "Stack one value for each member: spec.encode([...])."
            return [Violation(key, "type", "torch.Tensor", got, fix=fix)]
        expected = frame.expected(self._shape, value.shape)
        fix = f"Stack one value for each of the {count} members: torch.stack([...], {self._stack_dim})."
        return [Violation(key, "shape", shape_text(expected), shape_text(value.shape), fix=fix)]

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with the members' dtype, if that changes no number; see `TensorSpec.adapt`."""
        lead = self._lead(value, None)
        parts = self._parts(value, len(lead) + self._stack_dim)
        if parts is None:
            return value
        adapted = [spec.adapt(part) for spec, part in zip(self._members, parts, strict=True)]
        if all(new is part for new, part in zip(adapted, parts, strict=True)):
            return value
        return self._join(adapted, len(lead)) if len({part.dtype for part in adapted}) == 1 else value

    def project(self, val: Any) -> Any:
        """Return ``val`` with each member's part projected, or ``val`` itself if it is in the domain.

        Raises:
            ValueError: If the shape does not fit.
        """
        if self._accepts(val, None):
            return val
        lead = self._lead(val, None)
        parts = self._parts(val, len(lead) + self._stack_dim)
        if parts is None:
            self._check_fits(val, "project")
        assert parts is not None
        fixed = [spec.project(part) for spec, part in zip(self._members, parts, strict=True)]
        return self._join(fixed, len(lead))

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Convert one value for each member to a value of the spec.

        Args:
            val: a list, tuple or array of them, whatever the stack's dim is; or a value of the spec.
            check: whether to raise for a value outside the domain.
            ignore_device: whether to leave tensors on their current device.

        Raises:
            ValueError: If the number of values is not that of the members, or one does not fit.
        """
        if isinstance(val, torch.Tensor) and self._accepts(val, None):
            return val
        nested = isinstance(val, torch.Tensor) and val.is_nested
        values = self._values_for_members(val.unbind() if nested else val)
        encoded = [
            spec.encode(part, check=check, ignore_device=ignore_device)
            for spec, part in zip(self._members, values, strict=True)
        ]
        return self._join(encoded, encoded[0].ndim - self.ndim + 1)

    def to_numpy(self, val: Any, safe: bool | None = True) -> tuple[Any, ...]:
        """Convert a value to a tuple with one value for each member; see `TensorSpec.to_numpy`."""
        if safe:
            self._check_fits(val, "to_numpy")
        parts = self._parts(val, len(self._lead(val, None)) + self._stack_dim)
        assert parts is not None
        pairs = zip(self._members, parts, strict=True)
        return tuple(spec.to_numpy(part, safe=False) for spec, part in pairs)

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless ``value`` has the members' dtype; see `TensorSpec.type_check`."""
        self._members[0].type_check(value, key)

    def __repr__(self) -> str:
        return (
            f"Stacked{type(self._members[0]).__name__}(\n    shape={self._shape}, device={self.device}, "
            f"dtype={self._dtype}, domain={self.domain})"
        )


def _check_member(spec: Any, first: Any, number: int) -> None:
    if not isinstance(spec, TensorSpec) or spec.domain == "composite":
        raise TypeError(f"Stacked needs leaf specs, and number {number} is a {type(spec).__name__}.")
    for what, mine, other in (
        ("kind", type(spec).__name__, type(first).__name__),
        ("dtype", spec.dtype, first.dtype),
        ("device", spec.device, first.device),
        ("number of dims", spec.ndim, first.ndim),
    ):
        if mine != other:
            raise ValueError(f"torch.stack needs specs of one {what}: number 0 is {other}, number {number} is {mine}.")
