"""Value estimators as modules: every kind of end compared with a loop, gradients, keys, and errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from rlnb.objectives.value import GAE, TD0Estimator, TD1Estimator, TDLambdaEstimator
from tests.pairwise import sampled

GAMMA, LMBDA = 0.875, 0.75  # exact in single precision, in which estimators keep them
KINDS = {
    "TD0": lambda **k: TD0Estimator(gamma=GAMMA, **k),
    "TD1": lambda **k: TD1Estimator(gamma=GAMMA, **k),
    "TDLambda": lambda **k: TDLambdaEstimator(gamma=GAMMA, lmbda=LMBDA, **k),
    "GAE": lambda **k: GAE(gamma=GAMMA, lmbda=LMBDA, **k),
}


def critic(key="state_value"):
    """V(s) = w . s + b with weights that need no random generator."""
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.7, -0.4]]))
        net.bias.fill_(0.3)
    return TensorDictModule(net.to(torch.float64), ["observation"], [key])


def make_data(batch, length, *, seed=0, ends=0.3, seams=0.0, padding=False):
    """TED data whose steps end as episodes, at time limits, at seams between trajectories, and before padding."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(batch, length, *shape, generator=generator, dtype=torch.float64)

    terminated = torch.rand(batch, length, 1, generator=generator) < ends / 2
    truncated = torch.rand(batch, length, 1, generator=generator) < ends / 2
    seam = torch.rand(batch, length, generator=generator) < seams
    after = {"observation": draw(2), "reward": draw(1), "terminated": terminated, "truncated": truncated}
    data = {"observation": draw(2), "next": {**after, "done": terminated | truncated}}
    if seams:
        data["collector"] = {"traj_ids": seam.long().cumsum(1)}
    if padding:
        counts = torch.randint(1, length + 1, (batch, 1), generator=generator)
        data.setdefault("collector", {})["mask"] = torch.arange(length).expand(batch, length) < counts
    return TensorDict(data, [batch, length])


def flags_of(data):
    """Whether each step is the last one of its trajectory, asked step by step."""
    batch, length = data.shape
    ids, mask = (data.get(("collector", key), None) for key in ("traj_ids", "mask"))
    last = torch.zeros(batch, length, dtype=torch.bool)
    for b in range(batch):
        for t in range(length):
            last[b, t] = bool(data["next", "done"][b, t]) or bool(data["next", "terminated"][b, t]) or t == length - 1
            if t < length - 1:
                for marks in (ids, mask):
                    last[b, t] |= marks is not None and bool(marks[b, t] != marks[b, t + 1])
    return last


def loop(kind, data, network):
    """Advantages and value targets in Python's floats, from the end of each trajectory to its start."""
    value = network.module(data["observation"]).detach()[..., 0]
    later = network.module(data["next", "observation"]).detach()[..., 0] * ~data["next", "terminated"][..., 0]
    last, reward = flags_of(data), data["next", "reward"][..., 0]
    advantage, target = torch.zeros_like(value), torch.zeros_like(value)
    lmbda = {"TD0": 0.0, "TD1": 1.0}.get(kind, LMBDA)
    for b in range(data.shape[0]):
        following = None
        for t in reversed(range(data.shape[1])):
            v, n, r = (float(x[b, t]) for x in (value, later, reward))
            following = None if bool(last[b, t]) else following
            if kind == "GAE":
                following = r + GAMMA * n - v + (0.0 if following is None else GAMMA * lmbda * following)
                advantage[b, t], target[b, t] = following, following + v
            else:
                following = r + GAMMA * (n if following is None else (1 - lmbda) * n + lmbda * following)
                advantage[b, t], target[b, t] = following - v, following
    return advantage.unsqueeze(-1), target.unsqueeze(-1)


