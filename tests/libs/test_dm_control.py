"""DMControlEnv and DMControlWrapper beside dm_control."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dm_control import suite
from dm_control.locomotion.examples import basic_cmu_2019

from rlnb.envs import DMControlEnv, DMControlWrapper, ParallelEnv, check_env_specs
from tests.libs.wrappers import assert_keeps_promises, assert_plays_frames

TASKS = [("cheetah", "run"), ("cartpole", "swingup"), ("walker", "walk"), ("lqr", "lqr_2_1"), ("quadruped", "walk")]


@pytest.mark.parametrize("names", TASKS, ids=lambda names: names[0])
def test_it_keeps_its_promises(names):
    assert_keeps_promises(lambda: DMControlEnv(*names))


def test_all_tasks_fit_their_specs():
    available = DMControlEnv.available_envs
    assert (
        "cartpole",
        ["balance", "balance_sparse", "swingup", "swingup_sparse", "three_poles", "two_poles"],
    ) in available
    for domain, tasks in available:
        check_env_specs(DMControlEnv(domain, tasks[0]))


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("names", TASKS[:4], ids=lambda names: names[0])
def test_the_data_is_that_of_the_librarys_own_loop(names, rows):
    env = DMControlEnv(*names, time_limit=0.4)
    env.set_seed(11)
    env.run_type_checks = not rows
    assert env._fills_rows is rows
    data = env.rollout(50, break_when_any_done=False)
    own = suite.load(*names, task_kwargs={"random": 11, "time_limit": 0.4})
    before, lasts = own.reset(), 0
    for t in range(50):
        after = own.step(data["action"][t].numpy())
        for found, expected in ((data[t], before), (data["next"][t], after)):
            for key, value in expected.observation.items():
                assert found[key].dtype is torch.float64
                assert np.array_equal(found[key].numpy(), np.reshape(value, found[key].shape)), (t, key)
        now = data["next"][t]
        assert now["reward"].item() == after.reward and now["done"].item() == after.last()
        assert now["terminated"].item() == (after.last() and after.discount == 0)
        before, lasts = own.reset() if after.last() else after, lasts + after.last()
    assert lasts >= 1


def test_an_episode_may_end_by_its_task():
    env = DMControlEnv("lqr", "lqr_2_1")
    env.set_seed(0)
    env.reset()
    with env.physics.reset_context():
        env.physics.data.qpos[:] = env.physics.data.qvel[:] = 0  # at the origin the task is done
    td = env.step(env.full_action_spec.zero())
    assert td["next", "terminated"] and not td["next", "truncated"]


def test_frame_skip_sums_rewards():
    env, own = DMControlEnv("cartpole", "swingup", frame_skip=3), suite.load("cartpole", "swingup", {"random": 2})
    env.set_seed(2)
    data = env.rollout(10)
    own.reset()
    for t in range(10):
        steps = [own.step(data["action"][t].numpy()) for _ in range(3)]
        assert data["next", "reward"][t].item() == pytest.approx(sum(step.reward for step in steps), abs=1e-12)
        assert np.array_equal(data["next", "position"][t].numpy(), steps[-1].observation["position"])


def test_wrapped_environments():
    env = DMControlWrapper(suite.load("cheetah", "run"))
    assert_keeps_promises(lambda: DMControlWrapper(suite.load("cheetah", "run")))
    assert env.physics is env._env.physics and env.control_timestep() == env._env.env.control_timestep()
    flat = DMControlEnv("cheetah", "run", environment_kwargs={"flat_observation": True})
    assert flat.rollout(2)["observations"].shape == (2, 17)


def test_environments_of_the_composer():
    env = DMControlWrapper(basic_cmu_2019.cmu_humanoid_run_walls(), from_pixels=False)
    env.set_seed(0)
    check_env_specs(env)
    assert env.rollout(3)["next", "reward"].dtype is torch.float64


@pytest.fixture
def renderer(missing):
    """Leave a test out aloud where dm_control cannot render."""
    env = DMControlEnv("cartpole", "balance")
    env.reset()
    try:
        env.render()
    except RuntimeError as error:
        missing("renderer", str(error), optional=True)


def test_frames_in_the_player(renderer):
    assert_plays_frames(DMControlEnv("cheetah", "run"))
    env = DMControlEnv("cartpole", "swingup", from_pixels=True, pixels_only=False, height=48, width=64, camera_id=1)
    check_env_specs(env)
    data = env.rollout(3)
    assert data["pixels"].shape == (3, 48, 64, 3) and data["position"].shape == (3, 3)
    assert np.array_equal(data["next", "pixels"][-1].numpy(), env.physics.render(48, 64, camera_id=1))
    assert list(DMControlEnv("cheetah", "run", from_pixels=True).observation_spec.keys()) == ["pixels"]
    with pytest.raises(Exception, match="Object of type 'camera' with name 'behind' does not exist"):
        DMControlEnv("cartpole", "swingup", camera_id="behind", from_pixels=True)


def test_processes(renderer):
    with DMControlEnv("cartpole", "swingup", num_workers=2) as env:
        assert isinstance(env, ParallelEnv) and env.rollout(3)["velocity"].shape == (2, 3, 2)
    with ParallelEnv(2, lambda: DMControlEnv("cheetah", "run", from_pixels=True, pixels_only=False, height=24)) as env:
        data = env.rollout(3)
    assert data["pixels"].shape == (2, 3, 24, 320, 3) and data["velocity"].shape == (2, 3, 9)


def test_names():
    with pytest.raises(ValueError) as caught:
        DMControlEnv("walkr", "walk")
    assert str(caught.value) == "There is no environment 'walkr' in dm_control's suite. Did you mean 'walker'?"
    with pytest.raises(ValueError, match="Did you mean 'swingup', 'swingup_sparse'"):
        DMControlEnv("cartpole", "swing_up")
