"""R3MTransform: images as vectors of R3M, a ResNet trained on videos of people at work."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rlnb.envs.transforms.embedding import ResNetEmbedding
from rlnb.envs.transforms.networks import RESNETS, Checkpoint, resnet
from rlnb.envs.transforms.transform import Keys

_OWN = {"resnet18": "r3m_18.pt", "resnet34": "r3m_34.pt", "resnet50": "r3m_50.pt"}
_OWN_URL = "https://pytorch.s3.amazonaws.com/models/rl/r3m/"
# Of the same networks trained to name what is in a picture, by the names that torchvision has for them.
_IMAGENET = {
    "IMAGENET1K_V1": {
        "resnet18": "resnet18-f37072fd.pth",
        "resnet34": "resnet34-b627a593.pth",
        "resnet50": "resnet50-0676ba61.pth",
    },
    "IMAGENET1K_V2": {"resnet50": "resnet50-11ad3fa6.pth"},
}
_IMAGENET_URL = "https://download.pytorch.org/models/"


class R3MTransform(ResNetEmbedding):
    """Puts vectors of R3M (Nair et al. 2022, https://arxiv.org/abs/2203.12601) in place of images.

    Nothing is loaded or computed before the first image comes. The network stays as it is: no gradients, no batch
    statistics.

    Args:
        model_name: "resnet18", "resnet34" or "resnet50", whose vectors have 512, 512 and 2048 entries.
        in_keys: the images, of shape ``[..., H, W, 3]`` or ``[..., 3, H, W]``. They are removed.
        out_keys: of the vectors. Default: "r3m_vec", or "r3m_vec_0", "r3m_vec_1" and so on without ``stack_images``.
        size: the rows and columns that images are scaled to.
        stack_images: put the vectors of all ``in_keys`` into one entry, one after the other.
        download: True fetches the weights of R3M, once; "IMAGENET1K_V1" (or "IMAGENET1K_V2" for "resnet50") those that
            torchvision has for the same network. False, without ``download_path``: random weights, always the same.
        download_path: a file of weights, or the folder in which fetched weights are kept. Default: that of torch.hub.
        tensor_pixels_keys: where the images are kept, as they came. Default: nowhere.
        requires_grad: whether gradients flow through the network.

    Raises:
        NotImplementedError: if there is no such model.
        ValueError: if the keys do not pair up, or there are no such weights.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> r3m = R3MTransform("resnet18", in_keys=["pixels"], size=64)
        >>> r3m(TensorDict({"pixels": torch.zeros(2, 30, 40, 3, dtype=torch.uint8)}, [2]))["r3m_vec"].shape
        torch.Size([2, 512])
    """

    def __init__(
        self,
        model_name: str,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        size: int = 244,
        stack_images: bool = True,
        download: bool | str | Any = False,
        download_path: str | Path | None = None,
        tensor_pixels_keys: Keys | None = None,
        requires_grad: bool = False,
    ) -> None:
        models = {name: (partial(resnet, name), RESNETS[name][2], _checkpoint(name, download)) for name in RESNETS}
        super().__init__(
            model_name, models, "r3m_vec", in_keys, out_keys, size, stack_images, bool(download), download_path,
            tensor_pixels_keys, requires_grad,
        )  # fmt: skip
        if self.network.checkpoint.name == "":
            raise ValueError(_unknown_weights(model_name, download))


def _checkpoint(model_name: str, download: Any) -> Checkpoint:
    if isinstance(download, bool):
        name, url = _OWN[model_name], _OWN_URL
    else:
        name, url = _IMAGENET.get(getattr(download, "name", download), {}).get(model_name, ""), _IMAGENET_URL
    return Checkpoint(
        name,
        url + name,
        wrappers=("r3m", "state_dict", "model"),
        prefixes=("module.", "convnet."),
        ignored=("fc.", "lang_enc.", "lang_rew."),
    )


def _unknown_weights(model_name: str, download: Any) -> str:
    names = [f"{name!r}" for name, files in _IMAGENET.items() if model_name in files]
    return (
        f"R3MTransform knows no weights {download!r} for {model_name}. Legal for download: True (those of R3M), "
        f"{', '.join(names)} (those of torchvision), False."
    )


__all__ = ["R3MTransform"]
