"""SliceSamplerWithoutReplacement: epochs with one slice of every trajectory."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import LazyTensorStorage, SliceSamplerWithoutReplacement, TensorDictReplayBuffer
from tests.data.replay_buffers.slice_worlds import buffer, episodes, evenly, pieces


@pytest.mark.parametrize("passes", [0, 1])
def test_between_two_passes_it_can_be_saved(passes: int, tmp_path: Path) -> None:
    rb = buffer(SliceSamplerWithoutReplacement(slice_len=2), episodes(4, 3), batch_size=4)
    for _ in range(passes):
        assert len(batches(rb)) == 1
    rb.dumps(tmp_path / "saved")
    other = buffer(SliceSamplerWithoutReplacement(slice_len=2), episodes(5, 2), batch_size=4)
    other.loads(tmp_path / "saved")
    assert sorted(batches(other)[0]) == [0, 1] and len(other) == 7


def batches(rb: Any) -> list[list[int]]:
    """One pass: which episodes are in each batch."""
    return [[int(rb[piece[0]]["episode"]) for piece in pieces(sample)] for sample in rb]


@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=12),
    slices=st.integers(1, 4),
    slice_len=st.integers(1, 5),
    drop_last=st.booleans(),
    shuffle=st.booleans(),
    strict=st.booleans(),
)
def test_a_pass_takes_one_slice_of_every_trajectory(
    lengths: list[int], slices: int, slice_len: int, drop_last: bool, shuffle: bool, strict: bool
) -> None:
    sampler = SliceSamplerWithoutReplacement(
        slice_len=slice_len, drop_last=drop_last, shuffle=shuffle, strict_length=strict
    )
    whole = [i for i, length in enumerate(lengths) if length >= slice_len or not strict]
    rb = buffer(sampler, episodes(*lengths), batch_size=slices * slice_len)
    if not whole or (drop_last and len(whole) < slices):
        with pytest.raises(RuntimeError):
            rb.sample()
        return
    for _ in range(2):
        found = batches(rb)
        flat = [episode for batch in found for episode in batch]
        expected = len(whole) // slices * slices if drop_last else len(whole)
        assert len(flat) == len(set(flat)) == expected and set(flat) <= set(whole)
        assert all(len(batch) == slices for batch in found[:-1])
        if not shuffle:
            assert flat == whole[:expected]


def test_where_a_slice_begins_and_the_order_are_random() -> None:
    rb = buffer(SliceSamplerWithoutReplacement(num_slices=3), episodes(4, 6, 5), batch_size=9)
    samples = [rb.sample() for _ in range(2000)]
    starts = Counter(piece[0] for sample in samples for piece in pieces(sample))
    assert evenly(
        starts, dict.fromkeys((0, 1), 1 / 6) | dict.fromkeys(range(4, 8), 1 / 12) | dict.fromkeys((10, 11, 12), 1 / 9)
    )
    orders = Counter(tuple(sample["episode"][::3].tolist()) for sample in samples)
    assert len(orders) == 6 and evenly(orders, dict.fromkeys(orders, 1 / 6))


def test_what_is_written_begins_a_new_pass() -> None:
    rb = buffer(SliceSamplerWithoutReplacement(slice_len=2, shuffle=False), episodes(2, 2, 2), size=20, batch_size=2)
    assert rb.sample()["episode"].tolist() == [0, 0]
    rb[0] = rb[0].set("step", torch.tensor(9))  # moves no end: the pass goes on
    assert rb.sample()["episode"].tolist() == [1, 1]
    rb.extend(episodes(2, first=3))
    assert [int(rb.sample()["episode"][0]) for _ in range(5)] == [0, 1, 2, 3, 0]
    rb.empty()
    rb.extend(episodes(3, first=7))
    assert rb.sample()["episode"].tolist() == [7, 7] and rb.sampler.ran_out


def test_a_pass_goes_on_after_loading() -> None:
    def made(seed: int) -> Any:
        sampler = SliceSamplerWithoutReplacement(slice_len=2)
        generator = torch.Generator().manual_seed(seed)
        storage = LazyTensorStorage(12)
        return TensorDictReplayBuffer(storage=storage, sampler=sampler, batch_size=4, generator=generator)

    rb = made(0)
    rb.extend(episodes(3, 2, 4, 2, 3))
    rb.extend(episodes(5, first=5))
    first = [int(i) for i in rb.sample()["episode"][::2]]
    other, sent = made(1), pickle.loads(pickle.dumps(rb))
    other.load_state_dict(rb.state_dict())
    rest = batches(rb)
    assert batches(other) == rest  # the generator was loaded, too
    assert sorted(first + [i for batch in rest for i in batch]) == [2, 3, 4, 5]  # two steps of 2 are left
    assert sorted(i for batch in batches(sent) for i in batch) == sorted(i for batch in rest for i in batch)


def test_an_invalid_state_is_rejected() -> None:
    rb = buffer(SliceSamplerWithoutReplacement(slice_len=2, shuffle=False), episodes(2, 2, 2), batch_size=2)
    rb.sample()
    for order in ([0, 0], [3], [-1]):
        with pytest.raises(ValueError) as caught:
            rb.sampler.load_state_dict({"order": torch.tensor(order), "count": 3, "ran_out": False})
        assert str(caught.value) == (
            "The state of a SliceSamplerWithoutReplacement must name each of 3 trajectories at most once, and this "
            "one does not. Nothing was changed. Fix: load what state_dict() of such a sampler returned."
        )
    assert rb.sample()["episode"].tolist() == [1, 1]


def test_too_few_trajectories_for_a_batch() -> None:
    rb = buffer(SliceSamplerWithoutReplacement(num_slices=4, drop_last=True), episodes(5, 5, 1), batch_size=12)
    with pytest.raises(RuntimeError) as caught:
        rb.sample()
    assert str(caught.value) == (
        "A batch of 4 slices takes as many trajectories without replacement, and 2 are long enough. Fix: at most 2 "
        "slices, drop_last=False, or SliceSampler, which draws with replacement."
    )


def test_its_text() -> None:
    assert repr(SliceSamplerWithoutReplacement(num_slices=2, truncated_key=None, shuffle=False)) == (
        "SliceSamplerWithoutReplacement(num_slices=2, strict_length=True, drop_last=False, shuffle=False)"
    )
