"""Check that each root holds what ``step_mdp`` carries from the ``"next"`` of the previous step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlnb.data.ted.adjacency import disagreements
from rlnb.data.ted.facts import Facts
from rlnb.data.ted.ragged import RaggedColumn
from rlnb_widgets._core.text import number_text, object_text
from rlnb_widgets.ted_explorer.entries import Path, TedEntry, values
from rlnb_widgets.ted_explorer.schema import Carry


def carry_of(
    root: TedEntry | None,
    following: TedEntry | None,
    facts: Facts | None,
    action_keys: frozenset[str | Path],
    reward_keys: frozenset[str | Path],
) -> Carry:
    """Return what ``step_mdp`` does with one entry, and whether the data agree where that can be checked.

    ``facts`` tells where trajectories stop; None without a time dimension. A string in the keys is a name in any group,
    a tuple an exact path.
    """
    entry = following or root
    if entry is None:
        return Carry()
    if _is_one_of(entry.path, reward_keys) or (following is None and _is_one_of(entry.path, action_keys)):
        return Carry("dropped")
    if following is None:
        return Carry("kept")
    if root is None:
        return Carry("carried", why="the root has no such entry to compare with")
    if facts is None:
        return Carry("carried", why="no time dimension, so no next row to compare with")
    if facts.length < 2 or facts.rows == 0:
        return Carry("carried", why="fewer than two steps")
    try:
        return _compare(root, following, facts)
    except Exception as error:
        return Carry("carried", why=f"could not be compared: {type(error).__name__}")


def _is_one_of(path: Path, keys: frozenset[str | Path]) -> bool:
    return path in keys or path[-1] in keys


def _compare(root: TedEntry, following: TedEntry, facts: Facts) -> Carry:
    kinds = {root.kind, following.kind}
    if "error" in kinds:
        return Carry("carried", why="it cannot be read")
    if "ragged" in kinds and kinds <= {"leaf", "ragged"}:
        return _compare_rows(following, root, facts)
    if len(kinds) > 1:
        return Carry("carried", False, why=f'the root holds a {root.kind}, "next" a {following.kind}')
    if root.kind == "node":
        return Carry()
    if root.kind == "non-tensor":
        return _compare_objects(following.value, root.value, _inside(facts))
    before, after = following.value, root.value
    if before.is_nested or after.is_nested:
        return Carry("carried", why="jagged tensors are not compared")
    if before.shape != after.shape:
        if root.lazy and following.lazy:  # its sizes may vary
            return _compare_rows(following, root, facts)
        why = f'the root has shape {list(after.shape)}, "next" {list(before.shape)}'
        return Carry("carried", False, why=why)
    if before.dtype != after.dtype:
        return Carry("carried", False, why=f'the root has {_dtype(after)}, "next" {_dtype(before)}')
    return _compare_columns(before.detach().cpu(), after.detach().cpu(), facts)


def _inside(facts: Facts) -> torch.Tensor:
    """Return where *t* and *t+1* belong to one trajectory, ``[*B, T-1]``."""
    return ~facts.stops.reshape(facts.data.batch_size)[..., :-1]


def _compare_columns(before: torch.Tensor, after: torch.Tensor, facts: Facts) -> Carry:
    """Find the steps that disagree with `disagreements`, and report the first value in the first of them."""
    dims = facts.data.batch_dims
    old, new = (_comparable(side.reshape(-1, *side.shape[dims:])) for side in (before, after))
    found = disagreements(new, old, facts)
    if not found.shape[0]:
        return Carry("carried", True)
    step = int(found[0])
    place = first_true(unequal_tensors(old[step], new[step + 1]))
    assert place is not None
    index = (*facts.index(step), *place[: before.dim() - dims])
    values = before.reshape(-1, *before.shape[dims:])[step], after.reshape(-1, *after.shape[dims:])[step + 1]
    old_value, new_value = (side[place[: before.dim() - dims]].item() for side in values)
    return Carry("carried", False, index, number_text(old_value), number_text(new_value))


def _comparable(column: torch.Tensor) -> torch.Tensor:
    """Return the numbers in a dtype that can test for NaN: 8-bit floats and complex numbers cannot."""
    if column.is_complex():
        return torch.view_as_real(column)
    return column.float() if column.dtype.itemsize == 1 and column.is_floating_point() else column


def _compare_rows(following: TedEntry, root: TedEntry, facts: Facts) -> Carry:
    """Compare entries whose size varies from step to step, and report what disagrees first."""
    before, after = (_rows(side, facts.data.batch_dims) for side in (following, root))
    found = disagreements(after, before, facts)
    if not found.shape[0]:
        return Carry("carried", True)
    step = int(found[0])
    index, extra = facts.index(step), values(following).shape[facts.data.batch_dims :]
    t = index[-1]
    for place in np.ndindex(*extra):
        old, new = before[step], after[step + 1]
        for i in place:
            old, new = old[i], new[i]
        if old is None and new is None:
            continue
        if old is None or new is None:
            lacking = f'"next" at step {t}' if old is None else f"the root at step {t + 1}"
            return Carry("carried", False, why=f"{lacking} lacks the entry")
        if old.shape != new.shape:
            why = f'the root at step {t + 1} has shape {list(new.shape)}, "next" at step {t} {list(old.shape)}'
            return Carry("carried", False, why=why)
        at = first_true(unequal_tensors(old, new))
        if at is not None:
            texts = number_text(old[at].item()), number_text(new[at].item())
            return Carry("carried", False, (*index, *place, *at), *texts)
    return Carry("carried", False, why=f'"next" at step {t} and the root at step {t + 1} differ')


def _rows(entry: TedEntry, batch_dims: int) -> RaggedColumn:
    """Return the values of the steps; lists of values if agents have a dimension of their own."""
    found = values(entry)
    detached = np.frompyfunc(lambda value: None if value is None else _comparable(value.detach().cpu()), 1, 1)(found)
    return RaggedColumn(detached.reshape(-1, *found.shape[batch_dims:]).tolist())


def unequal_tensors(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Compare two tensors of one shape and dtype element by element; NaN equals NaN.

    Example:
        >>> nan = float("nan")
        >>> unequal_tensors(torch.tensor([1.0, nan, nan]), torch.tensor([1.0, nan, 2.0])).tolist()
        [False, False, True]
    """
    if left.dtype.itemsize == 1 and left.is_floating_point():  # 8-bit floats know no comparison
        left, right = left.float(), right.float()
    differs = left != right
    if (left.is_floating_point() or left.is_complex()) and differs.any():
        differs &= ~(left.isnan() & right.isnan())
    return differs


