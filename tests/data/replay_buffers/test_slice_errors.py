"""Errors of slice samplers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import ListStorage, ReplayBuffer, SliceSampler
from tests.data.replay_buffers.slice_worlds import buffer, episodes, pieces


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {},
            TypeError,
            "A slice sampler needs either num_slices or slice_len, and got neither. Fix: num_slices=8 for eight slices "
            "a batch, of batch_size // 8 steps each; or slice_len=8 for batch_size // 8 slices of eight steps.",
        ),
        (
            {"num_slices": 2, "slice_len": 4},
            TypeError,
            "A slice sampler needs either num_slices or slice_len, and got both (num_slices=2, slice_len=4). Fix: "
            "num_slices=8 for eight slices a batch, of batch_size // 8 steps each; or slice_len=8 for batch_size // 8 "
            "slices of eight steps.",
        ),
        ({"num_slices": 0}, ValueError, "num_slices must be an integer of at least 1, and got 0."),
        ({"slice_len": True}, ValueError, "slice_len must be an integer of at least 1, and got True."),
        (
            {"num_slices": 2, "ends": torch.ones(3), "end_key": "done"},
            ValueError,
            "ends and end_key were given. ends or trajectories take the place of what is stored. Fix: give only one.",
        ),
        (
            {"num_slices": 2, "trajectories": torch.ones(3)},
            ValueError,
            "trajectories defines once and for all where trajectories end. Fix: cache_values=True, if nothing will be "
            "written.",
        ),
        (
            {"num_slices": 2, "span": -1},
            ValueError,
            "span must be a bool, an integer of at least 0 or a pair of these, and got -1. Fix: such as span=True, or "
            "span=(False, 3) for up to three steps after the end of a trajectory.",
        ),
        (
            {"num_slices": 2, "span": (1, 2, 3)},
            ValueError,
            "span must be a bool, an integer of at least 0 or a pair of these, and got (1, 2, 3). Fix: such as "
            "span=True, or span=(False, 3) for up to three steps after the end of a trajectory.",
        ),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        SliceSampler(**arguments)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("sampler", "batch_size", "text"),
    [
        (
            SliceSampler(num_slices=3),
            8,
            "The batch size must be a multiple of num_slices=3, and got 8. Fix: batch_size 6 or 9.",
        ),
        (
            SliceSampler(slice_len=5),
            4,
            "The batch size must be a multiple of slice_len=5, and got 4. Fix: batch_size 5.",
        ),
    ],
)
def test_batches_that_do_not_fall_into_slices(sampler: SliceSampler, batch_size: int, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        buffer(sampler, episodes(9)).sample(batch_size)
    assert str(caught.value) == text


def test_no_trajectory_is_long_enough() -> None:
    with pytest.raises(RuntimeError) as caught:
        buffer(SliceSampler(slice_len=9), episodes(5, 3, 3)).sample(9)
    assert str(caught.value) == (
        "No trajectory is long enough for a slice of 9 steps. Stored are 3, of these lengths: 3 (2x), 5. They are too "
        "short. Fix: slices of at most 5 steps, longer trajectories, or strict_length=False, which takes short ones "
        "whole."
    )
    with pytest.raises(RuntimeError, match=r"Stored are 20, of these lengths: 1, 2, 3, 4, \.\.\., 17, 18, 19, 20\."):
        buffer(SliceSampler(slice_len=21), episodes(*range(1, 21))).sample(21)


def test_steps_of_several_envs_are_interleaved() -> None:
    data = TensorDict({"ids": torch.tensor([4, 9]).repeat(10), "step": torch.arange(20)}, [20])
    with pytest.raises(RuntimeError) as caught:
        buffer(SliceSampler(slice_len=3, traj_key="ids"), data).sample(9)
    assert str(caught.value) == (
        "No trajectory is long enough for a slice of 3 steps. Stored are 20, of these lengths: 1 (20x). They are "
        "interleaved: 20 pieces have only 2 ids, in the order 4, 9, 4, 9, 4, 9, 4, 9, and so on. Steps of one "
        "trajectory must be stored one after another. Fix: a storage with ndim=2 for the data of several "
        "envs, of shape [envs, time], in place of data.reshape(-1)."
    )


@pytest.mark.parametrize(
    ("keys", "select", "text"),
    [
        (
            {"traj_key": "nope"},
            ["step", "episode"],
            "A slice sampler tells trajectories apart by 'nope', which the storage does not have. It has 'step', "
            "'episode'. Fix: SliceSampler(traj_key='episode').",
        ),
        (
            {"end_key": ("next", "ended")},
            ["step", ("next", "done")],
            "A slice sampler tells trajectories apart by ('next', 'ended'), which the storage does not have. It has "
            "'step', ('next', 'done'). Fix: SliceSampler(end_key=('next', 'done')).",
        ),
        (
            {},
            ["step"],
            "A slice sampler tells trajectories apart by 'episode' or ('next', 'done'), which the storage does not "
            "have. It has 'step'. Fix: store an id of the trajectory with each step, data[\"episode\"], or its end, "
            'data["next", "done"].',
        ),
    ],
)
def test_missing_entries(keys: dict[str, Any], select: list[Any], text: str) -> None:
    with pytest.raises(KeyError) as caught:
        buffer(SliceSampler(slice_len=2, **keys), episodes(5).select(*select)).sample(4)
    assert caught.value.args[0] == text


def test_entries_with_several_values_a_step() -> None:
    data = TensorDict({"next": {"done": torch.zeros(6, 3, 1, dtype=torch.bool)}}, [6])
    with pytest.raises(ValueError) as caught:
        buffer(SliceSampler(slice_len=2), data).sample(2)
    assert str(caught.value) == (
        "('next', 'done') has the shape [3, 1] in each item, and one value a step must say where a trajectory ends. "
        "Fix: a storage with ndim=2 for data of shape [envs, time]; or an entry with one value, such as "
        "data['next', 'done'] = flags.all(-1, keepdim=True). A storage of whole trajectories is sampled with "
        "RandomSampler and RandomCropTensorDict."
    )


def test_a_list_has_no_entries() -> None:
    rb = ReplayBuffer(storage=ListStorage(5), sampler=SliceSampler(slice_len=1), batch_size=1)
    rb.extend([1, 2, 3])
    with pytest.raises(TypeError) as caught:
        rb.sample()
    assert str(caught.value) == (
        "A slice sampler reads where trajectories end from the entries of a contiguous storage, and a ListStorage has "
        "none. Fix: LazyTensorStorage or LazyMemmapStorage."
    )


def test_given_trajectories_of_another_storage() -> None:
    sampler = SliceSampler(slice_len=2, ends=torch.zeros(5, dtype=torch.bool), cache_values=True)
    with pytest.raises(ValueError) as caught:
        buffer(sampler, episodes(4), size=5).sample(2)
    assert str(caught.value) == (
        "ends must have one value for each item of a full storage of one dimension, and got a tensor of shape [5] "
        "for a partly filled storage of shape [4]. Fix: end_key or traj_key, which read what is stored."
    )


def test_a_failed_sample_changes_nothing() -> None:
    rb = buffer(SliceSampler(slice_len=4), episodes(3), size=20)
    with pytest.raises(RuntimeError, match="too short"):
        rb.sample(4)
    rb.extend(episodes(6, first=1))
    assert {piece[0] for piece in pieces(rb.sample(400))} == {3, 4, 5}
