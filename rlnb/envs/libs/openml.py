"""Contextual bandits over the tables of OpenML: name the class of a row, and be rewarded if it is right."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.envs.custom.tensor_env import TensorEnv
from rlnb.envs.libs.libraries import AvailableEnvs, import_library, no_such_env


class OpenMLEnv(TensorEnv):
    """Classification as a contextual bandit: each episode is one step on one row of a table.

    A reset draws a row for each env of the batch, with replacement. "observation" are its features, ``[*batch_size,
    features]`` in float32, as the table has them; categories are numbers, or one-hot vectors in the tables
    whose names say so. The action is the number of a class. The reward is 1 if it is the row's class and otherwise 0,
    and the episode is over. The entry "y" is the right class, ``[*batch_size]``, which a policy must not read.

    scikit-learn downloads a table from openml.org when it is first used, and keeps it on disk. Rows with missing
    values are left out.

    Args:
        dataset_name: one of ``available_envs``; any name for a table that is given.
        device: device of the returned tensors. Default: the CPU.
        batch_size: the number of rows at a time, as a shape. Default: a single one, without a batch dimension.
        table: the table itself, so that nothing is downloaded: features ``[rows, features]`` and classes ``[rows]``,
            integers from 0.
        data_home: the folder for what is downloaded. Default: scikit-learn's, ``~/scikit_learn_data``.
        seed: as for :meth:`set_seed`. ``None`` (the default) seeds with unpredictable numbers.

    Attributes:
        available_envs: the names of the tables.

    Raises:
        ImportError: If scikit-learn is not installed and no table is given.
        ValueError: If there is no such table, or the one that is given has another shape.
        RuntimeError: If the table cannot be downloaded.

    Example:
        >>> table = torch.eye(3), [0, 1, 1]
        >>> env = OpenMLEnv("mine", batch_size=[4], table=table)
        >>> env.rollout(10, policy=lambda td: td.set("action", td["y"]))["next", "reward"].mean()
        tensor(1.)
    """

    available_envs = AvailableEnvs("sklearn", lambda: _tables())
    libname = "openml"
    git_url = "https://github.com/scikit-learn/scikit-learn"

    def __init__(
        self,
        dataset_name: str,
        device: torch.device | str | int | None = "cpu",
        batch_size: Sequence[int] | None = None,
        *,
        table: tuple[Any, Any] | None = None,
        data_home: str | None = None,
        seed: int | None = None,
    ) -> None:
        if table is None:
            if dataset_name not in _tables():
                raise no_such_env("OpenML's tables", dataset_name, _tables(), "OpenMLEnv.available_envs")
            table = _fetch(dataset_name, data_home)
        features, classes = _read_table(table)
        n_classes = int(classes.max()) + 1
        super().__init__(n_classes, batch_size, device, seed, max_steps=None, categorical_action_encoding=True)
        self.dataset_name = dataset_name
        self.features, self.classes = features.to(self.device or "cpu"), classes.to(self.device or "cpu")
        batch, width = self.batch_size, features.shape[1]
        self.observation_spec = Composite(
            {
                "observation": Unbounded((*batch, width), device=self.device),
                "y": Categorical(n_classes, shape=batch, device=self.device),
            },
            shape=batch,
            device=self.device,
        )
        self.reward_spec = Bounded(0.0, 1.0, shape=(*batch, 1), device=self.device)

    def _initial_state(self) -> torch.Tensor:
        shape, n = self.batch_size, len(self.classes)
        return torch.randint(n, shape, generator=self.generator, device=self.generator.device)

    def _observe(self, state: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"observation": self.features[state], "y": self.classes[state]}

    def _transition(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        reward = (action == self.classes[state]).to(torch.float32)
        return state.clone(), reward, torch.ones(self.batch_size, dtype=torch.bool, device=state.device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dataset_name}, batch_size={self.batch_size}, device={self.device})"


def _read_table(table: tuple[Any, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Convert a table into features of float32 and classes of int64, or raise ValueError."""
    features = torch.as_tensor(table[0]).to(torch.float32)
    classes = torch.as_tensor(table[1])
    whole = not classes.is_floating_point() and not classes.is_complex()
    if features.ndim != 2 or classes.shape != features.shape[:1] or not len(classes) or not whole or classes.min() < 0:
        raise ValueError(
            "A table is a pair of features [rows, features] and classes [rows], integers from 0, and this one has "
            f"features {list(features.shape)} and classes {list(classes.shape)} of {classes.dtype}."
        )
    return features, classes.to(torch.int64)


def _tables() -> dict[str, tuple[int, bool]]:
    # Imported when it is needed: the readers of datasets take a tenth of a second, and few envs are tables.
    from rlnb.data.datasets.openml import TABLES

    return TABLES


@functools.lru_cache(maxsize=4)
def _fetch(dataset_name: str, data_home: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Download a table, or read it from disk, and encode it as numbers."""
    from rlnb.data.datasets.openml import fetch_table

    import_library("sklearn.datasets", "OpenMLEnv")
    try:
        return fetch_table(dataset_name, data_home)
    except OSError as error:  # among them those of urllib
        raise RuntimeError(
            f"The table {dataset_name!r} could not be downloaded from openml.org ({error}). Fix: connect to the "
            "internet once, after which it is on disk, or give a table: OpenMLEnv(name, table=(features, classes))."
        ) from error
