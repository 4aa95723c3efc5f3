"""Creation of Gymnasium environments by id, with errors that name similar ids and missing packages."""

from __future__ import annotations

import contextlib
import difflib
import importlib
from typing import Any

import gymnasium
from gymnasium.envs.registration import parse_env_id

from rlnb.envs.libs.gym.backend import gym_backend
from rlnb.envs.libs.gym.vector import DISABLED, HAS_MODES

_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "phys2d": "jax", "tabular": "jax"}
"""Families of Gymnasium's envs that need another package, and the extra that installs it."""

_PACKAGES = {"ALE": "ale-py", "dm_control": "shimmy[dm-control]", "bsuite": "shimmy[bsuite]"}
"""Namespaces of ids, and the packages that register them."""


def make(env_name: str, **kwargs: Any) -> gymnasium.Env:
    """Make an environment by its id, with the wrappers that are registered for it.

    Example:
        >>> make("CartPole-v1").spec.id
        'CartPole-v1'
    """
    _register(env_name)
    try:
        env: gymnasium.Env = gym_backend().make(env_name, **kwargs)
        return env
    except Exception as error:
        _explain(env_name, error)
        raise


def make_vec(
    env_name: str,
    num_envs: int,
    *,
    vectorization_mode: str | None = None,
    vector_kwargs: dict[str, Any] | None = None,
    wrappers: Any = None,
    disable_env_checker: bool = True,
    **kwargs: Any,
) -> gymnasium.vector.VectorEnv:
    """Make a vector environment without autoreset, if Gymnasium's version supports that.

    The arguments are those of Gymnasium's ``make_vec`` and ``make``. ``vectorization_mode`` is ``"sync"`` by default.

    Example:
        >>> make_vec("CartPole-v1", 2).metadata["autoreset_mode"].name
        'DISABLED'
    """
    mode = "sync" if vectorization_mode is None else vectorization_mode
    if getattr(mode, "value", mode) != "vector_entry_point":
        kwargs["disable_env_checker"] = disable_env_checker
        if HAS_MODES:
            vector_kwargs = {"autoreset_mode": gymnasium.vector.AutoresetMode(DISABLED), **(vector_kwargs or {})}
    _register(env_name)
    try:
        env: gymnasium.vector.VectorEnv = gym_backend().make_vec(
            env_name, num_envs, vectorization_mode=mode, vector_kwargs=vector_kwargs, wrappers=wrappers, **kwargs
        )
        return env
    except Exception as error:
        _explain(env_name, error)
        raise


def _register(env_name: str) -> None:
    """Import ale-py, which registers the ids of Atari games."""
    if env_name.startswith("ALE/"):
        with contextlib.suppress(ModuleNotFoundError):  # _explain handles the unregistered id
            importlib.import_module("ale_py")


def _explain(env_name: str, error: Exception) -> None:
    """Raise an error that explains Gymnasium's, if there is more to say."""
    if isinstance(error, (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv)):
        raise type(error)(_not_registered(env_name)) from None
    family = _family(env_name)
    missing = isinstance(error, (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError))
    if missing and family in _EXTRAS:
        cause = error.__cause__ or error
        broken = isinstance(cause, ImportError) and not isinstance(cause, ModuleNotFoundError)
        what = f"cannot be imported ({cause})" if broken else "is not installed"
        raise gymnasium.error.DependencyNotInstalled(
            f"The environment {env_name!r} needs a package that {what}. "
            f'Fix: pip install "gymnasium[{_EXTRAS[family]}]".'
        ) from error


def _family(env_name: str) -> str:
    """The part of Gymnasium that an env belongs to, such as "mujoco"; "" for other envs."""
    spec = gymnasium.registry.get(env_name)
    prefix, _, rest = str(None if spec is None else spec.entry_point).partition("gymnasium.envs.")
    return "" if prefix else rest.split(".")[0].split(":")[0]


def _not_registered(env_name: str) -> str:
    text = f"There is no environment {env_name!r} in Gymnasium's registry"
    namespace, name, _ = parse_env_id(env_name.rpartition(":")[2])  # an id may begin with a module to import
    alike = [spec for spec in gymnasium.registry.values() if (spec.namespace, spec.name) == (namespace, name)]
    versions = [spec for spec in alike if spec.version is not None]
    if versions:
        versions.sort(key=lambda spec: spec.version or 0)
        known = ", ".join(f"v{spec.version}" for spec in versions)
        return f"{text}: {name} has the version{'s' * (len(versions) > 1)} {known}. Fix: GymEnv({versions[-1].id!r})."
    if namespace in _PACKAGES and not any(spec.namespace == namespace for spec in gymnasium.registry.values()):
        package = _PACKAGES[namespace]
        return f'{text}. The ids of {namespace} come from another package. Fix: pip install "{package}".'
    names = [known for known in gymnasium.registry if ("/" in known) == ("/" in env_name)]
    near = difflib.get_close_matches(env_name, names, n=4, cutoff=0.5)
    hint = f"Did you mean {', '.join(near)}?" if near else "GymEnv.available_envs lists those that there are."
    return f"{text}. {hint}"
