"""Members: what ensembles are made of, how they are numbered, and how their batches become one."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import torch
from tensordict import TensorDict, lazy_stack

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.forms import form_of
from rlnb.data.replay_buffers.stacking import stack_leaves

P = TypeVar("P")


def checked(name: str, base: Any, kind: str, members: Sequence[P]) -> tuple[P, ...]:
    """Check the members of an ensemble.

    Args:
        name: of the class of the ensemble.
        base: the class of its members.
        kind: what a member is called in an example.
        members: what was given.

    Returns:
        The same.

    Raises:
        TypeError: if one is something else.
        ValueError: if there is none.
    """
    if not members:
        raise ValueError(faults.no_members(name, kind))
    for position, member in enumerate(members):
        if not isinstance(member, base):
            raise TypeError(faults.bad_member(name, position, base.__name__, member))
    return tuple(members)


class PartOf(Sequence[P], Generic[P]):
    """One part of each buffer of an ensemble, such as its storage; as it is now, for buffers can exchange theirs.

    Args:
        buffers: the members of the ensemble.
        name: of the attribute.

    Example:
        >>> from rlnb.data import ReplayBuffer
        >>> list(PartOf([ReplayBuffer(), ReplayBuffer()], "sampler"))
        [RandomSampler(), RandomSampler()]
    """

    def __init__(self, buffers: Sequence[Any], name: str) -> None:
        self._buffers, self._name = buffers, name

    def __getitem__(self, index: Any) -> Any:
        return getattr(self._buffers[index], self._name)

    def __iter__(self) -> Iterator[P]:
        return (getattr(buffer, self._name) for buffer in self._buffers)

    def __len__(self) -> int:
        return len(self._buffers)

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[P, ...]:
        """Copy the parts, and not the buffers with all that is in them."""
        return tuple(copy.deepcopy(part, memo) for part in self)


def member_at(members: Sequence[P], index: Any) -> P:
    """Return a member by its number.

    Args:
        members: of the ensemble.
        index: the number; negative ones count from the end.

    Returns:
        The member.

    Raises:
        IndexError: if there is none of that number.
        TypeError: if it is no number.
    """
    try:
        position = operator.index(index)
    except TypeError:
        raise TypeError(faults.no_member(index, len(members))) from None
    if not -len(members) <= position < len(members):
        raise IndexError(faults.no_member(position, len(members)))
    return members[position]


def states_of(state_dict: dict[str, Any], count: int) -> list[Any]:
    """Take the state of an ensemble apart.

    Args:
        state_dict: the states of the members, by their numbers.
        count: how many members there are.

    Returns:
        The states.

    Raises:
        ValueError: if it is the state of another number of members.
    """
    if set(state_dict) != set(map(str, range(count))):
        raise ValueError(faults.other_member_count(len(state_dict), count))
    return [state_dict[str(member)] for member in range(count)]


def stack_batches(batches: Sequence[Any], members: Sequence[int]) -> Any:
    """Stack the batches that members gave.

    Args:
        batches: one of each; tensors, TensorDicts or PyTrees of these.
        members: the number of the member that gave it.

    Returns:
        The data, with a dimension for the batches in front. Where dtypes differ it has the one that holds both. Where
        TensorDicts differ in keys or shapes it is a lazy stack: what all have can be read from the stack, and the rest
        from its members. A list of the batches where these hold no tensors.

    Raises:
        ValueError: if their batch sizes differ, or something else than TensorDicts differs in shape.

    Example:
        >>> stack_batches([torch.tensor([1, 2]), torch.tensor([3, 4])], [0, 1]).tolist()
        [[1, 2], [3, 4]]
        >>> stack_batches([["a", "b"], ["c", "d"]], [0, 1])
        [['a', 'b'], ['c', 'd']]
    """
    try:
        forms = [form_of(batch, 0) for batch in batches]
    except TypeError:
        return list(batches)
    try:
        leaves = stack_leaves(batches, forms[0])
    except ValueError:
        if not _stackable(batches, forms):
            raise ValueError(_difference(forms, members)) from None
        looks = [{leaf.key: leaf.shape for leaf in form.leaves} for form in forms]
        if all(look == looks[0] for look in looks):  # only dtypes differ
            return torch.stack(list(batches))
        return lazy_stack(list(batches))
    return forms[0].build(leaves, torch.Size((len(batches),)))


def _stackable(batches: Sequence[Any], forms: Sequence[Any]) -> bool:
    """Whether batches that differ can be stacked all the same."""
    if not all(type(batch) in (torch.Tensor, TensorDict) for batch in batches):
        return False
    tensors = all(leaf.dtype is not None for form in forms for leaf in form.leaves)
    shapes = {batch.shape for batch in batches}
    return len(set(map(type, batches))) == len(shapes) == 1 and (tensors or type(batches[0]) is TensorDict)


def _difference(forms: Sequence[Any], members: Sequence[int]) -> str:
    """Say which two batches differ, and in what."""
    found = [{leaf.key: (leaf.shape, leaf.dtype) for leaf in form.leaves} for form in forms]
    other = next((i for i, leaves in enumerate(found) if leaves != found[0]), 1)
    one, two = found[0], found[other]
    counts = [{shape[0] for shape, _ in leaves.values() if len(shape)} for leaves in found]
    same_rest = {key: (shape[1:], dtype) for key, (shape, dtype) in one.items()} == {
        key: (shape[1:], dtype) for key, (shape, dtype) in two.items()
    }
    if same_rest and one != two and all(len(count) == 1 for count in counts):
        return faults.unequal_member_batches([count.pop() for count in counts])
    return faults.unequal_members(members[0], members[other], one, two)
