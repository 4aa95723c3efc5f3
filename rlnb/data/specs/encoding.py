"""Conversion of the entries of a dictionary to tensors that share their leading dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.keys import SpecKeyError
from rlnb.data.specs.variable import blank_size


def encode_entries(
    specs: Mapping[str, TensorSpec], shape: torch.Size, values: Mapping[str, Any], **options: Any
) -> tuple[dict[str, Any], torch.Size]:
    """Encode each value with its spec.

    Args:
        specs: the spec of each entry.
        shape: the shape with which the shapes of all specs begin.
        values: the values to encode, at least those of the keys of ``specs``.
        **options: further arguments of `TensorSpec.encode`.

    Returns:
        The encoded values and their common batch size, ``[..., *shape]``.

    Raises:
        TypeError: If a value cannot be converted.
        ValueError: If a value does not fit, or the values differ in their leading dims.
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
    """Call ``call(value)``, and put the key in front of the message of an error.

    Args:
        key: the key of the entry.
        call: what to do with its value.
        value: the value.

    Example:
        >>> prefix_errors("a", int, "x")
        Traceback (most recent call last):
        ValueError: a: invalid literal for int() with base 10: 'x'
    """
    try:
        return call(value)
    except (SpecKeyError, TypeError, ValueError) as error:
        raise type(error)(f"{key}: {error}") from None
