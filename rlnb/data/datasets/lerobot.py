"""LeRobotExperienceReplay: datasets in LeRobot's format, Parquet files of steps beside videos of their cameras."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from tensordict import NonTensorStack, TensorDict, TensorDictBase

from rlnb._libraries import require_library
from rlnb.data.datasets.common import INSTALL, BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import CHUNK_BYTES
from rlnb.data.datasets.download import RemoteFile
from rlnb.data.datasets.hub import list_files
from rlnb.data.datasets.images import decode_image
from rlnb.data.replay_buffers.samplers.slice_sampler import SliceSampler
from rlnb.data.replay_buffers.storages.tensor import TensorStorage
from rlnb.data.ted.keys import DONE, EPISODE, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple

Columns = dict[str, torch.Tensor]
#: Columns of compressed images, which pyarrow holds.
Pictures = dict[str, Any]

_DEFAULT_KEYS: dict[str, NestedKey] = {
    "episode_index": EPISODE,
    "frame_index": "frame",
    "task": "language_instruction",
}
_IMAGES = "observation.images."
#: Columns with a number for each frame, whose shape is stated as [1].
_NUMBERS = ("episode_index", "frame_index", "index", "task_index", "timestamp")
_MAX_TASKS = 1 << 20
_FIX = "Fix: delete the file, and make the dataset again."


def lerobot_columns_to_tensordict(
    columns: Mapping[str, Any], *, key_map: Mapping[str, NestedKey] | None = None
) -> TensorDict:
    """Give the columns of LeRobot the names that programs for TorchRL expect.

    A name with dots becomes a nested key: ``"observation.state"`` is ``("observation", "state")``, a camera
    ``"observation.images.top"`` is ``("observation", "image", "top")``. "episode_index", "frame_index" and "task"
    become "episode", "frame" and "language_instruction".

    Args:
        columns: a tensor ``[N, ...]`` or a list of N texts for each column.
        key_map: other keys for some columns.

    Returns:
        Data of batch size ``[N]``.

    Raises:
        ValueError: If the columns have different lengths, or there are none.

    Example:
        >>> columns = {"observation.state": torch.zeros(2, 7), "task": ["pick", "place"]}
        >>> data = lerobot_columns_to_tensordict(columns)
        >>> data["observation", "state"].shape, data.get("language_instruction").tolist()
        (torch.Size([2, 7]), ['pick', 'place'])
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"The columns must have one length, got {lengths}.")
    (count,) = set(lengths.values())
    data = TensorDict({}, [count])
    for name, column in columns.items():
        value = column if isinstance(column, torch.Tensor) else NonTensorStack(*column)
        if name.startswith("next.") and isinstance(value, torch.Tensor) and value.dim() == 1:
            value = value[:, None]
        data.set(_key_of(name, key_map), value)
    return data


def _key_of(name: str, key_map: Mapping[str, NestedKey] | None) -> NestedKey:
    if key_map and name in key_map:
        return key_map[name]
    if name in _DEFAULT_KEYS:
        return _DEFAULT_KEYS[name]
    if name.startswith(_IMAGES):
        return ("observation", "image", *name.removeprefix(_IMAGES).split("."))
    return as_key(name.split("."))


