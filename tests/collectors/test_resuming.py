"""Trajectory ids after a resume: a resumed collector reuses none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlnb.collectors import Collector
from rlnb.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from rlnb.envs import CartPoleEnv, EnvBase, GymEnv, StepCounter, TransformedEnv

IDS = ("collector", "traj_ids")


def collector(env: EnvBase | None = None) -> Collector:
    """A collector of short batches."""
    env = TransformedEnv(GymEnv("Pendulum-v1"), StepCounter()) if env is None else env
    return Collector(env, frames_per_batch=6)


def ids_of(batch: Any) -> set[int]:
    return set(batch[IDS].flatten().tolist())


def test_slices_of_a_resumed_buffer_cross_no_reset(tmp_path: Path) -> None:
    def buffer() -> TensorDictReplayBuffer:
        sampler = SliceSampler(slice_len=4, traj_key=IDS)
        return TensorDictReplayBuffer(storage=LazyTensorStorage(100), sampler=sampler, batch_size=256)

    one, rb = collector(), buffer()
    rb.extend(one.next())
    rb.dumps(tmp_path)
    two, loaded = collector(), buffer()
    two.load_state_dict(one.state_dict())
    loaded.loads(tmp_path)
    loaded.extend(two.next())
    assert loaded[:][IDS].tolist() == [0] * 6 + [1] * 6
    steps = loaded.sample()["step_count"].reshape(-1, 4)
    assert (steps.diff(dim=1) == 1).all() and set(steps[:, 0].tolist()) == {0, 1, 2}


@pytest.mark.parametrize("batch_size", [[], [3]])
def test_ids_go_on_where_the_saved_collector_stood(batch_size: list[int]) -> None:
    one = collector(CartPoleEnv(batch_size=batch_size))
    count = max(one.env.batch_size.numel(), 1)
    fresh = one.state_dict()
    assert fresh["traj_ids"] == 0
    given = set().union(*(ids_of(one.next()) for _ in range(20)))
    assert one.state_dict()["traj_ids"] > max(given) >= count

    two = collector(CartPoleEnv(batch_size=batch_size))
    two.load_state_dict(fresh)
    assert two.next()[IDS][..., 0].flatten().tolist() == list(range(count)), "nothing was collected before"
    two.load_state_dict(one.state_dict())
    first = one.state_dict()["traj_ids"]
    assert two.next()[IDS][..., 0].flatten().tolist() == list(range(first, first + count))

    # A collector that goes back to an earlier state may write into the same buffer as before.
    given |= ids_of(two.next())
    two.load_state_dict(fresh)
    assert not ids_of(two.next()) & given


def test_a_state_without_ids_loads_as_before() -> None:
    one, two = collector(), collector()
    one.next()
    old = one.state_dict()
    del old["traj_ids"]
    two.load_state_dict(old)
    assert two.frames == 6 and ids_of(two.next()) == {0}
    two.load_state_dict(old)
    assert ids_of(two.next()) == {1}


@pytest.mark.parametrize("kind", [int, np.int64, torch.tensor])
def test_integers_of_every_kind_count_ids(kind: Any) -> None:
    resumed = collector()
    resumed.load_state_dict({**resumed.state_dict(), "traj_ids": kind(7)})
    assert type(resumed.state_dict()["traj_ids"]) is int and ids_of(resumed.next()) == {7}


@pytest.mark.parametrize("value", [-1, 2.0, True, None, "x"])
def test_what_counts_no_ids_is_refused_and_nothing_changes(value: Any) -> None:
    policy = nn.Linear(3, 1)
    env = TransformedEnv(GymEnv("Pendulum-v1"), StepCounter())
    refusing = Collector(env, lambda observation, _: policy(observation), frames_per_batch=6)
    refusing.policy = policy  # whose weights are part of the state
    before = refusing.next()
    weights = {key: value + 1 for key, value in policy.state_dict().items()}
    state = {**refusing.state_dict(), "policy_state_dict": weights, "frames": 600, "traj_ids": value}
    text = (
        "'traj_ids' in the state dict of a collector, the number of trajectories with an id, must be a non-negative "
        f"integer, got {value!r}. Likely cause: it was changed after it was saved. "
        "Fix: load what collector.state_dict() returned."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        refusing.load_state_dict(state)
    assert (refusing.frames, refusing.iterations) == (6, 1)
    assert all(not torch.equal(value, weights[key]) for key, value in policy.state_dict().items())
    after = refusing.next()  # goes on with the same episode
    assert ids_of(after) == ids_of(before) == {0} and after["step_count"][0] == 6
