"""Environments of IsaacGymEnvs: thousands of robots at once, whose data never leaves the GPU."""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.specs.spaces import spec_from_space
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.gym_like import GymLikeEnv, Outputs
from rlnb.envs.libs.gym.old_gym import space_from_gym
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class IsaacGymWrapper(GymLikeEnv):
    """Wraps a task of IsaacGymEnvs, a ``VecTask`` of n robots. The batch size is ``[n]``.

    The entry "obs" holds the observations, and "states" what only a critic may see, if the task has states. All data
    are tensors on the device that the task calls ``rl_device``.

    A task resets a robot whose episode is over at the start of its next step. So the observation of the last step is
    the true one, and ("next", "obs") is always what the step led to. Here the robot is reset before that step: by the
    task's ``reset_idx`` and ``compute_observations``, as the task does it, so that no action is lost.

    A process can hold one simulation of Isaac Gym only. ``set_seed`` seeds the global generators of Python, NumPy and
    torch, because the tasks draw from these.

    Args:
        env: the task, the output of ``isaacgymenvs.make``.
        device: device of the returned tensors. ``None`` (the default): the task's ``rl_device``.
        run_type_checks, allow_done_after_reset: see :class:`~rlnb.envs.EnvBase`.

    Raises:
        TypeError: If ``env`` is not such a task.

    Example:
        .. code-block:: python

            import isaacgym  # before torch
            import isaacgymenvs

            env = IsaacGymWrapper(isaacgymenvs.make(0, "Ant", 2000, "cuda:0", "cuda:0"))
            env.rollout(3).batch_size  # [2000, 3]
    """

    libname = "isaacgym"
    git_url = "https://github.com/isaac-sim/IsaacGymEnvs"

    def __init__(
        self,
        env: Any,
        *,
        device: torch.device | str | int | None = None,
        run_type_checks: bool | None = None,
        allow_done_after_reset: bool = False,
    ) -> None:
        if not all(hasattr(env, name) for name in ("reset_idx", "compute_observations", "num_envs", "rl_device")):
            raise TypeError(
                f"IsaacGymWrapper wraps a task of IsaacGymEnvs, which has reset_idx and compute_observations, and got "
                f'a {type(env).__name__}. Fix: IsaacGymEnv("Ant", num_envs=2000, device="cuda:0").'
            )
        super().__init__(
            env,
            device=env.rl_device if device is None else device,
            batch_size=[env.num_envs],
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        spaces = {"obs": env.observation_space}
        if getattr(env, "num_states", 0):
            spaces["states"] = env.state_space
        specs = {key: self._batched(space) for key, space in spaces.items()}
        self.observation_spec = Composite(specs, shape=self.batch_size, device=self.device)
        self.action_spec = self._batched(env.action_space)
        self.reward_spec = Unbounded((*self.batch_size, 1), device=self.device)

    def _batched(self, space: Any) -> Any:
        spec = spec_from_space(space_from_gym(space), device=self.device)
        return spec.expand(*self.batch_size, *spec.shape)

    def _restart(self, tensordict: TensorDictBase | None, **kwargs: Any) -> Any:
        env = self._env
        mask = None if tensordict is None else tensordict.get("_reset", None)
        marked = torch.ones(env.num_envs, dtype=torch.bool) if mask is None else mask.reshape(-1)
        env.reset_idx(marked.to(env.device).nonzero().squeeze(-1))
        env.compute_observations()
        found = {"obs": torch.clamp(env.obs_buf, -env.clip_obs, env.clip_obs).to(env.rl_device)}
        if "states" in self.observation_spec:
            found["states"] = env.get_state()
        return found

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Mapping[str, Any]]:
        return reset_outputs_tuple, {}

    def _output_transform(self, step_outputs_tuple: tuple[Any, ...]) -> Outputs:
        observation, reward, over, extras = step_outputs_tuple
        over = over.to(torch.bool)
        truncated = extras["time_outs"].to(torch.bool) & over if "time_outs" in extras else torch.zeros_like(over)
        return observation, reward, over & ~truncated, truncated, over, extras

    def read_action(self, action: Any) -> Any:
        """Move an action to the task's device."""
        return action.to(self._env.rl_device)

    def read_reward(self, reward: Any) -> torch.Tensor:
        """Copy the rewards ``[n]`` into a tensor ``[n, 1]``."""
        return reward.to(torch.float32, copy=True).reshape(*self.batch_size, 1)

    def read_done(
        self, terminated: Any = None, truncated: Any = None, done: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool]:
        """Shape the end signals ``[n]`` as ``[n, 1]``."""
        shaped = [flags.reshape(*self.batch_size, 1) for flags in (terminated, truncated, done)]
        return shaped[0], shaped[1], shaped[2], bool(shaped[2].any())

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % (1 << 32))

    def render(self) -> Any:
        """Return a frame ``[height, width, 3]`` of the task's viewer.

        Raises:
            RuntimeError: If the task has no viewer to capture.
        """
        frame = self._env.render(mode="rgb_array")
        if frame is None:
            raise RuntimeError(
                "The task renders no frames: it has no viewer, or it is not captured. Fix: "
                "IsaacGymEnv(..., headless=False, virtual_screen_capture=True)."
            )
        return frame


class IsaacGymEnv(IsaacGymWrapper):
    """A task of IsaacGymEnvs, made by its name. The batch size is ``[num_envs]``.

    Isaac Gym must be imported before torch, and so before rlnb: ``import isaacgym`` is the first line of a program.

    Args:
        task: its name, such as ``"Ant"``.
        num_envs: the number of robots.
        device: the device that simulates, and of the data, such as ``"cuda:0"``.
        seed: of the task when it is made. Default: 0.
        **kwargs: for ``isaacgymenvs.make``, such as ``headless`` (True by default) or ``cfg``.

    Attributes:
        available_envs: the names of all tasks.

    Raises:
        ImportError: If Isaac Gym or IsaacGymEnvs is not installed, or torch was imported before.
        ValueError: If there is no such task. The nearest names are listed.

    Example:
        .. code-block:: python

            import isaacgym

            env = IsaacGymEnv(task="Ant", num_envs=2000, device="cuda:0")
            env.rollout(3).batch_size  # [2000, 3]
    """

    available_envs = AvailableEnvs("isaacgym", lambda: _tasks())

    def __init__(
        self, task: str, *, num_envs: int, device: torch.device | str | int, seed: int = 0, **kwargs: Any
    ) -> None:
        tasks = _tasks()
        if task not in tasks:
            raise no_such_env("IsaacGymEnvs", task, tasks, "IsaacGymEnv.available_envs")
        where = str(torch.device(device))
        kwargs = {"sim_device": where, "rl_device": where, "headless": True, **kwargs}
        super().__init__(_isaacgymenvs().make(seed=seed, task=task, num_envs=num_envs, **kwargs))
        self.task = task

    def _backend_name(self) -> str:
        return getattr(self, "task", "")


def _isaacgymenvs(part: str = "") -> Any:
    """Import IsaacGymEnvs, or one of its modules."""
    import_library("isaacgym", "IsaacGymEnv")
    try:
        return importlib.import_module(f"isaacgymenvs{part}")
    except ModuleNotFoundError as error:
        if error.name != "isaacgymenvs":
            raise
        raise ImportError(
            "IsaacGymEnv needs isaacgymenvs, which is not installed. Fix: git clone "
            "https://github.com/isaac-sim/IsaacGymEnvs, then pip install -e . in it."
        ) from None


def _tasks() -> Mapping[str, Any]:
    tasks: Mapping[str, Any] = _isaacgymenvs(".tasks").isaacgym_task_map
    return tasks
