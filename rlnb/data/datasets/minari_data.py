"""MinariExperienceReplay: the datasets of Minari, one episode after another in HDF5, Arrow or Parquet files."""

from __future__ import annotations

import difflib
import glob
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb._libraries import require_library
from rlnb.data.datasets.common import INSTALL, BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import CHUNK_BYTES, ted_steps
from rlnb.data.datasets.download import RemoteFile
from rlnb.data.datasets.hdf5 import H5Column, H5Source
from rlnb.data.datasets.hub import list_files, list_repos
from rlnb.data.datasets.images import decode_image
from rlnb.data.ted.keys import EPISODE, as_key, nested_dict

_OWNER = "farama-minari"
_NAMES = {"observations": "observation", "actions": "action", "infos": "info"}
_SIGNALS = ("rewards", "terminations", "truncations")
_FIX = "Fix: delete the file, and make the dataset again."

Path_ = tuple[str, ...]


class _Column(NamedTuple):
    """Values of an episode: one for each step, after that of the reset if there is one more."""

    rows: int
    row_bytes: int
    read: Callable[[int, int], torch.Tensor]


class _Names:
    """The names on the hub, asked for when they are needed, and then kept."""

    names: list[str] | None = None

    def __get__(self, instance: Any, owner: type) -> list[str]:
        if self.names is None:
            found: list[str] = []
            for repo in list_repos(_OWNER):
                files = list_files(repo, "*metadata.json")
                found += [_dataset_of(repo, file.path) for file in files if file.path.endswith("data/metadata.json")]
            self.names = sorted(found)
        return self.names


def _dataset_of(repo: str, path: str) -> str:
    """The name of the dataset whose ``data/metadata.json`` is at a path of a repository."""
    return "/".join((repo.partition("/")[2], *path.split("/")[:-2]))


