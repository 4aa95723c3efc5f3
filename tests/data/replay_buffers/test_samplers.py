"""Samplers without priorities: uniform draws, and epochs in which every item is drawn once."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import LazyTensorStorage, RandomSampler, ReplayBuffer, Sampler, SamplerWithoutReplacement
from rlnb.data.replay_buffers.samplers import Info
from rlnb.data.replay_buffers.storages import Storage


def chi_square_bound(degrees: int) -> float:
    """A bound that the statistic exceeds by chance once in some hundred thousand times."""
    return degrees + 6 * (2 * degrees) ** 0.5


def test_every_element_is_drawn_as_often_as_any_other() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(100), generator=torch.Generator().manual_seed(0))
    rb.extend(torch.arange(40))
    counts = torch.bincount(rb.sample(40_000), minlength=100).double()
    assert (counts[40:] == 0).all()
    assert ((counts[:40] - 1000) ** 2 / 1000).sum() < chi_square_bound(39)


@given(
    length=st.integers(1, 30),
    batch=st.integers(1, 12),
    drop_last=st.booleans(),
    shuffle=st.booleans(),
    passes=st.integers(1, 3),
)
def test_a_pass_gives_every_element_once(length: int, batch: int, drop_last: bool, shuffle: bool, passes: int) -> None:
    if batch > length:
        return
    sampler = SamplerWithoutReplacement(drop_last=drop_last, shuffle=shuffle)
    rb = ReplayBuffer(storage=LazyTensorStorage(30), sampler=sampler, batch_size=batch)
    rb.extend(torch.arange(length))
    for _ in range(passes):
        found = [drawn.tolist() for drawn in rb]
        flat = [number for drawn in found for number in drawn]
        whole = length // batch * batch if drop_last else length
        assert len(flat) == len(set(flat)) == whole
        assert all(len(drawn) == batch for drawn in found[:-1])
        if not shuffle:
            assert flat == list(range(whole))


def test_passes_are_shuffled_anew() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(50), sampler=SamplerWithoutReplacement(), batch_size=50)
    rb.extend(torch.arange(50))
    assert len({tuple(rb.sample().tolist()) for _ in range(4)}) == 4


@given(data=st.data())
def test_elements_that_come_during_a_pass_are_part_of_it(data: st.DataObject) -> None:
    sampler = SamplerWithoutReplacement(shuffle=data.draw(st.booleans()))
    rb = ReplayBuffer(storage=LazyTensorStorage(40), sampler=sampler)
    length = data.draw(st.integers(1, 10))
    rb.extend(torch.arange(length))
    drawn: list[int] = []
    while True:
        drawn += rb.sample(data.draw(st.integers(1, min(3, length)))).tolist()
        if sampler.ran_out:
            break
        more = data.draw(st.integers(0, 3)) if length < 30 else 0
        if more:
            rb.extend(torch.arange(length, length + more))
            length += more
    assert sorted(drawn) == list(range(length))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_batch_larger_than_the_buffer_has_every_item_once(shuffle: bool) -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=SamplerWithoutReplacement(shuffle=shuffle))
    rb.extend(torch.arange(8))
    for _ in range(2):
        with pytest.warns(UserWarning, match="A batch of 9 was requested, and the buffer holds 8 items"):
            assert sorted(rb.sample(9).tolist()) == list(range(8)) and rb.sampler.ran_out
    assert len(rb.sample(5)) == 5 and not rb.sampler.ran_out
    assert len(rb.sample(8)) == 3 and rb.sampler.ran_out


def test_a_batch_larger_than_the_buffer_is_refused_where_small_batches_are_dropped() -> None:
    rb = ReplayBuffer(storage=LazyTensorStorage(10), sampler=SamplerWithoutReplacement(drop_last=True))
    rb.extend(torch.arange(8))
    with pytest.raises(ValueError) as caught:
        rb.sample(9)
    assert str(caught.value) == (
        "Cannot draw 9 of 8 items without replacement, and drop_last=True leaves out smaller batches. "
        "Fix: drop_last=False, a batch size of at most 8, or RandomSampler(), which draws with replacement."
    )
    assert not rb.can_sample(9) and rb.can_sample(8) and len(rb.sample(8)) == 8


def test_a_pass_goes_on_after_loading() -> None:
    def buffer(seed: int) -> ReplayBuffer:
        generator = torch.Generator().manual_seed(seed)
        storage = LazyTensorStorage(20)
        return ReplayBuffer(storage=storage, sampler=SamplerWithoutReplacement(), batch_size=3, generator=generator)

    rb, other = buffer(0), buffer(1)
    rb.extend(torch.arange(10))
    first = [number for _ in range(2) for number in rb.sample().tolist()]
    other.load_state_dict(rb.state_dict())
    rest = [number for batch in other for number in batch.tolist()]
    assert sorted(first + rest) == list(range(10))
    assert rest == [number for batch in rb for number in batch.tolist()]  # the generator was loaded, too


def test_a_sampler_of_ones_own() -> None:
    class Newest(Sampler):
        def sample(self, storage: Storage, batch_size: int) -> tuple[torch.Tensor, Info]:
            ring = storage.ring
            positions = (ring.cursor - 1 - torch.arange(batch_size)) % ring.length
            return storage.index(positions), {"age": torch.arange(batch_size)}

    rb = ReplayBuffer(storage=LazyTensorStorage(5), sampler=Newest(), batch_size=3)
    rb.extend(torch.arange(7))
    batch, info = rb.sample(return_info=True)
    assert batch.tolist() == [6, 5, 4] and info["age"].tolist() == [0, 1, 2]
    rb.update_priority(info["index"], 1.0)  # nothing happens


@pytest.mark.parametrize("sampler", [RandomSampler(), SamplerWithoutReplacement(True, False)])
def test_samplers_have_a_text_and_can_be_sent(sampler: Sampler) -> None:
    assert repr(pickle.loads(pickle.dumps(sampler))) == repr(sampler)
    assert repr(SamplerWithoutReplacement(True, False)) == "SamplerWithoutReplacement(drop_last=True, shuffle=False)"
