"""RoboHiveEnv over a stand-in for RoboHive, which registers its environments with gymnasium or gym.

It follows RoboHive 0.7: ``robohive/__init__.py``, ``robohive/utils/import_utils.py`` and
``robohive/renderer/mj_renderer.py`` in https://github.com/vikashplus/robohive, whose models are downloads of their own.
"""

from __future__ import annotations

import sys
import types
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from rlnb.envs import RoboHiveEnv, check_env_specs


class Renderer:
    """Renders the number of the step, and ten times it as a depth."""

    def __init__(self, env):
        self.env, self.asked = env, []

    def render_offscreen(
        self, width=640, height=480, rgb=True, depth=False, segmentation=False, camera_id=-1, device_id=-1
    ):
        assert rgb is not depth
        self.asked.append(camera_id)
        shape = (height, width, 3) if rgb else (height, width)
        return np.full(shape, self.env.t * (1 if rgb else 10), np.uint8 if rgb else np.float64)


class FrankaEnv(gymnasium.Env):
    """Reaches its target in four steps."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, **kwargs):
        self.kwargs, self.sim = kwargs, SimpleNamespace(renderer=Renderer(self))

    def _see(self):
        return np.float32([self.t, self.start])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.start = 0, self.np_random.uniform()
        return self._see(), {}

    def step(self, action):
        self.t += 1
        return self._see(), float(action[0]), self.t == 4, False, {}


@pytest.fixture
def robohive(monkeypatch):
    """Stands for the package."""
    whole, utils = types.ModuleType("robohive"), types.ModuleType("robohive.utils.import_utils")
    whole.robohive_env_suite = ["FrankaReachFixed-v0", "FrankaReachRandom-v0"]
    utils.gym = gymnasium
    monkeypatch.setitem(sys.modules, "robohive", whole)
    monkeypatch.setitem(sys.modules, "robohive.utils", types.ModuleType("robohive.utils"))
    monkeypatch.setitem(sys.modules, "robohive.utils.import_utils", utils)
    monkeypatch.setenv("sim_backend", "MUJOCO")
    gymnasium.register("FrankaReachFixed-v0", entry_point=FrankaEnv)
    yield whole
    gymnasium.registry.pop("FrankaReachFixed-v0")


def test_environments_are_made_by_their_ids(robohive):
    env = RoboHiveEnv("FrankaReachFixed-v0", reset_type="fixed")
    check_env_specs(env)
    assert env._fills_rows and env.kwargs == {"reset_type": "fixed"}
    data = env.rollout(6, break_when_any_done=False)
    assert data["next", "observation"][:, 0].tolist() == [1, 2, 3, 4, 1, 2]
    assert env.sim.renderer.asked == []
    assert RoboHiveEnv("FrankaReachFixed-v0", num_envs=2).rollout(3)["observation"].shape == (2, 3, 2)


@pytest.mark.parametrize("pixels_only", [True, False])
@pytest.mark.parametrize("from_depths", [True, False])
def test_frames(robohive, from_depths, pixels_only):
    env = RoboHiveEnv(
        "FrankaReachFixed-v0", from_pixels=True, pixels_only=pixels_only, from_depths=from_depths, height=4, width=5,
        camera_id="top",
    )  # fmt: skip
    check_env_specs(env)
    data = env.rollout(3)
    expected = {"pixels", *(["depths"] if from_depths else []), *([] if pixels_only else ["observation"])}
    assert set(env.observation_spec.keys()) == expected
    assert data["next", "pixels"].shape == (3, 4, 5, 3) and data["next", "pixels"][:, 0, 0, 0].tolist() == [1, 2, 3]
    if from_depths:
        assert data["next", "depths"].shape == (3, 4, 5) and data["next", "depths"][:, 0, 0].tolist() == [10, 20, 30]
    assert set(env.sim.renderer.asked) == {"top"} and env.render().shape == (4, 5, 3)


def test_depths_come_with_pixels(robohive):
    with pytest.raises(ValueError) as caught:
        RoboHiveEnv("FrankaReachFixed-v0", from_depths=True)
    assert str(caught.value) == "from_depths=True adds depths to pixels. Fix: from_pixels=True, too."


def test_seeds_repeat(robohive):
    found = []
    for seed in (3, 3, 4):
        env = RoboHiveEnv("FrankaReachFixed-v0")
        env.set_seed(seed)
        found.append(env.reset()["observation"])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_names(robohive):
    assert RoboHiveEnv.available_envs == ["FrankaReachFixed-v0", "FrankaReachRandom-v0"]
    with pytest.raises(ValueError) as caught:
        RoboHiveEnv("FrankaReachFix-v0")
    assert str(caught.value).startswith(
        "There is no environment 'FrankaReachFix-v0' in RoboHive. Did you mean 'FrankaReachF"
    )


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "robohive", None)  # as if it could not be found
    assert RoboHiveEnv.available_envs == []
    with pytest.raises(ImportError) as caught:
        RoboHiveEnv("FrankaReachFixed-v0")
    assert str(caught.value) == "RoboHiveEnv needs robohive, which is not installed. Fix: pip install robohive."
