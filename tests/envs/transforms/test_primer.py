"""TensorDictPrimer: defaults, draws, batches, existing entries, and info that a reset does not return."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from rlnb.data import Categorical, Composite, Unbounded
from rlnb.envs import CartPoleEnv, Compose, GymWrapper, StepCounter, TensorDictPrimer, TransformedEnv, check_env_specs
from tests.envs.conftest import Scripted
from tests.envs.transforms.cases import Agents, Numbers


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        (0.0, [0, 0]),
        (2.5, [2.5, 2.5]),
        (lambda: torch.tensor([1.0, 2.0]), [1, 2]),
        ({"h": 3.0}, [3, 3]),
        ({("h",): lambda: 4}, [4, 4]),
        ({}, [0, 0]),
    ],
)
def test_default_values(default, expected):
    env = TransformedEnv(Numbers((1,)), TensorDictPrimer(h=Unbounded(shape=(2,)), default_value=default))
    assert env.reset()["h"].tolist() == [expected]
    assert TensorDictPrimer(h=Unbounded(shape=(2,)), default_value=default)(TensorDict())["h"].tolist() == expected


@pytest.mark.parametrize(
    "primers",
    [{"h": Unbounded(shape=(3,))}, Composite(h=Unbounded(shape=(3,))), Composite(h=Unbounded(shape=(3,))).lock_()],
)
def test_ways_to_name_them(primers):
    primer = TensorDictPrimer(primers, more=Categorical(4))
    assert primer.primers.keys() == ["h", "more"]
    assert primer(TensorDict({}, [5]))["h"].shape == (5, 3)


def test_random_values_are_drawn_for_the_env():
    env = TransformedEnv(CartPoleEnv(batch_size=(3,)), TensorDictPrimer(h=Unbounded(shape=(2,)), random=True))
    env.set_seed(0)
    outer = torch.get_rng_state()
    first = env.reset()["h"]
    assert torch.equal(torch.get_rng_state(), outer)
    assert not torch.equal(env.reset()["h"], first)
    env.set_seed(0)
    assert torch.equal(env.reset()["h"], first)


def test_carried_from_step_to_step_and_reset_row_by_row():
    env = TransformedEnv(Numbers((3,)), Compose(StepCounter(), TensorDictPrimer(h=Unbounded(shape=(1,)))))
    td = env.reset().set("h", torch.tensor([[1.0], [2.0], [3.0]]))
    td = env._step_mdp(env.rand_step(td))
    assert td["h"].flatten().tolist() == [1, 2, 3]
    td = env.reset(td.set("_reset", torch.tensor([[False], [True], [False]])))
    assert td["h"].flatten().tolist() == [1, 0, 3]
    td["next"] = TensorDict({"h": torch.full((3, 1), 9.0)}, [3])
    assert env.rand_step(td)["next", "h"].unique().item() == 9, "what a policy writes stays"


def test_a_chosen_mask():
    primer = TensorDictPrimer(h=Unbounded(shape=(1,)), reset_key=("agents", "_reset"))
    env = TransformedEnv(Agents((2,)), primer)
    td = env.reset().set("h", torch.ones(2, 1))
    td["_reset"] = torch.tensor([[True], [False]])
    td["agents", "_reset"] = torch.tensor([False, True])[:, None, None].expand(2, 3, 1).clone()
    assert env.transform._reset(td, env.base_env.reset())["h"].flatten().tolist() == [1, 0]


def test_one_function_for_all():
    specs = {"h": Unbounded(shape=(2,)), ("deep", "n"): Categorical(5)}
    make = lambda: TensorDict({"h": torch.ones(2), "deep": {"n": 3}})  # noqa: E731 - as it is written in use
    env = TransformedEnv(Numbers((3,)), TensorDictPrimer(specs, default_value=make, single_default_value=True))
    td = env.reset()
    assert td["h"].shape == (3, 2) and td["h"].unique().item() == 1 and td["deep", "n"].tolist() == [3, 3, 3]
    check_env_specs(env)


@pytest.mark.parametrize(
    ("expand", "shape", "expected"),
    [
        (None, (3,), (2, 3)),
        (None, (2, 3), (2, 2, 3)),  # two layers in two envs: the batch size is no accident
        (None, (2,), (2, 2)),
        (True, (2,), (2, 2)),
        (True, (2, 3), (2, 2, 3)),
        (True, (3,), (2, 3)),
        (False, (2, 3), (2, 3)),
    ],
)
def test_batch_sizes(expand, shape, expected):
    env = TransformedEnv(Numbers((2,)), TensorDictPrimer(h=Unbounded(shape=shape), expand_specs=expand))
    assert env.observation_spec["h"].shape == env.reset()["h"].shape == expected
    whole = Composite({"h": Unbounded(shape=(2, 3))}, shape=(2,))
    assert TransformedEnv(Numbers((2,)), TensorDictPrimer(whole)).reset()["h"].shape == (2, 3)


def test_info_that_a_reset_does_not_give():
    import gymnasium

    def make():
        env = Scripted(gymnasium.spaces.Box(-1, 1, (2,)))
        step = env.step
        env.step = lambda action: (*step(action)[:-1], {"speed": 1.5, "height": 2})
        return GymWrapper(env).set_info_dict_reader()

    env = make()
    check_env_specs(env)
    fixed = TransformedEnv(env, TensorDictPrimer(env.info_dict_reader[0].info_spec))
    check_env_specs(fixed)
    found = fixed.rollout(4)
    assert found["speed"].tolist() == [0, 1.5, 1.5, 1.5] and found["next", "speed"].tolist() == [1.5] * 4
    assert set(fixed.observation_keys) == set(env.observation_keys)


def test_as_a_module_what_is_there_stays():
    primer = TensorDictPrimer(a=Unbounded(shape=(1,)), b=Unbounded(shape=(1,)), default_value=7.0)
    out = primer(TensorDict({"a": torch.ones(3, 1)}, [3]))
    assert out["a"].unique().item() == 1 and out["b"].unique().item() == 7


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: TensorDictPrimer(),
            ValueError,
            "TensorDictPrimer adds nothing. Fix: TensorDictPrimer(hidden=Unbounded(shape=(64,))).",
        ),
        (
            lambda: TensorDictPrimer(h=Unbounded(1), random=True, default_value=1.0),
            ValueError,
            "random=True draws the values, and default_value=1.0 sets them. Fix: leave one out.",
        ),
        (
            lambda: TensorDictPrimer(h=Unbounded(1), single_default_value=True),
            TypeError,
            "single_default_value=True needs a function that returns a TensorDict of all entries, and "
            "default_value is a "
            "float.",
        ),
        (
            lambda: TensorDictPrimer(h=Unbounded(1), default_value="zero"),
            TypeError,
            "The default value of 'h' must be a number, a tensor or a function, got a str.",
        ),
        (
            lambda: TensorDictPrimer(h=Unbounded(1), default_value={"g": 1.0}),
            KeyError,
            "default_value names ['g'], but the primers are ['h'].",
        ),
        (
            lambda: TransformedEnv(Numbers((2,)), TensorDictPrimer(h=Unbounded(shape=(3,)), expand_specs=False)),
            ValueError,
            "The primer 'h' has shape (3,), and the env's batch size is (2,): the shape of a spec must start with the "
            "batch size. Fix: leave expand_specs=False out.",
        ),
        (
            lambda: TransformedEnv(Numbers(), TensorDictPrimer(velocity=Unbounded(shape=(3,)))),
            ValueError,
            "The primer 'velocity' has shape (3,) and dtype torch.float32, and the env's own entry of this name has "
            "(1,) and torch.float64. Fix: give the primer another key, or the env's spec.",
        ),
        (
            lambda: TensorDictPrimer(h=Unbounded(shape=(3,)), default_value=lambda: torch.zeros(2))(TensorDict()),
            ValueError,
            "The default value of 'h' has shape (2,), and the entry has (3,).",
        ),
    ],
)
def test_refused(make, error, text):
    with pytest.raises(error) as raised:
        make()
    assert raised.value.args[0] == text