class MinariExperienceReplay(BaseDatasetExperienceReplay):
    """The datasets of Minari: those of the Farama Foundation's hub, and those that you collected yourself.

    Files of all formats of Minari 0.5 are read: HDF5, Arrow and Parquet. Observations, actions and infos that are
    dictionaries or tuples become nested TensorDicts; the members of a tuple are called "_index_0", "_index_1", ...
    Text is left out; JPEG images are decoded. "episode" numbers the episodes. What ``metadata.json`` says, such as the
    spaces of the env, is in :attr:`metadata`.

    Args:
        dataset_id: such as ``"D4RL/door/human-v2"``.
        batch_size: number of steps in a sample, or of trajectories.
        load_from_local_minari: whether to read a dataset of this machine, from ``$MINARI_DATASETS_PATH`` or
            ``~/.minari/datasets``, in place of downloading one.
        **kwargs: as for :class:`BaseDatasetExperienceReplay`.

    Attributes:
        available_datasets: the names on the hub, which is asked when this is read.

    Raises:
        ImportError: If h5py, pyarrow or pillow is needed and not installed.
        FileNotFoundError: If there is no such dataset on this machine.
        ValueError: If there is no such dataset on the hub, or a file is damaged.

    Example:
        >>> data = MinariExperienceReplay("D4RL/door/human-v2", batch_size=32)  # doctest: +SKIP
        >>> data.sample().batch_size  # doctest: +SKIP
        torch.Size([32])
    """

    library = "minari"
    available_datasets = _Names()

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        load_from_local_minari: bool = False,
        **kwargs: Any,
    ) -> None:
        self.load_from_local_minari = load_from_local_minari
        super().__init__(dataset_id, batch_size, **kwargs)

    def _known_names(self) -> None:
        # remote_files asks for the names beside this one only.
        return None

    def remote_files(self) -> list[RemoteFile]:
        """List the files on the hub, unless those of this machine are read; see the base class."""
        if self.load_from_local_minari:
            return []
        name, _, path = str(self.dataset_id).partition("/")
        repo = f"{_OWNER}/{name}"
        data = f"{path}/data" if path else "data"
        files = list_files(repo, ["*metadata.json", f"{glob.escape(data)}/*"])
        found = [file for file in files if file.path.startswith(f"{data}/")]
        if not any(file.path == f"{data}/metadata.json" for file in found):
            names = [_dataset_of(repo, file.path) for file in files if file.path.endswith("data/metadata.json")]
            near = difflib.get_close_matches(str(self.dataset_id), names, n=4, cutoff=0.5) or names[:8]
            raise ValueError(
                f"{repo} on the hub has no dataset {self.dataset_id!r}. "
                f"Did you mean {', '.join(map(repr, near)) or 'another repository'}?"
            )
        return found

    def read(self, folder: Path) -> Iterator[TensorDictBase]:
        """Read the files, one episode after another; see the base class."""
        data = self._data_folder(folder)
        file = data / "metadata.json"
        try:
            about = json.loads(file.read_text(encoding="utf-8"))
            spaces = {name: about[name] for name in ("observation_space", "action_space")}
            spaces = {name: json.loads(space) if isinstance(space, str) else space for name, space in spaces.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{os.fspath(file)!r} is not the description of a dataset of Minari ({error}).") from error
        self.keep_metadata({**about, **spaces})
        leaves = dict(_leaves(spaces["observation_space"], ("observations",)))
        leaves |= dict(_leaves(spaces["action_space"], ("actions",)))
        episodes = _hdf5_episodes if about.get("data_format", "hdf5") == "hdf5" else _arrow_episodes
        parts = (part for number, columns in episodes(data, leaves) for part in _parts(number, columns))
        yield from _joined(parts)

    def _data_folder(self, folder: Path) -> Path:
        if not self.load_from_local_minari:
            return folder.joinpath(*str(self.dataset_id).split("/")[1:], "data")
        root = os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets"
        found = Path(root, str(self.dataset_id), "data")
        if not (found / "metadata.json").is_file():
            raise FileNotFoundError(
                f"Minari has no dataset {self.dataset_id!r} at {os.fspath(root)!r}. Fix: set the environment variable "
                "MINARI_DATASETS_PATH to the folder where it is, or leave load_from_local_minari out to download it."
            )
        return found


def _parts(number: int, columns: dict[Path_, _Column]) -> Iterator[dict[Path_, torch.Tensor]]:
    """Read the steps of an episode as TED entries, in parts of about ``CHUNK_BYTES``."""
    steps = columns["rewards",].rows
    size = max(CHUNK_BYTES // max(sum(column.row_bytes for column in columns.values()), 1), 1)
    for start in range(0, steps, size):
        stop = min(start + size, steps)
        found: dict[Path_, torch.Tensor] = {(EPISODE,): torch.full((stop - start,), number)}
        for path, column in columns.items():
            key = (_NAMES.get(path[0], path[0]), *path[1:])
            if column.rows == steps + 1 and path[0] not in _SIGNALS:
                values = column.read(start, stop + 1)
                found[key], found["next", *key] = values[:-1], values[1:]
            elif column.rows == steps:
                found[key] = column.read(start, stop)
            else:
                raise ValueError(
                    f"{as_key(path)!r} of episode {number} has {column.rows} rows; its {steps} steps need {steps}, or "
                    f"{steps + 1} with the reset. {_FIX}"
                )
        if stop == steps and not found["terminations",][-1]:
            found["truncations",] = found["truncations",].clone()
            found["truncations",][-1] = True  # no other step follows, also where the collector was stopped
        yield found


def _joined(parts: Iterator[dict[Path_, torch.Tensor]]) -> Iterator[TensorDictBase]:
    """Build TED data of several parts, since episodes may be short and many."""
    waiting: list[dict[Path_, torch.Tensor]] = []
    size = 0
    for part in itertools.chain(parts, [None]):
        if waiting and (part is None or size >= CHUNK_BYTES or part.keys() != waiting[0].keys()):
            columns = {key: torch.cat([each[key] for each in waiting]) for key in waiting[0]}
            reward, terminated, truncated = (columns.pop((name,)) for name in _SIGNALS)
            after = {key[1:]: columns.pop(key) for key in list(columns) if key[0] == "next"}
            root, following = nested_dict(columns), nested_dict(after)
            yield ted_steps(root, following, reward=reward, terminated=terminated, truncated=truncated)
            waiting, size = [], 0
        if part is not None:
            waiting.append(part)
            size += sum(each.nbytes for each in part.values())


def _leaves(space: dict[str, Any], path: Path_) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """List the spaces that are neither dictionaries nor tuples, with their paths in the files."""
    if space["type"] == "Dict":
        for name, inner in space["subspaces"].items():
            yield from _leaves(inner, (*path, name))
    elif space["type"] == "Tuple":
        for number, inner in enumerate(space["subspaces"]):
            yield from _leaves(inner, (*path, f"_index_{number}"))
    else:
        yield path, space


def _is_image(space: dict[str, Any] | None) -> bool:
    """Whether Minari stores the values of a space as JPEG images, if it does that at all."""
    if space is None or space["type"] != "Box" or space["dtype"] != "uint8" or len(space["shape"]) not in (2, 3):
        return False
    # Minari takes smaller ones for something else.
    if min(space["shape"][:2]) < 32:
        return False
    return bool(np.all(np.equal(space["low"], 0)) and np.all(np.equal(space["high"], 255)))


def _image(data: bytes, space: dict[str, Any], what: str) -> np.ndarray[Any, Any]:
    try:
        pixels = decode_image(data, space["shape"][:2], needed_by="MinariExperienceReplay", formats=["JPEG"])
        return pixels.reshape(space["shape"])
    except ValueError as error:
        raise ValueError(f"{what} cannot be read: {error}. {_FIX}") from error


# HDF5 -----------------------------------------------------------------------------------------------------------------


def _hdf5_episodes(folder: Path, leaves: dict[Path_, dict[str, Any]]) -> Iterator[tuple[int, dict[Path_, _Column]]]:
    with H5Source(folder / "main_data.hdf5", "MinariExperienceReplay needs") as source:
        images = {path for path, space in leaves.items() if _is_image(space)}
        for number, (_, found) in enumerate(source.groups(required=_SIGNALS, blobs=images)):
            columns = {}
            for path, column in found.items():
                if path in images and list(column.shape[1:]) != leaves[path]["shape"]:
                    space, what = leaves[path], f"{as_key(path)!r} of episode {number}"
                    pixels = int(np.prod(space["shape"]))

                    def read(start: int, stop: int, column: Any = column, space: Any = space, what: str = what) -> Any:
                        blobs = source.read_blobs(column, start, stop)
                        return torch.from_numpy(np.stack([_image(blob, space, what) for blob in blobs]))

                    columns[path] = _Column(len(column), pixels, read)
                else:
                    columns[path] = _Column(len(column), column.row_bytes, _reader(source, column))
            yield number, columns


def _reader(source: H5Source, column: H5Column) -> Callable[[int, int], torch.Tensor]:
    return lambda start, stop: source.read(column, start, stop)


# Arrow and Parquet ----------------------------------------------------------------------------------------------------


def _arrow_episodes(folder: Path, leaves: dict[Path_, dict[str, Any]]) -> Iterator[tuple[int, dict[Path_, _Column]]]:
    arrow = require_library("pyarrow", "MinariExperienceReplay", INSTALL)
    require_library("pyarrow.parquet", "MinariExperienceReplay", INSTALL)  # it is an attribute of pyarrow then
    for number in sorted(int(each.name) for each in folder.iterdir() if each.name.isdecimal()):
        table = _read_tables(arrow, folder / str(number))
        values: dict[Path_, torch.Tensor] = {}
        for field, column in zip(table.schema, table.columns, strict=True):
            values |= _arrow_leaves(arrow, field, column.chunk(0), (field.name,), leaves)
        needed = (*_SIGNALS, "observations", "actions")
        if missing := [name for name in needed if not any(path[0] == name for path in values)]:
            raise ValueError(
                f"The episode at {os.fspath(folder / str(number))!r} has no column {missing[0]!r} of numbers; it has "
                f"{', '.join(map(repr, table.column_names))}. Fix: look whether it is a dataset of Minari."
            )
        # The last row is of the last observation only; what is not observed is zero there.
        rows = {path: len(each) - (path[0] not in ("observations", "infos")) for path, each in values.items()}
        yield number, {path: _Column(rows[path], each[:1].nbytes, _slicer(each)) for path, each in values.items()}


def _slicer(values: torch.Tensor) -> Callable[[int, int], torch.Tensor]:
    return lambda start, stop: values[start:stop]


def _read_tables(arrow: Any, folder: Path) -> Any:
    """Read the files of an episode as one table; those of Arrow are mapped, so that a long episode needs no memory."""
    tables = []
    for file in sorted(each for each in folder.iterdir() if each.suffix in (".arrow", ".parquet")):
        try:
            if file.suffix == ".arrow":
                tables.append(arrow.ipc.open_file(arrow.memory_map(os.fspath(file))).read_all())
            else:
                tables.append(arrow.parquet.read_table(file))
        except (arrow.ArrowInvalid, OSError) as error:
            raise ValueError(f"The file {os.fspath(file)!r} cannot be read ({error}). {_FIX}") from error
    if not tables or not sum(map(len, tables)):
        raise ValueError(f"The folder {os.fspath(folder)!r} has no steps of an episode. {_FIX}")
    return arrow.concat_tables(tables).combine_chunks()


def _arrow_leaves(
    arrow: Any, field: Any, column: Any, path: Path_, leaves: dict[Path_, dict[str, Any]]
) -> dict[Path_, torch.Tensor]:
    """Convert a column, and those in it, to tensors by their paths; text is left out."""
    kind, types = column.type, arrow.types
    if types.is_struct(kind):
        found: dict[Path_, torch.Tensor] = {}
        for inner in kind:
            name = f"_index_{inner.name}" if inner.name.isdecimal() else inner.name
            found |= _arrow_leaves(arrow, inner, column.field(inner.name), (*path, name), leaves)
        return found
    space = leaves.get(path)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return {}
    if types.is_binary(kind) and space is not None and _is_image(space):
        images = [_image(each.as_py(), space, repr(as_key(path))) for each in column]
        return {path: torch.from_numpy(np.stack(images))}
    shape: tuple[int, ...] = ()
    if types.is_fixed_size_list(kind):
        stated = (field.metadata or {}).get(b"shape")
        shape = tuple(map(int, stated.split(b","))) if stated else (kind.list_size,)
        shape = tuple(space["shape"]) if space is not None and space["type"] == "Box" else shape
        column = column.flatten()
    if not (types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type)):
        raise ValueError(
            f"The column {as_key(path)!r} holds {kind}, not numbers. Fix: write it as numbers, or leave it out."
        )
    array = column.to_numpy(zero_copy_only=False)
    return {path: torch.from_numpy(np.require(array, requirements="W").reshape(-1, *shape))}
