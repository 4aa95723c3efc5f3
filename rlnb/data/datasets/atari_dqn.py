"""AtariDQNExperienceReplay: what a DQN agent saw and did while it learned to play Atari games."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict

from rlnb.data.datasets.archives import iterate_npy, load_npy, open_gzip
from rlnb.data.datasets.common import BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import CHUNK_BYTES, ted_steps
from rlnb.data.datasets.download import RemoteFile
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.samplers.slice_sampler import SliceSampler
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.tensor import TensorStorage

_NAMES = (
    "AirRaid Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Berzerk Bowling Boxing "
    "Breakout Carnival Centipede ChopperCommand CrazyClimber DemonAttack DoubleDunk ElevatorAction Enduro FishingDerby "
    "Freeway Frostbite Gopher Gravitar Hero IceHockey Jamesbond JourneyEscape Kangaroo Krull KungFuMaster "
    "MontezumaRevenge MsPacman NameThisGame Phoenix Pitfall Pong Pooyan PrivateEye Qbert Riverraid RoadRunner Robotank "
    "Seaquest Skiing Solaris SpaceInvaders"
)
GAMES = _NAMES.split()
"""The games of the dataset."""
_ARRAYS = ("observation", "action", "reward", "terminal")
_FRAME_BYTES = 84 * 84
_STACK = 4  # frames of an observation of the agent; it begins each episode with one frame fewer of zeros


class AtariDQNExperienceReplay(BaseDatasetExperienceReplay):
    """The DQN Replay Dataset: five runs of a DQN agent on each of 50 Atari games, about 50 million steps each.

    A step has "observation", one frame, uint8 ``[84, 84]``; "action", int32; and under "next" the "observation", the
    "reward" (float32, ``[1]``) and the ends of episodes. Frames are stored once: the next one is read when a step is
    sampled.

    ====================================  ==================================================================
    in the files                          here
    ====================================  ==================================================================
    ``terminal``                          "terminated" and "done"; the next observation is zeros, because the
                                          dataset does not have it. Episodes that reached the limit of time
                                          are terminal in the files, too, and cannot be told apart.
    the last step of a checkpoint         "truncated" and "done", unless it is terminal; the next observation,
                                          which is in no file, is a copy of the observation
    three steps of zeros before each      left out: the agent fills its first stacks of frames with them
    episode
    steps behind ``add_count``            left out: the agent had not written them yet
    ====================================  ==================================================================

    A run has 50 checkpoints of a million steps each, which take about 350 GB here. ``_max_runs`` is how many of them
    are downloaded: set it to 1 before the first call to try things out.

    The format is that of the agent's replay buffer, as https://github.com/google-research/batch_rl and
    https://github.com/google/dopamine write it: a gzipped npy file for each array and checkpoint.

    Args:
        dataset_id: the game and the number of the run, such as ``"Pong/5"``; one of ``available_datasets``.
        batch_size: number of steps in a sample. Default: each call of ``sample`` gives it.
        root: as for :class:`BaseDatasetExperienceReplay`, like ``download``, ``writer`` and all further arguments.
            Default: ``~/.cache/rlnb/atari``.
        download: see there.
        sampler: chooses which steps to sample. Default: ``RandomSampler``, or a ``SliceSampler`` if ``num_slices`` or
            ``slice_len`` is given.
        writer: see there.
        transform: see there.
        num_procs: number of checkpoints whose frames are decompressed ahead at a time, by threads, which need no
            processes for it. 0: each when it is read.
        num_slices: number of slices of consecutive steps in a sample.
        slice_len: in its place, the number of steps of a slice.
        strict_len: whether to leave out episodes that are shorter than a slice. ``strict_length`` is another name.
        replacement: False draws one slice from each episode before it draws a second one.
        mp_start_method: ignored; accepted for code written for TorchRL.
        **kwargs: see there.

    Attributes:
        available_datasets: the names of the datasets.

    Raises:
        ValueError: If there is no such dataset, or its files hold something else.
        OSError: If it cannot be downloaded, or the disk is full.

    Example:
        >>> dataset = AtariDQNExperienceReplay("Pong/5", batch_size=128, slice_len=64)  # doctest: +SKIP
        >>> dataset.sample().reshape(2, 64)["observation"].shape  # doctest: +SKIP
        torch.Size([2, 64, 84, 84])
    """

    library: ClassVar[str] = "atari"
    available_datasets: Any = tuple(f"{game}/{run}" for game in GAMES for run in range(1, 6))
    url: ClassVar[str] = "https://storage.googleapis.com/atari-replay-datasets/dqn"
    _max_runs: ClassVar[int] = 50

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        download: bool | str = True,
        sampler: Any = None,
        writer: Any = None,
        transform: Any = None,
        num_procs: int = 0,
        num_slices: int | None = None,
        slice_len: int | None = None,
        strict_len: bool = True,
        replacement: bool = True,
        mp_start_method: str | None = None,
        strict_length: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("split_trajs", False):
            raise ValueError(
                "AtariDQNExperienceReplay stores each frame once, and does not split its episodes. "
                f'Fix: AtariDQNExperienceReplay("{dataset_id}", slice_len=64), which samples parts of episodes.'
            )
        if sampler is None and (num_slices is not None or slice_len is not None):
            sampler = SliceSampler(
                num_slices=num_slices,
                slice_len=slice_len,
                strict_length=strict_len if strict_length is None else strict_length,
                replacement=replacement,
            )
        self.num_procs = num_procs
        super().__init__(
            dataset_id,
            batch_size,
            root=root,
            download=download,
            sampler=sampler,
            writer=writer,
            transform=transform,
            **kwargs,
        )

    @property
    def episodes(self) -> torch.Tensor:
        """The number of the episode of each step, int64 ``[steps]``."""
        storage: Any = self.storage
        done = storage.column(("next", "done")).tensor.flatten()
        return torch.cat([done.new_zeros(1), done[:-1]]).cumsum(0)

    def remote_files(self) -> Sequence[RemoteFile]:
        """List the arrays of all checkpoints."""
        names = [f"$store$_{array}" for array in _ARRAYS] + ["add_count"]
        return [
            RemoteFile(f"{self.url}/{self.dataset_id}/replay_logs/{name}_ckpt.{number}.gz", f"{name}_ckpt.{number}.gz")
            for number in range(self._max_runs)
            for name in names
        ]

    def read(self, folder: Path) -> Iterator[TensorDict]:
        """Read the steps, checkpoint after checkpoint."""
        sources = [folder / f"$store$_observation_ckpt.{number}.gz" for number in range(self._max_runs)]
        with _Decompressor(sources, self.num_procs) as frames:
            for number in range(self._max_runs):
                yield from self._read_checkpoint(folder, number, frames)

    def _read_checkpoint(self, folder: Path, number: int, frames: _Decompressor) -> Iterator[TensorDict]:
        """Read the steps of a checkpoint in chunks."""
        columns = {name: _column(folder / f"$store$_{name}_ckpt.{number}.gz") for name in _ARRAYS[1:]}
        total = len(columns["terminal"])
        if any(column.shape != (total,) for column in columns.values()):
            shapes = ", ".join(f"{name} {list(column.shape)}" for name, column in columns.items())
            raise ValueError(f"Checkpoint {number} of {self.dataset_id} has arrays of different shapes: {shapes}.")
        counts = _column(folder / f"add_count_ckpt.{number}.gz")
        if not total or counts.size != 1:
            raise ValueError(f"Checkpoint {number} of {self.dataset_id} has no steps, or no one count of them.")
        written = int(counts.item()) % total or total
        columns = {name: column[:written] for name, column in columns.items()}
        first, candidates = _may_be_padding(columns)
        held: TensorDict | None = None  # the last chunk, whose last step may be the last one of all
        start, dropped = 0, False
        with frames.open(number) as file:
            name = f"The observations of checkpoint {number} of {self.dataset_id}"
            for block in iterate_npy(file, CHUNK_BYTES // _FRAME_BYTES, name):
                block = block[: max(written - start, 0)]
                drop = np.zeros(len(block), bool)
                for row in np.flatnonzero(candidates[start : start + len(block)]):
                    begins = first[start + row] or (drop[row - 1] if row else dropped)
                    drop[row] = begins and not block[row].any()
                dropped = bool(len(drop) and drop[-1])
                rows, keep = slice(start, start + len(block)), ~drop
                start += len(block)
                if keep.any():
                    if held is not None:
                        yield held
                    held = _steps(block[keep], {key: column[rows][keep] for key, column in columns.items()})
            _check_end(file, name)
        if start != written:
            raise ValueError(f"{name} are {start} frames for {written} steps.")
        if held is not None:
            if not held["next", "terminated"][-1]:
                held["next", "truncated"][-1] = held["next", "done"][-1] = True
            yield held

    def open_storage(self) -> Storage:
        """Make a storage that reads the next frames, too."""
        data = TensorDict.load_memmap(self.data_path)
        # What preprocess has made may have entries of its own.
        has_next = ("next", "observation") in data.keys(True) or "observation" not in data.keys()  # noqa: SIM118
        return TensorStorage(data) if has_next else NextObservationStorage(data)


class NextObservationStorage(TensorStorage):
    """A storage of consecutive steps that stores each observation once, and adds the next one to what is read.

    The next observation of a step is the observation of the following one; zeros where the episode is terminated; and
    where it is only truncated a copy of its own observation.

    Args:
        storage: TED data ``[T]`` with "observation", without ``("next", "observation")``.
        **kwargs: as for :class:`~rlnb.data.TensorStorage`.

    Example:
        >>> observation = torch.tensor([[1.0], [2.0], [3.0]])
        >>> terminated = torch.tensor([False, False, True])
        >>> storage = NextObservationStorage(
        ...     ted_steps({"observation": observation}, {}, reward=torch.zeros(3), terminated=terminated)
        ... )
        >>> storage[:]["next", "observation"].flatten()
        tensor([2., 3., 0.])
    """

    def gather(self, index: Any) -> Any:
        """Copy items; see :meth:`Storage.gather`."""
        return self._with_next(super().gather(index), index)

    def read(self, place: Where) -> Any:
        """Read items; see :meth:`Storage.read`."""
        return self._with_next(super().read(place), place.positions(1))

    def _with_next(self, data: Any, positions: torch.Tensor) -> Any:
        following = (positions + 1).clamp(max=len(self) - 1)
        own, observation = data["observation"], self.column("observation").take(following)
        done, terminated = (data["next", key].reshape(-1) for key in ("done", "terminated"))
        rows = done.nonzero().flatten()  # a mask would pass over all frames
        if len(rows):
            observation.index_copy_(0, rows, own.reshape(observation.shape)[rows])
            observation.index_fill_(0, terminated.nonzero().flatten(), 0)
        data["next"]["observation"] = observation.reshape(own.shape)
        return data


# Arrays ---------------------------------------------------------------------------------------------------------------


def _column(path: Path) -> np.ndarray:
    with open_gzip(path) as file:
        array = load_npy(file, name=os.fspath(path))
        _check_end(file, os.fspath(path))
        return array


def _check_end(file: Any, name: str) -> None:
    """Check that a file ends behind its array. Its checksum is at the end, and is compared when that is read."""
    if file.read(1):
        raise ValueError(f"{name}: more follows behind the array.")


def _may_be_padding(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The first steps of episodes, and the steps that may be padding, judged by all but their frames."""
    empty = (columns["action"] == 0) & (columns["reward"] == 0) & (columns["terminal"] == 0)
    first = np.ones(len(empty), bool)
    first[1:] = columns["terminal"][:-1] != 0
    padding = first & empty
    for _ in range(_STACK - 2):
        padding[1:] |= padding[:-1] & empty[1:]
    return first, padding


