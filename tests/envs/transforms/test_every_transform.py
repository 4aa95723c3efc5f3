"""Every transform in every place: alone, in an env, in a batch, in a Compose, with partial resets, copied."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import Compose, EnvBase, InitTracker, StepCounter, TransformedEnv, check_env_specs, transforms
from rlnb.envs.transforms.transform import as_transform
from tests.envs.transforms import cases, cases_images, cases_numbers

CASES = [*cases.CASES, *cases_images.CASES, *cases_numbers.CASES]

#: The transforms that do not go with the envs of the table: why, and where they have one of their own.
APART = {
    "AutoResetEnv": "its env resets itself: tests/envs/test_auto_reset.py",
    "AutoResetTransform": "likewise",
    "BatchSizeTransform": "it changes the batch size: test_batch_and_device.py",
    "NoopResetEnv": "it takes single envs alone: test_episodes.py",
    "PinMemoryTransform": "it needs a GPU: test_buffer_transforms.py",
    "VIPRewardTransform": "its resets are given a goal: test_embeddings.py",
    "VIPTransform": "an R3MTransform with another, larger network: test_embeddings.py",
    "BurnInTransform": "for buffers alone: test_in_buffers.py",
    "MultiStepTransform": "likewise",
    "RandomCropTensorDict": "likewise",
    "Reward2GoTransform": "likewise",
}


def kinds(transform):
    """The names of the classes of a transform and of all in it."""
    members = [kind for member in transform for kind in kinds(member)] if isinstance(transform, Compose) else []
    return [type(transform).__name__, *members]


def test_every_transform_has_a_place_in_the_table():
    listed = {kind for case in CASES for kind in kinds(as_transform(case.make(case.envs[0]())))}
    bases = {"Transform", "ObservationTransform", "TransformedEnv"}
    assert set(transforms.__all__) - bases - listed == set(APART)


every = pytest.mark.parametrize("case", CASES, ids=str)
IN_ENVS = [pytest.param(case, env, id=f"{case}-{env.__name__}") for case in CASES for env in case.envs]
#: The first case of each transform. A test of the place of a transform has those with other options in the deep part.
FIRST = list({str(case).partition("(")[0]: case for case in reversed(CASES)}.values())


def in_turn(*values, deep=True, of=CASES):
    """Put each case in each of its envs, and with each of the values, of which another comes first in the next case.

    All but the first of each case are marked ``deep``, unless that is false, and all of a case that is not in ``of``.
    """
    rows = []
    for nth, case in enumerate(CASES):
        for i in range(max(len(case.envs), len(values))):
            env, value = case.envs[i % len(case.envs)], values[(nth + i) % len(values)]
            marks = pytest.mark.deep if (i and deep) or case not in of else ()
            rows.append(pytest.param(case, env, value, id=f"{case}-{env.__name__}-{value}", marks=marks))
    return rows


def in_envs(of=CASES):
    """Put each case in each of its envs. All but the first env are ``deep``, as is a case that is not in ``of``."""
    rows = []
    for each in IN_ENVS:
        case, env = each.values
        marks = () if env is case.envs[0] and case in of else pytest.mark.deep
        rows.append(pytest.param(case, env, id=each.id, marks=marks))
    return pytest.mark.parametrize(("case", "env"), rows)


def leaves(td):
    return {key: td.get(key) for key in leaf_keys(td)}


def same(a, b):
    """Whether two TensorDicts are the same to the bit."""
    first, second = leaves(a), leaves(b)
    return first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


def equal_bits(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) if a.numel() else True


def rollout(env, seed=0, steps=9):
    env.set_seed(seed)
    return env.rollout(steps, break_when_any_done=False)


# In an env ----------------------------------------------------------------------------------------------------------


# Of the four tests that take a batch size, two do with an env what the others do with the other batch size.
@pytest.mark.parametrize(("case", "env", "batch_size"), in_turn((), (3,), deep=False))
def test_keeps_to_its_specs(case, env, batch_size):
    base = env(batch_size)
    transformed = TransformedEnv(base, case.make(base))
    check_env_specs(transformed, seed=0)
    found = rollout(transformed)
    after = {*transformed.observation_keys, *transformed.reward_keys, *transformed.done_keys}
    assert set(leaf_keys(found["next"])) == after
    assert set(leaf_keys(found.exclude("next"))) <= after | set(transformed.action_keys)
    assert found.batch_size == (*batch_size, 9)


@in_envs(of=FIRST)
def test_begun_in_inference_mode_it_goes_on_outside_of_it(case, env):
    base = env((3,))
    transformed = TransformedEnv(base, case.make(base))
    with torch.inference_mode():
        rollout(transformed)
    found = rollout(transformed)
    assert found.batch_size == (3, 9) and found.clone().apply_(torch.zero_).batch_size == (3, 9)


@pytest.mark.parametrize(("case", "env", "batch_size"), in_turn((3,), (), of=FIRST))
def test_in_a_compose(case, env, batch_size):
    base = env(batch_size)
    others = [StepCounter(step_count_key="before"), InitTracker("first")]
    others.insert(0 if case.takes_all else 1, case.make(base))
    transformed = TransformedEnv(base, Compose(*others))
    check_env_specs(transformed, seed=0)
    found = rollout(transformed)
    flag = found[next(key for key in transformed.observation_keys if "first" in key)]
    assert bool(flag.any()) and not bool(flag.all())


@pytest.mark.parametrize(("case", "env", "batch_size"), in_turn((), (3,), of=FIRST))
def test_step_and_maybe_reset_gives_the_same_data_as_a_rollout(case, env, batch_size):
    base, other = env(batch_size), env(batch_size)
    transformed, again = TransformedEnv(base, case.make(base)), TransformedEnv(other, case.make(other))
    torch.manual_seed(0)
    whole = rollout(transformed, seed=3)
    torch.manual_seed(0)
    again.set_seed(3)
    td, steps = again.reset(), []
    for _ in range(9):
        step, td = again.step_and_maybe_reset(again.rand_action(td))
        steps.append(step)
    assert same(torch.stack(steps, len(batch_size)), whole)


@in_envs()
def test_a_partial_reset_leaves_the_other_rows_alone(case, env):
    base = env((3,))
    transformed = TransformedEnv(base, case.make(base))
    transformed.set_seed(0)
    td = transformed.reset()
    for _ in range(2):
        td = transformed._step_mdp(transformed.rand_step(td))
    before = td.clone()
    for reset_key, group in zip(transformed.reset_keys, transformed.done_keys_groups, strict=True):
        mask = torch.zeros_like(td.get(group[0]))
        mask[1] = True
        td.set(reset_key, mask)
    out = transformed.reset(td)
    for key in leaf_keys(before):
        assert equal_bits(out.get(key)[[0, 2]], before.get(key)[[0, 2]]), key
    changed = [key for key in leaf_keys(before) if not torch.equal(out.get(key)[1], before.get(key)[1])]
    assert changed, "the row that was reset has changed"
    stepped = transformed.rand_step(out)["next"]
    for key in transformed.observation_keys:
        assert stepped.get(key) is not None


@pytest.mark.parametrize(("case", "env", "batch_size"), in_turn((3,), ()))
def test_actions_come_to_the_env_as_it_wants_them(case, env, batch_size):
    base = env(batch_size)
    transformed = TransformedEnv(base, case.make(base))
    td = transformed.rand_action(transformed.reset())
    before = td.clone()
    inner = transformed.transform.inv(td)
    assert same(td, before), "inv changes nothing in what it is given"
    for key in base.action_keys:
        value = inner.get(key)
        spec = base.full_action_spec[key]
        assert (value.shape, value.dtype) == (spec.shape, spec.dtype)


@in_envs()
def test_set_truncated_and_break_when_any_done(case, env):
    base = env()
    transformed = TransformedEnv(base, case.make(base))
    transformed.set_seed(1)
    found = transformed.rollout(4, set_truncated=True)
    ends = [key for key in transformed.done_keys if key == "done" or key[-1] == "done"]
    assert all(bool(found["next"].get(key)[-1].all()) for key in ends)
    assert len(found) <= 4


@in_envs()
def test_fake_data_has_the_layout_of_real_data(case, env):
    base = env((2,))
    transformed = TransformedEnv(base, case.make(base))
    fake, real = transformed.fake_tensordict(), rollout(transformed, steps=1)[:, 0]
    layout = {key: (value.shape, value.dtype) for key, value in leaves(real["next"]).items()}
    assert {key: (value.shape, value.dtype) for key, value in leaves(fake["next"]).items()} == layout


# Copies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "env", "way"), in_turn("deepcopy", "pickle", "clone"))
def test_copies_do_the_same(case, env, way):
    base, other = env((2,)), env((2,))
    if way == "pickle" and "function" not in case.name:
        made = TransformedEnv(base, case.make(base))
        copied = pickle.loads(pickle.dumps(made))
    elif way == "clone":
        made = TransformedEnv(base, case.make(base))
        rollout(made)
        cloned = made.transform.clone()
        assert cloned.parent is None and cloned is not made.transform
        copied = TransformedEnv(other, cloned)
    else:
        made = TransformedEnv(base, case.make(base))
        copied = copy.deepcopy(made)
    assert copied.transform.container is copied
    torch.manual_seed(0)
    first = rollout(made)
    torch.manual_seed(0)
    assert same(first, rollout(copied))


@every
def test_a_transform_serves_one_env(case):
    env = case.envs[0]
    base = env()
    transform = as_transform(case.make(base))
    made = TransformedEnv(base, transform)
    with pytest.raises(RuntimeError, match="is already in a TransformedEnv"):
        TransformedEnv(env(), transform)
    with pytest.raises(RuntimeError, match="is already in a TransformedEnv"):
        Compose(transform)
    assert transform.container is made
    assert isinstance(transform.parent, EnvBase) and len(transform.parent.transform) == 0
    assert repr(transform) in repr(made).replace("\n    ", "\n")


def write_inputs(case, transform, td):
    """Write into four rows of data what the inverse of a transform reads."""
    for key in transform.out_keys_inv:
        action = torch.rand(4, 1).to(getattr(transform, "dtype_out", torch.float32))
        td.set(key, action if case.action is None else case.action)


# Alone --------------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("batch_size", [(), (2,), (2, 3)], ids=str)
def test_alone_on_data(case, batch_size):
    transform = as_transform(case.make(case.envs[0]()))
    td = case.data(batch_size)
    before = td.clone()
    if case.fails:
        with pytest.raises(case.fails):
            transform(td)
        assert same(td, before)
        return
    changed, gone = case.alone
    out = transform(td)
    assert out.batch_size == batch_size
    keys, had = set(leaf_keys(out)), set(leaf_keys(before))
    assert had - keys == gone
    assert keys - had <= changed
    for key in keys & had:
        value, old = out.get(key), before.get(key)
        alike = value.dtype == old.dtype and torch.equal(value, old)
        assert alike != (key in changed), key


@pytest.mark.parametrize("case", [case for case in CASES if not case.fails and "random" not in case.name], ids=str)
def test_on_a_sample_row_by_row(case):
    transform = as_transform(case.make(case.envs[0]()))
    stored = case.data((6,))
    index = torch.tensor([4, 0, 4])
    assert same(transform(stored[index]), transform(stored.clone())[index])


@every
def test_what_is_written_comes_back(case):
    transform = as_transform(case.make(case.envs[0]()))
    td = case.data((4,))
    if not transform.invertible:
        assert transform.inv(td) is td
        return
    before = td.clone()
    write_inputs(case, transform, td)
    given = td.clone()
    out = transform.inv(td)
    assert same(td, given) and out is not td
    assert set(leaf_keys(out)) != set(leaf_keys(given)) or not same(out, before)
