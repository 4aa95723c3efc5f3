"""VC1Transform: images as vectors of VC-1, a vision transformer trained on videos and pictures."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

import torch

from rlnb.envs.transforms.embedding import PixelEmbedding, legal_model
from rlnb.envs.transforms.networks import VITS, Checkpoint, LazyNetwork, vit
from rlnb.envs.transforms.resize import CenterCrop, resized
from rlnb.envs.transforms.transform import Keys, key_list

_URL = "https://dl.fbaipublicfiles.com/eai-vc/"
_RESIZED, _CROPPED = 256, 224


def _checkpoint(name: str, published: bool) -> Checkpoint:
    # Of the autoencoder that was trained, the encoder is what counts.
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
    """Puts vectors of VC-1 (Majumdar et al. 2023, https://arxiv.org/abs/2303.18240) in place of images.

    Images are scaled to 256 rows or columns, whichever there are fewer of, and cut to the 224 by 224 in their middle.
    Nothing is loaded or computed before the first image comes. The network stays as it is, without gradients.

    Args:
        in_keys: the images, of shape ``[..., H, W, 3]`` or ``[..., 3, H, W]``.
        out_keys: of the vectors, one for each image.
        model_name: "base" or "large" (also "vc1_vitb", "vc1_vitl"), whose vectors have 768 and 1024 entries; "small",
            with 384, for weights of your own; or "default", a tiny network with 64, to try things out.
        del_keys: remove the images.
        download: fetch the weights of VC-1, once. Default: if the package ``vc_models`` is installed, which TorchRL
            takes them from, and ``download_path`` is not given.
        download_path: a file of weights, or the folder in which fetched weights are kept. Default: that of torch.hub.

    Raises:
        ImportError: without ``download``, ``download_path`` and the package ``vc_models``.
        NotImplementedError: if there is no such model.
        ValueError: if the keys do not pair up.

    Example:
        >>> from tensordict import TensorDict
        >>> import tempfile
        >>> from rlnb.envs.transforms.networks import vit
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save(vit("tiny").state_dict(), f"{folder}/untrained.pth")
        ...     vc1 = VC1Transform(["pixels"], ["vc1_vec"], download_path=f"{folder}/untrained.pth")
        ...     vc1(TensorDict({"pixels": torch.zeros(30, 40, 3, dtype=torch.uint8)}))["vc1_vec"].shape
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
            # Whoever has the package expects the published weights.
            download = importlib.util.find_spec("vc_models") is not None
        if not download and download_path is None:
            raise ImportError(
                "VC1Transform takes its weights from the package vc_models, which is not installed. Fix: download=True "
                "fetches them without the package, and download_path='file' reads weights of your own; or install "
                "vc_models from https://github.com/facebookresearch/eai-vc."
            )
        super().__init__(
            LazyNetwork(partial(vit, size), checkpoint, download, download_path),
            VITS[size].width,
            in_keys,
            key_list(out_keys, "out_keys"),
            stack_images=False,
            del_keys=del_keys,
        )
        self.model_name = model_name
        self._crop = (CenterCrop(_CROPPED),)

    def _scaled(self, images: torch.Tensor) -> torch.Tensor:
        rows, columns = images.shape[-2:]
        least = min(rows, columns)
        rows, columns = _RESIZED * rows // least, _RESIZED * columns // least
        # Cubic curves overshoot; pixels stay between 0 and 1, as they were when the network was trained.
        images = resized(images, rows, columns, "bicubic").clamp(0, 1)
        return self._crop[0]._apply_transform(images)

    def __repr__(self) -> str:
        weights = "random" if self.network.is_random else "published"
        return (
            f"VC1Transform(model_name={self.model_name!r}, in_keys={self.in_keys}, out_keys={self.out_keys}, "
            f"weights={weights})"
        )


__all__ = ["VC1Transform"]
