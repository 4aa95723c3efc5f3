"""Environments of RoboHive: robots that manipulate and walk, simulated by MuJoCo."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np

from rlnb.envs.libs.gym.backend import set_gym_backend
from rlnb.envs.libs.gym.env import GymEnv
from rlnb.envs.libs.gym.old_gym import as_gymnasium
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class _Cameras(gymnasium.Wrapper):
    """Renders an env of RoboHive offscreen, and adds depths to its observations if that is asked for."""

    render_mode = "rgb_array"

    def __init__(self, env: Any, camera: dict[str, Any], from_depths: bool, depths_only: bool) -> None:
        super().__init__(env)
        self.camera, self.from_depths, self.depths_only = camera, from_depths, depths_only
        if from_depths:
            depths = gymnasium.spaces.Box(0, np.inf, (camera["height"], camera["width"]), np.float32)
            own = {} if depths_only else {"observation": env.observation_space}
            self.observation_space = gymnasium.spaces.Dict({**own, "depths": depths})

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        return self._see(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._see(observation), reward, terminated, truncated, info

    def render(self) -> Any:
        return self._look(rgb=True, depth=False)

    def _see(self, observation: Any) -> Any:
        if not self.from_depths:
            return observation
        own = {} if self.depths_only else {"observation": observation}
        return {**own, "depths": np.asarray(self._look(rgb=False, depth=True), np.float32)}

    def _look(self, **what: bool) -> Any:
        inner: Any = self.env.unwrapped
        return inner.sim.renderer.render_offscreen(**self.camera, **what)


class RoboHiveEnv(GymEnv):
    """An environment of RoboHive, made by its id. RoboHive uses gymnasium if it is installed, and otherwise gym.

    Args:
        env_name: its id, one of ``available_envs``.
        from_pixels, pixels_only: see :class:`~rlnb.envs.GymEnv`. Frames are rendered offscreen.
        from_depths: with ``from_pixels``, add the distance of each pixel, as "depths" of shape ``[height, width]`` in
            float32. Default: False.
        camera_id: number or name of the camera. Default: -1, which looks at the whole scene.
        height, width: size of the frames in pixels. Default: 224.
        categorical_action_encoding, frame_skip, device, **kwargs: see :class:`~rlnb.envs.GymEnv`.

    Attributes:
        available_envs: the ids of all environments of RoboHive.

    Raises:
        ImportError: If robohive is not installed.
        ValueError: If there is no such environment, whose nearest names are listed, or ``from_depths`` is given without
            ``from_pixels``.

    Example:
        .. code-block:: python

            env = RoboHiveEnv("FrankaReachFixed-v0", from_pixels=True)
            env.rollout(3)
    """

    libname = "robohive"
    git_url = "https://github.com/vikashplus/robohive"
    available_envs = AvailableEnvs("robohive", lambda: _robohive().robohive_env_suite)

    def __init__(
        self,
        env_name: str,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = True,
        from_depths: bool = False,
        camera_id: int | str = -1,
        height: int = 224,
        width: int = 224,
        **kwargs: Any,
    ) -> None:
        if from_depths and not from_pixels:
            raise ValueError("from_depths=True adds depths to pixels. Fix: from_pixels=True, too.")
        self._camera = {"camera_id": camera_id, "height": height, "width": width}
        self._depths = from_depths, pixels_only
        super().__init__(
            env_name,
            categorical_action_encoding,
            from_pixels=from_pixels,
            pixels_only=pixels_only and not from_depths,
            **kwargs,
        )

    @property
    def lib(self) -> Any:
        """The module ``robohive``."""
        return _robohive()

    def _make_env(self, env_name: str, num_envs: int, **kwargs: Any) -> Any:
        names = _robohive().robohive_env_suite
        if env_name not in names:
            raise no_such_env("RoboHive", env_name, names, "RoboHiveEnv.available_envs")
        kwargs.pop("render_mode", None)  # RoboHive's envs all render, and know no such argument
        with set_gym_backend(import_library("robohive.utils.import_utils", "RoboHiveEnv").gym):
            made = super()._make_env(env_name, num_envs, **kwargs)
        return made if num_envs else _Cameras(as_gymnasium(made), self._camera, *self._depths)


def _robohive() -> Any:
    os.environ.setdefault("sim_backend", "MUJOCO")  # read when RoboHive is imported
    return import_library("robohive", "RoboHiveEnv")
