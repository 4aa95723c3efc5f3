"""What transforms of shapes say when a dimension is not there, or cannot be counted that way."""

from __future__ import annotations

from typing import Any

from rlnb.data import TensorSpec


def _name(what: Any) -> str:
    return type(what).__name__


def assert_negative(kind: type, **dims: int) -> None:
    """Refuse dimensions that are counted from the front.

    Args:
        kind: the class of the transform.
        **dims: the dimensions by the name of their argument.

    Raises:
        ValueError: if one of them is not negative.
    """
    for name, dim in dims.items():
        if dim >= 0:
            switch = "" if kind.__name__ in ("CatFrames",) else ", or allow_positive_dim=True to count after the batch"
            raise ValueError(
                f"{kind.__name__} got {name}={dim}, counted from the front, where batch and time dimensions come and "
                f"go. Fix: count from the end; -1 is the last dimension{switch}."
            )


def no_keys(transform: Any) -> str:
    """Say that a transform was not told what to change."""
    return (
        f"{_name(transform)} has neither in_keys nor in_keys_inv, so that it would change nothing. Fix: "
        f"{_name(transform)}(..., in_keys=['observation'])."
    )


def no_dim(transform: Any, dim: int, shape: tuple[int, ...], n_batch: int) -> str:
    """Say that a value has no such dimension, or that it is one of the batch."""
    return (
        f"{_name(transform)} got dimension {dim}, and the value has shape {shape}, of which the first {n_batch} are "
        f"batch dimensions. Fix: a dimension from {n_batch - len(shape)} to -1, or other in_keys."
    )


def no_permutation(dims: list[int]) -> str:
    """Say that some dimensions are no permutation of the last ones."""
    return (
        f"PermuteTransform takes the last dimensions, negative and each once, in their new order, and got {dims}. "
        "Fix: [-1, -3, -2] puts the last of three dimensions first."
    )


def too_few_dims(transform: Any, dims: list[int], shape: tuple[int, ...], n_batch: int) -> str:
    """Say that a value has fewer dimensions than are permuted."""
    return (
        f"{_name(transform)} permutes the last {len(dims)} dimensions, and the value has shape {shape}, of which the "
        f"first {n_batch} are batch dimensions. Fix: fewer dims, or other in_keys."
    )


def encoded_choice(transform: Any, spec: TensorSpec) -> str:
    """Say that the shape of an action that encodes a choice is part of its meaning."""
    return (
        f"{_name(transform)} would change the shape of an input of the env that is a {_name(spec)} of shape "
        f"{tuple(spec.shape)}: its last dimension is the encoding of one choice. Fix: leave it out of in_keys_inv, or "
        "take an env with categorical_action_encoding=True."
    )


__all__ = [
    "assert_negative", "encoded_choice", "no_dim", "no_keys", "no_permutation", "too_few_dims",
]  # fmt: skip
