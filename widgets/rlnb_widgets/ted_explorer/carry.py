"""What ``step_mdp`` carries from ``"next"`` to the next root, and whether the data agree with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from rlnb.data.ted.adjacency import disagreements
from rlnb.data.ted.facts import Facts
from rlnb_widgets._core.literals import number_text, object_text
from rlnb_widgets.ted_explorer.entries import Entry, Path
from rlnb_widgets.ted_explorer.schema import Carry


def carry_of(
    root: Entry | None,
    following: Entry | None,
    facts: Facts | None,
    action_keys: frozenset[str | Path],
    reward_keys: frozenset[str | Path],
) -> Carry:
    """Say what ``step_mdp`` does with one entry, and check it where it can be checked.

    Args:
        root: the entry at the root.
        following: the same entry in ``"next"``.
        facts: where trajectories stop; ``None`` without a time dimension.
        action_keys: actions; a string is a name in any group, a tuple one exact path.
        reward_keys: the same for rewards.

    Returns:
        The verdict.
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


def _compare(root: Entry, following: Entry, facts: Facts) -> Carry:
    kinds = {root.kind, following.kind}
    if "error" in kinds:
        return Carry("carried", why="it cannot be read")
    if kinds == {"ragged"}:
        return _compare_pieces(following, root, _inside(facts), facts.data.batch_dims)
    if kinds == {"leaf", "ragged"}:
        return Carry("carried", why="the shapes differ from element to element on one side only")
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
        why = f'the root has shape {list(after.shape)}, "next" {list(before.shape)}'
        return Carry("carried", False, why=why)
    if before.dtype != after.dtype:
        return Carry("carried", False, why=f'the root has {_dtype(after)}, "next" {_dtype(before)}')
    return _compare_columns(before.detach().cpu(), after.detach().cpu(), facts)


def _inside(facts: Facts) -> torch.Tensor:
    """Where *t* and *t+1* belong to one trajectory, ``[*B, T-1]``."""
    return ~facts.stops.reshape(facts.data.batch_size)[..., :-1]


def _compare_columns(before: torch.Tensor, after: torch.Tensor, facts: Facts) -> Carry:
    """Let the library find the steps that disagree, and point out the first value in the first of them."""
    dims = facts.data.batch_dims
    old, new = (_comparable(side.reshape(-1, *side.shape[dims:])) for side in (before, after))
    found = disagreements(new, old, facts)
    if not found.shape[0]:
        return Carry("carried", True)
    step = int(found[0])
    place = first_true(unequal(old[step], new[step + 1]))
    assert place is not None
    index = (*facts.index(step), *place[: before.dim() - dims])
    values = before.reshape(-1, *before.shape[dims:])[step], after.reshape(-1, *after.shape[dims:])[step + 1]
    old_value, new_value = (side[place[: before.dim() - dims]].item() for side in values)
    return Carry("carried", False, index, number_text(old_value), number_text(new_value))


def _comparable(column: torch.Tensor) -> torch.Tensor:
    """Numbers that know what NaN is: 8-bit floats and complex numbers do not."""
    if column.is_complex():
        return torch.view_as_real(column)
    return column.float() if column.dtype.itemsize == 1 and column.is_floating_point() else column


def _compare_tensors(before: torch.Tensor, after: torch.Tensor, inside: torch.Tensor, batch_dims: int) -> Carry:
    time = batch_dims - 1
    before, after = before.narrow(time, 0, before.shape[time] - 1), after.narrow(time, 1, after.shape[time] - 1)
    inside = inside.reshape(*inside.shape, *[1] * (before.dim() - batch_dims))
    index = first_true(unequal(before, after) & inside)
    if index is None:
        return Carry("carried", True)
    return Carry("carried", False, index, number_text(before[index].item()), number_text(after[index].item()))


def _compare_pieces(following: Entry, root: Entry, inside: torch.Tensor, batch_dims: int) -> Carry:
    """Compare lazy stacks of differing shapes: each piece with its partner, along time with the partner's successor."""
    dim, before, after = following.stack_dim, following.value, root.value
    if root.stack_dim != dim or len(before) != len(after) or len(before) != following.pieces:
        return Carry("carried", why="the pieces of the lazy stacks do not belong together")
    if dim < batch_dims - 1:
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            if old.shape != new.shape:
                return Carry(
                    "carried", False, why=f'in piece {i} the root has {list(new.shape)}, "next" {list(old.shape)}'
                )
            carry = _compare_tensors(old.detach().cpu(), new.detach().cpu(), inside.select(dim, i), batch_dims - 1)
            if not carry.holds:
                return replace(carry, index=(*carry.index[:dim], i, *carry.index[dim:]))
        return Carry("carried", True)
    for t in range(len(before) - 1):
        old, new, here = before[t].detach().cpu(), after[t + 1].detach().cpu(), inside[..., t]
        if not here.any():
            continue
        if old.shape != new.shape:
            why = f'the root at step {t + 1} has shape {list(new.shape)}, "next" at step {t} {list(old.shape)}'
            return Carry("carried", False, why=why)
        index = first_true(unequal(old, new) & here.reshape(*here.shape, *[1] * (old.dim() - here.dim())))
        if index is not None:
            place = (*index[:dim], t, *index[dim:])
            return Carry("carried", False, place, number_text(old[index].item()), number_text(new[index].item()))
    return Carry("carried", True)


def unequal(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Compare two tensors of one shape and dtype; NaN equals NaN.

    Args:
        left: any tensor.
        right: another.

    Returns:
        A bool tensor of that shape.

    Example:
        >>> nan = float("nan")
        >>> unequal(torch.tensor([1.0, nan, nan]), torch.tensor([1.0, nan, 2.0])).tolist()
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
    """Find the first true element, in the order of the memory.

    Args:
        mask: any bool tensor.

    Returns:
        Its index, or ``None``.

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
