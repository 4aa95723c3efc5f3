"""Installed libraries of environments, and errors for missing ones and unknown names."""

from __future__ import annotations

import sys
import types

import pytest

from rlnb.envs import GymEnv
from rlnb.envs.libs.libraries import LIBRARIES, AvailableEnvs, import_library, is_installed, no_such_env


def test_a_missing_library_says_what_installs_it():
    for library, fix in LIBRARIES.items():
        if not is_installed(library):
            with pytest.raises(ImportError) as caught:
                import_library(f"{library}.some.module", "SomeEnv")
            assert str(caught.value) == f"SomeEnv needs {library}, which is not installed. Fix: {fix}."
            assert caught.value.name == library


def test_a_dependency_that_a_library_lacks_raises_its_own_error(monkeypatch, tmp_path):
    (tmp_path / "vmas.py").write_text("import no_such_simulator")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vmas", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_simulator'$"):
        import_library("vmas", "VmasEnv")


def test_a_module_of_the_library_is_imported(monkeypatch):
    whole, part = types.ModuleType("brax"), types.ModuleType("brax.envs")
    monkeypatch.setitem(sys.modules, "brax", whole)
    monkeypatch.setitem(sys.modules, "brax.envs", part)
    assert import_library("brax", "BraxEnv") is whole and import_library("brax.envs", "BraxEnv") is part


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("balanse", "Did you mean 'balance', 'ball_passage'?"),
        ("zzz", "VmasEnv.available_envs lists all."),
        (3, "VmasEnv.available_envs lists all."),
    ],
)
def test_near_names_are_proposed(name, hint):
    error = no_such_env("VMAS", name, ["balance", "ball_passage"], "VmasEnv.available_envs")
    assert str(error) == f"There is no environment {name!r} in VMAS. {hint}"


def test_names_are_read_each_time_and_are_none_without_the_library(monkeypatch):
    names = ["b", "a"]

    class Some:
        here = AvailableEnvs("gymnasium", lambda: names)
        nowhere = AvailableEnvs("no_such_library", lambda: 1 / 0)

    assert (Some.here, Some().nowhere) == (["a", "b"], [])
    names.append("0")
    assert Some.here == ["0", "a", "b"]
    assert "CartPole-v1" in GymEnv.available_envs
