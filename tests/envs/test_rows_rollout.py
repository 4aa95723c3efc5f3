"""Rollouts and all of their arguments, over envs of every kind."""

from __future__ import annotations

import inspect

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.data.ted.keys import as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import CartPoleEnv, EnvBase, GymEnv, InitTracker, PendulumEnv, StepCounter, TransformedEnv, step_mdp
from tests.envs.kinds import KINDS, make
from tests.envs.test_rows_reset_step import same

EVERY = pytest.mark.parametrize("kind", KINDS)
ENDING = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("stateless", "gym on a device")])


def next_input(env, data):
    return step_mdp(data[..., -1], reward_keys=env.reward_keys, action_keys=env.action_keys)


def test_the_arguments_and_their_defaults():
    keywords = {
        "actions": None,
        "auto_reset": True, "auto_cast_to_device": False, "break_when_any_done": None, "break_when_all_done": None,
        "return_contiguous": True, "tensordict": None, "set_truncated": False, "out": None, "trust_policy": False,
        "storing_device": None, "set_state": None,
    }  # fmt: skip
    _, steps, *rest = inspect.signature(EnvBase.rollout).parameters.values()
    assert steps.name == "max_steps" and steps.default is steps.empty
    assert {p.name: p.default for p in rest} == {"policy": None, "callback": None, **keywords}
    assert [p.name for p in rest if p.kind is p.KEYWORD_ONLY] == list(keywords)


@EVERY
def test_steps_lie_along_a_last_dimension_called_time(kind):
    env = make(kind)
    data = env.rollout(7, break_when_any_done=False)
    assert data.batch_size == (*env.batch_size, 7) and data.names == [None] * env.ndim + ["time"]
    step = env.rand_step(env.reset())
    assert set(leaf_keys(data)) == set(leaf_keys(step))
    for key in leaf_keys(step):
        assert data[key].shape == (*env.batch_size, 7, *step[key].shape[env.ndim :])


@ENDING
def test_a_rollout_is_shorter_where_an_env_ends(kind):
    data = make(kind).rollout(500)
    assert data.shape[-1] < 500
    done = data["next", "done"].squeeze(-1)
    assert done[..., -1].any() and not done[..., :-1].any()


@EVERY
@pytest.mark.parametrize("form", ["none", "module", "function of the data", "TensorDictModule"])
def test_forms_of_policies(kind, form):
    env = make(kind)
    action = env.full_action_spec.rand()[env.action_key]

    class Fixed(nn.Module):
        def forward(self, *observations):
            return action

    def function(td):
        return td.set(env.action_key, action)

    policy = {
        "none": None,
        "module": Fixed(),
        "function of the data": function,
        "TensorDictModule": TensorDictModule(Fixed(), env.observation_keys, [env.action_key]),
    }[form]
    data = env.rollout(4, policy, break_when_any_done=False)
    assert data[env.action_key].shape == (*env.batch_size, 4, *action.shape[env.ndim :])
    if form == "none":
        assert env.full_action_spec[env.action_key].is_in(data[..., 0][env.action_key])
    else:
        assert all(torch.equal(data[..., t][env.action_key], action) for t in range(4))


def test_observations_come_in_the_order_of_the_spec():
    env, seen = PendulumEnv(seed=0), []
    env.rollout(1, lambda th, thdot, *params: (seen.append((th, thdot, len(params))), torch.zeros(1))[1])
    td = PendulumEnv(seed=0).reset()
    assert torch.equal(seen[0][0], td["th"]) and torch.equal(seen[0][1], td["thdot"]) and seen[0][2] == 6


@EVERY
@pytest.mark.parametrize("arity", [1, 2])
def test_a_callback_is_called_with_each_step(kind, arity):
    env, other = make(kind), make(kind)
    steps, envs = [], set()

    def of_the_step(td):
        steps.append(td.clone())
        return "dropped"

    def of_both(env, td):
        envs.add(env)
        return of_the_step(td)

    data = env.rollout(6, None, of_the_step if arity == 1 else of_both, break_when_any_done=False)
    assert same(torch.stack(steps, env.ndim), data)
    assert same(data, other.rollout(6, break_when_any_done=False))
    assert envs == ({env} if arity == 2 else set())


@EVERY
def test_going_on_from_a_tensordict(kind):
    env, other = make(kind), make(kind)
    td = env.reset()
    data = env.rollout(5, auto_reset=False, tensordict=td, break_when_any_done=False)
    assert same(data[..., 0].select(*env.observation_keys), td.select(*env.observation_keys))
    assert same(data, other.rollout(5, break_when_any_done=False))


@ENDING
def test_what_is_done_is_reset_before_a_rollout_goes_on(kind):
    env = make(kind)
    first = env.rollout(500)
    data = env.rollout(2, auto_reset=False, tensordict=next_input(env, first), break_when_any_done=False)
    assert not data["done"].any() and data.shape[-1] == 2
    if not env.batch_size:
        reset = make(kind)
        reset.rollout(500)
        assert same(data[0].select(*env.observation_keys), reset.reset().select(*env.observation_keys))


