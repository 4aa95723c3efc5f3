"""Tokenizers of texts, memory-mapped tokenized datasets, and loaders of batches."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._libraries import require_library
from rlnb.data.datasets.conversion import MemmapWriter, alone, beside
from rlnb.data.replay_buffers.buffer import ReplayBuffer
from rlnb.data.replay_buffers.samplers.uniform import SamplerWithoutReplacement
from rlnb.data.replay_buffers.storages.tensor import TensorStorage
from rlnb.data.ted.keys import NestedKey, as_tuple

__all__ = ["TensorDictTokenizer", "TokenizedDatasetLoader", "create_infinite_iterator", "get_dataloader"]

# A tenth of a second of work, and all that an interrupt loses.
_CHUNK = 1000
INSTALL = "pip install 'rlnb[rlhf]'"
_ABOUT = "tokenized.json"  # what the tokens in a folder are made from
_PADDINGS = ("max_length", "longest", "do_not_pad")


class TensorDictTokenizer:
    """Turns texts into token ids and attention masks.

    Args:
        tokenizer: a tokenizer of ``transformers``.
        max_length: length of the sequences, in tokens.
        key: entry with the text, or with the list of texts.
        padding: "max_length"; "longest" or True, to the longest of the texts; "do_not_pad" or False. The side is that
            of the tokenizer, ``tokenizer.padding_side``.
        truncation: whether to cut sequences to ``max_length``. If not, all are as long as the longest one, if that is
            longer.
        return_tensordict: whether to return a TensorDict, instead of a dictionary of lists.
        device: device of the TensorDict. Default: its tensors are on the CPU.

    Calling it with an example, a mapping or a TensorDict, returns

    - ``"input_ids"``: int64, of shape ``[max_length]`` for one text and ``[B, max_length]`` for a list of ``B``;
    - ``"attention_mask"``: likewise, 1 for tokens and 0 for padding.

    Raises:
        ValueError: If a number or the padding is not legal, or the tokenizer has no padding token.
        KeyError: If an example has no entry ``key``.
        TypeError: If that entry is neither a text nor a list of texts.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"[PAD]": 0, "a": 1, "cat": 2, "sleeps": 3}, unk_token="[PAD]"))
        >>> words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
        >>> data = TensorDictTokenizer(tokenizer, max_length=4)({"text": ["a cat sleeps", "a cat"]})
        >>> data["input_ids"]
        tensor([[1, 2, 3, 0],
                [1, 2, 0, 0]])
        >>> data["attention_mask"].sum(-1), data.batch_size
        (tensor([3, 2]), torch.Size([2]))
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int,
        key: str = "text",
        padding: str | bool = "max_length",
        truncation: bool = True,
        return_tensordict: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_length = _positive("max_length", max_length)
        self.key = key
        named = ("longest" if padding else "do_not_pad") if isinstance(padding, bool) else padding
        if named not in _PADDINGS:
            raise ValueError(
                f"padding is one of {', '.join(map(repr, _PADDINGS))}, True and False, got {padding!r}. "
                'Fix: padding="max_length".'
            )
        self.padding = str(named)
        self.truncation = bool(truncation)
        self.return_tensordict = bool(return_tensordict)
        self.device = None if device is None else torch.device(device)

    def __call__(self, sample: Mapping[str, Any] | TensorDictBase) -> Any:
        """Tokenize an example: a TensorDict, or without ``return_tensordict`` a dictionary of lists."""
        texts, single = self._texts(sample, self.key)
        ids, mask = self._padded(self._encode(texts)["input_ids"])
        return self._result({"input_ids": ids, "attention_mask": mask}, single)

    def _texts(self, sample: Mapping[str, Any] | TensorDictBase, key: str) -> tuple[list[str], bool]:
        """Read texts; whether it is a single one."""
        names = list(sample.keys())
        if key not in names:
            raise KeyError(
                f"There is no entry {key!r} to tokenize; there are {', '.join(map(repr, names)) or 'none'}. "
                f"Fix: dataset.rename_column(<one of them>, {key!r})."
            )
        found = sample[key]
        single = isinstance(found, str)
        texts = [found] if single else found if isinstance(found, list) else list(found)
        wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
        if wrong is not None:
            raise TypeError(
                f"The entry {key!r} must be a text or a list of texts, and item {wrong} is a "
                f"{type(texts[wrong]).__name__}. Fix: dataset.filter(lambda row: isinstance(row[{key!r}], str))."
            )
        return texts, single

    def _encode(self, texts: list[str]) -> Any:
        """Call the tokenizer, for lists of ids of the length that they have: padding is faster in NumPy."""
        if self.padding != "do_not_pad" and self.tokenizer.pad_token_id is None:
            raise ValueError(
                f'The tokenizer has no padding token, which padding="{self.padding}" needs. '
                "Fix: tokenizer.pad_token = tokenizer.eos_token."
            )
        if not texts:
            return {"input_ids": []}  # transformers fails here
        limit = {"truncation": True, "max_length": self.max_length} if self.truncation else {}
        return self.tokenizer(texts, padding=False, return_attention_mask=False, return_token_type_ids=False, **limit)

    def _padded(self, ids: list[list[int]]) -> tuple[Any, Any]:
        """Pad lists of ids; return them and the mask as arrays, or as lists of unequal lengths without padding."""
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        longest = int(lengths.max(initial=0))
        if self.padding == "do_not_pad":
            if (lengths != longest).any():
                if self.return_tensordict:
                    raise ValueError(
                        f"Texts of {int(lengths.min())} to {longest} tokens make no tensor. "
                        'Fix: padding="max_length", or return_tensordict=False.'
                    )
                return ids, [[1] * len(row) for row in ids]
            width = longest
        else:
            width = longest if self.padding == "longest" else max(self.max_length, longest)
        place = np.arange(width)
        left = self.tokenizer.padding_side == "left"
        mask = place >= width - lengths[:, None] if left else place < lengths[:, None]
        padded = np.full((len(ids), width), self.tokenizer.pad_token_id or 0)
        # Row by row, from the left, as the lists are.
        padded[mask] = np.fromiter(itertools.chain.from_iterable(ids), np.int64, int(lengths.sum()))
        return padded, mask.astype(np.int64)

    def _result(self, columns: dict[str, Any], single: bool) -> Any:
        if single:
            columns = {key: value[0] for key, value in columns.items()}
        if not self.return_tensordict:
            return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in columns.items()}
        size = [] if single else [len(columns["input_ids"])]
        return TensorDict({key: torch.as_tensor(value) for key, value in columns.items()}, size, device=self.device)


