"""Results of ``is_in``, ``project``, ``encode`` and ``to_numpy`` for a value, or their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, is_tensor_collection

from rlnb.data.specs.composite import Composite
from rlnb.data.specs.non_tensor import NonTensor
from rlnb_widgets._core.spec_entries import Path
from rlnb_widgets._core.text import key_text, object_text, table, values_text, without_addresses

MOST = 8  # numbers of a tensor that are written out


@dataclass(frozen=True)
class Reply:
    """The result of one method."""

    ok: bool  #: whether the method returned
    text: str  #: the returned value, or the error


@dataclass(frozen=True, repr=False)
class Answer:
    """What a spec says about a value, as `SpecExplorer.try_value` returns it."""

    path: Path  #: path of the spec; empty for the whole
    given: str  #: the given value
    value: str  #: the checked value: a tensor of the spec's dtype, if that can hold it
    is_in: bool  #: whether it is in the spec
    reasons: tuple[str, ...]  #: the reasons if it is not in the spec, a sentence each
    project: Reply  #: result of ``project``
    encode: Reply  #: result of ``encode`` for the given value
    to_numpy: Reply  #: result of ``to_numpy``

    def __repr__(self) -> str:
        """Return the question and a line for each answer."""
        where = key_text(self.path) if self.path else "()"
        rows = [["value", self.value], ["is_in", str(self.is_in)], *[["", reason] for reason in self.reasons]]
        rows += [[name, getattr(self, name).text] for name in ("project", "encode", "to_numpy")]
        lines = table(rows).replace("\n", "\n  ")
        return f"try_value({where}, {self.given})\n  {lines}"


def ask(spec: Any, path: Path, given: Any) -> Answer:
    """Test a value against the spec at ``path``. Errors become part of the answer.

    Example:
        >>> from rlnb.data import Bounded
        >>> ask(Bounded(-1, 1, shape=(2,)), (), [0.5, 2.0])
        try_value((), [0.5, 2.0])
          value     float32 [2]: [0.5, 2]
          is_in     False
                    value: 2 at index (1,) is outside [-1, 1]. Clip it with spec.project(value), or widen the bounds of the spec.
          project   float32 [2]: [0.5, 1]
          encode    ValueError: BoundedContinuous.encode: value: 2 at index (1,) is outside [-1, 1]. Clip it with spec.project(value), or widen the bounds of the spec.
          to_numpy  ValueError: BoundedContinuous.to_numpy: value: 2 at index (1,) is outside [-1, 1]. Clip it with spec.project(value), or widen the bounds of the spec.
    """  # noqa: E501 - the lines are what is printed
    if spec is None:
        nothing = Reply(False, "this entry has no spec, so it allows every value")
        return Answer(path, object_text(given), object_text(given), True, (), nothing, nothing, nothing)
    try:
        value = as_value(spec, given)
        is_in = bool(spec.is_in(value))
        reasons = tuple(str(v) for v in spec.violations(value) if v.kind != "extra") if not is_in else ()
        shown = value_text(value)
    except Exception as error:
        value, is_in, reasons, shown = given, False, (_error(error),), object_text(given)
    return Answer(
        path,
        object_text(given),
        shown,
        is_in,
        reasons,
        project=_reply(spec.project, value.copy() if is_tensor_collection(value) else value),  # it writes in place
        encode=_reply(spec.encode, given),
        to_numpy=_reply(spec.to_numpy, value),
    )


def as_value(spec: Any, given: Any) -> Any:
    """Convert a given value to one that the spec can check, without repairing it.

    Numbers take the spec's dtype if it can hold them exactly: 0 is a legal float, and 1.5 stays a float where an
    integer is expected. Raises ``TypeError`` or ``ValueError`` if no tensor can be made of it.
    """
    if isinstance(given, torch.Tensor) or is_tensor_collection(given) or isinstance(spec, NonTensor):
        return given
    if hasattr(spec, "stack_dim"):
        return spec.encode(given, check=False)
    if choices := getattr(spec, "choices", None):
        return as_value(choices[0], given)
    if isinstance(spec, Composite):
        if not isinstance(given, Mapping):
            return given
        parts = {str(key): _part(spec, str(key), value) for key, value in given.items()}
        return TensorDict(parts, batch_size=spec.shape)
    raw = torch.from_numpy(np.array(given)) if isinstance(given, np.ndarray | np.generic) else torch.tensor(given)
    dtype = spec.dtype
    if not isinstance(dtype, torch.dtype) or raw.dtype == dtype:
        return raw
    if raw.is_floating_point() and dtype.is_floating_point:
        return torch.tensor(given, dtype=dtype, device=spec.device)
    if dtype == torch.bool and raw.ndim < len(spec.shape):
        return raw.to(spec.device)  # the index of a choice, not a truth value
    cast = raw.to(dtype)
    same = not raw.is_floating_point() and torch.equal(cast.to(torch.int64), raw.to(torch.int64))
    return (cast if same else raw).to(spec.device)


def _part(spec: Composite, key: str, value: Any) -> Any:
    inner = spec.get(key, None)
    if inner is None or isinstance(inner, NonTensor):
        if isinstance(value, (int, float, list)) and inner is None:
            return torch.tensor(value)
        return NonTensorData(value, batch_size=() if inner is None else inner.shape)
    return as_value(inner, value)


def value_text(value: Any) -> str:
    """Format a value: dtype and shape, then the numbers.

    Example:
        >>> value_text(torch.tensor([1, 2])), value_text(np.float32(0.5)), value_text("go")
        ('int64 [2]: [1, 2]', 'float32: 0.5', "'go'")
    """
    if isinstance(value, NonTensorData):
        return object_text(value.data)
    if isinstance(value, LazyStackedTensorDict):
        return "[" + ", ".join(map(value_text, value.tensordicts)) + "]"
    if isinstance(value, torch.Tensor) and value.is_nested:
        return "[" + ", ".join(map(value_text, value.unbind())) + "]"
    if is_tensor_collection(value):
        return "{" + ", ".join(f"{key!r}: {value_text(value.get(key))}" for key in value.keys()) + "}"  # noqa: SIM118
    if isinstance(value, torch.Tensor):
        array = value.detach().cpu()
        dtype = str(array.dtype).removeprefix("torch.")
        return _array_text((array.float() if array.dtype == torch.bfloat16 else array).numpy(), dtype)
    if isinstance(value, np.ndarray | np.generic):
        return _array_text(np.asarray(value), str(value.dtype))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {value_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(value_text, value)) + ")"
    return object_text(value)


def _array_text(array: np.ndarray, dtype: str) -> str:
    shape = f" {list(array.shape)}" if array.ndim else ""
    if array.size == 0:
        return f"{dtype}{shape}"
    flat = values_text(array, MOST)
    return f"{dtype}{shape}: {f'[{flat}]' if array.ndim and array.size == 1 else flat}"


def _reply(method: Callable[[Any], Any], value: Any) -> Reply:
    try:
        return Reply(True, value_text(method(value)))
    except Exception as error:
        return Reply(False, _error(error))


def _error(error: Exception) -> str:
    text = " ".join(without_addresses(str(error)).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
