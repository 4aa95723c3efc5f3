"""The documented examples of ParallelEnv, SerialEnv and EnvCreator, verbatim."""

from __future__ import annotations

import pytest
import torch

from rlnb.envs import (
    EnvCreator,
    GymEnv,
    ParallelEnv,
    PendulumEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
    step_mdp,
)
from tests.envs.batched.kinds import Counter


def test_attributes_of_all_envs():
    def make_env():
        return GymEnv("Pendulum-v1", g=9.81)

    check_env_specs(make_env())
    env = ParallelEnv(4, make_env)
    assert env.batch_size == torch.Size([4])
    a, b, c, d = env.g
    assert a == b == c == d == 9.81
    env.close()


def test_custom_attributes_and_methods():
    env = ParallelEnv(3, Counter)
    assert env.colour == ["red"] * 3
    assert env.add(1, b=2) == [4] * 3
    env.close()


def test_serial_and_parallel_from_one_creator():
    make_env = EnvCreator(lambda: GymEnv("Pendulum-v1"))
    env = SerialEnv(2, make_env)
    assert env.rollout(10).batch_size == (2, 10)
    env = ParallelEnv(2, make_env)
    assert env.rollout(10).batch_size == (2, 10)
    env.close()
    env = ParallelEnv(1, make_env, serial_for_single=True)
    assert isinstance(env, SerialEnv)


def test_two_tasks():
    env = ParallelEnv(2, [lambda: GymEnv("Pendulum-v1", g=9.81), lambda: GymEnv("Pendulum-v1", g=1.62)])
    rollout = env.rollout(10)
    for i, g in enumerate(env.g):
        alone = rollout[i]
        assert alone.batch_size == (10,) and alone["next", "observation"].shape == (10, 3)
        assert (9.81, 1.62)[i] == g
    env.close()


def test_specs_are_checked_first():
    def make_env():
        return PendulumEnv()

    env = make_env()
    check_env_specs(env)
    env = ParallelEnv(2, make_env)
    check_env_specs(env)
    env.close()


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_a_partial_reset(batch):
    with batch(4, lambda: GymEnv("Pendulum-v1")) as env:
        data = env.rollout(3)[:, -1]
        reset = torch.tensor([[True], [False], [True], [False]])
        data = step_mdp(data).set("_reset", reset)
        before = data["observation"].clone()
        after = env.reset(data)
        assert "_reset" not in after
        changed = (after["observation"] != before).any(-1, keepdim=True)
        assert torch.equal(changed, reset)


def test_a_loop_that_never_stops():  # step_and_maybe_reset on the page of ParallelEnv
    def rollout(env, n):
        data_ = env.reset()
        result = []
        for _ in range(n):
            data, data_ = env.step_and_maybe_reset(env.rand_action(data_))
            result.append(data)
        return torch.stack(result)

    env = ParallelEnv(2, lambda: GymEnv("CartPole-v1"))
    data = rollout(env, 2)
    assert data.batch_size == (2, 2)
    assert sorted(data.keys()) == ["action", "done", "next", "observation", "terminated", "truncated"]
    assert sorted(data["next"].keys()) == ["done", "observation", "reward", "terminated", "truncated"]
    env.close()


def test_rollouts_with_transforms():  # the rollout examples, batched
    env = TransformedEnv(ParallelEnv(3, lambda: GymEnv("Pendulum-v1")), StepCounter(max_steps=20))
    env = env.append_transform(RewardSum())
    data = env.rollout(max_steps=1000)
    assert data.batch_size == (3, 20) and data.names == [None, "time"]
    stops = env.rollout(max_steps=30, break_when_any_done=False)
    assert stops.batch_size == (3, 30) and stops["next", "done"].sum() == 3
    env.close()


def test_start_and_close():
    env = ParallelEnv(2, EnvCreator(lambda: GymEnv("CartPole-v1", render_mode="rgb_array")))
    env.start()
    env = env.append_transform(StepCounter())
    assert env.rollout(3).batch_size == (2, 3)
    check_env_specs(env)
    frames = env.base_env.render()
    assert len(frames) == 2 and frames[0].shape == (400, 600, 3)
    env.close()


def test_collecting_in_epochs():
    env = ParallelEnv(2, lambda: GymEnv("CartPole-v1"))
    input_td = env.reset()
    for _ in range(3):
        rollout_td = env.rollout(max_steps=20, break_when_any_done=False, auto_reset=False, tensordict=input_td)
        input_td = step_mdp(rollout_td[..., -1])
    assert rollout_td.batch_size == (2, 20)
    env.close()
