"""MultiThreadedEnv, over a stand-in for EnvPool that follows its documented interface."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types

import gymnasium
import numpy as np
import pytest
import torch

import rlnb.envs
from rlnb.envs import MultiThreadedEnv, MultiThreadedEnvWrapper, check_env_specs


class Pool:
    """Counts; env i ends after ``3 + i`` steps, and is reset by its next step, as EnvPool's are."""

    def __init__(self, num_envs, batch_size=None, seed=0, dictionary=False, gym=True):
        self.config = {"num_envs": num_envs, "batch_size": batch_size or num_envs, "seed": seed}
        box = gymnasium.spaces.Box(-100, 100, (2,), np.float32)
        self.dictionary = dictionary
        self.observation_space = gymnasium.spaces.Dict({"place": box}) if dictionary else box
        if not gym:
            self.observation_space = None
        self.action_space = gymnasium.spaces.Discrete(3)
        self.rng = np.random.default_rng(seed)
        self.t, self.over = np.zeros(num_envs, int), np.zeros(num_envs, bool)
        self.start = np.zeros(num_envs)
        self.memory = np.zeros((num_envs, 2), np.float32)  # all observations are in here
        self.closed, self.resets = False, []
        self.tricks = 7

    def async_reset(self):
        raise NotImplementedError

    def _see(self, which):
        self.memory[which] = np.stack([self.t[which], self.start[which]], -1)
        seen = self.memory if len(which) == len(self.memory) else self.memory[which]
        return {"place": seen} if self.dictionary else seen

    def reset(self, env_id=None):
        which = np.arange(len(self.t)) if env_id is None else env_id
        self.resets.append(which.tolist())
        self.t[which], self.over[which] = 0, False
        self.start[which] = self.rng.uniform(size=len(which))
        return self._see(which), {"env_id": which}

    def step(self, actions):
        assert actions.shape == self.t.shape and not self.over.any(), "EnvPool would reset an env behind our back"
        self.t += 1
        self.over = self.t >= 3 + np.arange(len(self.t))
        n = len(self.t)
        rewards = actions.astype(np.float32)
        return self._see(np.arange(n)), rewards, self.over.copy(), np.zeros(n, bool), {"env_id": np.arange(n)}

    def close(self):
        self.closed = True


class CountGymnasiumEnvPool(Pool):
    """A pool with a name as EnvPool gives them."""


@pytest.fixture
def envpool(monkeypatch):
    """Stands for the package."""
    module = types.ModuleType("envpool")
    module.made = []

    def make(task_id, env_type, num_envs, **kwargs):
        assert env_type == "gymnasium" and task_id == "Count-v0"
        module.made.append(CountGymnasiumEnvPool(num_envs, **kwargs))
        return module.made[-1]

    module.make, module.list_all_envs = make, lambda: ["Count-v0", "Add-v0"]
    monkeypatch.setitem(sys.modules, "envpool", module)
    return module


