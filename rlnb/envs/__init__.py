"""Environments over TensorDicts: base classes, Gymnasium, batches, transforms and built-in environments."""

from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs import transforms
from rlnb.envs.base import EnvBase
from rlnb.envs.batched import EnvCreator, ParallelEnv, SerialEnv
from rlnb.envs.check import check_env_specs
from rlnb.envs.custom import (
    BanditEnv,
    CartPoleEnv,
    ConnectFourEnv,
    GridWorldEnv,
    MountainCarEnv,
    PendulumEnv,
    SpreadEnv,
    TicTacToeEnv,
)
from rlnb.envs.end_signals import terminated_or_truncated
from rlnb.envs.exploration import ExplorationType, exploration_type, set_exploration_type
from rlnb.envs.gym_like import GymLikeEnv
from rlnb.envs.libs.brax import BraxEnv, BraxWrapper
from rlnb.envs.libs.dm_control import DMControlEnv, DMControlWrapper
from rlnb.envs.libs.envpool import MultiThreadedEnv, MultiThreadedEnvWrapper
from rlnb.envs.libs.gym import (
    GymEnv,
    GymWrapper,
    MOGymEnv,
    MOGymWrapper,
    default_info_dict_reader,
    gym_backend,
    set_gym_backend,
)
from rlnb.envs.libs.habitat import HabitatEnv
from rlnb.envs.libs.isaac_lab import IsaacLabWrapper
from rlnb.envs.libs.isaacgym import IsaacGymEnv, IsaacGymWrapper
from rlnb.envs.libs.jumanji import JumanjiEnv, JumanjiWrapper
from rlnb.envs.libs.libraries import get_available_libraries
from rlnb.envs.libs.meltingpot import MeltingpotEnv, MeltingpotWrapper
from rlnb.envs.libs.openml import OpenMLEnv
from rlnb.envs.libs.openspiel import OpenSpielEnv, OpenSpielWrapper
from rlnb.envs.libs.pettingzoo import PettingZooEnv, PettingZooWrapper
from rlnb.envs.libs.robohive import RoboHiveEnv
from rlnb.envs.libs.smacv2 import SMACv2Env, SMACv2Wrapper
from rlnb.envs.libs.unity_mlagents import UnityMLAgentsEnv, UnityMLAgentsWrapper
from rlnb.envs.libs.vmas import VmasEnv, VmasWrapper
from rlnb.envs.marl import MarlGroupMapType, check_marl_grouping
from rlnb.envs.metadata import EnvMetaData
from rlnb.envs.model_based import DreamerDecoder, DreamerEnv, ModelBasedEnvBase
from rlnb.envs.policies import RandomPolicy
from rlnb.envs.transforms import *  # noqa: F403 - the list of transforms has one home, transforms.__all__

__all__ = [
    "BanditEnv", "BraxEnv", "BraxWrapper", "CartPoleEnv", "ConnectFourEnv", "DMControlEnv", "DMControlWrapper",
    "DreamerDecoder", "DreamerEnv", "EnvBase", "EnvCreator", "EnvMetaData", "ExplorationType", "GridWorldEnv", "GymEnv",
    "GymLikeEnv", "GymWrapper", "HabitatEnv", "IsaacGymEnv", "IsaacGymWrapper", "IsaacLabWrapper", "JumanjiEnv",
    "JumanjiWrapper", "MOGymEnv", "MOGymWrapper", "MarlGroupMapType", "MeltingpotEnv", "MeltingpotWrapper",
    "ModelBasedEnvBase", "MountainCarEnv", "MultiThreadedEnv", "MultiThreadedEnvWrapper", "OpenMLEnv", "OpenSpielEnv",
    "OpenSpielWrapper", "ParallelEnv", "PendulumEnv", "PettingZooEnv", "PettingZooWrapper", "RandomPolicy",
    "RoboHiveEnv", "SMACv2Env", "SMACv2Wrapper", "SerialEnv", "SpreadEnv", "TicTacToeEnv", "UnityMLAgentsEnv",
    "UnityMLAgentsWrapper", "VmasEnv", "VmasWrapper",
    "check_env_specs", "check_marl_grouping", "default_info_dict_reader", "exploration_type", "get_available_libraries",
    "gym_backend", "set_exploration_type", "set_gym_backend", "step_mdp", "terminated_or_truncated",
    *transforms.__all__,
]  # fmt: skip
