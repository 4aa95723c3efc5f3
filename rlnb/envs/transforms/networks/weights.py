"""Weights of published networks: where they are, how they come here, and whether they fit."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

_SHOWN = 4


@dataclass(frozen=True)
class Checkpoint:
    """A file of weights that was published.

    Args:
        name: of the file, under which it is kept.
        url: where it is published; None if nowhere.
        wrappers: the entries of the file that may hold the weights.
        prefixes: what may come before the names of the network's parameters.
        ignored: the beginnings of names, without prefix, of weights that belong to other parts.
    """

    name: str
    url: str | None = None
    wrappers: tuple[str, ...] = ("state_dict", "model")
    prefixes: tuple[str, ...] = ("module.",)
    ignored: tuple[str, ...] = ()


def find_weights(checkpoint: Checkpoint, download: bool, path: str | Path | None) -> Path | None:
    """Find the file of weights, and fetch it if that is wanted.

    Args:
        checkpoint: what is looked for.
        download: fetch it if it is not there.
        path: a file of weights; or the folder that ``checkpoint.name`` is, or shall be, in. Default: where torch.hub
            keeps such files, if ``download``, else nowhere.

    Returns:
        The file; None if neither ``download`` nor ``path`` says that there is one.

    Raises:
        FileNotFoundError: if it is not there, and not to be fetched or published nowhere.
        ConnectionError: if it cannot be fetched.
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
            f"download_path={str(path)!r} should be a file of weights, or a folder with {checkpoint.name!r}, and there "
            f"is {what}. Fix: download=True fetches it into that folder; without download_path, the weights are random."
        )
    if checkpoint.url is None:
        raise FileNotFoundError(
            f"Weights {checkpoint.name!r} are published nowhere, so that download=True finds none. "
            "Fix: download_path='file of your own weights'."
        )
    return _fetch(checkpoint, checkpoint.url, file)


def _fetch(checkpoint: Checkpoint, url: str, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Files whose name ends like -f37072fd.pth begin with this hash.
    digest = re.search(r"-([0-9a-f]{8,})\.", checkpoint.name)
    try:
        torch.hub.download_url_to_file(url, str(file), digest[1] if digest else None, progress=False)
    except OSError as error:
        raise ConnectionError(
            f"The weights {checkpoint.name!r} could not be fetched from {url}: {error}. Fix: check the connection, or "
            f"fetch the file yourself and give download_path='.../{checkpoint.name}'."
        ) from error
    return file


def load_weights(network: torch.nn.Module, file: str | Path, checkpoint: Checkpoint) -> None:
    """Load weights into a network, if all of them fit.

    Args:
        network: changed only if everything fits.
        file: written by ``torch.save``. It is read as data: nothing in it is run.
        checkpoint: how weights are named in such files.

    Raises:
        ValueError: if it is no file of weights, or weights are missing, unexpected or of another shape.
    """
    name = Path(file).name
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{name!r} is no file of weights that can be read as plain data: {str(error).splitlines()[0]} "
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
    said = [f"{what}: {_listed(keys)}" for what, keys in problems.items() if keys]
    if said:
        raise ValueError(
            f"The weights in {name!r} do not fit this {type(network).__name__}: {'; '.join(said)}. "
            "Fix: the file of this very model, or the model_name of this file."
        )
    network.load_state_dict({**wanted, **found})


def _unwrapped(loaded: Any, checkpoint: Checkpoint, name: str) -> dict[str, torch.Tensor]:
    """Take the weights out of what a file holds, under the names that the network has for them."""
    for wrapper in checkpoint.wrappers:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(wrapper), Mapping):
            loaded = loaded[wrapper]
            break
    if not isinstance(loaded, Mapping) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise ValueError(
            f"{name!r} should hold tensors by name, or such a mapping under one of {list(checkpoint.wrappers)}, and "
            f"holds a {type(loaded).__name__}{_entries(loaded)}. Fix: torch.save(network.state_dict(), file)."
        )
    found = {}
    for key, value in loaded.items():
        for prefix in checkpoint.prefixes:
            key = key.removeprefix(prefix)
        if not key.startswith(checkpoint.ignored):
            found[key] = value
    return found


def _entries(loaded: Any) -> str:
    return f" of {_listed(map(str, loaded))}" if isinstance(loaded, Mapping) else ""


def _listed(keys: Iterable[str]) -> str:
    keys = list(keys)
    rest = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(keys[:_SHOWN]) + rest


__all__ = ["Checkpoint", "find_weights", "load_weights"]
