"""Documented examples of info readers, gym backends and registration, with rlnb in place of torchrl."""

from __future__ import annotations

import sys
from types import ModuleType

import gymnasium
import numpy as np
import pytest
import torch

from rlnb._utils import implement_for
from rlnb.envs import (
    CatTensors,
    EnvBase,
    GymEnv,
    PendulumEnv,
    TensorDictPrimer,
    TransformedEnv,
    check_env_specs,
)
from rlnb.envs.libs.gym import gym_backend, set_gym_backend

INFOS = ("reward_ctrl", "reward_run", "x_position", "x_velocity")


@pytest.fixture(autouse=True)
def registry():
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


class Cheetah(gymnasium.Env):
    """A stand-in for HalfCheetah-v4, which is not installed: its spaces and infos, and none of its physics."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (17,), np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (6,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(17), {}

    def step(self, action):
        self.t += 1
        infos = {name: np.float64(self.t * (i + 1)) for i, name in enumerate(INFOS)}
        return np.full(17, float(self.t)), 1.0, False, False, infos


def shapes(data) -> dict:
    return {key: (tuple(data[key].shape), data[key].dtype) for key in data.keys(True, True)}


def test_infos_of_a_cheetah():
    gymnasium.register("Cheetah-v4", entry_point=Cheetah)
    env = GymEnv("Cheetah-v4")
    flags = {name: ((10, 1), torch.bool) for name in ("done", "terminated", "truncated")}
    plain = {
        "action": ((10, 6), torch.float32),
        "observation": ((10, 17), torch.float64),
        **flags,
        ("next", "observation"): ((10, 17), torch.float64),
        ("next", "reward"): ((10, 1), torch.float32),
        **{("next", name): what for name, what in flags.items()},
    }
    assert shapes(env.rollout(10)) == plain
    check_env_specs(env)

    env.set_info_dict_reader()
    under_next = {("next", name): ((10,), torch.float64) for name in INFOS}
    # The page's env has no infos at the root; there are zeros, as with the released TorchRL.
    at_root = {name: ((10,), torch.float64) for name in INFOS}
    found = env.rollout(10)
    assert shapes(found) == plain | under_next | at_root
    assert found["x_position"].tolist() == [3.0 * t for t in range(10)]
    check_env_specs(env)

    env_fixed = TransformedEnv(env, TensorDictPrimer(env.info_dict_reader[0].info_spec))
    data = env_fixed.rollout(10)
    assert shapes(data) == plain | under_next | at_root
    assert data["x_position"].tolist() == [3.0 * t for t in range(10)]
    check_env_specs(env_fixed)

    in_one_call = GymEnv("Cheetah-v4").auto_register_info_dict()
    check_env_specs(in_one_call)
    assert shapes(in_one_call.rollout(10)) == shapes(data)


@pytest.fixture
def gym(monkeypatch) -> ModuleType:
    """A stand-in for the library gym, which is not installed."""
    made, wrappers = ModuleType("gym"), ModuleType("gym.wrappers")
    made.__version__, made.__path__, made.make = "0.26.2", [], lambda name: f"gym's {name}"
    monkeypatch.setitem(sys.modules, "gym", made)
    monkeypatch.setitem(sys.modules, "gym.wrappers", wrappers)
    return made


def test_two_backends_in_one_program(gym):
    with set_gym_backend(gymnasium):
        assert repr(gym_backend()).startswith("<module 'gymnasium' from")
        env1 = GymEnv("Pendulum-v1")
    with set_gym_backend(gym):
        assert repr(gym_backend()).startswith("<module 'gym'")
        env2 = gym_backend().make("Pendulum-v1")
    assert type(env1._env.env.env).__module__ == "gymnasium.envs.classic_control.pendulum"
    assert env2 == "gym's Pendulum-v1"


@pytest.mark.parametrize("name", ["gym", "gymnasium"])
def test_a_module_of_the_backend(gym, name):
    with set_gym_backend(name):
        wrappers = gym_backend("wrappers")
    assert repr(wrappers).startswith(f"<module '{name}.wrappers'")


def test_an_implementation_for_each_version(gym):
    @implement_for("gym", None, "0.26.0")
    def fun():
        return 0

    @implement_for("gym", "0.26.0", None)
    def fun():  # noqa: F811 - one of several
        return 1

    assert fun() == 1


def test_a_cheetah_among_gymnasiums_envs():  # DMControl is not installed; GymEnv's "Cheetah" is
    gymnasium.register("Cheetah-v4", entry_point=Cheetah)
    ids = {"rlnb-tests/C-v0": GymEnv, "rlnb-tests/C-v1": EnvBase}
    for name, cls in ids.items():
        entry_point = {} if cls is GymEnv else {"entry_point": GymEnv}
        cls.register_gym(name, **entry_point, to_numpy=False, backend="gymnasium", env_name="Cheetah-v4")
        envgym = gymnasium.make(name)
        observation, info = envgym.reset(seed=0)  # envgym.seed(0) is gone since gym 0.26
        assert info == {} and torch.equal(observation["observation"], torch.zeros(17, dtype=torch.float64))
        observation, reward, terminated, truncated, info = envgym.step(envgym.action_space.sample())
        assert isinstance(observation["observation"], torch.Tensor) and observation["observation"].eq(1).all()
        assert torch.equal(torch.as_tensor(reward), torch.ones(1)) and info == {}
        assert [bool(torch.as_tensor(flag).any()) for flag in (terminated, truncated)] == [False, False]


def test_observations_joined_by_a_transform_of_make():
    PendulumEnv.register_gym("rlnb-tests/P-v0", to_numpy=False, backend="gymnasium", info_keys=["params"])
    cat = {"in_keys": ["th", "thdot"], "out_key": "observation", "unsqueeze_if_oor": True}  # both are single numbers
    first, _ = gymnasium.make("rlnb-tests/P-v0").reset(seed=0)
    assert list(first) == ["th", "thdot"]
    observation, _ = gymnasium.make("rlnb-tests/P-v0", transform=CatTensors(**cat)).reset(seed=0)
    assert list(observation) == ["observation"]
    assert torch.equal(observation["observation"], torch.stack([first["th"], first["thdot"]]))
    observation, _ = gymnasium.make("rlnb-tests/P-v0", transform=CatTensors(**cat), to_numpy=True).reset(seed=0)
    assert isinstance(observation["observation"], np.ndarray) and observation["observation"].shape == (2,)


def test_a_stateless_env_under_gymnasium():  # Brax is not installed; PendulumEnv is stateless too
    params = PendulumEnv.gen_params(batch_size=[2])
    env = PendulumEnv(params)
    env.set_seed(0)
    td = env.rollout(10)
    env.register_gym("rlnb-tests/Stateless-v0", td_params=params, info_keys=["params"])
    gym_env = gymnasium.make("rlnb-tests/Stateless-v0")
    observation, info = gym_env.reset(seed=0)
    assert "params" in info and "params" not in observation
    for i in range(10):
        obs, reward, terminated, _truncated, info = gym_env.step(td[..., i].get("action"))
        assert torch.equal(obs["th"], td["next", "th"][:, i]) and torch.equal(reward, td["next", "reward"][:, i])
        assert not terminated.any() and info["params"]["g"].shape == (2,)
