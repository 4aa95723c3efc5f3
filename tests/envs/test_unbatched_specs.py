"""Specs of one env of a batch."""

from __future__ import annotations

import pytest
import torch

from rlnb.data import Bounded, Composite, Unbounded

NAMES = ["action", "observation", "reward", "done", "state"]
ALL = [f"{name}_spec" for name in NAMES] + [f"full_{name}_spec" for name in NAMES] + ["input_spec", "output_spec"]


@pytest.mark.parametrize("batch", [(), (3,), (2, 4)])
@pytest.mark.parametrize("name", ALL)
def test_the_batch_dimensions_are_gone(counter, name, batch):
    env = counter(batch)
    whole, single = getattr(env, name), getattr(env, f"single_{name}")
    assert single == getattr(env, f"{name}_unbatched")
    assert single.shape == whole.shape[len(batch) :]
    if name != "done_spec":
        assert single.expand(*batch, *single.shape) == whole
    one = counter(())
    assert single == getattr(one, name)


def test_setting_one_gives_it_to_every_env(counter):
    env = counter((2, 3))
    env.single_action_spec = Bounded(-1, 1, shape=(4,))
    assert env.action_spec == Bounded(-1, 1, shape=(4,)).expand(2, 3, 4)
    env.observation_spec_unbatched = Composite(x=Unbounded(shape=(5,)), y=Composite(z=Unbounded(shape=())))
    assert env.observation_spec["x"].shape == (2, 3, 5) and env.observation_spec["y", "z"].shape == (2, 3)
    assert env.observation_spec.shape == torch.Size((2, 3))
