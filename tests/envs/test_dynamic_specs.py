"""Dynamic specs: sizes of -1, in one env and in batches whose rows differ in size."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict, lazy_stack

from rlnb.envs import (
    AutoResetEnv,
    ParallelEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
    step_mdp,
)
from rlnb.envs.check import varying_entries
from tests.envs.dynamic import Comes, EnvWithDynamicSpec, Goes, MoreDims, Undeclared

batches = pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])


def sizes(data, key="observation"):
    """The varying size, row by row; checks that every observation is full of its own time."""
    if isinstance(data, LazyStackedTensorDict):
        return [sizes(row, key) for row in data.unbind(0)]
    value = data.get(key)
    assert value.shape[0] == 3 and value.shape[2] == 2 and bool((value == value.flatten()[0]).all())
    return value.shape[1]


def lazily(env, steps, **kwargs):
    return env.rollout(steps, return_contiguous=False, break_when_any_done=False, **kwargs)


def cycle(length, start, steps):
    return [start + t % length for t in range(steps)]


def ends(length, start, steps):
    return [start + t % length + 1 for t in range(steps)]


# One env --------------------------------------------------------------------------------------------------------------


def test_the_documented_example():
    env = EnvWithDynamicSpec()
    found = env.rollout(5, return_contiguous=False)
    assert isinstance(found, LazyStackedTensorDict) and found.batch_size == (5,) and found.names == ["time"]
    assert sizes(found) == [1, 2, 3, 4, 5] and sizes(found["next"]) == [2, 3, 4, 5, 6]
    lines = [line.strip() for line in repr(found).splitlines()]
    shown = [line for line in lines if line.startswith("observation: ")]
    assert len(shown) == 2 and all(re.search(r"\b3, ?-1, ?2\b", line) for line in shown)
    assert found["next", "done"].flatten().tolist() == [False] * 4 + [True]


def test_reset_step_and_maybe_reset():
    env, roots = EnvWithDynamicSpec(2), []
    td = env.reset()
    for _ in range(5):
        roots.append(sizes(td))
        step, td = env.step_and_maybe_reset(env.rand_action(td))
        assert sizes(step["next"]) == roots[-1] + 1
    assert roots == [1, 2, 1, 2, 1]


def test_goes_on_after_an_end():
    assert sizes(lazily(EnvWithDynamicSpec(3), 7)) == cycle(3, 1, 7)


def test_step_mdp_of_a_lazy_stack():
    found = EnvWithDynamicSpec().rollout(5, return_contiguous=False)
    after = step_mdp(found)
    assert isinstance(after, LazyStackedTensorDict) and sizes(after) == [2, 3, 4, 5, 6]
    assert set(after.keys()) == {"observation", "done", "terminated", "truncated"}


def test_a_contiguous_rollout_says_what_varies():
    text = (
        "The entry 'observation' has shape (3, 1, 2) at step 0 and (3, 2, 2) at step 1, so the steps do not fit into "
        "one tensor. Fix: rollout(..., return_contiguous=False)."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        EnvWithDynamicSpec().rollout(5)


def test_one_size_is_contiguous():
    assert EnvWithDynamicSpec().rollout(1)["observation"].shape == (1, 3, 1, 2)


def test_fake_tensordict_is_in_the_specs():
    env = EnvWithDynamicSpec()
    assert env.observation_spec.is_in(env.fake_tensordict().select("observation"))


@pytest.mark.parametrize("length", [1, 2, 5])
def test_check_env_specs_passes(length):
    check_env_specs(EnvWithDynamicSpec(length))


REFUSED = {
    Goes: (
        "Goes does not keep to its specs: 1 problem.\n\n"
        "  seen at  entry        problem  expected                                               got\n"
        "  step 2   observation  missing  a tensor of shape [3, any, 2] and dtype torch.float32  nothing\n\n"
        "What to do:\n"
        "  - observation: It is there at step 1 and not at step 2: no spec describes an entry that comes and goes, and "
        "the steps of a rollout would not fit together. Return it at every step, with -1 in its shape if its size "
        "varies."
    ),
    Comes: (
        "Comes does not keep to its specs: 1 problem.\n\n"
        "  seen at  entry  problem  expected                                                    got\n"
        "  step 2   more   extra    'observation', 'done', 'terminated', 'truncated', 'reward'  Tensor\n\n"
        "What to do:\n"
        "  - more: It is there at step 2 and not at step 1: no spec describes an entry that comes and goes, and the "
        "steps of a rollout would not fit together. Return it at every step, with -1 in its shape if its size varies."
    ),
    MoreDims: (
        "MoreDims does not keep to its specs: 1 problem.\n\n"
        "  seen at  entry        problem  expected     got\n"
        "  step 2   observation  shape    [3, any, 2]  [3, 1, 1, 2]\n\n"
        "What to do:\n"
        "  - observation: It has 3 dimensions at reset and 4 at step 2: -1 in a spec stands for any size, not for any "
        "number of dimensions. Always return the same number of dimensions, some of size 1 if need be."
    ),
    Undeclared: (
        "Undeclared does not keep to its specs: 1 problem.\n\n"
        "  seen at  entry        problem  expected   got\n"
        "  step 1   observation  shape    [3, 1, 2]  [3, 2, 2]\n\n"
        "What to do:\n"
        "  - observation: Its shape is (3, 1, 2) at reset and (3, 2, 2) at step 1: use -1 for sizes that vary, "
        "shape=(3, -1, 2)."
    ),
}


@pytest.mark.parametrize("env", REFUSED, ids=lambda env: env.__name__)
def test_check_env_specs_refuses(env):
    with pytest.raises(AssertionError, match=f"^{re.escape(REFUSED[env])}$"):
        check_env_specs(env())


@pytest.mark.parametrize("env", [Comes, MoreDims], ids=lambda env: env.__name__)
def test_check_env_specs_refuses_it_in_a_batch(env):
    with pytest.raises(AssertionError, match=r"It is there at step 2 and not at|It has 4 dimensions at reset and 5 at"):
        check_env_specs(SerialEnv(2, env))


def test_an_entry_that_goes_stops_a_rollout():
    with pytest.raises(RuntimeError, match=r"^The data of Goes's step .* its specs:\n  - observation: missing"):
        Goes().rollout(5, return_contiguous=False)


def test_what_varies_is_told_of_rows():
    rows = [[1, 2], [2, 2]]
    seen = [lazy_stack([TensorDict({"a": torch.zeros(n)}) for n in row]) for row in rows]
    reason = "Its shape is (2, 1) at reset and (2, 2) at reset: use -1 for sizes that vary, shape=(2, -1)."
    assert varying_entries(seen) == {("a",): reason}
    assert varying_entries([TensorDict({"a": torch.zeros(2)})] * 3) == {}


# Batches --------------------------------------------------------------------------------------------------------------


def mixed(batch):
    """Rows that end after 5 and after 3 steps, and start with 1 and with 4: no two sizes are the same."""
    return batch(2, [lambda: EnvWithDynamicSpec(5, 1), lambda: EnvWithDynamicSpec(3, 4)])


@batches
def test_the_documented_example_in_a_batch(batch):
    with batch(2, EnvWithDynamicSpec) as env:
        assert env._block is None
        found = env.rollout(5, return_contiguous=False)
        assert sizes(found) == [[1, 2, 3, 4, 5]] * 2 and found.names == [None, "time"]
        check_env_specs(env)


@batches
def test_rows_of_different_sizes_with_resets(batch):
    with mixed(batch) as env:
        assert sizes(env.reset()) == [1, 4]
        found = lazily(env, 8)
        assert sizes(found) == [cycle(5, 1, 8), cycle(3, 4, 8)]
        assert sizes(found["next"]) == [ends(5, 1, 8), ends(3, 4, 8)]
        assert found["next", "done"].squeeze(-1).nonzero().tolist() == [[0, 4], [1, 2], [1, 5]]
        assert not found["done"].any()
        assert sizes(step_mdp(found)) == sizes(found["next"])
        check_env_specs(env)


@batches
def test_step_and_maybe_reset_in_a_batch(batch):
    with mixed(batch) as env:
        td, roots = env.reset(), []
        for _ in range(8):
            roots.append(sizes(td))
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        assert roots == [list(row) for row in zip(cycle(5, 1, 8), cycle(3, 4, 8), strict=True)]


@batches
@pytest.mark.parametrize("mask", [[True, False], [False, True], [True, True]], ids=str)
def test_partial_resets(batch, mask):
    with mixed(batch) as env:
        root = step_mdp(lazily(env, 2)[:, -1])
        found = env.reset(root.set("_reset", torch.tensor(mask).unsqueeze(-1)))
        assert sizes(found) == [1 if mask[0] else 3, 4 if mask[1] else 6]
        assert "_reset" not in found.keys()  # noqa: SIM118 - of a TensorDict


@batches
def test_transforms_around_a_batch(batch):
    with mixed(batch) as base:
        env = TransformedEnv(TransformedEnv(base, StepCounter(4), auto_unwrap=False), RewardSum(), auto_unwrap=False)
        found = lazily(env, 8)
        assert sizes(found) == [cycle(4, 1, 8), cycle(3, 4, 8)]
        assert found["step_count"].squeeze(-1).tolist() == [cycle(4, 0, 8), cycle(3, 0, 8)]
        check_env_specs(env)


def test_a_dense_input_of_a_partial_reset():
    env = TransformedEnv(mixed(SerialEnv), StepCounter())
    env.reset()
    given = env.full_done_spec.zero()
    given.update({"_reset": torch.tensor([[True], [False]]), "observation": torch.zeros(2, 3, 7, 2)})
    assert type(given) is TensorDict
    assert sizes(env.reset(given)) == [1, 7]


@batches
def test_a_contiguous_rollout_of_a_batch_says_what_varies(batch):
    text = (
        "The entry 'observation' has, at step 0, shape (3, 1, 2) in env 0 and (3, 4, 2) in env 1, so the envs do not "
        "fit into one tensor. Fix: rollout(..., return_contiguous=False)."
    )
    with mixed(batch) as env, pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rollout(3)


def test_buffers_are_refused():
    text = (
        "use_buffers=True needs entries of fixed shape and dtype, which these lack: ['observation']. "
        "Fix: leave use_buffers out; the data then goes through messages, which is slower."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        SerialEnv(2, EnvWithDynamicSpec, use_buffers=True).reset()


# With auto-resets -----------------------------------------------------------------------------------------------------


class Restarting(EnvWithDynamicSpec):
    """Restarts by itself."""

    def _step(self, tensordict):
        result = super()._step(tensordict)
        if result["done"].any():
            result.update(self._reset().select("observation"))
        return result


def test_auto_resets():
    env = Restarting(3, auto_reset=True)
    assert type(env) is AutoResetEnv
    found = lazily(env, 7)
    assert sizes(found) == cycle(3, 1, 7)
    assert [bool(row["next", "observation"].isnan().all()) for row in found.unbind(0)] == [t % 3 == 2 for t in range(7)]
    check_env_specs(env)


@batches
def test_auto_resets_in_a_batch(batch):
    with batch(2, [lambda: Restarting(5, 1), lambda: Restarting(3, 4)], auto_reset=True) as env:
        found = lazily(env, 8)
        assert sizes(found) == [cycle(5, 1, 8), cycle(3, 4, 8)]
        unknown = [[bool(td["next", "observation"].isnan().all()) for td in row.unbind(0)] for row in found.unbind(0)]
        assert unknown == found["next", "done"].squeeze(-1).tolist()
        check_env_specs(env)