@ENDING
def test_when_a_rollout_stops(kind):
    ends = {}
    for rule, arguments in {
        "any": {},
        "any, said": {"break_when_any_done": True},
        "all": {"break_when_all_done": True},
        "never": {"break_when_any_done": False},
    }.items():
        done = make(kind).rollout(300, **arguments)["next", "done"].squeeze(-1)
        ends[rule] = done
    assert torch.equal(ends["any"], ends["any, said"])
    assert ends["never"].shape[-1] == 300
    whole = ends["all"].any(-1)
    assert whole.all() and not ends["all"][..., :-1].any(-1).all()
    assert ends["any"].shape[-1] <= ends["all"].shape[-1] <= 300


@EVERY
def test_a_rollout_that_is_not_contiguous(kind):
    lazy = make(kind).rollout(5, return_contiguous=False, break_when_any_done=False)
    dense = make(kind).rollout(5, break_when_any_done=False)
    assert isinstance(lazy, LazyStackedTensorDict) and not isinstance(dense, LazyStackedTensorDict)
    assert lazy.batch_size == dense.batch_size and lazy.names == dense.names
    assert same(lazy.contiguous(), dense)


@EVERY
def test_the_last_step_is_truncated_on_demand(kind):
    env = make(kind)
    if kind == "stateless":
        with pytest.raises(RuntimeError, match="has no 'truncated' signal"):
            env.rollout(3, set_truncated=True)
        env.add_truncated_keys()
    data = env.rollout(3, set_truncated=True, break_when_any_done=False)
    last = data[..., -1]["next"]
    assert all(last[key].all() for key in env.done_keys if as_tuple(key)[-1] in ("done", "truncated"))
    assert not data["next", "truncated"][..., :-1, :].any()


@EVERY
def test_rollouts_in_a_loop_are_one_long_rollout(kind):
    env, other = make(kind), make(kind)
    td, parts = env.reset(), []
    for _ in range(4):
        parts.append(env.rollout(10, break_when_any_done=False, auto_reset=False, tensordict=td))
        td = next_input(env, parts[-1])
        assert not parts[-1]["done"].any()
    assert same(torch.cat(parts, env.ndim), other.rollout(40, break_when_any_done=False))


@pytest.mark.parametrize("wrapped", [False, True])
def test_gradients_flow_through_a_rollout(wrapped):
    env = PendulumEnv(seed=0)
    env = TransformedEnv(env, StepCounter()) if wrapped else env
    net = nn.Linear(1, 1)
    data = env.rollout(5, TensorDictModule(lambda v: net(v.unsqueeze(-1)).tanh(), ["thdot"], ["action"]))
    data["next", "reward"].sum().backward()
    assert net.weight.grad.abs().item() > 0 and net.bias.grad.abs().item() > 0


@pytest.mark.parametrize("make_env", [lambda: GymEnv("CartPole-v1"), lambda: CartPoleEnv(batch_size=[3], max_steps=9)])
def test_a_rollout_is_split_into_its_trajectories(make_env):
    from rlnb.collectors.utils import split_trajectories

    env = make_env()
    env.set_seed(0)
    data = env.rollout(40, break_when_any_done=False)
    ends = int(data["next", "done"].sum()) + int((~data["next", "done"][..., -1, 0]).sum())
    found = split_trajectories(data)
    assert found.shape[0] == ends and found.names[-1] == "time"
    assert int(found["mask"].sum()) == data.numel()
    assert (found["next", "done"].sum(1) <= 1).all()


@EVERY
def test_the_first_steps_of_episodes_are_marked(kind):
    env = TransformedEnv(make(kind, None), InitTracker())
    env.set_seed(0)
    data = env.rollout(40, break_when_any_done=False)
    first = data["is_init"]
    assert first[..., 0, :].all()
    assert torch.equal(first[..., 1:, :], data["next", "done"][..., :-1, :])
    assert not data["next", "is_init"].any()


def test_out_is_filled_in_place():
    env = make("batch")
    out = env.rollout(4, break_when_any_done=False)
    memory = out["next", "reward"].data_ptr()
    env.set_seed(1)
    assert env.rollout(4, break_when_any_done=False, out=out) is out and out["next", "reward"].data_ptr() == memory
    env.set_seed(1)
    assert same(out, env.rollout(4, break_when_any_done=False))


def test_a_trusted_policy_takes_the_tensordict():
    def odd(o):  # neither its name nor an annotation says that o is a TensorDict
        assert isinstance(o, TensorDict)
        return o.set("action", torch.zeros(1))

    assert PendulumEnv(seed=0).rollout(2, odd, trust_policy=True)["action"].tolist() == [[0.0], [0.0]]
