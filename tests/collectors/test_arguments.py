"""Collectors reject invalid arguments when they are made."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from rlnb.collectors import Collector
from rlnb.envs import (
    CartPoleEnv,
    GymEnv,
    PendulumEnv,
    StepCounter,
    TransformedEnv,
)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"frames_per_batch": 0},
            ValueError,
            "frames_per_batch must be a positive integer, got 0. Fix: frames_per_batch=100.",
        ),
        (
            {"frames_per_batch": 5, "total_frames": 0},
            ValueError,
            "total_frames must be a positive integer, or -1 for no end, got 0. Fix: total_frames=-1.",
        ),
        (
            {"frames_per_batch": 5, "total_frames": 1e6},
            ValueError,
            "total_frames must be a positive integer, or -1 for no end, got 1000000.0. Fix: total_frames=1000000.",
        ),
        (
            {"frames_per_batch": 2.0},
            ValueError,
            "frames_per_batch must be a positive integer, got 2.0. Fix: frames_per_batch=2.",
        ),
        (
            {"frames_per_batch": True},
            ValueError,
            "frames_per_batch must be a positive integer, got True. Fix: frames_per_batch=100.",
        ),
        (
            {"frames_per_batch": torch.tensor(2.5)},
            ValueError,
            "frames_per_batch must be a positive integer, got tensor(2.5000). Fix: frames_per_batch=100.",
        ),
        (
            {"frames_per_batch": 5, "total_frames": None},
            ValueError,
            "total_frames must be a positive integer, or -1 for no end, got None. Fix: total_frames=-1.",
        ),
        (
            {"frames_per_batch": 5, "init_random_frames": "x"},
            ValueError,
            "init_random_frames must be a non-negative integer, got 'x'. Fix: init_random_frames=0.",
        ),
        (
            {"frames_per_batch": 5, "init_random_frames": -3},
            ValueError,
            "init_random_frames must be a non-negative integer, got -3. Fix: init_random_frames=0.",
        ),
        (
            {"frames_per_batch": 5, "init_random_frames": 1e3},
            ValueError,
            "init_random_frames must be a non-negative integer, got 1000.0. Fix: init_random_frames=1000.",
        ),
        (
            {"frames_per_batch": 5, "init_random_frames": True},
            ValueError,
            "init_random_frames must be a non-negative integer, got True. Fix: init_random_frames=0.",
        ),
        (
            {"frames_per_batch": 5, "max_frames_per_traj": -2},
            ValueError,
            "max_frames_per_traj must be a positive integer, or None for no limit, got -2. "
            "Fix: max_frames_per_traj=None.",
        ),
        (
            {"frames_per_batch": 5, "max_frames_per_traj": 2.0},
            ValueError,
            "max_frames_per_traj must be a positive integer, or None for no limit, got 2.0. "
            "Fix: max_frames_per_traj=2.",
        ),
        (
            {"frames_per_batch": 5, "postproc": "mean"},
            TypeError,
            "postproc must be a function of a batch, got a str.",
        ),
        (
            {"frames_per_batch": 5, "replay_buffer": []},
            TypeError,
            "replay_buffer must be a replay buffer, got a list. Fix: ReplayBuffer(storage=LazyTensorStorage(1000)).",
        ),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        Collector(TransformedEnv(GymEnv("CartPole-v1"), StepCounter()), **arguments)


@pytest.mark.parametrize("kind", [int, np.uint8, np.int64, torch.tensor])
def test_integers_of_every_kind(kind):
    env = CartPoleEnv(batch_size=[4])
    numbers = {"frames_per_batch": kind(10), "total_frames": kind(24), "init_random_frames": kind(3)}
    collector = Collector(env, max_frames_per_traj=kind(2), **numbers)
    assert (collector.frames_per_batch, collector.total_frames, collector.init_random_frames) == (12, 24, 3)
    batches = list(collector)
    assert [batch.shape for batch in batches] == [(4, 3)] * 2 and batches[0]["next", "truncated"][:, 1].all()
    no_limits = Collector(
        PendulumEnv(), frames_per_batch=kind(200), init_random_frames=None, max_frames_per_traj=kind(0)
    )
    assert not no_limits.next()["next", "done"].any()


def test_an_object_that_is_not_an_env_is_rejected():
    text = (
        "create_env_fn must be an env, or a function that makes one, got a str. "
        "Fix: Collector(GymEnv('CartPole-v1'), policy, frames_per_batch=100)."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        Collector("CartPole-v1", frames_per_batch=5)


def test_a_limit_for_an_env_that_counts_its_steps():
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    with pytest.raises(ValueError) as caught:
        Collector(env, frames_per_batch=5, max_frames_per_traj=3)
    assert str(caught.value) == (
        "max_frames_per_traj=3 counts steps in 'step_count', which the env has already. "
        "Fix: leave max_frames_per_traj out, and make the env with StepCounter(max_steps=3)."
    )
    assert len(env.transform.transforms if hasattr(env.transform, "transforms") else [env.transform]) == 1
