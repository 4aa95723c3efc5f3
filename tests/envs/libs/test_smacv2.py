"""SMACv2Wrapper, the real one, over a fake of the interface of SMACv2, which needs StarCraft II.

The fake follows ``StarCraft2Env`` (``MultiAgentEnv``) and the registry of maps of SMACv2 1.0,
https://github.com/oxwhirl/smacv2/blob/main/smacv2/env/multiagentenv.py, .../smacv2/env/starcraft2/wrapper.py and
.../smacv2/env/starcraft2/maps/smac_maps.py.
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from rlnb.envs import SerialEnv, SMACv2Env, SMACv2Wrapper, check_env_specs
from rlnb.envs.libs.libraries import is_installed
from rlnb.record import PixelRenderTransform

N_ACTIONS = 4  # nothing (for the dead only), stop, move, attack


class StarCraft2Env:
    """Each attack kills an enemy; agent i dies at step i + 2. The battle is over when one side is dead."""

    def __init__(self, map_name="3m", seed=None, n_agents=3, **kwargs):
        self.map_name, self.seed, self.n_agents, self.episode_limit = map_name, seed, n_agents, 60
        self.kwargs, self.t, self.closed, self.resets = kwargs, 0, False, 0
        self.rng = np.random.default_rng(seed)

    def get_env_info(self):
        return {
            "state_shape": 5, "obs_shape": 2, "cap_shape": 0, "n_actions": N_ACTIONS, "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }  # fmt: skip

    def reset(self, episode_config=None):
        self.resets += 1
        self.t, self.enemies, self.luck = 0, 5, self.rng.uniform()
        return self.get_obs(), self.get_state()

    def _is_dead(self, i):
        return self.t >= i + 2

    def get_avail_agent_actions(self, agent_id):
        return [1, 0, 0, 0] if self._is_dead(agent_id) else [0, 1, 1, int(self.enemies > 0)]

    def get_obs(self):
        return [np.array([self.t, 0 if self._is_dead(i) else 1 + i], np.float64) for i in range(self.n_agents)]

    def get_state(self):
        return np.array([self.t, self.enemies, self.luck, 0, 0], np.float32)

    def step(self, actions):
        assert len(actions) == self.n_agents
        assert all(self.get_avail_agent_actions(i)[int(a)] for i, a in enumerate(actions)), "an illegal action"
        self.enemies = max(self.enemies - sum(int(a) == 3 for a in actions), 0)
        self.t += 1
        dead = sum(self._is_dead(i) for i in range(self.n_agents))
        info = {"battle_won": self.enemies == 0, "dead_allies": dead, "dead_enemies": 5 - self.enemies}
        return 2 * int(self.enemies == 0), self.enemies == 0 or dead == self.n_agents, info

    def render(self, mode="human"):
        return np.full((4, 4, 3), self.t, np.uint8)

    def close(self):
        self.closed = True


def test_data_and_specs():
    env = SMACv2Wrapper(StarCraft2Env())
    check_env_specs(env)
    assert env.group_map == {"agents": ["agent_0", "agent_1", "agent_2"]}
    data = env.rollout(20)
    shapes = {key: tuple(value.shape[1:]) for key, value in data.items(True, True) if "next" not in key}
    assert shapes == {
        ("agents", "action"): (3,), ("agents", "action_mask"): (3, 4), ("agents", "observation"): (3, 2), "state": (5,),
        ("info", "battle_won"): (), ("info", "dead_allies"): (), ("info", "dead_enemies"): (),
        ("info", "episode_limit"): (), "done": (1,), "terminated": (1,),
    }  # fmt: skip
    assert data["next", "reward"].shape == (len(data), 1) and data["next", "agents"].batch_size == (len(data), 3)
    assert data["agents", "observation"][..., 1].tolist() == [
        [0 if t >= i + 2 else 1 + i for i in range(3)] for t in range(len(data))
    ]
    assert data["next", "state"][:, 0].tolist() == list(range(1, len(data) + 1))
    assert data["next", "info", "dead_allies"].tolist() == [[0, 1, 2, 3][t] for t in range(len(data))]
    assert data["next", "terminated"].flatten().tolist() == [False] * (len(data) - 1) + [True]


@pytest.mark.parametrize("categorical", [True, False])
def test_random_actions_are_legal(categorical):
    env = SMACv2Wrapper(StarCraft2Env(), categorical)
    data = env.rollout(200, break_when_any_done=False)  # the fake refuses illegal ones
    assert data["agents", "action"].shape == ((200, 3) if categorical else (200, 3, 4))
    assert torch.equal(env.full_action_spec["agents", "action"].mask, data["next", "agents", "action_mask"][-1])
    batch = SerialEnv(2, lambda: SMACv2Wrapper(StarCraft2Env(), categorical))
    assert batch.rollout(50, break_when_any_done=False).shape == (2, 50)


def test_rows_hold_the_data_of_steps():
    found = []
    for check in (None, True):
        env = SMACv2Wrapper(StarCraft2Env(seed=3))
        env.run_type_checks = check
        assert env._fills_rows is (check is None)
        torch.manual_seed(0)
        found.append(env.rollout(30, break_when_any_done=False))
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[1].keys(True, True))
    assert found[0]["info"].batch_size == found[1]["info"].batch_size == (30,)


def test_frames_and_close():
    env = SMACv2Wrapper(StarCraft2Env())
    with pytest.raises(RuntimeError, match="render was called before reset"):
        env.render()
    assert env.append_transform(PixelRenderTransform()).rollout(2)["next", "pixels"][:, 0, 0, 0].tolist() == [1, 2]
    env.close()
    assert env._env.closed


def test_a_seed_is_for_the_making():
    with pytest.raises(RuntimeError) as caught:
        SMACv2Wrapper(StarCraft2Env()).set_seed(0)
    assert str(caught.value) == (
        "A StarCraft2Env can only be seeded when it is made. "
        "Fix: StarCraft2Env(..., seed=0), or SMACv2Env(map_name), whose set_seed makes a new one."
    )


def test_what_is_not_an_env():
    with pytest.raises(TypeError) as caught:
        SMACv2Wrapper(object())
    assert str(caught.value) == (
        "SMACv2Wrapper wraps a StarCraft2Env and got a object. "
        'Fix: SMACv2Env("10gen_terran"), or smacv2.env.StarCraft2Env(map_name="MMM2").'
    )


class TestByName:
    @pytest.fixture(autouse=True)
    def library(self, monkeypatch):
        class Capability(StarCraft2Env):
            pass

        maps = ModuleType("smacv2.env.starcraft2.maps.smac_maps")
        maps.get_smac_map_registry = lambda: {"3m": {}, "8m": {}, "10gen_terran": {}}
        env = ModuleType("smacv2.env")
        env.StarCraft2Env, env.StarCraftCapabilityEnvWrapper = StarCraft2Env, Capability
        for name in ("smacv2", "smacv2.env.starcraft2", "smacv2.env.starcraft2.maps"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, "smacv2.env", env)
        monkeypatch.setitem(sys.modules, maps.__name__, maps)

    def test_by_name(self):
        assert SMACv2Env.available_envs == ["10gen_terran", "3m", "8m"]
        env = SMACv2Env("8m", seed=2**31 + 5, n_agents=8, difficulty="7")
        assert (env._env.map_name, env._env.seed, env._env.kwargs) == ("8m", 5, {"difficulty": "7"})
        assert env.rollout(2)["agents", "action"].shape == (2, 8)

    def test_units_that_are_drawn(self):
        config = {"n_units": 3, "n_enemies": 3}
        env = SMACv2Env("10gen_terran", config)
        assert type(env._env).__name__ == "Capability" and env._env.kwargs == {"capability_config": config}

    def test_seeds_make_a_new_game(self):
        found = []
        for seed in (3, 3, 4):
            env = SMACv2Env("3m")
            before = env._env
            env.set_seed(seed)
            assert before.closed and env._env.seed == seed
            found.append(env.reset()["state"][2].item())
        assert found[0] == found[1] != found[2]

    def test_unknown_names(self):
        with pytest.raises(ValueError) as caught:
            SMACv2Env("3mm")
        assert str(caught.value) == "There is no environment '3mm' in SMACv2. Did you mean '3m'?"


@pytest.mark.skipif(is_installed("smacv2"), reason="smacv2 is installed")
def test_without_the_library():
    assert SMACv2Env.available_envs == []
    with pytest.raises(ImportError) as caught:
        SMACv2Env("3m")
    assert str(caught.value) == (
        "SMACv2Env needs smacv2, which is not installed. "
        "Fix: pip install git+https://github.com/oxwhirl/smacv2, and StarCraft II."
    )
