"""MultiSyncCollector: its batches are those of single collectors, joined; weights and versions."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.collectors import Collector, MultiCollector, MultiSyncCollector, MultiSyncDataCollector, RandomPolicy
from rlnb.data import check_ted
from rlnb.envs import GymEnv
from tests.collectors.multi.making import ENVS, IDS, constant, counted, linear, pole, shut


def singles(make: Any, policy: Any, n: int, frames: int, seed: int, batches: int, **options: Any) -> list[list[Any]]:
    """The batches of single collectors with the seeds that a collector with n workers gives its workers."""
    found = []
    for rank in range(n):
        torch.manual_seed(0)
        one = Collector(make(), policy(), frames_per_batch=frames, **options)
        following = one.set_seed(seed)
        torch.manual_seed(seed)
        found.append([one.next() for _ in range(batches)])
        for batch in found[-1]:
            batch[IDS].mul_(n).add_(rank)
        assert following is not None
        seed = following
    return found


@hypothesis.given(
    kind=st.sampled_from(sorted(ENVS)),
    n=st.integers(1, 3),
    steps=st.integers(1, 12),
    cat=st.sampled_from([None, "stack", 0, -1]),
    seed=st.integers(0, 2**32),
    buffers=st.booleans(),
    restart=st.booleans(),
)
@hypothesis.settings(max_examples=min(12, hypothesis.settings().max_examples // 2))  # each starts processes
def test_batches_are_those_of_single_collectors_joined(kind, n, steps, cat, seed, buffers, restart):
    make, policy = ENVS[kind]
    policy = policy or (lambda: None)
    each = steps * max(make().batch_size.numel(), 1)
    options = {"reset_at_each_iter": restart, "set_truncated": restart}
    expected = singles(make, policy, n, each, seed, 3, **options)
    rng = torch.get_rng_state()
    collector = MultiSyncCollector(
        [make] * n, policy(), frames_per_batch=each * n, cat_results=cat, use_buffers=buffers, **options
    )
    with shut(collector):
        collector.set_seed(seed)
        for parts in zip(*expected, strict=True):
            found = collector.next()
            joined = torch.cat(parts, cat) if isinstance(cat, int) else torch.stack(parts, 0)
            assert found.batch_size == joined.batch_size
            assert bool((found == joined).all())
            assert set(found.keys(True, True)) == set(joined.keys(True, True))
            assert found.names[-1] == "time" and found.names[:-1] == [None] * (found.ndim - 1)
            assert check_ted(found).ok or isinstance(cat, int)
    assert torch.equal(rng, torch.get_rng_state())
    assert collector.frames == 3 * each * n


def test_batches_stay_as_they_are():
    with shut(MultiSyncCollector([pole] * 2, frames_per_batch=20)) as collector:
        batches = [collector.next() for _ in range(4)]
        copies = [batch.clone() for batch in batches]
        collector.next()
        assert all(bool((batch == copied).all()) for batch, copied in zip(batches, copies, strict=True))
        ids = torch.cat([batch[IDS] for batch in batches], 1)
        assert not set(ids[0].tolist()) & set(ids[1].tolist())
        steps = torch.cat([batch["step_count"] for batch in batches], 1)[..., 0]
        goes_on = ids[:, 1:] == ids[:, :-1]
        assert (steps.diff(dim=1)[goes_on] == 1).all() and (steps[:, 1:][~goes_on] == 0).all()


def test_names_and_shapes():
    assert MultiSyncDataCollector is MultiSyncCollector and MultiSyncCollector.__name__ == "MultiSyncCollector"
    with shut(MultiCollector(pole, num_workers=2, sync=True, frames_per_batch=10, total_frames=25)) as collector:
        assert type(collector) is MultiSyncCollector and len(collector) == 3
        assert [batch.shape for batch in collector] == [(2, 5)] * 3
        assert repr(collector) == (
            "MultiSyncCollector(num_workers=2, frames_per_batch=10, total_frames=25, policy_version=0)"
        )
        assert collector.stats() == {
            "frames": 30,
            "batches": 3,
            "total_frames": 25,
            "completed": True,
            "requested_frames_per_batch": 10,
            "policy_version": 0,
            "workers": 2,
            "workers_alive": 2,
        }
        assert collector.next().shape == (2, 5), "next() goes on after total_frames"


def test_frames_that_do_not_divide_evenly():
    text = (
        "frames_per_batch=41 does not divide evenly: each of the 2 workers collects whole steps of its envs, 21 "
        "frames, so that a batch has 42. Fix: frames_per_batch=42."
    )
    with pytest.warns(UserWarning) as caught, shut(MultiSyncCollector([pole] * 2, frames_per_batch=41)) as collector:
        assert [str(warning.message) for warning in caught] == [text]
        assert collector.next().shape == (2, 21) and collector.frames_per_batch == 42
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with shut(MultiSyncCollector([pole] * 2, frames_per_batch=[4, 6], cat_results=0)) as collector:
            assert collector.next().shape == (10,) and collector.frames_per_batch_worker(1) == 6
        text = r"^Batches of sizes \[\(4,\), \(6,\)\] cannot be stacked\."
        with (
            shut(MultiSyncCollector([pole] * 2, frames_per_batch=[4, 6])) as collector,
            pytest.raises(RuntimeError, match=text),
        ):
            collector.next()


def test_different_envs():
    envs = [lambda: GymEnv("Pendulum-v1", g=1.0), lambda g: GymEnv("Pendulum-v1", g=g)]
    kwargs = [{}, {"g": 2.0}]
    with shut(MultiSyncCollector(envs, create_env_kwargs=kwargs, frames_per_batch=4)) as collector:
        assert collector.getattr_env("g") == [1.0, 2.0]
        assert collector.next().shape == (2, 2)


# Weights --------------------------------------------------------------------------------------------------------------


def actions(batch: Any) -> list[float]:
    return batch["action"].flatten().unique().tolist()


@pytest.mark.parametrize("buffers", [True, False])
def test_the_learner_decides_when_weights_change(buffers):
    policy = constant(1.0)
    collector = MultiSyncCollector(
        [counted] * 2, policy, frames_per_batch=4, track_policy_version=True, use_buffers=buffers
    )
    with shut(collector):
        collector.next()
        with torch.no_grad():
            policy.module.value.fill_(0.5)
        batch = collector.next()
        assert actions(batch) == [1.0] and batch["policy_version"].unique().tolist() == [0]
        assert collector.update_policy_weights_() is None
        batch = collector.next()
        assert actions(batch) == [0.5] and batch["next", "policy_version"].unique().tolist() == [1]
        collector.update_policy_weights_(constant(-1.0).state_dict(), worker_ids=1)
        batch = collector.next()
        assert batch["action"][:, 0, 0].tolist() == [0.5, -1.0]
        assert batch["policy_version"][:, 0].tolist() == collector.worker_versions == [1, 2]
        collector.increment_version()
        batch = collector.next()
        assert collector.policy_version == collector.get_policy_version() == 3
        assert batch["policy_version"].unique().tolist() == [3] and actions(batch) == [-1.0]


@pytest.mark.parametrize("form", ["module", "tensordict", "state dict", "data"])
def test_weights_that_are_given(form):
    with shut(MultiSyncCollector([counted] * 2, policy_factory=linear, frames_per_batch=4)) as collector:
        policy = linear()
        weights = {
            "module": policy,
            "tensordict": TensorDict.from_module(policy),
            "state dict": policy.state_dict(),
            "data": TensorDict.from_module(policy).data,
        }[form]
        collector.update_policy_weights_(weights)
        batch = collector.next()
        torch.testing.assert_close(batch["action"], policy.module(batch["observation"]).detach())


def test_shared_parameters_do_not_change_in_the_middle():
    policy = constant(1.0).share_memory()
    with shut(MultiSyncCollector([counted] * 2, policy, frames_per_batch=4)) as collector:
        with torch.no_grad():
            policy.module.value.fill_(0.5)
        assert actions(collector.next()) == [1.0]
        collector.update_policy_weights_()
        assert actions(collector.next()) == [0.5]


@pytest.mark.parametrize("factory", [True, False])
def test_all_workers_begin_with_the_same_weights(factory):
    lazy = TensorDictModule(nn.LazyLinear(1), ["observation"], ["action"])
    given = {"policy_factory": lambda: linear()} if factory else {"policy": lazy}
    with shut(MultiSyncCollector([counted] * 2, frames_per_batch=4, **given)) as collector:
        batch = collector.next()
        found = [module.state_dict() for module in collector.getattr_policy("module")] if factory else [lazy.module]
        layer = nn.Linear(3, 1)
        layer.load_state_dict(found[0] if factory else lazy.module.state_dict())
        torch.testing.assert_close(batch["action"], layer(batch["observation"]).detach())
        if not factory:
            collector.update_policy_weights_()


def test_weights_that_do_not_fit_change_nothing():
    policy = constant(1.0)
    with shut(MultiSyncCollector([counted] * 2, policy, frames_per_batch=4)) as collector:
        with pytest.raises(RuntimeError) as caught:
            collector.update_policy_weights_({"module.value": torch.zeros(2)})
        assert str(caught.value) == (
            "The weights do not fit the policy: these differ in name or shape: ['module.value']. "
            "Fix: collector.update_policy_weights_(policy), with a policy of the same architecture."
        )
        with pytest.raises(TypeError, match=r"^policy_or_weights must be a module, a TensorDict of parameters"):
            collector.update_policy_weights_(3)
        with pytest.raises(IndexError) as index:
            collector.update_policy_weights_(worker_ids=[0, 2])
        assert str(index.value) == (
            "worker_ids must be indices of workers from 0 to 1, got [0, 2]. Fix: worker_ids=[0]."
        )
        assert collector.policy_version == 0 and actions(collector.next()) == [1.0]


def test_policies_without_weights():
    env = GymEnv("Pendulum-v1")
    for policy in (None, RandomPolicy(env.full_action_spec["action"])):
        with shut(MultiSyncCollector([counted] * 2, policy, frames_per_batch=4)) as collector:
            collector.update_policy_weights_()
            collector.next()
            assert collector.policy_version == 1
    net = constant(1.0)
    with shut(MultiSyncCollector([counted] * 2, lambda td: net(td), frames_per_batch=4)) as collector:
        assert actions(collector.next()) == [1.0]
        with pytest.raises(TypeError) as caught:
            collector.update_policy_weights_()
        assert str(caught.value) == (
            "update_policy_weights_ needs a policy that is a torch module, with the same weights in all workers, got a "
            "function. The workers have copies of it. Fix: MultiSyncCollector(..., policy=TensorDictModule(...))."
        )


def test_update_at_each_batch():
    policy = constant(1.0)
    with shut(MultiSyncCollector([counted] * 2, policy, frames_per_batch=4, update_at_each_batch=True)) as collector:
        for value in (1.0, 0.5, -0.5):
            with torch.no_grad():
                policy.module.value.fill_(value)
            assert actions(collector.next()) == [value]


def test_random_frames_first():
    policy = constant(0.25)
    with shut(MultiSyncCollector([counted] * 2, policy, frames_per_batch=8, init_random_frames=12)) as collector:
        drawn = [len(actions(collector.next())) > 1 for _ in itertools.repeat(None, 4)]
        assert drawn == [True, True, False, False]
