"""IsaacGymWrapper and IsaacGymEnv around a stand-in for a task of IsaacGymEnvs.

It follows ``VecTask`` and ``Cartpole`` of IsaacGymEnvs 1.5:
https://github.com/isaac-sim/IsaacGymEnvs/blob/main/isaacgymenvs/tasks/base/vec_task.py and ``../cartpole.py``.
Isaac Gym itself needs a GPU and a download by hand.
"""

from __future__ import annotations

import re
import sys
import types

import gymnasium
import numpy as np
import pytest
import torch

from rlnb.envs import IsaacGymEnv, IsaacGymWrapper, check_env_specs


class Task:
    """Counts. Robot i falls after ``3 + i`` steps; the time is over after five. Resets come at the start of a step."""

    device = rl_device = "cpu"
    clip_obs = 100.0
    max_episode_length = 6

    def __init__(self, num_envs=4, num_states=0):
        self.num_envs, self.num_states, self.viewer = num_envs, num_states, None
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.state_space = gymnasium.spaces.Box(-np.inf, np.inf, (num_states,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.obs_buf, self.states_buf = torch.zeros(num_envs, 2), torch.zeros(num_envs, num_states)
        self.t, self.start = torch.zeros(num_envs), torch.zeros(num_envs)
        self.progress_buf, self.reset_buf = (
            torch.zeros(num_envs, dtype=torch.long),
            torch.ones(num_envs, dtype=torch.long),
        )
        self.late = 0

    def reset_idx(self, env_ids):
        self.t[env_ids], self.start[env_ids] = 0, torch.rand(len(env_ids))
        self.progress_buf[env_ids] = self.reset_buf[env_ids] = 0

    def compute_observations(self):
        self.obs_buf[:] = torch.stack([self.t, self.start], -1)  # the same memory each time
        self.states_buf[:] = self.t[:, None]

    def get_state(self):
        return self.states_buf.clone()

    def step(self, actions):
        assert actions.shape == (self.num_envs, 1)
        self.t += 1
        self.progress_buf += 1
        ids = self.reset_buf.nonzero().squeeze(-1)
        if len(ids):
            self.late += 1
            self.reset_idx(ids)
        self.compute_observations()
        fallen = self.t >= 3 + torch.arange(self.num_envs)
        over_time = self.progress_buf >= self.max_episode_length - 1
        self.reset_buf = (fallen | over_time).long()
        found = {"obs": torch.clamp(self.obs_buf, -self.clip_obs, self.clip_obs)}
        if self.num_states:
            found["states"] = self.get_state()
        return found, actions[:, 0], self.reset_buf, {"time_outs": over_time & (self.reset_buf != 0)}

    def render(self, mode="rgb_array"):
        return self.viewer


def test_every_step_is_a_true_transition():
    task = Task(num_states=3)
    env = IsaacGymWrapper(task)
    check_env_specs(env)
    data = env.rollout(20, break_when_any_done=False)
    assert data.batch_size == (4, 20) and data["states"].shape == (4, 20, 3)
    for i in range(4):
        length = min(3 + i, 5)
        expected = [t % length for t in range(20)]
        assert data["obs"][i, :, 0].tolist() == expected
        assert data["next", "obs"][i, :, 0].tolist() == [t + 1 for t in expected]
        assert torch.equal(data["next", "obs"][i, :, 1], data["obs"][i, :, 1])
        assert data["next", "done"][i].squeeze(-1).tolist() == [t == length - 1 for t in expected]
        assert torch.equal(data["next", "truncated" if i >= 2 else "terminated"][i], data["next", "done"][i])
    assert not (data["next", "truncated"] & data["next", "terminated"]).any()
    assert torch.equal(data["next", "reward"], data["action"])
    assert task.late == 0  # all resets came before the step that would have been lost to them


def test_some_robots_are_reset_and_the_others_go_on():
    env = IsaacGymWrapper(Task())
    td = env.rand_step(env.reset())
    after = env.reset(env._step_mdp(td).set("_reset", torch.tensor([[False], [True], [False], [True]])))
    assert after["obs"][:, 0].tolist() == [1, 0, 1, 0]


def test_data_is_not_overwritten():
    env = IsaacGymWrapper(Task())
    first = env.reset()
    kept = first.clone()
    env.rand_step(first)
    assert torch.equal(first["obs"], kept["obs"])


def test_seeds_repeat():
    found = []
    with torch.random.fork_rng():
        for seed in (3, 3, 4):
            env = IsaacGymWrapper(Task())
            env.set_seed(seed)
            found.append(env.reset()["obs"])
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_frames():
    env = IsaacGymWrapper(Task())
    env.reset()
    with pytest.raises(RuntimeError) as caught:
        env.render()
    assert str(caught.value) == (
        "The task renders no frames: it has no viewer, or it is not captured. Fix: "
        "IsaacGymEnv(..., headless=False, virtual_screen_capture=True)."
    )
    env._env.viewer = np.zeros((4, 5, 3), np.uint8)
    assert env.render().shape == (4, 5, 3)


def test_an_object_that_is_not_a_task_is_rejected():
    text = (
        "IsaacGymWrapper wraps a task of IsaacGymEnvs, which has reset_idx and compute_observations, and got a str. "
        'Fix: IsaacGymEnv("Ant", num_envs=2000, device="cuda:0").'
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        IsaacGymWrapper("Ant")


@pytest.fixture
def isaacgymenvs(monkeypatch):
    """Stands for both packages."""
    whole, tasks = types.ModuleType("isaacgymenvs"), types.ModuleType("isaacgymenvs.tasks")
    whole.made = []

    def make(seed, task, num_envs, sim_device, rl_device, graphics_device_id=-1, headless=False, cfg=None):
        whole.made.append((seed, task, num_envs, sim_device, rl_device, headless))
        return Task(num_envs)

    whole.make, tasks.isaacgym_task_map = make, {"Cartpole": Task, "Ant": Task}
    for name, module in (("isaacgym", types.ModuleType("isaacgym")), ("isaacgymenvs", whole)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "isaacgymenvs.tasks", tasks)
    return whole


def test_tasks_are_made_by_their_names(isaacgymenvs):
    env = IsaacGymEnv(task="Cartpole", num_envs=3, device="cpu")
    check_env_specs(env)
    assert isaacgymenvs.made == [(0, "Cartpole", 3, "cpu", "cpu", True)]
    assert env.batch_size == (3,) and "Cartpole" in repr(env)
    assert IsaacGymEnv.available_envs == ["Ant", "Cartpole"]
    with pytest.raises(ValueError) as caught:
        IsaacGymEnv("Cartpol", num_envs=3, device="cpu")
    assert str(caught.value) == "There is no environment 'Cartpol' in IsaacGymEnvs. Did you mean 'Cartpole'?"


def test_without_the_tasks(isaacgymenvs, monkeypatch):
    for name in ("isaacgymenvs", "isaacgymenvs.tasks"):
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError) as caught:
        IsaacGymEnv("Ant", num_envs=3, device="cpu")
    assert str(caught.value) == (
        "IsaacGymEnv needs isaacgymenvs, which is not installed. Fix: git clone "
        "https://github.com/isaac-sim/IsaacGymEnvs, then pip install -e . in it."
    )


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "isaacgym", None)  # as if it could not be found
    assert IsaacGymEnv.available_envs == []
    with pytest.raises(ImportError, match=r"^IsaacGymEnv needs isaacgym, which is not installed"):
        IsaacGymEnv("Ant", num_envs=3, device="cpu")