@given(
    kind=st.sampled_from(sorted(KINDS)),
    batch=st.integers(1, 3),
    length=st.integers(1, 20),
    seed=st.integers(0, 2**31),
    ends=st.sampled_from([0.0, 0.3, 1.0]),
    seams=st.sampled_from([0.0, 0.3]),
    padding=st.booleans(),
    shifted=st.booleans(),
)
def test_estimates_are_those_of_the_loop_over_all_kinds_of_ends(
    kind, batch, length, seed, ends, seams, padding, shifted
):
    network = critic()
    data = make_data(batch, length, seed=seed, ends=ends, seams=seams, padding=padding)
    advantage, target = loop(kind, data, network)
    found = KINDS[kind](value_network=network, shifted=shifted)(data)
    torch.testing.assert_close(found["advantage"], advantage)
    torch.testing.assert_close(found["value_target"], target)
    torch.testing.assert_close(KINDS[kind](value_network=network).value_estimate(data), target)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_cut_is_no_end_and_an_end_is_no_cut(kind):
    """One step: its target bootstraps at a time limit, at a seam and at the end of the data, not at an end."""
    network, data = critic(), make_data(1, 1, ends=0.0)
    after = network.module(data["next", "observation"])
    reward = data["next", "reward"]
    for terminated, truncated in ((False, False), (False, True), (True, False), (True, True)):
        data["next", "terminated"] = torch.tensor([[[terminated]]])
        data["next", "done"] = torch.tensor([[[terminated or truncated]]])
        target = KINDS[kind](value_network=network)(data.clone())["value_target"]
        torch.testing.assert_close(target, reward + (0.0 if terminated else GAMMA * after.detach()))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_without_terminated_each_end_is_one_of_an_episode(kind):
    network, data = critic(), make_data(2, 9)
    both = data.clone()
    both["next", "terminated"] = both["next", "done"]
    found = KINDS[kind](value_network=network)(data.exclude(("next", "terminated")))
    torch.testing.assert_close(found["value_target"], KINDS[kind](value_network=network)(both)["value_target"])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_all_that_is_written_is_the_estimate_and_the_values(kind):
    network, data = critic(), make_data(2, 5)
    before = set(data.keys(True, True))
    found = KINDS[kind](value_network=network)(data)
    assert found is data
    assert set(data.keys(True, True)) - before == {
        "advantage", "value_target", "state_value", ("next", "state_value"),
    }  # fmt: skip
    assert torch.equal(data["state_value"], network.module(data["observation"]).detach())
    assert not any(value.requires_grad for value in data.values(True, True))


@pytest.mark.parametrize(("kind", "differentiable"), sampled(sorted(KINDS), [True, False]))
def test_gradients_flow_through_the_network_only_if_asked_for(kind, differentiable):
    network = critic()
    found = KINDS[kind](value_network=network, differentiable=differentiable)(make_data(2, 5))
    assert found["advantage"].requires_grad == found["value_target"].requires_grad == differentiable
    if differentiable:
        found["advantage"].sum().backward()
        assert bool(network.module.weight.grad.any())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_all_keys_can_be_named(kind):
    data = make_data(2, 6)
    wanted = KINDS[kind](value_network=critic())(data.clone())
    renamed = data.clone()
    names = {"reward": ("agents", "r"), "done": "d", "terminated": "t"}
    for role, key in names.items():
        renamed["next", *(key if isinstance(key, tuple) else (key,))] = renamed["next", role]
        del renamed["next", role]
    estimator = KINDS[kind](value_network=critic("v"))
    assert estimator.set_keys(**names, advantage="adv", value_target=("agents", "target")) is estimator
    found = estimator(renamed)
    assert torch.equal(found["adv"], wanted["advantage"])
    assert torch.equal(found["agents", "target"], wanted["value_target"])
    assert torch.equal(found["next", "v"], wanted["next", "state_value"])
    assert estimator.out_keys == ["adv", ("agents", "target")]
    assert ("next", "agents", "r") in estimator.in_keys


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_call_with_keywords_returns_advantage_and_target(kind):
    network, data = critic(), make_data(2, 6)
    wanted = KINDS[kind](value_network=network)(data.clone())
    names = ("observation", "reward", "done", "terminated")
    given_ = {f"next_{name}": data["next", name] for name in names}
    advantage, target = KINDS[kind](value_network=network)(observation=data["observation"], **given_)
    assert torch.equal(advantage, wanted["advantage"])
    assert torch.equal(target, wanted["value_target"])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_values_in_the_data_are_taken_where_there_is_no_network(kind):
    network, data = critic(), make_data(2, 6)
    wanted = KINDS[kind](value_network=network)(data.clone())
    data["state_value"] = network.module(data["observation"]).detach()
    data["next", "state_value"] = network.module(data["next", "observation"]).detach()
    found = KINDS[kind](value_network=None)(data)
    assert torch.equal(found["advantage"], wanted["advantage"])


