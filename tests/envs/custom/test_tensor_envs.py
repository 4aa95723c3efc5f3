"""All batched envs: specs, laws of episodes, seeds, partial resets, encodings and errors."""

from __future__ import annotations

import copy
import itertools
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import Categorical, OneHot
from rlnb.envs import CartPoleEnv, GridWorldEnv, MountainCarEnv, check_env_specs
from tests.envs.custom.makers import BATCHES, DEVICES, TENSOR_ENVS
from tests.examples import at_most

every_env = pytest.mark.parametrize("make", TENSOR_ENVS.values(), ids=TENSOR_ENVS.keys())


@every_env
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("categorical", [True, False], ids=["categorical", "one-hot"])
def test_specs_hold(make, batch, categorical):
    env = make(batch_size=batch, categorical_action_encoding=categorical)
    check_env_specs(env, seed=0)
    assert env.batch_size == torch.Size(batch)
    assert isinstance(env.action_spec, Categorical if categorical else OneHot)
    assert env.action_spec.shape == (torch.Size(batch) if categorical else torch.Size((*batch, env.n_actions)))


@every_env
def test_check_env_specs_does_not_use_up_the_seed(make):
    env, other = make(batch_size=[2]), make(batch_size=[2])
    env.set_seed(5)
    other.set_seed(5)
    check_env_specs(env)
    assert (env.rollout(10) == other.rollout(10)).all()


@pytest.mark.parametrize("make", [CartPoleEnv, MountainCarEnv])
def test_check_env_specs_does_not_seed_again_what_was_used(make):
    env = make(seed=5)
    first = env.reset()["observation"]
    check_env_specs(env)
    assert not torch.equal(env.reset()["observation"], first)


@given(
    make=st.sampled_from(list(TENSOR_ENVS.values())),
    batch=st.sampled_from(BATCHES),
    seed=st.integers(0, 2**32),
    steps=st.integers(1, 30),
    limit=st.integers(1, 12),
)
def test_the_laws_of_episodes(make, batch, seed, steps, limit):
    env = make(batch_size=batch, max_steps=limit, seed=seed)
    data = env.rollout(steps, break_when_any_done=False)
    after = data["next"]
    assert data.batch_size == (*batch, steps)
    assert torch.equal(after["done"], after["terminated"] | after["truncated"])
    steps_dim = len(batch)
    goes_on = ~after["done"].squeeze(-1).narrow(steps_dim, 0, steps - 1)
    for key in env.observation_keys:
        led_to = after[key].narrow(steps_dim, 0, steps - 1)
        came_from = data[key].narrow(steps_dim, 1, steps - 1)
        assert torch.equal(led_to[goes_on], came_from[goes_on])
    assert not data["done"].any()
    # Inside an episode of `limit` steps, truncation comes with step `limit` and not before.
    flags = after["done"].reshape(-1, steps)
    truncated = after["truncated"].reshape(-1, steps)
    for row, cut in zip(flags.tolist(), truncated.tolist(), strict=True):
        length = 0
        for done, was_cut in zip(row, cut, strict=True):
            length += 1
            assert was_cut == (length == limit)
            length = 0 if done else length


@at_most(25)
@given(make=st.sampled_from(list(TENSOR_ENVS.values())), batch=st.sampled_from(BATCHES), seed=st.integers(0, 2**63 - 1))
def test_one_seed_is_one_rollout_and_torchs_generator_is_left_alone(make, batch, seed):
    outer = torch.get_rng_state()
    first = make(batch_size=batch, seed=seed).rollout(12, break_when_any_done=False)
    env = make(batch_size=batch)
    env.set_seed(seed)
    torch.rand(3)
    torch.set_rng_state(outer)
    assert (env.rollout(12, break_when_any_done=False) == first).all()
    assert torch.equal(torch.get_rng_state(), outer)


@pytest.mark.parametrize("make", [CartPoleEnv, MountainCarEnv])
def test_seeds_and_copies_differ(make):
    one, two = (make(batch_size=[2], seed=seed).reset()["observation"] for seed in (0, 1))
    assert not torch.equal(one, two)
    assert not torch.equal(one[0], one[1])
    assert not torch.equal(make().reset()["observation"], make().reset()["observation"])


