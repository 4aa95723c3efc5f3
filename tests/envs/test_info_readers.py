"""Info readers and repeated actions."""

from __future__ import annotations

import re

import gymnasium
import numpy as np
import pytest
import torch

from rlnb.data import Composite, Unbounded
from rlnb.envs import GymEnv, GymWrapper, check_env_specs, default_info_dict_reader


class Talkative:
    """Adds an info dictionary to each step, and an empty one to each reset."""

    def __init__(self, make, infos, at_reset=None):
        self.make, self.infos, self.at_reset = make, infos, at_reset

    def __call__(self, space):
        env = self.make(space)
        plain_reset, plain_step = env.reset, env.step
        env.reset = lambda **kwargs: (plain_reset(**kwargs)[0], dict(self.at_reset or {}))
        env.step = lambda action: (*plain_step(action)[:4], {k: v(env.t) for k, v in self.infos.items()})
        return env


INFOS = {
    "distance": lambda t: 0.5 * t,
    "count": lambda t: t,
    "flag": lambda t: t > 1,
    "vector": lambda t: np.full(3, t, np.float32),
    "note": lambda t: "left out",
    "_private": lambda t: t,
}


@pytest.fixture
def env(scripted, box):
    return GymWrapper(Talkative(scripted, INFOS)(box))


def test_all_numbers_are_read_under_next(env):
    assert env.set_info_dict_reader() is env
    data = env.rollout(4)
    assert {"distance", "count", "flag", "vector"} <= set(data["next"].keys()) and "note" not in data["next"]
    assert data["next", "distance"].tolist() == [0.5, 1.0, 1.5, 2.0]
    assert data["next", "distance"].dtype == torch.float64 and data["next", "count"].dtype == torch.int64
    assert data["next", "vector"].shape == (4, 3) and data["next", "flag"].tolist() == [False, True, True, True]
    assert data["distance"].tolist() == [0.0, 0.5, 1.0, 1.5]  # zeros where a reset gives none


@pytest.mark.parametrize("how", ["set_info_dict_reader", "auto_register_info_dict"])
def test_infos_that_a_reset_lacks_are_zeros(how, scripted, box):
    env = getattr(GymWrapper(Talkative(scripted, INFOS)(box)), how)()
    check_env_specs(env)
    assert env.rollout(4)["distance"].tolist() == [0.0, 0.5, 1.0, 1.5]


@pytest.mark.parametrize("shape", [(), (2,)])
def test_an_info_of_the_last_step_only_is_zero_elsewhere(shape):  # as RecordEpisodeStatistics and its kin give them
    class Episode(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)

        def __init__(self, length):
            self.length = length

        def reset(self, *, seed=None, options=None):
            self.t = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.t += 1
            info = {"length": float(self.t)} if self.t == self.length else {}
            return np.zeros(1, np.float32), 0.0, self.t == self.length, False, info

    spec = Unbounded(shape=(), dtype=torch.float64)
    if shape:
        modes = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}
        backend = gymnasium.vector.SyncVectorEnv([lambda: Episode(2), lambda: Episode(3)], **modes)
    else:
        backend = Episode(3)
    env = GymWrapper(backend).set_info_dict_reader(default_info_dict_reader(["length"], spec))
    found = env.rollout(4, break_when_any_done=False)["next", "length"]
    assert found.tolist() == ([[0, 2, 0, 2], [0, 0, 3, 0]] if shape else [0, 0, 3, 0])


def test_named_entries_with_their_specs(scripted, box):
    env = GymWrapper(Talkative(scripted, INFOS)(box))
    reader = default_info_dict_reader(["count"], Unbounded(shape=(), dtype=torch.float32))
    env.set_info_dict_reader(reader)
    assert env.info_dict_reader == [reader]
    assert env.rollout(2)["next", "count"].tolist() == [1.0, 2.0]
    assert env.observation_spec["count"].dtype == torch.float32


@pytest.mark.parametrize("spec", [Composite(count=Unbounded(shape=())), {"count": Unbounded(shape=())}])
def test_specs_as_a_mapping_name_the_keys(spec):
    assert default_info_dict_reader(spec=spec).keys == ["count"]


def test_infos_of_a_reset_come_to_the_root(scripted, box):
    backend = Talkative(scripted, {"count": INFOS["count"]}, at_reset={"count": 0})(box)
    env = GymWrapper(backend).set_info_dict_reader()
    check_env_specs(env)
    assert env.rollout(3)["count"].tolist() == [0, 1, 2]


def test_a_spec_without_keys():
    text = (
        "default_info_dict_reader got a spec without the keys that it belongs to. "
        "Fix: default_info_dict_reader(keys=['x_position'], spec=...), or a Composite."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        default_info_dict_reader(spec=Unbounded(shape=()))


def test_an_entry_that_is_not_there(env):
    text = "The info dictionary has no 'x'; it has ['_private', 'count', 'distance', 'flag', 'note', 'vector']."
    with pytest.raises(KeyError, match=re.escape(text)):
        env.set_info_dict_reader(default_info_dict_reader(["x"]))
    assert env.info_dict_reader == [] and env.observation_keys == ["observation"]


def test_no_numbers_to_read():
    env = GymEnv("CartPole-v1")
    text = f"The info dictionary of {env!r} has no numbers to read."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        env.set_info_dict_reader()
    assert env.observation_keys == ["observation"]


@pytest.mark.parametrize("policy", [None, lambda td: td.set("action", torch.tensor(1))])
def test_frame_skip_repeats_the_action_and_adds_the_rewards(scripted, box, policy):
    backend = scripted(box, length=7)
    env = GymWrapper(backend, frame_skip=3, categorical_action_encoding=True)
    data = env.rollout(9, policy)
    assert data["next", "reward"].flatten().tolist() == [3, 3, 1]
    assert len(backend.actions) == 7
    assert [int(a) for a in backend.actions] == [int(a) for a in data["action"].repeat_interleave(3)[:7]]


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_frame_skip_must_be_positive(value):
    with pytest.raises(ValueError, match=rf"^frame_skip must be a positive integer and is {re.escape(repr(value))}\.$"):
        GymEnv("CartPole-v1", frame_skip=value)
