"""What replay buffers say about slices of trajectories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rlnb.data.replay_buffers.faults.text import MANY, listed
from rlnb.data.ted.keys import NestedKey, as_tuple

_SIGNALS = ("done", "terminated", "truncated", "episode", "traj_ids", "traj")


def slices_or_length(num_slices: object, slice_len: object) -> str:
    """Say that one of two arguments is needed."""
    got = "none" if num_slices is None and slice_len is None else f"both ({num_slices=}, {slice_len=})"
    return (
        f"A slice sampler needs either num_slices or slice_len, and got {got}. Fix: num_slices=8 for eight slices a "
        "batch, of batch_size // 8 steps each; or slice_len=8 for batch_size // 8 slices of eight steps."
    )


def several_sources(names: Sequence[str]) -> str:
    """Say that trajectories are told apart in one way."""
    return (
        f"{' and '.join(names)} were given. ends or trajectories take the place of what is stored. Fix: give only one."
    )


def given_without_cache(name: str) -> str:
    """Say that given trajectories are those of a storage that never changes."""
    return f"{name} says where trajectories end once and for all. Fix: cache_values=True, if nothing will be written."


def given_do_not_fit(name: str, given: Sequence[int], stored: Sequence[int], full: bool) -> str:
    """Say that given trajectories are not those of the storage."""
    what = f"a {'full' if full else 'partly filled'} storage of shape {list(stored)}"
    return (
        f"{name} has one value for each element of a full storage of one dimension, and got a tensor of shape "
        f"{list(given)} for {what}. Fix: end_key or traj_key, which read what is stored."
    )


def given_are_old(count: int) -> str:
    """Say that a storage was written to after all."""
    return (
        f"The trajectories were given as they are in a storage that does not change, and {count} rows were written "
        "since. Fix: end_key or traj_key in place of ends or trajectories."
    )


def bad_span(span: object) -> str:
    """Say what a span can be."""
    return (
        f"span must be a bool, an integer of at least 0 or a pair of these, and got {span!r}. "
        "Fix: such as span=True, or span=(False, 3) to lack up to three steps behind the end of a trajectory."
    )


def batch_of_slices(batch_size: int, name: str, by: int) -> str:
    """Say that a batch does not fall into slices."""
    lower, upper = batch_size // by * by, -(-batch_size // by) * by
    sizes = f"{lower} or {upper}" if lower else f"{upper}"
    return f"The batch size must be a multiple of {name}={by}, and is {batch_size}. Fix: batch_size {sizes}."


def not_sliceable(kind: str) -> str:
    """Say which storages have entries."""
    return (
        f"A slice sampler reads where trajectories end from the entries of a contiguous storage, and a {kind} has "
        "none. Fix: LazyTensorStorage or LazyMemmapStorage."
    )


def no_signals(asked: Sequence[NestedKey], stored: Sequence[NestedKey]) -> str:
    """Say that nothing tells trajectories apart."""
    likely = [key for key in stored if key and as_tuple(key)[-1] in _SIGNALS]
    # At the root "done" is said before the step: it is never set where a reset follows.
    inner = (key for key in likely if as_tuple(key)[0] == "next" or as_tuple(key)[-1] not in _SIGNALS[:3])
    near = next(inner, None)
    ends = near is not None and as_tuple(near)[-1] in _SIGNALS[:3]
    fix = (
        f"SliceSampler({'end_key' if ends else 'traj_key'}={near!r})"
        if near is not None
        else 'store an id of the trajectory with each step, data["episode"], or its end, data["next", "done"]'
    )
    return (
        f"A slice sampler tells trajectories apart by {' or '.join(map(repr, asked))}, which the storage does not "
        f"have. It has {'bare tensors' if list(stored) == [()] else listed(stored)}. Fix: {fix}."
    )


def several_signals(key: NestedKey, shape: Sequence[int]) -> str:
    """Say that a step ends for all or not at all."""
    return (
        f"{key!r} has the shape {list(shape)} in each element, and one value a step says where a trajectory ends. "
        "Fix: a storage with ndim=2 for data of shape [envs, time]; or an entry with one value, such as "
        "data['next', 'done'] = flags.all(-1, keepdim=True). A storage of whole trajectories is sampled with "
        "RandomSampler and RandomCropTensorDict."
    )


def no_slice(needed: int, lengths: Sequence[int], envs: Sequence[int], ids: Sequence[Any] | None) -> str:
    """Say why no trajectory is long enough: all are too short, or their steps are interleaved."""
    text = (
        f"No trajectory is long enough for a slice of {needed} steps. Stored are {len(lengths)}, of these lengths: "
        f"{_histogram(lengths)}."
    )
    runs = None if ids is None else Counter(zip(envs, ids, strict=True))
    if ids is not None and runs is not None and len(runs) < len(ids):
        order = ", ".join([*map(str, ids[:MANY]), *(["and so on"] if len(ids) > MANY else [])])
        return (
            f"{text} They are interleaved: {len(ids)} pieces have only {len(runs)} ids, in the order {order}. "
            "Steps of one trajectory must be stored one after another. Fix: a storage with ndim=2 for the data of "
            "several envs, of shape [envs, time], in place of data.reshape(-1)."
        )
    return (
        f"{text} They are too short. Fix: slices of at most {max(lengths, default=0)} steps, longer trajectories, or "
        "strict_length=False, which takes short ones whole."
    )


def none_for_a_batch(count: int, found: int) -> str:
    """Say that a batch without replacement cannot be filled."""
    return (
        f"A batch of {count} slices takes as many trajectories without replacement, and {found} are long enough. "
        f"Fix: at most {found} slices, drop_last=False, or SliceSampler, which draws with replacement."
    )


def no_pass(sampler: str, count: object, what: str) -> str:
    """Say that a loaded state does not have the order of an epoch."""
    return (
        f"The state of a {sampler} names each of {str(count)[:20]} {what} at most once, and this one "
        "does not. Nothing was changed. Fix: load what state_dict() of such a sampler returned."
    )


def _histogram(lengths: Sequence[int]) -> str:
    """How often each length comes; the longest and the shortest of many."""
    counts = sorted(Counter(lengths).items())
    shown = [f"{length} ({count}x)" if count > 1 else f"{length}" for length, count in counts]
    if len(shown) > MANY:
        shown = [*shown[: MANY // 2], "...", *shown[-MANY // 2 :]]
    return ", ".join(shown)
