"""GymEnv: an environment of Gymnasium, made by its id."""

from __future__ import annotations

import difflib
from typing import Any

import gymnasium
import torch

from rlnb.envs.libs.gym.backend import gym_backend
from rlnb.envs.libs.gym.wrapper import GymWrapper


class _AvailableEnvs:
    """The ids that can be made, read from the registry each time: packages register theirs when imported."""

    def __get__(self, instance: Any, owner: type) -> list[str]:
        return sorted(gymnasium.registry)


class GymEnv(GymWrapper):
    """An environment of Gymnasium.

    Args:
        env_name: its id, such as ``"CartPole-v1"``.
        categorical_action_encoding: see :class:`GymWrapper`.
        from_pixels: see :class:`GymWrapper`.
        pixels_only: see :class:`GymWrapper`.
        frame_skip: see :class:`GymWrapper`.
        device: see :class:`GymWrapper`.
        disable_env_checker: leave out Gymnasium's own checks of every step (the default); rlnb checks the first.
        **kwargs: passed to the environment's constructor.

    Attributes:
        available_envs: the ids of all environments that are registered.

    Raises:
        gymnasium.error.UnregisteredEnv: if there is no such environment; the nearest names are listed.

    Example:
        >>> env = GymEnv("Pendulum-v1", g=9.81)
        >>> env.g
        9.81
        >>> env.rollout(3).batch_size
        torch.Size([3])
    """

    available_envs = _AvailableEnvs()

    def __init__(
        self,
        env_name: str,
        *,
        categorical_action_encoding: bool = False,
        from_pixels: bool = False,
        pixels_only: bool = True,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
        disable_env_checker: bool = True,
        **kwargs: Any,
    ) -> None:
        if from_pixels:
            kwargs.setdefault("render_mode", "rgb_array")
        super().__init__(
            _make(env_name, disable_env_checker=disable_env_checker, **kwargs),
            categorical_action_encoding=categorical_action_encoding,
            from_pixels=from_pixels,
            pixels_only=pixels_only,
            frame_skip=frame_skip,
            device=device,
        )
        self.env_name = env_name


def _make(env_name: str, **kwargs: Any) -> gymnasium.Env:
    try:
        env: gymnasium.Env = gym_backend().make(env_name, **kwargs)
        return env
    except gymnasium.error.UnregisteredEnv as error:
        names = [name for name in gymnasium.registry if ("/" in name) == ("/" in env_name)]
        near = difflib.get_close_matches(env_name, names, n=4, cutoff=0.5)
        hint = f"Did you mean {', '.join(near)}?" if near else "GymEnv.available_envs lists those that there are."
        raise type(error)(f"There is no environment {env_name!r} in Gymnasium's registry. {hint}") from None


__all__ = ["GymEnv"]
