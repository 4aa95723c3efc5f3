"""Environments of dm_control: tasks for bodies that are simulated by MuJoCo."""

from __future__ import annotations

import ctypes.util
import functools
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import torch

from rlnb.data.specs.spaces import space_from_spec
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.libs.dm_env import spec_from_dm_env
from rlnb.envs.libs.gym.wrapper import GymWrapper
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class _Adapter(gymnasium.Env):
    """A dm_control environment with the interface of Gymnasium. Its other attributes are those of the environment.

    Args:
        env: the environment.
        load: loads the environment again, with a seed. ``None``: a seed restarts the generator of ``env``.
        camera: the arguments of ``physics.render``.
    """

    spec = None
    render_mode = "rgb_array"

    def __init__(self, env: Any, load: Callable[[int], Any] | None, camera: dict[str, Any]) -> None:
        self.env, self.load, self.camera = env, load, camera
        described = env.observation_spec()
        self.is_named = isinstance(described, Mapping)
        self.observation_space = _space(described if self.is_named else {"observation": described})
        self.action_space = _space(env.action_spec())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._reseed(seed % (1 << 32))
        return self._see(self.env.reset()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        found = self.env.step(action)
        if not found.last():
            if found.reward is None:
                raise RuntimeError(
                    "step was called on an environment of dm_control whose episode is over, and it began the next one. "
                    "Fix: env.reset(), or env.step_and_maybe_reset(td)."
                )
            return self._see(found), float(found.reward), False, False, {}
        terminated = bool(found.discount == 0)
        return self._see(found), float(found.reward), terminated, not terminated, {}

    def _see(self, found: Any) -> Any:
        """Read the observation, and name it if it is not a dictionary."""
        return found.observation if self.is_named else {"observation": found.observation}

    def _reseed(self, seed: int) -> None:
        if self.load is not None:
            self.env.close()
            self.env = self.load(seed)
            return
        task = getattr(self.env, "task", None)
        generator = getattr(task, "random", None) or getattr(self.env, "random_state", None)
        if generator is None:
            raise RuntimeError(
                f"{type(task or self.env).__name__} has no random generator that could be seeded. "
                "Fix: DMControlEnv(domain, task), or an env whose task has an attribute `random`."
            )
        generator.seed(seed)

    def render(self) -> np.ndarray:
        camera = self.camera
        if camera["camera_id"] == 0 and not self.env.physics.model.ncam:
            camera = {**camera, "camera_id": -1}  # a free camera
        try:
            frame: np.ndarray = self.env.physics.render(**camera)
        except Exception as error:
            # A camera that the model does not have, or a frame that is too large.
            if isinstance(error, ValueError) or type(error).__module__.startswith("dm_control."):
                raise
            raise RuntimeError(_no_renderer(error)) from error
        return frame

    def close(self) -> None:
        self.env.close()

    @property
    def unwrapped(self) -> Any:
        return self.env

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.env, name)


class DMControlWrapper(GymWrapper):
    """Wraps an environment of dm_control, of its suite or its composer.

    Each observation is an entry, of the dtype that the environment gives, float64 in the suite; numbers have shape
    ``[1]``. The reward is float64. The last step of an episode is "terminated" if its discount is 0, and otherwise
    "truncated", as by the time limit that all tasks of the suite have.

    Frames are rendered by EGL (with or without a GPU) or OSMesa on machines without a display. dm_control reads the
    variable ``MUJOCO_GL`` for it, when it is imported first.

    Args:
        env: the environment, such as ``suite.load("cheetah", "run")``.
        from_pixels: add the rendered frame, as "pixels" of shape ``[height, width, 3]`` and dtype uint8.
        pixels_only: with ``from_pixels``, leave out the other observations. Default: True.
        frame_skip: how many times each action is repeated. The rewards are summed, and the end of an episode stops
            the repetition.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        camera_id: number or name of the camera that renders frames. Default: 0, the task's first.
        height, width: size of the frames in pixels. Default: 240 and 320.
        categorical_action_encoding, **kwargs: see :class:`~rlnb.envs.GymWrapper`.

    Raises:
        TypeError: If ``env`` is not an environment of dm_control.
        RuntimeError: If frames are asked for and there is no renderer.

    Example:
        .. code-block:: python

            from dm_control import suite

            env = DMControlWrapper(suite.load("cheetah", "run"))
            env.rollout(100)["velocity"].shape  # [100, 9]
            env.physics.named.data.xpos["torso"]  # everything else is the environment's
    """

    libname = "dm_control"
    git_url = "https://github.com/google-deepmind/dm_control"

    def __init__(
        self,
        env: Any,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = True,
        camera_id: int | str = 0,
        height: int = 240,
        width: int = 320,
        **kwargs: Any,
    ) -> None:
        if not isinstance(env, _Adapter):
            if not hasattr(env, "physics") or not hasattr(env, "action_spec"):
                raise TypeError(
                    f"DMControlWrapper wraps an environment of dm_control and got a {type(env).__name__}. "
                    'Fix: DMControlWrapper(suite.load("cheetah", "run")), or DMControlEnv("cheetah", "run").'
                )
            env = _Adapter(env, None, {"height": height, "width": width, "camera_id": camera_id})
        super().__init__(env, categorical_action_encoding, from_pixels=from_pixels, pixels_only=pixels_only, **kwargs)
        self.reward_spec = Unbounded((1,), dtype=torch.float64, device=self.device)

    @property
    def lib(self) -> ModuleType:
        """The module ``dm_control``."""
        return import_library("dm_control", type(self).__name__)

    def __repr__(self) -> str:
        name = type(getattr(self._env, "task", self._env)).__name__
        return f"{type(self).__name__}(task={name}, batch_size={self.batch_size}, device={self.device})"


