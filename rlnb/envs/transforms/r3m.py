"""``R3MTransform``, image embeddings of R3M, a ResNet trained on videos of human activities."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rlnb.envs.transforms.embedding import PixelEmbedding, legal_model, square
from rlnb.envs.transforms.pretrained import RESNET_FEATURES, Checkpoint, LazyNetwork, make_resnet, require_package
from rlnb.envs.transforms.transform import Keys

_OWN = {"resnet18": "r3m_18.pt", "resnet34": "r3m_34.pt", "resnet50": "r3m_50.pt"}
_OWN_URL = "https://pytorch.s3.amazonaws.com/models/rl/r3m/"
# ImageNet classifiers of the same architectures, by torchvision's names for them.
_IMAGENET = {
    "IMAGENET1K_V1": {
        "resnet18": "resnet18-f37072fd.pth",
        "resnet34": "resnet34-b627a593.pth",
        "resnet50": "resnet50-0676ba61.pth",
    },
    "IMAGENET1K_V2": {"resnet50": "resnet50-11ad3fa6.pth"},
}
_IMAGENET_URL = "https://download.pytorch.org/models/"


class R3MTransform(PixelEmbedding):
    """Replaces images by embeddings of R3M (Nair et al. 2022, https://arxiv.org/abs/2203.12601).

    Requires the extra ``rlnb[pretrained]``. The network is made and its weights are loaded at the first image. It is
    frozen: it computes no gradients (unless ``requires_grad``) and keeps its batch statistics.

    Args:
        model_name: "resnet18", "resnet34" or "resnet50", with 512, 512 and 2048 features.
        in_keys: the images, of shape ``[..., H, W, 3]`` or ``[..., 3, H, W]``. They are removed. Default: "pixels".
        out_keys: the embeddings, of shape ``[..., features]``. Default: "r3m_vec", or "r3m_vec_0", "r3m_vec_1" and so
            on without ``stack_images``.
        size: rows and columns that images are scaled to.
        stack_images: whether to concatenate the embeddings of all ``in_keys`` in one entry.
        download: ``True`` downloads the weights of R3M, once; "IMAGENET1K_V1" (or "IMAGENET1K_V2" for "resnet50")
            those that torchvision publishes for the same network. ``False``, without ``download_path``: random weights,
            always the same.
        download_path: a file of weights, or the folder for downloaded weights. Default: the cache of torch.hub.
        tensor_pixels_keys: entries that keep the original images. Default: they are not kept.
        requires_grad: whether the network computes gradients.

    Raises:
        ImportError: If torchvision is not installed.
        NotImplementedError: If the model is unknown.
        ValueError: If the keys do not pair up, or the weights are unknown.

    Example:
        >>> import torch  # doctest: +SKIP
        >>> from tensordict import TensorDict  # doctest: +SKIP
        >>> r3m = R3MTransform("resnet18", in_keys=["pixels"], size=64)  # doctest: +SKIP
        >>> images = torch.zeros(2, 30, 40, 3, dtype=torch.uint8)  # doctest: +SKIP
        >>> r3m(TensorDict({"pixels": images}, [2]))["r3m_vec"].shape  # doctest: +SKIP
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
        n_features = legal_model("R3MTransform", model_name, RESNET_FEATURES)
        require_package("torchvision.models", "R3MTransform")
        checkpoint = _checkpoint(model_name, download)
        super().__init__(
            LazyNetwork(partial(make_resnet, model_name), checkpoint, bool(download), download_path, requires_grad),
            n_features,
            square("R3MTransform", size),
            in_keys,
            out_keys,
            vector_key="r3m_vec",
            stack_images=stack_images,
            tensor_pixels_keys=tensor_pixels_keys,
        )
        self.model_name, self.size = model_name, size

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(model_name={self.model_name!r}, in_keys={self.in_keys}, out_keys={self.out_keys}, "
            f"size={self.size}, weights={self._weights})"
        )


def _checkpoint(model_name: str, download: Any) -> Checkpoint:
    if isinstance(download, bool):
        name, url = _OWN[model_name], _OWN_URL
    else:
        name, url = _IMAGENET.get(getattr(download, "name", download), {}).get(model_name, ""), _IMAGENET_URL
        if not name:
            legal = ", ".join(f"{weights!r}" for weights, files in _IMAGENET.items() if model_name in files)
            raise ValueError(
                f"R3MTransform has no weights {download!r} for {model_name}. Legal for download: True (those of R3M), "
                f"{legal} (those of torchvision), False."
            )
    return Checkpoint(
        name,
        url + name,
        wrappers=("r3m", "state_dict", "model"),
        prefixes=("module.", "convnet."),
        ignored=("fc.", "lang_enc.", "lang_rew."),
    )


__all__ = ["R3MTransform"]