class LeRobotExperienceReplay(BaseDatasetExperienceReplay):
    """Datasets in LeRobot's format: thousands of robot datasets on the Hugging Face hub.

    Versions 2.0, 2.1 and 3.0 of the format are read. Columns get the names of :func:`lerobot_columns_to_tensordict`,
    and observations are there under "next", too. The one after the last frame of an episode is in no file: it is zero
    if the step is terminated, and otherwise a copy of that frame's. Frames of videos are stored as bytes
    ``[3, height, width]``. ``info.json`` is in :attr:`metadata`, with the "tasks".

    Args:
        repo_id: name on the hub, such as ``"lerobot/pusht"``.
        root: as for :class:`BaseDatasetExperienceReplay`, as are the other arguments that are not listed here.
        download: as above.
        batch_size: number of steps in a sample.
        num_slices: number of pieces of trajectories in a sample.
        slice_len: their length, in place of ``num_slices``. With one of them, the sampler is a
            :class:`~rlnb.data.SliceSampler`.
        sampler: default: ``RandomSampler``, or the above.
        key_map: other keys for some columns.
        decode_video: whether to decode the videos, once, when the dataset is made. With False, they are left out.
        rehydrate: ignored; accepted for code written for TorchRL. Observations are under "next" in any case.
        strict_length: whether trajectories that are shorter than a slice are left out.
        **kwargs: as for :class:`BaseDatasetExperienceReplay`.

    Raises:
        ImportError: If pyarrow, or PyAV for videos, is not installed.
        ValueError: If a file is damaged, or has other columns than ``info.json`` says.

    Example:
        >>> columns = {"observation.state": torch.rand(8, 7), "action": torch.rand(8, 7), "task": ["pick"] * 8}
        >>> columns["episode_index"] = torch.arange(2).repeat_interleave(4)
        >>> rb = LeRobotExperienceReplay.from_columns(columns, slice_len=4, batch_size=8)
        >>> rb.sample()["next", "observation", "state"].shape
        torch.Size([8, 7])
    """

    library = "lerobot"

    def __init__(
        self,
        repo_id: str,
        *,
        root: str | os.PathLike[str] | None = None,
        download: bool | str = True,
        batch_size: int | None = None,
        num_slices: int | None = None,
        slice_len: int | None = None,
        sampler: Any = None,
        key_map: Mapping[str, NestedKey] | None = None,
        decode_video: bool = True,
        rehydrate: bool = False,
        strict_length: bool = True,
        **kwargs: Any,
    ) -> None:
        if num_slices is not None and slice_len is not None:
            raise ValueError("num_slices and slice_len were both given. Fix: leave one of them out.")
        self.key_map, self.decode_video = dict(key_map or {}), decode_video
        self.variant = "" if decode_video else ".without_video"
        if key_map:
            text = json.dumps(sorted((name, as_tuple(key)) for name, key in key_map.items()))
            self.variant += f".keys_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        if sampler is None and (num_slices is not None or slice_len is not None):
            episode = _key_of("episode_index", key_map)
            sampler = SliceSampler(
                num_slices=num_slices, slice_len=slice_len, traj_key=episode, strict_length=strict_length
            )
        super().__init__(repo_id, batch_size, root=root, download=download, sampler=sampler, **kwargs)
        if tasks := self.metadata.get("tasks"):
            self.insert_transform(0, _Instructions(tasks, *(_key_of(name, key_map) for name in ("task_index", "task"))))

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Any],
        *,
        repo_id: str = "local",
        key_map: Mapping[str, NestedKey] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a buffer of columns in memory, without files.

        Args:
            columns: as for :func:`lerobot_columns_to_tensordict`; with "episode_index".
            repo_id: a name.
            key_map: other keys for some columns.
            **kwargs: as for the constructor.

        Raises:
            ValueError: If there is no "episode_index", or the columns have different lengths.
        """
        if "episode_index" not in columns:
            raise ValueError(f"The columns need 'episode_index', got {', '.join(map(repr, columns)) or 'nothing'}.")
        texts = {name: column for name, column in columns.items() if not isinstance(column, torch.Tensor)}
        flat = lerobot_columns_to_tensordict(columns, key_map=key_map)
        numbers = {name: column for name, column in columns.items() if name not in texts and name != "index"}
        data = _with_next(numbers, _ends_of(numbers["episode_index"]), key_map)
        for name in texts:
            data.set(_key_of(name, key_map), flat.get(_key_of(name, key_map)))
        return cls(repo_id, key_map=key_map, storage=TensorStorage(data), **kwargs)

    def remote_files(self) -> list[RemoteFile]:
        """List the files on the hub; see the base class."""
        videos = ["videos/*.mp4"] if self.decode_video else []
        return list_files(str(self.dataset_id), ["meta/*", "data/*.parquet", *videos])

    def read(self, folder: Path) -> Iterator[TensorDictBase]:
        """Read the files, one episode after another; see the base class."""
        source = _Source(folder, self.decode_video)
        self.keep_metadata({**source.info, "tasks": source.tasks})
        for columns, pictures in source.episodes():
            for chunk, ended in source.with_frames(columns, pictures):
                yield _with_next(chunk, ended, self.key_map)


class _Instructions:
    """The transform of samples that writes the text of each step's task."""

    def __init__(self, tasks: Sequence[str], index: NestedKey, key: NestedKey) -> None:
        self.tasks, self.index, self.key = list(tasks), index, key

    def __repr__(self) -> str:
        return f"Instructions({len(self.tasks)} tasks)"

    def __call__(self, data: TensorDictBase) -> TensorDictBase:
        index = data.get(self.index, None)
        if index is None or data.batch_dims != 1:
            return data
        return data.set(self.key, NonTensorStack(*(self.tasks[number] for number in index.flatten().tolist())))