class DMControlEnv(DMControlWrapper):
    """A task of dm_control's suite. After ``set_seed(s)`` it is ``suite.load(..., task_kwargs={"random": s})``.

    Where ``MUJOCO_GL`` is not set, and there is neither a display nor dm_control in the process, making the first one
    sets it to ``egl`` or ``osmesa``, whichever is installed.

    Args:
        env_name: the domain, such as ``"cheetah"``.
        task_name: the task, such as ``"run"``.
        from_pixels, pixels_only, frame_skip, device, camera_id, height, width, categorical_action_encoding: see
            :class:`DMControlWrapper`.
        num_workers: 2 or more make a :class:`~rlnb.envs.ParallelEnv` of that many such envs, each in its own process.
            Default: 1, a single env in this process; 0 is the same.
        environment_kwargs: for the environment, such as ``{"flat_observation": True}``.
        **task_kwargs: for the task, such as ``random=0`` (a seed) or ``time_limit=5``.

    Attributes:
        available_envs: pairs of each domain and the list of its tasks.

    Raises:
        ImportError: If dm_control is not installed.
        ValueError: If there is no such domain or task, whose nearest names are listed, or ``num_workers`` is not a
            non-negative integer.
        RuntimeError: If frames are asked for and there is no renderer.

    Example:
        .. code-block:: python

            env = DMControlEnv("cartpole", "swingup", from_pixels=True, pixels_only=False)
            RolloutPlayer(env.rollout(100))
    """

    available_envs = AvailableEnvs("dm_control", lambda: _tasks().items())

    def __new__(cls, *args: Any, num_workers: int = 1, **kwargs: Any) -> Any:
        """Make a :class:`~rlnb.envs.ParallelEnv` if there are several workers."""
        if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 0:
            raise ValueError(
                f"num_workers must be a non-negative integer and is {num_workers!r}. "
                'Fix: DMControlEnv("cheetah", "run", num_workers=2) for two processes.'
            )
        if num_workers < 2:
            return super().__new__(cls)
        return cls.make_parallel(functools.partial(cls, *args, **kwargs), num_envs=num_workers)

    def __init__(
        self,
        env_name: str,
        task_name: str,
        *,
        categorical_action_encoding: bool = False,
        from_pixels: bool = False,
        pixels_only: bool = True,
        frame_skip: int = 1,
        device: torch.device | str | int | None = None,
        batch_size: Any = None,
        allow_done_after_reset: bool = False,
        camera_id: int | str = 0,
        height: int = 240,
        width: int = 320,
        num_workers: int = 1,
        environment_kwargs: Mapping[str, Any] | None = None,
        **task_kwargs: Any,
    ) -> None:
        suite, tasks = _suite(), _tasks()
        if env_name not in tasks:
            raise no_such_env("dm_control's suite", env_name, tasks, "DMControlEnv.available_envs")
        if task_name not in tasks[env_name]:
            raise no_such_env(
                f"the domain {env_name!r} of dm_control's suite", task_name, tasks[env_name],
                f"dict(DMControlEnv.available_envs)[{env_name!r}]",
            )  # fmt: skip

        def load(seed: int | None) -> Any:
            given = task_kwargs if seed is None else {**task_kwargs, "random": seed}
            made = dict(environment_kwargs) if environment_kwargs else None
            return suite.load(env_name, task_name, task_kwargs=given or None, environment_kwargs=made)

        self.env_name, self.task_name = env_name, task_name
        super().__init__(
            _Adapter(load(None), load, {"height": height, "width": width, "camera_id": camera_id}),
            categorical_action_encoding,
            from_pixels=from_pixels,
            pixels_only=pixels_only,
            frame_skip=frame_skip,
            device=device,
            batch_size=batch_size,
            allow_done_after_reset=allow_done_after_reset,
        )

    def __repr__(self) -> str:
        made = f"{type(self).__name__}(env={self.env_name}, task={self.task_name}, "
        return f"{made}batch_size={self.batch_size}, device={self.device})"


def _space(spec: Any) -> gymnasium.Space:
    """Convert a spec of dm_env into a space, in which a number has shape ``[1]``."""
    found: gymnasium.Space = space_from_spec(spec_from_dm_env(spec, number_shape=(1,)))
    return found


# The library ----------------------------------------------------------------------------------------------------------


def _suite() -> ModuleType:
    """Import dm_control's suite, with a renderer for machines without a display."""
    if sys.platform == "linux" and "dm_control" not in sys.modules and not os.environ.get("MUJOCO_GL"):
        if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
            found = next((name for name in ("EGL", "OSMesa") if ctypes.util.find_library(name)), "")
            if found:
                os.environ["MUJOCO_GL"] = found.lower()
    try:
        return import_library("dm_control.suite", "DMControlEnv")
    except ImportError:
        raise
    except Exception as error:  # a renderer that is named and not installed breaks the import
        raise RuntimeError(_no_renderer(error)) from error


def _tasks() -> dict[str, list[str]]:
    """Each domain of the suite and its tasks, sorted."""
    found: dict[str, list[str]] = {}
    for domain, task in sorted(_suite().ALL_TASKS):
        found.setdefault(domain, []).append(task)
    return found


def _no_renderer(error: Exception) -> str:
    asked = os.environ.get("MUJOCO_GL")
    with_what = "MUJOCO_GL is not set" if not asked else f"MUJOCO_GL={asked}"
    reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    return (
        f"dm_control cannot render frames with {with_what}: {reason}. Without a display it needs EGL or OSMesa. Fix: "
        "apt-get install libegl1 (or libosmesa6), and set MUJOCO_GL=egl (or osmesa) before Python starts."
    )
