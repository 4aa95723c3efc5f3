"""Registration of rlnb environments in Gymnasium's registry, for ``gymnasium.make``."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.envs.registration import WrapperSpec
from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.specs.spaces import space_from_spec
from rlnb.data.ted.keys import DONE, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.envs import errors
from rlnb.envs.base import EnvBase
from rlnb.envs.libs.gym.backend import gym_backend, set_gym_backend


def register_gym(
    entry_point_class: Callable[..., Any],
    id: str,
    *,
    entry_point: Callable[..., EnvBase] | None = None,
    transform: Any = None,
    info_keys: Sequence[NestedKey] | None = None,
    backend: Any = None,
    to_numpy: bool = False,
    reward_threshold: float | None = None,
    nondeterministic: bool = False,
    max_episode_steps: int | None = None,
    order_enforce: bool = True,
    autoreset: bool | None = None,
    disable_env_checker: bool = False,
    apply_api_compatibility: bool = False,
    **kwargs: Any,
) -> None:
    """Register an environment so that ``gymnasium.make(id)`` makes a :class:`RegisteredEnv` of it.

    For the arguments see :meth:`~rlnb.envs.EnvBase.register_gym`. ``autoreset`` wraps the env in
    ``gymnasium.wrappers.Autoreset``. ``apply_api_compatibility`` has no effect: it adapted the step of old versions.

    Example:
        >>> from rlnb.envs import PendulumEnv
        >>> register_gym(PendulumEnv, "rlnb/DocPendulum-v0", info_keys=["params"], to_numpy=True)
        >>> env = gymnasium.make("rlnb/DocPendulum-v0")
        >>> observation, info = env.reset(seed=0)
        >>> sorted(observation), sorted(info)
        (['th', 'thdot'], ['params'])
    """
    make_env = entry_point_class if entry_point is None else entry_point
    if not callable(make_env) or inspect.isabstract(make_env):
        name = getattr(make_env, "__name__", repr(make_env))
        raise TypeError(
            f"register_gym needs a class or function that makes an environment, and {name} cannot be called. "
            f"Fix: MyEnv.register_gym({id!r}), or EnvBase.register_gym({id!r}, entry_point=MyEnv)."
        )
    _assert_gymnasium(backend)
    options = {"transform": transform, "info_keys": info_keys, "to_numpy": to_numpy}
    gymnasium.register(
        id,
        entry_point=functools.partial(RegisteredEnv, make_env),
        reward_threshold=reward_threshold,
        nondeterministic=nondeterministic,
        max_episode_steps=max_episode_steps,
        order_enforce=order_enforce,
        disable_env_checker=disable_env_checker or not to_numpy,
        additional_wrappers=(WrapperSpec("Autoreset", "gymnasium.wrappers:Autoreset", {}),) if autoreset else (),
        kwargs={**{key: value for key, value in options.items() if value is not None}, **kwargs},
    )


class RegisteredEnv(gymnasium.Env):
    """An environment of rlnb as an environment of Gymnasium.

    Observations are a dictionary of entries, nested like the keys. As tensors (the default) they are those of the
    env's TensorDicts, and the reward and the end signals have shape ``[*batch_size, 1]``. As numpy data they are
    values of ``observation_space``, in which one-hot vectors are integers, and the reward and the end signals have
    shape ``[*batch_size]``, or are a float and booleans for a single env.

    An action is a value of ``action_space``, or a tensor as the env's policies write it.

    Args:
        make_env: the class of the env, or a function that makes one. It receives the further keyword arguments, and
            ``render_mode`` if that is given.
        transform: a transform; each env gets a copy of it. Default: none.
        info_keys: the observations that go to the info dictionary instead, given by their keys or by the key of the
            level that holds them. Default: none.
        to_numpy: return numpy data. ``False`` (the default): tensors.
        render_mode: as in Gymnasium. Default: ``None``, no rendering.

    Raises:
        TypeError: If ``make_env`` makes no :class:`~rlnb.envs.EnvBase`.
        KeyError: If the env has no "done" at its root, or ``info_keys`` names no observation.
        ValueError: If the env has more than one reward.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> env = RegisteredEnv(GymEnv, env_name="CartPole-v1")
        >>> observation, info = env.reset(seed=0)
        >>> observation["observation"].shape, env.action_space
        (torch.Size([4]), Discrete(2))
    """

    def __init__(
        self,
        make_env: Callable[..., EnvBase],
        *,
        transform: Any = None,
        info_keys: Sequence[NestedKey] | None = None,
        to_numpy: bool = False,
        render_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        if render_mode is not None:
            kwargs["render_mode"] = render_mode
        env = make_env(**kwargs)
        if not isinstance(env, EnvBase):
            raise TypeError(
                f"The entry point of a registered env makes an env of rlnb, and this one made a {type(env).__name__}."
            )
        if transform is not None:
            env = _transformed(env, transform)
        if DONE not in env.done_keys:
            raise KeyError(
                f"Gymnasium's step returns one end signal, and {type(env).__name__} has no 'done' at its root: its end "
                f"signals are {env.done_keys}."
            )
        if len(env.reward_keys) != 1:
            raise ValueError(
                f"Gymnasium's step returns one reward, and {type(env).__name__} has {len(env.reward_keys)}: "
                f"{env.reward_keys}. Fix: leave one of them, with transform=SelectTransform(..., keep_rewards=False)."
            )
        self._reward_key = env.reward_key
        self.env = env
        self.to_numpy = to_numpy
        self.render_mode = render_mode
        self.metadata = dict(getattr(env, "metadata", None) or {"render_modes": []})
        self._observed_spec, self._info_spec = _split(env, info_keys or ())
        self.observation_space = space_from_spec(self._observed_spec)
        self.action_space = space_from_spec(env.action_spec)
        self._data: TensorDictBase | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, after seeding the env if a seed is given.

        ``options`` are passed to the env's reset as keyword arguments.
        """
        super().reset(seed=seed)
        if seed is not None:
            self.env.set_seed(seed)
        self._data = self.env.reset(**(options or {}))
        return self._read(self._data)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one step: a value of ``action_space`` or a tensor, to what the step of a ``gymnasium.Env`` returns."""
        if self._data is None:
            raise RuntimeError(errors.not_reset(self.env))
        data = self.env.step(self._with_action(self._data.copy(), action))
        after = data.get("next")
        self._data = self.env._step_mdp(data)
        reward, terminated = after.get(self._reward_key), after.get(TERMINATED)
        truncated = after.get(TRUNCATED, None)
        truncated = torch.zeros_like(terminated) if truncated is None else truncated
        signals = [_plain(value) if self.to_numpy else value.clone() for value in (reward, terminated, truncated)]
        observation, info = self._read(after)
        return observation, signals[0], signals[1], signals[2], info

    def render(self) -> Any:
        """Return the output of the env's own ``render``."""
        render: Any = self.env.render
        return render()

    def close(self) -> None:
        """Close the env."""
        if not self.env.is_closed:
            self.env.close()

    def _with_action(self, data: TensorDictBase, action: Any) -> TensorDictBase:
        spec = self.env.action_spec
        if isinstance(spec, Composite):
            return data.update(action if isinstance(action, TensorDictBase) else spec.encode(action))
        # A tensor of the spec's shape was written by a policy; everything else is a value of the space.
        written = isinstance(action, torch.Tensor) and action.shape == spec.shape
        return data.set(self.env.action_key, action if written else spec.encode(action))

    def _read(self, data: TensorDictBase) -> tuple[Any, dict[str, Any]]:
        """Return the observations and the info dictionary."""
        return self._entries(self._observed_spec, data), self._entries(self._info_spec, data)

    def _entries(self, spec: Composite, data: TensorDictBase) -> Any:
        # A clone: writing to an observation must not change the state of a stateless env.
        entries: TensorDictBase = data.select(*spec.keys(True, True)).clone()
        return spec.to_numpy(entries.cpu(), safe=False) if self.to_numpy else entries.to_dict()

    def __str__(self) -> str:
        return f"<{type(self).__name__}<{self.env!r}>>"


