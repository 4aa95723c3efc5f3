"""Observations whose members differ from their space: the error names them and suggests a fix."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from rlnb.envs import GymWrapper, check_env_specs

PLACE = np.zeros(2, np.float32)
WHOLE = {"place": PLACE, "deep": {"speed": PLACE}}
WITHOUT = {"place": ({"deep": {"speed": PLACE}}, "'place'"), "speed": ({**WHOLE, "deep": {}}, "('deep', 'speed')")}
BEYOND = {
    "wind": ({**WHOLE, "wind": 1.0}, "'wind'"),
    "gust": ({**WHOLE, "deep": {"speed": PLACE, "gust": 1.0}}, "('deep', 'gust')"),
}


class Mover(gymnasium.Env):
    """Returns one observation at each reset, and another one from some step on."""

    box = gymnasium.spaces.Box(0, 1, (2,))
    observation_space = gymnasium.spaces.Dict(place=box, deep=gymnasium.spaces.Dict(speed=box))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, at_reset=WHOLE, at_step=WHOLE, since=1):
        self.at_reset, self.at_step, self.since, self.t = at_reset, at_step, since, 0

    def reset(self, *, seed=None, options=None):
        return self.at_reset, {}

    def step(self, action):
        self.t += 1
        return self.at_step if self.t >= self.since else WHOLE, 1.0, False, False, {}


CALLS = {
    "rollout": lambda env: env.rollout(6),
    "rand_step": lambda env: [env.rand_step(env.reset()) for _ in range(4)],
    "check_env_specs": check_env_specs,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("at", ["reset", "first step", "later step"])
@pytest.mark.parametrize("found", WITHOUT)
def test_a_member_is_missing(found, at, call):
    observation, key = WITHOUT[found]
    made = Mover(observation) if at == "reset" else Mover(WHOLE, observation, 1 if at == "first step" else 3)
    with pytest.raises(RuntimeError) as caught:
        CALLS[call](GymWrapper(made))
    assert str(caught.value) == (
        f"GymWrapper(env=Mover, batch_size=torch.Size([]), device=None) returned an observation without {key}, which "
        "its observation space has. Fix: let both reset and step return it, or leave it out of the space."
    )


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("at", ["reset", "first step"])
@pytest.mark.parametrize("found", BEYOND)
def test_a_member_that_the_space_does_not_have(found, at, call):
    observation, key = BEYOND[found]
    made = Mover(observation) if at == "reset" else Mover(WHOLE, observation)
    with pytest.raises(RuntimeError) as caught:
        CALLS[call](GymWrapper(made))
    assert str(caught.value) == (
        f"GymWrapper(env=Mover, batch_size=torch.Size([]), device=None) returned an observation with {key}, which its "
        "observation space does not have. Fix: add it to the space, or leave it out of what reset and step return."
    )


def test_whole_observations_pass():
    check_env_specs(GymWrapper(Mover()))
    check_env_specs(GymWrapper(SyncVectorEnv([Mover] * 2)))
