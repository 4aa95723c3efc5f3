"""Networks that turn images into vectors, and the weights that were published for them."""

from rlnb.envs.transforms.networks.lazy import LazyNetwork
from rlnb.envs.transforms.networks.resnet import RESNETS, ResNet, resnet
from rlnb.envs.transforms.networks.vit import VITS, VisionTransformer, vit
from rlnb.envs.transforms.networks.weights import Checkpoint, find_weights, load_weights

__all__ = [
    "RESNETS", "VITS", "Checkpoint", "LazyNetwork", "ResNet", "VisionTransformer", "find_weights", "load_weights",
    "resnet", "vit",
]  # fmt: skip
