"""Environments of Gymnasium made by their ids, with errors that name similar ids and missing packages."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import gymnasium
import torch
from gymnasium.envs.registration import parse_env_id

from rlnb.envs.gym_like import repeat_step
from rlnb.envs.libs.gym.backend import gym_backend, set_gym_backend
from rlnb.envs.libs.gym.old_gym import as_gymnasium
from rlnb.envs.libs.gym.vector import DISABLED
from rlnb.envs.libs.gym.wrapper import GymWrapper
from rlnb.envs.libs.libraries import AvailableEnvs

_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "phys2d": "jax", "tabular": "jax"}
"""Families of Gymnasium's envs that need another package, and the extra that installs it."""

_PACKAGES = {"ALE": "ale-py", "dm_control": "shimmy[dm-control]", "bsuite": "shimmy[bsuite]"}
"""Namespaces of ids, and the packages that register them."""


class GymEnv(GymWrapper):
    """An environment of Gymnasium.

    Args:
        env_name: its id, such as ``"CartPole-v1"``.
        from_pixels: see :class:`GymWrapper`. The env is made with ``render_mode="rgb_array"``.
        pixels_only: see :class:`GymWrapper`. Default: True.
        num_envs: make a vector env with that many sub-envs and batch size ``[num_envs]``. 0 (the default) makes a
            single env. Sub-env i behaves as ``GymEnv(env_name)`` with the seed ``seed + i``. The sub-envs run in this
            process; ``vectorization_mode="async"`` runs each in its own process, and ``"vector_entry_point"`` uses
            the env's batched implementation, if it has one. ``vector_kwargs`` and ``wrappers`` are passed to
            Gymnasium's ``make_vec``, too.
        num_workers: 2 or more make a :class:`~rlnb.envs.ParallelEnv` of that many such envs, each in its own process,
            which start when they are needed. Default: 1, a single env in this process; 0 is the same.
        categorical_action_encoding, frame_skip, device, batch_size, allow_done_after_reset, convert_actions_to_numpy,
            missing_obs_value: see :class:`GymWrapper`.
        disable_env_checker: disable Gymnasium's own checks of every step (the default); rlnb checks the first one.
        **kwargs: passed to the environment's constructor.

    Attributes:
        available_envs: the ids of all environments that are registered with the gym backend in use.

    Raises:
        ValueError: If ``num_envs`` or ``num_workers`` is not a non-negative integer.
        gymnasium.error.UnregisteredEnv: If there is no such environment. The nearest names are listed.
        gymnasium.error.DependencyNotInstalled: If it needs a package that is not installed, which is named.

    The env is made by the gym backend in use, see :class:`~rlnb.envs.set_gym_backend`; errors are those of the backend.

    Example:
        >>> env = GymEnv("Pendulum-v1", g=9.81)
        >>> env.g
        9.81
        >>> env.rollout(3).batch_size
        torch.Size([3])
        >>> GymEnv("Pendulum-v1", num_envs=2).rollout(3)["observation"].shape
        torch.Size([2, 3, 3])
        >>> with GymEnv("Pendulum-v1", num_workers=2) as env:
        ...     env.rollout(3)["observation"].shape
        torch.Size([2, 3, 3])
    """

    available_envs = AvailableEnvs("gymnasium", lambda: registry())

    def __new__(cls, *args: Any, num_workers: int = 1, **kwargs: Any) -> Any:
        """Make a :class:`~rlnb.envs.ParallelEnv` if there are several workers."""
        workers = None if isinstance(num_workers, bool) or not hasattr(num_workers, "__index__") else int(num_workers)
        if workers is None or workers < 0:
            raise ValueError(
                f"num_workers must be a non-negative integer and is {num_workers!r}. "
                "Fix: GymEnv('CartPole-v1', num_workers=2) for two processes."
            )
        if workers < 2:
            return super().__new__(cls)
        return cls.make_parallel(functools.partial(cls, *args, **kwargs), num_envs=workers)

    def __init__(
        self,
        env_name: str,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = True,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
        batch_size: Sequence[int] | None = None,
        allow_done_after_reset: bool = False,
        convert_actions_to_numpy: bool = True,
        missing_obs_value: Any = None,
        num_envs: int = 0,
        num_workers: int = 1,
        disable_env_checker: bool = True,
        **kwargs: Any,
    ) -> None:
        if not isinstance(env_name, str):
            raise TypeError(
                f"GymEnv makes an environment by its id and got a {type(env_name).__name__}. "
                "Fix: GymEnv('CartPole-v1'), or GymWrapper(env) for one that is made already."
            )
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 0:
            raise ValueError(f"num_envs must be a non-negative integer and is {num_envs!r}.")
        if from_pixels:
            kwargs.setdefault("render_mode", "rgb_array")
        if num_envs and frame_skip != 1:
            kwargs["wrappers"] = [*(kwargs.get("wrappers") or ()), lambda env: _FrameSkip(env, frame_skip)]
        super().__init__(
            self._make_env(env_name, num_envs, disable_env_checker=disable_env_checker, **kwargs),
            categorical_action_encoding=categorical_action_encoding,
            from_pixels=from_pixels,
            pixels_only=pixels_only,
            frame_skip=1 if num_envs else frame_skip,
            device=device,
            batch_size=batch_size,
            allow_done_after_reset=allow_done_after_reset,
            convert_actions_to_numpy=convert_actions_to_numpy,
            missing_obs_value=missing_obs_value,
        )
        self.env_name, self.frame_skip = env_name, frame_skip

    def _make_env(self, env_name: str, num_envs: int, **kwargs: Any) -> Any:
        """Return the backend: a vector env, or if ``num_envs`` is 0 a single env. Subclasses make it in their way."""
        return make_vec(env_name, num_envs, **kwargs) if num_envs else make(env_name, **kwargs)