def _assert_gymnasium(backend: Any) -> None:
    if backend is None:
        module = gym_backend()
    else:
        with set_gym_backend(backend):
            module = gym_backend()
    if module is not gymnasium:
        raise ValueError(
            f"register_gym registers in gymnasium, and the backend is {module.__name__}, whose spaces are not those of "
            'gymnasium. Fix: backend="gymnasium".'
        )


def _transformed(env: EnvBase, transform: Any) -> EnvBase:
    from rlnb.envs.transforms.transformed_env import TransformedEnv

    clone = getattr(transform, "clone", None)
    return TransformedEnv(env, copy.deepcopy(transform) if clone is None else clone())


def _split(env: EnvBase, info_keys: Sequence[NestedKey]) -> tuple[Composite, Composite]:
    """Split the observation spec into observations and infos. Empty levels are dropped."""
    known = [as_tuple(key) for key in env.observation_keys]
    wanted = [as_tuple(key) for key in info_keys]
    for path in wanted:
        if not any(key[: len(path)] == path for key in known):
            raise KeyError(
                f"info_keys names {as_key(path)!r}, which is not an observation of {type(env).__name__}. "
                f"Its observations are: {env.observation_keys}."
            )
    infos = [key for key in known if any(key[: len(path)] == path for path in wanted)]
    spec = env.observation_spec

    def only(keys: list[tuple[str, ...]]) -> Composite:
        return Composite({as_key(key): spec[as_key(key)].clone() for key in keys}, shape=spec.shape)

    return only([key for key in known if key not in infos]), only(infos)


def _plain(value: torch.Tensor) -> Any:
    array = value.detach().squeeze(-1).cpu().numpy()
    return array.item() if array.ndim == 0 else np.array(array)
