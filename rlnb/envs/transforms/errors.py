"""Error messages and exception classes that several transforms share."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from rlnb.data.specs.keys import SpecKeyError, unknown_key
from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.leaves import leaf_keys


class SpecTypeError(TypeError, ValueError):
    """A spec of the wrong class; also a ``ValueError``, as in TorchRL."""


def unequal_keys(transform: Any, first: str, n_first: int, second: str, n_second: int) -> str:
    """Return the message for two lists of keys of different lengths."""
    return (
        f"{type(transform).__name__} got {n_first} {first} and {n_second} {second}: they must pair up one by one. "
        "A nested key is one key: write [('nested', 'reward')] for a list of one."
    )


def missing_key(transform: Any, key: NestedKey, data: TensorDictBase, at_reset: bool) -> SpecKeyError:
    """Return the error for an entry that is missing from the data."""
    error = unknown_key(key, leaf_keys(data), f"the data that {type(transform).__name__} reads")
    hint = (
        " If only steps return it: transform.set_missing_tolerance(True)."
        if at_reset
        else " The keys are those that the transforms before this one leave."
    )
    return SpecKeyError(f"{error}{hint}")


def needs_env(transform: Any, what: str) -> str:
    """Return the message for a transform that works in an env only."""
    name = type(transform).__name__
    return f"{name} {what}, so it works in an env only. Fix: TransformedEnv(env, {name}(...))."


def buffer_only(transform: Any, what: str) -> str:
    """Return the message for a transform that works in a buffer only."""
    name = type(transform).__name__
    return f"{name} {what}, so it works in a buffer only. Fix: buffer.append_transform({name}(...))."


def assert_negative(kind: type, allow_positive: bool, **dims: int) -> None:
    """Raise ``ValueError`` if a dimension, by the name of its argument, is not counted from the end."""
    for name, dim in dims.items():
        if dim >= 0:
            switch = ", or allow_positive_dim=True to count after the batch" if allow_positive else ""
            raise ValueError(
                f"{kind.__name__} got {name}={dim}, counted from the front, where batch and time dimensions come and "
                f"go. Fix: count from the end; -1 is the last dimension{switch}."
            )
