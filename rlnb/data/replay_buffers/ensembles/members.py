"""Members of ensembles: checks, access by number, and stacking of their batches."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import torch
from tensordict import TensorDict, lazy_stack

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.forms.tree_form import form_of
from rlnb.data.replay_buffers.stacking import stack_leaves

P = TypeVar("P")


def checked_members(
    name: str, base: Any, kind: str, members: Sequence[P], but_not: type | tuple[()] = ()
) -> tuple[P, ...]:
    """Return the members of an ensemble, checked to be instances of ``base``; ``kind`` names one in an example."""
    if not members:
        raise ValueError(f"A {name} needs at least one member. Fix: {name}({kind}0, {kind}1).")
    for position, member in enumerate(members):
        if not isinstance(member, base) or isinstance(member, but_not):
            what = f"the class {member.__name__}" if isinstance(member, type) else f"a {type(member).__name__}"
            raise TypeError(f"Every member of a {name} must be a {base.__name__}, and member {position} is {what}.")
    return tuple(members)


class PartOf(Sequence[P], Generic[P]):
    """One component of each buffer of an ensemble, such as its storage; always the current one.

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
        """Copy the components, and not the buffers."""
        return tuple(copy.deepcopy(part, memo) for part in self)


def member_at(members: Sequence[P], index: Any) -> P:
    """Return a member by its number; negative numbers count from the end."""
    try:
        position = operator.index(index)
    except TypeError:
        raise TypeError(errors.no_such_member(index, len(members))) from None
    if not -len(members) <= position < len(members):
        raise IndexError(errors.no_such_member(position, len(members)))
    return members[position]


def states_of(state_dict: dict[str, Any], count: int) -> list[Any]:
    """Return the states of ``count`` members, by number; raises ``ValueError`` if there are more or fewer of them."""
    if set(state_dict) != set(map(str, range(count))):
        raise ValueError(
            f"The state has {len(state_dict)} members, and this ensemble has {count}. Nothing was changed."
        )
    return [state_dict[str(member)] for member in range(count)]


def stack_batches(batches: Sequence[Any], members: Sequence[int]) -> Any:
    """Stack the batches of several members, whose numbers are ``members``, along a new first dimension.

    Different dtypes are promoted. TensorDicts that differ in keys or shapes make a lazy stack: common entries can be
    read from the stack, and others from its parts. Batches without tensors make a list.

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
    """Whether batches that differ can be stacked nevertheless."""
    if not all(type(batch) in (torch.Tensor, TensorDict) for batch in batches):
        return False
    tensors = all(leaf.dtype is not None for form in forms for leaf in form.leaves)
    shapes = {batch.shape for batch in batches}
    return len(set(map(type, batches))) == len(shapes) == 1 and (tensors or type(batches[0]) is TensorDict)


def _difference(forms: Sequence[Any], members: Sequence[int]) -> str:
    """Describe which two batches differ, and how."""
    found = [{leaf.key: (leaf.shape, leaf.dtype) for leaf in form.leaves} for form in forms]
    other = next((i for i, leaves in enumerate(found) if leaves != found[0]), 1)
    one, two = found[0], found[other]
    counts = [{shape[0] for shape, _ in leaves.values() if len(shape)} for leaves in found]
    same_rest = {key: (shape[1:], dtype) for key, (shape, dtype) in one.items()} == {
        key: (shape[1:], dtype) for key, (shape, dtype) in two.items()
    }
    if same_rest and one != two and all(len(count) == 1 for count in counts):
        return errors.unequal_member_batches([count.pop() for count in counts])
    first, second, lines = members[0], members[other], []
    for here, there, has, lacks in ((one, two, first, second), (two, one, second, first)):
        only = [key for key in here if key not in there]
        lines += [f"\n  only member {has} has {errors.listed(only)}, and member {lacks} does not"] if only else []
    for key in [key for key in one if key in two and one[key] != two[key]][: errors.MAX_LISTED]:
        label = "" if key == () else f"{key!r}: "
        lines.append(
            f"\n  {label}{errors.looks(*one[key])} in member {first}, {errors.looks(*two[key])} in member {second}"
        )
    return (
        f"The samples of members {first} and {second} cannot be stacked:{''.join(lines) or ' they nest differently.'}\n"
        "Fix: make them alike with transforms of the members, such as RenameTransform, ExcludeTransform, Resize or "
        "DTypeCastTransform; or give the ensemble a collate_fn, which gets the list of samples."
    )
