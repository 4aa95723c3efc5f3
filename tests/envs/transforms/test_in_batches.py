"""Every transform inside the envs of a batch."""

from __future__ import annotations

import pytest
import torch

from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import ParallelEnv, SerialEnv, TransformedEnv, check_env_specs
from tests.envs.transforms.test_every_transform import CASES, in_every_env, same


@in_every_env
def test_inside_each_env(case, env):  # TR-01
    def make():
        base = env()
        return TransformedEnv(base, case.make(base))

    batch = SerialEnv(2, make)
    if "function" not in case.name:
        check_env_specs(batch, seed=0)
    batch.set_seed(0)
    found = batch.rollout(12, break_when_any_done=False)
    assert found.batch_size == (2, 12)
    alone = make().rollout(2)
    layout = {key: (alone.get(key).shape[1:], alone.get(key).dtype) for key in leaf_keys(alone)}
    assert {key: (found.get(key).shape[2:], found.get(key).dtype) for key in leaf_keys(found)} == layout


CHOSEN = [case for case in CASES if case.name in ("StepCounter(max_steps)", "RewardSum", "VecNorm(frozen)", "Compose")]


@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_in_processes(case):  # TR-01
    def make():
        base = case.envs[0]()
        return TransformedEnv(base, case.make(base))

    found = []
    for kind in (SerialEnv, ParallelEnv):
        batch = kind(2, make)
        try:
            torch.manual_seed(0)
            batch.set_seed(0)
            found.append(batch.rollout(8, break_when_any_done=False))
        finally:
            batch.close()
    assert same(found[0], found[1])
