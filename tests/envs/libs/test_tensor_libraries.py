"""VMAS, Brax, Jumanji and OpenSpiel where they are not installed; tests/libs tests them with the libraries."""

from __future__ import annotations

import importlib

import pytest

from rlnb.envs import (
    BraxEnv,
    BraxWrapper,
    JumanjiEnv,
    JumanjiWrapper,
    OpenSpielEnv,
    OpenSpielWrapper,
    VmasEnv,
    VmasWrapper,
)
from rlnb.envs.libs import libraries

CASES = [
    (VmasEnv, ("balance",), {"num_envs": 2}, "vmas", "pip install vmas"),
    (VmasWrapper, (None,), {}, "vmas", "pip install vmas"),
    (BraxEnv, ("ant",), {}, "brax", "pip install brax"),
    (BraxWrapper, (None,), {}, "brax", "pip install brax"),
    (JumanjiEnv, ("Snake-v1",), {}, "jumanji", "pip install jumanji"),
    (JumanjiWrapper, (None,), {}, "jumanji", "pip install jumanji"),
    (OpenSpielEnv, ("chess",), {}, "pyspiel", "pip install open_spiel"),
    (OpenSpielWrapper, (None,), {}, "pyspiel", "pip install open_spiel"),
]


@pytest.fixture
def nothing_installed(monkeypatch):
    """Importing any of the libraries fails, as if it were not installed."""
    real = importlib.import_module

    def missing(name, *args):
        if name.partition(".")[0] in libraries.LIBRARIES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setattr(libraries, "is_installed", lambda module: False)


@pytest.mark.parametrize(("cls", "args", "kwargs", "module", "fix"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_missing_library_is_named_and_no_env_is_available(nothing_installed, cls, args, kwargs, module, fix):
    assert cls.available_envs == []
    with pytest.raises(ImportError) as error:
        cls(*args, **kwargs)
    assert str(error.value) == f"{cls.__name__} needs {module}, which is not installed. Fix: {fix}."
