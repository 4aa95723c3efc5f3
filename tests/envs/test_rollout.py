"""Rollouts: laws of the data, every form of policy, every argument."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensordict import LazyStackedTensorDict, TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn

from rlnb.data import Bounded, Categorical, Composite
from rlnb.envs import CartPoleEnv, GymEnv, RandomPolicy, step_mdp
from tests.examples import at_most

NAMES = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4"]
ENVS = {name: GymEnv(name, categorical_action_encoding=True) for name in NAMES}


def check_laws(data: TensorDict, keys: list) -> None:
    """What every rollout of one env obeys."""
    inside = ~data["next", "done"][:-1, 0]
    for key in keys:
        assert torch.equal(data.get(key)[1:][inside], data["next"].get(key)[:-1][inside])
    assert torch.equal(data["next", "done"], data["next", "terminated"] | data["next", "truncated"])
    for key in ("done", "terminated", "truncated"):
        assert not data[key].any()


@at_most(25)
@given(
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 2**31),
    length=st.integers(1, 120),
    go_on=st.booleans(),
    with_policy=st.booleans(),
)
def test_laws(name, seed, length, go_on, with_policy):
    env = ENVS[name]
    policy = RandomPolicy(Composite(action=env.action_spec)) if with_policy else None
    rollouts = []
    for _ in range(2):
        env.set_seed(seed)
        torch.manual_seed(seed)  # a RandomPolicy draws from torch's generator
        rollouts.append(env.rollout(length, policy, break_when_any_done=not go_on))
    first, second = rollouts
    assert bool((first == second).all())
    check_laws(first, env.observation_keys)
    if go_on:
        assert len(first) == length
    else:
        assert len(first) == length or first["next", "done"][-1].item()
        assert not first["next", "done"][:-1].any()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])  # it is a class
@given(seed=st.integers(0, 1000), batch=st.sampled_from([(), (1,), (3,), (2, 2)]), length=st.integers(1, 12))
def test_laws_of_batched_envs(counter, seed, batch, length):
    env = counter(batch, length=4)
    data = env.rollout(length, break_when_any_done=False)
    assert data.batch_size == (*batch, length) and data.names == [None] * len(batch) + ["time"]
    rows = data.reshape(-1, length) if batch else data.unsqueeze(0)
    for row in rows.unbind(0):
        assert row["observation"].flatten().tolist() == [float(t % 4) for t in range(length)]
        assert row["next", "done"].flatten().tolist() == [t % 4 == 3 for t in range(length)]


# Policies -----------------------------------------------------------------------------------------------------------


def net() -> nn.Sequential:
    torch.manual_seed(0)

    class Best(nn.Module):
        def forward(self, scores):
            return scores.argmax(-1)

    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2), Best())


def test_all_forms_of_one_policy_agree():
    env = ENVS["CartPole-v1"]
    model = net()

    def of_td(td):
        return td.set("action", model(td["observation"]))

    def annotated(x: TensorDict):
        return of_td(x)

    forms = [
        TensorDictModule(model, ["observation"], ["action"]),
        model,
        of_td,
        annotated,
        lambda tensordict: of_td(tensordict),
        lambda observation: model(observation),
        lambda x: model(x),
    ]
    rollouts = []
    for policy in forms:
        env.set_seed(0)
        rollouts.append(env.rollout(100, policy, break_when_any_done=False))
    for other in rollouts[1:]:
        assert bool((rollouts[0] == other).all())


@pytest.mark.parametrize("form", ["none", "rand_action", "rand_step", "policy"])
def test_random_policies_agree(form):
    env = ENVS["CartPole-v1"]
    env.set_seed(0)
    expected = env.rollout(50, break_when_any_done=False)
    policy = {
        "none": None,
        "rand_action": env.rand_action,
        "rand_step": env.rand_step,
        "policy": RandomPolicy(env.action_spec),
    }[form]
    env.set_seed(0)
    torch.manual_seed(0)
    assert bool((env.rollout(50, policy, break_when_any_done=False) == expected).all())


def test_what_else_the_policy_writes_is_kept_with_its_gradient():
    env = ENVS["CartPole-v1"]
    scores = TensorDictModule(nn.Linear(4, 2), ["observation"], [("head", "scores")])
    choose = TensorDictModule(lambda s: s.argmax(-1), [("head", "scores")], ["action"])
    data = env.rollout(10, TensorDictSequential(scores, choose), break_when_any_done=False)
    assert data["head", "scores"].shape == (10, 2)
    data["head", "scores"].sum().backward()
    assert scores.module.weight.grad.abs().sum() > 0


def test_a_policy_that_writes_under_next_finds_it_at_the_root_of_the_next_step():
    env = ENVS["CartPole-v1"]

    def remember(td):
        count = td.get("count", torch.zeros(1))
        return td.update({"action": torch.tensor(0), "count": count, "next": {"count": count + 1}})

    data = env.rollout(6, remember, break_when_any_done=False)
    assert data["count"].flatten().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_policy_that_changes_the_observation():
    env = ENVS["CartPole-v1"]
    policy = TensorDictSequential(
        TensorDictModule(lambda o: o * 0 + 1, ["observation"], ["observation"]),
        TensorDictModule(lambda o: torch.tensor(0), ["observation"], ["action"]),
    )
    data = env.rollout(3, policy)
    assert data["observation"].unique().tolist() == [1.0]


def test_auto_cast_to_device():
    env = GymEnv("CartPole-v1", categorical_action_encoding=True, device="cpu")
    seen = []

    class Meta(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1, device="meta"))
            self.in_keys, self.out_keys = ["observation"], []

        def forward(self, td):
            seen.append(td["observation"].device.type)
            return TensorDict({})

    with pytest.raises(KeyError, match="wrote no action"):
        env.rollout(2, Meta(), auto_cast_to_device=True)
    assert seen == ["meta"]


# Arguments ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, net()])
def test_callback_sees_every_step(policy):
    env = ENVS["CartPole-v1"]
    steps, envs = [], []
    env.set_seed(0)
    data = env.rollout(30, policy, callback=lambda td: steps.append(td.clone()), break_when_any_done=False)
    env.set_seed(0)
    env.rollout(30, policy, callback=lambda e, td: envs.append(e), break_when_any_done=False)
    assert len(steps) == 30 and bool((torch.stack(steps) == data).all())
    assert envs == [env] * 30


def test_stop_rules(counter):
    def step(env, td):
        limit = torch.tensor([[2.0], [3.0]])
        observation = td["observation"] + 1
        return TensorDict({"observation": observation, "reward": observation, "done": observation >= limit}, [2])

    lengths = {}
    for rule in ({}, {"break_when_any_done": False}, {"break_when_all_done": True}, {"break_when_any_done": True}):
        lengths[tuple(rule.items())] = counter((2,), step=step).rollout(10, **rule).shape[-1]
    assert list(lengths.values()) == [2, 10, 3, 2]


def test_not_contiguous_is_a_lazy_stack(counter):
    data = counter((2,)).rollout(3, return_contiguous=False)
    assert isinstance(data, LazyStackedTensorDict)
    assert data.batch_size == (2, 3) and data.names == [None, "time"]


def test_set_truncated():
    env = ENVS["CartPole-v1"]
    data = env.rollout(5, set_truncated=True)
    assert data["next", "truncated"].flatten().tolist() == [False] * 4 + [True]
    assert data["next", "done"].flatten().tolist() == [False] * 4 + [True]


def test_set_truncated_after_add_truncated_keys(counter):
    env = counter((2,), length=9)
    env.add_truncated_keys()
    data = env.rollout(4, set_truncated=True)
    assert data["next", "truncated"][..., 0].tolist() == [[False] * 3 + [True]] * 2


def test_out(counter):
    env = counter((2,), length=9)
    out = env.rollout(4).zero_()
    assert env.rollout(4, out=out) is out
    assert out["next", "observation"][0, :, 0].tolist() == [1, 2, 3, 4]


def test_going_on_from_a_done_step_resets_first(counter):
    env = counter(length=3)
    data = env.rollout(3)
    again = env.rollout(2, auto_reset=False, tensordict=step_mdp(data[-1]))
    assert again["observation"].flatten().tolist() == [0, 1]


def test_the_input_of_a_rollout_is_left_alone(counter):
    env = counter()
    td = env.reset()
    before = td.clone()
    env.rollout(3, auto_reset=False, tensordict=td)
    assert set(td.keys()) == set(before.keys()) and bool((td == before).all())


def test_gradients_flow_through_a_differentiable_env(counter):
    env = counter(length=9)
    env.action_spec = Bounded(-1, 1, shape=(1,))

    def step(env, td):
        observation = td["observation"] + td["action"]
        return TensorDict({"observation": observation, "reward": observation, "done": observation > 99})

    env.step_function = step
    gain = nn.Parameter(torch.tensor([0.5]))
    data = env.rollout(3, lambda observation: gain * 1.0)
    data["next", "reward"].sum().backward()
    assert gain.grad.item() == 1 + 2 + 3


def test_steps_of_different_shapes(counter):
    def step(env, td):
        n = int(td["observation"][0]) + 2
        return TensorDict(
            {"observation": torch.full((n,), n - 1.0), "reward": torch.ones(1), "done": torch.zeros(1) > 0}
        )

    env = counter(step=step)
    env._unchecked = set()
    text = (
        "The entry 'observation' has shape (1,) at step 0 and (2,) at step 1, so the steps do not fit into one tensor. "
        "Fix: rollout(..., return_contiguous=False)."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rollout(3)
    assert env.rollout(3, return_contiguous=False).batch_size == (3,)


BAD_ARGUMENTS = {
    "max_steps must be a positive integer and is 0.": {"max_steps": 0},
    "max_steps must be a positive integer and is 2.5.": {"max_steps": 2.5},
    "max_steps must be a positive integer and is True.": {"max_steps": True},
    "auto_reset=False goes on from a TensorDict, and none was given. Fix: env.rollout(n, auto_reset=False, "
    "tensordict=td), where td is env.reset() or step_mdp(previous[..., -1]).": {"max_steps": 1, "auto_reset": False},
    "break_when_any_done=True and break_when_all_done=True contradict each other: stop at the first env that is done, "
    "or when the last one is? Give one of them.": {
        "max_steps": 1,
        "break_when_any_done": True,
        "break_when_all_done": True,
    },
}


@pytest.mark.parametrize("text", BAD_ARGUMENTS)
def test_bad_arguments(counter, text):
    env = counter()
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        env.rollout(**BAD_ARGUMENTS[text])
    assert env.resets == 0


def test_set_truncated_without_a_truncated_signal(counter):
    env = counter()
    text = (
        "set_truncated=True marks the last step as truncated, and Counter has no 'truncated' signal. "
        "Fix: env.add_truncated_keys()."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rollout(2, set_truncated=True)
    assert env.resets == 0


def test_policies_that_are_none():
    env = ENVS["CartPole-v1"]
    with pytest.raises(TypeError, match=r"^A policy must be callable and is 3\. Fix: pass a TensorDictModule"):
        env.rollout(2, 3)
    with pytest.raises(TypeError, match=r"^A policy must be callable and is <class 'torch.nn.modules.linear.Linear'>"):
        env.rollout(2, nn.Linear)


def test_random_policy_needs_a_spec():
    text = "RandomPolicy needs a spec to draw from and got a int. Fix: RandomPolicy(env.action_spec)."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        RandomPolicy(3)


def test_random_policy_of_a_composite():
    spec = Composite(a=Categorical(2), b=Composite(c=Categorical(5)))
    data = RandomPolicy(spec)(TensorDict({}))
    assert spec.is_in(data)


@pytest.mark.parametrize("arguments", [{}, {"break_when_any_done": False}, {"return_contiguous": False}])
def test_a_stateless_env_rolls_out_any_batch_size(counter, arguments):
    def reset(env, tensordict):
        return TensorDict({"observation": torch.zeros(*tensordict.batch_size, 1)}, tensordict.batch_size)

    env = type("Stateless", (counter,), {"batch_locked": False})()
    env._reset = lambda tensordict=None, **kwargs: reset(env, tensordict)
    data = env.rollout(6, tensordict=TensorDict({}, [5]), **arguments)
    length = 6 if "break_when_any_done" in arguments else 3
    assert data.batch_size == (5, length) and data.names == [None, "time"]
    again = env.rollout(2, auto_reset=False, tensordict=step_mdp(data[..., -1]))
    assert again.batch_size == (5, 2)


@pytest.mark.parametrize("levels", [("a", "b"), ("", "a")])
def test_which_done_stops_a_rollout(counter, levels):
    keys = [(level, "done") if level else "done" for level in levels]

    def step(env, td):
        observation = td["observation"] + 1
        ends = {key: observation >= limit for key, limit in zip(keys, (3, 2), strict=True)}
        return TensorDict({"observation": observation, "reward": observation, **ends})

    env = counter(step=step)
    env.done_spec = Composite({key: Categorical(2, shape=(1,), dtype=torch.bool) for key in keys})
    assert len(env.rollout(6)) == (2 if "" not in levels else 3)  # a done at the root decides alone
    if "" in levels:
        assert len(env.rollout(6, break_when_all_done=True)) == 3


def test_policies_that_return_no_tensordict():
    env = ENVS["CartPole-v1"]

    def forgets(td):
        torch.tensor(0)

    def writes(td):
        td["action"] = torch.tensor(1)

    text = (
        "The policy forgets returned None and wrote no action. Likely cause: it lacks a return. "
        "Fix: return td, after td['action'] = ...; a function of the observation returns the action."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        env.rollout(3, forgets)
    with pytest.raises(TypeError, match=r"^The policy <lambda> returned None, and should return the action\."):
        env.rollout(3, lambda observation: None)
    text = "The policy <lambda> takes a TensorDict and must return one, and it returned a int."
    with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
        env.rollout(3, lambda td: 1)
    assert env.rollout(2, writes)["action"].tolist() == [1, 1]  # what it was given has the action
    assert env.rollout(2, writes, callback=lambda td: None)["action"].tolist() == [1, 1]


def test_max_steps_and_the_policy_swapped():
    env = ENVS["CartPole-v1"]
    text = (
        "rollout takes max_steps first and the policy second, and got the policy rand_action for max_steps. "
        "Fix: env.rollout(10, policy)."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        env.rollout(env.rand_action, 10)


class NamesNoKeys(TensorDictModuleBase):
    def forward(self, td):
        return td.set("action", torch.tensor(1)).set("seen", td["observation"])


class NamesItsOutput(NamesNoKeys):
    out_keys = ("action",)


@pytest.mark.parametrize("policy", [NamesNoKeys, NamesItsOutput])
def test_modules_that_do_not_name_their_keys(policy):
    data = ENVS["CartPole-v1"].rollout(2, policy())
    assert data["action"].tolist() == [1, 1] and torch.equal(data["seen"], data["observation"])


def test_given_actions_are_played():
    env = ENVS["CartPole-v1"]
    for actions in (
        [1, 0, 1],
        torch.tensor([1, 0, 1]),
        iter([torch.tensor(a) for a in (1, 0, 1)]),
        [{"action": 1}, {"action": 0}, {"action": 1}],
    ):
        assert env.rollout(5, actions=actions)["action"].tolist() == [1, 0, 1]
    one_hot = GymEnv("CartPole-v1")
    assert one_hot.rollout(5, actions=[1, 0])["action"].tolist() == [[0, 1], [1, 0]]
    batch = GymEnv("CartPole-v1", num_envs=2, categorical_action_encoding=True)
    assert batch.rollout(5, actions=torch.tensor([[0, 1], [1, 1]]))["action"].tolist() == [[0, 1], [1, 1]]
    with pytest.raises(ValueError, match=r"^rollout takes a policy or actions, and got both\."):
        env.rollout(3, env.rand_action, actions=[1])
    with pytest.raises(ValueError, match="got no actions"):
        env.rollout(3, actions=[])


@pytest.mark.parametrize("contiguous", [True, False])
def test_steps_are_stored_on_another_device(contiguous):
    data = ENVS["CartPole-v1"].rollout(3, storing_device="meta", return_contiguous=contiguous)
    assert data.device == torch.device("meta") and data.shape == (3,)


def test_observation_policies_may_return_mappings_but_not_too_much():
    env = ENVS["CartPole-v1"]
    assert env.rollout(2, lambda o: {"action": torch.tensor(1), "more": o})["more"].shape == (2, 4)
    assert env.rollout(2, lambda o: TensorDict({"action": torch.tensor(1)}))["action"].tolist() == [1, 1]
    text = "The policy <lambda> returned 2 values, and the env has the actions ['action']."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        env.rollout(2, lambda o: (torch.tensor(1), o))


def test_out_of_another_size(counter):
    env = counter((2,), length=9)
    out = TensorDict({}, [2, 4])
    assert env.rollout(4, out=out) is out and "action" in out
    text = "out has batch size (2, 4), and the rollout has (2, 3): it is written to only if they are the same."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        env.rollout(3, out=out)


def test_a_whole_rollout_is_nothing_to_go_on_from(counter):
    env = counter((2,), length=9)
    text = (
        "maybe_reset got a TensorDict of batch size (2, 3); the batch size of Counter is (2,). It has one dimension "
        "too many at the end: is it a rollout? One step of it is td[..., t]."
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}$"):
        env.rollout(2, auto_reset=False, tensordict=env.rollout(3))


def test_a_callback_may_add_entries_and_have_defaults():
    env = ENVS["CartPole-v1"]
    seen = []
    data = env.rollout(3, callback=lambda td, extra=1: (seen.append(td), td.set("added", torch.ones(1))))
    assert len(seen) == 3 and data["added"].shape == (3, 1)


@pytest.mark.parametrize("make", [lambda: GymEnv("CartPole-v1"), lambda: CartPoleEnv(batch_size=[2])])
def test_a_policy_that_reads_what_is_not_there(make):
    env = make()
    policy = TensorDictModule(nn.Linear(4, 2), in_keys=["obs"], out_keys=["action"])
    text = (
        "The policy TensorDictModule reads ['obs'], and the data it was given has ['done', 'observation', "
        "'terminated', 'truncated']. Fix: name the entries of the data in the policy's in_keys."
    )
    with pytest.raises(KeyError) as caught:
        env.rollout(3, policy)
    assert caught.value.args == (text,)


def test_an_error_of_the_policy_itself_stays_what_it_is():
    def choose(observation):
        raise KeyError("mine")

    policy = TensorDictModule(choose, in_keys=["observation"], out_keys=["action"])
    with pytest.raises(KeyError, match="mine"):
        GymEnv("CartPole-v1").rollout(3, policy)
