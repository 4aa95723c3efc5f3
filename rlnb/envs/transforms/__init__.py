"""Transforms: what changes the data of an env on its way out and in."""

from rlnb.envs.transforms.action_mask import ActionMask
from rlnb.envs.transforms.cat_tensors import CatTensors
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.dtype import DoubleToFloat, DTypeCastTransform
from rlnb.envs.transforms.init_tracker import InitTracker
from rlnb.envs.transforms.primer import TensorDictPrimer
from rlnb.envs.transforms.rename import RenameTransform
from rlnb.envs.transforms.reward_sum import RewardSum
from rlnb.envs.transforms.select import ExcludeTransform, RemoveEmptySpecs, SelectTransform
from rlnb.envs.transforms.step_counter import StepCounter
from rlnb.envs.transforms.transform import Transform
from rlnb.envs.transforms.transformed_env import TransformedEnv

__all__ = [
    "ActionMask", "CatTensors", "Compose", "DTypeCastTransform", "DoubleToFloat", "ExcludeTransform", "InitTracker",
    "RemoveEmptySpecs", "RenameTransform", "RewardSum", "SelectTransform", "StepCounter", "TensorDictPrimer",
    "Transform", "TransformedEnv",
]  # fmt: skip
