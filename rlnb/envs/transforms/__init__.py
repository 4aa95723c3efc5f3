"""Transforms of the data that environments return and take, and that replay buffers store and sample."""

from rlnb.envs.transforms.action_mask import ActionMask
from rlnb.envs.transforms.action_projection import DiscreteActionProjection
from rlnb.envs.transforms.auto_reset import AutoResetEnv, AutoResetTransform
from rlnb.envs.transforms.batch_size import BatchSizeTransform
from rlnb.envs.transforms.burn_in import BurnInTransform
from rlnb.envs.transforms.cat_frames import CatFrames
from rlnb.envs.transforms.cat_tensors import CatTensors
from rlnb.envs.transforms.clip import ClipTransform, SignTransform
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.device import DeviceCastTransform, PinMemoryTransform
from rlnb.envs.transforms.dtype import DoubleToFloat, DTypeCastTransform
from rlnb.envs.transforms.end_of_life import EndOfLifeTransform
from rlnb.envs.transforms.finite import FiniteTensorDictCheck
from rlnb.envs.transforms.frame_skip import FrameSkipTransform, NoopResetEnv
from rlnb.envs.transforms.images import CenterCrop, GrayScale, Resize, ToTensorImage
from rlnb.envs.transforms.init_tracker import InitTracker
from rlnb.envs.transforms.kl_reward import KLRewardTransform
from rlnb.envs.transforms.observation import ObservationTransform
from rlnb.envs.transforms.observation_norm import ObservationNorm
from rlnb.envs.transforms.primer import TensorDictPrimer, gSDENoise
from rlnb.envs.transforms.r3m import R3MTransform
from rlnb.envs.transforms.random_crop import RandomCropTensorDict
from rlnb.envs.transforms.rb_transforms import MultiStepTransform, Reward2GoTransform
from rlnb.envs.transforms.rename import RenameTransform
from rlnb.envs.transforms.reward_sum import RewardSum, TargetReturn
from rlnb.envs.transforms.rewards import BinarizeReward, RewardClipping, RewardScaling
from rlnb.envs.transforms.select import ExcludeTransform, RemoveEmptySpecs, SelectTransform
from rlnb.envs.transforms.shapes import FlattenObservation, PermuteTransform, SqueezeTransform, UnsqueezeTransform
from rlnb.envs.transforms.step_counter import StepCounter
from rlnb.envs.transforms.time_max_pool import TimeMaxPool
from rlnb.envs.transforms.transform import Transform
from rlnb.envs.transforms.transformed_env import TransformedEnv
from rlnb.envs.transforms.vc1 import VC1Transform
from rlnb.envs.transforms.vec_gym import VecGymEnvTransform
from rlnb.envs.transforms.vec_norm import VecNorm
from rlnb.envs.transforms.vip import VIPRewardTransform, VIPTransform

__all__ = [
    "ActionMask", "AutoResetEnv", "AutoResetTransform", "BatchSizeTransform", "BinarizeReward", "BurnInTransform",
    "CatFrames", "CatTensors", "CenterCrop", "ClipTransform", "Compose", "DTypeCastTransform",
    "DeviceCastTransform", "DiscreteActionProjection", "DoubleToFloat", "EndOfLifeTransform", "ExcludeTransform",
    "FiniteTensorDictCheck", "FlattenObservation", "FrameSkipTransform", "GrayScale", "InitTracker",
    "KLRewardTransform", "MultiStepTransform", "NoopResetEnv", "ObservationNorm", "ObservationTransform",
    "PermuteTransform", "PinMemoryTransform", "R3MTransform", "RandomCropTensorDict", "RemoveEmptySpecs",
    "RenameTransform", "Resize", "Reward2GoTransform", "RewardClipping", "RewardScaling", "RewardSum",
    "SelectTransform", "SignTransform", "SqueezeTransform", "StepCounter", "TargetReturn", "TensorDictPrimer",
    "TimeMaxPool", "ToTensorImage", "Transform", "TransformedEnv", "UnsqueezeTransform", "VC1Transform",
    "VIPRewardTransform", "VIPTransform", "VecGymEnvTransform", "VecNorm", "gSDENoise",
]  # fmt: skip
