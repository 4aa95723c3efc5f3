"""HabitatEnv over a stand-in for habitat-lab, which registers its environments with gym.

It follows habitat-lab 0.3.3: ``habitat/gym/gym_definitions.py`` and ``habitat/gym/gym_wrapper.py`` in
https://github.com/facebookresearch/habitat-lab, and gym 0.23, which it needs. Its simulator installs by conda only.
"""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch

from rlnb.envs import GymEnv, HabitatEnv, check_env_specs


def in_gym(name, **attributes):
    made = type(name, (), {"__module__": "gym.spaces"})()
    vars(made).update(attributes)
    return made


def box(low, high, shape, dtype):
    return in_gym("Box", low=np.full(shape, low, dtype), high=np.full(shape, high, dtype), shape=shape, dtype=dtype)


Wrapper = type("Wrapper", (), {"__module__": "gym.core"})
Base = type("Env", (), {"__module__": "gym.core"})


class HabGymWrapper(Base):
    """Walks; the goal is four steps away."""

    metadata, spec = None, None
    observation_space = in_gym(
        "Dict", spaces={"robot_head_depth": box(0, 1, (4, 4, 1), np.float32), "joint": box(-9, 9, (2,), np.float32)}
    )
    action_space = in_gym("Discrete", n=3)

    def __init__(self, **kwargs):
        self.kwargs, self.generator = kwargs, np.random.default_rng()

    @property
    def unwrapped(self):
        return self

    def seed(self, seed):
        self.generator = np.random.default_rng(seed)

    def _see(self):
        return {
            "robot_head_depth": np.full((4, 4, 1), self.t / 4, np.float32),
            "joint": np.float32([self.t, self.start]),
        }

    def reset(self, *args, return_info=False, **kwargs):
        self.t, self.start = 0, self.generator.uniform()
        return self._see()

    def step(self, action):
        assert isinstance(action, (int, np.integer))
        self.t += 1
        return self._see(), float(action), self.t == 4, {}

    def render(self, mode="human", **kwargs):
        return {"rgb_array": np.full((6, 8, 3), self.t, np.uint8)}[mode]

    def close(self):
        pass


@pytest.fixture
def habitat(monkeypatch):
    """Stands for habitat-lab and gym."""
    gym, registration, made = types.ModuleType("gym"), types.ModuleType("gym.envs.registration"), []
    names = {name: types.SimpleNamespace(id=name) for name in ("CartPole-v1", "HabitatPick-v0", "HabitatRenderPick-v0")}
    registration.registry = types.SimpleNamespace(env_specs=names)

    def make(id, **kwargs):
        made.append((id, kwargs))
        return HabGymWrapper(**kwargs)

    gym.make, gym.__path__ = make, []
    modules = {
        "gym": gym, "gym.envs": types.ModuleType("gym.envs"), "gym.envs.registration": registration,
        "habitat": types.ModuleType("habitat"), "habitat.gym": types.ModuleType("habitat.gym"),
    }  # fmt: skip
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_environments_are_made_by_gym(habitat):
    env = HabitatEnv("HabitatPick-v0", override_options=["habitat.seed=3"])
    check_env_specs(env)
    data = env.rollout(6, break_when_any_done=False)
    assert data["next", "joint"][:, 0].tolist() == [1, 2, 3, 4, 1, 2]
    assert data["robot_head_depth"].shape == (6, 4, 4, 1) and env._fills_rows
    assert torch.equal(data["next", "reward"].squeeze(-1), data["action"].argmax(-1).float())
    assert habitat == [("HabitatPick-v0", {"override_options": ["habitat.seed=3"]})]
    GymEnv("CartPole-v1")  # the backend is Gymnasium again
    assert len(habitat) == 1


def test_frames(habitat):
    env = HabitatEnv("HabitatRenderPick-v0", from_pixels=True)
    assert list(env.observation_spec.keys()) == ["pixels"]
    assert env.rollout(3)["next", "pixels"][:, 0, 0, 0].tolist() == [1, 2, 3]
    assert habitat == [("HabitatRenderPick-v0", {})]


def test_the_simulator_is_on_the_device_of_the_data(habitat, monkeypatch):
    asked = {}

    def make(self, env_name, num_envs, **kwargs):
        asked.update(kwargs)
        raise InterruptedError

    monkeypatch.setattr(HabitatEnv, "_make_env", make)
    with pytest.raises(InterruptedError):
        HabitatEnv("HabitatPick-v0", device="cuda:1", override_options=["a=b"])
    assert asked["override_options"] == ["a=b", "habitat.simulator.habitat_sim_v0.gpu_device_id=1"]


def test_seeds_repeat(habitat):
    found = []
    for seed in (3, 3, 4):
        env = HabitatEnv("HabitatPick-v0")
        env.set_seed(seed)
        found.append(env.reset()["joint"])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_names(habitat):
    assert HabitatEnv.available_envs == ["HabitatPick-v0", "HabitatRenderPick-v0"]
    with pytest.raises(ValueError) as caught:
        HabitatEnv("HabitatPik-v0")
    assert str(caught.value) == (
        "There is no environment 'HabitatPik-v0' in Habitat. Did you mean 'HabitatPick-v0', 'HabitatRenderPick-v0'?"
    )


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "habitat", None)  # as if it could not be found
    assert HabitatEnv.available_envs == []
    with pytest.raises(ImportError) as caught:
        HabitatEnv("HabitatPick-v0")
    assert str(caught.value) == (
        "HabitatEnv needs habitat, which is not installed. Fix: conda install habitat-sim -c conda-forge -c aihabitat, "
        "then pip install habitat-lab."
    )
