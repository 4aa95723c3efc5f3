"""Published image networks: architectures from torchvision and timm, and loading of published weights.

The packages come with the extra ``rlnb[pretrained]``. They are imported when a transform is made, so that a missing
package is reported there and not at the first image.
"""

from __future__ import annotations

import importlib
import pickle
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

#: The number of features of each ResNet.
RESNET_FEATURES = {"resnet18": 512, "resnet34": 512, "resnet50": 2048}
#: The number of features of each vision transformer, its name in timm, and the sizes that differ from timm's. "tiny" is
#: small enough for experiments on a laptop.
VITS: dict[str, tuple[int, str, dict[str, int]]] = {
    "tiny": (64, "vit_tiny_patch16_224", {"embed_dim": 64, "depth": 2, "num_heads": 2}),
    "small": (384, "vit_small_patch16_224", {}),
    "base": (768, "vit_base_patch16_224", {}),
    "large": (1024, "vit_large_patch16_224", {}),
}
#: How many names of weights an error lists.
_SHOWN = 4


def require_package(module: str, user: str) -> Any:
    """Import a module of an optional package for ``user``, which the error names.

    Raises:
        ImportError: If the package is not installed, or cannot be imported.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (package, module):
            raise
        raise ImportError(
            f"{user} needs the package {package}, which is not installed. Fix: pip install 'rlnb[pretrained]'."
        ) from error
    except Exception as error:  # torchvision raises RuntimeError beside a torch that it was not built for
        raise ImportError(
            f"{user} needs the package {package}, which is installed but cannot be imported: {error}. "
            f"Fix: install the {package} that was built for torch {torch.__version__}."
        ) from error


def make_resnet(name: str, n_out: int | None = None) -> nn.Module:
    """Make a ResNet of torchvision with random weights that maps ``[N, 3, H, W]`` to ``[N, features]``.

    ``n_out`` is the size of a last linear layer in place of the classifier; ``None`` returns the features themselves.
    """
    models = require_package("torchvision.models", "make_resnet")
    network: nn.Module = getattr(models, name)(weights=None)
    network.fc = nn.Identity() if n_out is None else nn.Linear(RESNET_FEATURES[name], n_out)
    return network


def make_vit(name: str) -> nn.Module:
    """Make a vision transformer of timm with random weights: ``[N, 3, 224, 224]`` to class tokens ``[N, features]``."""
    timm = require_package("timm", "make_vit")
    _, model, sizes = VITS[name]
    network: nn.Module = timm.create_model(model, pretrained=False, num_classes=0, **sizes)
    return network


@dataclass(frozen=True)
class Checkpoint:
    """A published file of weights.

    Args:
        name: name of the file, also where it is cached.
        url: where it is published; ``None`` if it is not.
        wrappers: entries of the file that may hold the weights.
        prefixes: prefixes of the names of the network's parameters, which are removed.
        ignored: prefixes, after that, of weights that belong to other parts and are ignored.
    """

    name: str
    url: str | None = None
    wrappers: tuple[str, ...] = ("state_dict", "model")
    prefixes: tuple[str, ...] = ("module.",)
    ignored: tuple[str, ...] = ()


def find_weights(checkpoint: Checkpoint, download: bool, path: str | Path | None) -> Path | None:
    """Find a file of weights, and download it if requested.

    ``path`` is the file, or the folder that holds it or that it is downloaded into (default: the cache of torch.hub).
    Without ``path`` and ``download``, the result is ``None``.

    Raises:
        FileNotFoundError: If it is missing and not downloaded, or not published.
        ConnectionError: If it cannot be downloaded.
    """
    if path is None and not download:
        return None
    place = Path(torch.hub.get_dir()) / "checkpoints" if path is None else Path(path)
    file = place if place.is_file() else place / checkpoint.name
    if file.is_file():
        return file
    if not download:
        what = f"no file {checkpoint.name!r}" if place.is_dir() else "neither a file nor a folder"
        raise FileNotFoundError(
            f"download_path={str(path)!r} must be a file of weights, or a folder with {checkpoint.name!r}, and there "
            f"is {what}. Fix: download=True downloads it into that folder; without download_path, the weights are "
            "random."
        )
    if checkpoint.url is None:
        raise FileNotFoundError(
            f"Weights {checkpoint.name!r} are not published, so download=True cannot find them. "
            "Fix: download_path='file of your own weights'."
        )
    return _download(checkpoint, checkpoint.url, file)


def _download(checkpoint: Checkpoint, url: str, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    # torch.hub's naming scheme: the hash of resnet18-f37072fd.pth begins with f37072fd.
    digest = re.search(r"-([0-9a-f]{8,})\.", checkpoint.name)
    try:
        torch.hub.download_url_to_file(url, str(file), digest[1] if digest else None, progress=False)
    except OSError as error:
        raise ConnectionError(
            f"The weights {checkpoint.name!r} could not be downloaded from {url}: {error}. Fix: check the connection, "
            f"or download the file yourself and pass download_path='.../{checkpoint.name}'."
        ) from error
    return file


def load_weights(network: torch.nn.Module, file: str | Path, checkpoint: Checkpoint) -> None:
    """Load weights into a network, if all of them fit; otherwise leave it unchanged.

    The file is read with ``weights_only=True``, so no code in it runs.

    Raises:
        ValueError: If it is not a file of weights, or weights are missing, unexpected or of another shape.
    """
    name = Path(file).name
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{name!r} is not a file of weights that can be read as plain data: {str(error).splitlines()[0]} "
            "Fix: torch.save(network.state_dict(), file), with nothing but tensors in it."
        ) from error
    found = _unwrapped(loaded, checkpoint, name)
    wanted = network.state_dict()
    missing = [key for key in wanted if key not in found and not key.endswith("num_batches_tracked")]
    unexpected = [key for key in found if key not in wanted]
    shapes = [
        f"{key} {tuple(found[key].shape)} for {tuple(wanted[key].shape)}"
        for key in wanted
        if key in found and found[key].shape != wanted[key].shape
    ]
    problems = {"missing": missing, "unexpected": unexpected, "of another shape": shapes}
    listed = [f"{what}: {_listed(keys)}" for what, keys in problems.items() if keys]
    if listed:
        raise ValueError(
            f"The weights in {name!r} do not fit this {type(network).__name__}: {'; '.join(listed)}. "
            "Fix: use the file of this model, or the model_name of this file."
        )
    network.load_state_dict({**wanted, **found})


def _unwrapped(loaded: Any, checkpoint: Checkpoint, name: str) -> dict[str, torch.Tensor]:
    """Return the weights in the content of a file, by their names in the network."""
    for wrapper in checkpoint.wrappers:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(wrapper), Mapping):
            loaded = loaded[wrapper]
            break
    if not isinstance(loaded, Mapping) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        entries = f" of {_listed(map(str, loaded))}" if isinstance(loaded, Mapping) else ""
        raise ValueError(
            f"{name!r} must hold tensors by name, or such a mapping under one of {list(checkpoint.wrappers)}, and "
            f"holds a {type(loaded).__name__}{entries}. Fix: torch.save(network.state_dict(), file)."
        )
    found = {}
    for key, value in loaded.items():
        for prefix in checkpoint.prefixes:
            key = key.removeprefix(prefix)
        if not key.startswith(checkpoint.ignored):
            found[key] = value
    return found


def _listed(keys: Iterable[str]) -> str:
    keys = list(keys)
    rest = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + rest


class LazyNetwork(nn.Module):
    """A frozen network that is made, and its weights loaded, when it is first called.

    Without a file of weights, the weights are random but always the same, so that copies of an env in several
    processes agree. Torch's global generator is left unchanged. ``download`` and ``path`` are those of
    :func:`find_weights`.

    Example:
        >>> lazy = LazyNetwork(lambda: nn.Linear(2, 3), Checkpoint("linear.pt"))
        >>> lazy.network is None, lazy(torch.zeros(1, 2)).shape, lazy.network
        (True, torch.Size([1, 3]), Linear(in_features=2, out_features=3, bias=True))
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        checkpoint: Checkpoint,
        download: bool = False,
        path: str | Path | None = None,
        requires_grad: bool = False,
    ) -> None:
        super().__init__()
        self.make, self.checkpoint = make, checkpoint
        self.download, self.path, self.requires_grad = download, path, requires_grad
        self.network: nn.Module | None = None

    @property
    def is_random(self) -> bool:
        """Whether the weights are random."""
        return not self.download and self.path is None

    def built(self) -> nn.Module:
        """Return the network; the first call makes it, with the errors of ``find_weights`` and ``load_weights``."""
        if self.network is None:
            file = find_weights(self.checkpoint, self.download, self.path)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                network = self.make()
            if file is not None:
                load_weights(network, file, self.checkpoint)
            self.network = network.eval().requires_grad_(self.requires_grad)
        return self.network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Embed images ``[N, 3, H, W]`` as vectors ``[N, features]``."""
        network = self.built()
        parameter = next(network.parameters())
        if parameter.device != images.device:
            parameter = next(network.to(images.device).parameters())
        with torch.set_grad_enabled(self.requires_grad and torch.is_grad_enabled()):
            result: torch.Tensor = network(images.to(parameter.dtype))
        return result

    def train(self, mode: bool = True) -> LazyNetwork:
        """Stay in evaluation mode: batch statistics must not follow the images of an env."""
        return self
