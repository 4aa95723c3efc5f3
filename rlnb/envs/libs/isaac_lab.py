"""Environments of Isaac Lab: thousands of robots at once, whose data never leaves the GPU."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium
import torch
from tensordict import TensorDictBase

from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.spaces import spec_from_space
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.gym_like import GymLikeEnv, Outputs
from rlnb.envs.libs.libraries import AvailableEnvs


class IsaacLabWrapper(GymLikeEnv):
    """Wraps an environment of Isaac Lab with n robots, manager-based or direct. The batch size is ``[n]``.

    Each group of observations is an entry, such as "policy" and "critic". All data are tensors on the env's device.

    Isaac Lab resets a robot in the step that ends its episode, and returns the observation of the next episode. That
    one is kept until the reset is asked for, at once in a rollout. **The last observation of an episode is lost**:
    under "next" its numbers are ``missing_obs_value``, NaN by default, so that nothing learns from the wrong episode by
    mistake (integers are 0). Bootstrap only where an episode goes on; or let the env write its last observations to
    ``extras["final_obs"]``, a dictionary of all n, and they are read from there.

    Args:
        env: the environment, the output of ``gymnasium.make("Isaac-...", cfg=...)``.
        categorical_action_encoding: encode discrete actions as integers. ``False`` (the default): as one-hot vectors.
        allow_done_after_reset, run_type_checks: see :class:`~rlnb.envs.EnvBase`. A robot may fall while it is reset, so
            the former is True by default.
        device: device of the returned tensors. ``None`` (the default): the env's.
        missing_obs_value: the numbers of the last observation of an episode.
        from_tiled_camera: add the images of a camera of the scene, as "pixels" of shape ``[n, height, width, 3]`` and
            dtype uint8. Default: False.
        tiled_camera_name: the camera's name in ``env.scene.sensors``.
        tiled_camera_data_type: what it gives: ``"rgb"`` (the default), or another of its types.
        native_autoreset, convert_actions_to_numpy: without effect. No reset is ever repeated here, and actions are
            tensors.

    Attributes:
        available_envs: the ids of Isaac Lab's environments that are registered with Gymnasium, such as those that
            importing ``isaaclab_tasks`` registers.

    Raises:
        TypeError: If ``env`` is not such an environment.

    Example:
        .. code-block:: python

            from isaaclab.app import AppLauncher

            AppLauncher(headless=True)  # before anything else of Isaac Lab
            import gymnasium
            import isaaclab_tasks
            from isaaclab_tasks.manager_based.classic.ant.ant_env_cfg import AntEnvCfg

            env = IsaacLabWrapper(gymnasium.make("Isaac-Ant-v0", cfg=AntEnvCfg()))
            env.rollout(100, break_when_any_done=False)
    """

    libname = "isaaclab"
    git_url = "https://github.com/isaac-sim/IsaacLab"
    available_envs = AvailableEnvs("isaaclab", lambda: _ids())

    def __init__(
        self,
        env: Any,
        *,
        categorical_action_encoding: bool = False,
        allow_done_after_reset: bool = True,
        run_type_checks: bool | None = None,
        device: torch.device | str | int | None = None,
        missing_obs_value: float = torch.nan,
        from_tiled_camera: bool = False,
        tiled_camera_name: str = "tiled_camera",
        tiled_camera_data_type: str = "rgb",
        native_autoreset: bool = False,
        convert_actions_to_numpy: bool = False,
    ) -> None:
        inner = getattr(env, "unwrapped", env)
        if not all(hasattr(inner, name) for name in ("num_envs", "single_observation_space", "device")):
            raise TypeError(
                f"IsaacLabWrapper wraps an environment of Isaac Lab and got a {type(inner).__name__}. "
                'Fix: gymnasium.make("Isaac-Ant-v0", cfg=AntEnvCfg()), or GymWrapper for an env of Gymnasium.'
            )
        super().__init__(
            env,
            device=inner.device if device is None else device,
            batch_size=[inner.num_envs],
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.missing_obs_value = missing_obs_value
        self._inner = inner
        self._seed: int | None = None
        self._camera = (tiled_camera_name, tiled_camera_data_type) if from_tiled_camera else None
        self._over = torch.zeros(inner.num_envs, dtype=torch.bool, device=inner.device)
        self._fresh: Any = None
        spec: Any = spec_from_space(inner.single_observation_space, device=self.device).expand(*self.batch_size)
        if self._camera is not None:
            image = self._pixels()
            spec["pixels"] = Bounded(0, 255, shape=image.shape, dtype=torch.uint8, device=self.device)
        self.observation_spec = spec
        action = spec_from_space(inner.single_action_space, device=self.device, categorical=categorical_action_encoding)
        self.action_spec = action.expand(*self.batch_size, *action.shape)
        self.reward_spec = Unbounded((*self.batch_size, 1), device=self.device)

    # Reset and step -----------------------------------------------------------------------------------------------

    def _restart(self, tensordict: TensorDictBase | None, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None:
            asked, kept = ~torch.zeros_like(self._over), torch.zeros_like(self._over)
        else:
            marked = mask.reshape(-1).to(self._over.device)
            kept = marked & self._over
            asked = marked & ~kept
        fresh = self._fresh
        if bool(asked.any()):
            found = self._reset_robots(asked, **kwargs)
            fresh = found if fresh is None else _mixed(kept, fresh, found)
        self._over = self._over & ~(asked | kept)
        return fresh, {}

    def _reset_robots(self, asked: torch.Tensor, **kwargs: Any) -> Any:
        if bool(asked.all()):
            if self._seed is not None:
                kwargs.setdefault("seed", self._seed)
            found = self._env.reset(**kwargs)[0]
            self._seed = None
        elif "env_ids" in inspect.signature(self._inner.reset).parameters:
            found = self._inner.reset(env_ids=asked.nonzero().squeeze(-1), **kwargs)[0]
        else:
            raise RuntimeError(
                f"{type(self._inner).__name__} cannot reset robots whose episode is not over and leave the others. "
                "Fix: env.reset() for all, or a manager-based env, whose reset takes env_ids."
            )
        return self._with_pixels(_copied(found))

    def _output_transform(self, step_outputs_tuple: tuple[Any, ...]) -> Outputs:
        observation, reward, terminated, truncated, extras = step_outputs_tuple
        over = terminated.to(torch.bool) | truncated.to(torch.bool)
        observation = self._with_pixels(observation)
        if bool(over.any()):
            self._over, self._fresh = over, _copied(observation)
            observation = _mixed(over, extras.get("final_obs", {}), observation, self.missing_obs_value)
        return observation, reward, terminated, truncated, over, extras

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Mapping[str, Any]]:
        return reset_outputs_tuple

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if bool(self._over.any()):
            raise RuntimeError(
                f"step was called on an env that is done: number {int(self._over.nonzero()[0])} of {len(self._over)} "
                "ended and was not reset. Fix: td = env.maybe_reset(step_mdp(td)) before the next step, or "
                "env.step_and_maybe_reset(td)."
            )
        return super()._step(tensordict)

    def _with_pixels(self, observation: Any) -> Any:
        return observation if self._camera is None else {**observation, "pixels": self._pixels()}

    def _pixels(self) -> torch.Tensor:
        assert self._camera is not None
        name, kind = self._camera
        image = self._inner.scene.sensors[name].data.output[kind][..., :3]
        return (image * 255).to(torch.uint8) if image.is_floating_point() else image.to(torch.uint8)

    # Reading and writing data -------------------------------------------------------------------------------------

    def read_action(self, action: Any) -> Any:
        """Move an action to the env's device; a choice becomes its number."""
        spec = self.action_spec
        if hasattr(spec, "n"):
            return torch.as_tensor(spec.to_numpy(action.cpu())).to(self._inner.device)
        return action.to(self._inner.device)

    def read_reward(self, reward: Any) -> torch.Tensor:
        """Copy the rewards ``[n]`` into a tensor ``[n, 1]``."""
        return reward.to(torch.float32, copy=True).reshape(*self.batch_size, 1)

    def read_done(
        self, terminated: Any = None, truncated: Any = None, done: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool]:
        """Copy the end signals ``[n]`` into tensors ``[n, 1]``."""
        ends = (terminated, truncated, done)
        shaped = [flags.to(torch.bool, copy=True).reshape(*self.batch_size, 1) for flags in ends]
        return shaped[0], shaped[1], shaped[2], bool(shaped[2].any())

    def _set_seed(self, seed: int | None) -> None:
        self._seed = None if seed is None else seed % (1 << 32)

    def render(self) -> Any:
        """Return a frame ``[height, width, 3]`` of the env's viewer.

        Raises:
            RuntimeError: If the env was made without ``render_mode="rgb_array"``.
        """
        frame = self._env.render()
        if frame is None:
            raise RuntimeError(
                "The env renders no frames. Fix: gymnasium.make(id, cfg=cfg, render_mode='rgb_array'), and "
                "AppLauncher(headless=True, enable_cameras=True)."
            )
        return frame


def _ids() -> list[str]:
    """List the ids that Isaac Lab has registered with Gymnasium."""
    return [name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("isaaclab")]


def _copied(observation: Any) -> Any:
    """Copy a nested dictionary of tensors, to which Isaac Lab writes the next observation."""
    if isinstance(observation, Mapping):
        return {key: _copied(member) for key, member in observation.items()}
    return observation.clone()


def _mixed(rows: torch.Tensor, chosen: Any, others: Any, missing: float = torch.nan) -> Any:
    """Take the marked rows from one batch of observations, or ``missing`` if it lacks them, and others from another."""
    if isinstance(others, Mapping):
        return {key: _mixed(rows, (chosen or {}).get(key), member, missing) for key, member in others.items()}
    if chosen is None:
        chosen = torch.full_like(others, missing if others.is_floating_point() else 0)
    return torch.where(rows.reshape(-1, *[1] * (others.ndim - 1)), chosen, others)
