"""Environments: what produces data."""

from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs.base import EnvBase
from rlnb.envs.check import check_env_specs
from rlnb.envs.custom import BanditEnv, CartPoleEnv, GridWorldEnv, MountainCarEnv, PendulumEnv
from rlnb.envs.ended import terminated_or_truncated
from rlnb.envs.exploration import ExplorationType, exploration_type, set_exploration_type
from rlnb.envs.libs.available import get_available_libraries
from rlnb.envs.libs.gym import GymEnv, GymWrapper, default_info_dict_reader, gym_backend, set_gym_backend
from rlnb.envs.policies import RandomPolicy

__all__ = [
    "BanditEnv", "CartPoleEnv", "EnvBase", "ExplorationType", "GridWorldEnv", "GymEnv", "GymWrapper", "MountainCarEnv",
    "PendulumEnv", "RandomPolicy", "check_env_specs", "default_info_dict_reader", "exploration_type",
    "get_available_libraries", "gym_backend", "set_exploration_type", "set_gym_backend", "step_mdp",
    "terminated_or_truncated",
]  # fmt: skip
