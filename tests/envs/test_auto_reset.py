"""Auto-resetting envs: the observation returned with the end of an episode is that of the following reset."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest
import torch
from tensordict import TensorDict

from rlnb.envs import (
    AutoResetEnv,
    AutoResetTransform,
    CartPoleEnv,
    Compose,
    GymEnv,
    ParallelEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
    set_gym_backend,
    step_mdp,
)
from tests.envs.restarting import AutoResettingGymEnv, Restarting, RestartingGroups

OBSERVATIONS = ("place", "whole", "code", "byte", "even", ("deep", "place"))


def restarting(lengths, **kwargs):
    return Restarting(lengths, auto_reset=True, **kwargs)


def rollout(env, steps=12):
    return env.rollout(steps, break_when_any_done=False)


def times(lengths, steps):
    """Episode and time at the root of each step, by counting."""
    rows = [[divmod(t, length) for t in range(steps)] for length in lengths]
    return torch.tensor(rows, dtype=torch.float)


# The documentation's example ------------------------------------------------------------------------------------------


def test_the_documented_example():
    torch.manual_seed(0)
    with set_gym_backend("gymnasium"):
        env = AutoResettingGymEnv("CartPole-v1", auto_reset=True, auto_reset_replace=True)
        env.set_seed(0)
        r = env.rollout(30, break_when_any_done=False)
    torch.manual_seed(0)
    plain = GymEnv("CartPole-v1")
    plain.set_seed(0)
    expected = plain.rollout(30, break_when_any_done=False)
    done = expected["next", "done"]
    assert 0 < done.sum() < 30
    known = ~done.squeeze(-1)
    assert torch.equal(r["next", "observation"].isnan(), done.expand(-1, 4))
    assert torch.equal(r["next", "observation"][known], expected["next", "observation"][known])
    rest = [("next", "observation")]
    assert bool((r.exclude(*rest) == expected.exclude(*rest)).all())
    # Its own resets, one for each end, and the first one: none of the rollout's.
    assert env.base_env.resets == 1 + int(done.sum())


def test_the_documented_backend_is_missing_with_a_reason():
    with pytest.raises(ModuleNotFoundError, match=r"^The gym backend 'gym' is not installed\."), set_gym_backend("gym"):
        pass


def test_without_replacement_the_observation_is_that_of_the_next_root():
    env = AutoResettingGymEnv("CartPole-v1", auto_reset=True, auto_reset_replace=False)
    env.set_seed(0)
    found = rollout(env, 60)
    assert found["next", "done"].any()
    assert torch.equal(found["next", "observation"][:-1], found["observation"][1:])


# Rows, levels, kinds of data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[3], [2, 3], [1, 4, 2]], ids=str)
@pytest.mark.parametrize("contiguous", [True, False])
def test_rows_restart_one_by_one(lengths, contiguous):
    env = restarting(lengths)
    found = env.rollout(12, break_when_any_done=False, return_contiguous=contiguous)
    assert torch.equal(found["place"], times(lengths, 12))
    assert torch.equal(found["deep", "place"], times(lengths, 12) + 1)
    assert not found["done"].any()
    done = found["next", "done"]
    after = times(lengths, 13)[:, 1:]
    assert torch.equal(found["next", "place"].isnan(), done.expand(-1, -1, 2))
    assert torch.equal(found["next", "place"].nan_to_num(-5), torch.where(done, -5, after))
    assert env.base_env.masks == [None]


@pytest.mark.parametrize("batch", [(), (2,)])
def test_placeholders_of_every_dtype(batch):
    env = AutoResetEnv(
        Restarting(torch.full(batch, 1)), AutoResetTransform(fill_float=-3.5, fill_int=7, fill_bool=True)
    )
    after = env.rand_step(env.reset())["next"]
    for key, value in zip(OBSERVATIONS, (-3.5, 7, 7, 7, True, -3.5), strict=True):
        assert bool((after[key] == value).all()) and after[key].dtype == env.observation_spec[key].dtype
    default = AutoResetEnv(Restarting(torch.full(batch, 1)))
    after = default.rand_step(default.reset())["next"]
    assert after["place"].isnan().all() and after["deep", "place"].isnan().all()
    for key, value in {"whole": -1, "code": -1, "byte": 255, "even": False}.items():
        assert bool((after[key] == value).all())


def test_text_is_replaced_with_none():
    found = rollout(restarting(2, text=True), 5)
    assert list(found["text"]) == ["time 0", "time 1", "time 0", "time 1", "time 0"]
    assert list(found["next", "text"]) == ["time 1", None, "time 1", None, "time 1"]


def test_levels_restart_one_by_one():
    env = RestartingGroups(auto_reset=True)
    found = rollout(env, 7)
    assert found["fast", "place"].flatten().tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert found["slow", "place"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert found["clock"].flatten().tolist() == list(range(7))
    assert found["next", "clock"].flatten().tolist() == list(range(1, 8))
    for name in ("fast", "slow"):
        assert torch.equal(found["next", name, "place"].isnan(), found["next", name, "done"])
    assert env.base_env.resets == 1


def test_step_and_maybe_reset_gives_the_rollout():
    env, other = restarting([2, 3]), restarting([2, 3])
    torch.manual_seed(0)
    expected = rollout(env)
    torch.manual_seed(0)
    td, steps = other.reset(), []
    for _ in range(12):
        step, td = other.step_and_maybe_reset(other.rand_action(td))
        steps.append(step)
    found = torch.stack(steps, 1)
    for key in expected.keys(True, True):
        assert torch.equal(found[key].nan_to_num(-5), expected[key].nan_to_num(-5)), key


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("lengths", [2, [1, 2, 3]], ids=str)
def test_check_env_specs(lengths, replace):
    env = restarting(lengths, auto_reset_replace=replace)
    check_env_specs(env)
    check_env_specs(TransformedEnv(env, StepCounter()))


def test_check_env_specs_still_sees_wrong_observations():
    class Wrong(Restarting):
        def _observe(self):
            data = super()._observe()
            data["place"] = data["place"] + 200
            return data

    with pytest.raises(AssertionError, match="place") as caught:
        check_env_specs(Wrong(2, auto_reset=True))
    assert re.search(r"reset\s+place\s+domain", str(caught.value))


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
def test_in_a_batch(batch):
    with batch(2, [lambda: restarting(2), lambda: restarting(3)]) as env:
        found = rollout(env)
        assert torch.equal(found["place"], times([2, 3], 12))
        assert torch.equal(found["next", "place"].isnan(), found["next", "done"].expand(-1, -1, 2))
        assert env.masks == [[None], [None]]
        check_env_specs(env)


@pytest.mark.parametrize("batch", [SerialEnv, ParallelEnv])
@pytest.mark.parametrize("replace", [True, False])
def test_keywords_of_a_batch_are_those_of_its_envs(batch, replace):
    lengths = [{"lengths": 2}, {"lengths": 3}]
    with batch(2, Restarting, create_env_kwargs=lengths, auto_reset=True, auto_reset_replace=replace) as env:
        assert type(env) is batch and env.auto_reset_replace == [replace] * 2
        found = rollout(env)
        assert torch.equal(found["place"], times([2, 3], 12))
        assert bool(found["next", "place"].isnan().any()) is replace
        assert env.masks == [[None], [None]]


# Resets that the env does not do by itself ----------------------------------------------------------------------------


def test_a_time_limit_outside_resets_the_env():
    env = TransformedEnv(AutoResettingGymEnv("CartPole-v1", auto_reset=True), StepCounter(4))
    found = rollout(env, 12)
    assert found["step_count"].flatten().tolist() == [0, 1, 2, 3] * 3
    assert not found["next", "observation"].isnan().any()
    assert not torch.equal(found["observation"][4], found["next", "observation"][3])
    assert env.base_env.base_env.resets == 3


def test_a_time_limit_outside_resets_only_the_rows_that_have_not_restarted():
    env = TransformedEnv(restarting([2, 6, 4]), StepCounter(4))
    found = rollout(env, 8)
    assert torch.equal(found["place"], times([2, 4, 4], 8))
    assert torch.equal(found["step_count"].squeeze(-1), times([2, 4, 4], 8)[..., 1].long())
    unknown = found["next", "place"].isnan().all(-1)
    assert torch.equal(unknown, found["next", "terminated"].squeeze(-1))
    # Rows 0 and 2 have restarted by themselves at step 4: only row 1 is reset.
    assert env.base_env.base_env.masks == [None, [False, True, False]]


def test_reset_gives_what_the_env_has_restarted_with_once():
    env = restarting([2, 2])
    env.rollout(5)
    assert env.reset()["place"].tolist() == [[1, 0], [1, 0]] and env.base_env.masks == [None]
    assert env.reset()["place"].tolist() == [[2, 0], [2, 0]] and env.base_env.masks == [None] * 2
    env.rollout(1)
    assert env.reset()["place"].tolist() == [[4, 0], [4, 0]]


def test_reset_is_one_of_the_env_while_a_row_goes_on():
    env = restarting([1, 2])
    env.rollout(1)
    assert env.reset()["place"].tolist() == [[2, 0], [1, 0]] and env.base_env.masks == [None] * 2


@pytest.mark.parametrize("seed", [lambda env: env.set_seed(0), lambda env: env._set_seed(0)], ids=["set", "_set"])
def test_a_seed_makes_the_next_reset_one_of_the_env(seed):
    env = AutoResettingGymEnv("CartPole-v1", auto_reset=True)
    env.set_seed(0)
    first = env.reset()["observation"]
    env.rollout(500)  # ends in an end, so that an observation is kept
    seed(env)
    assert torch.equal(env.reset()["observation"], first)


def test_keyword_arguments_go_to_the_env():
    class Options(CartPoleEnv):
        given = None

        def _reset(self, tensordict=None, **kwargs):
            Options.given = kwargs
            return super()._reset(tensordict)

    env = Options(auto_reset=True, max_steps=1)
    env.rollout(1)
    env.reset(option=3)
    assert Options.given == {"option": 3}


def test_a_reset_that_fails_changes_nothing():
    env = restarting([2, 3])
    td = env.rollout(2, break_when_any_done=False)[:, -1]
    root = step_mdp(td)
    bad = root.clone().set("_reset", torch.ones(2))
    with pytest.raises(ValueError, match="_reset"):
        env.reset(bad)
    assert env.maybe_reset(root)["place"].tolist() == [[1, 0], [0, 2]]


# What it is made of ---------------------------------------------------------------------------------------------------


def test_every_class_takes_the_keywords():
    env = CartPoleEnv(batch_size=[2], auto_reset=True)
    assert type(env) is AutoResetEnv and isinstance(env.transform, AutoResetTransform)
    assert env.transform.replace and env.auto_reset_replace and env.auto_reset
    assert not CartPoleEnv(auto_reset=True, auto_reset_replace=False).transform.replace
    assert type(CartPoleEnv(auto_reset=False, auto_reset_replace=True)) is CartPoleEnv
    assert env.max_steps == env.base_env.max_steps


@pytest.mark.parametrize("cls", [CartPoleEnv, GymEnv, ParallelEnv, Restarting])
def test_signatures_are_those_of_the_classes(cls):
    names = list(inspect.signature(cls).parameters)
    own = list(inspect.signature(cls.__init__).parameters)[1:]
    assert [name for name in names if name not in ("auto_reset", "auto_reset_replace")] == own
    assert {"auto_reset", "auto_reset_replace"} <= set(names)


def test_transforms_come_after_it():
    env = restarting([2, 3])
    env.append_transform(StepCounter()).append_transform(RewardSum())
    found = rollout(env)
    assert torch.equal(found["step_count"].squeeze(-1), times([2, 3], 12)[..., 1].long())
    assert torch.equal(found["next", "episode_reward"].long(), found["next", "step_count"])
    assert type(env.transform[1].parent) is AutoResetEnv and type(env.transform[0].parent) is TransformedEnv
    outer = TransformedEnv(restarting([2, 3]), StepCounter())
    assert torch.equal(rollout(outer)["step_count"], found["step_count"])
    assert type(outer.base_env) is AutoResetEnv


def test_copies_keep_what_was_kept():
    env = restarting([2, 3])
    root = step_mdp(env.rollout(2, break_when_any_done=False)[:, -1])
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert other.maybe_reset(root)["place"].tolist() == [[1, 0], [0, 2]]
    assert env.transform.clone()._kept is None


def test_leaves_a_buffers_data_alone():
    data = TensorDict({"place": torch.ones(3, 2)}, [3])
    assert bool((AutoResetTransform()(data.clone()) == data).all())


# Errors ---------------------------------------------------------------------------------------------------------------


ERRORS = {
    "alone": (
        lambda: CartPoleEnv(auto_reset_replace=True),
        ValueError,
        "auto_reset_replace applies to an env that resets itself, and auto_reset=True was not given. "
        "Fix: CartPoleEnv(..., auto_reset=True, auto_reset_replace=True).",
    ),
    "no bool": (
        lambda: CartPoleEnv(auto_reset=1),
        TypeError,
        "auto_reset must be True or False and is 1.",
    ),
    "in a plain TransformedEnv": (
        lambda: TransformedEnv(CartPoleEnv(), AutoResetTransform()),
        ValueError,
        "An AutoResetTransform belongs in an AutoResetEnv, and was put into a TransformedEnv, which would reset the "
        "CartPoleEnv again after it resets itself. Fix: AutoResetEnv(env, AutoResetTransform()), or "
        "CartPoleEnv(..., auto_reset=True).",
    ),
    "not in front": (
        lambda: AutoResetEnv(CartPoleEnv(), Compose(StepCounter(), AutoResetTransform())),
        ValueError,
        "An AutoResetEnv has one AutoResetTransform, before all other transforms, and this would be ['StepCounter', "
        "'AutoResetTransform']: a transform before it would not see where episodes begin. Fix: "
        "AutoResetEnv(env).append_transform(transform), for one after the other.",
    ),
    "transformed": (
        lambda: AutoResetEnv(TransformedEnv(CartPoleEnv(), StepCounter())),
        ValueError,
        "An env that resets itself must be the innermost one, and this is a TransformedEnv with ['StepCounter'], "
        "which do not notice when the env in it restarts. Fix: TransformedEnv(AutoResetEnv(env), transform).",
    ),
    "a batch": (
        lambda: AutoResetEnv(SerialEnv(2, CartPoleEnv)),
        ValueError,
        "Each env of a SerialEnv resets itself, and not the SerialEnv. Fix: SerialEnv(n, make, "
        "auto_reset=True), or SerialEnv(n, lambda: AutoResetEnv(make())).",
    ),
    "twice": (
        lambda: AutoResetEnv(CartPoleEnv(auto_reset=True)),
        ValueError,
        "This env already resets itself: it was made with auto_reset=True, or is an AutoResetEnv.",
    ),
    "fill_float": (
        lambda: AutoResetTransform(fill_float="none"),
        ValueError,
        "fill_float must be a number, or 'nan', got 'none'.",
    ),
    "fill_int": (
        lambda: AutoResetTransform(fill_int=0.5),
        ValueError,
        "fill_int must be an integer, got 0.5.",
    ),
    "fill_bool": (
        lambda: AutoResetTransform(fill_bool="no"),
        ValueError,
        "fill_bool must be True or False, got 'no'.",
    ),
    "fill_int for bytes": (
        lambda: AutoResetEnv(Restarting(2), AutoResetTransform(fill_int=-2)),
        ValueError,
        "fill_int=-2 is not a number of dtype torch.uint8, which the observation 'byte' has. Fix: "
        "AutoResetTransform(fill_int=n) with n from 0 to 255.",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    make, kind, text = ERRORS[name]
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        make()


def test_what_cannot_stand_before_it_changes_nothing():
    env = restarting([2, 3])
    with pytest.raises(ValueError, match=r"^An AutoResetEnv has one AutoResetTransform, before all other transforms"):
        env.insert_transform(0, StepCounter())
    with pytest.raises(ValueError, match=r"^An AutoResetEnv has one AutoResetTransform, before all other transforms"):
        env.transform = StepCounter()
    assert torch.equal(rollout(env)["place"], times([2, 3], 12))
