"""UnityMLAgentsWrapper, the real one, over a fake of the interface of ML-Agents, whose envs are programs of Unity.

The fake follows ``BaseEnv``, ``BehaviorSpec``, ``ActionSpec``, ``DecisionSteps`` and ``TerminalSteps`` of mlagents-envs
0.28, https://unity-technologies.github.io/ml-agents/Python-LLAPI/.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from rlnb.envs import (
    MarlGroupMapType,
    SerialEnv,
    TransformedEnv,
    UnityMLAgentsEnv,
    UnityMLAgentsWrapper,
    check_env_specs,
)
from rlnb.envs.libs.libraries import is_installed
from rlnb.envs.transforms import RewardSum


class ActionSpec:
    def __init__(self, continuous_size, discrete_branches):
        self.continuous_size, self.discrete_branches = continuous_size, discrete_branches

    def empty_action(self, n_agents):
        return SimpleNamespace(
            continuous=np.zeros((n_agents, self.continuous_size), np.float32),
            discrete=np.zeros((n_agents, len(self.discrete_branches)), np.int32),
        )


class Steps(dict):
    """Decision or terminal steps: by agent id, in the order of ``agent_id``."""

    @property
    def agent_id(self):
        return np.array(list(self), np.int32)

    @property
    def group_id(self):
        return np.array([step.group_id for step in self.values()], np.int32)


class UnityEnvironment:
    """Two "Ball" agents (continuous) end after 3 and 5 steps; a "Bot" (two branches) is cut after 4.

    The Bot requests a decision at even times only. Each agent starts its next episode in the step that ends one, with a
    new id. The observation of an agent is the time in its episode and its id.
    """

    LIVES = (3, 5, 4)

    def __init__(self, file_name=None, spawns=False, **kwargs):
        self.file_name, self.kwargs, self.spawns, self.closed = file_name, kwargs, spawns, False
        sensor = SimpleNamespace(shape=(2,), name="VectorSensor_size2")
        self.behavior_specs = {
            "Ball?team=0": SimpleNamespace(observation_specs=[sensor], action_spec=ActionSpec(2, ())),
            "Bot?team=1": SimpleNamespace(
                observation_specs=[sensor, SimpleNamespace(shape=(1, 2, 2), name="")], action_spec=ActionSpec(0, (2, 3))
            ),
        }
        self.next_id = 0

    def _spawn(self):
        self.next_id += 7
        return {"id": self.next_id, "t": 0}

    def reset(self):
        self.time = 0
        self.slots = [self._spawn() for _ in range(3)]
        self.ended, self.actions = [], {}

    def _behavior(self, i):
        return "Ball?team=0" if i < 2 else "Bot?team=1"

    def _needs(self, i):
        return i < 2 or self.slots[i]["t"] % 2 == 0

    def _step(self, i, agent, **kwargs):
        mask = [np.array([False, True]), np.array([False, False, agent["t"] % 4 == 0])] if i == 2 else None
        obs = [np.array([agent["t"], agent["id"]], np.float32)]
        if i == 2:
            obs.append(np.full((1, 2, 2), agent["t"], np.float32))
        return SimpleNamespace(
            obs=obs, reward=np.float32(agent["t"]), group_reward=np.float32(0.5), group_id=int(i == 2),
            action_mask=mask, agent_id=agent["id"], **kwargs,
        )  # fmt: skip

    def get_steps(self, behavior_name):
        decisions, terminals = Steps(), Steps()
        for i, agent in enumerate(self.slots):
            if self._behavior(i) == behavior_name and self._needs(i):
                decisions[agent["id"]] = self._step(i, agent)
        for i, agent in self.ended:
            if self._behavior(i) == behavior_name:
                terminals[agent["id"]] = self._step(i, agent, interrupted=i == 2)
                del terminals[agent["id"]].action_mask
        if self.spawns and self.time == 2 and behavior_name.startswith("Ball"):
            decisions[999] = self._step(0, {"id": 999, "t": 0})
        return decisions, terminals

    def set_action_for_agent(self, behavior_name, agent_id, action):
        found = [i for i, agent in enumerate(self.slots) if agent["id"] == agent_id]
        assert found and self._needs(found[0]) and self._behavior(found[0]) == behavior_name
        assert action.continuous.shape[0] == action.discrete.shape[0] == 1
        if found[0] == 2:
            assert action.discrete[0, 0] == 0, "not available"
        self.actions[found[0]] = action

    def step(self):
        assert set(self.actions) == {i for i in range(3) if self._needs(i)}
        self.given, self.actions, self.ended = self.actions, {}, []
        self.time += 1
        for i, agent in enumerate(self.slots):
            agent["t"] += 1
            if agent["t"] == self.LIVES[i]:
                self.ended.append((i, agent))
                self.slots[i] = self._spawn()

    def close(self):
        self.closed = True


def test_specs_and_groups():
    env = UnityMLAgentsWrapper(UnityEnvironment())
    check_env_specs(env)
    assert env.group_map == {"group_0": ["agent_0", "agent_1"], "group_1": ["agent_2"]}
    assert env.behaviors == {"agent_0": "Ball?team=0", "agent_1": "Ball?team=0", "agent_2": "Bot?team=1"}
    data = env.rollout(2)
    ends = {"done", "terminated", "truncated"}
    assert set(data["group_0", "agent_1"].keys()) == {"VectorSensor_size2", "continuous_action", *ends}
    assert set(data["next", "group_1", "agent_2"].keys()) == {
        "VectorSensor_size2", "observation_1", "action_mask", "reward", "group_reward", *ends
    }  # fmt: skip
    assert data["group_0", "agent_1", "continuous_action"].shape == (2, 2)
    assert data["group_1", "agent_2", "discrete_action"].shape == (2, 5)
    assert data["group_1", "agent_2", "action_mask"][0].tolist() == [True, False, True, True, False]
    categorical = UnityMLAgentsWrapper(UnityEnvironment(), categorical_actions=True)
    assert categorical.rollout(2)["group_1", "agent_2", "discrete_action"].shape == (2, 2)
    other = UnityMLAgentsWrapper(UnityEnvironment(), group_map=MarlGroupMapType.ALL_IN_ONE_GROUP)
    assert other.rollout(1)["agents", "agent_2", "discrete_action"].shape == (1, 5)
    with pytest.raises(ValueError, match="The agent 'agent_2' is in no group"):
        UnityMLAgentsWrapper(UnityEnvironment(), group_map={"balls": ["agent_0", "agent_1"]})


def test_each_agent_ends_and_begins_its_episodes_alone():
    env = UnityMLAgentsWrapper(UnityEnvironment())
    data = env.rollout(12, break_when_any_done=False)
    for (path, life), cut in zip(
        ((("group_0", "agent_0"), 3), (("group_0", "agent_1"), 5), (("group_1", "agent_2"), 4)),
        (False, False, True),
        strict=True,
    ):
        now, after = data.get(path), data["next"].get(path)
        ends = [t % life == 0 for t in range(1, 13)]
        assert after["done"].flatten().tolist() == ends
        assert after["truncated" if cut else "terminated"].flatten().tolist() == ends
        assert not after["terminated" if cut else "truncated"].any()
        seen = after["VectorSensor_size2"][:, 0]
        step = 2 if cut else 1  # at the steps between, the bot keeps what it saw last
        assert seen.tolist() == [(t % life // step * step) or (life if t % life == 0 else 0) for t in range(1, 13)]
        assert now["VectorSensor_size2"][:, 0].tolist() == [t % life // step * step for t in range(12)]
    rewards = data["next", "group_1", "agent_2", "reward"].flatten()
    assert rewards.tolist() == [0, 2, 0, 4] * 3
    assert data["next", "group_0", "agent_0", "group_reward"].unique().tolist() == [0.5]


def test_a_rollout_stops_at_the_first_end():
    assert len(UnityMLAgentsWrapper(UnityEnvironment()).rollout(20)) == 3


def test_actions_reach_the_agents_that_request_a_decision():
    env = UnityMLAgentsWrapper(UnityEnvironment(), categorical_actions=True)
    data = env.rand_action(env.reset())
    data["group_0", "agent_0", "continuous_action"] = torch.tensor([0.25, -0.5])
    data["group_1", "agent_2", "discrete_action"] = torch.tensor([0, 1])
    data = env.step(data)["next"]
    given = env._env.given
    assert given[0].continuous.tolist() == [[0.25, -0.5]] and given[2].discrete.tolist() == [[0, 1]]
    env.step(env.rand_action(data))
    assert set(env._env.given) == {0, 1}  # the fake fails if the bot, which requests none, gets an action


def test_a_full_reset_begins_all_episodes():
    env = UnityMLAgentsWrapper(UnityEnvironment())
    env.rollout(2)
    assert all(env.reset()[group, name, "VectorSensor_size2"][0] == 0 for group in env.group_map
               for name in env.group_map[group])  # fmt: skip


def test_in_a_batch_and_under_a_transform():
    with SerialEnv(2, lambda: UnityMLAgentsWrapper(UnityEnvironment())) as batch:
        data = batch.rollout(8, break_when_any_done=False)["next", "group_0", "agent_0"]
        assert data["done"].squeeze(-1).tolist() == [[t % 3 == 0 for t in range(1, 9)]] * 2
    keys = ["group_0", "agent_0"]
    env = TransformedEnv(
        UnityMLAgentsWrapper(UnityEnvironment()),
        RewardSum(in_keys=[(*keys, "reward")], out_keys=[(*keys, "sum")], reset_keys=[(*keys, "_reset")]),
    )
    sums = env.rollout(6, break_when_any_done=False)["next", "group_0", "agent_0", "sum"].flatten()
    assert sums.tolist() == [1, 3, 6] * 2


def test_an_agent_that_appears():
    with pytest.raises(RuntimeError) as caught:
        UnityMLAgentsWrapper(UnityEnvironment(spawns=True)).rollout(5)
    assert str(caught.value) == (
        "An agent of the behavior 'Ball?team=0' appeared, and all of its agents are there already: "
        "['agent_0', 'agent_1']. The specs need to know all agents. "
        "Fix: let the Unity scene spawn all agents at its reset."
    )


def test_no_agents():
    class Empty(UnityEnvironment):
        def get_steps(self, behavior_name):
            return Steps(), Steps()

    with pytest.raises(ValueError) as caught:
        UnityMLAgentsWrapper(Empty())
    assert str(caught.value) == (
        "No agent requests a decision after the reset, so there is nothing to control. "
        "Fix: check in Unity that the agents have a DecisionRequester."
    )


def test_seeds_frames_and_close():
    env = UnityMLAgentsWrapper(UnityEnvironment())
    with pytest.raises(RuntimeError) as caught:
        env.set_seed(0)
    assert str(caught.value) == (
        "A UnityEnvironment can only be seeded when it is made. Fix: UnityMLAgentsEnv(..., seed=0)."
    )
    with pytest.raises(RuntimeError) as caught:
        env.render()
    assert str(caught.value) == (
        "Unity draws its own window and returns no frames. "
        "Fix: give the agents a CameraSensor, whose images are observations."
    )
    env.close()
    assert env._env.closed


def test_what_is_not_an_env():
    with pytest.raises(TypeError) as caught:
        UnityMLAgentsWrapper(object())
    assert str(caught.value) == (
        "UnityMLAgentsWrapper wraps a UnityEnvironment and got a object. "
        'Fix: UnityMLAgentsEnv(registered_name="3DBall"), or UnityEnvironment(file_name).'
    )


class TestByName:
    @pytest.fixture(autouse=True)
    def library(self, monkeypatch):
        entry = SimpleNamespace(make=lambda **kwargs: UnityEnvironment("registered", **kwargs))
        environment, registry = ModuleType("mlagents_envs.environment"), ModuleType("mlagents_envs.registry")
        environment.UnityEnvironment = UnityEnvironment
        registry.default_registry = {"3DBall": entry, "Walker": entry}
        for module in (ModuleType("mlagents_envs"), environment, registry):
            monkeypatch.setitem(sys.modules, module.__name__, module)

    def test_files_and_registered_names(self):
        assert UnityMLAgentsEnv.available_envs == ["3DBall", "Walker"]
        env = UnityMLAgentsEnv(registered_name="3DBall", seed=3)
        assert env._env.file_name == "registered" and env._env.kwargs == {"seed": 3}
        assert repr(env).startswith("UnityMLAgentsEnv(env=3DBall, ")
        assert UnityMLAgentsEnv("ball.x86_64")._env.file_name == "ball.x86_64"
        assert UnityMLAgentsEnv()._env.file_name is None

    def test_both_names(self):
        with pytest.raises(ValueError) as caught:
            UnityMLAgentsEnv("ball.x86_64", "3DBall")
        assert str(caught.value) == (
            "UnityMLAgentsEnv starts a file or a registered environment, and got file_name='ball.x86_64' and "
            "registered_name='3DBall'. Fix: leave one of them out."
        )

    def test_unknown_names(self):
        with pytest.raises(ValueError) as caught:
            UnityMLAgentsEnv(registered_name="3dBall")
        assert str(caught.value) == "There is no environment '3dBall' in Unity ML-Agents. Did you mean '3DBall'?"


@pytest.mark.skipif(is_installed("mlagents_envs"), reason="mlagents-envs is installed")
def test_without_the_library():
    assert UnityMLAgentsEnv.available_envs == []
    with pytest.raises(ImportError) as caught:
        UnityMLAgentsEnv(registered_name="3DBall")
    assert str(caught.value) == (
        "UnityMLAgentsEnv needs mlagents_envs, which is not installed. Fix: pip install mlagents-envs."
    )
