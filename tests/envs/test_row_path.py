"""A rollout gives the same data whether it fills rows of numpy arrays or makes a TensorDict per step."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tensordict.nn import TensorDictModule, TensorDictSequential

from rlnb.data import Composite, Unbounded
from rlnb.envs import GymEnv, GymWrapper
from rlnb.envs import rollout as rollout_module

NAMES = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1"]
ENVS = {(name, c): GymEnv(name, categorical_action_encoding=c) for name, c in itertools.product(NAMES, (True, False))}
ARGUMENTS = {
    "default": {},
    "no break": {"break_when_any_done": False},
    "all": {"break_when_all_done": True},
    "truncated": {"set_truncated": True},
    "truncated, no break": {"set_truncated": True, "break_when_any_done": False},
    "lazy": {"return_contiguous": False, "set_truncated": True},
}


def fixed(env: GymEnv) -> TensorDictModule:
    """A policy that announces what it writes."""
    action = env.action_spec.rand()
    keys = env.observation_keys[:1]
    return TensorDictModule(lambda observation: action, keys, ["action"])


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("policy", ["random", "module"])
@pytest.mark.parametrize(("name", "categorical"), ENVS)
def test_both_ways_give_the_same(monkeypatch, name, categorical, policy, arguments):
    env = ENVS[name, categorical]
    act = None if policy == "random" else fixed(env)
    taken, results, states = [], [], []
    collect = rollout_module.collect_rows
    monkeypatch.setattr(rollout_module, "collect_rows", lambda *a, **k: (taken.append(1), collect(*a, **k))[1])
    for rows in (True, False):
        if not rows:
            monkeypatch.setattr(rollout_module, "fills_rows", lambda env, act: False)
        env.set_seed(3)
        results.append(env.rollout(40, act, **ARGUMENTS[arguments]))
        states.append(env._random_state.state(env.device))
    assert bool(taken) is (arguments != "lazy")
    fast, slow = results
    assert fast.batch_size == slow.batch_size and fast.names == slow.names
    assert set(fast.keys(True, True)) == set(slow.keys(True, True))
    assert bool((fast.contiguous() == slow.contiguous()).all())
    assert torch.equal(*states)
    if arguments in ("truncated", "lazy"):
        assert fast["next", "truncated"][-1].item() and fast["next", "done"][-1].item()
    if arguments == "all":
        assert len(fast) < 40 or not fast["next", "done"][:-1].any()


OVERRIDES = {
    "reset": lambda env, td=None, **k: super(GymEnv, env).reset(td, **k).set("observation", torch.full((4,), 7.0)),
    "_reset": lambda env, td=None, **k: super(GymEnv, env)._reset(td, **k).set("observation", torch.full((4,), 7.0)),
    "_step": lambda env, td: super(GymEnv, env)._step(td).set("reward", torch.full((1,), 7.0)),
    "rand_action": lambda env, td=None: super(GymEnv, env).rand_action(td).set("action", torch.tensor([0, 1])),
}


@pytest.mark.parametrize("method", OVERRIDES)
def test_overridden_methods_are_called(method):
    env = type("Own", (GymEnv,), {method: OVERRIDES[method]})("CartPole-v1")
    data = env.rollout(60, break_when_any_done=False)
    starts = torch.cat([torch.ones(1, 1, dtype=torch.bool), data["next", "done"][:-1]])[:, 0]
    if "reset" in method:
        assert starts.sum() > 1 and (data["observation"][starts] == 7).all()
    elif method == "_step":
        assert (data["next", "reward"] == 7).all()
    else:
        assert (data["action"] == torch.tensor([0, 1])).all()


MISFITS = {  # a space, what comes at step 3, what is said of it
    "shape": (spaces.Box(-9, 9, (2,)), np.ones(1, np.float32), "shape [2] and dtype float32, got shape [1] and dtype"),
    "number": (spaces.Box(-9, 9, (2,)), 4.0, "expected shape [2] and dtype float32, got shape [] and dtype float64"),
    "none": (spaces.Box(-9, 9, (2,)), None, "expected shape [2] and dtype float32, got shape [] and dtype object"),
    "dtype": (spaces.Box(-9, 9, (1,), np.int64), np.array([2.7]), "expected shape [1] and dtype int64, got shape [1]"),
    "negative": (spaces.Discrete(4), -1, "expected an integer from 0 to 3, got -1"),
    "fraction": (spaces.Discrete(4), 1.7, "expected an integer from 0 to 3, got 1.7"),
    "too large": (spaces.Discrete(4), 9, "expected an integer from 0 to 3, got 9"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_data_that_leaves_its_spec_in_the_middle(scripted, name):
    space, odd, text = MISFITS[name]
    env = GymWrapper(scripted(space, observe=lambda t: odd if t == 3 else space.sample()))
    with pytest.raises(RuntimeError, match=re.escape("left its spec in the middle of a rollout")) as caught:
        env.rollout(5)
    assert text in str(caught.value)


@pytest.mark.parametrize("reward", [2, 2.0, np.float32(2), np.array([2.0]), np.array([[2]]), True])
@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_rewards_in_every_form(scripted, box, reward, shape):
    env = GymWrapper(scripted(box, reward=reward))
    env.reward_spec = Unbounded(shape=shape)
    expected = torch.full((3, *shape), float(np.asarray(reward).reshape(())))
    assert torch.equal(env.rollout(3)["next", "reward"], expected)
    assert torch.equal(env.rollout(3, lambda td: env.rand_action(td))["next", "reward"], expected)


@pytest.mark.parametrize("reward", [None, "much", np.zeros(2)])
@pytest.mark.parametrize("policy", [None, lambda td: td.set("action", torch.tensor([1, 0]))])
def test_rewards_that_are_none(scripted, box, reward, policy):
    text = f"The reward must be one number and is {reward!r}. Fix: let the env's step return"
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
        GymWrapper(scripted(box, reward=reward)).rollout(3, policy)


def test_a_reward_by_another_name(scripted, box):
    env = GymWrapper(scripted(box))
    env.reward_spec = Composite(score=Unbounded(shape=(1,)))
    for policy in (None, lambda td: env.rand_action(td)):
        assert env.rollout(3, policy)["next", "score"].flatten().tolist() == [1, 1, 1]


def test_integers_that_would_wrap(scripted, box):
    backend = scripted(box, action_space=spaces.Box(0, 255, (2,), np.uint8))
    env = GymWrapper(backend)
    text = "The action [300, -1] does not fit into the env's dtype torch.uint8: the numbers would wrap around."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        env.rollout(1, lambda td: td.set("action", torch.tensor([300, -1])))
    assert backend.actions == []
    env.rollout(1, lambda td: td.set("action", torch.tensor([200, 1])))
    assert backend.actions[0].tolist() == [200, 1] and backend.actions[0].dtype == np.uint8


def test_an_action_beyond_its_bounds_is_the_backends_matter():
    data = GymEnv("Pendulum-v1").rollout(
        3, TensorDictModule(lambda o: torch.tensor([5.0]), ["observation"], ["action"])
    )
    assert data["action"].flatten().tolist() == [5, 5, 5]


def test_torch_is_not_turned_back_for_who_draws_meanwhile(scripted, box):
    drawn = []

    def observe(t):
        drawn.append(torch.rand(()).item())
        return box.sample()

    torch.manual_seed(0)
    GymWrapper(scripted(box, observe=observe)).rollout(1000)
    assert not set(drawn) & set(torch.rand(2000).tolist())


class Doubled(TensorDictModule):
    def forward(self, tensordict):
        tensordict = super().forward(tensordict)
        return tensordict.set("more", tensordict["more"] * 2)


def _doubles(module, *_):
    def forward(tensordict):
        tensordict = type(module).forward(module, tensordict)
        return tensordict.set("more", tensordict["more"] * 2)

    module.forward = forward


def _halved(module, inputs, output):
    output.set("more", output["more"] / 2)


NETWORK = torch.nn.Linear(4, 3)


def two(observation, scale=1.0):
    scores = NETWORK(observation) * scale
    return scores[:2].argmax(-1), scores


def one(observation):
    return two(observation)[0]


def changing(observation):
    """What a TensorDictModule accepts beside tensors: dictionaries; each of its forms now and then."""
    action, more = two(observation)
    return {"more": more, "action": action} if more[0] > 0 else (action, more)


class WithMethod(torch.nn.Module):
    forward = None

    def act(self, observation):
        return two(observation)


def _selected(policy):
    return policy.select_out_keys("action")


BOTH = ["action", "more"]
POLICIES = {
    "one output": lambda: TensorDictModule(one, ["observation"], ["action"]),
    "two outputs": lambda: TensorDictModule(two, ["observation"], BOTH),
    "nested output": lambda: TensorDictModule(two, ["observation"], ["action", ("agent", "scores")]),
    "two inputs": lambda: TensorDictModule(lambda o, done: two(o * ~done), ["observation", "done"], BOTH),
    "no input": lambda: TensorDictModule(lambda: torch.tensor(1), [], ["action"]),
    "dictionary": lambda: TensorDictModule(lambda o: dict(zip(BOTH, two(o), strict=True)), ["observation"], BOTH),
    "changing": lambda: TensorDictModule(changing, ["observation"], BOTH),
    "number": lambda: TensorDictModule(lambda o: (one(o), 2), ["observation"], BOTH),
    "keywords": lambda: TensorDictModule(two, {"observation": "observation"}, BOTH),
    "own output as input": lambda: TensorDictModule(
        lambda o, m=None: two(o if m is None else o + m.sum()), in_keys=["observation", "more"], out_keys=BOTH
    ),
    "subclass": lambda: Doubled(two, ["observation"], BOTH),
    "forward replaced": lambda: (policy := TensorDictModule(two, ["observation"], BOTH), _doubles(policy))[0],
    "forward hook": lambda: (
        policy := TensorDictModule(two, ["observation"], BOTH),
        policy.register_forward_hook(_halved),
    )[0],
    "pre-hook": lambda: (
        policy := TensorDictModule(two, ["observation"], BOTH),
        policy.register_forward_pre_hook(lambda module, inputs: inputs[0].set("seen", torch.ones(1))),
    )[0],
    "hook inside": lambda: (
        inner := torch.nn.Linear(4, 1),
        inner.register_forward_hook(lambda module, inputs, output: (output > 0).long().squeeze(-1)),
        TensorDictModule(inner, ["observation"], ["action"]),
    )[-1],
    "selected": lambda: _selected(TensorDictModule(two, ["observation"], BOTH)),
    "method": lambda: TensorDictModule(WithMethod(), ["observation"], BOTH, method="act"),
    "not in place": lambda: TensorDictModule(two, ["observation"], BOTH, inplace=False),
    "strict": lambda: TensorDictModule(two, ["observation"], BOTH, strict=True),
}


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_every_module_acts_on_rows_as_it_does_on_tensordicts(make):
    env, policy = ENVS["CartPole-v1", True], make()
    results = []
    for callback in (None, lambda step: None):  # with a callback each step is a TensorDict
        env.set_seed(2)
        torch.manual_seed(0)
        with torch.no_grad():
            results.append(env.rollout(60, policy, callback, break_when_any_done=False))
    rows, steps = results
    assert set(rows.keys(True, True)) == set(steps.keys(True, True))
    assert bool((rows == steps).all())


def test_hooks_of_all_modules_reach_a_rollout():
    env = ENVS["CartPole-v1", True]
    policy = TensorDictModule(lambda o: torch.tensor(1), ["observation"], ["action"])

    def zeros(module, inputs, output):
        return output.set("action", torch.tensor(0)) if isinstance(module, TensorDictModule) else None

    handle = torch.nn.modules.module.register_module_forward_hook(zeros)
    try:
        assert not env.rollout(10, policy)["action"].any()
    finally:
        handle.remove()


def test_a_module_whose_second_output_is_missing_later():
    env, calls = ENVS["CartPole-v1", True], itertools.count()
    policy = TensorDictModule(lambda o: two(o) if next(calls) < 3 else one(o), ["observation"], BOTH)
    with pytest.raises(RuntimeError, match="more out_keys than tensors"):
        env.rollout(5, policy, break_when_any_done=False)


def test_a_hidden_state_is_carried_from_step_to_step():
    env = ENVS["CartPole-v1", True]

    class Counts(torch.nn.Module):
        in_keys, out_keys = ("observation",), ("action", "count")

        def forward(self, td):
            return td.update({"action": torch.tensor(0), "count": td.get("count", torch.zeros(1)) + 1})

    data = env.rollout(12, Counts(), break_when_any_done=False)
    assert data["count"].flatten().tolist() == list(range(1, 13))


def test_what_a_policy_writes_without_announcing_it_is_kept():
    env = ENVS["CartPole-v1", True]
    announced = TensorDictModule(lambda o: torch.tensor(1), ["observation"], ["action"])

    class More(TensorDictSequential):
        def forward(self, td):
            return super().forward(td).set("more", td["observation"] * 2)

    data = env.rollout(5, More(announced))
    assert torch.equal(data["more"], data["observation"] * 2)


def test_extra_outputs_of_changing_shape():
    env = ENVS["CartPole-v1", True]
    sizes = itertools.count(1)
    policy = TensorDictModule(lambda o: (torch.tensor(1), torch.ones(next(sizes))), ["observation"], ["action", "odd"])
    text = "The entry 'odd' has shape (1,) at step 0 and (2,) at step 1, so the steps do not fit into one tensor."
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
        env.rollout(4, policy)


def test_rows_survive_the_growth_of_the_block(monkeypatch):
    from rlnb.data.ted import block

    env = ENVS["CartPole-v1", False]
    env.set_seed(0)
    expected = env.rollout(200, break_when_any_done=False)
    monkeypatch.setattr(block, "_FIRST_BYTES", 1)
    env.set_seed(0)
    assert bool((env.rollout(200, break_when_any_done=False) == expected).all())


@pytest.mark.parametrize("chunk", [1, 7, 1024])
def test_a_policy_reads_each_row_of_a_growing_block(monkeypatch, chunk):
    from rlnb.data.ted import block
    from rlnb.envs import rows

    env = ENVS["CartPole-v1", True]
    policy = TensorDictModule(lambda o: ((o.sum() > 0).long(), o * 2), ["observation"], ["action", "double"])
    monkeypatch.setattr(block, "_FIRST_BYTES", 1)
    monkeypatch.setattr(rows, "_CHUNK", chunk)
    env.set_seed(0)
    data = env.rollout(100, policy, break_when_any_done=False)
    assert torch.equal(data["double"], data["observation"] * 2)
    assert torch.equal(data["action"], (data["observation"].sum(-1) > 0).long())


NO_COMMON_FORM = [spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (2,))]), spaces.Tuple([])]


@pytest.mark.parametrize("space", NO_COMMON_FORM, ids=lambda space: type(space).__name__)
def test_observations_without_a_common_form(scripted, space):
    text = f"The observation 'x' has the space {space}, whose values have no common form. Fix: encode them as"
    with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
        GymWrapper(scripted(spaces.Dict(x=space)))


@pytest.mark.parametrize("name", ["reward", "done", "action"])
def test_observations_that_would_overwrite_something(scripted, name):
    space = spaces.Dict({name: spaces.Box(0, 1, (1,)), "x": spaces.Box(0, 1, (1,))})
    with pytest.raises(ValueError, match=rf"^The entry '{name}' is in .* and in .*: one would overwrite the other\."):
        GymWrapper(scripted(space))
