"""VD4RLExperienceReplay: the datasets of V-D4RL, pictures of the DeepMind Control Suite in npz or HDF5 files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.datasets.archives import load_npz
from rlnb.data.datasets.common import BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import CHUNK_BYTES, ted_steps
from rlnb.data.datasets.download import RemoteFile, download
from rlnb.data.datasets.hdf5 import H5Source, cut_rows
from rlnb.data.datasets.hub import Folders
from rlnb.data.ted.keys import nested_dict

_FOLDERS = Folders("conglu/vd4rl", ("*.npz", "*.hdf5"))
_PICTURES = ("pixels", ("next", "pixels"))
#: A file of an episode that states more is not of V-D4RL: 501 pictures of 64 x 64 have 6 MB.
_MAX_FILE_BYTES = 1 << 30


class VD4RLExperienceReplay(BaseDatasetExperienceReplay):
    """The datasets of V-D4RL: tasks of the DeepMind Control Suite, seen by a camera.

    Those of 64 pixels are npz files, one for each episode; those of 84 pixels are HDF5 files of many episodes. Their
    rows are those of ``dm_control``: a row has the action that led to it, and its reward; the first row of an episode
    has neither. An episode of n rows has n - 1 steps. Pictures are "pixels", stored as bytes ``[height, width, 3]``;
    what else was observed is under "observation". "is_init" marks the first step of each episode.

    Args:
        dataset_id: such as ``"main/walker_walk/random/64px"``, a folder on the hub.
        batch_size: number of steps in a sample, or of trajectories.
        totensor: whether samples have pictures ``[3, height, width]`` of numbers from 0 to 1, unless a transform
            that takes images with the channels last is given, as ``ToTensorImage`` does: one whose attribute
            ``takes_channels_last`` is True. With False, they are as they are stored.
        image_size: size of the pictures in samples: that of a square, or height and width. Default: as stored.
        num_workers: number of files to download at once. 0: four.
        **kwargs: as for :class:`BaseDatasetExperienceReplay`.

    Attributes:
        available_datasets: the names on the hub, which is asked when this is read.

    Raises:
        ImportError: If h5py is needed and not installed.
        ValueError: If there is no such dataset, or a file is damaged or of another kind.

    Example:
        >>> data = VD4RLExperienceReplay("main/walker_walk/random/64px", batch_size=32, image_size=50)  # doctest: +SKIP
        >>> data.sample()["pixels"].shape  # doctest: +SKIP
        torch.Size([32, 3, 50, 50])
    """

    library = "vd4rl"
    available_datasets = _FOLDERS

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        totensor: bool = True,
        image_size: int | Sequence[int] | None = None,
        num_workers: int = 0,
        transform: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if num_workers < 0:
            raise ValueError(f"num_workers must be at least 0, got {num_workers}.")
        self.num_workers = num_workers
        super().__init__(dataset_id, batch_size, transform=transform, **kwargs)
        convert = totensor and not _takes_channels_last(transform)
        if convert or image_size is not None:
            size = (image_size, image_size) if isinstance(image_size, int) else image_size
            # The first one: a transform that is given sees pictures as those of an env.
            self.insert_transform(0, _Pictures(convert, None if size is None else tuple(size)))

    def _known_names(self) -> None:
        # remote_files asks for them.
        return None

    def remote_files(self) -> list[RemoteFile]:
        """List the files on the hub; see the base class."""
        return _FOLDERS.files(str(self.dataset_id))

    def _download(self) -> None:
        download(self.remote_files(), self._downloads, parallel=self.num_workers or 4)

    def read(self, folder: Path) -> Iterator[TensorDictBase]:
        """Read the files; see the base class."""
        for file in sorted(path for path in folder.rglob("*") if path.suffix in (".npz", ".hdf5")):
            yield from _npz_episode(file) if file.suffix == ".npz" else _hdf5_episodes(file)


class _Pictures:
    """The transform of samples: bytes ``[..., height, width, 3]`` to numbers ``[..., 3, height, width]``, resized."""

    def __init__(self, convert: bool, size: tuple[int, ...] | None) -> None:
        self.convert, self.size = convert, size

    def __repr__(self) -> str:
        return f"Pictures(totensor={self.convert}, image_size={self.size})"

    def __call__(self, data: TensorDictBase) -> TensorDictBase:
        for key in _PICTURES:
            pixels = data.get(key, None)
            if pixels is None:
                continue
            if self.convert and pixels.dtype == torch.uint8:
                pixels = pixels.movedim(-1, -3).to(torch.float32).div_(255)
            if self.size is not None:
                pixels = _resized(pixels, self.size, channels_first=self.convert)
            data = data.set(key, pixels)
        return data


def _resized(pixels: torch.Tensor, size: tuple[int, ...], channels_first: bool) -> torch.Tensor:
    moved = pixels if channels_first else pixels.movedim(-1, -3)
    flat = moved.reshape(-1, *moved.shape[-3:])
    resized = torch.nn.functional.interpolate(flat.float(), size, mode="bilinear", align_corners=False)
    if not pixels.is_floating_point():
        resized = resized.round().to(pixels.dtype)
    resized = resized.reshape(*moved.shape[:-2], *size)
    return resized if channels_first else resized.movedim(-3, -1)


def _takes_channels_last(transform: Any) -> bool:
    """Whether a transform, or one of several, says that it takes pictures as they are stored."""
    if getattr(transform, "takes_channels_last", False):
        return True
    return any(map(_takes_channels_last, getattr(transform, "transforms", ())))


def _steps(rows: Mapping[str, torch.Tensor], last: torch.Tensor) -> TensorDictBase:
    """Build the steps between rows: ``last`` is True where a row ends an episode, so that no step begins there."""
    begins = ~last[:-1]
    before: dict[tuple[str, ...], torch.Tensor] = {}
    after: dict[tuple[str, ...], torch.Tensor] = {}
    for name, values in rows.items():
        if name not in ("action", "reward", "is_terminal", "is_first"):
            key = (name,) if name == "pixels" else ("observation", name)
            before[key], after[key] = values[:-1][begins], values[1:][begins]
    before["action",] = rows["action"][1:][begins]
    before["is_init",] = rows["is_first"][:-1][begins]
    terminated = rows["is_terminal"][1:][begins]
    truncated = last[1:][begins] & ~terminated
    root, following = nested_dict(before), nested_dict(after)
    reward = rows["reward"][1:][begins]
    return ted_steps(root, following, reward=reward, terminated=terminated, truncated=truncated)


def _npz_episode(file: Path) -> Iterator[TensorDictBase]:
    """Read an episode of DreamerV2's format."""
    arrays = load_npz(file, max_bytes=_MAX_FILE_BYTES)
    fix = "Fix: delete the file, and make the dataset again."
    if wrong := [name for name, array in arrays.items() if array.dtype.kind not in "biuf" or not array.ndim]:
        kind, shape = arrays[wrong[0]].dtype, list(arrays[wrong[0]].shape)
        raise ValueError(
            f"The entry {wrong[0]!r} of the file {os.fspath(file)!r} holds {kind} of shape {shape}, not a number or "
            f"more for each row. {fix}"
        )
    rows = {name: torch.from_numpy(array.astype(array.dtype.newbyteorder("="))) for name, array in arrays.items()}
    if missing := {"image", "action", "reward"} - rows.keys():
        raise ValueError(
            f"The file {os.fspath(file)!r} has no entry {min(missing)!r}; it has "
            f"{', '.join(map(repr, rows)) or 'nothing'}. Fix: look whether it is of V-D4RL."
        )
    count = len(rows["reward"])
    if wrong := [name for name, values in rows.items() if values.shape[:1] != (count,)]:
        raise ValueError(
            f"The entry {wrong[0]!r} of the file {os.fspath(file)!r} has not {count} rows, as the others. {fix}"
        )
    discount = rows.pop("discount", torch.ones(count))
    rows.setdefault("is_terminal", discount == 0)
    rows["is_terminal"] = rows["is_terminal"].bool()
    rows["pixels"] = rows.pop("image")
    rows.pop("is_last", None)
    rows["is_first"] = torch.arange(count) == 0
    last = torch.arange(count) == count - 1
    size = max(CHUNK_BYTES // max(rows["pixels"][:1].nbytes, 1), 1)
    for start in range(0, count - 1, size):
        part = slice(start, start + size + 1)
        yield _steps({name: values[part] for name, values in rows.items()}, last[part])


def _hdf5_episodes(file: Path) -> Iterator[TensorDictBase]:
    """Read a file of DrQ-v2's format: episodes in a row, whose rows say whether they are first, middle or last."""
    with H5Source(file, "VD4RLExperienceReplay needs") as source:
        needed = ("observation", "action", "reward", "discount", "step_type")
        columns = source.columns(required=needed)
        count = len(columns["reward",])
        columns = {path: each for path, each in columns.items() if path[0] in needed}
        source.same_rows(columns, count)
        for start, stop in cut_rows(columns, count - 1):
            rows = {path[0]: source.read(each, start, stop + 1) for path, each in columns.items()}
            pixels, kind = rows.pop("observation"), rows.pop("step_type")
            # Stored as those of the npz files.
            rows["pixels"] = pixels.movedim(-3, -1).contiguous()
            rows["is_terminal"], rows["is_first"] = rows.pop("discount") == 0, kind == 0
            last = kind == 2
            # The row before a first one is a last one, too, and so is that at the end of the file.
            following = source.read(columns["step_type",], start + 1, stop + 2)
            last[: len(following)] |= following == 0
            last[len(following) :] = True
            yield _steps(rows, last)