class _FrameSkip(gymnasium.Wrapper):
    """Gymnasium wrapper that repeats each action, for the sub-envs of a vector env."""

    def __init__(self, env: gymnasium.Env, times: int) -> None:
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> Any:
        return repeat_step(self.env.step, action, self.times, lambda outputs: outputs[2] or outputs[3])


# Making ---------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def explained(env_name: str) -> Iterator[None]:
    """Make an env by its id inside this context, with errors that say more than Gymnasium's."""
    if env_name.startswith("ALE/"):
        with contextlib.suppress(ModuleNotFoundError):  # _explain handles the unregistered id
            importlib.import_module("ale_py")  # which registers the ids of Atari games
    try:
        yield
    except Exception as error:
        _explain(env_name, error)
        raise


def registry() -> Mapping[str, Any]:
    """The environments that are registered with the gym backend in use, by their ids."""
    found: Any = gym_backend("envs.registration").registry
    return getattr(found, "env_specs", found)  # gym kept them in a class until 0.25


def make(env_name: str, *, disable_env_checker: bool = True, **kwargs: Any) -> Any:
    """Make an environment by the gym backend in use. The arguments are those of its function ``make``."""
    backend = gym_backend()
    if "disable_env_checker" in inspect.signature(backend.make).parameters:
        kwargs["disable_env_checker"] = disable_env_checker
    with explained(env_name):
        return backend.make(env_name, **kwargs)


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
    """Make a vector environment without autoreset, unless it is one that the env itself provides.

    The arguments are those of Gymnasium's ``make_vec`` and ``make``. ``vectorization_mode`` is ``"sync"`` by default.

    Example:
        >>> make_vec("CartPole-v1", 2).metadata["autoreset_mode"].name
        'DISABLED'
    """
    mode = "sync" if vectorization_mode is None else vectorization_mode
    if getattr(mode, "value", mode) != "vector_entry_point":
        kwargs["disable_env_checker"] = disable_env_checker
        vector_kwargs = {"autoreset_mode": gymnasium.vector.AutoresetMode(DISABLED), **(vector_kwargs or {})}
    if not hasattr(gym_backend(), "make_vec"):  # gym, whose vector envs lose the last observation of an episode
        make_one = functools.partial(_make_wrapped, env_name, wrappers or (), gym_backend(), kwargs)
        kinds = {"sync": gymnasium.vector.SyncVectorEnv, "async": gymnasium.vector.AsyncVectorEnv}
        if mode not in kinds:
            raise ValueError(f"vectorization_mode must be 'sync' or 'async' for envs of gym and is {mode!r}.")
        return kinds[mode]([make_one] * num_envs, **(vector_kwargs or {}))
    with explained(env_name):
        env: gymnasium.vector.VectorEnv = gym_backend().make_vec(
            env_name, num_envs, vectorization_mode=mode, vector_kwargs=vector_kwargs, wrappers=wrappers, **kwargs
        )
    return env


def _make_wrapped(env_name: str, wrappers: Iterable[Any], backend: ModuleType, kwargs: dict[str, Any]) -> Any:
    """Make one sub-env, maybe in another process, in which no backend was set."""
    with set_gym_backend(backend):
        env = as_gymnasium(make(env_name, **kwargs))
    for wrap in wrappers:
        env = wrap(env)
    return env


def _explain(env_name: str, error: Exception) -> None:
    """Raise an error that explains the backend's, if there is more to say."""
    if {"UnregisteredEnv", "DeprecatedEnv"} & {kind.__name__ for kind in type(error).__mro__}:
        raise type(error)(_not_registered(env_name)) from None
    spec = registry().get(env_name)
    prefix, _, rest = str(None if spec is None else spec.entry_point).partition("gymnasium.envs.")
    family = "" if prefix else rest.split(".")[0].split(":")[0]  # such as "mujoco"; "" for other envs
    missing = isinstance(error, (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError))
    if missing and family in _EXTRAS:
        cause = error.__cause__ or error
        broken = isinstance(cause, ImportError) and not isinstance(cause, ModuleNotFoundError)
        what = f"cannot be imported ({cause})" if broken else "is not installed"
        raise gymnasium.error.DependencyNotInstalled(
            f"The environment {env_name!r} needs a package that {what}. "
            f'Fix: pip install "gymnasium[{_EXTRAS[family]}]".'
        ) from error


def _not_registered(env_name: str) -> str:
    library, known_envs = gym_backend().__name__.replace("gymnasium", "Gymnasium"), registry()
    text = f"There is no environment {env_name!r} in {library}'s registry"
    namespace, name, _ = parse_env_id(env_name.rpartition(":")[2])  # an id may begin with a module to import
    alike = [spec for spec in known_envs.values() if (spec.namespace, spec.name) == (namespace, name)]
    versions = [spec for spec in alike if spec.version is not None]
    if versions:
        versions.sort(key=lambda spec: spec.version or 0)
        known = ", ".join(f"v{spec.version}" for spec in versions)
        return f"{text}: {name} has the version{'s' * (len(versions) > 1)} {known}. Fix: GymEnv({versions[-1].id!r})."
    if namespace in _PACKAGES and not any(spec.namespace == namespace for spec in known_envs.values()):
        package = _PACKAGES[namespace]
        return f'{text}. The ids of {namespace} come from another package. Fix: pip install "{package}".'
    names = [known for known in known_envs if ("/" in known) == ("/" in env_name)]
    near = difflib.get_close_matches(env_name, names, n=4, cutoff=0.5)
    hint = f"Did you mean {', '.join(near)}?" if near else "GymEnv.available_envs lists all ids."
    return f"{text}. {hint}"
