"""Choice: spec of values of one of several specs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDictBase, lazy_stack

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.non_tensor import FixedData
from rlnb.data.specs.normalize import Device, Shape
from rlnb.data.specs.variable import fits_shape, shape_text
from rlnb.data.specs.violations import Frame, Violation


class Choice(TensorSpec):
    """A value of one of several specs, chosen for each row separately.

    A choice is a spec, or fixed data that is not a tensor (``NonTensorData``). Dims that shape operations insert in
    front of the choices' own dims are rows.

    Args:
        choices: specs of the same class, shape, dtype and device; or ``NonTensorData`` of the same batch size.

    Raises:
        TypeError: If a choice is neither, or the choices are of different classes.
        ValueError: If there are no choices, or their shapes, dtypes or devices differ.

    Example:
        >>> from rlnb.data import Bounded, Categorical
        >>> spec = Choice([Bounded(-2, -1, shape=(2,)), Bounded(1, 2, shape=(2,))])
        >>> spec.is_in(torch.tensor([1.5, 1.5])), spec.is_in(torch.tensor([-1.5, 1.5]))
        (True, False)
        >>> Choice([Categorical(3), Categorical(4, start=10)]).cardinality()
        7
    """

    _fields = ("choices",)
    choices: list[Any]

    def __init__(self, choices: Sequence[TensorSpec | NonTensorData | NonTensorStack]) -> None:
        self.choices = [_as_spec(choice, i) for i, choice in enumerate(choices)]
        if not self.choices:
            raise ValueError("Choice needs at least one choice, got none.")
        first = self.choices[0]
        for i, choice in enumerate(self.choices):
            if type(choice) is not type(first):
                raise TypeError(
                    f"Choice needs choices of one class: number 0 is {type(first).__name__}, number {i} is "
                    f"{type(choice).__name__}. Wrap each in a Composite of the same keys."
                )
            for what in ("shape", "dtype", "device"):
                mine, other = getattr(choice, what), getattr(first, what)
                if mine != other:
                    raise ValueError(
                        f"Choice needs choices of one {what}: number 0 has {other}, number {i} has {mine}."
                    )
        self._shape, self._dtype, self._device = first.shape, first.dtype, first.device

    @property
    def _event_dims(self) -> int:  # type: ignore[override]  # a constant of other specs
        return len(self.choices[0].shape)

    @property
    def num_choices(self) -> int:
        """The number of choices."""
        return len(self.choices)

    @property
    def domain(self) -> None:
        """None: each choice has its own domain."""
        return None

    @property
    def space(self) -> None:
        """None: each choice has its own space."""
        return None

    def rand(self, shape: Shape | None = ()) -> Any:
        """Draw a choice for each row, with equal probabilities, and a value of it; see ``TensorSpec.rand``."""
        return self._rows(self._lead_of(shape))

    def _rows(self, lead: torch.Size) -> Any:
        if not lead:
            return self.choices[int(torch.randint(len(self.choices), ()))].rand()
        if not lead.numel():
            return self.choices[0].zero(lead)
        return _stacked([self._rows(lead[1:]) for _ in range(lead[0])])

    def zero(self, shape: Shape | None = ()) -> Any:
        """Return a value of the first choice filled with zeros."""
        return self.choices[0].zero(self._lead_of(shape))

    def one(self, shape: Shape | None = ()) -> Any:
        """Return a value of the first choice filled with ones."""
        return self.choices[0].one(self._lead_of(shape))

    def _lead_of(self, shape: Shape | None) -> torch.Size:
        size = self._size(shape)
        return size[: len(size) - self._event_dims]

    def cardinality(self, use_mask: bool = False) -> int | float:
        """Return the number of values; a value that two choices share counts twice. See ``TensorSpec.cardinality``."""
        rows = math.prod(self._lead_of(()))
        total = sum(choice.cardinality(use_mask) for choice in self.choices)
        return total**rows

    def enumerate(self, use_mask: bool = False) -> Any:
        """List all values, those of the first choice first; see ``TensorSpec.enumerate``.

        Raises:
            ValueError: If there are infinitely many values, or rows that choose separately.
        """
        if self._lead_of(()):
            raise ValueError(
                f"Choice.enumerate: its {shape_text(self._lead_of(()))} rows choose separately. List the values of "
                "one row: spec[0].enumerate()."
            )
        return _stacked([row for choice in self.choices for row in choice.enumerate(use_mask).unbind(0)])

    def _own_rows(self, value: Any, lead: torch.Size | None) -> tuple[torch.Size, bool]:
        """Return the sizes in front of a choice's own shape, and whether the spec's rows fit after ``lead``."""
        size = value.batch_size if hasattr(value, "batch_size") else getattr(value, "shape", torch.Size(()))
        rows = torch.Size(size[: max(len(size) - self._event_dims, 0)])
        if lead is None:
            own = self._lead_of(())
            return rows, fits_shape(rows[len(rows) - len(own) :], own)
        return torch.Size((*lead, *self._lead_of(()))), True

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        rows, fits = self._own_rows(value, lead)
        return fits and self._rows_fit(value, rows)

    def _rows_fit(self, value: Any, rows: torch.Size) -> bool:
        if hasattr(value, "unbind") and fits_shape(value.shape[: len(rows)], rows):
            return self._bad_row(value, torch.Size(value.shape[: len(rows)])) is None
        return any(choice._accepts(value, rows) for choice in self.choices)

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        rows, _ = self._own_rows(value, None)
        expected = frame.expected(self._lead_of(()), rows)
        if not fits_shape(rows, expected) or not hasattr(value, "unbind"):
            found = self.choices[0]._violations(value, key, Frame(expected))
            fix = "Give each row a value of one of the choices."
            return found or [Violation(key, "shape", shape_text(expected), shape_text(rows), fix=fix)]
        bad = self._bad_row(value, rows)
        if bad is None:
            return []
        index, row = bad
        candidates = [choice._violations(row, key, Frame(torch.Size(()))) for choice in self.choices]
        near = min(range(len(candidates)), key=lambda i: len(candidates[i]))
        where = f" in row {index}" if index else ""
        first = candidates[near][0]
        if first.kind != "domain":
            return [replace(violation, got=violation.got + where) for violation in candidates[near]]
        legal = f"every choice (the closest one, number {near}, has {first.expected})"
        fix = "Check how the value is computed, or take the nearest: spec.project(value)."
        at = (*index, *(first.index or ()))
        return [replace(first, expected=legal, got=first.got + where, index=at, fix=fix)]

    def _bad_row(self, value: Any, rows: torch.Size, index: tuple[int, ...] = ()) -> tuple[tuple[int, ...], Any] | None:
        """Return the index and the value of the first row that is in no choice; None if all are in one."""
        if any(choice._accepts(value, rows) for choice in self.choices):
            return None
        if not rows:
            return index, value
        found = (self._bad_row(row, rows[1:], (*index, i)) for i, row in enumerate(value.unbind(0)))
        return next((bad for bad in found if bad is not None), None)

    def project(self, val: Any) -> Any:
        """Return the nearest value of a choice for each row, or ``val`` itself if all rows are in a choice.

        The nearest choice is the one whose projection changes the value least, by the sum of squares; for values that
        are not tensors, the first one.

        Raises:
            ValueError: If the shape does not fit.
        """
        if self._accepts(val, None):
            return val
        rows, fits = self._own_rows(val, None)
        if not fits:
            raise ValueError("Choice.project: " + self._messages(val)[0])
        return self._project_rows(val, len(rows))

    def _project_rows(self, value: Any, rows: int) -> Any:
        if rows:
            return _stacked([self._project_rows(row, rows - 1) for row in value.unbind(0)])
        projected = [choice.project(value) for choice in self.choices if not isinstance(choice, FixedData)]
        if not projected:
            raise ValueError("Choice.project: " + self._messages(value)[0])
        return min(projected, key=lambda new: _distance(new, value))

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> Any:
        """Encode a value with the first choice that accepts it; see ``TensorSpec.encode``.

        A value that no choice accepts is a ``ValueError``; without ``check``, the first choice encodes it.
        """
        refused = []
        for choice in self.choices:
            try:
                return choice.encode(val, ignore_device=ignore_device)
            except (KeyError, TypeError, ValueError) as error:
                refused.append(str(error))
        if not check:
            return self.choices[0].encode(val, check=False, ignore_device=ignore_device)
        lines = "".join(f"\n  {i}: {text}" for i, text in enumerate(refused))
        raise ValueError(f"Choice.encode: none of the {len(refused)} choices accepts the value:{lines}")

    def to_numpy(self, val: Any, safe: bool | None = True) -> Any:
        """Convert a value for a Gymnasium environment, to a list if there are rows; see ``TensorSpec.to_numpy``."""
        rows, fits = self._own_rows(val, None)
        if safe and not (fits and self._rows_fit(val, rows)):
            raise ValueError("Choice.to_numpy: " + self._messages(val)[0])
        for choice in self.choices:
            if choice._accepts(val, rows):
                return choice.to_numpy(val, safe=False)
        if not rows:
            return self.choices[0].to_numpy(val, safe=False)
        return [self.to_numpy(row, safe=False) for row in val.unbind(0)]

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless ``value`` has the choices' dtype; see ``TensorSpec.type_check``."""
        self.choices[0].type_check(value, key)

    def to(self, dest: torch.dtype | Device) -> Self:
        """Return the spec with its choices in another dtype or on another device."""
        choices = [choice.to(dest) for choice in self.choices]
        return self._with(choices=choices, _dtype=choices[0].dtype, _device=choices[0].device)

    def clone(self) -> Self:
        """Return an independent copy."""
        return self._with(choices=[choice.clone() for choice in self.choices])

    def __repr__(self) -> str:
        lines = [f"{i}: {choice!r}".replace("\n", "\n        ") for i, choice in enumerate(self.choices)]
        listed = "".join(f"\n        {line}," for line in lines).rstrip(",")
        return (
            f"Choice(\n    shape={self._shape},\n    choices={{{listed}}},\n    device={self._device},\n"
            f"    dtype={self._dtype},\n    domain=None)"
        )


def _as_spec(choice: Any, number: int) -> TensorSpec:
    if isinstance(choice, TensorSpec):
        return choice
    if isinstance(choice, NonTensorStack):
        return FixedData(choice.batch_size, choice.device, example_data=choice.tolist())
    if isinstance(choice, NonTensorData):
        return FixedData(choice.batch_size, choice.device, example_data=choice.data)
    raise TypeError(
        f"Choice: number {number} is a {type(choice).__name__}. A choice must be a spec, or data that is not a tensor: "
        "NonTensorData(data)."
    )


def _stacked(rows: list[Any]) -> Any:
    # The choices may return TensorDicts with different entries.
    if isinstance(rows[0], TensorDictBase):
        return lazy_stack(rows, 0)
    return torch.stack(rows)


def _distance(new: Any, value: Any) -> float:
    if not isinstance(value, torch.Tensor):
        return 0.0
    gap = (new.double() - value.double()).nan_to_num(0.0)
    return float((gap * gap).sum())
