"""``VC1Transform``, image embeddings of VC-1, a vision transformer trained on videos and pictures."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

import torch

from rlnb.envs.transforms.embedding import PixelEmbedding, legal_model
from rlnb.envs.transforms.images import center_cropped, resized
from rlnb.envs.transforms.pretrained import VITS, Checkpoint, LazyNetwork, make_vit, require_package
from rlnb.envs.transforms.transform import Keys, key_list

_URL = "https://dl.fbaipublicfiles.com/eai-vc/"
_RESIZED, _CROPPED = 256, 224


def _checkpoint(name: str, published: bool) -> Checkpoint:
    # The network was trained as an autoencoder, of which only the encoder is used.
    return Checkpoint(name, _URL + name if published else None, ignored=("mask_token", "decoder", "head."))


_LARGE, _BASE = ("large", _checkpoint("vc1_vitl.pth", True)), ("base", _checkpoint("vc1_vitb.pth", True))
_MODELS = {
    "default": ("tiny", _checkpoint("vc1_default.pth", False)),
    "small": ("small", _checkpoint("vc1_vits.pth", False)),
    "base": _BASE,
    "large": _LARGE,
    "vc1_vitb": _BASE,
    "vc1_vitl": _LARGE,
}


class VC1Transform(PixelEmbedding):
    """Replaces images by embeddings of VC-1 (Majumdar et al. 2023, https://arxiv.org/abs/2303.18240).

    Requires the extra ``rlnb[pretrained]``, or the package ``vc_models``. Images are scaled so that the shorter side
    has 256 pixels, and the center of 224 by 224 is cropped. The network is made and its weights are loaded at the first
    image. It is frozen and computes no gradients.

    Args:
        in_keys: the images, of shape ``[..., H, W, 3]`` or ``[..., 3, H, W]``.
        out_keys: the embeddings, one for each image, of shape ``[..., features]``.
        model_name: "base" or "large" (also "vc1_vitb", "vc1_vitl"), with 768 and 1024 features; "small", with 384, for
            weights of your own; or "default", a tiny network with 64 features, to try things out.
        del_keys: whether to remove the images.
        download: whether to download the weights of VC-1, once. Default: if the package ``vc_models``, from which
            TorchRL takes them, is installed and ``download_path`` is not given.
        download_path: a file of weights, or the folder for downloaded weights. Default: the cache of torch.hub.

    Raises:
        ImportError: If timm is not installed; or without ``download``, ``download_path`` and the package ``vc_models``.
        NotImplementedError: If the model is unknown.

    Example:
        >>> import tempfile  # doctest: +SKIP
        >>> from tensordict import TensorDict  # doctest: +SKIP
        >>> from rlnb.envs.transforms.pretrained import make_vit  # doctest: +SKIP
        >>> file = tempfile.mkdtemp() + "/untrained.pth"  # doctest: +SKIP
        >>> torch.save(make_vit("tiny").state_dict(), file)  # doctest: +SKIP
        >>> vc1 = VC1Transform(["pixels"], ["vc1_vec"], download_path=file)  # doctest: +SKIP
        >>> images = torch.zeros(30, 40, 3, dtype=torch.uint8)  # doctest: +SKIP
        >>> vc1(TensorDict({"pixels": images}))["vc1_vec"].shape  # doctest: +SKIP
        torch.Size([64])
    """

    def __init__(
        self,
        in_keys: Keys,
        out_keys: Keys,
        model_name: str = "default",
        del_keys: bool = True,
        download: bool = False,
        download_path: str | Path | None = None,
    ) -> None:
        size, checkpoint = legal_model("VC1Transform", model_name, _MODELS)
        if not download and download_path is None:
            # Users who installed vc_models expect the published weights.
            download = importlib.util.find_spec("vc_models") is not None
        if not download and download_path is None:
            raise ImportError(
                "VC1Transform takes its weights from the package vc_models, which is not installed. Fix: download=True "
                "downloads them without the package, and download_path='file' reads weights of your own; or install "
                "vc_models from https://github.com/facebookresearch/eai-vc."
            )
        require_package("timm", "VC1Transform")
        super().__init__(
            LazyNetwork(partial(make_vit, size), checkpoint, download, download_path),
            VITS[size][0],
            _center,
            in_keys,
            key_list(out_keys, "out_keys"),
            stack_images=False,
            del_keys=del_keys,
        )
        self.model_name = model_name

    def __repr__(self) -> str:
        return (
            f"VC1Transform(model_name={self.model_name!r}, in_keys={self.in_keys}, out_keys={self.out_keys}, "
            f"weights={self._weights})"
        )


def _center(images: torch.Tensor) -> torch.Tensor:
    """Scale images ``[N, 3, H, W]`` and crop their center, ``[N, 3, 224, 224]``."""
    rows, columns = images.shape[-2:]
    least = min(rows, columns)
    rows, columns = _RESIZED * rows // least, _RESIZED * columns // least
    # Bicubic interpolation overshoots; the network was trained on pixels between 0 and 1.
    return center_cropped(resized(images, rows, columns, "bicubic").clamp(0, 1), _CROPPED, _CROPPED)


__all__ = ["VC1Transform"]