@pytest.mark.parametrize("dictionary", [False, True])
def test_every_step_is_a_true_transition(envpool, dictionary):
    env = MultiThreadedEnv(3, "Count-v0", create_env_kwargs={"dictionary": dictionary})
    key = "place" if dictionary else "observation"
    check_env_specs(env)
    data = env.rollout(40, break_when_any_done=False)
    assert data.batch_size == (3, 40)
    done = data["next", "done"].squeeze(-1)
    for i in range(3):
        assert data["next", key][i, :, 0].tolist() == [t % (3 + i) + 1 for t in range(40)]
        assert data[key][i, :, 0].tolist() == [t % (3 + i) for t in range(40)]
        assert done[i].tolist() == [t % (3 + i) == 2 + i for t in range(40)]
        starts = data[key][i, :, 1]
        assert torch.equal(starts, data["next", key][i, :, 1]) and len(starts.unique()) == -(-40 // (3 + i))
    assert torch.equal(data["next", "reward"].squeeze(-1), data["action"].argmax(-1).float())


def test_partial_resets(envpool):
    env = MultiThreadedEnv(3, "Count-v0")
    td = env.rand_step(env.reset())
    after = env.reset(env._step_mdp(td).set("_reset", torch.tensor([[False], [True], [False]])))
    assert after["observation"][:, 0].tolist() == [1.0, 0.0, 1.0]
    assert envpool.made[0].resets == [[0, 1, 2], [1]]


def test_data_is_not_overwritten(envpool):
    env = MultiThreadedEnv(2, "Count-v0")
    first = env.reset()
    kept = first.clone()
    env.rand_step(env.rand_step(first)["next"].exclude("reward"))
    assert torch.equal(first["observation"], kept["observation"])


def test_seeds(envpool):
    env = MultiThreadedEnv(3, "Count-v0")
    found = []
    for seed in (5, 5, 6):
        env.set_seed(seed)
        found.append(env.rollout(20, break_when_any_done=False))
    assert (found[0] == found[1]).all() and not (found[0] == found[2]).all()
    assert [pool.config["seed"] for pool in envpool.made[1:]] == [5, 5, 6]
    assert [pool.closed for pool in envpool.made] == [True, True, True, False]


def test_actions_as_integers_and_attributes(envpool):
    env = MultiThreadedEnv(3, "Count-v0", categorical_action_encoding=True, device="cpu")
    assert env.action_spec.shape == (3,) and env.device == torch.device("cpu")
    assert env.rollout(2)["action"].dtype == torch.int64
    assert env.tricks == 7 and env.num_workers == 3
    assert repr(env) == "MultiThreadedEnv(env=Count-v0, batch_size=torch.Size([3]), device=cpu)"
    env.close()
    assert envpool.made[0].closed


def test_wrapper(envpool):
    pool = CountGymnasiumEnvPool(2)
    env = MultiThreadedEnvWrapper(pool)
    assert env.rollout(9, break_when_any_done=False).batch_size == (2, 9)
    assert repr(env) == "MultiThreadedEnvWrapper(env=Count, batch_size=torch.Size([2]), device=None)"
    with pytest.raises(RuntimeError) as caught:
        env.set_seed(0)
    assert str(caught.value) == (
        "An EnvPool can only be seeded when it is made. "
        "Fix: envpool.make(..., seed=0), or MultiThreadedEnv(n, name), whose set_seed makes a new pool."
    )
    assert env.rollout(2).batch_size == (2, 2)


def test_an_object_that_is_not_a_pool_is_rejected():
    with pytest.raises(TypeError) as caught:
        MultiThreadedEnvWrapper(gymnasium.make("CartPole-v1"))
    assert str(caught.value) == (
        "MultiThreadedEnvWrapper wraps a pool of EnvPool and got a TimeLimit. "
        'Fix: envpool.make("CartPole-v1", env_type="gymnasium", num_envs=8), or GymWrapper for an env of Gymnasium.'
    )
    with pytest.raises(TypeError) as caught:
        MultiThreadedEnvWrapper(Pool(2, gym=False))
    assert str(caught.value) == (
        'The pool does not have the interface of Gymnasium. Fix: envpool.make(..., env_type="gymnasium").'
    )
    with pytest.raises(ValueError) as refused:
        MultiThreadedEnvWrapper(Pool(4, batch_size=2))
    assert str(refused.value) == (
        "Each step of the pool returns the data of 2 of its 4 envs, and a batched env needs that of all. "
        "Fix: leave batch_size out of envpool.make."
    )


@pytest.mark.parametrize("n", [0, True, 1.5])
def test_wrong_numbers(n):
    with pytest.raises(ValueError, match=r"^num_workers must be a positive integer and is "):
        MultiThreadedEnv(n, "Count-v0")


def test_names(envpool):
    assert MultiThreadedEnv.available_envs == ["Add-v0", "Count-v0"]
    with pytest.raises(ValueError) as caught:
        MultiThreadedEnv(2, "Coun-v0")
    assert str(caught.value) == "There is no environment 'Coun-v0' in EnvPool. Did you mean 'Count-v0'?"


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ImportError) as caught:
        MultiThreadedEnv(2, "CartPole-v1")
    assert str(caught.value) == ("MultiThreadedEnv needs envpool, which is not installed. Fix: pip install envpool.")


@pytest.mark.deep
def test_the_package_is_imported_by_nobody_else():
    assert {"MultiThreadedEnv", "MultiThreadedEnvWrapper"} <= set(rlnb.envs.__all__)
    code = "import sys, rlnb.envs; print('envpool' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"


if importlib.util.find_spec("envpool") is not None:

    @pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
    def test_the_package_itself(name):
        env = MultiThreadedEnv(3, name)
        check_env_specs(env)
        found = []
        for _ in range(2):
            env.set_seed(3)
            found.append(env.rollout(100, break_when_any_done=False))
        assert (found[0] == found[1]).all()
        going_on = ~found[0]["next", "done"][:, :-1, 0]
        assert torch.equal(found[0]["observation"][:, 1:][going_on], found[0]["next", "observation"][:, :-1][going_on])
        env.close()
