"""Environments of EnvPool: many envs in one process, stepped by a pool of threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector.utils import batch_space
from torch.utils._pytree import tree_map

from rlnb.envs.libs.gym.wrapper import GymWrapper
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class _PoolEnv(gymnasium.vector.VectorEnv):
    """Vector env around a pool, the output of ``envpool.make`` or ``envpool.make_gymnasium``, without autoreset.

    A pool resets an env that is done at its next step, unless the env is reset before that step.
    """

    def __init__(self, pool: Any) -> None:
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED}
        self.pool = pool
        self.num_envs = int(pool.config["num_envs"])
        # The spaces of a pool are those of one env, which Gymnasium calls single.
        self.single_observation_space, self.single_action_space = pool.observation_space, pool.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.render_mode = getattr(pool, "render_mode", None)
        self._last: Any = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            raise RuntimeError(
                "An EnvPool can only be seeded when it is made. "
                "Fix: envpool.make(..., seed=0), or MultiThreadedEnv(n, name), whose set_seed makes a new pool."
            )
        mask = (options or {}).get("reset_mask")
        if mask is None or mask.all():
            found, info = self.pool.reset()
            self._last = tree_map(np.array, found)  # a copy: a pool writes the next observation to the same memory
        else:
            which = np.flatnonzero(mask).astype(np.int32)
            found, info = self.pool.reset(which)
            self._last = _with_rows(self._last, which, found)
        return self._last, dict(info)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        found, *signals, info = self.pool.step(actions)
        self._last = tree_map(np.array, found)
        reward, terminated, truncated = map(np.asarray, signals)
        return self._last, reward, terminated, truncated, dict(info)

    def render(self) -> Any:
        return self.pool.render(env_ids=np.arange(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        self.pool.close()


class MultiThreadedEnvWrapper(GymWrapper):
    """Wraps a pool of EnvPool, whose envs are stepped by threads. The batch size is ``[num_envs]``.

    Args:
        env: the output of ``envpool.make(name, env_type="gymnasium", num_envs=n)``.
        categorical_action_encoding, device: see :class:`~rlnb.envs.GymWrapper`.

    Raises:
        TypeError: If ``env`` is not such a pool.
        ValueError: If the pool is asynchronous, so that a step returns the data of only some of its envs.

    Example:
        .. code-block:: python

            import envpool

            pool = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=8)
            MultiThreadedEnvWrapper(pool).rollout(100, break_when_any_done=False)
    """

    libname = "envpool"
    git_url = "https://github.com/sail-sg/envpool"

    def __init__(
        self, env: Any, *, categorical_action_encoding: bool = False, device: torch.device | str | int | None = None
    ) -> None:
        if not isinstance(getattr(env, "config", None), Mapping) or not hasattr(env, "async_reset"):
            raise TypeError(
                f"MultiThreadedEnvWrapper wraps a pool of EnvPool and got a {type(env).__name__}. "
                'Fix: envpool.make("CartPole-v1", env_type="gymnasium", num_envs=8), or GymWrapper for an env of '
                "Gymnasium."
            )
        if not isinstance(env.observation_space, gymnasium.Space):
            raise TypeError(
                'The pool does not have the interface of Gymnasium. Fix: envpool.make(..., env_type="gymnasium").'
            )
        n, at_once = env.config["num_envs"], env.config["batch_size"]
        if n != at_once:
            raise ValueError(
                f"Each step of the pool returns the data of {at_once} of its {n} envs, and a batched env needs that of "
                "all. Fix: leave batch_size out of envpool.make."
            )
        super().__init__(_PoolEnv(env), categorical_action_encoding=categorical_action_encoding, device=device)

    @property
    def _adapter(self) -> _PoolEnv:
        adapter: Any = self._env
        return adapter

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise RuntimeError(
                "An EnvPool can only be seeded when it is made. "
                "Fix: envpool.make(..., seed=0), or MultiThreadedEnv(n, name), whose set_seed makes a new pool."
            )

    def _backend_attribute(self, name: str) -> Any:
        return getattr(self._adapter.pool, name)

    def _made_to_render(self) -> str:
        made = 'create_env_kwargs={"render_mode": "rgb_array"}'
        return f"MultiThreadedEnv({self._adapter.num_envs}, {self._backend_name()!r}, {made})"

    def _backend_name(self) -> str:
        return type(self._adapter.pool).__name__.removesuffix("GymnasiumEnvPool")


class MultiThreadedEnv(MultiThreadedEnvWrapper):
    """Envs of EnvPool, made by their id and stepped by threads. The batch size is ``[num_workers]``.

    Args:
        num_workers: the number of envs.
        env_name: their id, one of ``available_envs``.
        create_env_kwargs: for ``envpool.make``, such as ``num_threads`` or arguments of the env itself.
        categorical_action_encoding, device: see :class:`~rlnb.envs.GymWrapper`.

    Attributes:
        available_envs: the ids of all environments of EnvPool.

    Raises:
        ImportError: If envpool is not installed.
        ValueError: If ``num_workers`` is not positive, or there is no such environment. The nearest names are listed.

    Example:
        .. code-block:: python

            env = MultiThreadedEnv(8, "CartPole-v1")
            env.set_seed(0)
            env.rollout(100, break_when_any_done=False)
    """

    available_envs = AvailableEnvs("envpool", lambda: import_library("envpool", "MultiThreadedEnv").list_all_envs())

    def __init__(
        self,
        num_workers: int,
        env_name: str,
        *,
        create_env_kwargs: Mapping[str, Any] | None = None,
        categorical_action_encoding: bool = False,
        device: torch.device | str | int | None = None,
    ) -> None:
        if isinstance(num_workers, bool) or not hasattr(num_workers, "__index__") or num_workers < 1:
            raise ValueError(f"num_workers must be a positive integer and is {num_workers!r}.")
        made = _make(env_name, num_workers, **(create_env_kwargs or {}))
        super().__init__(made, categorical_action_encoding=categorical_action_encoding, device=device)
        self.num_workers, self.env_name = int(num_workers), env_name
        self.create_env_kwargs = dict(create_env_kwargs or {})

    def _set_seed(self, seed: int | None) -> None:
        if seed is None:
            return
        # envpool takes signed 32-bit seeds.
        pool = _make(self.env_name, self.num_workers, **{**self.create_env_kwargs, "seed": seed % (1 << 31)})
        self._adapter.pool.close()
        self._adapter.pool = pool
        self._env.action_space.seed(seed)

    def _backend_name(self) -> str:
        return self.env_name


def _make(env_name: str, num_envs: int, **kwargs: Any) -> Any:
    envpool = import_library("envpool", "MultiThreadedEnv")
    if env_name not in (names := envpool.list_all_envs()):
        raise no_such_env("EnvPool", env_name, names, "MultiThreadedEnv.available_envs")
    return envpool.make(env_name, env_type="gymnasium", num_envs=num_envs, **kwargs)


def _with_rows(values: Any, which: np.ndarray, rows: Any) -> Any:
    """Copy observations with some rows replaced."""

    def replace(value: np.ndarray, row: Any) -> np.ndarray:
        replaced = np.array(value)
        replaced[which] = row
        return replaced

    return tree_map(replace, values, rows)
