"""BaseDatasetExperienceReplay: a dataset that others collected, as a replay buffer."""

from __future__ import annotations

import difflib
import json
import os
import shutil
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.datasets.conversion import alone, beside, guard, holds_data, publish, split_chunks, tidy, write_chunks
from rlnb.data.datasets.download import RemoteFile, download
from rlnb.data.datasets.preprocessing import ChunkPlan, preprocess
from rlnb.data.replay_buffers.replay_buffers import TensorDictReplayBuffer
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.tensor import TensorStorage
from rlnb.data.replay_buffers.writers import ImmutableDatasetWriter, Writer

#: How to install what the readers need.
INSTALL = "pip install 'rlnb[datasets]'"
#: What a reader found beside the steps, in the folder of the dataset.
_METADATA = "metadata.json"


def _default_root(library: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rlnb", library)


class BaseDatasetExperienceReplay(TensorDictReplayBuffer):
    """A dataset that others collected, as a replay buffer that is only read. Base class of all datasets.

    The first time, a dataset is downloaded and converted into memory-mapped TED data; from then on it opens at once,
    without network, and takes almost no memory. Samplers, transforms, slices and ensembles work as with any buffer.

    A dataset of your own is a subclass with :meth:`read`, and :meth:`remote_files` if it is somewhere on the network;
    see the example. All else is here: the cache folder, the lock between processes, memory-mapped files, trajectories.

    Args:
        dataset_id: name of the dataset; one of ``available_datasets``, if the class lists them.
        batch_size: number of steps in a sample, or of trajectories. Default: each call of ``sample`` gives it.
        root: folder of the datasets. Default: ``~/.cache/rlnb/<library>`` (below ``$XDG_CACHE_HOME``, if it is set).
        download: True to download and convert the dataset if it is not in ``root``; False to use only what is there;
            ``"force"`` to download and convert it again.
        split_trajs: whether an item is a whole trajectory, padded to the length of the longest, with a "mask".
        sampler: chooses which items to sample. Default: ``RandomSampler``.
        writer: default: :class:`~rlnb.data.ImmutableDatasetWriter`, which refuses to write.
        storage: for subclasses that make their storage themselves.
        **kwargs: as for :class:`~rlnb.data.TensorDictReplayBuffer`: ``transform``, ``prefetch``, ``collate_fn``, ...

    Attributes:
        available_datasets: names that can be given as ``dataset_id``; None if the class does not know them all.

    Raises:
        ValueError: If the name is unknown, or the files hold something else than the class expects.
        FileNotFoundError: If the dataset is not in ``root``, and ``download`` is False.
        OSError: If it cannot be downloaded, or the disk is full. Files that are complete are kept.

    Example:
        >>> import tempfile
        >>> from rlnb.data.datasets.conversion import ted_steps
        >>> class Squares(BaseDatasetExperienceReplay):
        ...     library = "squares"
        ...
        ...     def read(self, folder):
        ...         for start in range(0, 1000, 100):
        ...             x = torch.arange(start, start + 101.0)[:, None]
        ...             yield ted_steps(
        ...                 {"observation": x[:-1], "action": torch.ones(100, 1)},
        ...                 {"observation": x[1:]},
        ...                 reward=x[1:] ** 2,
        ...                 terminated=torch.arange(100) == 99,
        ...             )
        >>> dataset = Squares("small", batch_size=32, root=tempfile.mkdtemp())
        >>> len(dataset), dataset.sample()["next", "observation"].shape
        (1000, torch.Size([32, 1]))
    """

    library: ClassVar[str] = "datasets"
    #: What arguments change in the data, as the end of the folder's name; set before ``super().__init__``.
    variant: str = ""
    available_datasets: Any = None
    dataset_id: str | None
    split_trajs: bool

    def __init__(
        self,
        dataset_id: str | None = None,
        batch_size: int | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        download: bool | str = True,
        split_trajs: bool = False,
        sampler: Any = None,
        writer: Writer | Callable[[], Writer] | None = None,
        storage: Storage | Callable[[], Storage] | None = None,
        **kwargs: Any,
    ) -> None:
        if download not in (True, False, "force"):
            raise ValueError(f'download must be True, False or "force", got {download!r}.')
        self.dataset_id, self.split_trajs = dataset_id, bool(split_trajs)
        self._found: Mapping[str, Any] = {}
        self.root = _default_root(self.library) if root is None else Path(root).expanduser()
        if storage is None:
            self._check_id()
            self._make(download)
            storage = self.open_storage()
        super().__init__(storage=storage, sampler=sampler, writer=writer, batch_size=batch_size, **kwargs)

    def _default_writer(self) -> Writer:
        return ImmutableDatasetWriter()

    # What a dataset of your own says ----------------------------------------------------------------------------------

    def remote_files(self) -> Sequence[RemoteFile]:
        """List the files to download, with their sizes and checksums as far as they are known.

        Returns:
            The files, whose paths are below the folder that :meth:`read` is given. Default: no files.
        """
        return []

    @abstractmethod
    def read(self, folder: Path) -> Iterable[TensorDictBase]:
        """Read the files of the dataset, and yield its steps, in order, in chunks that fit into memory.

        Args:
            folder: where the files of :meth:`remote_files` are. It is deleted when the dataset has been converted.

        Yields:
            TED data of batch size ``[n]``, each with the same entries; :func:`~rlnb.data.datasets.conversion.ted_steps`
            builds it. A chunk of about ``CHUNK_BYTES`` is a good size.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say how its files are read. "
            "Fix: def read(self, folder): yield TED data, chunk after chunk."
        )

    def keep_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Keep what a reader finds beside the steps, as :attr:`metadata`; for :meth:`read`.

        Args:
            metadata: what JSON can hold: text, numbers, lists and dictionaries.
        """
        json.dumps(dict(metadata))
        self._found = metadata

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the dataset, such as the env and the author; empty if there is none."""
        file = self.data_path / _METADATA
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def open_storage(self) -> Storage:
        """Make the storage from the files at :attr:`data_path`."""
        return TensorStorage(TensorDict.load_memmap(self.data_path))

    # Where it is ------------------------------------------------------------------------------------------------------

    @property
    def data_path_root(self) -> Path:
        """Folder of the dataset, step by step: ``root / dataset_id``, with :attr:`variant` at its end."""
        return self.root / f"{self.dataset_id or ''}{self.variant}"

    @property
    def data_path(self) -> Path:
        """Folder of the data that is sampled: :attr:`data_path_root`, or one beside it with whole trajectories."""
        return self._split_path if self.split_trajs else self.data_path_root

    @property
    def _split_path(self) -> Path:
        return self.data_path_root.with_name(f"{self.data_path_root.name}.split")

    def _is_downloaded(self) -> bool:
        return holds_data(self.data_path)

    @property
    def _downloads(self) -> Path:
        return beside(self.data_path_root, "download")

    def delete(self) -> None:
        """Delete the files of the dataset. This object can still be sampled, as long as it exists."""
        with alone(self.data_path_root):
            for place in (self.data_path_root, self._split_path):
                for folder in (place, beside(place, "parts")):
                    shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(self._downloads, ignore_errors=True)

    # Making it --------------------------------------------------------------------------------------------------------

    def _check_id(self) -> None:
        name = self.dataset_id
        if not isinstance(name, str) or not name:
            raise TypeError(f"{type(self).__name__} needs the name of a dataset, got {name!r}. {self._listed()}")
        if PurePosixPath(name).is_absolute() or {"..", ".", ""} & set(name.split("/")) or "\\" in name:
            raise ValueError(f"The name of a dataset is a relative path without '..', got {name!r}. {self._listed()}")
        # What is on the disk needs no list, which may come from the network.
        names = None if any(map(holds_data, (self.data_path_root, self.data_path))) else self._known_names()
        if names is not None and name not in names:
            near = difflib.get_close_matches(name, list(names), n=4, cutoff=0.5)
            hint = f"Did you mean {', '.join(map(repr, near))}?" if near else self._listed()
            raise ValueError(f"{type(self).__name__} has no dataset {name!r}. {hint}")

    def _known_names(self) -> Iterable[str] | None:
        """The names that are checked before anything is downloaded; None: none."""
        return self.available_datasets

    def _listed(self) -> str:
        return "" if self._known_names() is None else f"{type(self).__name__}.available_datasets lists all."

    def _make(self, wanted: bool | str) -> None:
        """Download and convert what is not there; one process does it, and the others wait."""
        if self._is_downloaded() and wanted != "force":
            return
        root, places, again = self.data_path_root, (self.data_path_root, self.data_path), wanted == "force"
        # Trajectories are made of the steps without network; an old dataset may wait for its place.
        if not wanted and not holds_data(root) and not holds_data(beside(root, "old")):
            raise FileNotFoundError(
                f"The dataset {self.dataset_id!r} is not in {os.fspath(self.root)!r}, and download is False. "
                f'Fix: {type(self).__name__}("{self.dataset_id}", download=True), or the root where it is.'
            )
        with alone(root):
            for place in places:
                tidy(place)
                guard(place, self.root)
            if again:
                shutil.rmtree(self._downloads, ignore_errors=True)
            if again or not holds_data(root):
                self._downloads.mkdir(parents=True, exist_ok=True)
                self._download()
                self._convert(root, self.read(self._downloads))
                for folder in (self._downloads, self._split_path):
                    shutil.rmtree(folder, ignore_errors=True)
            if not self._is_downloaded():
                self._convert(self.data_path, split_chunks(TensorDict.load_memmap(root)))

    def _download(self) -> None:
        download(self.remote_files(), self._downloads)

    def _convert(self, place: Path, chunks: Iterable[TensorDictBase]) -> None:
        new = beside(place, "new")
        write_chunks(chunks, new)
        if self._found:
            (new / _METADATA).write_text(json.dumps(dict(self._found)), encoding="utf-8")
        elif (file := self.data_path_root / _METADATA).exists():
            shutil.copy(file, new)
        # Results of another version of the data are of no use any more.
        shutil.rmtree(beside(place, "parts"), ignore_errors=True)
        publish(new, place)

    # Changing it ------------------------------------------------------------------------------------------------------

    def preprocess(
        self,
        fn: Callable[[TensorDictBase], TensorDictBase],
        dim: int = 0,
        num_workers: int | None = None,
        *,
        chunksize: int | None = None,
        num_chunks: int | None = None,
        pool: Any = None,
        generator: torch.Generator | None = None,
        max_tasks_per_child: int | None = None,
        worker_threads: int = 1,
        index_with_generator: bool = False,
        pbar: bool = False,
        mp_start_method: str | None = None,
        num_frames: int | None = None,
        dest: str | os.PathLike[str] | None = None,
    ) -> TensorStorage:
        """Apply a function to the whole dataset once, and replace it by the result.

        The dataset that is made again has the result, too, until ``download="force"``. The chunks that are done are
        kept: after an interrupt, the same call goes on where it stopped.

        Args:
            fn: the function: takes a chunk of the dataset, and returns what becomes of it. It must treat each item by
                itself. Lambdas and functions of a notebook work.
            dim: dimension along which the chunks are cut: only 0.
            num_workers: number of processes; 0: this one. Default: one per core.
            chunksize: number of items in a chunk; 0: the function is called with single items, without batch dimension.
            num_chunks: number of chunks, in place of ``chunksize``. Default: chunks of about 4 MB.
            pool: a ``multiprocessing.Pool`` or an executor with ``map`` to use, in place of new processes.
            generator: seeds torch's random numbers for each chunk, so that a random function can be repeated.
            max_tasks_per_child: number of chunks after which a process is replaced. Default: never.
            worker_threads: number of torch's threads in each process.
            index_with_generator: ignored; accepted for code written for TorchRL. Chunks are always read one by one.
            pbar: whether to show a progress bar.
            mp_start_method: "fork", "spawn" or "forkserver". Default: the fastest that is safe.
            num_frames: only the first items, to try a function; needs ``dest``.
            dest: folder of the result, in place of replacing the dataset.

        Returns:
            The storage of the result; without ``dest``, it is also that of this buffer.

        Raises:
            ValueError: If an argument is out of range, or the chunks of the result are not alike.
            Exception: What the function raises; the error names the chunk, and the dataset stays as it was.
        """
        if dim != 0:
            raise ValueError(f"A dataset is cut into chunks along its first dimension, got dim={dim}. Fix: dim=0.")
        if num_frames is not None and dest is None:
            raise ValueError(
                f"num_frames={num_frames} would replace the dataset by its first items. "
                "Fix: dest=folder, to try the function; or leave num_frames out."
            )
        if num_workers is not None and num_workers < 0:
            raise ValueError(f"num_workers must be at least 0, got {num_workers}.")
        place = self.data_path if dest is None else Path(dest)
        with alone(self.data_path_root if dest is None else place):
            tidy(place)
            guard(place, place)
            plan = ChunkPlan.of(self.data_path, num_frames, chunksize, num_chunks, generator)
            chunks = preprocess(
                plan,
                fn,
                beside(place, "parts"),
                num_workers,
                pool=pool,
                tasks=max_tasks_per_child,
                threads=worker_threads,
                progress=pbar,
                method=mp_start_method,
            )
            self._convert(place, chunks)
            if place == self.data_path_root:
                shutil.rmtree(self._split_path, ignore_errors=True)
        storage = TensorStorage(TensorDict.load_memmap(place))
        if dest is None:
            self.set_storage(self.open_storage())
        return storage