@every_env
@pytest.mark.parametrize("batch", [(3,), (2, 2)], ids=str)
def test_a_partial_reset_leaves_the_other_rows_as_they_are(make, batch):
    env = make(batch_size=batch, seed=1)
    td = env._step_mdp(env.rollout(4, break_when_any_done=False)[..., -1])
    mask = torch.zeros((*batch, 1), dtype=torch.bool)
    mask.view(-1)[1] = True
    row = mask.squeeze(-1)
    before, state, steps = td.clone(), env._state, env._steps
    assert steps[row] > 0
    td = env.reset(td.set("_reset", mask))
    assert "_reset" not in td
    assert (td[~row] == before[~row]).all()
    assert torch.equal(env._state[~row], state[~row])
    assert torch.equal(env._steps[~row], steps[~row])
    assert env._steps[row].tolist() == [0]


def test_marked_rows_start_anew():
    env = CartPoleEnv(batch_size=[3], seed=0)
    far = torch.full((3, 4), 0.2)
    td = env.reset(state=far)
    mask = torch.tensor([[False], [True], [False]])
    td = env.reset(td.set("_reset", mask))
    assert (td["observation"][1].abs() <= 0.05).all()
    assert torch.equal(td["observation"][[0, 2]], far[[0, 2]])


def test_a_partial_reset_needs_a_state_to_keep():
    env = CartPoleEnv(batch_size=[2])
    td = TensorDict({"_reset": torch.tensor([[True], [False]])}, [2])
    with pytest.raises(RuntimeError) as error:
        env.reset(td)
    assert str(error.value) == (
        "A partial reset was requested of a CartPoleEnv that was never reset: the copies that are not marked have no "
        "state to keep. Fix: call env.reset() first."
    )
    assert env.reset(TensorDict({"_reset": torch.ones(2, 1, dtype=torch.bool)}, [2]))["observation"].shape == (2, 4)


@every_env
def test_both_encodings_are_the_same_env(make):
    index, hot = (make(batch_size=[3], seed=2, categorical_action_encoding=c) for c in (True, False))
    td, other = index.reset(), hot.reset()
    for _ in range(6):
        action = torch.randint(index.n_actions, (3,))
        td, td_ = index.step_and_maybe_reset(td.set("action", action))
        other, other_ = hot.step_and_maybe_reset(
            other.set("action", torch.nn.functional.one_hot(action, hot.n_actions))
        )
        assert (td["next"] == other["next"]).all()
        td, other = td_, other_


@pytest.mark.parametrize(
    ("categorical", "action", "text"),
    [
        (True, [0, 2], "CartPoleEnv got the action 2 at index (1,), and its actions are 0 to 1."),
        (True, [-1, 0], "CartPoleEnv got the action -1 at index (0,), and its actions are 0 to 1."),
        *(
            (
                False,
                [[0, 1], wrong],
                f"CartPoleEnv got the action {wrong} at index (1,), and its actions are one-hot, a single 1 among "
                "2 numbers.",
            )
            for wrong in ([0, 0], [1, 1], [2, -1], [0, 2])
        ),
    ],
)
def test_an_invalid_action_is_rejected_and_nothing_moves(categorical, action, text):
    env = CartPoleEnv(batch_size=[2], categorical_action_encoding=categorical, seed=0)
    td = env.reset()
    state = env._state.clone()
    with pytest.raises(ValueError, match=re.escape(text)):
        env.step(td.set("action", torch.tensor(action)))
    assert torch.equal(env._state, state) and not env._steps.any()


def test_one_env_names_no_index():
    env = GridWorldEnv(categorical_action_encoding=True)
    with pytest.raises(ValueError) as error:
        env.step(env.reset().set("action", torch.tensor(4)))
    assert str(error.value) == "GridWorldEnv got the action 4, and its actions are 0 to 3."


@every_env
def test_the_data_of_a_step_is_the_readers_own(make):
    """Writing to what came out of an env must not change what the env does next."""
    env, twin = make(batch_size=[3], seed=0), make(batch_size=[3], seed=0)
    td, other = env.reset(), twin.reset()
    for _ in range(4):
        action = env.action_spec.rand()
        td, other = env.step(td.set("action", action)), twin.step(other.set("action", action))
        assert (td["next"] == other["next"]).all()
        td, other = env._step_mdp(td), twin._step_mdp(other)
        scribbled = td.clone()
        for leaf in td.values():
            leaf.zero_()
        td = scribbled


@every_env
@pytest.mark.parametrize("device", DEVICES)
def test_the_device_is_stated_or_not(make, device):
    env = make(batch_size=[2], device=device)
    check_env_specs(env)
    data = env.rollout(3)
    want = None if device is None else env.device
    assert data.device == want
    assert {leaf.device.type for leaf in data.values(True, True)} == {device or "cpu"}


