"""Exploration types: one setting for all probabilistic modules, nested and under its older names."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import InteractionType, ProbabilisticTensorDictModule, set_interaction_type
from torch.distributions import Categorical

import rlnb.envs
from rlnb.envs import utils
from rlnb.envs.utils import (
    ExplorationType,
    exploration_mode,
    exploration_type,
    set_exploration_mode,
    set_exploration_type,
)


class Lopsided(torch.distributions.Normal):
    """A distribution whose every summary is another number."""

    mode = property(lambda self: self.loc + 1)
    median = property(lambda self: self.loc + 2)
    mean = property(lambda self: self.loc + 3)
    deterministic_sample = property(lambda self: self.loc + 4)

    def rsample(self, sample_shape=()):
        return self.loc + 5


POLICY = ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=Lopsided)
VALUES = {"MODE": 1.0, "MEDIAN": 2.0, "MEAN": 3.0, "DETERMINISTIC": 4.0, "RANDOM": 5.0}


def act() -> float:
    return POLICY(TensorDict({"loc": torch.zeros(()), "scale": torch.ones(())}))["action"].item()


def test_the_types():
    assert {member.name for member in ExplorationType} == set(VALUES)
    assert ExplorationType is InteractionType
    names = ("ExplorationType", "exploration_type", "set_exploration_type")
    assert all(getattr(rlnb.envs, name) is getattr(utils, name) for name in names)


@pytest.mark.parametrize("name", VALUES)
def test_a_block_steers_probabilistic_modules(name):
    assert exploration_type() is None and act() == VALUES["DETERMINISTIC"]
    for spelling in (ExplorationType[name], name, name.lower()):
        with set_exploration_type(spelling):
            assert exploration_type() is ExplorationType[name]
            assert act() == VALUES[name]
    assert exploration_type() is None and act() == VALUES["DETERMINISTIC"]


def test_the_default_is_deterministic():
    with set_exploration_type():
        assert exploration_type() is ExplorationType.DETERMINISTIC


@pytest.mark.parametrize("name", VALUES)
def test_a_decorator_steers_probabilistic_modules(name):
    decorated = set_exploration_type(ExplorationType[name])(act)
    assert [decorated(), decorated()] == [VALUES[name]] * 2
    assert exploration_type() is None


def test_blocks_nest_and_end_with_errors():
    with set_exploration_type("mode"):
        with set_exploration_type("random"), set_exploration_type(None):
            assert exploration_type() is None
        assert exploration_type() is ExplorationType.MODE
        with pytest.raises(KeyError), set_exploration_type("mean"):
            raise KeyError
        assert exploration_type() is ExplorationType.MODE
        with set_interaction_type("median"):
            assert exploration_type() is ExplorationType.MEDIAN
        assert act() == VALUES["MODE"]
    assert exploration_type() is None


@pytest.mark.parametrize("unknown", ["greedy", 3, ""])
@pytest.mark.parametrize("setter", [set_exploration_type, set_exploration_mode])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_unknown_type_is_refused(setter, unknown):
    with pytest.raises(ValueError) as caught:
        setter(unknown)
    assert str(caught.value) == (
        f"There is no exploration type {unknown!r}. The types are: MODE, MEDIAN, MEAN, RANDOM, DETERMINISTIC. "
        "Fix: set_exploration_type(ExplorationType.RANDOM)."
    )
    assert exploration_type() is None


@pytest.mark.parametrize("name", [*VALUES, None])
def test_the_former_names_still_work_and_warn(name):
    with pytest.warns(DeprecationWarning) as caught:
        setter = set_exploration_mode(name and name.lower())
    assert [str(warning.message) for warning in caught] == [
        "set_exploration_mode(mode) is deprecated. Fix: set_exploration_type(type)."
    ]
    assert caught[0].filename == __file__  # the line that has to be changed
    with setter:
        with pytest.warns(DeprecationWarning) as caught:
            mode = exploration_mode()
        assert type(mode) is (str if name else type(None)) and mode == (name and name.lower())
        assert act() == VALUES[name or "DETERMINISTIC"]
    assert str(caught[0].message) == "exploration_mode() is deprecated. Fix: exploration_type()."
    assert caught[0].filename == __file__
    assert exploration_type() is None


def test_torchs_distributions_follow():
    policy = ProbabilisticTensorDictModule(["probs"], ["action"], distribution_class=Categorical)
    data = TensorDict({"probs": torch.tensor([0.4, 0.6]).expand(200, 2)}, [200])
    with set_exploration_type(ExplorationType.MODE):
        assert policy(data.clone())["action"].unique().tolist() == [1]
    with set_exploration_type(ExplorationType.RANDOM):
        assert policy(data.clone())["action"].unique().tolist() == [0, 1]
