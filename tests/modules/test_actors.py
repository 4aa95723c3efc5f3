"""Actors: keys, kinds of exploration, log-probabilities, specs, and how they copy."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution, TensorDictModule
from torch import nn
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Normal

from rlnb.data import Binary, Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, Unbounded
from rlnb.envs.utils import ExplorationType, set_exploration_type
from rlnb.modules import (
    Actor,
    Delta,
    MaskedCategorical,
    MaskedOneHotCategorical,
    NormalParamExtractor,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    QValueModule,
    SafeModule,
    SafeProbabilisticModule,
    SafeProbabilisticTensorDictSequential,
    SafeSequential,
    TanhNormal,
    ValueOperator,
)

BOX = Bounded(-1.0, 1.0, (2,))


def data(*batch: int, dtype: torch.dtype = torch.float32) -> TensorDict:
    torch.manual_seed(0)
    return TensorDict({"observation": torch.randn(*batch, 4, dtype=dtype)}, batch)


def normal_policy(**kwargs: Any) -> ProbabilisticActor:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 4), NormalParamExtractor())
    module = TensorDictModule(net, ["observation"], ["loc", "scale"])
    arguments = {"in_keys": ["loc", "scale"], "spec": BOX, "distribution_class": TanhNormal, **kwargs}
    return ProbabilisticActor(module, **arguments)


def logits_policy(spec: Any, distribution: Any, n: int = 3, **kwargs: Any) -> ProbabilisticActor:
    module = TensorDictModule(nn.Linear(4, n), ["observation"], ["logits"])
    arguments = {"in_keys": ["logits"], **kwargs}
    return ProbabilisticActor(module, spec=spec, distribution_class=distribution, **arguments)


def test_keys_and_shapes() -> None:
    policy = normal_policy(return_log_prob=True)
    assert policy.in_keys == ["observation"]
    assert policy.out_keys == ["loc", "scale", "action", "action_log_prob"]
    assert policy.log_prob_keys == ["action_log_prob"]
    for batch in ((), (3,), (3, 5)):
        out = policy(data(*batch))
        assert out["action"].shape == (*batch, 2)
        assert out["action_log_prob"].shape == batch
        assert out["action_log_prob"].grad_fn is not None


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"out_keys": ["a"]}, ["a", "a_log_prob"]),
        ({"out_keys": "a"}, ["a", "a_log_prob"]),
        ({"out_keys": [("agents", "action")]}, [("agents", "action"), ("agents", "action_log_prob")]),
        ({"log_prob_key": "lp"}, ["action", "lp"]),
    ],
)
def test_names_of_outputs(given: dict[str, Any], written: list[Any]) -> None:
    policy = normal_policy(return_log_prob=True, **given)
    assert policy.out_keys == ["loc", "scale", *written]
    out = policy(data(3))
    assert all(key in out.keys(True) for key in written)
    assert policy.spec[written[0]] == BOX
    assert policy.spec[written[1]] is None


def test_parameters_by_name_of_argument() -> None:
    module = TensorDictModule(nn.Linear(4, 2), ["observation"], ["mu"])
    policy = ProbabilisticActor(
        module, in_keys={"loc": "mu"}, distribution_class=Normal, distribution_kwargs={"scale": 1.0}
    )
    out = policy(data(3))
    assert torch.equal(out["action"], out["mu"])


def test_kinds_of_exploration() -> None:
    policy, td = normal_policy(), data(5)
    dist = policy.get_dist(td)
    torch.testing.assert_close(policy(td.copy())["action"], dist.deterministic_sample)
    with set_exploration_type(ExplorationType.RANDOM):
        first, second = policy(td.copy())["action"], policy(td.copy())["action"]
        assert not torch.equal(first, second)
        assert first.grad_fn is not None
    with set_exploration_type(ExplorationType.MEAN):
        mean = policy(td.copy())["action"]
        torch.testing.assert_close(mean, dist.sample((20000,)).mean(0), atol=0.1, rtol=0)
    with set_exploration_type(ExplorationType.MODE), pytest.raises(RuntimeError, match=r"ExplorationType\.DETERM"):
        policy(td.copy())
    with set_exploration_type("deterministic"):
        torch.testing.assert_close(policy(td.copy())["action"], dist.deterministic_sample)
    random = normal_policy(default_interaction_type=ExplorationType.RANDOM)
    assert not torch.equal(random(td.copy())["action"], random(td.copy())["action"])


@pytest.mark.parametrize("mode", ["mode", "deterministic"])
@pytest.mark.parametrize(("spec", "distribution"), [(Categorical(3), TorchCategorical), (OneHot(3), OneHotCategorical)])
def test_best_choice(spec: Any, distribution: Any, mode: str) -> None:
    policy = logits_policy(spec, distribution)
    with set_exploration_type(mode):
        out = policy(data(6))
    best = out["logits"].argmax(-1)
    action = out["action"]
    assert torch.equal(action if action.ndim == 1 else action.argmax(-1), best)


def test_log_prob_is_that_of_the_action() -> None:
    for policy in (
        normal_policy(return_log_prob=True),
        logits_policy(OneHot(3), OneHotCategorical, return_log_prob=True),
        logits_policy(Categorical(3), TorchCategorical, return_log_prob=True),
    ):
        with set_exploration_type("random"):
            out = policy(data(7, 2))
        again = policy.get_dist(out).log_prob(out["action"])
        torch.testing.assert_close(out["action_log_prob"], again, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(policy.log_prob(out), again)


def test_log_prob_of_a_saturated_action_is_of_what_was_drawn() -> None:
    module = TensorDictModule(lambda x: (x * 0 + 30, x * 0 + 1), ["observation"], ["loc", "scale"])
    policy = ProbabilisticActor(module, ["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True)
    with set_exploration_type("random"):
        out = policy(data(3))
    assert (out["action_log_prob"] > 0).all()
    assert (policy.log_prob(out) < 0).all()  # only the clamped action is known here


def test_calls_with_tensors() -> None:
    policy = normal_policy(return_log_prob=True)
    out = policy(data(3))
    for result in (policy(out["observation"]), policy(observation=out["observation"])):
        assert len(result) == 4
        assert torch.equal(result[2], out["action"])


def test_double_precision() -> None:
    policy = normal_policy(return_log_prob=True).double()
    out = policy(data(3, dtype=torch.float64))
    assert out["action"].dtype == out["action_log_prob"].dtype == torch.float64


def test_composite_actions() -> None:
    module = TensorDictModule(
        lambda x: (x[..., :2], x[..., 2:].exp(), x[..., :3]),
        ["observation"],
        [("params", "move", "loc"), ("params", "move", "scale"), ("params", "kind", "logits")],
    )
    policy = ProbabilisticActor(
        module,
        in_keys=["params"],
        spec=Composite(move=BOX, kind=OneHot(3)),
        distribution_class=CompositeDistribution,
        distribution_kwargs={"distribution_map": {"move": TanhNormal, "kind": OneHotCategorical}},
        return_log_prob=True,
    )
    with set_exploration_type("random"):
        out = policy(data(5))
    assert out["move"].shape == (5, 2)
    assert out["kind"].shape == (5, 3)
    assert out["move_log_prob"].shape == out["kind_log_prob"].shape == (5,)
    assert policy.spec["move"] == BOX
    assert policy.random(data(5))["kind"].sum(-1).eq(1).all()


def test_safe_actions_are_projected() -> None:
    for policy in (
        normal_policy(distribution_class=Normal, safe=True, return_log_prob=True),
        Actor(nn.Linear(4, 2), spec=BOX, safe=True),
        SafeModule(nn.Linear(4, 2), ["observation"], ["action"], spec=BOX, safe=True),
        SafeSequential(SafeModule(nn.Linear(4, 2), ["observation"], ["action"], spec=Composite(action=BOX), safe=True)),
    ):
        td = TensorDict({"observation": 100 * torch.randn(50, 4)}, [50])
        raw = policy.module[0](td.copy()) if isinstance(policy, ProbabilisticActor) else None
        action = policy(td)["action"]
        assert BOX.is_in(action)
        assert action.abs().eq(1).any()
        if raw is not None:
            assert torch.equal(action, raw["loc"].clamp(-1, 1))
            # The log-probability is that of the value that was drawn.
            expected = Normal(raw["loc"], raw["scale"]).log_prob(raw["loc"])
            torch.testing.assert_close(td["action_log_prob"], expected)


def test_actions_that_are_not_safe_are_left_alone() -> None:
    policy = Actor(nn.Linear(4, 2), spec=BOX)
    assert not BOX.is_in(policy(TensorDict({"observation": 100 * torch.randn(50, 4)}, [50]))["action"])


def test_specs_are_collected() -> None:
    policy = normal_policy(return_log_prob=True)
    assert dict(policy.spec.items()) == {"loc": None, "scale": None, "action": BOX, "action_log_prob": None}
    assert policy[1].spec == Composite(action=BOX)
    sequence = SafeSequential(policy, SafeModule(nn.Linear(2, 1), ["action"], ["x"], spec=Unbounded(1)))
    assert sequence.spec["action"] == BOX
    assert sequence.spec["x"] == Unbounded(1)
    two = SafeModule(lambda x: (x, x), ["observation"], ["a", ("b", "c")], spec=Composite({("b", "c"): BOX}))
    assert two.spec["a"] is None
    assert two.spec["b", "c"] == BOX


def test_random_actions_come_from_the_spec() -> None:
    for policy in (normal_policy(), Actor(nn.Linear(4, 2), spec=BOX)):
        out = policy.random(data(3, 5))
        assert out["action"].shape == (3, 5, 2)
        assert BOX.is_in(policy.random_sample(data(7))["action"])
    with pytest.raises(ValueError, match=r"^Actor has no spec to draw random values from\. Fix: Actor\(\.\.\., spec="):
        Actor(nn.Linear(4, 2)).random(data(3))


def test_actor_of_several_outputs() -> None:
    policy = Actor(lambda x: (x[..., :2], x), out_keys=["action", "copy"], spec=BOX)
    out = policy(data(3))
    assert out["copy"].shape == (3, 4)
    assert policy.spec["copy"] is None
    dist = policy.get_dist(data(3))
    assert isinstance(dist, Delta)
    assert torch.equal(dist.sample(), out["action"])


def test_values() -> None:
    assert ValueOperator(nn.Linear(4, 1)).in_keys == ["observation"]
    assert ValueOperator(nn.Linear(4, 1)).out_keys == ["state_value"]
    critic = ValueOperator(nn.Bilinear(4, 2, 1), in_keys=["observation", "action"])
    assert critic.out_keys == ["state_action_value"]
    assert critic(normal_policy()(data(3, 2)))["state_action_value"].shape == (3, 2, 1)
    assert ValueOperator(nn.Linear(4, 1), in_keys=[("agents", "observation")], out_keys=["v"]).out_keys == ["v"]


def test_copies_and_parameters() -> None:
    policy = normal_policy(return_log_prob=True)
    before = policy(data(3))
    for twin in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert torch.equal(twin(data(3))["action"], before["action"])
        assert twin.spec == policy.spec
        with torch.no_grad():
            next(twin.parameters()).add_(1)
        assert torch.equal(policy(data(3))["action"], before["action"])
        twin.load_state_dict(policy.state_dict())
        assert torch.equal(twin(data(3))["action"], before["action"])
    assert set(policy.state_dict()) == {"module.0.module.0.weight", "module.0.module.0.bias"}


def test_a_sequence_that_ends_in_a_draw() -> None:
    draw = SafeProbabilisticModule(["loc", "scale"], ["action"], spec=BOX, safe=True, distribution_class=Normal)
    policy = SafeProbabilisticTensorDictSequential(normal_policy()[0], draw)
    assert isinstance(policy, SafeSequential)
    assert policy.spec["action"] == BOX
    assert isinstance(policy.get_dist(data(3)), Normal)
    assert BOX.is_in(policy(TensorDict({"observation": 100 * torch.randn(9, 4)}, [9]))["action"])


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "distribution", "fix"),
    [
        (OneHot(3), TorchCategorical, r"OneHotCategorical"),
        (OneHot(3), MaskedCategorical, r"OneHotCategorical"),
        (MultiOneHot([2, 3]), TorchCategorical, r"MultiCategorical actions"),
        (MultiOneHot([2, 3]), OneHotCategorical, r"MultiCategorical actions"),
        (Categorical(3), OneHotCategorical, r"torch\.distributions\.Categorical"),
        (Categorical(3), MaskedOneHotCategorical, r"torch\.distributions\.Categorical"),
        (MultiCategorical([2, 3]), OneHotCategorical, r"torch\.distributions\.Categorical"),
        (BOX, OneHotCategorical, r"TanhNormal"),
        (BOX, TorchCategorical, r"TanhNormal"),
    ],
)
def test_distributions_that_do_not_fit_the_spec(spec: Any, distribution: Any, fix: str) -> None:
    with pytest.raises(ValueError, match=rf"^The spec of 'action' is a {type(spec).__name__} and .* Fix: .*{fix}"):
        logits_policy(spec, distribution)


@pytest.mark.parametrize("spec", [OneHot(2), Categorical(2), Binary(2), Bounded(0, 3, (2,), dtype=torch.int64)])
def test_real_numbers_for_discrete_actions(spec: Any) -> None:
    with pytest.raises(ValueError, match=r"and TanhNormal draws real numbers, which .*\. Fix: dist"):
        normal_policy(spec=spec)


@pytest.mark.parametrize(
    ("spec", "distribution"),
    [
        (OneHot(3), OneHotCategorical),
        (Categorical(3), TorchCategorical),
        (MultiCategorical([3, 3]), TorchCategorical),
        (Bounded(0, 2, (), dtype=torch.int64), TorchCategorical),
        (None, TorchCategorical),
        (OneHot(3), lambda logits: OneHotCategorical(logits=logits)),
    ],
)
def test_distributions_that_fit(spec: Any, distribution: Any) -> None:
    assert logits_policy(spec, distribution).spec["action"] == spec


def test_texts_of_errors() -> None:
    with pytest.raises(ValueError) as error:
        logits_policy(OneHot(3), TorchCategorical)
    assert str(error.value) == (
        "The spec of 'action' is a OneHot and Categorical draws indices, which the env would not take. "
        "Fix: distribution_class=OneHotCategorical, with in_keys=['logits']."
    )
    with pytest.raises(ValueError) as error:
        normal_policy(spec=None, safe=True)
    assert str(error.value) == (
        "SafeProbabilisticModule was made with safe=True, which projects its outputs onto their spec, and without "
        "a spec. Fix: spec=env.action_spec, or safe=False."
    )
    with pytest.raises(TypeError) as error:
        ProbabilisticActor(nn.Linear(4, 2), in_keys=["logits"])
    assert str(error.value) == (
        "ProbabilisticActor needs a module over TensorDicts, which writes the parameters ['logits'], got a Linear. "
        "Fix: TensorDictModule(module, in_keys=['observation'], out_keys=['logits'])."
    )
    with pytest.raises(ValueError) as error:
        logits_policy(None, OneHotCategorical, in_keys=["observation"])
    assert str(error.value) == (
        "OneHotCategorical has no parameter 'observation'; it has: logits, probs, grad_method, validate_args. in_keys "
        "are the entries that become the parameters of the distribution, not the inputs of the network. Fix: "
        "in_keys={'logits': 'observation'}, or rename what the network writes."
    )


@pytest.mark.parametrize("safe", [True, False])
def test_sizes_that_differ_are_found_on_the_first_call(safe: bool) -> None:
    td = data(3)
    policy = normal_policy(spec=Bounded(-1.0, 1.0, (3,)), safe=safe)
    with pytest.raises(ValueError) as error:
        policy(td.copy())
    assert str(error.value) == (
        "The spec of 'action' has 3 components (BoundedContinuous of shape [3]), and what the module returns has 2: "
        "its shape is [3, 2]. Fix: a network whose last layer has 3 outputs, or 2 * 3 before a NormalParamExtractor."
    )
    with pytest.raises(ValueError, match="has 3 components"):  # and again, until it is mended
        policy(td.copy())
    with pytest.raises(ValueError) as error:
        logits_policy(Categorical(5), TorchCategorical)(td.copy())
    assert str(error.value) == (
        "The spec of 'action' has 5 choices, and the distribution has 3. Fix: a network with 5 outputs, one for the "
        "logit of each choice."
    )
    with pytest.raises(ValueError, match="has 5 components"):
        logits_policy(OneHot(5), OneHotCategorical)(td.copy())
    with pytest.raises(ValueError, match="has 3 components"):
        Actor(nn.Linear(4, 2), spec=Bounded(-1.0, 1.0, (3,)))(td.copy())


def test_specs_that_do_not_match_the_outputs() -> None:
    with pytest.raises(ValueError) as error:
        SafeModule(lambda x: (x, x), ["observation"], ["a", "b"], spec=BOX)
    assert str(error.value) == (
        "SafeModule has the outputs ['a', 'b'], and one spec, a BoundedContinuous, that could be any one's. "
        "Fix: spec=Composite({'a': spec})."
    )
    with pytest.raises(ValueError) as error:
        normal_policy(spec=Composite(a=BOX))
    assert str(error.value) == (
        "The spec of SafeProbabilisticModule has the entries ['a'], which are not among its outputs ['action']. "
        "Fix: give the spec without them, or name them in out_keys."
    )
    with pytest.raises(TypeError, match=r"^The spec of Actor must be a spec, got int\. Fix: spec=env\.action_spec\.$"):
        Actor(nn.Linear(4, 2), spec=3)


def test_a_bad_spec_changes_nothing() -> None:
    policy = Actor(nn.Linear(4, 2), spec=BOX, safe=True)
    with pytest.raises(ValueError, match="not among its outputs"):
        policy.spec = Composite(other=BOX)
    with pytest.raises(ValueError, match="safe=True"):
        policy.spec = None
    assert policy.spec["action"] == BOX
    with pytest.raises(ValueError, match="are those of its modules"):
        normal_policy().register_spec(True, BOX)


@pytest.mark.parametrize("spec", [OneHot(3), Categorical(3), MultiOneHot((2, 1)), Composite(action=OneHot(3))])
def test_a_spec_in_the_place_of_the_action_space(spec: Any) -> None:
    by_place, by_name = QValueModule(spec), QValueModule(spec=spec)
    assert by_place.spec == by_name.spec and by_place.action_space == by_name.action_space
    assert by_place.var_nums == by_name.var_nums
    values = torch.tensor([0.1, 0.3, 0.2])
    assert by_place(values)[0].equal(by_name(values)[0])
    assert QValueActor(nn.Linear(4, 3), action_space=spec).spec["action"] == by_name.spec["action"]
