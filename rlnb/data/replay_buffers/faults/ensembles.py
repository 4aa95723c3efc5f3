"""What ensembles of replay buffers say when something cannot be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlnb.data.replay_buffers.faults.text import MANY, listed
from rlnb.data.ted.keys import NestedKey


def ensemble_is_read_only(what: str) -> str:
    """Say that an ensemble is not written to."""
    fix = {"add": "[0].add(data)", "extend": "[0].extend(data)", "set": "[0][index] = data"}[what]
    return (
        "An ensemble only reads: it does not know which of its members new data belongs to. Nothing was written. "
        f"Fix: write to a member, ensemble{fix}."
    )


def no_members(name: str, kind: str) -> str:
    """Say that an ensemble was made of nothing."""
    return f"A {name} needs at least one member. Fix: {name}({kind}0, {kind}1)."


def bad_member(name: str, position: int, expected: str, got: object) -> str:
    """Say that a member of an ensemble is something else."""
    what = f"the class {got.__name__}" if isinstance(got, type) else f"a {type(got).__name__}"
    return f"Every member of a {name} is a {expected}, and member {position} is {what}."


def members_or_parts() -> str:
    """Say what an ensemble can be made of."""
    return (
        "An ensemble is made either of buffers or of their parts. Fix: ReplayBufferEnsemble(rb0, rb1), or "
        "ReplayBufferEnsemble(storages=StorageEnsemble(...), samplers=SamplerEnsemble(...), "
        "writers=WriterEnsemble(...))."
    )


def members_have_collate_fns() -> str:
    """Say that buffers bring their collate functions."""
    return "collate_fns goes with parts; buffers bring theirs. Fix: ReplayBuffer(collate_fn=...) for each member."


def samplers_have_p() -> str:
    """Say that an ensemble of samplers brings what says how members are drawn."""
    return (
        "p, sample_from_all and num_buffer_sampled go with buffers; a SamplerEnsemble brings its own. "
        "Fix: SamplerEnsemble(..., p=...)."
    )


def unequal_parts(counts: dict[str, int]) -> str:
    """Say that there are not as many of one part as of the others."""
    found = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"Every member of an ensemble has one storage, sampler and writer, and there are {found}."


def unequal_ndims(ndims: Sequence[int]) -> str:
    """Say that an index cannot mean the same in all members."""
    return (
        f"The storages count elements along different numbers of dimensions, ndim={list(ndims)}, so their indices "
        "cannot stand in one sample. Fix: storages of one ndim."
    )


def p_and_all() -> str:
    """Say that two ways to choose members exclude each other."""
    return (
        "p says how likely each member is drawn, and sample_from_all=True that each is drawn every time. "
        "Fix: leave one of them out."
    )


def bad_p(p: Sequence[float], count: int) -> str:
    """Say what weights of members must be."""
    return (
        f"p must hold one weight for each of the {count} members, none negative or infinite and not all 0, and got "
        f"{list(p)}."
    )


def not_divisible(batch_size: int, drawn: int) -> str:
    """Say that a batch cannot be shared out equally."""
    less = batch_size - batch_size % drawn
    near = f"{less} or {less + drawn}" if less else f"{drawn}"
    return (
        f"A batch of {batch_size} cannot be drawn in equal parts from {drawn} members. "
        f"Fix: a multiple of {drawn}, such as {near}, or another num_buffer_sampled."
    )


def empty_member(member: int) -> str:
    """Say that a member that was drawn holds nothing."""
    return (
        f"Member {member} of the ensemble is empty, and it was its turn. Fix: write to it first, "
        f"ensemble[{member}].extend(data), or give it the weight 0 in p."
    )


def no_member(index: object, count: int) -> str:
    """Say which members there are."""
    if isinstance(index, int):
        return f"There is no member {index}: the ensemble has {count}, from 0 to {count - 1}."
    return (
        f"An ensemble is indexed by the number of a member, and a {type(index).__name__} came. "
        "Fix: ensemble[0] is a member, ensemble[0, 3] or ensemble[0][3] an element of it."
    )


def not_the_members(name: str) -> str:
    """Say that the parts of an ensemble are those of its members."""
    return (
        f"The {name}s of an ensemble are those of its members. "
        f"Fix: ensemble[0].set_{name}(...), or make a new ReplayBufferEnsemble."
    )


def needs_buffer_ids(got: object) -> str:
    """Say how elements of several members are named."""
    return (
        "Elements of an ensemble are named by a TensorDict with the entries 'index' and 'buffer_ids', and got: "
        f"{type(got).__name__}. Fix: batch, info = ensemble.sample(return_info=True), then info['index']; "
        "for one member, ensemble[0].update_priority(index, priority)."
    )


def other_member_count(saved: int, here: int) -> str:
    """Say that a state is that of a larger or smaller ensemble."""
    return f"The state is that of {saved} members, and this ensemble has {here}. Nothing was changed."


def unequal_members(
    first: int, other: int, one: dict[NestedKey, tuple[Any, Any]], two: dict[NestedKey, tuple[Any, Any]]
) -> str:
    """Say in what the samples of two members differ: shapes and dtypes by key."""
    lines = []
    for here, there, has, lacks in ((one, two, first, other), (two, one, other, first)):
        only = [key for key in here if key not in there]
        lines += [f"\n  only member {has} has {listed(only)}, and member {lacks} does not"] if only else []
    for key in [key for key in one if key in two and one[key] != two[key]][:MANY]:
        label = "" if key == () else f"{key!r}: "
        lines.append(f"\n  {label}{_leaf(*one[key])} in member {first}, {_leaf(*two[key])} in member {other}")
    return (
        f"The samples of members {first} and {other} cannot be stacked:{''.join(lines) or ' they nest differently.'}\n"
        "Fix: make them alike with transforms of the members, such as RenameTransform, ExcludeTransform, Resize or "
        "DTypeCastTransform; or give the ensemble a collate_fn, which gets the list of samples."
    )


def unequal_member_batches(counts: Sequence[int]) -> str:
    """Say that members gave different numbers of elements."""
    return (
        f"The members gave {list(counts)} elements, which cannot be stacked. The last batch of a pass is smaller. "
        "Fix: SamplerWithoutReplacement(drop_last=True) in the members."
    )


def _leaf(shape: Sequence[int], dtype: torch.dtype | None) -> str:
    return "non-tensor data" if dtype is None else f"shape {list(shape)} and dtype {dtype}"