def _steps(frames: np.ndarray, columns: dict[str, np.ndarray]) -> TensorDict:
    return ted_steps(
        {"observation": torch.from_numpy(frames), "action": torch.from_numpy(columns["action"])},
        {},
        reward=torch.from_numpy(columns["reward"]),
        terminated=torch.from_numpy(columns["terminal"] != 0),
    )


class _Decompressor:
    """Opens compressed files one after another. Threads decompress the next ones ahead, one thread each."""

    def __init__(self, sources: Sequence[Path], threads: int) -> None:
        self.sources, self.threads = sources, threads
        self.pool = ThreadPoolExecutor(threads) if threads else None
        self.ahead: dict[int, Future[Path]] = {}

    def __enter__(self) -> _Decompressor:
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def open(self, number: int) -> Any:
        """Open a file, decompressed."""
        if self.pool is None:
            return open_gzip(self.sources[number])
        if number:
            self.sources[number - 1].with_suffix(".npy").unlink(missing_ok=True)
        for later in range(number, min(number + self.threads, len(self.sources))):
            if later not in self.ahead:
                self.ahead[later] = self.pool.submit(_decompress, self.sources[later])
        return open(self.ahead[number].result(), "rb")


def _decompress(source: Path) -> Path:
    target = source.with_suffix(".npy")
    with open_gzip(source) as file, open(target, "wb") as out:
        shutil.copyfileobj(file, out, 2**20)
    return target
