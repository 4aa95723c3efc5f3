"""Libraries of environments: which are installed, and what to do about one that is not, or a name that it lacks."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from rlnb._libraries import require_library

LIBRARIES = {
    "brax": "pip install brax",
    "dm_control": "pip install dm_control",
    "envpool": "pip install envpool",
    "gym": "pip install gym==0.26.2",
    "gymnasium": "pip install gymnasium",
    "habitat": "conda install habitat-sim -c conda-forge -c aihabitat, then pip install habitat-lab",
    "isaacgym": "download Isaac Gym from developer.nvidia.com/isaac-gym, then pip install -e python in it",
    "isaaclab": "pip install isaaclab",
    "jumanji": "pip install jumanji",
    "meltingpot": "pip install dm-meltingpot",
    "mlagents_envs": "pip install mlagents-envs",
    "mo_gymnasium": "pip install mo-gymnasium",
    "pettingzoo": 'pip install "pettingzoo[classic,butterfly]" mpe2',
    "pyspiel": "pip install open_spiel",
    "robohive": "pip install robohive",
    "sklearn": "pip install scikit-learn pandas",
    "smacv2": "pip install git+https://github.com/oxwhirl/smacv2, and StarCraft II",
    "vmas": "pip install vmas",
}
"""What installs each library that has a wrapper, by the name of the module that is imported."""


def is_installed(module: str) -> bool:
    """Whether a module can be imported, found out without importing it."""
    return sys.modules.get(module) is not None or find_spec(module) is not None


def get_available_libraries() -> dict[str, bool]:
    """Check which libraries of environments are installed, by the names of their modules, without importing them.

    Example:
        >>> get_available_libraries()["gymnasium"]
        True
    """
    return {module: is_installed(module) for module in LIBRARIES}


def import_library(module: str, needed_by: str) -> ModuleType:
    """Import a library of environments, or one of its modules.

    Args:
        module: its dotted name. The first part is in :data:`LIBRARIES`.
        needed_by: the name of the class that needs it, for the error.

    Raises:
        ImportError: If the library is not installed.

    Example:
        >>> import_library("smacv2.env", "SMACv2Env")  # doctest: +SKIP
        Traceback (most recent call last):
        ImportError: SMACv2Env needs smacv2, which is not installed. Fix: pip install git+https://github.com/...
    """
    return require_library(module, needed_by, LIBRARIES[module.partition(".")[0]])


def no_such_env(library: str, name: str, names: Iterable[str], listed_by: str) -> ValueError:
    """Make the error about a name that a library does not have. It proposes the nearest ones.

    Args:
        library: the name of the library, as its documentation writes it.
        name: what was asked for.
        names: what there could be asked for.
        listed_by: an expression that lists the names, such as ``"VmasEnv.available_envs"``.

    Example:
        >>> no_such_env("VMAS", "balanse", ["balance", "ball_passage"], "VmasEnv.available_envs")
        ValueError("There is no environment 'balanse' in VMAS. Did you mean 'balance', 'ball_passage'?")
    """
    near = difflib.get_close_matches(str(name), list(names), n=4, cutoff=0.6)
    hint = f"Did you mean {', '.join(map(repr, near))}?" if near else f"{listed_by} lists all."
    return ValueError(f"There is no environment {name!r} in {library}. {hint}")


class AvailableEnvs:
    """Class attribute that lists the environments of a library, read each time; empty if it is not installed.

    Args:
        module: the module that must be installed.
        read: the function that lists the environments.
    """

    def __init__(self, module: str, read: Callable[[], Iterable[Any]]) -> None:
        self.module, self.read = module, read

    def __get__(self, instance: Any, owner: type) -> list[Any]:
        return sorted(self.read()) if is_installed(self.module) else []
