"""to_gym_episodes and from_gym_episodes: TED data, and what a loop over a Gymnasium env returns."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import check_ted, from_gym_episodes, to_gym_episodes
from rlnb.data.ted import GymEpisode
from rlnb.envs import GymEnv
from tests.data.ted.generators import make_ted, row_lengths, same


@given(st.data(), st.integers(1, 8), st.booleans(), st.booleans(), st.booleans())
def test_there_and_back(draws, steps, open_last, nested, text):
    lengths = draws.draw(row_lengths(1, steps))
    data = make_ted(lengths, open_last, draws.draw(st.integers(0, 99)), nested=False, text=text)[0]
    data = data.exclude("collector", "hidden", "env", ("next", "env"))
    if nested:
        for place in (data, data["next"]):
            place["part"] = TensorDict({"observation": place.pop("observation")}, [steps])
    episodes = to_gym_episodes(data)
    assert [len(episode.steps) for episode in episodes] == lengths[0]
    same(from_gym_episodes(episodes, info_keys=["only_next"]), data)


@given(st.data(), st.integers(1, 8))
def test_entries_in_the_infos(draws, steps):
    data = make_ted(draws.draw(row_lengths(1, steps)), adjacent=True)[0].exclude("collector", "hidden")
    data["clock"] = data["observation"].clone()
    data["next", "clock"] = data["next", "observation"].clone()
    episodes = to_gym_episodes(data, info_keys=["clock"])
    assert set(episodes[0].reset[1]) == {"clock"}
    assert set(episodes[0].steps[0][4]) == {"clock", "only_next"}
    same(from_gym_episodes(episodes, info_keys=["clock", "only_next"]), data)


def play(env, seed):
    reset, actions, steps = env.reset(seed=seed), [], []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        actions.append(env.action_space.sample())
        steps.append(env.step(actions[-1]))
    return reset, actions, steps


def test_a_loop_of_gymnasium_becomes_well_formed_data():
    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(0)
    episodes = [play(env, seed) for seed in range(3)]
    data = from_gym_episodes(episodes)
    check_ted(data).raise_if_broken()
    assert data.names == ["time"] and data.batch_size == torch.Size([sum(len(steps) for *_, steps in episodes)])
    assert data["next", "reward"].dtype == torch.float32 and data["action"].dtype == torch.int64
    reset, actions, steps = episodes[1]
    start = len(episodes[0][2])
    assert np.array_equal(data["observation"][start], reset[0])
    assert np.array_equal(data["next", "observation"][start], steps[0][0])
    back = to_gym_episodes(data)[1]
    assert np.array_equal(back.reset[0], reset[0]) and [int(action) for action in back.actions] == actions
    for found, step in zip(back.steps, steps, strict=True):
        assert np.array_equal(found[0], step[0]) and found[1:4] == step[1:4]


def test_rollouts_become_episodes():
    data = GymEnv("CartPole-v1").rollout(50, break_when_any_done=False)
    episodes = to_gym_episodes(data)
    assert sum(len(episode.steps) for episode in episodes) == 50
    assert all(isinstance(episode, GymEpisode) for episode in episodes)
    assert [episode.steps[-1][2] for episode in episodes[:-1]] == [True] * (len(episodes) - 1)
    same(from_gym_episodes(episodes), data)


def test_rows_of_a_batch_follow_one_another():
    data = make_ted([[2, 3], [5]], open_last=True).exclude("collector", "hidden")
    assert [len(episode.steps) for episode in to_gym_episodes(data)] == [2, 3, 5]


# What is refused --------------------------------------------------------------------------------------------------

INFO: dict = {}


def step(observation=0.0, terminated=False, truncated=False):
    return np.float32([observation]), 1.0, terminated, truncated, INFO


def episode(steps, actions=None):
    return (np.float32([0.0]), INFO), [0] * len(steps) if actions is None else actions, steps


WIDE = (np.zeros(2, np.float32), 1.0, False, False, INFO)
NAMED = ({"a": np.float32([1.0])}, 1.0, False, False, INFO)
TUPLE = ((1, 2), 1.0, False, False, INFO)

MALFORMED = [
    ([], "from_gym_episodes needs at least one episode, got none."),
    (
        [3],
        "Episode 0 must have the form ((observation, info), actions, steps): the return value of env.reset(), a "
        "list of actions, and a list of the return values of env.step(action).",
    ),
    (
        [episode([step()], [0, 1])],
        "Episode 0 must have one step for each action, got 2 actions and 1 steps. Fix: append the action and the "
        "return value of env.step in the same iteration of the loop.",
    ),
    ([episode([])], "Episode 0 has no steps. Fix: leave it out."),
    (
        [episode([step()[:4]])],
        "Step 0 of episode 0 must be (observation, reward, terminated, truncated, info), got 4 elements. Fix: "
        "append the return value of env.step.",
    ),
    (
        [episode([step(terminated=True), step()])],
        "Episode 0 continues after step 0, which is terminated or truncated. Fix: start a new episode with "
        "env.reset() there.",
    ),
    (
        [episode([step()]), episode([step()])],
        "Episode 0 stops without terminated or truncated, but episode 1 follows it, so nothing would separate them "
        "in TED data. Fix: set truncated to True in its last step.",
    ),
    (
        [episode([step(), WIDE])],
        "All values of 'observation' must have one shape and dtype, got shape [2] and dtype float32 at step 1 of "
        "episode 0 and shape [1] and dtype float32 before. Fix: pad or convert them.",
    ),
    (
        [episode([step(), NAMED])],
        "'observation' must have a value at every step, got 1 values for 2 steps. Fix: leave it out, or fill the gaps.",
    ),
    (
        [episode([TUPLE])],
        "The observation at step 0 of episode 0 is a tuple, but the entries of TED data have names. Fix: convert it "
        "to a dictionary.",
    ),
]


@pytest.mark.parametrize(("episodes", "text"), MALFORMED)
def test_malformed_episodes_are_refused(episodes, text):
    with pytest.raises(ValueError) as caught:
        from_gym_episodes(episodes)
    assert str(caught.value) == text


def test_infos_that_come_and_go_are_refused():
    with pytest.raises(ValueError) as caught:
        from_gym_episodes([episode([step()])], info_keys=["lives"])
    assert str(caught.value) == (
        "info_keys names 'lives', which the info at step 0 of episode 0 lacks. Its entries are: none. Fix: leave it "
        "out of info_keys."
    )


def test_data_that_is_not_well_formed_or_has_no_place_is_refused():
    data = make_ted([[4]]).exclude("collector")[0]
    with pytest.raises(ValueError) as caught:
        to_gym_episodes(data)
    assert str(caught.value) == (
        "The entry 'hidden' does not fit into the tuples of Gymnasium, which hold an observation, an action, a "
        "reward, terminated, truncated and an info. Fix: leave it out with data.exclude('hidden')."
    )
    with pytest.raises(ValueError, match="This is not well-formed TED data"):
        to_gym_episodes(data.exclude("next"))
    with pytest.raises(ValueError, match="info_keys names 'nothing', which is not under 'next'"):
        to_gym_episodes(data.exclude("hidden"), info_keys=["nothing"])
