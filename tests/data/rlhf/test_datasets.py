"""Datasets that are tokenized once, resumed, shared between processes, and read by loaders."""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import MemoryMappedTensor

import rlnb.data
from rlnb.data import (
    PairwiseDataset,
    PromptData,
    ReplayBuffer,
    RewardData,
    TensorDictTokenizer,
    TokenizedDatasetLoader,
    create_infinite_iterator,
    get_dataloader,
)
from rlnb.data.rlhf.reward import pre_tokenization_hook
from tests.data.rlhf.makers import FIRST, PAD, WORDS, saved_dataset, saved_tokenizer

PAIRS = {
    "prompt": ["a", "b", "c", "d"],
    "chosen": ["a b c d e", "e d c b a", "a a a a a", "a b c d"],
    "rejected": ["f g h i j", "j i h g f h", "a a a a a", "e f g h i"],  # equal ones, and one that is too short
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_dataset(tmp_path_factory.mktemp("data") / "pairs", PAIRS, "train", "test")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [" ".join(words) for words in itertools.product(WORDS[:13], repeat=3)]
    return saved_dataset(tmp_path_factory.mktemp("data") / "texts", {"text": rows}, "train", "valid", "valid1")


def loader(name: str, root: Path, tokenizer: str, **options: Any) -> TokenizedDatasetLoader:
    given = {"split": "train", "tokenizer_fn": TensorDictTokenizer, "max_length": 4} | options
    split, length, fn = given.pop("split"), given.pop("max_length"), given.pop("tokenizer_fn")
    given.setdefault("from_disk", True)
    return TokenizedDatasetLoader(split, length, name, fn, root_dir=root, tokenizer_model_name=tokenizer, **given)


class Counting(TensorDictTokenizer):
    """A tokenizer that counts its calls, and stops at one of them."""

    calls = 0
    stop_at = -1

    def __call__(self, sample: Any) -> Any:
        type(self).calls += 1
        if type(self).calls == type(self).stop_at:
            raise KeyboardInterrupt
        return super().__call__(sample)


@pytest.fixture
def counting() -> type[Counting]:
    return type("Counted", (Counting,), {"calls": 0, "stop_at": -1})


def test_pairs(pairs: str, tokenizer: str, tmp_path: Path) -> None:
    given = {"root_dir": tmp_path, "from_disk": True, "tokenizer_model_name": tokenizer}
    data: Any = PairwiseDataset.from_dataset("train", pairs, 8, **given)
    assert data.batch_size == (2,) and isinstance(data.chosen_data, RewardData)
    assert isinstance(data.chosen_data.input_ids, MemoryMappedTensor)
    letters = {side: getattr(data, f"{side}_data").input_ids.sub(FIRST).tolist() for side in ("chosen", "rejected")}
    rest = PAD - FIRST
    assert letters["chosen"] == [[0, 0, 1, 2, 3, 4, rest, rest], [1, 4, 3, 2, 1, 0, rest, rest]]
    assert letters["rejected"] == [[0, 5, 6, 7, 8, 9, rest, rest], [1, 9, 8, 7, 6, 5, 7, rest]]
    assert data[1].rejected_data.attention_mask.sum() == 7
    # TorchRL's layout on the disk.
    assert (tmp_path / "pairs" / "train" / "8" / "input_ids.memmap").is_file()


def test_prompts(tokenizer: str, tmp_path: Path) -> None:
    columns = {"prompt": ["a b", "c"], "label": [" c", " d e f g h"]}
    name = saved_dataset(tmp_path / "prompts", columns)
    given = {"root_dir": tmp_path / "tokenized", "from_disk": True, "tokenizer_model_name": tokenizer}
    data: Any = PromptData.from_dataset("train", name, 5, **given)
    assert data.prompt_rindex.tolist() == [1, 0] and (data.labels == data.input_ids).all()
    assert data.logits is None and data.batch_size == (2,)


def test_tokenized_once(texts: str, tokenizer: str, tmp_path: Path, counting: type[Counting]) -> None:
    data = loader(texts, tmp_path, tokenizer, tokenizer_fn=counting).load()
    assert data.batch_size == (13**3,) and counting.calls == 3
    assert data["input_ids"][15].tolist() == [FIRST, FIRST + 1, FIRST + 2, PAD]
    again = loader(texts, tmp_path, "no such tokenizer", tokenizer_fn=counting)
    again.tokenizer_model_name = tokenizer
    assert (again.load() == data).all() and counting.calls == 3
    assert "tokenizer" not in vars(again), "what is cached needs no tokenizer"


@pytest.mark.parametrize("split", ["valid", "valid1"])
def test_validation_splits_are_cut(split: str, texts: str, tokenizer: str, tmp_path: Path) -> None:
    data = loader(texts, tmp_path, tokenizer, split=split, valid_size=7).load()
    assert data.batch_size == (7,)


def test_an_interrupted_dataset_is_resumed(
    texts: str, tokenizer: str, tmp_path: Path, counting: type[Counting]
) -> None:
    whole = loader(texts, tmp_path / "whole", tokenizer, tokenizer_fn=counting).load()
    counting.calls, counting.stop_at = 0, 3
    with pytest.raises(KeyboardInterrupt):
        loader(texts, tmp_path, tokenizer, tokenizer_fn=counting).load()
    assert not (tmp_path / "texts" / "train" / "4").exists()
    counting.calls, counting.stop_at = 0, -1
    resumed = loader(texts, tmp_path, tokenizer, tokenizer_fn=counting).load()
    assert counting.calls == 1 and (resumed == whole).all()
    assert sorted(path.name for path in (tmp_path / "texts" / "train").iterdir()) == [".4.lock", "4"]


def test_chunks_of_something_else_are_not_resumed(
    texts: str, tokenizer: str, tmp_path: Path, counting: type[Counting]
) -> None:
    counting.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        loader(texts, tmp_path, tokenizer, tokenizer_fn=counting).load()
    data = loader(texts, tmp_path, tokenizer, tokenizer_fn=TensorDictTokenizer).load()
    assert data.batch_size == (13**3,) and counting.calls == 3


def test_a_disk_that_fills_up(
    texts: str, tokenizer: str, tmp_path: Path, counting: type[Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, writes = Path.open, itertools.count()

    class Full(io.FileIO):
        def write(self, data: Any) -> int:  # half of the second chunk is written
            if next(writes) < 3:
                return super().write(data)
            super().write(bytes(data)[:100])
            raise OSError(errno.ENOSPC, "No space left on device")

    def full(path: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        return Full(path, mode.replace("b", "")) if path.suffix == ".memmap" else opened(path, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", full)
    partial = tmp_path / "texts" / "train" / ".4.partial"
    text = (
        f"[Errno {errno.ENOSPC}] The disk is full: 1000 of 2197 rows are tokenized, and kept in {str(partial)!r}. "
        "Fix: free some space and call again; it goes on from there"
    )
    with pytest.raises(OSError, match=f"^{re.escape(text)}$"):
        loader(texts, tmp_path, tokenizer, tokenizer_fn=counting).load()
    monkeypatch.undo()
    data = loader(texts, tmp_path, tokenizer, tokenizer_fn=counting).load()
    assert counting.calls == 4  # 2, and 2 after the chunk that is complete
    assert (data == loader(texts, tmp_path / "other", tokenizer).load()).all()


def test_of_two_at_once_one_tokenizes(texts: str, tokenizer: str, tmp_path: Path, counting: type[Counting]) -> None:
    found: list[Any] = []

    def run() -> None:
        found.append(loader(texts, tmp_path, tokenizer, tokenizer_fn=counting).load())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counting.calls == 3 and all((data == found[0]).all() for data in found) and len(found) == 4


SLOW = """
import sys, time, pathlib
from rlnb.data import TensorDictTokenizer
from tests.data.rlhf.test_datasets import loader
class Slow(TensorDictTokenizer):
    def __call__(self, sample):
        with open(sys.argv[4], "a") as file:
            file.write("call\\n")
        time.sleep(0.5)
        return super().__call__(sample)
print(len(loader(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], tokenizer_fn=Slow).load()))
"""


@pytest.mark.deep
def test_a_killed_process_is_resumed_by_the_two_that_come_after(texts: str, tokenizer: str, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    command = [sys.executable, "-c", SLOW, texts, str(tmp_path), tokenizer, str(calls)]
    first = subprocess.Popen(command)
    while not calls.exists() or len(calls.read_text().split()) < 2:
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [other.communicate()[0].strip() for other in others] == ["2197", "2197"]
    assert len(calls.read_text().split()) == 4  # two of the first, of which one is kept, and two more
    assert (loader(texts, tmp_path / "whole", tokenizer).load()["input_ids"][-1] > 0).sum() == 3


@pytest.mark.parametrize("device", ["cpu", None])
def test_loaders(device: str | None, pairs: str, tokenizer: str, tmp_path: Path) -> None:
    given = {"root_dir": tmp_path, "from_disk": True, "tokenizer_model_name": tokenizer}
    endless = get_dataloader(1, 8, PairwiseDataset, device, pairs, **given)
    batches = [next(endless) for _ in range(6)]
    assert all(isinstance(batch, PairwiseDataset) and batch.chosen_data.input_ids.shape == (1, 8) for batch in batches)
    firsts = [batch.chosen_data.input_ids[0, 0].item() - FIRST for batch in batches]
    assert [sorted(firsts[i : i + 2]) for i in (0, 2, 4)] == [[0, 1]] * 3  # each epoch has each pair once
    epoch = get_dataloader(2, 8, PairwiseDataset, device, pairs, infinite=False, prefetch=2, **given)
    assert isinstance(epoch, ReplayBuffer) and [len(batch) for batch in epoch] == [2]


def test_an_infinite_iterator() -> None:
    assert list(itertools.islice(create_infinite_iterator({1: 2, 3: 4}), 5)) == [1, 3, 1, 3, 1]
    once = create_infinite_iterator(iter([1]))
    assert next(once) == 1
    text = (
        "There is nothing, or nothing more, to iterate over in the list_iterator. "
        "Fix: a list or a dataloader, which start again; an iterator ends once."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        next(once)


def test_numbers_to_memory_maps(tmp_path: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_dict({"tokens": [[1, 2], [3, 4]], "labels": [[0.5, 1.5], [2.5, 3.5]]})
    write = TokenizedDatasetLoader.dataset_to_tensordict
    found = write(rows, tmp_path / "a", prefix=("some", "prefix"), features=["tokens", "labels"])
    assert found.batch_size == () and found["some", "prefix"].batch_size == (2,)
    assert found["some", "prefix", "labels"].tolist() == [[0.5, 1.5], [2.5, 3.5]]
    flat = write(rows.remove_columns("labels"), tmp_path / "b", batch_dims=2, valid_mask_key="absent")
    assert flat.batch_size == (2, 2) and isinstance(flat["tokens"], MemoryMappedTensor)
    masked = write(
        rlnb.data.TensorDict({"a": torch.arange(3), "ok": torch.tensor([True, False, True])}, [3]),
        tmp_path / "c",
        "p",
        valid_mask_key="ok",
    )
    assert masked["p", "a"].tolist() == [0, 2] and list(masked["p"].keys()) == ["a"]
    with pytest.raises(ValueError, match=r"^There is no entry to write\. Fix: features=\[\.\.\.\], names of columns"):
        write(rows, tmp_path / "d", features=[])


def test_a_dataset_by_name(tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``load_dataset`` reads a folder of JSON files too, which needs no network."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder, root = tmp_path / "named", tmp_path / "tokenized"
    folder.mkdir()
    (folder / "train.jsonl").write_text('{"text": "a b"}\n{"text": "c"}\n')
    data = loader(str(folder), root, tokenizer, from_disk=False).load()
    assert data["attention_mask"].sum(1).tolist() == [2, 1]
    text = f"There is no split 'test' in {str(folder)!r}; there are 'train'. Fix: split='train'."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        loader(str(folder), root, tokenizer, from_disk=False, split="test").load()


def test_without_a_network(tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets
    import huggingface_hub.constants

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    start = time.monotonic()
    text = (
        "The dataset 'some/texts' is not on this machine and cannot be downloaded. Fix: where there is a network, "
        "datasets.load_dataset('some/texts').save_to_disk('texts'); bring the folder here and pass "
        "dataset_name='texts', from_disk=True."
    )
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(text)}$"):
        loader("some/texts", tmp_path, tokenizer, from_disk=False).load()
    text = (
        "The tokenizer 'no/tokenizer' is not on this machine and cannot be downloaded. Fix: where there is a network, "
        "AutoTokenizer.from_pretrained('no/tokenizer').save_pretrained(\"folder\"); bring the folder here and pass "
        'tokenizer_model_name="folder".'
    )
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(text)}$"):
        TokenizedDatasetLoader.make_tokenizer(tokenizer_model_name="no/tokenizer")
    assert time.monotonic() - start < 20  # the libraries try again for 23 seconds each
    (tmp_path / "cache" / "some___Texts").mkdir(parents=True)  # datasets is asked, since it may be there
    asked: list[str] = []
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split: asked.append(name) or [])
    with pytest.raises(ValueError, match=r"^No row of 'some/texts', split 'train', is left to tokenize\."):
        loader("some/texts", tmp_path, tokenizer, from_disk=False).load()
    assert asked == ["some/texts"]


def test_a_tokenizer_without_padding_pads_with_its_end(tmp_path: Path) -> None:
    from tests.data.rlhf.makers import make_tokenizer

    make_tokenizer(pad_token=None).save_pretrained(tmp_path)
    made = TokenizedDatasetLoader.make_tokenizer(tokenizer_model_name=str(tmp_path))
    assert made.pad_token == made.eos_token == "<end>"


def test_other_data_in_the_folder_is_refused(texts: str, pairs: str, tokenizer: str, tmp_path: Path) -> None:
    loader(texts, tmp_path, tokenizer).load()
    folder = tmp_path / "texts" / "train" / "4"
    text = (
        f"The folder {str(folder)!r} holds other tokenizer_fn='TensorDictTokenizer', not 'Counting'. "
        "Fix: another root_dir; or delete the folder, and the dataset is tokenized again."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        loader(texts, tmp_path, tokenizer, tokenizer_fn=Counting).load()
    (tmp_path / "pairs" / "train" / "4").mkdir(parents=True)
    with pytest.raises(ValueError, match="holds something else"):
        loader(pairs, tmp_path, tokenizer).load()


def test_missing_libraries(texts: str, tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, call in (
        ("datasets", lambda: loader(texts, tmp_path, tokenizer).load()),
        ("transformers", TokenizedDatasetLoader.make_tokenizer),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            text = f"TokenizedDatasetLoader needs {name}, which is not installed. Fix: pip install 'rlnb[rlhf]'."
            with pytest.raises(ImportError, match=f"^{re.escape(text)}$"):
                call()


class Ragged(TensorDictTokenizer):
    def __call__(self, sample: Any) -> Any:
        self.max_length = 4 if sample["text"][0] == "a a a" else 5
        return super().__call__(sample)


class Dropping(TensorDictTokenizer):
    def __call__(self, sample: Any) -> Any:
        return super().__call__(sample)[1:]


def test_errors(texts: str, pairs: str, tokenizer: str, tmp_path: Path) -> None:
    plain = saved_dataset(tmp_path / "saved" / "plain", {"text": ["a"]})
    common = {"root_dir": tmp_path, "from_disk": True, "tokenizer_model_name": tokenizer}
    absent = str(tmp_path / "absent")
    cases: list[tuple[Any, type[Exception], str]] = [
        (
            lambda: loader(absent, tmp_path, tokenizer).load(),
            FileNotFoundError,
            f"There is no saved dataset in {absent!r}. Fix: dataset.save_to_disk({absent!r}), or from_disk=False for "
            "a name on the hub.",
        ),
        (
            lambda: loader(pairs, tmp_path, tokenizer, split="tests").load(),
            ValueError,
            f"There is no split 'tests' in {pairs!r}; there are 'train', 'test'. Fix: split='train'.",
        ),
        (
            lambda: loader(plain, tmp_path, tokenizer, split="valid").load(),
            ValueError,
            f"There is no split 'valid' in {plain!r}; there are 'train'. Fix: split='train'.",
        ),
        (
            lambda: loader(plain, tmp_path, tokenizer, pre_tokenization_hook=lambda rows: rows.select([])).load(),
            ValueError,
            f"No row of {plain!r}, split 'train', is left to tokenize. Fix: a pre_tokenization_hook that keeps some.",
        ),
        (
            lambda: loader(plain, tmp_path, tokenizer, pre_tokenization_hook=pre_tokenization_hook).load(),
            KeyError,
            "\"The dataset has no column 'prompt'; it has 'text'. Fix: dataset.rename_column(<one of them>, "
            "'prompt').\"",
        ),
        (
            lambda: loader(texts, tmp_path, tokenizer, tokenizer_fn=Ragged).load(),
            ValueError,
            "'input_ids' in the chunk behind row 1000 is torch.int64 of shape [n, 5], and the rows before are "
            "torch.int64 of shape [n, 4]. Fix: convert it, so that all rows are alike.",
        ),
        (
            lambda: loader(texts, tmp_path, tokenizer, tokenizer_fn=Dropping).load(),
            ValueError,
            "The tokenizing function made 999 rows of 1000. Fix: drop rows in a pre_tokenization_hook.",
        ),
        (
            lambda: get_dataloader(3, 8, PairwiseDataset, "cpu", pairs, **common),
            ValueError,
            "A batch has 3 items, and the dataset 2. Fix: batch_size=2 at most.",
        ),
        (
            lambda: loader(plain, tmp_path / "saved", tokenizer).load(),
            ValueError,
            f"The tokenized data would be inside of the dataset, in {plain + '/train/4'!r}. "
            "Fix: a root_dir other than the folder of the dataset.",
        ),
        (
            lambda: loader(texts, tmp_path, tokenizer, num_workers=0),
            ValueError,
            "num_workers must be a positive integer, got 0.",
        ),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=f"^{re.escape(text)}$"):
            call()