def _compare_objects(before: Any, after: Any, inside: torch.Tensor) -> Carry:
    left, right = before.tolist(), after.tolist()
    if not isinstance(left, list) or not isinstance(right, list):
        return Carry("carried", why="one object for all steps")
    for index in inside.nonzero().tolist():
        old, new = left, right
        for i in index[:-1]:
            old, new = old[i], new[i]
        try:
            same = _same(old[index[-1]], new[index[-1] + 1])
        except Exception as error:
            return Carry("carried", why=f"the objects cannot be compared: {type(error).__name__}")
        if same is None:
            return Carry("carried", why="the objects have no equality of their own")
        if not same:
            texts = object_text(old[index[-1]]), object_text(new[index[-1] + 1])
            return Carry("carried", False, tuple(index), *texts)
    return Carry("carried", True)


def _same(before: Any, after: Any) -> bool | None:
    if before is after:
        return True
    if getattr(type(before), "__eq__", None) == object.__eq__:
        return None
    return bool(before == after)


def first_true(mask: torch.Tensor) -> tuple[int, ...] | None:
    """Return the index of the first true element, in the order of the memory; None without one.

    Example:
        >>> first_true(torch.tensor([[False, False], [False, True]]))
        (1, 1)
    """
    flat = mask.reshape(-1)
    if flat.numel() == 0:
        return None
    at = int(flat.to(torch.uint8).argmax())
    if not flat[at]:
        return None
    index = []
    for size in reversed(mask.shape):
        index.append(at % size)
        at //= size
    return tuple(reversed(index))


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