def test_values_in_the_data_are_kept_if_asked_for():
    network, data = critic(), make_data(2, 6)
    data["state_value"] = torch.full((2, 6, 1), 5.0, dtype=torch.float64)
    assert torch.equal(KINDS["GAE"](value_network=network, skip_existing=True)(data.clone())["state_value"],
                       data["state_value"])  # fmt: skip
    assert not torch.equal(KINDS["GAE"](value_network=network)(data.clone())["state_value"], data["state_value"])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_time_may_be_another_dimension(kind):
    network, data = critic(), make_data(3, 6, seams=0.3)
    wanted = KINDS[kind](value_network=network)(data.clone())["advantage"]
    turned = data.transpose(0, 1).contiguous()
    found = KINDS[kind](value_network=network, time_dim=0)(turned.clone())["advantage"]
    torch.testing.assert_close(found.transpose(0, 1), wanted)
    found = KINDS[kind](value_network=network)(turned.clone(), time_dim=0)["advantage"]
    torch.testing.assert_close(found.transpose(0, 1), wanted)
    turned.names = ["time", None]
    found = KINDS[kind](value_network=network)(turned)["advantage"]
    torch.testing.assert_close(found.transpose(0, 1), wanted)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_parameters_of_the_target_give_the_values_of_next_states(kind):
    network, other, data = critic(), critic(), make_data(2, 6)
    with torch.no_grad():
        other.module.bias.fill_(-2.0)
    params = TensorDict.from_module(other).data
    found = KINDS[kind](value_network=network)(data.clone(), target_params=params)
    assert torch.equal(found["state_value"], network.module(data["observation"]).detach())
    assert torch.equal(found["next", "state_value"], other.module(data["next", "observation"]).detach())
    found = KINDS[kind](value_network=network)(data.clone(), params=params)
    assert torch.equal(found["state_value"], other.module(data["observation"]).detach())
    assert network.module.bias.item() == pytest.approx(0.3)


def test_the_discount_follows_the_number_of_steps():
    network, data = critic(), make_data(2, 6)
    count = torch.arange(12).reshape(2, 6, 1) % 3 + 1
    after = network.module(data["next", "observation"]).detach() * ~data["next", "terminated"]
    found = KINDS["TD0"](value_network=network)(data.set("steps_to_next_obs", count))["value_target"]
    torch.testing.assert_close(found, data["next", "reward"] + GAMMA**count * after)


def test_advantages_and_rewards_can_be_standardized():
    network, data = critic(), make_data(3, 9)
    advantage = KINDS["GAE"](value_network=network, average_gae=True)(data.clone())["advantage"]
    plain = KINDS["GAE"](value_network=network)(data.clone())
    assert advantage.mean() == pytest.approx(0, abs=1e-9)
    assert advantage.std() == pytest.approx(1)
    torch.testing.assert_close(
        plain["value_target"], KINDS["GAE"](value_network=network, average_gae=True)(data.clone())["value_target"]
    )
    reward = data["next", "reward"]
    scaled = data.clone()
    scaled["next", "reward"] = (reward - reward.mean()) / reward.std()
    found = KINDS["TD1"](value_network=network, average_rewards=True)(data)["value_target"]
    torch.testing.assert_close(found, KINDS["TD1"](value_network=network)(scaled)["value_target"])


def test_an_env_that_resets_itself_leaves_no_observation_after_a_cut():
    network, data = critic(), make_data(3, 9, ends=0.6)
    cut = data["next", "done"] & ~data["next", "terminated"]
    assert bool(cut.any())
    right = data.clone()
    right["next", "observation"] = torch.where(cut, data["observation"], data["next", "observation"])
    wanted = KINDS["GAE"](value_network=network)(right)["advantage"]
    found = KINDS["GAE"](value_network=network, auto_reset_env=True)(data)["advantage"]
    torch.testing.assert_close(found, wanted)


