"""LeafSpec: base class of the specs of a single tensor."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.normalize import Device, Shape, as_device, as_dtype, as_size
from rlnb.data.specs.variable import fits_shape, shape_text
from rlnb.data.specs.violations import Frame, Violation, format_number, format_vector


class LeafSpec(TensorSpec):
    """The spec of a single tensor. Subclasses define how to draw, check and project values."""

    _dtype: torch.dtype
    _device: torch.device

    def __init__(self, shape: Shape, device: Device, dtype: torch.dtype | str | None, default: torch.dtype) -> None:
        self._shape = as_size(shape)
        self._device = as_device(device)
        self._dtype = as_dtype(dtype, default)

    @abstractmethod
    def _contains(self, value: torch.Tensor) -> bool:
        """Return whether all of ``value``, of the right shape, dtype and device, is in the domain."""

    @abstractmethod
    def _outside(self, value: torch.Tensor) -> torch.Tensor:
        """Return a mask of the entries outside the domain, without the event dims."""

    @abstractmethod
    def _domain_text(self, index: tuple[int, ...]) -> str:
        """Describe the legal values at ``index`` of the spec's leading shape."""

    @abstractmethod
    def _nearest(self, value: torch.Tensor) -> torch.Tensor:
        """Project ``value``, of the right shape and device but of any dtype."""

    #: Advice for a value outside the domain.
    _domain_advice: ClassVar[str] = "Clip it with spec.project(value), or widen the bounds of the spec."

    def _domain_fix(self) -> str:
        return self._domain_advice

    @property
    def domain(self) -> str:
        """``"continuous"`` for a floating dtype, ``"discrete"`` otherwise."""
        return "continuous" if self._dtype.is_floating_point else "discrete"

    def _offender(self, value: torch.Tensor, index: tuple[int, ...]) -> tuple[str, float | int | bool | None]:
        """Return the offending value at ``index``, as text and as a number."""
        if self._event_dims:
            return format_vector(value[index]), None
        number = value[index].item()
        return format_number(number), number

    def _shape_fix(self, expected: torch.Size, value: torch.Tensor) -> str:
        """Return the likely cause of a wrong shape, and the line that fixes it."""
        got = value.shape
        if fits_shape((1, *got), expected):
            return "A leading dimension is missing: value.unsqueeze(0)."
        if len(got) < len(expected) and fits_shape(got, expected[len(expected) - len(got) :]):
            lead = shape_text(expected[: len(expected) - len(got)])
            spread = "" if -1 in expected else f", or value.expand({list(expected)})"
            what = "batch dimensions" if len(got) else "dimensions"
            return f"The {what} {lead} are missing: give one {'row' if len(got) else 'number'} for each{spread}."
        if fits_shape((*got, 1), expected):
            return "A trailing dimension of size 1 is missing: value.unsqueeze(-1)."
        for dim in reversed(range(len(got))):
            if got[dim] == 1 and fits_shape((*got[:dim], *got[dim + 1 :]), expected):
                return f"There is an extra dimension of size 1: value.squeeze({dim})."
        if -1 not in expected and got.numel() == expected.numel():
            return f"The number of entries is right: value.reshape({list(expected)})."
        return "Change the data, or the shape of the spec."

    def zero(self, shape: Shape | None = ()) -> torch.Tensor:
        """Return a tensor of zeros of shape ``[*shape, *spec.shape]``; see ``TensorSpec.zero``."""
        return torch.zeros(self._size(shape), dtype=self._dtype, device=self._device)

    def one(self, shape: Shape | None = ()) -> torch.Tensor:
        """Return a tensor of ones of shape ``[*shape, *spec.shape]``; see ``TensorSpec.one``."""
        return torch.ones(self._size(shape), dtype=self._dtype, device=self._device)

    def _accepts(self, value: Any, lead: torch.Size | None) -> bool:
        if not isinstance(value, torch.Tensor) or value.dtype != self._dtype or value.device != self._device:
            return False
        shape = value.shape
        expected = lead + self._shape if lead else self._shape
        if shape != expected and not (self._ends_with_shape(shape) if lead is None else fits_shape(shape, expected)):
            return False
        return self._contains(value)

    def _ends_with_shape(self, shape: torch.Size) -> bool:
        extra = len(shape) - len(self._shape)
        return extra >= 0 and (shape[extra:] == self._shape or fits_shape(shape[extra:], self._shape))

    def adapt(self, value: Any) -> Any:
        """Return ``value`` with the spec's dtype and shape, if that changes no number; see ``TensorSpec.adapt``."""
        if not isinstance(value, torch.Tensor) or value.is_nested:
            return value
        shaped = value if self._ends_with_shape(value.shape) else self._with_last_dims(value)
        if shaped is None or shaped.dtype == self._dtype:
            return value if shaped is None else shaped
        cast = shaped.to(self._dtype)
        if self._dtype.is_floating_point and shaped.is_floating_point():
            return cast
        # Both comparisons matter: 200 survives int8 and back, but is -56 there; 2**53 + 1 equals 2**53 in float64.
        same = torch.equal(cast.to(shaped.dtype), shaped) and bool((cast == shaped).all())
        return cast if same else value

    def _with_last_dims(self, value: torch.Tensor) -> torch.Tensor | None:
        """Add missing trailing dims of size 1, or drop surplus ones; None if neither makes the shape fit."""
        given = value.shape
        sizes = [torch.Size((*given, *[1] * count)) for count in range(1, _trailing_ones(self._shape) + 1)]
        sizes += [given[:-count] for count in range(1, _trailing_ones(given) + 1)]
        return next((value.reshape(size) for size in sizes if self._ends_with_shape(size)), None)

    def _violations(self, value: Any, key: tuple[str, ...], frame: Frame) -> list[Violation]:
        if not isinstance(value, torch.Tensor):
            fix = "Convert it with spec.encode(value)."
            return [Violation(key, "type", "torch.Tensor", type(value).__name__, fix=fix)]
        found = []
        expected = frame.expected(self._shape, value.shape)
        fits = fits_shape(value.shape, expected)
        if not fits:
            fix = self._shape_fix(expected, value)
            found.append(Violation(key, "shape", shape_text(expected), shape_text(value.shape), fix=fix))
        if value.dtype != self._dtype:
            fix = f"Cast it: value.to({self._dtype})."
            found.append(Violation(key, "dtype", str(self._dtype), str(value.dtype), fix=fix))
        if value.device != self._device:
            fix = f"Move it: value.to('{self._device}'), or the spec: spec.to('{value.device}')."
            found.append(Violation(key, "device", str(self._device), str(value.device), fix=fix))
        exact = self._dtype.is_floating_point or not value.is_floating_point()
        if fits and value.device == self._device and exact:
            found.extend(self._domain_violation(value.to(self._dtype), value, key, frame))
        return found

    def _domain_violation(
        self, cast: torch.Tensor, value: torch.Tensor, key: tuple[str, ...], frame: Frame
    ) -> list[Violation]:
        time = frame.time_position(value.ndim, self.ndim)
        mask = self._outside(cast if time is None else cast.movedim(time, 0))
        if not bool(mask.any()):
            return []
        if time is not None:
            mask = mask.movedim(0, time)
        indices = mask.nonzero()
        index = tuple(indices[0].tolist())
        own = index if time is None else index[:time] + index[time + 1 :]
        got, number = self._offender(value, index)
        others = f" (and {len(indices) - 1} more)" if len(indices) > 1 else ""
        ndim = self.ndim - self._event_dims
        # A dim of variable size is described by its index 0.
        place = zip(own[len(own) - ndim :], self._shape, strict=False)
        legal = self._domain_text(tuple(0 if length == -1 else at for at, length in place))
        at = f" at index {index}" if index else ""
        return [Violation(key, "domain", legal, f"{got}{at}{others}", index, number, self._domain_fix())]

    def project(self, val: torch.Tensor) -> torch.Tensor:
        """Return the tensor of the domain that is nearest to ``val``, or ``val`` itself if it is in the domain.

        A wrong dtype is cast (rounding to integers if necessary), and NaN becomes a legal number. Raises a
        ``TypeError`` if ``val`` is not a tensor, and a ``ValueError`` if its shape is not ``[..., *spec.shape]``.
        """
        if self._accepts(val, None):
            return val
        if not isinstance(val, torch.Tensor) or not self._ends_with_shape(val.shape):
            error = ValueError if isinstance(val, torch.Tensor) else TypeError
            raise error(f"{type(self).__name__}.project: " + self._messages(val)[0])
        return self._nearest(val.to(self._device))

    def encode(self, val: Any, *, check: bool = True, ignore_device: bool = False) -> torch.Tensor:
        """Convert numbers, lists, arrays or tensors to a tensor, ``[..., *spec.shape]``; see ``TensorSpec.encode``.

        A fraction given for an integer is a ``ValueError``, too.
        """
        raw = self._as_tensor(val)
        spec = self.to(raw.device) if ignore_device else self
        return spec._encode_tensor(raw.to(spec._device), check, type(self).__name__)

    def _encode_tensor(self, raw: torch.Tensor, check: bool, who: str) -> torch.Tensor:
        cast = raw if raw.dtype == self._dtype else raw.to(self._dtype)
        if not self._ends_with_shape(cast.shape):
            raise ValueError(f"{who}.encode: " + self._messages(cast)[0])
        if not self._dtype.is_floating_point and cast is not raw and not torch.equal(cast.to(raw.dtype), raw):
            where = tuple((cast.to(raw.dtype) != raw).nonzero()[0].tolist())
            raise ValueError(
                f"{who}.encode: value: {format_number(raw[where].item())} at index {where} cannot be "
                f"written as {self._dtype}. Round it first, or give the spec another dtype."
            )
        if check and not self._contains(cast):
            raise ValueError(f"{who}.encode: " + self._messages(cast)[0])
        return cast

    def _as_tensor(self, value: Any) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return value
        try:
            if isinstance(value, (list, tuple)) and any(isinstance(part, torch.Tensor) for part in value):
                return torch.stack([self._as_tensor(part) for part in value])
            array = np.asarray(value)
            # Through NumPy, because torch.as_tensor would round Python floats to float32 at once.
            return torch.from_numpy(np.array(array, copy=True))
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(
                f"{type(self).__name__}.encode: a {type(value).__name__} cannot be converted to a tensor of dtype "
                f"{self._dtype} ({error}). Give numbers, lists of numbers, arrays or tensors."
            ) from None

    def to_numpy(self, val: torch.Tensor, safe: bool | None = True) -> Any:
        """Convert a tensor to a NumPy array, or to a NumPy scalar for a single choice; see ``TensorSpec.to_numpy``."""
        if safe and not self._accepts(val, None):
            raise ValueError(f"{type(self).__name__}.to_numpy: " + self._messages(val)[0])
        return self._decode(val.detach().cpu())

    def _decode(self, value: torch.Tensor) -> Any:
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()

    def type_check(self, value: Any, key: Any = None) -> None:
        """Raise unless ``value`` is a tensor of the spec's dtype; see ``TensorSpec.type_check``."""
        got = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        if got != self._dtype:
            name = "value" if key is None else str(key)
            raise TypeError(
                f"{name}: expected dtype {self._dtype} ({type(self).__name__}), got {got}. "
                f"Cast it: value.to({self._dtype})."
            )

    def __repr__(self) -> str:
        space = repr(self.space).replace("\n", "\n    ")
        return (
            f"{type(self).__name__}(\n    shape={self._shape},\n    space={space},\n    device={self._device},\n"
            f"    dtype={self._dtype},\n    domain={self.domain}{self._extra_repr()})"
        )

    def _extra_repr(self) -> str:
        """Return further lines of the repr."""
        return ""


def _trailing_ones(shape: torch.Size) -> int:
    return len(tuple(itertools.takewhile(lambda size: size == 1, reversed(shape))))
