"""terminated_or_truncated: end signals aggregated at each level."""

from __future__ import annotations

import itertools

import pytest
import torch
from tensordict import TensorDict

import rlnb.envs
from rlnb.data import Binary, Composite
from rlnb.envs import GymEnv, step_mdp
from rlnb.envs.utils import terminated_or_truncated

FLAG = Binary(1, dtype=torch.bool)
SPEC = Composite(done=FLAG, truncated=FLAG, nested=Composite(done=FLAG, truncated=FLAG))


def make(done, truncated, nested_done, nested_truncated):
    flag = lambda value: torch.tensor([bool(value)])  # noqa: E731 - four times below
    return TensorDict(
        {
            "done": flag(done),
            "truncated": flag(truncated),
            "nested": {"done": flag(nested_done), "truncated": flag(nested_truncated)},
        }
    )


@pytest.mark.parametrize("write_full_false", [False, True])
@pytest.mark.parametrize("spec", [None, SPEC])
@pytest.mark.parametrize("signals", list(itertools.product([0, 1], repeat=4)))
def test_each_level_has_the_union_of_its_signals(signals, spec, write_full_false):
    data = make(*signals)
    before = data.clone()
    assert terminated_or_truncated(data, spec, write_full_false=write_full_false) is any(signals)
    if any(signals) or write_full_false:
        assert data["_reset"].tolist() == [any(signals[:2])]
        assert data["nested", "_reset"].tolist() == [any(signals[2:])]
        data["_reset"].fill_(True)  # the mask has its own memory
        assert data["done"].tolist() == [bool(signals[0])]
        data = data.exclude("_reset", ("nested", "_reset"))
    assert set(data.keys(True, True)) == set(before.keys(True, True)) and (data == before).all()


@pytest.mark.parametrize(
    ("key", "written"),
    [
        (None, set()),
        ("ended", {"ended", ("nested", "ended")}),
        (("a", "b"), {("a", "b"), ("nested", "a", "b")}),
    ],
)
def test_the_key(key, written):
    data = make(1, 0, 0, 0)
    before = set(data.keys(True, True))
    assert terminated_or_truncated(data, SPEC, key=key) is True
    assert set(data.keys(True, True)) - before == written


def test_levels_keep_their_shapes():
    agents = torch.tensor([[[True], [False]]]).expand(3, 2, 1)
    data = TensorDict({"agents": {"done": agents}, "terminated": torch.zeros(3, 1, dtype=torch.bool)}, [3])
    assert terminated_or_truncated(data)
    assert torch.equal(data["agents", "_reset"], agents)
    assert data["_reset"].shape == (3, 1) and not data["_reset"].any()


def test_only_what_the_spec_names_counts():
    data = make(0, 1, 0, 1)
    assert terminated_or_truncated(data, Composite(done=FLAG)) is False
    assert "_reset" not in data


def test_without_end_signals_nothing_has_ended():
    data = TensorDict({"observation": torch.ones(2)})
    assert terminated_or_truncated(data, write_full_false=True) is False
    assert list(data.keys()) == ["observation"]


def test_a_stale_mask_is_overwritten():
    data = make(1, 0, 0, 0).set("_reset", torch.tensor([False]))
    terminated_or_truncated(data)
    assert data["_reset"].tolist() == [True]


def test_its_mask_is_what_a_reset_takes():
    env = GymEnv("CartPole-v1")
    env.set_seed(0)
    data = step_mdp(env.rollout(500)[..., -1])
    assert terminated_or_truncated(data, env.full_done_spec) is True
    fresh = env.reset(data)
    assert not fresh["done"].any() and terminated_or_truncated(fresh, env.full_done_spec, key=None) is False


def test_data_before_step_mdp_is_refused_with_the_fix():
    data = TensorDict({"action": torch.zeros(1), "next": {"done": torch.tensor([True])}})
    with pytest.raises(KeyError) as caught:
        terminated_or_truncated(data, Composite(done=FLAG))
    assert caught.value.args[0] == (
        "The spec names the end signals 'done', and the data has none of them. It has: 'action', ('next', 'done'). "
        "Fix: after a step the end signals are under 'next': pass step_mdp(data) or data['next']."
    )


def test_a_leaf_spec_is_refused():
    with pytest.raises(TypeError) as caught:
        terminated_or_truncated(make(1, 0, 0, 0), FLAG)
    assert str(caught.value) == (
        "The end signals are described by a Composite, and full_done_spec is a Binary. Fix: pass env.full_done_spec."
    )


def test_it_is_exported():
    assert rlnb.envs.terminated_or_truncated is terminated_or_truncated
