"""VecGymEnvTransform: gym-like vector backends that reset themselves, and envs that do not need it."""

from __future__ import annotations

import re

import gymnasium
import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Composite, Unbounded
from rlnb.envs import (
    AutoResetEnv,
    Compose,
    GymEnv,
    GymLikeEnv,
    GymWrapper,
    RewardSum,
    StepCounter,
    TransformedEnv,
    VecGymEnvTransform,
    check_env_specs,
)

LENGTHS = (3, 4, 6)


class Counters:
    """Three counters, which begin at multiples of 100, and again at once when they end."""

    def __init__(self, tell=True):
        self.tell, self.restarts = tell, 0

    def reset(self):
        self.restarts += 1
        self.episode = np.zeros(3, dtype=int)
        self.count = np.zeros(3, dtype=int)
        return self.observe()

    def observe(self):
        return {"x": (self.episode * 100.0 + self.count)[:, None].astype(np.float32), "n": self.count[:, None].copy()}

    def step(self, action):
        self.count += 1
        done = self.count == LENGTHS
        last = self.observe()
        self.episode[done] += 1
        self.count[done] = 0
        info = {}
        if done.any():
            info["last"] = {k: np.where(done[:, None], v, np.nan if k == "x" else 0) for k, v in last.items()}
        return self.observe(), np.ones(3), done, np.zeros(3, dtype=bool), info if self.tell else {"other": 1, **info}


class CounterEnv(GymLikeEnv):
    """:class:`Counters` as an env, whose last observations go under "final"."""

    def __init__(self, keys=("x", "n"), always=False):
        super().__init__(Counters(), batch_size=[3])
        spec = {"x": Unbounded(shape=(3, 1)), "n": Unbounded(shape=(3, 1), dtype=torch.int64)}
        self.observation_spec = Composite(spec, shape=[3])
        self.action_spec = Bounded(0, 1, shape=(3, 1))
        self.keys = keys
        self.set_info_dict_reader(self.read_last)

    def read_last(self, info, tensordict):
        if "last" in info:
            last = {key: torch.from_numpy(info["last"][key]) for key in self.keys}
            tensordict.set("final", TensorDict(last, [3]))
        return tensordict

    def _set_seed(self, seed):
        pass


def check(env, steps=30):
    found = env.rollout(steps, break_when_any_done=False)
    x, after, done = found["x"][..., 0], found["next", "x"][..., 0], found["next", "done"][..., 0]
    for row, length in enumerate(LENGTHS):
        t = torch.arange(steps)
        assert torch.equal(x[row], (t // length * 100 + t % length).float())
        assert torch.equal(after[row], x[row] + 1)
        assert torch.equal(done[row], (t + 1) % length == 0)
    return found


@pytest.mark.parametrize("wrap", [TransformedEnv, AutoResetEnv])
def test_last_and_first_observations_go_where_they_belong(wrap):
    env = wrap(CounterEnv(), VecGymEnvTransform())
    found = check(env)
    assert torch.equal(found["next", "n"], found["n"] + 1) and found["n"].dtype == torch.int64
    assert ("next", "final") not in found.keys(True)
    assert env.base_env._env.restarts == 1, "the backend resets itself"
    check_env_specs(TransformedEnv(CounterEnv(), VecGymEnvTransform()), 2)
    check(env)


def test_other_transforms_see_where_episodes_begin():
    env = TransformedEnv(CounterEnv(), Compose(VecGymEnvTransform(), StepCounter(), RewardSum()))
    found = check(env)
    assert torch.equal(found["next", "step_count"], found["next", "n"])
    assert torch.equal(found["next", "episode_reward"], found["next", "n"].float())


def test_an_unknown_last_observation_is_missing():
    env = TransformedEnv(CounterEnv(keys=("n",)), VecGymEnvTransform(missing_obs_value=-1.0))
    found = env.rollout(20, break_when_any_done=False)
    assert torch.equal(found["next", "x"] == -1, found["next", "done"])
    env = TransformedEnv(CounterEnv(keys=("x",)), VecGymEnvTransform())
    found = env.rollout(20, break_when_any_done=False)
    assert torch.equal(found["next", "n"] == 0, found["next", "done"])
    assert not found["next", "x"].isnan().any()


def test_a_reset_in_the_middle_resets_the_backend():
    env = TransformedEnv(CounterEnv(), VecGymEnvTransform())
    env.rollout(3)
    assert env.reset()["x"].flatten().tolist() == [0.0, 0.0, 0.0] and env.base_env._env.restarts == 2


modes = list(gymnasium.vector.AutoresetMode)


@pytest.mark.parametrize("mode", modes, ids=str)
def test_gymnasium_needs_no_help(mode):
    def make():
        vector = gymnasium.make_vec(
            "CartPole-v1", num_envs=3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
        )
        return GymWrapper(vector)

    found = []
    for env in (make(), TransformedEnv(make(), VecGymEnvTransform())):
        env.set_seed(0)
        found.append(env.rollout(60, break_when_any_done=False))
    assert found[0]["next", "done"].any()
    for key in ("observation", "done", ("next", "observation"), ("next", "reward"), ("next", "terminated")):
        assert torch.equal(found[0][key], found[1][key])


def test_bad_input():
    with pytest.raises(TypeError, match=r"^final_name must be a string, got a tuple.$"):
        VecGymEnvTransform(("a", "b"))
    text = (
        "VecGymEnvTransform must be the first transform of its env, and the first is a StepCounter: a transform before "
        "it would not see where episodes begin. Fix: env.insert_transform(0, VecGymEnvTransform())."
    )
    env = TransformedEnv(GymEnv("CartPole-v1", num_envs=2), StepCounter())
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.append_transform(VecGymEnvTransform())
    env.insert_transform(0, VecGymEnvTransform())
    assert isinstance(env.transform[0], VecGymEnvTransform)
