"""Environments of MO-Gymnasium: Gymnasium with several objectives, whose reward is a vector."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from typing import Any

import gymnasium

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.spaces import spec_from_space
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.libs.gym.env import GymEnv
from rlnb.envs.libs.gym.wrapper import GymWrapper
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class MOGymWrapper(GymWrapper):
    """Wraps an environment of MO-Gymnasium. The reward has one number for each objective, shape ``[objectives]``.

    Its bounds are those of the env's ``reward_space``. A vector env of MO-Gymnasium has rewards of shape
    ``[num_envs, objectives]``. ``mo_gymnasium.wrappers.LinearReward`` around an env makes one weighted reward of them;
    such an env is for :class:`~rlnb.envs.GymWrapper`.

    Args:
        env: the environment, the output of ``mo_gymnasium.make``.
        categorical_action_encoding, **kwargs: see :class:`~rlnb.envs.GymWrapper`.

    Raises:
        TypeError: If the env has no ``reward_space``.

    Example:
        .. code-block:: python

            import mo_gymnasium

            env = MOGymWrapper(mo_gymnasium.make("deep-sea-treasure-v0"))
            env.rollout(10)["next", "reward"].shape  # [10, 2]: the treasure, and the time that it took
    """

    libname = "mo-gymnasium"
    git_url = "https://github.com/Farama-Foundation/MO-Gymnasium"

    def __init__(self, env: Any, categorical_action_encoding: bool = False, **kwargs: Any) -> None:
        if not isinstance(env, (gymnasium.Env, gymnasium.vector.VectorEnv)):
            raise TypeError(
                f"MOGymWrapper wraps an env of MO-Gymnasium and got a {type(env).__name__}. "
                'Fix: MOGymWrapper(mo_gymnasium.make("deep-sea-treasure-v0")), or MOGymEnv("deep-sea-treasure-v0").'
            )
        super().__init__(env, categorical_action_encoding, **kwargs)
        self.reward_spec = _reward_spec(self)

    @property
    def lib(self) -> Any:
        """The module ``mo_gymnasium``."""
        return import_library("mo_gymnasium", type(self).__name__)


class MOGymEnv(GymEnv):
    """An environment of MO-Gymnasium, made by its id. See :class:`MOGymWrapper` for its reward.

    Args:
        env_name: its id, such as ``"minecart-v0"``.
        categorical_action_encoding, **kwargs: see :class:`~rlnb.envs.GymEnv`.

    Attributes:
        available_envs: the ids of all environments of MO-Gymnasium.

    Raises:
        ImportError: If mo-gymnasium is not installed.
        ValueError: If there is no such environment. The nearest names are listed.

    Example:
        .. code-block:: python

            env = MOGymEnv("minecart-v0")
            env.reward_spec.shape  # [3]: two ores, and fuel
    """

    libname, git_url, lib = MOGymWrapper.libname, MOGymWrapper.git_url, MOGymWrapper.lib
    available_envs = AvailableEnvs("mo_gymnasium", lambda: _ids())

    def __init__(self, env_name: str, categorical_action_encoding: bool = False, **kwargs: Any) -> None:
        super().__init__(env_name, categorical_action_encoding, **kwargs)
        self.reward_spec = _reward_spec(self)

    def _make_env(self, env_name: str, num_envs: int, **kwargs: Any) -> Any:
        library = import_library("mo_gymnasium", "MOGymEnv")
        if env_name not in (names := _ids()):
            raise no_such_env("MO-Gymnasium", env_name, names, "MOGymEnv.available_envs")
        if not num_envs:
            return library.make(env_name, **kwargs)
        wrappers = kwargs.pop("wrappers", None) or ()
        make = functools.partial(_make_wrapped, library.make, env_name, wrappers, kwargs)
        return importlib.import_module("mo_gymnasium.wrappers.vector").MOSyncVectorEnv([make] * num_envs)


def _make_wrapped(make: Any, env_name: str, wrappers: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    env = make(env_name, **kwargs)
    for wrap in wrappers:
        env = wrap(env)
    return env


def _ids() -> list[str]:
    """List the ids that MO-Gymnasium registers with Gymnasium."""
    import_library("mo_gymnasium", "MOGymEnv")
    return [name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("mo_gymnasium.")]


def _reward_spec(env: GymWrapper) -> TensorSpec:
    """Make the spec of the vector of rewards of a wrapped env."""
    try:
        space = env._backend_attribute("reward_space")
    except AttributeError:
        raise TypeError(
            f"{type(env).__name__} wraps an env of MO-Gymnasium, which has a reward_space, and {env!r} has none. "
            'Fix: MOGymEnv("deep-sea-treasure-v0"), or GymWrapper for an env with one reward.'
        ) from None
    spec = spec_from_space(space, device=env.device)
    if env.frame_skip != 1:  # sums of rewards exceed the bounds of one
        spec = Unbounded(spec.shape, dtype=spec.dtype, device=env.device)
    return spec.expand(*env.batch_size, *spec.shape)
