"""Parallel envs made without naming ParallelEnv: ``GymEnv(num_workers=...)`` and ``EnvBase.make_parallel``."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from rlnb.envs import EnvBase, GymEnv, ParallelEnv, SerialEnv
from tests.envs.batched.kinds import Counter


def test_a_gym_env_with_workers_is_a_parallel_env():
    env = GymEnv("Pendulum-v1", g=3.0, frame_skip=2, num_workers=2)
    assert type(env) is ParallelEnv and env.is_closed
    with env:
        assert env.rollout(3).shape == (2, 3) and not env.is_closed
        assert env.g == [3.0, 3.0] and env.frame_skip == [2, 2]
    assert env.is_closed


def test_vector_envs_in_workers():
    with GymEnv("CartPole-v1", num_workers=np.int64(2), num_envs=3) as env:
        assert env.batch_size == (2, 3) and env.rand_step(env.reset())["next", "reward"].shape == (2, 3, 1)


class MyGymEnv(GymEnv):
    """A user's subclass with an argument of its own."""

    def __init__(self, name, *, bonus=0.0, **kwargs):
        super().__init__(name, **kwargs)
        self.bonus = bonus


def test_the_workers_run_the_subclass():
    with MyGymEnv("Pendulum-v1", bonus=2.0, num_workers=2) as env:
        assert type(env) is ParallelEnv and env.bonus == [2.0, 2.0]
    assert type(MyGymEnv("Pendulum-v1", bonus=2.0)) is MyGymEnv


@pytest.mark.parametrize("n", [0, 1])
def test_one_worker_is_this_process(n):
    env = GymEnv("Pendulum-v1", num_workers=n)
    assert type(env) is GymEnv and env.batch_size == ()
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert type(copied) is GymEnv and copied.rollout(2).shape == (2,)


@pytest.mark.parametrize("n", [-1, 2.0, True, None, "2"])
def test_an_invalid_number_of_workers_is_rejected(n):
    with pytest.raises(ValueError, match=r"^num_workers must be a non-negative integer and is .*\. Fix: GymEnv"):
        GymEnv("Pendulum-v1", num_workers=n)


@pytest.mark.parametrize("maker", [EnvBase, GymEnv, Counter])
def test_make_parallel(maker):
    env = maker.make_parallel(Counter, num_envs=2, create_env_kwargs=[{"size": 1}, {"size": 10}], timeout=60.0)
    assert type(env) is ParallelEnv and env.is_closed
    with env:
        assert env.rollout(2)["next", "count"].squeeze(-1).tolist() == [[1.0, 2.0], [10.0, 20.0]]


def test_make_parallel_of_one():
    assert EnvBase.make_parallel(Counter).batch_size == torch.Size([1])
    assert type(EnvBase.make_parallel(Counter, serial_for_single=True)) is SerialEnv
    with pytest.raises(ValueError, match="num_workers"):
        EnvBase.make_parallel(Counter, num_envs=0)