@every_env
@pytest.mark.parametrize("device", DEVICES[1:])
def test_an_env_moves_with_its_state(make, device):
    env = make(batch_size=[2], max_steps=5)
    td = env._step_mdp(env.rollout(3, break_when_any_done=False)[:, -1])
    state, steps = env._state.clone(), env._steps.clone()
    assert env.to(device) is env
    tensors = [value for name, value in vars(env).items() if isinstance(value, torch.Tensor) and name[1:4] != "gen"]
    assert {value.device.type for value in tensors} == {env.generator.device.type} == {device}
    assert torch.equal(env._state.to(state.device), state) and torch.equal(env._steps.to(steps.device), steps)
    data = env.rollout(9, auto_reset=False, tensordict=td.to(device), break_when_any_done=False)
    assert data.device == env.device and data.shape == (2, 9)


@pytest.mark.parametrize("make", [CartPoleEnv, MountainCarEnv])
def test_a_reset_takes_a_state(make):
    env = make(batch_size=[2])
    want = env.reset()["observation"] / 2
    td = env.reset(state=want)
    assert torch.equal(td["observation"], want)
    assert td["observation"].data_ptr() != want.data_ptr()
    kind, size = type(env).__name__, want.shape[-1]
    with pytest.raises(ValueError) as error:
        env.reset(state=torch.zeros(3, size))
    assert str(error.value) == (
        f"{kind}.reset(state=...) takes a tensor of shape (2, {size}) and dtype torch.float32, and got (3, {size}) and "
        "torch.float32."
    )
    with pytest.raises(TypeError) as error:
        env.reset(options={})
    assert str(error.value) == f"{kind}.reset takes a TensorDict and state=..., and got ['options']."
    assert torch.equal(env._state, want), "a call that failed changed nothing"


def test_a_given_state_draws_nothing_from_the_generator():
    env, twin = CartPoleEnv(seed=0), CartPoleEnv(seed=0)
    env.reset(state=torch.zeros(4))
    assert torch.equal(env.reset()["observation"], twin.reset()["observation"])


@every_env
def test_a_step_makes_a_new_state(make):
    env = make(batch_size=[3], seed=0)
    td = env.rand_action(env.reset())
    state, kept = env._state, env._state.clone()
    env.step(td)
    assert env._state is not state and torch.equal(state, kept)


@every_env
@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_positive(make, limit):
    with pytest.raises(ValueError, match=f"max_steps must be a positive integer, or None for no limit, and is {limit}"):
        make(max_steps=limit)


@every_env
def test_without_a_limit_nothing_is_truncated(make):
    env = make(batch_size=[2], max_steps=None, seed=0)
    assert not env.rollout(30, break_when_any_done=False)["next", "truncated"].any()


@every_env
def test_a_step_before_a_reset_says_so(make):
    env = make()
    td = TensorDict({"action": env.action_spec.rand()})
    with pytest.raises(RuntimeError, match="step was called before reset"):
        env.step(td)


@every_env
def test_thousands_of_copies_fit_into_one_process(make):
    env = make(batch_size=[4096], seed=0)
    data = env.rollout(5, break_when_any_done=False)
    assert data.shape == (4096, 5)
    assert len({tuple(row.flatten().tolist()) for row in data["action"]}) >= min(1000, env.n_actions**5)


@every_env
def test_a_copy_goes_its_own_way_and_the_same(make):
    env = make(batch_size=[2], seed=0)
    start = env.reset()
    twin = copy.deepcopy(env)
    first = env.rollout(4, tensordict=start.clone(), auto_reset=False)
    assert (twin.rollout(4, tensordict=start.clone(), auto_reset=False) == first).all()


def test_dims_are_independent():
    """A batch of (2, 2) holds the same physics as four single envs."""
    env = CartPoleEnv(batch_size=[2, 2], seed=3, categorical_action_encoding=True)
    start = env.reset()["observation"].clone()
    action = torch.tensor([[0, 1], [1, 0]])
    after = env.step(env.reset(state=start).set("action", action))["next", "observation"]
    for i, j in itertools.product(range(2), repeat=2):
        one = CartPoleEnv(categorical_action_encoding=True)
        got = one.step(one.reset(state=start[i, j]).set("action", action[i, j]))["next", "observation"]
        torch.testing.assert_close(got, after[i, j])
