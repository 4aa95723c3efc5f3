"""Errors of GymEnv and GymWrapper for unknown ids, missing packages and objects that are not envs."""

from __future__ import annotations

import re
import sys
import types

import gymnasium
import pytest

from rlnb.envs import GymEnv, GymWrapper
from rlnb.envs.libs.gym import env as gym_env

UNKNOWN = {
    "CartPole-v9": ": CartPole has the versions v0, v1. Fix: GymEnv('CartPole-v1').",
    "Taxi-v2": ": Taxi has the version v4. Fix: GymEnv('Taxi-v4').",
    "CartPoel-v1": ". Did you mean CartPole-v1, CartPole-v0, Pendulum-v1, FrozenLake-v1?",
    "CartPole-vv": ". Did you mean CartPole-v1, CartPole-v0?",
    "nowhere/CartPole-v1": ". Did you mean phys2d/CartPole-v1, phys2d/CartPole-v0?",
    "Zzz-v0": ". GymEnv.available_envs lists all ids.",
    "gymnasium:CartPole-v9": ": CartPole has the versions v0, v1. Fix: GymEnv('CartPole-v1').",
    "ALE/Pong-v5": '. The ids of ALE come from another package. Fix: pip install "ale-py".',
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("num_envs", [0, 2])
@pytest.mark.parametrize("name", UNKNOWN)
def test_an_id_that_does_not_exist(name, num_envs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)  # as where it is not installed
    for known in [known for known in gymnasium.registry if known.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, known)
    with pytest.raises(gymnasium.error.Error) as caught:
        GymEnv(name, num_envs=num_envs)
    assert str(caught.value) == f"There is no environment {name!r} in Gymnasium's registry{UNKNOWN[name]}"
    assert isinstance(caught.value, (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv))


FAMILIES = {
    "mujoco.ant_v5:AntEnv": "mujoco",
    "box2d.lunar_lander:LunarLander": "box2d",
    "phys2d.cartpole:CartPoleJax": "jax",
    "tabular.blackjack:Blackjack": "jax",
}


@pytest.fixture
def registered(monkeypatch):
    """Register an env of a family of Gymnasium's whose import fails."""

    def register(entry_point: str, failure: Exception) -> str:
        def fail(*args, **kwargs):
            raise failure

        gymnasium.register("Needy-v0", entry_point=f"gymnasium.envs.{entry_point}")
        backend = types.SimpleNamespace(__name__="gymnasium", make=fail, make_vec=fail, registry=gymnasium.registry)
        monkeypatch.setattr(gym_env, "gym_backend", lambda submodule=None: backend)
        return "Needy-v0"

    yield register
    gymnasium.registry.pop("Needy-v0", None)


def dependency_error(cause: Exception | None) -> Exception:
    error = gymnasium.error.DependencyNotInstalled("as Gymnasium says it")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("num_envs", [0, 2])
@pytest.mark.parametrize("entry_point", FAMILIES)
def test_a_package_that_is_missing(registered, entry_point, num_envs):
    extra = FAMILIES[entry_point]
    for failure in (ModuleNotFoundError("No module named 'x'"), dependency_error(ModuleNotFoundError("x"))):
        name = registered(entry_point, failure)
        with pytest.raises(gymnasium.error.DependencyNotInstalled) as caught:
            GymEnv(name, num_envs=num_envs)
        assert str(caught.value) == (
            "The environment 'Needy-v0' needs a package that is not installed. "
            f'Fix: pip install "gymnasium[{extra}]".'
        )
        assert caught.value.__cause__ is failure
        gymnasium.registry.pop("Needy-v0")


def test_a_package_that_is_broken(registered):
    name = registered("mujoco.ant_v5:AntEnv", dependency_error(ImportError("its core is corrupted")))
    with pytest.raises(gymnasium.error.DependencyNotInstalled) as caught:
        GymEnv(name)
    assert str(caught.value) == (
        "The environment 'Needy-v0' needs a package that cannot be imported (its core is corrupted). "
        'Fix: pip install "gymnasium[mujoco]".'
    )


def test_errors_of_the_env_itself_are_left_as_they_are(registered):
    for failure in (ZeroDivisionError("of the env"), ModuleNotFoundError("No module named 'secret'")):
        name = registered("toy_text.taxi:TaxiEnv", failure)
        with pytest.raises(type(failure)) as caught:
            GymEnv(name)
        assert caught.value is failure
        gymnasium.registry.pop(name)


def test_arguments_that_the_env_does_not_take():
    with pytest.raises(TypeError, match="unexpected keyword argument 'gravity'"):
        GymEnv("Pendulum-v1", gravity=1)


@pytest.mark.parametrize("given", [3, None, gymnasium.Env])
def test_an_id_that_is_not_a_string_is_rejected(given):
    text = (
        f"GymEnv makes an environment by its id and got a {type(given).__name__}. "
        "Fix: GymEnv('CartPole-v1'), or GymWrapper(env) for one that is made already."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        GymEnv(given)


@pytest.mark.parametrize("given", ["CartPole-v1", None, object()])
def test_an_object_that_is_not_an_env_is_rejected(given):
    text = (
        f"GymWrapper wraps a gymnasium.Env and got a {type(given).__name__}. "
        "Fix: GymWrapper(gymnasium.make('CartPole-v1')), or GymEnv('CartPole-v1')."
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        GymWrapper(given)


def test_a_module_whose_name_begins_alike_is_another_one():
    odd = type("Env", (), {"__module__": "gymkhana.envs"})
    with pytest.raises(TypeError, match=r"^GymWrapper wraps a gymnasium\.Env and got a Env\."):
        GymWrapper(odd())