def test_lambda_0_and_1_are_td_0_and_full_returns():
    network, data = critic(), make_data(3, 9, seams=0.2)
    # Within a trajectory, the next observation is the one of the next step, so that GAE's differences cancel out.
    following = torch.cat([data["observation"][:, 1:], data["next", "observation"][:, -1:]], 1)
    last = flags_of(data).unsqueeze(-1)
    data["next", "observation"] = torch.where(last, data["next", "observation"], following)
    for lmbda, kind in ((0.0, "TD0"), (1.0, "TD1")):
        wanted = KINDS[kind](value_network=network)(data.exclude("collector") if kind == "TD0" else data.clone())
        for estimator in (GAE, TDLambdaEstimator):
            found = estimator(gamma=GAMMA, lmbda=lmbda, value_network=network)(data.clone())
            torch.testing.assert_close(found["advantage"], wanted["advantage"])
            torch.testing.assert_close(found["value_target"], wanted["value_target"])


# What errors say -----------------------------------------------------------------------------------------------------


def fails(error, call):
    with pytest.raises(error) as info:
        call()
    return info.value.args[0]


ERRORS = {
    "reward": (
        KeyError,
        lambda: KINDS["GAE"](value_network=critic())(make_data(1, 2).exclude(("next", "reward"))),
        "GAE needs the entry ('next', 'reward'); the env writes it under 'next'. Fix: set_keys(reward=...) if it has "
        "another key. The data has ",
    ),
    "no values": (
        KeyError,
        lambda: KINDS["TD0"](value_network=None)(make_data(1, 2)),
        "TD0Estimator needs the entry 'state_value'; the value network writes it. Fix: pass value_network=critic, or "
        "set_keys(value=...) if the value has another key. The data has ",
    ),
    "observation": (
        KeyError,
        lambda: KINDS["TD1"](value_network=critic())(make_data(1, 2).exclude(("next", "observation"))),
        "TD1Estimator needs the entry ('next', 'observation'); a network of it reads it. Fix: give the network in_keys "
        "that the data has, or add the entry. The data has ",
    ),
    "key of the value": (
        KeyError,
        lambda: GAE(gamma=0.9, lmbda=0.9, value_network=critic("v"), value_key="state_value")(make_data(1, 2)),
        "GAE expects the value at 'state_value', but the value network writes ['v']. Fix: set_keys(value='v').",
    ),
    "shape": (
        ValueError,
        lambda: KINDS["GAE"](
            value_network=TensorDictModule(nn.Linear(2, 3).double(), ["observation"], ["state_value"])
        )(make_data(1, 2)),
        "GAE expects values of the shape of the reward, [1, 2, 1], and got [1, 2, 3]. A value network whose last layer "
        "has one output gives [..., 1]; the cause may be a squeeze(-1) in it, or a reward without its last dimension. "
        "Fix: nn.Linear(..., 1) as the last layer, without squeeze.",
    ),
    "gamma": (
        ValueError,
        lambda: GAE(gamma=1.01, lmbda=0.95, value_network=None),
        "gamma must be in [0, 1], and got 1.01. With more than 1, the later a reward comes the more it would count. "
        "Fix: gamma=0.99.",
    ),
    "lmbda": (
        ValueError,
        lambda: TDLambdaEstimator(gamma=0.9, lmbda=-0.5, value_network=None),
        "lmbda must be in [0, 1], and got -0.5. Fix: lmbda=0.95.",
    ),
    "key": (
        KeyError,
        lambda: KINDS["GAE"](value_network=None).set_keys(rewards="r"),
        "GAE.set_keys knows no key 'rewards'. Fix: one of advantage, done, reward, sample_log_prob, steps_to_next_obs, "
        "terminated, value, value_target, each with the key of an entry as its value.",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_says_what_to_write(name):
    error, call, text = ERRORS[name]
    found = fails(error, call)
    assert found.startswith(text) if text.endswith("has ") else found == text


def test_a_failed_call_leaves_the_data_as_it_was():
    data = make_data(2, 4)
    data["next", "reward"] = torch.ones(2, 4, 3, dtype=torch.float64)
    before = set(data.keys(True, True))
    with pytest.raises(ValueError, match="shape"):
        KINDS["GAE"](value_network=critic())(data)
    assert set(data.keys(True, True)) == before
