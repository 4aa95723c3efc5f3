"""Comparison of TensorDicts with the batch size and the entries of a Composite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rlnb._tensordict import raw_entries
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.variable import fits_shape, shape_text
from rlnb.data.specs.violations import Frame, Violation, format_key


def read_entries(data: Any) -> Mapping[str, Any] | None:
    """Return the entries of a TensorDict; None for a ragged lazy stack, whose rows cannot be stacked.

    Args:
        data: the TensorDict, or an instance of a tensorclass.
    """
    try:
        return raw_entries(data)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        if _stack_dim(data) is None:
            raise
        return None


def _stack_dim(data: Any) -> Any:
    return getattr(getattr(data, "_tensordict", data), "stack_dim", None)


def ragged_rows(data: Any, shape: torch.Size, frame: Frame) -> list[tuple[Any, Any, Frame]] | None:
    """Take a ragged lazy stack apart.

    Args:
        data: the stack, whose batch size fits.
        shape: the shape of its spec.
        frame: the leading and time dims of ``data``.

    Returns:
        For each row: the index into its spec (None for the whole spec), the row, and the frame of the row. None if the
        stack is along a dim that the spec does not have.
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
    """Return the sizes in front of the spec's shape if a batch size fits, else None.

    Args:
        got: the batch size of the data. At the root it may omit trailing dims of size 1; below, it may omit trailing
            dims or have more of them.
        shape: the shape of the spec.
        lead: the leading sizes that are prescribed; None at the root, where any are accepted.
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
    """List what is wrong with a batch size, and return the frame with the sizes that it shows.

    Args:
        got: the batch size of the data.
        shape: the shape of the spec.
        key: the key of the data; empty for the root.
        frame: the leading and time dims of the data.
    """
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
    """Return the violation of a value that is not a TensorDict.

    Args:
        value: the value.
        data_cls: the tensorclass that is expected; None for a TensorDict.
        key: the key of the value.
    """
    if data_cls is None:
        fix = "Wrap the tensors: TensorDict({...}, batch_size=...)."
        return Violation(key, "type", "TensorDict", type(value).__name__, fix=fix)
    name = data_cls.__name__
    fix = f"Make it one: {name}.from_tensordict(td), or {name}(..., batch_size=...)."
    return Violation(key, "type", name, type(value).__name__, fix=fix)


def entry_violations(
    specs: Mapping[str, TensorSpec | None],
    entries: Mapping[str, Any],
    key: tuple[str, ...],
    frame: Frame,
    batch_size: torch.Size,
) -> list[Violation]:
    """List what is wrong with the entries of a TensorDict, and the missing and extra ones.

    Args:
        specs: the entries of the spec.
        entries: the entries of the data.
        key: the key of the data.
        frame: the leading and time dims of the data.
        batch_size: the batch size of the data.
    """
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
