"""MultiStep compared with a slow reference, at the ends of episodes and of the batch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

import rlnb.data
from rlnb.data.postprocs import MultiStep, multi_step
from rlnb.data.ted.columns import read_columns
from tests.data.ted.generators import make_ted, row_lengths, same, teds


def slowly(row, stops, gamma, n_steps):
    """For each step of a row: the sum of its rewards, how many they are, and the step whose "next" it gets."""
    rewards = row["next", "reward"].flatten()
    found = []
    for start in range(len(stops)):
        total, step = rewards[start].clone(), start
        while not stops[step] and step + 1 < len(stops) and step + 1 - start < n_steps:
            step += 1
            total += rewards[step] * gamma ** (step - start)
        found.append((total, step - start + 1, step))
    return found


@given(teds(text=False), st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.integers(1, 9))
def test_it_is_the_slow_reference(data, gamma, n_steps):
    before = data.clone()
    ahead = MultiStep(gamma, n_steps)(data)
    same(data, before)
    rows = data if data.batch_dims == 2 else data[None]
    for number, row in enumerate(rows):
        stops = row["next", "done"].flatten().tolist()
        found = ahead[number] if data.batch_dims == 2 else ahead
        sums, counts, places = zip(*slowly(row, stops, gamma, n_steps), strict=True)
        torch.testing.assert_close(found["next", "reward"].flatten(), torch.stack(sums), rtol=0, atol=0, equal_nan=True)
        assert found["steps_to_next_obs"].tolist() == list(counts)
        torch.testing.assert_close(found["gamma"], torch.tensor([gamma**count for count in counts]))
        last = [place + 1 == len(stops) or stops[place] for place in range(len(stops))]
        assert found["nonterminal"].tolist() == [not flag for flag in last]
        torch.testing.assert_close(found["next", "original_reward"], row["next", "reward"], equal_nan=True)
        expected = row["next"][torch.tensor(places)].exclude("reward")
        same(found["next"].exclude("reward", "original_reward"), expected)
    same(ahead.exclude("next", "steps_to_next_obs", "gamma", "nonterminal"), data.exclude("next"))


def test_rewards_behind_the_end_do_not_matter():
    data = make_ted([[2, 2]])[0]
    data["next", "reward"] = torch.tensor([[1.0], [2.0], [math.inf], [math.nan]])
    assert MultiStep(0.5, 4)(data)["next", "reward"][:2].flatten().tolist() == [2.0, 2.0]


def test_it_stops_where_the_id_changes_and_where_the_mask_ends():
    data = make_ted([[4]])[0]
    data["collector", "traj_ids"] = torch.tensor([0, 0, 1, 1])
    assert MultiStep(0.9, 4)(data)["steps_to_next_obs"].tolist() == [2, 1, 2, 1]
    data = data.exclude("collector")
    data["mask"] = torch.tensor([True, True, True, False])
    ahead = MultiStep(0.9, 4)(data)
    assert ahead["steps_to_next_obs"].tolist() == [3, 2, 1, 1]
    assert ahead["nonterminal"].tolist() == [True, True, False, False]


def test_zero_steps_leave_the_data_as_it_is():
    data = make_ted([[4]])[0]
    assert MultiStep(0.9, 0)(data) is data


def test_no_steps_at_all():
    assert MultiStep(0.9, 2)(make_ted([[1]])[0][:0]).batch_size == torch.Size([0])


def test_other_rewards():
    data = make_ted([[1, 3]])[0]
    data["next", "agents"] = TensorDict({"reward": torch.arange(8).view(4, 2, 1)}, [4, 2])
    ahead = multi_step(data, 1.0, 2, reward_keys=["reward", ("agents", "reward")])
    assert ahead["next", "agents", "reward"].tolist() == [[[0], [1]], [[6], [8]], [[10], [12]], [[6], [7]]]
    assert ahead["next", "agents", "original_reward"].tolist() == data["next", "agents", "reward"].tolist()
    assert ahead["next", "agents"].batch_size == torch.Size([4, 2])


def test_names_and_repr():
    assert rlnb.data.MultiStep is MultiStep
    assert repr(MultiStep(0.9, 3)) == "MultiStep(gamma=0.9, n_steps=3)"
    assert MultiStep(0.9, 3)(make_ted([[4]])).names == [None, "time"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1.5, 1), "gamma must be a discount from 0 to 1, got 1.5."),
        ((math.nan, 1), "gamma must be a discount from 0 to 1, got nan."),
        ((0.9, -1), "n_steps must be an integer of at least 0, got -1."),
        ((0.9, 1.5), "n_steps must be an integer of at least 0, got 1.5."),
    ],
)
def test_bad_arguments_are_refused(arguments, text):
    with pytest.raises(ValueError) as caught:
        MultiStep(*arguments)
    assert str(caught.value) == text


def test_bad_data_is_refused():
    data = make_ted([[4]])[0]
    with pytest.raises(KeyError) as caught:
        MultiStep(0.9, 2)(data.exclude(("next", "reward"), "collector", "hidden", "action"))
    assert caught.value.args[0].startswith(
        "The data has no entry ('next', 'reward'), the reward of a step. Its entries are: 'done', "
    )
    once = MultiStep(0.9, 2)(data)
    with pytest.raises(ValueError) as twice:
        MultiStep(0.9, 2)(once)
    assert str(twice.value) == (
        "The data has an entry 'steps_to_next_obs', so MultiStep was applied before, and its rewards are sums "
        "already. Fix: raise n_steps of the first one, or start from the data as it was collected."
    )


@given(st.data(), st.integers(1, 5))
def test_non_tensor_data_moves_too(draws, steps):
    data = make_ted(draws.draw(row_lengths(2, steps)), text=True)
    ahead = MultiStep(0.9, 3)(data)
    words, places = read_columns(data)[0]["next", "word"], ahead["steps_to_next_obs"].flatten().tolist()
    assert read_columns(ahead)[0]["next", "word"] == [words[t + count - 1] for t, count in enumerate(places)]
