"""Transforms of the data that environments return and take, and that replay buffers store and sample."""

from rlnb.envs.transforms.actions import ActionMask, DiscreteActionProjection
from rlnb.envs.transforms.auto_reset import AutoResetEnv, AutoResetTransform, VecGymEnvTransform
from rlnb.envs.transforms.batch_size import BatchSizeTransform
from rlnb.envs.transforms.casts import DeviceCastTransform, DoubleToFloat, DTypeCastTransform, PinMemoryTransform
from rlnb.envs.transforms.clip import ClipTransform, FiniteTensorDictCheck, SignTransform
from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.embeddings import R3MTransform, VC1Transform, VIPRewardTransform, VIPTransform
from rlnb.envs.transforms.frame_skip import FrameSkipTransform, NoopResetEnv
from rlnb.envs.transforms.frames import CatFrames, TimeMaxPool
from rlnb.envs.transforms.images import CenterCrop, GrayScale, Resize, ToTensorImage
from rlnb.envs.transforms.keys import CatTensors, ExcludeTransform, RemoveEmptySpecs, RenameTransform, SelectTransform
from rlnb.envs.transforms.normalization import ObservationNorm, VecNorm
from rlnb.envs.transforms.primer import TensorDictPrimer, gSDENoise
from rlnb.envs.transforms.rb_transforms import (
    BurnInTransform,
    MultiStepTransform,
    RandomCropTensorDict,
    Reward2GoTransform,
)
from rlnb.envs.transforms.rewards import (
    BinarizeReward,
    KLRewardTransform,
    RewardClipping,
    RewardScaling,
    RewardSum,
    TargetReturn,
)
from rlnb.envs.transforms.shapes import FlattenObservation, PermuteTransform, SqueezeTransform, UnsqueezeTransform
from rlnb.envs.transforms.trackers import EndOfLifeTransform, InitTracker, StepCounter
from rlnb.envs.transforms.transform import ObservationTransform, Transform
from rlnb.envs.transforms.transformed_env import TransformedEnv

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
