"""IsaacLabWrapper around stand-ins for environments of Isaac Lab.

They follow ``ManagerBasedRLEnv`` and ``DirectRLEnv`` of Isaac Lab 2.3:
https://isaac-sim.github.io/IsaacLab/main/source/api/lab/isaaclab.envs.html. Isaac Lab itself needs a GPU that renders.
"""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector.utils import batch_space

from rlnb.envs import IsaacLabWrapper, check_env_specs


class DirectEnv(gymnasium.Env):
    """Counts. Robot i falls after ``3 + i`` steps; the time is over after five. A step resets who is done."""

    device = "cpu"
    render_mode = None

    def __init__(self, num_envs=4, discrete=False, final=False):
        self.num_envs, self.final = num_envs, final
        box = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        joints = gymnasium.spaces.Dict({"joint": gymnasium.spaces.Box(0, 99, (1,), np.int32)})
        self.single_observation_space = gymnasium.spaces.Dict({"policy": box, "terms": joints})
        self.single_action_space = gymnasium.spaces.Discrete(3) if discrete else gymnasium.spaces.Box(-1, 1, (1,))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.t, self.start, self.memory = torch.zeros(num_envs), torch.zeros(num_envs), torch.zeros(num_envs, 2)
        self.generator, self.full_resets = torch.Generator(), 0
        output = {"rgb": torch.zeros(num_envs, 4, 5, 4, dtype=torch.uint8), "depth": torch.ones(num_envs, 4, 5, 3) / 2}
        self.scene = SimpleNamespace(sensors={"tiled_camera": SimpleNamespace(data=SimpleNamespace(output=output))})

    def _see(self):
        self.memory[:] = torch.stack([self.t, self.start], -1)  # the same memory each time
        self.scene.sensors["tiled_camera"].data.output["rgb"][:] = self.t[:, None, None, None].to(torch.uint8)
        return {"policy": self.memory, "terms": {"joint": self.t[:, None].to(torch.int32)}}

    def _begin(self, ids):
        self.t[ids], self.start[ids] = 0, torch.rand(len(ids), generator=self.generator)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.generator.manual_seed(seed)
        self.full_resets += 1
        self._begin(torch.arange(self.num_envs))
        return self._see(), {}

    def step(self, action):
        assert action.shape == self.action_space.shape
        self.t += 1
        fallen, late = self.t >= 3 + torch.arange(self.num_envs), self.t >= 5
        extras = {"log": {}}
        if self.final:
            extras["final_obs"] = {
                "policy": self._see()["policy"].clone(),
                "terms": {"joint": self._see()["terms"]["joint"]},
            }
        self._begin((fallen | late).nonzero().squeeze(-1))
        return self._see(), action.reshape(self.num_envs).float(), fallen & ~late, late, extras

    def render(self):
        return np.zeros((4, 5, 3), np.uint8) if self.render_mode == "rgb_array" else None

    def close(self):
        self.closed = True


