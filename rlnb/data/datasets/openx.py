"""OpenXExperienceReplay: episodes of many robots, on disk or read from a stream."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict

from rlnb.data.datasets.archives import ArchiveMember, iterate, load_pickle, pickle_refused
from rlnb.data.datasets.common import BaseDatasetExperienceReplay
from rlnb.data.datasets.conversion import ted_steps
from rlnb.data.datasets.download import RemoteFile, open_stream
from rlnb.data.datasets.hub import list_files
from rlnb.data.datasets.images import decode_image
from rlnb.data.replay_buffers.indexing import Where
from rlnb.data.replay_buffers.samplers.slice_sampler import MASK_KEY, SliceSampler, SliceSamplerWithoutReplacement
from rlnb.data.replay_buffers.samplers.uniform import RandomSampler, SamplerWithoutReplacement
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.storages.list_storage import ListStorage
from rlnb.data.replay_buffers.storages.tensor import TensorStorage
from rlnb.data.ted.keys import as_tuple
from rlnb.data.ted.leaves import leaf_keys

REPO = "jxu124/OpenX-Embodiment"
_RLDS = "_converted_externally_to_rlds"
_NAMES = (
    "fractal20220817_data kuka bridge taco_play jaco_play berkeley_cable_routing roboturk "
    "nyu_door_opening_surprising_effectiveness viola berkeley_autolab_ur5 toto language_table "
    "columbia_cairlab_pusht_real stanford_kuka_multimodal_dataset+ nyu_rot_dataset+ stanford_hydra_dataset+ "
    "austin_buds_dataset+ nyu_franka_play_dataset+ maniskill_dataset+ furniture_bench_dataset+ "
    "cmu_franka_exploration_dataset+ ucsd_kitchen_dataset+ ucsd_pick_and_place_dataset+ austin_sailor_dataset+ "
    "austin_sirius_dataset+ bc_z usc_cloth_sim+ utokyo_pr2_opening_fridge+ utokyo_pr2_tabletop_manipulation+ "
    "utokyo_saytap+ utokyo_xarm_pick_and_place+ utokyo_xarm_bimanual+ robo_net berkeley_mvp+ berkeley_rpt+ "
    "kaist_nonprehensile+ stanford_mask_vit+ tokyo_u_lsmo+ dlr_sara_pour+ dlr_sara_grid_clamp+ "
    "dlr_edan_shared_control+ asu_table_top+ stanford_robocook+ eth_agent_affordances imperialcollege_sawyer_wrist_cam "
    "iamlab_cmu_pickup_insert+ uiuc_d3field utaustin_mutex berkeley_fanuc_manipulation cmu_playing_with_food "
    "cmu_play_fusion cmu_stretch berkeley_gnm_recon berkeley_gnm_cory_hall berkeley_gnm_sac_son"
)
_LENGTH = "_slice_len"
_SHUFFLED = 16  # episodes of a stream that are held to be delivered in another order
_FLAGS = ("is_first", "is_last", "is_terminal", "reward")
_WIDER = {np.dtype("uint16"): np.int32, np.dtype("uint32"): np.int64, np.dtype("uint64"): np.int64}


class OpenXExperienceReplay(BaseDatasetExperienceReplay):
    """Open X-Embodiment: more than a million episodes of 22 kinds of robots, in 55 datasets.

    A step has the "observation" (a TensorDict; images are uint8 ``[channels, height, width]``), the "action",
    "is_init", the number of its "episode", and whatever else the dataset has, such as "discount",
    "language_instruction" (a string) and "language_embedding"; and under "next" the "observation", the "reward"
    (``[1]``) and the ends of episodes.

    ==========================  ============================================================================
    in the files                here
    ==========================  ============================================================================
    ``is_terminal``             "terminated" and "done"
    ``is_last`` alone, or the   "truncated" and "done"
    end of the list
    ``is_first``                "is_init"
    ``observation``             "observation", and the "observation" under "next" of the step before. That of the
                                last step, which is not in the files, is zeros if it is terminated, and otherwise a
                                copy of its own. The last step is kept, for many datasets reward that one only.
    ==========================  ============================================================================

    **All archives are pickles**, and a pickle runs any code that whoever made it put there. They are refused before
    anything is downloaded, unless you pass ``allow_pickle=True``.

    The files are those of https://huggingface.co/datasets/jxu124/OpenX-Embodiment: tar archives with a pickled
    dictionary for each episode, whose "steps" are a list of dictionaries in the way of RLDS; images are JPEG or PNG.

    Args:
        dataset_id: one of ``available_datasets``.
        batch_size: number of steps in a sample. Default: each call of ``sample`` gives it, and iterating over the
            dataset delivers whole episodes, one at a time.
        shuffle: False delivers episodes and steps in order, each once.
        num_slices: number of slices of consecutive steps in a sample, each from one episode.
        slice_len: in its place, the number of steps of a slice. Without a batch size, iterating delivers a random slice
            of each episode.
        pad: pads slices of episodes that are too short, with zeros (True) or the number given; the entry
            ``("collector", "mask")`` is then False for the padding. Default: see ``strict_length``.
        replacement: False draws each episode once before it draws any a second time. Default: True, and False for a
            stream.
        streaming: True reads the episodes from the hub each time and stores nothing. Samples are then slices of the
            next episodes, one slice each; with ``shuffle``, archives come in random order, and episodes are mixed a
            little.
        root: as for :class:`BaseDatasetExperienceReplay`, like ``writer`` and all further arguments.
            Default: ``~/.cache/rlnb/openx``.
        download: see there. Default: True, and False for a stream.
        sampler: chooses which steps to sample, in place of the arguments above.
        writer: see there.
        collate_fn, pin_memory, prefetch, transform: as for :class:`~rlnb.data.TensorDictReplayBuffer`.
        split_trajs: whether an item is a whole episode, padded to the length of the longest.
        strict_length: whether to leave out episodes shorter than a slice (a stream raises an error at the first one).
            Otherwise they are taken whole, and a sample can have fewer steps.
        allow_pickle: whether to load the pickles.
        **kwargs: see there.

    Attributes:
        available_datasets: the names of the datasets.

    Raises:
        ValueError: If pickles are not allowed, there is no such dataset, its files hold something else, or arguments
            contradict each other.
        OSError: If it cannot be downloaded, or the disk is full.

    Example:
        >>> dataset = OpenXExperienceReplay(
        ...     "cmu_stretch", batch_size=128, num_slices=2, allow_pickle=True
        ... )  # doctest: +SKIP
        >>> dataset.sample().reshape(2, 64)["observation", "image"].shape  # doctest: +SKIP
        torch.Size([2, 64, 3, 128, 128])
    """

    library: ClassVar[str] = "openx"
    available_datasets: Any = tuple(name.replace("+", _RLDS) for name in _NAMES.split())

    def __init__(
        self,
        dataset_id: str,
        batch_size: int | None = None,
        *,
        shuffle: bool = True,
        num_slices: int | None = None,
        slice_len: int | None = None,
        pad: float | bool | None = None,
        replacement: bool | None = None,
        streaming: bool | None = None,
        root: str | os.PathLike[str] | None = None,
        download: bool | str | None = None,
        sampler: Any = None,
        writer: Any = None,
        collate_fn: Any = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        transform: Any = None,
        split_trajs: bool = False,
        strict_length: bool = True,
        allow_pickle: bool = False,
        **kwargs: Any,
    ) -> None:
        self.streaming = bool(streaming)
        if num_slices is not None and slice_len is not None:
            raise ValueError(f"Pass either num_slices or slice_len, got {num_slices=} and {slice_len=}.")
        if split_trajs and (num_slices is not None or slice_len is not None):
            raise ValueError(
                "split_trajs=True samples whole episodes, and num_slices and slice_len sample parts of them. "
                "Fix: leave one of them out."
            )
        if self.streaming and (download or replacement or split_trajs or sampler is not None):
            raise ValueError(
                "A stream is read in order and stored nowhere, so download, replacement, split_trajs and sampler are "
                "not available with streaming=True. Fix: leave streaming out, to download the dataset."
            )
        self.shuffle, self.num_slices, self.slice_len = bool(shuffle), num_slices, slice_len
        self.strict_length, self.allow_pickle = bool(strict_length), bool(allow_pickle)
        self.pad = None if pad is None or pad is False or sampler is not None else 0 if pad is True else pad
        self._texts = _Texts()
        self._endless: Iterator[TensorDict] | None = None
        if sampler is None and not self.streaming:
            sampler = self._make_sampler(replacement is not False)
        super().__init__(
            dataset_id,
            batch_size,
            root=root,
            download=(not self.streaming) if download is None else download,
            split_trajs=split_trajs,
            sampler=sampler,
            writer=writer,
            storage=ListStorage(1) if self.streaming else None,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            prefetch=prefetch,
            transform=transform,
            **kwargs,
        )
        if self.streaming:
            self.root = Path(root or ".")
            self._check_id()
            self._check_allowed()

    def _make_sampler(self, replacement: bool) -> Any:
        """Make the sampler of a dataset on disk."""
        if self.num_slices is None and self.slice_len is None:
            again = self.shuffle and replacement
            return RandomSampler() if again else SamplerWithoutReplacement(shuffle=self.shuffle)
        options: dict[str, Any] = {"num_slices": self.num_slices, "slice_len": self.slice_len}
        options["strict_length"] = self.strict_length and self.pad is None
        if self.shuffle and replacement:
            return SliceSampler(**options)
        return SliceSamplerWithoutReplacement(**options, shuffle=self.shuffle)

    # On disk ----------------------------------------------------------------------------------------------------------

    def remote_files(self) -> Sequence[RemoteFile]:
        """List the archives of the dataset on the hub."""
        self._check_allowed()
        return list_files(REPO, f"{self.dataset_id}/{self.dataset_id}_*.tar")

    def _check_allowed(self) -> None:
        if not self.allow_pickle:
            raise pickle_refused(f"The dataset {self.dataset_id!r} of {REPO}", type(self).__name__)

    def read(self, folder: Path) -> Iterator[TensorDict]:
        """Read the episodes, one after another."""
        number = 0
        for path in sorted(folder.rglob("*.tar")):
            for member in iterate(path):
                steps = self._load(member)
                if steps:
                    yield _episode(steps, number, self._texts, member.name)
                    number += 1
        self.keep_metadata(self._texts.save())

    def _load(self, member: ArchiveMember) -> list[Any]:
        """Load the steps of an episode; an empty list for a file that does not hold one."""
        if not member.name.endswith(".pickle"):
            return []
        found = load_pickle(
            member.file, allow_pickle=self.allow_pickle, needed_by=type(self).__name__, name=member.name
        )
        steps = found.get("steps") if isinstance(found, Mapping) else None
        if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
            raise ValueError(f"{member.name} must hold a dictionary with a list of 'steps', got {type(found)}.")
        return steps

    def open_storage(self) -> Storage:
        """Make a storage that reads the strings, too."""
        self._texts = _Texts.load(self.metadata)
        return TextStorage(TensorDict.load_memmap(self.data_path), self._texts)

    # Sampling ---------------------------------------------------------------------------------------------------------

    def _length(self, size: int) -> int:
        """The number of steps of each slice in a batch."""
        length = self.slice_len or size // (self.num_slices or 1)
        if not length or size % length:
            raise ValueError(
                f"A batch of {size} steps cannot be divided into slices, with num_slices={self.num_slices} and "
                f"slice_len={self.slice_len}. Fix: a batch size that is a multiple."
            )
        return length

    def _draw(self, size: int) -> tuple[Any, Any]:
        index, info = super()._draw(size)
        if self.pad is not None and (self.num_slices is not None or self.slice_len is not None):
            info = {**info, _LENGTH: self._length(size)}
        return index, info

    def _annotate(self, data: Any, info: Any) -> Any:
        length = info.pop(_LENGTH, None)
        data = super()._annotate(data, info)
        if length is None:
            return data
        stops = (info["next", "truncated"].flatten().nonzero().flatten() + 1).tolist()
        slices = [data[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
        return torch.cat([self._padded(part, length) for part in slices])

    def sample(self, batch_size: int | None = None, return_info: bool = False, include_info: bool | None = None) -> Any:
        """Draw a batch of steps; see :meth:`ReplayBuffer.sample`. Of a stream, slices of the next episodes."""
        if not self.streaming:
            return super().sample(batch_size, return_info, include_info)
        size = self._size_of(batch_size)
        if self._endless is None:
            self._endless = self._repeat()
        data = self._next_batch(self._endless, size)
        return (data, {}) if return_info else data

    def __iter__(self) -> Iterator[Any]:
        if self._batch_size is not None and not self.streaming:
            yield from super().__iter__()
        elif self._batch_size is not None:
            episodes = self._stream()
            while (batch := self._next_batch(episodes, self._batch_size)) is not None:
                yield batch
        elif self.streaming:
            for episode in self._stream():
                yield self._deliver(self._cut(episode, self.slice_len) if self.slice_len else episode)
        else:
            yield from self._episodes()

    def _episodes(self) -> Iterator[Any]:
        """Deliver the episodes on disk, or a random slice of each."""
        storage: Any = self.storage
        count = len(storage)
        if self.split_trajs:
            bounds = [(item, item + 1) for item in range(count)]
        else:
            stops = (storage.column(("next", "done")).tensor.flatten().nonzero().flatten() + 1).tolist()
            bounds = list(zip([0, *stops[:-1]], stops, strict=True))
        for number in torch.randperm(len(bounds)).tolist() if self.shuffle else range(len(bounds)):
            start, stop = bounds[number]
            episode = self[start:stop]
            yield episode[0] if self.split_trajs else self._cut(episode, self.slice_len) if self.slice_len else episode

    def _cut(self, episode: Any, length: int) -> Any:
        """Take a random slice of an episode."""
        spare = len(episode) - length
        if spare < 0:
            if self.pad is not None:
                return self._padded(episode, length)
            if self.strict_length:
                raise ValueError(
                    f"An episode of {len(episode)} steps is shorter than a slice of {length}. Fix: pad=True to pad it, "
                    "or strict_length=False to take it whole."
                )
            return episode
        start = int(torch.randint(spare + 1, ()))
        part = episode[start : start + length]
        return self._padded(part, length) if self.pad is not None else part

    def _padded(self, data: Any, length: int) -> Any:
        """Pad the steps of a slice, and mark what is padding. In it, flags are False, and strings are the last ones."""
        spare = length - len(data)
        mask = torch.arange(length) < len(data)
        if spare > 0:
            padding = data[torch.full((spare,), len(data) - 1)]
            for key in leaf_keys(padding):
                entry = padding.get(key)
                if key == "index" or as_tuple(key) in self._texts.keys or not isinstance(entry, torch.Tensor):
                    continue
                padding.set(key, torch.full_like(entry, 0 if entry.dtype == torch.bool else self.pad or 0))
            data = torch.cat([data, padding])
        data.set(MASK_KEY, mask)
        return data

    # Streams ----------------------------------------------------------------------------------------------------------

    def _stream(self) -> Iterator[TensorDict]:
        """Read all episodes from the hub."""
        files = list(self.remote_files())
        seed = int(torch.randint(2**31, ())) if self.shuffle else 0
        dice = random.Random(seed)  # of its own: the order of a stream must not depend on what is sampled meanwhile
        if self.shuffle:
            dice.shuffle(files)
        held: list[TensorDict] = []
        number = 0
        for file in files:
            with open_stream(file) as archive:
                for member in iterate(archive):
                    if not (steps := self._load(member)):
                        continue
                    held.append(_episode(steps, number, self._texts, member.name))
                    number += 1
                    if len(held) >= (_SHUFFLED if self.shuffle else 1):
                        yield held.pop(dice.randrange(len(held)) if self.shuffle else 0)
        if self.shuffle:
            dice.shuffle(held)
        yield from held

    def _repeat(self) -> Iterator[TensorDict]:
        while True:
            yield from self._stream()

    def _next_batch(self, episodes: Iterator[TensorDict], size: int) -> Any:
        """Make a batch of slices of the next episodes; None at their end."""
        length = self._length(size)
        slices = []
        for _ in range(size // length):
            if (episode := next(episodes, None)) is None:
                break
            slices.append(self._cut(episode, length))
        return self._deliver(torch.cat(slices)) if slices else None

    def _deliver(self, data: Any) -> Any:
        data = self._texts.decode(data)
        return self._apply_transform(data if self._collate_fn is None else self._collate_fn(data))


class TextStorage(TensorStorage):
    """A storage that has numbers for strings, and reads the strings.

    Args:
        storage: the data.
        texts: the strings.
    """

    def __init__(self, storage: Any, texts: _Texts) -> None:
        super().__init__(storage)
        self._text_table = texts

    def gather(self, index: Any) -> Any:
        """Copy items; see :meth:`Storage.gather`."""
        return self._text_table.decode(super().gather(index))

    def read(self, place: Where) -> Any:
        """Read items; see :meth:`Storage.read`."""
        return self._text_table.decode(super().read(place))


class _Texts:
    """The strings of a dataset: a number for each, and the entries that hold such numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.keys: set[tuple[str, ...]] = set()
        self._list: list[str] = []

    def encode(self, values: Sequence[Any], key: tuple[str, ...]) -> torch.Tensor:
        """Return the numbers of strings, which an entry holds."""
        self.keys.add(key)
        codes = []
        for value in values:
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            if text not in self.numbers:
                self.numbers[text] = len(self._list)
                self._list.append(text)
            codes.append(self.numbers[text])
        return torch.tensor(codes)

    def decode(self, data: Any) -> Any:
        """Replace the numbers by their strings."""
        for key in self.keys:
            codes = data.get(key, None)
            if isinstance(codes, torch.Tensor):
                data.set(key, self._strings(codes, data.batch_size))
        return data

    def _strings(self, codes: torch.Tensor, batch: torch.Size) -> Any:
        flat = codes.flatten().tolist()
        if len(set(flat)) == 1:
            return NonTensorData(self._list[flat[0]], batch_size=batch)
        return NonTensorStack(*(self._list[code] for code in flat)).reshape(batch)

    def save(self) -> dict[str, Any]:
        """Return the strings, and the keys of the entries, as metadata of the dataset."""
        return {"texts": self._list, "text_keys": sorted(self.keys)}

    @classmethod
    def load(cls, metadata: Mapping[str, Any]) -> _Texts:
        """Read what :meth:`save` returned."""
        texts = cls()
        texts._list = metadata["texts"]
        texts.numbers = {text: number for number, text in enumerate(texts._list)}
        texts.keys = {tuple(key) for key in metadata["text_keys"]}
        return texts


