"""The transforms and decorators under the dotted path that TorchRL's tutorials import them from."""

from rlnb.envs.transforms import *  # noqa: F403  # a list of names, and each is in __all__ of the package
from rlnb.envs.transforms import __all__ as _names
from rlnb.envs.transforms.transform import _apply_to_composite, _apply_to_composite_inv, _CallableTransform

#: The keys of images in TorchRL's transforms.
IMAGE_KEYS = ["pixels"]
#: TorchRL's message for transforms that work in an env only; format it with the class.
FORWARD_NOT_IMPLEMENTED = "class {} cannot be executed without a parent environment."

__all__ = [
    *_names,
    "FORWARD_NOT_IMPLEMENTED",
    "IMAGE_KEYS",
    "_CallableTransform",
    "_apply_to_composite",
    "_apply_to_composite_inv",
]
