"""The gym backend: set by module, name or function, nested, and restored."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import gymnasium
import gymnasium.wrappers.vector
import pytest

import rlnb.envs
from rlnb._utils import implement_for
from rlnb.envs import GymEnv
from rlnb.envs.libs.gym import backend, gym_backend, set_gym_backend
from rlnb.envs.libs.libraries import LIBRARIES
from rlnb.envs.utils import get_available_libraries


@pytest.fixture
def gym(monkeypatch) -> ModuleType:
    """A stand-in for the library gym, which is not installed here."""
    made = ModuleType("gym")
    made.__version__, made.make, made.__path__ = "0.26.2", lambda name: f"gym's {name}", []
    wrappers = ModuleType("gym.wrappers")
    monkeypatch.setitem(sys.modules, "gym", made)
    monkeypatch.setitem(sys.modules, "gym.wrappers", wrappers)
    return made


def test_the_default_is_gymnasium(gym):
    assert gym_backend() is gymnasium
    assert rlnb.envs.gym_backend is gym_backend and rlnb.envs.set_gym_backend is set_gym_backend


def test_the_default_is_gym_where_there_is_no_gymnasium(gym, monkeypatch):
    monkeypatch.setattr(backend, "installed_backends", lambda: ["gym"])
    assert gym_backend() is gym


def test_without_any_backend_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(backend, "installed_backends", lambda: [])
    with pytest.raises(ImportError) as caught:
        gym_backend()
    assert str(caught.value) == "No gym backend is installed. Fix: install gymnasium."


@pytest.mark.parametrize("spell", [lambda m: m, lambda m: m.__name__, lambda m: lambda: m], ids=["it", "name", "call"])
def test_a_block_sets_the_backend(gym, spell):
    with set_gym_backend(spell(gym)):
        assert gym_backend() is gym
        assert gym_backend("wrappers") is sys.modules["gym.wrappers"]
        with set_gym_backend(spell(gymnasium)):
            assert gym_backend() is gymnasium
            assert gym_backend("wrappers") is gymnasium.wrappers
        assert gym_backend() is gym
    assert gym_backend() is gymnasium


def test_a_decorator_sets_the_backend_of_each_call(gym):
    @set_gym_backend("gym")
    def made(name, again=0):
        inner = made(name, again - 1) if again else ()
        return (gym_backend().make(name), *inner)

    assert made("x", again=2) == ("gym's x",) * 3
    assert gym_backend() is gymnasium


def test_decorating_imports_nothing():
    calls = []

    @set_gym_backend(lambda: calls.append("imported") or gymnasium)
    def made():
        return gym_backend()

    assert calls == []
    assert made() is gymnasium and calls == ["imported"]


def test_errors_give_the_backend_back(gym):
    with pytest.raises(ZeroDivisionError), set_gym_backend("gym"):
        1 / 0  # noqa: B018 - raises
    assert gym_backend() is gymnasium


def test_it_can_be_set_for_good(gym):
    with set_gym_backend("gymnasium"):
        set_gym_backend("gym").set()
        assert gym_backend() is gym
    assert gym_backend() is gymnasium


def test_an_env_is_made_within_a_block():
    with set_gym_backend(gymnasium):
        assert GymEnv("CartPole-v1").rollout(2).shape == (2,)


MAKELESS = "{} is not a gym backend: it has no function make(id). Installed backends: gymnasium."
REFUSED = [
    (
        "nowhere",
        ImportError,
        "The gym backend 'nowhere' is not installed. Installed backends: gymnasium. "
        'Fix: set_gym_backend("gymnasium"), or install nowhere.',
    ),
    ("json", ImportError, MAKELESS.format("json")),
    (lambda: 3, ImportError, MAKELESS.format("3")),
]


@pytest.mark.parametrize(("name", "error", "text"), REFUSED)
def test_what_is_refused_when_a_block_begins(name, error, text):
    for begin in (set_gym_backend(name).__enter__, set_gym_backend(name).set):
        with pytest.raises(error) as caught:
            begin()
        assert str(caught.value) == text
        assert gym_backend() is gymnasium


@pytest.mark.parametrize("nonsense", [3, None])
def test_an_unknown_backend_is_rejected_at_once(nonsense):
    with pytest.raises(TypeError) as caught:
        set_gym_backend(nonsense)
    assert str(caught.value) == (
        f"A gym backend must be a module, its name or a function that returns it, got {nonsense}. "
        'Fix: set_gym_backend("gymnasium").'
    )


def test_an_unknown_submodule_lists_those_that_there_are(tmp_path, monkeypatch, gym):
    for name in ("spaces", "wrappers"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.delitem(sys.modules, "gym.wrappers")
    for path, names in (([], "none"), ([str(tmp_path)], "spaces, wrappers")):
        gym.__path__ = path
        with pytest.raises(ImportError) as caught, set_gym_backend("gym"):
            gym_backend("nothing")
        assert str(caught.value) == f"The gym backend gym has no module 'nothing'. It has: {names}."


def test_a_submodule_may_lie_deeper():
    assert gym_backend("wrappers.vector") is gymnasium.wrappers.vector


@pytest.mark.parametrize("where", ["backend", "submodule"])
def test_a_backend_that_is_broken_inside_says_so_itself(tmp_path, monkeypatch, where):
    package = tmp_path / "halfgym"
    package.mkdir()
    broken = "import a_missing_dependency"
    (package / "__init__.py").write_text(broken if where == "backend" else "def make(name): ...")
    (package / "wrappers.py").write_text(broken)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="a_missing_dependency"), set_gym_backend("halfgym"):
        gym_backend("wrappers")
    assert gym_backend() is gymnasium
    for name in ("halfgym", "halfgym.wrappers"):
        sys.modules.pop(name, None)


def test_implementations_follow_the_backend(gym):
    @implement_for("gymnasium")
    def name():
        return "gymnasium"

    @implement_for("gym", None, "0.26")
    def name():  # noqa: F811 - one of several
        return "old gym"

    @implement_for("gym", "0.26", None)
    def name():  # noqa: F811 - one of several
        return "gym"

    assert name() == "gymnasium"
    with set_gym_backend("gym"):
        assert name() == "gym"
        gym.__version__ = "0.13"
        assert name() == "old gym"
    assert name() == "gymnasium"


def test_available_libraries(gym, monkeypatch):
    assert get_available_libraries()["gym"]
    monkeypatch.delitem(sys.modules, "gym")
    found = get_available_libraries()
    assert (found["gymnasium"], found["gym"]) == (True, False) and set(found) == set(LIBRARIES)


def test_asking_what_is_available_imports_nothing(monkeypatch):
    def refuse(name):
        raise AssertionError(f"{name} was imported")

    monkeypatch.setattr(importlib, "import_module", refuse)
    assert get_available_libraries()["gymnasium"] is True


def test_gym_env_is_made_by_the_backend_in_use():
    asked = []

    def make(name, **kwargs):
        asked.append(name)
        return gymnasium.make(name, **kwargs)

    module = ModuleType("gymnasium")
    module.make = make
    with set_gym_backend(module):
        assert GymEnv("CartPole-v1").rollout(2).batch_size == (2,)
    GymEnv("CartPole-v1")
    assert asked == ["CartPole-v1"]