# Episodes -------------------------------------------------------------------------------------------------------------


def _episode(steps: Sequence[Mapping[str, Any]], number: int, texts: _Texts, name: str) -> TensorDict:
    """Build the data of an episode."""
    count = len(steps)
    try:
        flags = {flag: _flags(steps, flag) for flag in _FLAGS}
        entries = {
            key: _stack([step[key] for step in steps], (key,), texts)
            for key in steps[0]
            if key not in _FLAGS and any(step[key] is not None for step in steps)
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The steps of {name} are not alike: {error}.") from error
    lacks = [key for key in ("observation", "action") if key not in entries]
    if lacks:
        raise ValueError(f"The steps of {name} have no {lacks[0]!r}. They have: {', '.join(steps[0]) or 'nothing'}.")
    terminated = flags["is_terminal"].bool()
    truncated = flags["is_last"].bool() & ~terminated
    truncated[-1] = not terminated[-1]
    first = flags["is_first"].bool()
    first[0] = True
    root = {**entries, "is_init": first, "episode": torch.full((count,), number, dtype=torch.int32)}
    observation = TensorDict({"observation": entries["observation"]}, [count])
    after = observation[torch.arange(count).add_(1).clamp_(max=count - 1)]
    if terminated[-1]:
        for key in leaf_keys(after):
            if as_tuple(key) not in texts.keys:
                after[key][-1] = 0
    for path in [path for path in texts.keys if path[0] == "observation"]:
        texts.keys.add(("next", *path))
    return ted_steps(root, after, reward=flags["reward"].float(), terminated=terminated, truncated=truncated)


def _flags(steps: Sequence[Mapping[str, Any]], name: str) -> torch.Tensor:
    """One number for each step; zeros if the dataset has none."""
    values = (step.get(name) for step in steps)
    return torch.tensor([0.0 if value is None else float(np.asarray(value).reshape(())) for value in values])


def _stack(values: Sequence[Any], key: tuple[str, ...], texts: _Texts) -> Any:
    """Stack the values of all steps: a tensor, or a dictionary of tensors."""
    first = values[0]
    if isinstance(first, Mapping) and "bytes" in first and set(first) <= {"bytes", "path"}:
        # TIFF has the depths that are numbers with a fraction.
        decode = partial(decode_image, needed_by="OpenXExperienceReplay", formats=["JPEG", "PNG", "TIFF"])
        return _images([decode(value["bytes"]) for value in values])
    if isinstance(first, Mapping):
        return {
            name: _stack([value[name] for value in values], (*key, name), texts)
            for name in first
            if any(value[name] is not None for value in values)
        }
    if isinstance(first, str | bytes):
        return texts.encode(values, key)
    arrays = [np.asarray(value) for value in values]
    if arrays[0].dtype.kind in "SU":
        return texts.encode([array.item() for array in arrays], key)
    if arrays[0].dtype == np.uint8 and arrays[0].ndim == 3 and arrays[0].shape[-1] in (1, 3):
        return _images(arrays)
    stacked = np.stack(arrays)
    return torch.from_numpy(stacked.astype(_WIDER.get(stacked.dtype, stacked.dtype)))


def _images(arrays: Sequence[np.ndarray]) -> torch.Tensor:
    """Images [height, width] or [height, width, channels] as ``[steps, channels, height, width]``."""
    images = torch.from_numpy(np.stack(arrays))
    return images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2).contiguous()
