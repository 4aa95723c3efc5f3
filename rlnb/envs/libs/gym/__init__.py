"""Environments of Gymnasium, gym and MO-Gymnasium: GymEnv makes one by its id, GymWrapper wraps an existing one."""

from rlnb.envs.info import BaseInfoDictReader, default_info_dict_reader
from rlnb.envs.libs.gym.backend import gym_backend, set_gym_backend
from rlnb.envs.libs.gym.env import GymEnv
from rlnb.envs.libs.gym.mo import MOGymEnv, MOGymWrapper
from rlnb.envs.libs.gym.wrapper import GymWrapper

__all__ = [
    "BaseInfoDictReader", "GymEnv", "GymWrapper", "MOGymEnv", "MOGymWrapper", "default_info_dict_reader", "gym_backend",
    "set_gym_backend",
]  # fmt: skip
