"""Modules as functions of plain tensors: the same numbers, and no shortcut for modules that do more."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    set_skip_existing,
)
from torch import nn
from torch.distributions import Categorical, Independent, Normal

from rlnb.data import Bounded, OneHot
from rlnb.data import Categorical as CategoricalSpec
from rlnb.envs import GymEnv
from rlnb.envs.unwrapped import UncheckedCategorical, Unwrapping, unwrapped, unwrapped_dist
from rlnb.envs.utils import ExplorationType, set_exploration_type
from rlnb.modules import (
    Actor,
    NormalParamExtractor,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    SafeModule,
    TanhNormal,
    ValueOperator,
)
from tests.pairwise import sampled


def logits():
    return TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"])


def normal(**kwargs):
    net = nn.Sequential(nn.Linear(4, 4), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["loc", "scale"]), in_keys=["loc", "scale"], **kwargs
    )


def categorical(**kwargs):
    return ProbabilisticActor(logits(), in_keys=["logits"], distribution_class=Categorical, **kwargs)


def of_tensordict():
    draw = ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical, return_log_prob=True)
    return ProbabilisticTensorDictSequential(logits(), draw)


def nested():
    return TensorDictSequential(logits(), TensorDictModule(lambda x: (x, x + 1), ["logits"], [("a", "b"), "c"]))


KNOWN = {
    "module": logits,
    "nested keys": nested,
    "of tensordict": of_tensordict,
    "categorical": categorical,
    "categorical with log-prob": lambda: categorical(return_log_prob=True),
    "one-hot": lambda: ProbabilisticActor(
        logits(), in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True
    ),
    "probabilities": lambda: ProbabilisticActor(
        TensorDictModule(nn.Sequential(nn.Linear(4, 2), nn.Softmax(-1)), ["observation"], ["p"]),
        in_keys={"probs": "p"},
        distribution_class=Categorical,
    ),
    "normal": lambda: normal(distribution_class=Normal, return_log_prob=True),
    "tanh": lambda: normal(distribution_class=TanhNormal, return_log_prob=True),
    "tanh with bounds": lambda: normal(distribution_class=TanhNormal, distribution_kwargs={"low": -2.0, "high": 2.0}),
    "actor": lambda: Actor(nn.Linear(4, 2), spec=Bounded(-1.0, 1.0, (2,))),
    "value": lambda: ValueOperator(nn.Linear(4, 1)),
    "q-values": lambda: QValueActor(nn.Linear(4, 2), spec=CategoricalSpec(2)),
    "q-values, one-hot": lambda: QValueActor(nn.Linear(4, 2), spec=OneHot(2)),
    "dictionary": lambda: TensorDictModule(lambda x: {"b": x, "a": x + 1}, ["observation"], ["a", "b"]),
}


@pytest.mark.parametrize(
    ("kind", "batch", "make"),
    sampled([ExplorationType.RANDOM, ExplorationType.DETERMINISTIC, None], [(), (5,), (3, 2)], KNOWN),
)
def test_the_same_numbers(make, batch, kind):
    torch.manual_seed(1)
    policy, data = make(), TensorDict({"observation": torch.randn(*batch, 4)}, batch)
    with set_exploration_type(kind):
        policy(data.clone())  # checks that it fits its spec
        torch.manual_seed(0)
        expected = policy(data.clone())
        torch.manual_seed(0)
        entries = {"observation": data["observation"]}
        function = unwrapped(policy)
        assert function is not None
        function(entries)
    assert set(entries) == set(expected.keys(True, True))
    for key, value in entries.items():
        torch.testing.assert_close(value, expected[key], msg=str(key))


@pytest.mark.parametrize("name", ["of tensordict", "categorical", "one-hot", "normal", "tanh"])
def test_distributions_have_the_same_numbers_and_gradients(name):
    policy, data = KNOWN[name](), TensorDict({"observation": torch.randn(5, 4)}, [5])
    action = policy(data.clone())["action"].detach()
    found = []
    for dist in (policy.get_dist(data.clone()), unwrapped_dist(policy)(dict(data.items()))):
        terms = [dist.log_prob(action)] + ([dist.entropy()] if name != "tanh" else [])
        found.append((terms, torch.autograd.grad(sum(term.sum() for term in terms), list(policy.parameters()))))
    torch.testing.assert_close(*found)


class Doubled(TensorDictModule):
    def forward(self, tensordict):
        return super().forward(tensordict).update({"logits": 2 * tensordict["logits"]})


class Careful(ProbabilisticActor):
    def forward(self, tensordict, *args, **kwargs):
        return super().forward(tensordict, *args, **kwargs).set("action", torch.tensor(0))


def changed(module, change):
    change(module)
    return module


UNKNOWN = {
    "subclass": lambda: Doubled(nn.Linear(4, 2), ["observation"], ["logits"]),
    "subclass inside": lambda: TensorDictSequential(Doubled(nn.Linear(4, 2), ["observation"], ["logits"]), logits()),
    "subclass of an actor": lambda: Careful(logits(), in_keys=["logits"], distribution_class=Categorical),
    "hook": lambda: changed(logits(), lambda m: m.register_forward_hook(print)),
    "hook of a part": lambda: changed(categorical(), lambda m: m[0].register_forward_pre_hook(print)),
    "hook of the last part": lambda: changed(categorical(), lambda m: m[-1].register_forward_hook(print)),
    "hook of gradients": lambda: changed(logits(), lambda m: m.register_full_backward_hook(print)),
    "forward replaced": lambda: changed(logits(), lambda m: setattr(m, "forward", print)),
    "selected": lambda: nested().select_out_keys("c"),
    "not in place": lambda: TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"], inplace=False),
    "sequence not in place": lambda: TensorDictSequential(logits(), inplace=False),
    "tolerant": lambda: TensorDictSequential(logits(), partial_tolerant=True),
    "keywords": lambda: TensorDictModule(lambda x: x, {"x": "observation"}, ["logits"]),
    "several samples": lambda: categorical(num_samples=3),
    "own generator": lambda: categorical(generator=3),
    "projected": lambda: SafeModule(nn.Linear(4, 2), ["observation"], ["a"], spec=Bounded(-1.0, 1.0, (2,)), safe=True),
    "function of a distribution": lambda: normal(
        distribution_class=lambda loc, scale: Independent(Normal(loc, scale), 1)
    ),
    "not checked yet": lambda: categorical(spec=CategoricalSpec(2)),
    "a function": lambda: print,
}


@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_what_may_do_more_is_not_unwrapped(make):
    assert unwrapped(make()) is None


def test_a_mode_that_skips_modules_is_kept():
    with set_skip_existing(True):
        assert unwrapped(logits()) is None


def test_a_missing_input_is_a_key_error():
    with pytest.raises(KeyError, match="observation"):
        unwrapped(logits())({})


def test_invalid_logits_are_explained_when_a_value_is_drawn():
    with pytest.raises(ValueError, match="found invalid values"):
        UncheckedCategorical(torch.tensor([0.0, torch.nan])).sample()


@pytest.mark.parametrize("shape", [(2,), (8, 3), (3, 4, 6), (2, 1, 2, 3), (5, 1000), (1, 1)], ids=str)
def test_indices_are_those_that_torch_draws(shape):
    logits, drawn = 5 * torch.randn(shape), []
    logits[..., 0] = -torch.inf if shape[-1] > 1 else 0.0
    for kind in (UncheckedCategorical, lambda logits: Categorical(logits=logits.clamp_min(-1e30))):
        torch.manual_seed(0)
        found = kind(logits)
        drawn.append([*(found.sample() for _ in range(20)), torch.rand(1)])
    assert all(map(torch.equal, *drawn))


def test_entropies_and_their_gradients_are_those_of_torch():
    found = []
    for entropy_of in (UncheckedCategorical.entropy, Categorical.entropy):
        logits = torch.linspace(-9, 9, 24).view(4, 6).requires_grad_()
        masked = logits.masked_fill(torch.arange(6) < torch.tensor([[0], [1], [3], [5]]), -torch.inf)
        entropy = entropy_of(UncheckedCategorical(masked))
        entropy.sum().backward()
        found.append((entropy, logits.grad))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])
    assert found[0][0].shape == (4,) and found[0][0][3] == 0 and bool(found[0][1].isfinite().all())


@pytest.mark.parametrize("value", [torch.tensor([2, 0]), torch.tensor([-1, 0]), torch.tensor([0.5, 0.0])], ids=str)
def test_values_that_are_not_an_index_are_explained(value):
    with pytest.raises(ValueError, match="to be within the support"):
        UncheckedCategorical(torch.zeros(2, 2)).log_prob(value)


def test_one_hot_vectors_are_not_indices():
    with pytest.raises(ValueError, match=re.escape("Value is not broadcastable with batch_shape+event_shape")):
        UncheckedCategorical(torch.zeros(5, 2)).log_prob(torch.zeros(5, 2, dtype=torch.int64))


def test_a_rollout_draws_what_its_steps_would_draw():
    env, policy = GymEnv("CartPole-v1", categorical_action_encoding=True), categorical(return_log_prob=True)
    results = []
    for callback in (None, lambda step: None):  # with a callback each step is a TensorDict
        env.set_seed(2)
        torch.manual_seed(0)
        with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
            results.append(env.rollout(60, policy, callback, break_when_any_done=False))
    rows, steps = results
    assert set(rows.keys(True, True)) == set(steps.keys(True, True))
    torch.testing.assert_close(rows.to_dict(), steps.to_dict())


def test_a_function_is_made_anew_when_a_hook_or_another_kind_of_exploration_asks_for_it():
    module, unwrapping = nested(), Unwrapping()
    function = unwrapping(module)
    assert unwrapping(module) is function
    with set_exploration_type("mode"):
        assert unwrapping(module) is not function
    function = unwrapping(module)
    handle = module[0].register_forward_hook(lambda *_: None)
    assert unwrapping(module) is None
    handle.remove()
    assert unwrapping(module) is function
    with set_skip_existing(True):
        assert unwrapping(module) is None
    assert not copy.deepcopy(unwrapping)._known
