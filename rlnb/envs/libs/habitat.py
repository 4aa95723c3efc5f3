"""Environments of Habitat: embodied agents in scanned buildings."""

from __future__ import annotations

from typing import Any

import torch

from rlnb.envs.libs.gym.backend import set_gym_backend
from rlnb.envs.libs.gym.env import GymEnv, registry
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class HabitatEnv(GymEnv):
    """An environment of Habitat, made by its id in gym, with which habitat-lab registers its tasks.

    Each sensor is an entry. With ``from_pixels``, "pixels" is Habitat's picture of all that the agent sees.

    Args:
        env_name: its id, such as ``"HabitatRenderPick-v0"``.
        device: device of the returned tensors. On a GPU ``cuda:n`` the simulator renders there, too. Default: the CPU.
        override_options: settings of Habitat, such as ``["habitat.seed=3"]``.
        categorical_action_encoding, from_pixels, pixels_only, frame_skip, **kwargs: see :class:`~rlnb.envs.GymEnv`.

    Attributes:
        available_envs: the ids of all environments of Habitat.

    Raises:
        ImportError: If habitat-lab is not installed.
        ValueError: If there is no such environment. The nearest names are listed.

    Example:
        .. code-block:: python

            env = HabitatEnv("HabitatRenderPick-v0", from_pixels=True)
            env.rollout(3)
    """

    libname = "habitat"
    git_url = "https://github.com/facebookresearch/habitat-lab"
    available_envs = AvailableEnvs("habitat", lambda: _ids())

    def __init__(
        self,
        env_name: str,
        categorical_action_encoding: bool = False,
        *,
        device: torch.device | str | int | None = None,
        override_options: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        options = list(override_options or ())
        place = None if device is None else torch.device(device)
        if place is not None and place.type == "cuda":
            options.append(f"habitat.simulator.habitat_sim_v0.gpu_device_id={place.index or 0}")
        if options:
            kwargs["override_options"] = options
        super().__init__(env_name, categorical_action_encoding, device=device, **kwargs)

    @property
    def lib(self) -> Any:
        """The module ``habitat``."""
        return import_library("habitat", "HabitatEnv")

    def _make_env(self, env_name: str, num_envs: int, **kwargs: Any) -> Any:
        if env_name not in (names := _ids()):
            raise no_such_env("Habitat", env_name, names, "HabitatEnv.available_envs")
        kwargs.pop("render_mode", None)  # Habitat's envs all render, and know no such argument
        with set_gym_backend("gym"):
            return super()._make_env(env_name, num_envs, **kwargs)


def _ids() -> list[str]:
    """List the ids that habitat-lab registers with gym when it is imported."""
    import_library("habitat.gym", "HabitatEnv")
    with set_gym_backend("gym"):
        return [name for name in registry() if name.startswith("Habitat")]
