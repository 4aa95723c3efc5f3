"""MOGymEnv without its library; tests/libs/test_mo_gymnasium.py has the real one."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
import torch

from rlnb.envs import MOGymEnv, MOGymWrapper, check_env_specs


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "mo_gymnasium", None)  # as if it could not be found
    assert MOGymEnv.available_envs == []
    with pytest.raises(ImportError) as caught:
        MOGymEnv("minecart-v0")
    assert str(caught.value) == ("MOGymEnv needs mo_gymnasium, which is not installed. Fix: pip install mo-gymnasium.")


def test_what_is_no_env():
    text = (
        "MOGymWrapper wraps an env of MO-Gymnasium and got a int. "
        'Fix: MOGymWrapper(mo_gymnasium.make("deep-sea-treasure-v0")), or MOGymEnv("deep-sea-treasure-v0").'
    )
    with pytest.raises(TypeError) as caught:
        MOGymWrapper(3)
    assert str(caught.value) == text


class Ores(gymnasium.Env):
    """Two objectives: the action, and the time."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)
    reward_space = gymnasium.spaces.Box(-2, 2, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.float32([self.t]), np.float32([action, -1]), self.t == 4, False, {}


@pytest.mark.parametrize("rows", [True, False])
def test_a_vector_of_rewards(rows):
    env = MOGymWrapper(Ores(), categorical_action_encoding=True)
    check_env_specs(env)
    env.run_type_checks = not rows
    assert env._fills_rows is rows and env.reward_spec.shape == (2,)
    data = env.rollout(6, break_when_any_done=False)
    assert torch.equal(data["next", "reward"], torch.stack([data["action"].float(), -torch.ones(6)], -1))
