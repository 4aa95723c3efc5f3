"""TensorDicts and Composites: comparison of batch sizes and entries, and encoding of dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from rlnb._tensordict import raw_entries
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.keys import SpecKeyError
from rlnb.data.specs.variable import blank_size, fits_shape, shape_text
from rlnb.data.specs.violations import Frame, Violation, format_key


def read_entries(data: Any) -> Mapping[str, Any] | None:
    """Return the entries of a TensorDict or tensorclass; None for a ragged lazy stack, whose rows cannot be stacked."""
    try:
        return raw_entries(data)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        if _stack_dim(data) is None:
            raise
        return None


def _stack_dim(data: Any) -> Any:
    return getattr(getattr(data, "_tensordict", data), "stack_dim", None)


def ragged_rows(data: Any, shape: torch.Size, frame: Frame) -> list[tuple[Any, Any, Frame]] | None:
    """Take a ragged lazy stack apart, whose batch size fits a spec of shape ``shape``.

    Returns for each row: the index into its spec (None for the whole spec), the row, and the frame of the row. None if
    the stack is along a dim that the spec does not have.
    """
    at, lead = _stack_dim(data), torch.Size(()) if frame.lead is None else frame.lead
    rows = data.unbind(at)
    if at < len(lead):
        inner = Frame(lead[:at] + lead[at + 1 :], frame.time_at, frame.steps)
        return [(None, row, inner) for row in rows]
    if frame.time_at is not None and at == len(lead) + frame.time_at:
        return [(None, row, Frame(lead)) for row in rows]
    own = at - len(lead) - (frame.time_at is not None and at > len(lead) + frame.time_at)
    if own >= len(shape):
        return None
    inner, before = frame.of_member(own), (slice(None),) * own
    return [((*before, 0 if shape[own] == -1 else i), row, inner) for i, row in enumerate(rows)]


def leading_sizes(got: torch.Size, shape: torch.Size, lead: torch.Size | None) -> torch.Size | None:
    """Return the sizes in front of the spec's shape if the batch size ``got`` of the data fits, else None.

    At the root (``lead`` is None, any leading sizes are accepted) it may omit trailing dims of size 1. Below, where the
    leading sizes are ``lead``, it may omit any trailing dims or have more of them.
    """
    if lead is None:
        extra = len(got) - len(shape)
        if extra < 0 and len(got) and _may_omit_dims(got, shape, is_root=True):
            extra, shape = 0, shape[: len(got)]
        fits = extra >= 0 and (got[extra:] == shape or fits_shape(got[extra:], shape))
        return got[:extra] if fits else None
    expected = lead + shape if lead else shape
    begin = got[: len(expected)]
    if len(lead) < len(begin) < len(expected):
        expected = expected[: len(begin)]
    return lead if begin == expected or fits_shape(begin, expected) else None


def batch_size_violation(
    got: torch.Size, shape: torch.Size, key: tuple[str, ...], frame: Frame
) -> tuple[list[Violation], Frame]:
    """List what is wrong with the batch size ``got`` of the entry ``key``, and return the frame that it shows."""
    expected = frame.expected(shape, got)
    omits = len(got) > len(frame.lead or ()) and _may_omit_dims(got, expected, is_root=not key)
    if not omits and not fits_shape(got[: len(expected)] if key else got, expected):
        fix = f"Set it: td.batch_size = {shape_text(expected)}."
        return [Violation(key, "shape", f"(batch size) {shape_text(expected)}", str(list(got)), fix=fix)], frame
    return [], frame.bind(shape, got) if frame.lead is None else frame


def _may_omit_dims(got: torch.Size, expected: torch.Size, *, is_root: bool) -> bool:
    """Return whether a batch size omits trailing dims of ``expected`` that the entries have; at the root, of size 1."""
    omitted = expected[len(got) :]
    return bool(omitted) and fits_shape(got, expected[: len(got)]) and (not is_root or set(omitted) == {1})


def wrong_type(value: Any, data_cls: type | None, key: tuple[str, ...]) -> Violation:
    """Return the violation of a value that is not a TensorDict, or not an instance of the tensorclass ``data_cls``."""
    name = "TensorDict" if data_cls is None else data_cls.__name__
    fix = f"Make it one: {name}.from_tensordict(td), or {name}(..., batch_size=...)."
    if data_cls is None:
        fix = "Wrap the tensors: TensorDict({...}, batch_size=...)."
    return Violation(key, "type", name, type(value).__name__, fix=fix)


def entry_violations(
    specs: Mapping[str, TensorSpec | None],
    entries: Mapping[str, Any],
    key: tuple[str, ...],
    frame: Frame,
    batch_size: torch.Size,
) -> list[Violation]:
    """List what is wrong with the entries of the TensorDict at ``key``, and its missing and extra ones."""
    found = []
    for name, spec in specs.items():
        if spec is None:
            continue
        if name in entries:
            found.extend(spec._violations(entries[name], (*key, name), frame))
            continue
        got = batch_size if frame.lead is None else frame.lead + spec.shape
        shape = shape_text(frame.expected(spec.shape, got))
        if spec.domain == "composite":
            expected = f"a TensorDict of batch size {shape}"
        elif spec.dtype is None:
            expected = f"non-tensor data of batch size {shape}"
        else:
            expected = f"a tensor of shape {shape} and dtype {spec.dtype}"
        fix = "Write it before returning the data."
        found.append(Violation((*key, name), "missing", expected, "nothing", fix=fix))
    legal = ", ".join(map(repr, specs)) or "no keys"
    for name in entries:
        if name not in specs:
            fix = f"Remove it, or add it to the spec: spec[{format_key((*key, name))!r}] = ..."
            found.append(Violation((*key, name), "extra", legal, type(entries[name]).__name__, fix=fix))
    return found


def encode_entries(
    specs: Mapping[str, TensorSpec], shape: torch.Size, values: Mapping[str, Any], **options: Any
) -> tuple[dict[str, Any], torch.Size]:
    """Encode each value with its spec, whose shape begins with ``shape``; ``options`` go to ``TensorSpec.encode``.

    Returns the encoded values and their common batch size, ``[..., *shape]``. Raises a ``TypeError`` or ``ValueError``
    if a value cannot be converted or does not fit, or the values differ in their leading dims.
    """
    with_tensors = {key: spec for key, spec in specs.items() if _has_tensors(spec)}
    encoded = {
        key: prefix_errors(key, partial(spec.encode, **options), values[key]) for key, spec in with_tensors.items()
    }
    lead = _common_lead(with_tensors, encoded)
    own = shape
    if -1 in shape:
        sizes = [_shape_of(value)[len(lead) : len(lead) + len(shape)] for value in encoded.values()]
        own = torch.Size(sizes[0]) if sizes else blank_size(shape)
    for key in specs.keys() - with_tensors.keys():
        # An entry without tensors does not show its leading dims: it gets those of the others.
        whole = specs[key].expand(*lead, *specs[key].shape)
        encoded[key] = prefix_errors(key, partial(whole.encode, **options), values[key])
    return {key: encoded[key] for key in specs}, lead + own


def _has_tensors(spec: TensorSpec | None) -> bool:
    if spec is not None and spec.domain == "composite":
        return any(_has_tensors(part) for part in spec.values())  # type: ignore[attr-defined]  # a Composite
    return spec is not None and spec.dtype is not None


def _common_lead(specs: Mapping[str, TensorSpec], encoded: Mapping[str, Any]) -> torch.Size:
    lead = None
    for key, value in encoded.items():
        shape = _shape_of(value)
        extra = torch.Size(shape[: len(shape) - specs[key].ndim])
        if lead is not None and extra != lead:
            raise ValueError(
                f"Composite.encode: {key}: expected the leading dimensions {list(lead)} of the entries before it, "
                f"got {list(extra)}. Give all entries the same batch dimensions."
            )
        lead = extra
    return torch.Size(()) if lead is None else lead


def _shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a value. A nested tensor has none: it gets that of its first member, and the stack's dim."""
    if isinstance(value, torch.Tensor) and value.is_nested:
        return (*value.unbind()[0].shape, 1)
    return tuple(value.shape)


def prefix_errors(key: str, call: Callable[[Any], Any], value: Any) -> Any:
    """Call ``call(value)``, and put the key of the value in front of the message of an error."""
    try:
        return call(value)
    except (SpecKeyError, TypeError, ValueError) as error:
        raise type(error)(f"{key}: {error}") from None
