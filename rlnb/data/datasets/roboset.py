"""RobosetExperienceReplay: the simulated part of RoboSet, HDF5 files of trajectories that RoboHive's logger wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.datasets.common import BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import ted_steps
from rlnb.data.datasets.download import RemoteFile
from rlnb.data.datasets.hdf5 import Columns, H5Source, cut_rows
from rlnb.data.datasets.hub import Folders
from rlnb.data.ted.keys import EPISODE, nested_dict

_FOLDERS = Folders("jdvakil/RoboSet_Sim", ("*.h5", "*.hdf5"))
_NEEDED = ("observations", "actions", "rewards")


class RobosetExperienceReplay(BaseDatasetExperienceReplay):
    """The simulated part of RoboSet: a robot in a kitchen and at a table, as HDF5 files on the Hugging Face hub.

    A dataset is a folder of files, a file for each seed; a group of a file is a trajectory. RoboHive logs a row for
    each point in time: what was observed, the reward for being there, and the action that followed. The last row has no
    action, so a trajectory of n rows has n - 1 steps; it is terminated if its last row is ``done``, and truncated
    otherwise. "seed" and "episode" number the files and the trajectories of each, "time" is in seconds, and what
    RoboHive calls ``env_infos`` is under "info".

    Args:
        dataset_id: such as ``"FK1-v4(expert)/FK1_MicroOpenRandom_v2d-v4"``.
        batch_size: number of steps in a sample, or of trajectories.
        **kwargs: as for :class:`BaseDatasetExperienceReplay`.

    Attributes:
        available_datasets: the names on the hub, which is asked when this is read.

    Raises:
        ImportError: If h5py is not installed.
        ValueError: If there is no such dataset, or a file is damaged or of another kind.

    Example:
        >>> data = RobosetExperienceReplay("FK1-v4(expert)/FK1_MicroOpenRandom_v2d-v4", batch_size=32)  # doctest: +SKIP
        >>> data.sample().batch_size  # doctest: +SKIP
        torch.Size([32])
    """

    library = "roboset"
    available_datasets = _FOLDERS

    def __init__(self, dataset_id: str, batch_size: int | None = None, **kwargs: Any) -> None:
        super().__init__(dataset_id, batch_size, **kwargs)

    def _known_names(self) -> None:
        # remote_files asks for them.
        return None

    def remote_files(self) -> list[RemoteFile]:
        """List the files on the hub; see the base class."""
        return _FOLDERS.files(str(self.dataset_id))

    def read(self, folder: Path) -> Iterator[TensorDictBase]:
        """Read the files, one trajectory after another; see the base class."""
        files = sorted(path for path in folder.rglob("*") if path.suffix in (".h5", ".hdf5"))
        for number, file in enumerate(files):
            named = re.search(r"seed_?(\d+)", file.stem)
            seed = int(named[1]) if named else number
            with H5Source(file, "RobosetExperienceReplay needs") as source:
                groups = source.groups(required=_NEEDED, nested=("observations", "actions"))
                for episode, (_, columns) in enumerate(groups):
                    yield from self._trajectory(source, columns, {"seed": seed, EPISODE: episode})

    def _trajectory(self, source: H5Source, columns: Columns, numbers: dict[str, int]) -> Iterator[TensorDictBase]:
        rows = len(columns["rewards",])
        source.same_rows({path: each for path, each in columns.items() if path[0] in (*_NEEDED, "done")}, rows)
        columns = {path: each for path, each in columns.items() if len(each) == rows}
        for start, stop in cut_rows(columns, rows - 1):
            count = stop - start
            before: dict[tuple[str, ...], torch.Tensor] = {
                (name,): torch.full((count,), value) for name, value in numbers.items()
            }
            after: dict[tuple[str, ...], torch.Tensor] = {}
            for path, column in columns.items():
                if path == ("time",) or path[0] == "actions":
                    key = ("action", *path[1:]) if path[0] == "actions" else path
                    before[key] = source.read(column, start, stop)
                elif path[0] in ("observations", "env_infos"):
                    key = ("observation" if path[0] == "observations" else "info", *path[1:])
                    values = source.read(column, start, stop + 1)
                    before[key], after[key] = values[:-1], values[1:]
            last = torch.arange(start, stop) == rows - 2
            # RoboHive goes on after a row that is done; only the last row ends a trajectory.
            done = ("done",) in columns and bool(source.read(columns["done",], rows - 1).any())
            reward = source.read(columns["rewards",], start + 1, stop + 1).reshape(count, -1)
            root, following = nested_dict(before), nested_dict(after)
            yield ted_steps(root, following, reward=reward, terminated=last & done, truncated=last & (not done))
