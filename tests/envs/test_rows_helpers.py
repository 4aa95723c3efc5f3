"""Helpers around envs, default policies for masked actions and registration, over envs of every kind."""

from __future__ import annotations

import gymnasium
import pytest
import torch
from tensordict import TensorDict

import rlnb.data
import rlnb.envs
import rlnb.envs.utils
from rlnb.data import Categorical, Composite, Unbounded
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import (
    ActionMask,
    EnvBase,
    GridWorldEnv,
    GymLikeEnv,
    GymWrapper,
    PendulumEnv,
    RandomPolicy,
    TicTacToeEnv,
    TransformedEnv,
    check_env_specs,
)
from tests.envs.kinds import KINDS, make
from tests.envs.test_rows_reset_step import same

EVERY = pytest.mark.parametrize("kind", KINDS)

UTILS = [
    "RandomPolicy", "check_env_specs", "exploration_mode", "exploration_type", "get_available_libraries",
    "make_composite_from_td", "set_exploration_mode", "set_exploration_type", "step_mdp", "terminated_or_truncated",
]  # fmt: skip
ENVS = [
    "EnvBase", "GymLikeEnv", "EnvMetaData", "GymEnv", "GymWrapper", "gym_backend", "set_gym_backend", "step_mdp",
    "check_env_specs", "TransformedEnv", "TensorDictPrimer", "StepCounter", "RenameTransform", "InitTracker",
    "ActionMask", "default_info_dict_reader",
]  # fmt: skip


@pytest.mark.parametrize("name", UTILS)
def test_helpers_are_where_the_page_has_them(name):
    assert callable(getattr(rlnb.envs.utils, name)) and name in rlnb.envs.utils.__all__


@pytest.mark.parametrize("name", ENVS)
def test_envs_are_where_the_pages_import_them_from(name):
    assert callable(getattr(rlnb.envs, name)) and name in rlnb.envs.__all__


@EVERY
@pytest.mark.parametrize("form", ["leaf", "composite"])
def test_random_policies(kind, form):
    env = make(kind)
    policy = (
        RandomPolicy(env.full_action_spec) if form == "composite" else RandomPolicy(env.action_spec, env.action_key)
    )
    td = env.reset()
    before = td.clone()
    assert policy(td) is td and env.full_action_spec.is_in(td)
    assert same(td.exclude(*env.action_keys), before)
    assert env.rollout(5, policy, break_when_any_done=False).shape[-1] == 5


def test_the_key_of_a_random_action():
    assert RandomPolicy(Categorical(1), action_key=("a", "move"))(TensorDict({}))["a", "move"].item() == 0
    assert RandomPolicy(Categorical(1))(TensorDict({}))["action"].item() == 0


@EVERY
@pytest.mark.parametrize("return_contiguous", [None, True, False])
def test_good_envs_pass_the_check(kind, return_contiguous):
    env = make(kind)
    before = torch.get_rng_state()
    assert check_env_specs(env, return_contiguous=return_contiguous) is None
    assert torch.equal(before, torch.get_rng_state())


@EVERY
@pytest.mark.parametrize("wrong", ["shape", "dtype", "missing", "extra"])
def test_any_difference_fails_the_check(kind, wrong):
    env = make(kind)
    spec, key = env.observation_spec.clone(), env.observation_keys[0]
    if wrong == "extra" and key in env.state_keys:  # a state may come back without being an observation
        env.state_spec = Composite({k: v for k, v in env.state_spec.items() if k != key})
    if wrong == "shape":
        spec[key] = Unbounded(shape=(*spec[key].shape, 5), dtype=spec[key].dtype)
    elif wrong == "dtype":
        spec[key] = Unbounded(shape=spec[key].shape, dtype=torch.float64)
    elif wrong == "missing":
        spec["new"] = Unbounded(shape=env.batch_size)
    else:
        del spec[key]
    before = torch.get_rng_state()
    check = env
    if kind == "transformed":  # whose specs follow from those below
        check = env.base_env
        spec = Composite({k: v for k, v in spec.items() if k != "step_count"})
    check.observation_spec = spec
    with pytest.raises(AssertionError):
        check_env_specs(env)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("where", ["observation", "state"])
