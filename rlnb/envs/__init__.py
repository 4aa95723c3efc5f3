"""Environments: what produces data."""

from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs.base import EnvBase
from rlnb.envs.check import check_env_specs
from rlnb.envs.libs.gym import GymEnv, GymWrapper, default_info_dict_reader
from rlnb.envs.policies import RandomPolicy

__all__ = ["EnvBase", "GymEnv", "GymWrapper", "RandomPolicy", "check_env_specs", "default_info_dict_reader", "step_mdp"]