class TokenizedDatasetLoader:
    """Loads a dataset of texts, tokenizes it once, and memory-maps the result.

    The result is in ``<root_dir>/<name of the dataset>/<split>/<max_length>``. It is written in chunks: after an
    interrupt, or on a disk that was full, the next call goes on after the last complete chunk. Of several processes
    that load it at once, one tokenizes and the others wait. When it is there, neither the dataset nor the tokenizer is
    needed any more.

    Args:
        split: name of the split, such as "train" or "valid".
        max_length: length of the sequences, in tokens.
        dataset_name: name on the Hugging Face hub, or a path.
        tokenizer_fn: called with the tokenizer and ``max_length``; returns a function from a batch of rows (a
            dictionary of lists) to a TensorDict or a dictionary, such as :class:`TensorDictTokenizer`.
        pre_tokenization_hook: function from the dataset to the dataset to tokenize.
        root_dir: folder of tokenized datasets. Default: ``~/.cache/rlnb/data``.
        from_disk: whether to read the dataset with ``datasets.load_from_disk``, instead of ``datasets.load_dataset``.
        valid_size: number of rows to use of splits whose name starts with "valid".
        num_workers: ignored; accepted for code written for TorchRL, where it is the number of processes that tokenize.
            Here one does, and fast tokenizers use all cores in threads.
        tokenizer_class: a class with ``from_pretrained``, as those of ``transformers``. Default:
            ``transformers.AutoTokenizer``.
        tokenizer_model_name: name of the tokenizer on the hub, or the path of a saved one. Default: "gpt2".

    Raises:
        ImportError: If ``datasets`` or ``transformers`` is not installed.
        FileNotFoundError: If the dataset or the tokenizer is not there, and cannot be downloaded.
        ValueError: If there is no such split, no row is left, or the folder has other data or is inside the dataset.

    Example:
        >>> loader = TokenizedDatasetLoader("train", 550, "me/texts", TensorDictTokenizer)  # doctest: +SKIP
        >>> loader.load().batch_size  # doctest: +SKIP
        torch.Size([116722])
    """

    def __init__(
        self,
        split: str,
        max_length: int,
        dataset_name: str | Path,
        tokenizer_fn: Callable[..., Any],
        pre_tokenization_hook: Callable[[Any], Any] | None = None,
        root_dir: str | Path | None = None,
        from_disk: bool = False,
        valid_size: int = 2000,
        num_workers: int | None = None,
        tokenizer_class: Any = None,
        tokenizer_model_name: str | Path | None = None,
    ) -> None:
        self.split = split
        self.max_length = _positive("max_length", max_length)
        self.dataset_name = str(dataset_name)
        self.tokenizer_fn = tokenizer_fn
        self.pre_tokenization_hook = pre_tokenization_hook
        self.root_dir = Path.home() / ".cache" / "rlnb" / "data" if root_dir is None else Path(root_dir)
        self.from_disk = from_disk
        self.valid_size = _positive("valid_size", valid_size)
        self.num_workers = None if num_workers is None else _positive("num_workers", num_workers)
        self.tokenizer_class = tokenizer_class
        self.tokenizer_model_name = "gpt2" if tokenizer_model_name is None else str(tokenizer_model_name)

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, made when it is first needed."""
        return self.make_tokenizer(tokenizer_class=self.tokenizer_class, tokenizer_model_name=self.tokenizer_model_name)

    @staticmethod
    def make_tokenizer(*, tokenizer_class: Any = None, tokenizer_model_name: str = "gpt2") -> Any:
        """Make a tokenizer. If it has no padding token, it pads with the token that ends sequences.

        Args:
            tokenizer_class: a class with ``from_pretrained``, as those of ``transformers``. Default:
                ``transformers.AutoTokenizer``.
            tokenizer_model_name: name on the hub, or the path of a saved tokenizer.

        Raises:
            FileNotFoundError: If it is not there and cannot be downloaded.
        """
        if tokenizer_class is None:
            tokenizer_class = require_library("transformers", "TokenizedDatasetLoader", INSTALL).AutoTokenizer
        known = Path(tokenizer_model_name).exists() or _hub_answers()
        try:
            tokenizer = tokenizer_class.from_pretrained(
                tokenizer_model_name, **({} if known else {"local_files_only": True})
            )
        except (OSError, ValueError) as error:
            raise FileNotFoundError(
                f"The tokenizer {tokenizer_model_name!r} is not on this machine and cannot be downloaded. Fix: where "
                f"there is a network, AutoTokenizer.from_pretrained({tokenizer_model_name!r})"
                '.save_pretrained("folder"); bring the folder here and pass tokenizer_model_name="folder".'
            ) from error
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @property
    def data_path(self) -> Path:
        """Where the tokenized data is."""
        return self.root_dir / Path(self.dataset_name).name / self.split / str(self.max_length)

    def load(self) -> TensorDict:
        """Return the memory-mapped dataset, tokenized before if it is not there.

        Returns:
            The entries that the tokenizing function returns, of batch size ``[rows]``.
        """
        folder = self.data_path
        source = Path(self.dataset_name)
        if source.exists() and folder.resolve().is_relative_to(source.resolve()):
            raise ValueError(
                f"The tokenized data would be inside of the dataset, in {str(folder)!r}. "
                "Fix: a root_dir other than the folder of the dataset."
            )
        if not folder.exists():
            with alone(folder):
                if not folder.exists():  # no other process has made it meanwhile
                    self._tokenize(folder)
        self._check(folder)
        return TensorDict.load_memmap(str(folder))

    def _about(self) -> dict[str, Any]:
        """What the result depends on, as far as it can be named."""
        named = {
            name: value if value is None or isinstance(value, str) else getattr(value, "__qualname__", "?")
            for name in ("tokenizer_fn", "pre_tokenization_hook", "tokenizer_class", "tokenizer_model_name")
            for value in [getattr(self, name)]
        }
        size = self.valid_size if self.split.startswith("valid") else None
        return {"dataset_name": self.dataset_name, "from_disk": self.from_disk, "valid_size": size, **named}

    def _check(self, folder: Path) -> None:
        """Refuse the result of another call."""
        try:
            found = json.loads((folder / _ABOUT).read_text())
        except (OSError, ValueError):
            found = {}
        about = self._about()
        other = next((name for name, value in about.items() if name not in found or found[name] != value), None)
        if other is not None:
            what = f"other {other}={found[other]!r}, not {about[other]!r}" if other in found else "something else"
            raise ValueError(
                f"The folder {str(folder)!r} holds {what}. Fix: another root_dir; or delete the folder, and the "
                "dataset is tokenized again."
            )

    def _tokenize(self, folder: Path) -> None:
        dataset = self._dataset()
        total = len(dataset)
        if not total:
            raise ValueError(
                f"No row of {self.dataset_name!r}, split {self.split!r}, is left to tokenize. "
                "Fix: a pre_tokenization_hook that keeps some."
            )
        process = self.tokenizer_fn(self.tokenizer, self.max_length)
        partial, about = beside(folder, "partial"), self._about()
        try:
            with MemmapWriter(partial, {**about, "rows": total}) as writer:
                while (start := writer.rows) < total:
                    count = min(_CHUNK, total - start)
                    found = {
                        key: torch.as_tensor(value) for key, value in process(dataset[start : start + count]).items()
                    }
                    made = len(next(iter(found.values())))
                    if made != count:
                        raise ValueError(
                            f"The tokenizing function made {made} rows of {count}. "
                            "Fix: drop rows in a pre_tokenization_hook."
                        )
                    writer.append(TensorDict(found, [count]))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise OSError(
                errno.ENOSPC,
                f"The disk is full: {writer.rows} of {total} rows are tokenized, and kept in {str(partial)!r}. "
                "Fix: free some space and call again; it goes on from there",
            ) from error
        (partial / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
        os.replace(partial, folder)

    def _dataset(self) -> Any:
        """Load the split of the dataset that is to be tokenized."""
        datasets = require_library("datasets", "TokenizedDatasetLoader", INSTALL)
        dataset = self._read_disk(datasets) if self.from_disk else self._read_hub(datasets)
        if self.split.startswith("valid"):
            dataset = dataset.select(range(min(self.valid_size, len(dataset))))
        return dataset if self.pre_tokenization_hook is None else self.pre_tokenization_hook(dataset)

    def _read_disk(self, datasets: Any) -> Any:
        try:
            found = datasets.load_from_disk(self.dataset_name)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"There is no saved dataset in {self.dataset_name!r}. "
                f"Fix: dataset.save_to_disk({self.dataset_name!r}), or from_disk=False for a name on the hub."
            ) from error
        if isinstance(found, datasets.DatasetDict):
            if self.split not in found:
                raise _no_split(self.split, self.dataset_name, list(found))
            return found[self.split]
        # Of a dataset without splits, datasets itself says that it is "train".
        named = str(found.split or "train")
        if self.split != named:
            raise _no_split(self.split, self.dataset_name, [named])
        return found

    def _read_hub(self, datasets: Any) -> Any:
        try:
            if not (Path(self.dataset_name).exists() or _hub_answers() or _is_cached(datasets, self.dataset_name)):
                raise ConnectionError("The Hugging Face hub does not answer.")
            return datasets.load_dataset(self.dataset_name, split=self.split)
        except (ConnectionError, FileNotFoundError) as error:
            name = self.dataset_name
            raise FileNotFoundError(
                f"The dataset {name!r} is not on this machine and cannot be downloaded. Fix: where there is a network, "
                f"datasets.load_dataset({name!r}).save_to_disk({Path(name).name!r}); bring the folder here and pass "
                f"dataset_name={Path(name).name!r}, from_disk=True."
            ) from error
        except ValueError as error:
            splits = datasets.get_dataset_split_names(self.dataset_name)
            if self.split in splits:
                raise
            raise _no_split(self.split, self.dataset_name, splits) from error

    @staticmethod
    def dataset_to_tensordict(
        dataset: Any,
        data_dir: str | Path,
        prefix: NestedKey | None = None,
        features: Sequence[str] | None = None,
        batch_dims: int = 1,
        valid_mask_key: NestedKey | None = None,
    ) -> TensorDict:
        """Write a dataset of numbers as a memory-mapped TensorDict.

        Args:
            dataset: a ``datasets.Dataset``, a TensorDict, or a mapping of columns.
            data_dir: the folder.
            prefix: key under which the entries are. Default: at the root.
            features: names of the entries to write. Default: all.
            batch_dims: number of batch dimensions.
            valid_mask_key: a boolean entry; rows where it is False are left out, and so is the entry. Default, or if
                there is no such entry: all rows are kept.

        Returns:
            The memory-mapped TensorDict.

        Raises:
            ValueError: If there is no entry to write.

        Example:
            >>> import tempfile
            >>> data = {"tokens": torch.arange(6).view(3, 2), "valid": torch.tensor([True, False, True])}
            >>> write = TokenizedDatasetLoader.dataset_to_tensordict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     write(data, folder, ("my", "set"), valid_mask_key="valid")["my", "set", "tokens"].tolist()
            [[0, 1], [4, 5]]
        """
        names = list(features if features is not None else getattr(dataset, "features", None) or dataset.keys())
        if not names:
            raise ValueError("There is no entry to write. Fix: features=[...], names of columns of the dataset.")
        entries = {name: torch.as_tensor(np.asarray(dataset[name])) for name in names}
        data = TensorDict(entries, next(iter(entries.values())).shape[:batch_dims])
        valid = data.get(valid_mask_key, None) if valid_mask_key is not None else None
        if valid is not None:
            data = data[valid.bool()].exclude(valid_mask_key)
        for name in reversed(as_tuple(prefix) if prefix is not None else ()):
            data = TensorDict({name: data})
        return data.memmap(str(data_dir))


def create_infinite_iterator(iterator: Iterable[Any]) -> Iterator[Any]:
    """Iterate over something again and again.

    Args:
        iterator: it is iterated over from its beginning each time, as a list or a dataloader can be.

    Raises:
        ValueError: If an iteration yields nothing.

    Example:
        >>> import itertools
        >>> list(itertools.islice(create_infinite_iterator([1, 2]), 5))
        [1, 2, 1, 2, 1]
    """
    while True:
        empty = True
        for item in iterator:
            empty = False
            yield item
        if empty:
            raise ValueError(
                f"There is nothing, or nothing more, to iterate over in the {type(iterator).__name__}. "
                "Fix: a list or a dataloader, which start again; an iterator ends once."
            )


def get_dataloader(
    batch_size: int,
    block_size: int,
    tensorclass_type: Any,
    device: torch.device | str | int | None,
    dataset_name: str | Path | None = None,
    infinite: bool = True,
    prefetch: int = 0,
    split: str = "train",
    root_dir: str | Path | None = None,
    from_disk: bool = False,
    num_workers: int | None = None,
    **kwargs: Any,
) -> Any:
    """Make a dataset of texts, and return a loader of shuffled batches from it.

    Args:
        batch_size: number of items of a batch. The rest of an epoch that is smaller is left out.
        block_size: length of the sequences, in tokens.
        tensorclass_type: :class:`PromptData`, :class:`PairwiseDataset`, or another class with ``from_dataset``.
        device: device of the batches.
        dataset_name: name on the hub, or path. Default: that of the class.
        infinite: whether to return an iterator without end, instead of a buffer to iterate over for an epoch.
        prefetch: number of batches to prepare ahead, in threads.
        split: name of the split.
        root_dir: folder of tokenized datasets; see :class:`TokenizedDatasetLoader`.
        from_disk: whether ``dataset_name`` is the path of a saved dataset.
        num_workers: ignored; accepted for code written for TorchRL.
        **kwargs: more arguments of ``from_dataset``, such as ``tokenizer_model_name``.

    Returns:
        An iterator over batches of the class; or with ``infinite=False`` a :class:`ReplayBuffer`.

    Raises:
        ValueError: If the dataset has fewer items than a batch.

    Example:
        >>> prompts = get_dataloader(4, 550, PromptData, "cpu")  # doctest: +SKIP
        >>> next(prompts).input_ids.shape  # doctest: +SKIP
        torch.Size([4, 550])
    """
    data = tensorclass_type.from_dataset(
        split=split,
        dataset_name=dataset_name,
        max_length=_positive("block_size", block_size),
        root_dir=root_dir,
        from_disk=from_disk,
        num_workers=num_workers,
        **kwargs,
    )
    if len(data) < _positive("batch_size", batch_size):
        raise ValueError(
            f"A batch has {batch_size} items, and the dataset {len(data)}. Fix: batch_size={len(data)} at most."
        )
    loader = ReplayBuffer(
        storage=TensorStorage(data),
        sampler=SamplerWithoutReplacement(drop_last=True),
        batch_size=batch_size,
        prefetch=prefetch or None,
        transform=None if device is None else lambda batch: batch.to(device),
    )
    return create_infinite_iterator(loader) if infinite else loader


def _hub_answers() -> bool:
    """Whether the hub can be reached: without a network, its libraries keep trying for most of a minute."""
    hub = require_library("huggingface_hub", "TokenizedDatasetLoader", INSTALL)
    try:
        hub.get_session().head(hub.constants.ENDPOINT, timeout=5)
    except Exception:  # of the library for HTTP, which is another one from version to version
        return False
    return True


def _is_cached(datasets: Any, name: str) -> bool:
    """Whether there may be a copy of a dataset on this machine: its folder is called nearly as the dataset is."""
    cache = Path(datasets.config.HF_DATASETS_CACHE)
    plain, *folders = (
        re.sub(r"[\W_]", "", each.lower()) for each in (name, *(os.listdir(cache) if cache.is_dir() else ()))
    )
    return any(folder.endswith(plain) for folder in folders)


def _positive(name: str, number: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"{name} must be a positive integer, got {number!r}.")
    return number


def _no_split(split: str, name: str, splits: list[str]) -> ValueError:
    return ValueError(
        f"There is no split {split!r} in {name!r}; there are {', '.join(map(repr, splits))}. Fix: split={splits[0]!r}."
    )
