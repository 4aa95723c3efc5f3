"""Every transform inside the envs of a batch, in this process and in others."""

from __future__ import annotations

import pytest
import torch
from tensordict import assert_close

from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import Compose, ParallelEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv, VecNorm, check_env_specs
from tests.envs.transforms.cases import Numbers
from tests.envs.transforms.test_every_transform import CASES, FIRST, in_envs, same

# The order in which a network adds up depends on the number of threads, and a worker has fewer than this process.
NETWORKS = ("R3MTransform", "VC1Transform")


def layout(td, n_lead):
    """The shape and dtype of each entry, without the first dimensions."""
    return {key: (td.get(key).shape[n_lead:], td.get(key).dtype) for key in leaf_keys(td)}


@in_envs(of=FIRST)
def test_inside_each_env(case, env):
    def make():
        base = env()
        return TransformedEnv(base, case.make(base))

    batch = SerialEnv(2, make)
    if "function" not in case.name:
        check_env_specs(batch, seed=0)
    batch.set_seed(0)
    found = batch.rollout(4, break_when_any_done=False)
    assert found.batch_size == (2, 4)
    assert layout(found, 2) == layout(make().rollout(2), 1)


def here_and_elsewhere(n, make):
    """Roll out a batch of ``n`` envs in this process, and one in processes of their own."""
    found = []
    for kind in (SerialEnv, ParallelEnv):
        batch = kind(n, make)
        try:
            torch.manual_seed(0)
            batch.set_seed(0)
            found.append(batch.rollout(8, break_when_any_done=False))
        finally:
            batch.close()
    return found


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=str(case), marks=() if case in FIRST else pytest.mark.deep) for case in CASES],
)
def test_in_a_worker(case):
    def make():
        base = case.envs[0]()
        return TransformedEnv(base, case.make(base))

    here, elsewhere = here_and_elsewhere(1, make)
    if "random" in case.name:  # a worker draws from a generator of its own
        assert layout(here, 2) == layout(elsewhere, 2)
    elif case.name in NETWORKS:
        assert_close(here, elsewhere, rtol=1e-4, atol=1e-5)
    else:
        assert same(here, elsewhere)


def test_in_several_workers():
    def make():
        return TransformedEnv(Numbers(), Compose(StepCounter(3), RewardSum(), VecNorm(["position"])))

    here, elsewhere = here_and_elsewhere(3, make)
    assert same(here, elsewhere) and bool(here["next", "truncated"].any())
