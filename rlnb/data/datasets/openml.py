"""OpenMLExperienceReplay: tables of openml.org as datasets, and their encoding as numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict

from rlnb._libraries import require_library
from rlnb.data.datasets.common import INSTALL, BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import CHUNK_BYTES

TABLES = {
    "adult_num": (1590, False), "adult_onehot": (1590, True), "covertype": (1596, False), "magic": (1120, False),
    "mushroom_num": (24, False), "mushroom_onehot": (24, True), "shuttle": (40685, False),
}  # fmt: skip
"""The number of each table on openml.org, and whether its categories become one-hot vectors instead of numbers."""


class OpenMLExperienceReplay(BaseDatasetExperienceReplay):
    """Tables of openml.org for classification: the features of a row, and its class.

    An item has "X", its features, float32 ``[features]``, and "y", the number of its class, int64. There are no actions
    and no rewards: :class:`~rlnb.envs.OpenMLEnv` makes a contextual bandit of the same tables. Categories are
    numbers, or one-hot vectors in the tables whose names say so; rows with missing values are left out.

    scikit-learn and pandas download the table.

    Args:
        name: one of ``available_datasets``.
        batch_size: number of rows in a sample. Default: each call of ``sample`` gives it.
        root: as for :class:`BaseDatasetExperienceReplay`, like all further arguments.
            Default: ``~/.cache/rlnb/openml``.
        sampler: see there.
        writer: see there.
        download: see there.
        **kwargs: see there.

    Attributes:
        available_datasets: the names of the tables.

    Raises:
        ImportError: If scikit-learn or pandas is not installed, and the table is not on disk.
        OSError: If the table cannot be downloaded.
        ValueError: If there is no such table.

    Example:
        >>> dataset = OpenMLExperienceReplay("adult_onehot", batch_size=2)  # doctest: +SKIP
        >>> dataset.sample()["X"].shape  # doctest: +SKIP
        torch.Size([2, 106])
    """

    library: ClassVar[str] = "openml"
    available_datasets: Any = tuple(TABLES)

    def __init__(
        self,
        name: str,
        batch_size: int | None = None,
        root: str | os.PathLike[str] | None = None,
        sampler: Any = None,
        writer: Any = None,
        *,
        download: bool | str = True,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("split_trajs", False):
            raise ValueError("A table has rows and no trajectories. Fix: leave split_trajs out.")
        super().__init__(name, batch_size, root=root, sampler=sampler, writer=writer, download=download, **kwargs)

    def read(self, folder: Path) -> Iterator[TensorDict]:
        """Download the table and read its rows in chunks."""
        name = str(self.dataset_id)
        for library in ("sklearn", "pandas"):
            require_library(library, "OpenMLExperienceReplay", INSTALL)
        try:
            features, classes = fetch_table(name, os.fspath(folder))
        except OSError as error:  # among them those of urllib
            raise OSError(
                f"The table {name!r} could not be downloaded from openml.org ({error}). "
                "Fix: connect to the internet once, after which it is on disk."
            ) from error
        rows = max(CHUNK_BYTES // (4 * features.shape[1]), 1)
        for start in range(0, len(classes), rows):
            x, y = (torch.from_numpy(values[start : start + rows]) for values in (features, classes))
            yield TensorDict({"X": x, "y": y}, [len(y)])


def fetch_table(name: str, data_home: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Download a table with scikit-learn, or read it from disk, and encode it as numbers.

    Args:
        name: one of :data:`TABLES`.
        data_home: the folder for what is downloaded. Default: scikit-learn's, ``~/scikit_learn_data``.

    Returns:
        Features and classes; see :func:`encode_table`.

    Raises:
        OSError: If it cannot be downloaded.
    """
    from sklearn.datasets import fetch_openml

    number, one_hot = TABLES[name]
    found = fetch_openml(data_id=number, data_home=data_home, as_frame=True)
    return encode_table(found.data, found.target, one_hot)


def encode_table(data: Any, target: Any, one_hot: bool) -> tuple[np.ndarray, np.ndarray]:
    """Encode a table of pandas as numbers. Rows with missing values are left out.

    Args:
        data: a ``DataFrame`` of features. Columns that are not numbers are categories.
        target: a ``Series`` of classes, which are numbered in the order of their categories, or else sorted.
        one_hot: whether categories become one-hot vectors instead of numbers.

    Returns:
        Features, float32 ``[rows, features]``, and classes, int64 ``[rows]``.
    """
    whole = ~(data.isna().any(axis=1) | target.isna())
    data, target = data[whole], target[whole]
    columns = []
    for name in data.columns:
        column = data[name]
        if column.dtype.kind in "biuf":
            columns.append(np.asarray(column, np.float32)[:, None])
            continue
        codes = _codes(column)
        columns.append(
            np.eye(codes.max() + 1, dtype=np.float32)[codes] if one_hot else codes.astype(np.float32)[:, None]
        )
    return np.concatenate(columns, axis=1), _codes(target)


def _codes(column: Any) -> np.ndarray:
    """Number the values of a column that occur, from 0."""
    kinds = column.astype("category").cat.remove_unused_categories()
    return np.asarray(kinds.cat.codes, np.int64)
