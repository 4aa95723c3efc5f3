"""The record: calls through the explorer act on the buffer, and are counted and recorded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rlnb_widgets import BufferExplorer, RolloutPlayer, Timeline, link
from tensordict import TensorDict

from rlnb.data import (
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    PrioritizedSliceSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictReplayBuffer,
)
from rlnb.envs import CartPoleEnv
from tests.widgets.buffer_explorer.conftest import make_buffer


def last(explorer):
    return explorer.model.moments[-1]


def test_it_stands_in_for_the_buffer(buffer, steps):
    plain, watched = buffer(10), buffer(10)
    explorer = BufferExplorer(watched)
    data = steps([3, 4, 6])
    assert plain.add(data[0]) == explorer.add(data[0])
    assert torch.equal(plain.extend(data), explorer.extend(data))
    for _ in range(3):
        assert (plain.sample() == explorer.sample()).all()
    batch, info = explorer.sample(6, return_info=True)
    assert torch.equal(batch["index"], info["index"]) and len(explorer) == 10
    assert [m.what for m in explorer.model.moments] == ["look", "add", "extend", *["sample"] * 4]
    explorer.empty()
    assert len(watched) == 0 and last(explorer).what == "empty" and last(explorer).ring.length == 0


def test_draws_found_and_expected(buffer, steps):
    explorer = BufferExplorer(buffer(8))
    explorer.extend(steps([4]))
    drawn = torch.cat([explorer.sample()["index"] for _ in range(5)])
    moment = last(explorer)
    assert moment.draws[0].tolist() == torch.bincount(drawn, minlength=8).tolist()
    assert moment.expected[0].tolist() == [5.0] * 4 + [0.0] * 4
    assert (moment.batches, moment.drawn_count) == (5, 4)


def test_each_moment_keeps_the_draws_of_its_time(buffer, steps):
    explorer = BufferExplorer(buffer(8))
    explorer.extend(steps([4]))
    batch = explorer.sample()["index"]
    explorer.sample()
    first, second = explorer.model.moments[-2:]
    assert first.draws[0].tolist() == torch.bincount(batch, minlength=8).tolist()
    assert second.draws.sum() == 2 * first.draws.sum() and second.expected.sum() == 2 * first.expected.sum()


def test_expected_draws_follow_priorities():
    sampler = PrioritizedSampler(4, alpha=1.0, beta=1.0, eps=0.0)
    explorer = BufferExplorer(TensorDictReplayBuffer(storage=LazyTensorStorage(4), sampler=sampler, batch_size=10))
    index = explorer.extend(TensorDict({"a": torch.zeros(4)}, [4]))
    explorer.update_priority(index, torch.tensor([1.0, 2.0, 3.0, 4.0]))
    explorer.sample()
    moment = last(explorer)
    assert moment.expected[0].tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0])
    found = moment.priorities
    assert (found.sums.tolist(), found.total, found.least, found.most) == ([[1.0, 2.0, 3.0, 4.0]], 10.0, 1.0, 4.0)


def test_expected_draws_of_slices_are_what_many_draws_give(steps):
    torch.manual_seed(3)
    sampler = SliceSampler(slice_len=3, end_key=("next", "done"))
    explorer = BufferExplorer(make_buffer(20, sampler=sampler, batch_size=3000))
    explorer.extend(steps([2, 3, 7, 12]))
    for _ in range(20):
        explorer.sample()
    moment = last(explorer)
    found, due = moment.draws[0], moment.expected[0]
    assert due.sum() == pytest.approx(60_000)
    assert found[due == 0].sum() == 0
    # Steps of a slice come together, so that counts vary up to three times as much as single draws.
    assert (np.abs(found - due)[due > 0] < 5 * 3 * np.sqrt(due[due > 0])).all()


def test_unknown_chances_are_said_to_be_so(steps):
    sampler = PrioritizedSliceSampler(20, alpha=1.0, beta=1.0, slice_len=2, end_key=("next", "done"))
    explorer = BufferExplorer(make_buffer(20, sampler=sampler))
    explorer.extend(steps([5, 5]))
    explorer.sample()
    moment = last(explorer)
    assert moment.expected.size == 0 and moment.draws.sum() == 4 and moment.slices[:, 2].tolist() == [2, 2]


@pytest.mark.parametrize("sampler", [None, SamplerWithoutReplacement(), PrioritizedSampler(10, 0.7, 0.5)])
def test_samples_from_elsewhere_are_counted(sampler, steps):
    rows = make_buffer(10, sampler=sampler)
    rows.extend(steps([10]))
    explorer = BufferExplorer(rows)
    batch, info = rows.sample(return_info=True)
    for sample in (batch, info, info["index"]):
        explorer.count(sample)
    expected = 3 * torch.bincount(info["index"], minlength=10)
    assert last(explorer).draws[0].tolist() == expected.tolist()
    with pytest.raises(IndexError) as error:
        explorer.count(torch.tensor([3, 10]))
    assert str(error.value) == (
        "Index 10 is out of range: the buffer has 10 items. Fix: count samples of this buffer only."
    )
    with pytest.raises(KeyError, match='The sample has no entry "index"'):
        explorer.count(TensorDict({}, [3]))
    assert last(explorer).draws[0].tolist() == expected.tolist(), "nothing of them was counted"


def test_a_call_that_fails_is_not_noted(buffer, steps):
    explorer = BufferExplorer(buffer(10))
    with pytest.raises(RuntimeError, match="empty"):
        explorer.sample()
    explorer.extend(steps([3]))
    with pytest.raises(ValueError, match="other"):
        explorer.extend(TensorDict({"other": torch.zeros(2)}, [2]))
    assert [m.what for m in explorer.model.moments] == ["look", "extend"]


def test_what_others_wrote_is_seen_by_the_next_look(buffer, steps):
    rows = buffer(10)
    rows.extend(steps([3]))
    explorer = BufferExplorer(rows)
    rows.extend(steps([4]))
    rows.extend(steps([5]))
    explorer.snapshot("after two")
    moment = last(explorer)
    assert (moment.label, moment.wrote, moment.overwrote) == ("after two", (3, 9), 2)


def test_a_long_record_stays_small_and_spans_all(buffer, steps, monkeypatch):
    monkeypatch.setattr("rlnb_widgets.buffer_explorer.widget._SECONDS", float("inf"))  # what is sent is recorded, too
    explorer = BufferExplorer(buffer(10), moments=8)
    for _ in range(1000):
        explorer.extend(steps([3]))
    moments = explorer.model.moments
    assert len(moments) <= 8 and moments[0].what == "look"
    written = [m.ring.written for m in moments]
    assert written[-1] == 3000 and written == sorted(set(written)) and written[1] > 0
    gaps = np.diff(written[:-1])
    assert gaps.max() <= 2 * gaps.min()
    assert "the last of " in moments[-1].label and explorer.t == len(moments) - 1


def test_slices_of_a_sample(steps):
    sampler = SliceSampler(slice_len=4, end_key=("next", "done"))
    explorer = BufferExplorer(make_buffer(10, sampler=sampler, batch_size=8))
    explorer.extend(steps([6, 7], last_ends=False))
    index = explorer.sample()["index"].reshape(2, 4)
    assert last(explorer).slices.tolist() == [[0, int(row[0]), 4] for row in index]
    facts = last(explorer).slicing
    assert (facts.slice_len, facts.fitting, facts.total) == (4, 1, 2), "the first one lost its first three steps"


def test_a_player_shows_the_selected_cell():
    env = CartPoleEnv()
    env.set_seed(0)
    rows = make_buffer(40)
    rows.extend(env.rollout(30, break_when_any_done=False))
    explorer = BufferExplorer(rows)
    player = explorer.player(env)
    assert isinstance(player, RolloutPlayer) and player.length == 30
    explorer.selection = 17
    assert (player.t, explorer.t) == (17, 0)
    player.t = 5
    assert explorer.selection == 5 and explorer.t == 0, "the moment of the record is another matter"
    player.playing = True
    assert not explorer.playing


def test_columns_are_the_envs_of_a_linked_player(steps):
    rows = make_buffer(20, ndim=2)
    rows.extend(torch.stack([steps([6]), steps([2, 4])]))
    explorer = BufferExplorer(rows)
    player = RolloutPlayer(rows[:].transpose(0, 1))
    tie = link(explorer, player)
    explorer.selection, explorer.selected_env = 3, 1
    assert (player.t, player.selected_env) == (3, 1)
    tie.unlink()
    explorer.selection = 0
    assert player.t == 3
    explorer.selection = 99
    assert explorer.selection == 9, "the last row"


def test_two_explorers_and_a_timeline_share_moments(buffer, steps):
    rows = buffer(10)
    one, two = BufferExplorer(rows), BufferExplorer(rows, order="chronological")
    for explorer in (one, two):
        explorer.extend(steps([3]))
    timeline = Timeline(2)
    link(one, two, timeline)
    timeline.t = 0
    one.selection = 2
    assert (one.t, two.t, two.selection) == (0, 0, 2)


def test_buffers_without_tensordicts():
    explorer = BufferExplorer(ReplayBuffer(storage=LazyTensorStorage(6), batch_size=3))
    explorer.extend(torch.arange(8))
    explorer.sample()
    assert last(explorer).draws.sum() == 3
    assert [(key.key, key.reserved) for key in explorer.model.memory.keys] == [("the item", 48)]


def test_objects_have_no_player():
    explorer = BufferExplorer(ReplayBuffer(storage=ListStorage(4), batch_size=2))
    explorer.extend(["a", "b"])
    with pytest.raises(TypeError, match="TensorDict"):
        explorer.player()


def test_a_prioritized_slice_sampler_says_what_its_tree_is_for(steps):
    sampler = PrioritizedSliceSampler(20, alpha=1.0, beta=1.0, slice_len=2, end_key=("next", "done"))
    explorer = BufferExplorer(make_buffer(20, sampler=sampler))
    explorer.extend(steps([5, 5]))
    assert explorer.model.slices and "The item found is the first row of a slice." in explorer.explain()