class ManagerBasedEnv(DirectEnv):
    """Resets some of its robots, too."""

    def reset(self, seed=None, env_ids=None, options=None):
        if env_ids is None:
            return super().reset(seed)
        self._begin(env_ids)
        return self._see(), {}


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("kind", [DirectEnv, ManagerBasedEnv])
def test_steps_never_mix_two_episodes(kind, final):
    inner = kind(final=final)
    env = IsaacLabWrapper(gymnasium.wrappers.OrderEnforcing(inner))
    check_env_specs(env)
    resets = inner.full_resets
    data = env.rollout(20, break_when_any_done=False)
    assert inner.full_resets == resets + 1  # the others are the steps' own
    for i in range(4):
        length = min(3 + i, 5)
        expected = [t % length for t in range(20)]
        assert data["policy"][i, :, 0].tolist() == expected and data["terms", "joint"][i, :, 0].tolist() == expected
        done = data["next", "done"][i].squeeze(-1)
        assert done.tolist() == [t == length - 1 for t in expected]
        after = data["next", "policy"][i]
        if final:
            assert after[:, 0].tolist() == [t + 1 for t in expected]
            assert torch.equal(after[:, 1], data["policy"][i, :, 1])
        else:
            assert after[done].isnan().all() and (data["next", "terms", "joint"][i][done] == 0).all()
            assert torch.equal(after[~done][:, 1], data["policy"][i, :, 1][~done])
        assert torch.equal(data["next", "truncated" if i >= 2 else "terminated"][i], data["next", "done"][i])
        starts = data["policy"][i, :, 1].unique()
        assert len(starts) == -(-20 // length)
    assert torch.equal(data["next", "reward"], data["action"])


def test_missing_values_are_those_that_are_asked_for():
    env = IsaacLabWrapper(DirectEnv(), missing_obs_value=-7.0)
    data = env.rollout(3, break_when_any_done=False)
    assert (data["next", "policy"][0, 2] == -7).all()


def test_a_robot_that_is_done_is_not_stepped():
    env = IsaacLabWrapper(DirectEnv())
    td = env.rollout(3)[:, -1]["next"].exclude("reward")
    with pytest.raises(RuntimeError) as caught:
        env.rand_step(td)
    assert str(caught.value) == (
        "step was called on an env that is done: number 0 of 4 ended and was not reset. "
        "Fix: td = env.maybe_reset(step_mdp(td)) before the next step, or env.step_and_maybe_reset(td)."
    )


def test_resets_in_the_middle_of_an_episode():
    for kind in (ManagerBasedEnv, DirectEnv):
        env = IsaacLabWrapper(kind())
        td = env._step_mdp(env.rand_step(env.reset())).set("_reset", torch.tensor([[False], [True], [False], [True]]))
        if kind is ManagerBasedEnv:
            assert env.reset(td)["policy"][:, 0].tolist() == [1, 0, 1, 0]
            continue
        with pytest.raises(RuntimeError) as caught:
            env.reset(td)
        assert str(caught.value) == (
            "DirectEnv cannot reset robots whose episode is not over and leave the others. "
            "Fix: env.reset() for all, or a manager-based env, whose reset takes env_ids."
        )


def test_kept_resets_and_others_are_put_together():
    env = IsaacLabWrapper(ManagerBasedEnv())
    last = env.rollout(3)[:, -1]["next"].exclude("reward")  # robot 0 is done
    kept = env._fresh["policy"][0].clone()
    after = env.reset(last.set("_reset", torch.tensor([[True], [True], [False], [False]])))
    assert after["policy"][:, 0].tolist() == [0, 0, 3, 3]
    assert torch.equal(after["policy"][0], kept)


def test_seeds_repeat():
    found = []
    for seed in (3, 3, 4):
        env = IsaacLabWrapper(DirectEnv())
        env.set_seed(seed)
        found.append(env.reset()["policy"])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@pytest.mark.parametrize("categorical", [False, True])
def test_choices(categorical):
    env = IsaacLabWrapper(DirectEnv(discrete=True), categorical_action_encoding=categorical)
    check_env_specs(env)
    data = env.rollout(2)
    chosen = data["action"] if categorical else data["action"].argmax(-1)
    assert torch.equal(data["next", "reward"].squeeze(-1), chosen.float())


def test_cameras_and_frames():
    env = IsaacLabWrapper(DirectEnv(), from_tiled_camera=True)
    check_env_specs(env)
    data = env.rollout(6, break_when_any_done=False)
    assert data["pixels"].shape == (4, 6, 4, 5, 3) and data["pixels"][1, :, 0, 0, 0].tolist() == [0, 1, 2, 3, 0, 1]
    depth = IsaacLabWrapper(DirectEnv(), from_tiled_camera=True, tiled_camera_data_type="depth")
    assert (depth.reset()["pixels"] == 127).all()
    with pytest.raises(RuntimeError) as caught:
        env.render()
    assert str(caught.value) == (
        "The env renders no frames. Fix: gymnasium.make(id, cfg=cfg, render_mode='rgb_array'), and "
        "AppLauncher(headless=True, enable_cameras=True)."
    )
    env._env.render_mode = "rgb_array"
    assert env.render().shape == (4, 5, 3)
    env.close()
    assert env._env.closed


def test_ids(monkeypatch):
    assert IsaacLabWrapper.available_envs == []
    monkeypatch.setitem(sys.modules, "isaaclab", SimpleNamespace())
    spec = gymnasium.envs.registration.EnvSpec("Isaac-Ant-v0", "isaaclab.envs:ManagerBasedRLEnv")
    monkeypatch.setitem(gymnasium.registry, "Isaac-Ant-v0", spec)
    assert IsaacLabWrapper.available_envs == ["Isaac-Ant-v0"]


def test_an_object_that_is_not_an_environment_is_rejected():
    text = (
        "IsaacLabWrapper wraps an environment of Isaac Lab and got a CartPoleEnv. "
        'Fix: gymnasium.make("Isaac-Ant-v0", cfg=AntEnvCfg()), or GymWrapper for an env of Gymnasium.'
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        IsaacLabWrapper(gymnasium.make("CartPole-v1"))
