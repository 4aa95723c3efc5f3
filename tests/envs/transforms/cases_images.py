"""The transforms of images, frames and shapes, for the cross product; and envs with images for them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache

import torch
from tensordict import TensorDict

from rlnb.data import Bounded, Composite
from rlnb.envs import (
    CatFrames,
    CenterCrop,
    Compose,
    FlattenObservation,
    GrayScale,
    ObservationTransform,
    PermuteTransform,
    R3MTransform,
    Resize,
    SqueezeTransform,
    TimeMaxPool,
    ToTensorImage,
    UnsqueezeTransform,
    VC1Transform,
)
from rlnb.envs.transforms.pretrained import make_vit
from tests.envs.transforms.cases import Agents, Case, Numbers, data

H, W = 12, 10


@cache
def untrained():
    """A file of random weights for the tiny network of VC1Transform, the same in every process that makes one."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.save(make_vit("tiny").state_dict(), f"{folder}/vc1.pth")
    return f"{folder}/vc1.pth"


def picture(position):
    """Draw a number as an image ``[..., H, W, 3]``: each of its decimals colours some of the pixels."""
    shape = torch.arange(H * W * 3).reshape(H, W, 3) + 1
    return (position[..., :1, None, None] * shape * 37 % 256).to(torch.uint8)


class Pictures(Numbers):
    """:class:`Numbers` with an image."""

    def __init__(self, batch_size=()):
        super().__init__(batch_size)
        batch = self.batch_size
        image = Bounded(0, 255, shape=(*batch, H, W, 3), dtype=torch.uint8)
        spec = self.observation_spec.clone()
        self.observation_spec = spec.set("pixels", image)

    def _observe(self):
        return {**super()._observe(), "pixels": picture(self.position)}


class AgentPictures(Agents):
    """:class:`Agents`, each of which sees an image of its own."""

    def __init__(self, batch_size=()):
        super().__init__(batch_size)
        batch = self.batch_size
        image = Bounded(0, 255, shape=(*batch, 3, H, W, 3), dtype=torch.uint8)
        spec = self.observation_spec.clone()
        self.observation_spec = spec.set("agents", Composite({"pixels": image}, shape=batch))

    def _pixels(self):
        return picture(self.position.unsqueeze(-2) + torch.arange(3).unsqueeze(-1))

    def _observe(self):
        return {**super()._observe(), "agents": TensorDict({"pixels": self._pixels()}, self.batch_size)}

    def _step(self, tensordict):
        result = super()._step(tensordict)
        result["agents", "pixels"] = self._pixels()
        return result


def pixels(env):
    """The key of an env's image."""
    return next(key for key in env.observation_keys if "pixels" in key)


def pictures(batch_size):
    """Plain data with an image besides."""
    td = data(batch_size)
    td["pixels"] = torch.randint(0, 256, (*batch_size, H, W, 3), dtype=torch.uint8)
    return td


class Brighter(ObservationTransform):
    """An observation transform that says no more than what it does."""

    def _apply_transform(self, value):
        return value.clamp(max=250) + 5

    def _apply_to_spec(self, spec):
        return spec


def unended(batch_size):
    """Plain data that does not say where episodes end, which frames cannot do without."""
    return pictures(batch_size).exclude(("next", "done"))


def case(name, make, alone, plain=pictures, envs=(Pictures, AgentPictures)):
    """A case on envs with images."""
    return Case(name, make, alone, envs, plain=plain)


class OnImage:
    """Makes ``Compose(ToTensorImage, transform)`` for the key of an env."""

    def __init__(self, *make):
        self.make = make

    def __call__(self, env):
        key = pixels(env)
        return Compose(ToTensorImage(in_keys=[key]), *(make(key) for make in self.make))


PIXELS = ({"pixels"}, set())

CASES = [
    case("ObservationTransform", lambda env: Brighter([pixels(env)]), PIXELS),
    case("ToTensorImage", lambda env: ToTensorImage(in_keys=[pixels(env)]), PIXELS),
    case(
        "ToTensorImage(all)",
        lambda env: ToTensorImage(False, True, torch.float64, in_keys=[pixels(env)], out_keys=["raw"]),
        ({"raw"}, set()),
    ),
    case("GrayScale", OnImage(lambda key: GrayScale([key])), PIXELS),
    case("Resize", OnImage(lambda key: Resize(5, 7, in_keys=[key])), PIXELS),
    case(
        "Resize(larger)", OnImage(lambda key: Resize(20, in_keys=[key], out_keys=["big"])), ({"pixels", "big"}, set())
    ),
    case("Resize(bicubic)", OnImage(lambda key: Resize(5, 7, "bicubic", [key])), PIXELS),
    case("Resize(nearest)", OnImage(lambda key: Resize(5, 7, "nearest", [key])), PIXELS),
    case("CenterCrop", OnImage(lambda key: CenterCrop(5, 14, in_keys=[key])), PIXELS),
    case("CatFrames", lambda env: CatFrames(3, -1, in_keys=[pixels(env)]), KeyError, unended),
    case(
        "CatFrames(constant)",
        lambda env: CatFrames(3, -1, ["position", "velocity"], ["p3", "v3"], padding="constant", padding_value=200),
        KeyError,
        unended,
    ),
    case("TimeMaxPool", lambda env: TimeMaxPool([pixels(env), "velocity"], T=2), KeyError, unended),
    case("FlattenObservation", lambda env: FlattenObservation(-3, -1, [pixels(env)]), PIXELS),
    case("UnsqueezeTransform", lambda env: UnsqueezeTransform(-2, in_keys=["position"]), ({"position"}, set())),
    case(
        "UnsqueezeTransform(positive)",
        lambda env: UnsqueezeTransform(0, allow_positive_dim=True, in_keys=["position"], out_keys=["row"]),
        ({"row"}, set()),
    ),
    case(
        "UnsqueezeTransform(inverse)", lambda env: UnsqueezeTransform(-1, in_keys_inv=env.action_keys), (set(), set())
    ),
    case("SqueezeTransform", lambda env: SqueezeTransform(-1, in_keys=["velocity"]), ({"velocity"}, set())),
    case("PermuteTransform", lambda env: PermuteTransform([-1, -3, -2], [pixels(env)]), PIXELS),
    case(
        "R3MTransform",
        lambda env: R3MTransform("resnet18", in_keys=[pixels(env)], size=32, tensor_pixels_keys=["seen"]),
        ({"r3m_vec", "seen"}, {"pixels"}),
        envs=(Pictures,),
    ),
    case(
        "VC1Transform",
        lambda env: VC1Transform([pixels(env)], ["vc1_vec"], download_path=untrained()),
        ({"vc1_vec"}, {"pixels"}),
        envs=(Pictures,),
    ),
]
