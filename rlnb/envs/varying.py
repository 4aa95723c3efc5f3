"""What varies from step to step in the data of an env, and which of it no spec can describe."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

from rlnb.data.ted.keys import as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys


def varying_entries(seen: list[TensorDictBase]) -> dict[tuple[str, ...], str]:
    """Find the entries whose presence or shape varies, with the reason why that is wrong or how to say it in a spec.

    Args:
        seen: the data of a reset and of the steps that followed.

    Returns:
        The reasons by key.

    Example:
        >>> from tensordict import TensorDict
        >>> steps = [TensorDict({"a": torch.zeros(n)}) for n in (1, 2, 2)]
        >>> varying_entries(steps)[("a",)]
        'Its shape is (1,) at reset and (2,) at step 1: say -1 for what varies, shape=(-1,).'
    """
    keys = [set(map(as_tuple, leaf_keys(data))) for data in seen]
    found: dict[tuple[str, ...], str] = {}
    for key in sorted(set().union(*keys)):
        steps = {f"step {t}": key in keys[t] for t in range(1, len(seen))}  # a reset may leave entries out
        if len(set(steps.values())) > 1:
            there = next(moment for moment, present in steps.items() if present)
            gone = next(moment for moment, present in steps.items() if not present)
            found[key] = (
                f"It is there at {there} and not at {gone}: no spec describes an entry that comes and goes, and the "
                "steps of a rollout would not fit together. Give it at every step, with -1 in its shape if its size "
                "varies."
            )
            continue
        shapes = [(t, shape) for t, data in enumerate(seen) if key in keys[t] for shape in _shapes(data, as_key(key))]
        reason = _shape_reason(shapes)
        if reason:
            found[key] = reason
    return found


def _shapes(data: Any, key: Any) -> list[tuple[int, ...]]:
    """The shapes of an entry, of each row of a lazy stack its own."""
    if isinstance(data, LazyStackedTensorDict):
        n, at = len(data.tensordicts), data.stack_dim
        return [(*s[:at], n, *s[at:]) for row in data.tensordicts for s in _shapes(row, key)]
    value = data.get(key, None)
    return [tuple(value.shape)] if isinstance(value, torch.Tensor) else []


def _shape_reason(shapes: list[tuple[int, tuple[int, ...]]]) -> str | None:
    for t, shape in shapes:
        first_t, first = shapes[0]
        then, now = ("reset" if u == 0 else f"step {u}" for u in (first_t, t))
        if len(shape) != len(first):
            return (
                f"It has {len(first)} dimensions at {then} and {len(shape)} at {now}: -1 in a spec stands for any "
                "size, not for any number of dimensions. Give it the same number always, if need be of size 1."
            )
    if len({shape for _, shape in shapes}) < 2:
        return None
    (first_t, first), (t, other) = shapes[0], next(pair for pair in shapes if pair[1] != shapes[0][1])
    then, now = ("reset" if u == 0 else f"step {u}" for u in (first_t, t))
    spec = tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*(s for _, s in shapes), strict=True))
    return f"Its shape is {first} at {then} and {other} at {now}: say -1 for what varies, shape={spec}."


__all__ = ["varying_entries"]