def _ends_of(episodes: torch.Tensor) -> torch.Tensor:
    """True at the last frame of each episode."""
    numbers = episodes.flatten()
    ends = torch.ones(len(numbers), dtype=torch.bool)
    ends[:-1] = numbers[1:] != numbers[:-1]
    return ends


def _with_next(columns: Columns, ended: torch.Tensor, key_map: Mapping[str, NestedKey] | None) -> TensorDict:
    """Build TED data of consecutive frames; there may be one frame of observations more than ends."""
    count = len(ended)
    data = lerobot_columns_to_tensordict({name: column[:count] for name, column in columns.items()}, key_map=key_map)
    success = columns.get("next.success", columns.get("next.done"))
    terminated = torch.zeros(count, 1, dtype=torch.bool)
    if success is not None:
        terminated = success[:count].bool().reshape(count, -1).any(-1, keepdim=True) & ended[:, None]
    for name, column in columns.items():
        if name.startswith("observation"):
            following = column[:count].clone()  # which the last frame of an episode keeps
            inside = (~ended).nonzero().flatten()
            following[inside] = column[inside + 1]
            following[terminated[:, 0]] = 0
            data.set(("next", *as_tuple(_key_of(name, key_map))), following)
    signals = {DONE: ended[:, None].clone(), TERMINATED: terminated, TRUNCATED: ended[:, None] & ~terminated}
    for name, signal in signals.items():
        data.set(name, torch.zeros_like(signal))
        data.set(("next", name), signal)
    return data


# The files ------------------------------------------------------------------------------------------------------------


class _Video(NamedTuple):
    """Where the frames of an episode are: a file, the time of the first one, and the key of the camera."""

    path: Path
    start: float