def test_an_entry_that_is_observation_and_state_must_fit_both(where):
    env = PendulumEnv(seed=0)
    spec = getattr(env, f"{where}_spec").clone()
    spec["th"] = Unbounded(shape=(5,))
    setattr(env, f"{where}_spec", spec)
    with pytest.raises(AssertionError, match=r"reset +th +shape +\[5\] +\[\]") as caught:
        check_env_specs(env)
    proposed = str(caught.value).partition("specs that fit what was seen:\n")[2]
    assert proposed.count("Composite(") == 1 and f"env.{where}_spec = Composite(" in proposed
    exec("\n".join(line[2:] for line in proposed.splitlines()), {**vars(rlnb.data), "torch": torch, "env": env})
    check_env_specs(env)


def test_a_stateless_env_that_forgets_an_entry():
    class Forgets(PendulumEnv):
        def _step(self, tensordict):
            return super()._step(tensordict).exclude("thdot")

    with pytest.raises(AssertionError, match=r"step 1 +thdot +missing"):
        check_env_specs(Forgets(seed=0))


# Masked actions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("batch", [(), (4,)])
def test_the_default_policy_keeps_to_the_mask(batch, one_hot):
    base = GridWorldEnv(action_mask=True, batch_size=batch, seed=0, categorical_action_encoding=not one_hot)
    env = TransformedEnv(base, ActionMask(action_key="action", mask_key="action_mask"))
    data = env.rollout(60, break_when_any_done=False)
    chosen = data["action"].bool() if one_hot else torch.nn.functional.one_hot(data["action"], 4).bool()
    assert not (chosen & ~data["action_mask"]).any() and not data["action_mask"].all()
    free = TransformedEnv(base, ActionMask()).base_env.rollout(60, break_when_any_done=False)
    taken = free["action"].bool() if one_hot else torch.nn.functional.one_hot(free["action"], 4).bool()
    assert (taken & ~free["action_mask"]).any()  # without the transform the mask is passed over


def test_a_game_with_masked_moves_is_played_to_its_end():
    env = TransformedEnv(TicTacToeEnv(), ActionMask(mask_key="mask"))
    env.set_seed(0)
    for _ in range(5):
        assert env.rollout(10)["next", "done"].any()


# Registration and gym-like backends ---------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def registry():
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


@pytest.mark.parametrize("way", ["class", "instance", "entry point"])
def test_three_ways_to_register_the_same_env(way):
    if way == "entry point":
        EnvBase.register_gym("rlnb-tests/P-v0", entry_point=PendulumEnv, seed=3)
    else:
        (PendulumEnv if way == "class" else PendulumEnv()).register_gym("rlnb-tests/P-v0", seed=3)
    observation, info = gymnasium.make("rlnb-tests/P-v0").reset()
    own = PendulumEnv(seed=3).reset()
    assert torch.equal(observation["th"], own["th"]) and info == {}


def test_observations_that_are_dictionaries_and_those_that_are_not():
    assert issubclass(GymWrapper, GymLikeEnv)
    space = gymnasium.spaces.Dict(speed=gymnasium.spaces.Box(-1, 1, (2,)), cell=gymnasium.spaces.Discrete(4))

    class Both(gymnasium.Env):
        observation_space, action_space = space, gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return space.sample(), {"secret": 1.0}

        def step(self, action):
            return space.sample(), 1.0, False, False, {"secret": 1.0}

    env = GymWrapper(Both())
    assert set(leaf_keys(env.rollout(2)["next"])) == {"speed", "cell", "reward", *env.done_keys}  # no info unasked
    assert env.set_info_dict_reader() is env
    assert env.rollout(2)["next", "secret"].tolist() == [1.0, 1.0]
    assert make("gym").observation_keys == ["observation"]
