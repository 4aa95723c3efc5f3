"""GenDGRLExperienceReplay: episodes of Procgen, in which levels vary, for the study of generalization."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict

from rlnb.data.datasets.archives import iterate, load_npy, load_npz
from rlnb.data.datasets.common import BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import ted_steps
from rlnb.data.datasets.download import RemoteFile

_NAMES = (
    "bigfish bossfight caveflyer chaser climber coinrun dodgeball fruitbot heist jumper leaper maze miner ninja "
    "plunder starpilot"
)
_ARRAYS = ("observations", "actions", "rewards", "dones")
GAMES = _NAMES.split()
"""The games of Procgen."""
CATEGORIES = {
    "1M_E": "1M/expert/{}.tar.xz",
    "1M_S": "1M/suboptimal/{}.tar.xz",
    "10M": "10M/{}.tar.xz",
    "25M": "25M/{}.tar.xz",
    "level_1_E": "100k_procgen_dataset_1.tar",
    "level_1_S": "100k_procgen_dataset_1_suboptimal.tar",
    "level_40_E": "100k_procgen_dataset_40.tar",
    "level_40_S": "100k_procgen_dataset_40_suboptimal.tar",
}
"""The archive of each category; those of single levels hold all games."""


class GenDGRLExperienceReplay(BaseDatasetExperienceReplay):
    """Gen-DGRL: episodes of 16 Procgen games, collected by PPO agents, expert or not.

    A step has "observation", uint8 ``[3, 64, 64]``; "action", int64; and under "next" the "observation", the "reward"
    (float32, ``[1]``) and the ends of episodes.

    ==========================  ============================================================================
    in the files                here
    ==========================  ============================================================================
    ``dones``                   "terminated" and "done". Procgen does not tell the limit of time apart.
    the last of ``T + 1``       zeros if the episode is done: the env has reset itself by then, and the frame
    ``observations``            belongs to the next episode. Otherwise it is the last next observation.
    an episode that is not      "truncated" and "done" at its last step
    done
    ==========================  ============================================================================

    An archive has a file for each episode. Those that are npz archives are arrays and harmless. Those that are npy
    files with a pickled dictionary are refused unless ``allow_pickle=True``: a pickle runs any code that whoever made
    it put there.

    Addresses and arrays are those of https://github.com/facebookresearch/gen_dgrl; the paper is
    https://arxiv.org/abs/2312.05742.

    Args:
        dataset_id: the game and the category, such as ``"bigfish-1M_E"``; one of ``available_datasets``.
        batch_size: number of steps in a sample. Default: each call of ``sample`` gives it.
        download: as for :class:`BaseDatasetExperienceReplay`, like ``root`` and all further arguments.
        root: see there. Default: ``~/.cache/rlnb/gen_dgrl``.
        allow_pickle: whether to load pickled episodes.
        **kwargs: see there.

    Attributes:
        available_datasets: the names of the datasets.

    Raises:
        ValueError: If there is no such dataset, its files hold something else, or they are pickles.
        OSError: If it cannot be downloaded, or the disk is full.

    Example:
        >>> dataset = GenDGRLExperienceReplay("bigfish-1M_E", batch_size=32)  # doctest: +SKIP
        >>> dataset.sample()["observation"].shape  # doctest: +SKIP
        torch.Size([32, 3, 64, 64])
    """

    library: ClassVar[str] = "gen_dgrl"
    available_datasets: Any = tuple(f"{game}-{category}" for category in CATEGORIES for game in GAMES)
    url: ClassVar[str] = "https://dl.fbaipublicfiles.com/DGRL"

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        download: bool | str = True,
        root: str | os.PathLike[str] | None = None,
        allow_pickle: bool = False,
        **kwargs: Any,
    ) -> None:
        self.allow_pickle = allow_pickle
        super().__init__(dataset_id, batch_size, download=download, root=root, **kwargs)

    def remote_files(self) -> Sequence[RemoteFile]:
        """List the archive of the category and the game."""
        game, _, category = str(self.dataset_id).partition("-")
        address = CATEGORIES[category].format(game)
        return [RemoteFile(f"{self.url}/{address}", PurePosixPath(address).name)]

    def read(self, folder: Path) -> Iterator[TensorDict]:
        """Read the episodes, one after another."""
        (archive,) = (folder / file.path for file in self.remote_files())
        game = str(self.dataset_id).partition("-")[0]
        of_all_games = game not in archive.name
        others: list[str] = []
        found = False
        for name, file in iterate(archive):
            path = PurePosixPath(name)
            if path.suffix not in (".npy", ".npz") or (of_all_games and game not in path.parts):
                others.append(name)
                continue
            episode = _load_episode(file, name, self.allow_pickle)
            if len(episode["actions"]):
                found = True
                yield _steps(episode, name)
        if not found:
            raise ValueError(
                f"{archive.name} has no episodes of {game}, which are files with names such as {game}/0.npy. It has: "
                f"{', '.join(others[:8]) or 'no files'}."
            )


def _load_episode(file: Any, name: str, allow_pickle: bool) -> dict[str, np.ndarray]:
    """Load the arrays of an episode: an npz archive, or an npy file with a pickled dictionary."""
    if file.peek(2)[:2] == b"PK":
        episode = load_npz(io.BytesIO(file.read()), name=name)
    else:
        pickled = load_npy(file, allow_pickle=allow_pickle, needed_by="GenDGRLExperienceReplay", name=name)
        found = pickled.item() if pickled.dtype == object and pickled.size == 1 else None
        if not isinstance(found, Mapping):
            raise ValueError(f"{name} holds no dictionary of arrays, but an array of {pickled.dtype}.")
        episode = {key: np.asarray(value) for key, value in found.items()}
    lacks = [key for key in _ARRAYS if key not in episode]
    if lacks:
        raise ValueError(f"{name} has no {lacks[0]!r}. Its arrays are: {', '.join(episode) or 'none at all'}.")
    if single := [key for key, array in episode.items() if not array.ndim and key in _ARRAYS]:
        raise ValueError(f"{name} has one number as {single[0]!r}, and not an array with a row for each step.")
    return episode


def _steps(episode: Mapping[str, np.ndarray], name: str) -> TensorDict:
    """Build the steps of an episode."""
    actions, rewards, dones = (episode[key] for key in ("actions", "rewards", "dones"))
    steps = len(actions)
    frames = torch.from_numpy(episode["observations"].astype(np.uint8))
    if len(frames) not in (steps, steps + 1) or actions.size != steps or rewards.size != steps or dones.size != steps:
        shapes = ", ".join(f"{key} {list(value.shape)}" for key, value in episode.items())
        raise ValueError(f"The arrays of {name} do not fit together: {shapes}.")
    terminated = torch.from_numpy(dones.reshape(-1) != 0)
    truncated = torch.zeros(steps, dtype=torch.bool)
    truncated[-1] = not terminated[-1]
    after = frames[1:] if len(frames) > steps else torch.cat([frames[1:], frames[-1:]])
    after = after.masked_fill(terminated.reshape(-1, *(1 for _ in after.shape[1:])), 0)
    return ted_steps(
        {
            "observation": frames[:steps],
            "action": torch.from_numpy(actions.reshape(-1).astype(np.int64)),
        },
        {"observation": after},
        reward=torch.from_numpy(rewards.reshape(-1).astype(np.float32)),
        terminated=terminated,
        truncated=truncated,
    )