class _Source:
    """A dataset in a folder: its description, and its steps, file after file."""

    def __init__(self, folder: Path, videos: bool) -> None:
        self.folder = folder
        self._arrow, self._parquet = _import("pyarrow"), _import("pyarrow.parquet")
        file = folder / "meta" / "info.json"
        try:
            self.info: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            self.features: dict[str, Any] = dict(self.info["features"])
            self.version = int(str(self.info["codebase_version"]).lstrip("v").split(".")[0])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{os.fspath(file)!r} is not the description of a dataset of LeRobot ({error}). {_FIX}"
            ) from error
        if self.version not in (2, 3):
            raise ValueError(
                f"{os.fspath(file)!r} says that the format is {self.info['codebase_version']!r}; v2.0, v2.1 and v3.0 "
                "are known. Fix: convert it with LeRobot's scripts."
            )
        self.cameras = [name for name, each in self.features.items() if each["dtype"] == "video"] if videos else []
        self.images = [name for name, each in self.features.items() if each["dtype"] == "image"]
        self.tasks = self._read_tasks()
        self._episodes = self._read_episodes() if self.cameras and self.version == 3 else {}
        self._readers = {name: _VideoReader(_pixels_of(name, self.features[name])) for name in self.cameras}

    def episodes(self) -> Iterator[tuple[Columns, Pictures]]:
        """Read the files of steps, and yield the numbers and the images of one episode after another."""
        for file in sorted((self.folder / "data").rglob("*.parquet")):
            columns, pictures = self._columns(file)
            start = 0
            for last in _ends_of(columns["episode_index"]).nonzero().flatten().tolist():
                count = last + 1 - start
                yield (
                    {name: column[start : last + 1] for name, column in columns.items()},
                    {name: column.slice(start, count) for name, column in pictures.items()},
                )
                start = last + 1

    def _columns(self, file: Path) -> tuple[Columns, Pictures]:
        table = self._table(file)
        plain = [name for name, each in self.features.items() if each["dtype"] not in ("video", "image", "string")]
        for name in (*plain, *self.images, "episode_index"):
            if name not in table.column_names:
                raise ValueError(
                    f"The file {os.fspath(file)!r} has no column {name!r}, which info.json lists; it has "
                    f"{', '.join(map(repr, table.column_names))}. {_FIX}"
                )
        found = {name: self._numbers(file, name, table.column(name)) for name in plain if name != "index"}
        if self.tasks and (numbers := found.get("task_index")) is not None and len(numbers):
            least, most = int(numbers.min()), int(numbers.max())
            if least < 0 or most >= len(self.tasks):
                raise ValueError(
                    f"The file {os.fspath(file)!r} has steps of task {least if least < 0 else most}, and there are "
                    f"{len(self.tasks)} tasks. {_FIX}"
                )
        return found, {name: table.column(name) for name in self.images}

    def _decoded(self, name: str, column: Any) -> Iterator[torch.Tensor]:
        pixels = _pixels_of(name, self.features[name])
        return (_image(each.as_py(), pixels, repr(name)) for each in column)

    def _numbers(self, file: Path, name: str, column: Any) -> torch.Tensor:
        shape = [] if name in _NUMBERS else list(self.features[name]["shape"])
        values, types = column.combine_chunks(), self._arrow.types
        values = values.chunk(0) if isinstance(values, self._arrow.ChunkedArray) else values
        while types.is_list(values.type) or types.is_large_list(values.type) or types.is_fixed_size_list(values.type):
            values = values.flatten()
        kind = values.type
        fits = len(values) == len(column) * int(np.prod(shape, dtype=int)) and values.null_count == 0
        if not fits or not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
            raise ValueError(
                f"The column {name!r} of {os.fspath(file)!r} has {len(values)} values of {kind} in {len(column)} rows, "
                f"not numbers of the shape {shape} that info.json says. {_FIX}"
            )
        array = np.require(values.to_numpy(zero_copy_only=False), requirements="W")
        return torch.from_numpy(array.reshape(len(column), *shape))

    def with_frames(self, episode: Columns, pictures: Pictures) -> Iterator[tuple[Columns, torch.Tensor]]:
        """Add pictures to the steps of an episode, in chunks; observations have one row more, unless it ends there."""
        count = len(episode["episode_index"])
        number = int(episode["episode_index"][0])
        frames = {name: self._readers[name].frames(self._video(name, number), count) for name in self.cameras}
        frames |= {name: self._decoded(name, column) for name, column in pictures.items()}
        row = sum(each[:1].nbytes for each in episode.values())
        row += sum(int(np.prod(self.features[name]["shape"])) for name in frames)
        size = max(CHUNK_BYTES // row, 1)
        waiting: dict[str, list[torch.Tensor]] = {name: [] for name in frames}
        for start in range(0, count, size):
            stop = min(start + size, count)
            needed = min(stop + 1, count) - start
            chunk = {name: column[start : start + needed] for name, column in episode.items()}
            for name, each in frames.items():
                waiting[name] += itertools.islice(each, needed - len(waiting[name]))
                chunk[name] = torch.stack(waiting[name])
                waiting[name] = waiting[name][stop - start :]
            yield chunk, torch.arange(start, stop) == count - 1

    def _video(self, camera: str, number: int) -> _Video:
        if self.version == 2:
            chunk = number // int(self.info.get("chunks_size", 1000))
            named = {"episode_chunk": chunk, "episode_index": number, "video_key": camera}
            return _Video(self._video_path(named), 0.0)
        try:
            row = self._episodes[number]
            named = {name: row[f"videos/{camera}/{name}"] for name in ("chunk_index", "file_index")}
            start = float(row[f"videos/{camera}/from_timestamp"])
        except KeyError as error:
            raise ValueError(
                f"meta/episodes does not say where the video {camera!r} of episode {number} is."
            ) from error
        return _Video(self._video_path({"video_key": camera, **named}), start)

    def _video_path(self, named: Mapping[str, Any]) -> Path:
        """Fill the fields of the path that info.json has for videos, such as ``{episode_index:06d}``."""

        def field(match: re.Match[str]) -> str:
            value = named[match[1]]
            return str(value) if match[2] is None else f"{int(value):0{match[2]}d}"

        try:
            # Not with str.format, whose fields may ask for any width.
            path = re.sub(r"\{(\w+)(?::0(\d)d)?\}", field, str(self.info["video_path"]))
        except (KeyError, ValueError) as error:
            raise ValueError(f"info.json has no path of videos that can be filled in ({error}). {_FIX}") from error
        found = (self.folder / path).resolve()
        if not found.is_relative_to(self.folder.resolve()):
            raise ValueError(f"info.json names a video outside of the dataset: {path!r}. Fix: do not use the dataset.")
        return found

    def _read_tasks(self) -> list[str]:
        lines, table = self.folder / "meta" / "tasks.jsonl", self.folder / "meta" / "tasks.parquet"
        file = lines if lines.exists() else table
        if not file.exists():
            return []
        try:
            if file == lines:
                rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
                found = {int(row["task_index"]): str(row["task"]) for row in rows}
            else:
                columns = self._table(file)
                texts = "task" if "task" in columns.column_names else "__index_level_0__"  # pandas' index
                indices = map(int, columns["task_index"].to_pylist())
                found = dict(zip(indices, map(str, columns[texts].to_pylist()), strict=True))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{os.fspath(file)!r} is not a list of tasks of LeRobot ({error}). {_FIX}") from error
        if wrong := [index for index in found if not 0 <= index < _MAX_TASKS]:
            raise ValueError(
                f"{os.fspath(file)!r} gives a task the number {wrong[0]:,}, and not one from 0 to {_MAX_TASKS - 1:,}. "
                f"{_FIX}"
            )
        return [found.get(index, "") for index in range(max(found, default=-1) + 1)]

    def _read_episodes(self) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        for file in sorted((self.folder / "meta" / "episodes").rglob("*.parquet")):
            table = self._table(file)
            names = [name for name in table.column_names if name.startswith("videos/") or name == "episode_index"]
            found |= {int(row["episode_index"]): row for row in table.select(names).to_pylist()}
        return found

    def _table(self, file: Path) -> Any:
        try:
            return self._parquet.read_table(file)
        except (self._arrow.ArrowInvalid, OSError) as error:
            raise ValueError(f"The file {os.fspath(file)!r} cannot be read ({error}). {_FIX}") from error


class _VideoReader:
    """Decodes the video of a camera: episodes in a row need no search in the file."""

    def __init__(self, pixels: tuple[int, ...]) -> None:
        self.pixels = pixels
        self._av = _import("av")
        self._path: Path | None = None
        self._frames: Iterator[tuple[float, torch.Tensor]] = iter(())
        self._next: tuple[float, torch.Tensor] | None = None

    def frames(self, video: _Video, count: int) -> Iterator[torch.Tensor]:
        """Yield the frames of an episode, ``[3, height, width]``."""
        if video.path != self._path or self._next is None or self._next[0] > video.start + 1e-3:
            self._path, self._frames = video.path, self._decode(video.path)
            self._next = next(self._frames, None)
        while self._next is not None and self._next[0] < video.start - 1e-3:
            self._next = next(self._frames, None)
        for number in range(count):
            if self._next is None:
                raise ValueError(
                    f"The video {os.fspath(video.path)!r} ends after {number} of {count} frames of an episode. {_FIX}"
                )
            frame = self._next[1]
            self._next = next(self._frames, None)
            yield frame

    def _decode(self, path: Path) -> Iterator[tuple[float, torch.Tensor]]:
        try:
            with self._av.open(os.fspath(path)) as container:
                for frame in container.decode(video=0):
                    if (3, frame.height, frame.width) != self.pixels:
                        raise ValueError(f"it has {frame.height} x {frame.width} pixels, not {self.pixels}")
                    array = frame.to_ndarray(format="rgb24")
                    yield float(frame.time or 0.0), torch.from_numpy(array).movedim(-1, 0).contiguous()
        except (self._av.FFmpegError, OSError, ValueError, IndexError) as error:
            raise ValueError(f"The video {os.fspath(path)!r} cannot be read ({error}). {_FIX}") from error


def _pixels_of(name: str, feature: dict[str, Any]) -> tuple[int, ...]:
    """The shape ``[3, height, width]`` of a camera's frames, which are described with either order."""
    shape = tuple(map(int, feature["shape"]))
    if len(shape) != 3 or 3 not in (shape[0], shape[2]):
        raise ValueError(f"info.json says that {name!r} has the shape {list(shape)}, which no picture has.")
    return shape if shape[0] == 3 else (3, *shape[:2])


def _image(cell: Any, pixels: tuple[int, ...], what: str) -> torch.Tensor:
    try:
        data = cell["bytes"] if isinstance(cell, dict) else cell
        array = decode_image(data, pixels[1:], needed_by="LeRobotExperienceReplay", mode="RGB")
    except (ValueError, KeyError) as error:
        raise ValueError(f"The column {what} cannot be read: {error}. {_FIX}") from error
    return torch.from_numpy(array).movedim(-1, 0).contiguous()


def _import(module: str) -> Any:
    return require_library(module, "LeRobotExperienceReplay", INSTALL)
