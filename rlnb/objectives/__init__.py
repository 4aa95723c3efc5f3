"""Losses, target network updates, and value estimators."""

from rlnb.objectives.a2c import A2CLoss
from rlnb.objectives.common import LossModule
from rlnb.objectives.ddpg import DDPGLoss
from rlnb.objectives.dqn import DQNLoss
from rlnb.objectives.iql import DiscreteIQLLoss, IQLLoss
from rlnb.objectives.multiagent import QMixerLoss
from rlnb.objectives.ppo import ClipPPOLoss, KLPENPPOLoss, PPOLoss
from rlnb.objectives.reinforce import ReinforceLoss
from rlnb.objectives.sac import DiscreteSACLoss, SACLoss
from rlnb.objectives.td3 import TD3Loss
from rlnb.objectives.utils import (
    HardUpdate,
    SoftUpdate,
    TargetNetUpdater,
    ValueEstimators,
    default_value_kwargs,
    distance_loss,
    group_optimizers,
    hold_out_net,
    hold_out_params,
)

__all__ = [
    "A2CLoss",
    "ClipPPOLoss",
    "DDPGLoss",
    "DQNLoss",
    "DiscreteIQLLoss",
    "DiscreteSACLoss",
    "HardUpdate",
    "IQLLoss",
    "KLPENPPOLoss",
    "LossModule",
    "PPOLoss",
    "QMixerLoss",
    "ReinforceLoss",
    "SACLoss",
    "SoftUpdate",
    "TD3Loss",
    "TargetNetUpdater",
    "ValueEstimators",
    "default_value_kwargs",
    "distance_loss",
    "group_optimizers",
    "hold_out_net",
    "hold_out_params",
]
