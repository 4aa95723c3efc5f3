"""Attributes of an env, a torch.nn.Module: what torch registers stays registered, everything else is set directly."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rlnb.envs import PendulumEnv


class Counted:
    """A base class beside EnvBase that wants to know of each attribute."""

    counts: dict[str, int]

    def __setattr__(self, name, value):
        self.__dict__.setdefault("counts", {})
        self.counts[name] = self.counts.get(name, 0) + 1
        super().__setattr__(name, value)


class Swing(PendulumEnv, Counted):
    """A pendulum that knows how often each of its attributes was set."""


@pytest.fixture
def env():
    env = PendulumEnv()
    env.net, env.weight = nn.Linear(1, 1), nn.Parameter(torch.zeros(2))
    env.register_buffer("offset", torch.zeros(1))
    return env


def test_parameters_modules_and_buffers_are_registered(env):
    assert set(env.state_dict()) == {"net.weight", "net.bias", "weight", "offset"}
    env.offset, env.net = torch.ones(1), nn.Identity()
    assert env.state_dict()["offset"] == 1
    assert set(env.state_dict()) == {"weight", "offset"}


@pytest.mark.parametrize("name", ["net", "weight", "offset"])
def test_what_is_registered_is_not_replaced_by_a_plain_value(env, name):
    with pytest.raises(TypeError, match=name):
        setattr(env, name, "plain")
    setattr(env, name, None)
    assert getattr(env, name) is None and name not in env.__dict__
    assert not any(key.startswith(name) for key in env.state_dict())


def test_a_parameter_before_the_constructor_ran_is_an_error():
    class Early(PendulumEnv):
        def __init__(self):
            self.weight = nn.Parameter(torch.zeros(1))
            super().__init__()

    with pytest.raises(AttributeError, match="before Module"):
        Early()


def test_plain_values_are_set_and_deleted(env):
    env.length, env.state = 3, torch.zeros(1)
    env.length, env.state = 4, torch.ones(1)
    assert (env.length, env.state.item()) == (4, 1)
    del env.length
    assert not hasattr(env, "length")


def test_a_property_without_a_setter_is_not_replaced(env):
    with pytest.raises(AttributeError, match="no setter"):
        env.batch_dims = 1


def test_a_base_class_beside_it_sees_each_assignment():
    env = Swing()
    env.length = 1
    env.length = 2
    assert env.counts["length"] == 2
