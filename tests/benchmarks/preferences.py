"""Times the tokenizing of texts beside the bare fast tokenizer; prints JSON of the best seconds of CPU."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS, WORDS, LENGTH, CHUNK = 4_000, 120, 256, 1000


def texts() -> list[str]:
    """Texts of up to 240 words, with the repeated ones that a language has."""
    import numpy as np

    rng = np.random.default_rng(0)
    syllables = ["ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu", "an", "el", "is", "or", "um"]
    vocabulary = ["".join(rng.choice(syllables, rng.integers(1, 5))) for _ in range(3000)]
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    lengths = rng.integers(1, 2 * WORDS, ROWS)
    words = rng.choice(vocabulary, lengths.sum(), p=weights / weights.sum())
    return [" ".join(row) for row in np.split(words, lengths.cumsum()[:-1])]


def tokenizer_of(rows: list[str]) -> Any:
    """A byte-level BPE tokenizer, as GPT-2's is, that is trained on the texts."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    made = ByteLevelBPETokenizer()
    made.train_from_iterator(rows[:2000], vocab_size=1000, special_tokens=["<end>"], show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, eos_token="<end>", pad_token="<end>")


def cases(folder: Path) -> dict[str, Callable[[], object]]:
    """What is timed: the bare tokenizer on lists of texts, and from a dataset to memory-mapped tensors."""
    import datasets

    from rlnb.data import PromptTensorDictTokenizer, TensorDictTokenizer, TokenizedDatasetLoader

    rows = texts()
    tokenizer = tokenizer_of(rows)
    prompts = [row[: len(row) // 2] for row in rows]
    labels = [row[len(row) // 2 :] for row in rows]
    chunks = [rows[i : i + CHUNK] for i in range(0, ROWS, CHUNK)]
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict({"text": rows}).save_to_disk(folder / "texts")
    TokenizedDatasetLoader.make_tokenizer = staticmethod(lambda **_: tokenizer)  # type: ignore[method-assign]
    bare = {"max_length": LENGTH, "truncation": True}
    process, prompted = TensorDictTokenizer(tokenizer, LENGTH), PromptTensorDictTokenizer(tokenizer, LENGTH)
    runs = iter(range(1_000_000))

    def load() -> object:
        where = folder / str(next(runs))
        return TokenizedDatasetLoader(
            "train", LENGTH, folder / "texts", TensorDictTokenizer, root_dir=where, from_disk=True
        ).load()

    return {
        "bare tokenizer": lambda: [tokenizer(chunk, **bare, padding="max_length") for chunk in chunks],
        "bare tokenizer, to tensors": lambda: [
            tokenizer(chunk, **bare, padding="max_length", return_tensors="pt") for chunk in chunks
        ],
        "bare tokenizer, without padding": lambda: [tokenizer(chunk, **bare) for chunk in chunks],
        "TensorDictTokenizer": lambda: [process({"text": chunk}) for chunk in chunks],
        "PromptTensorDictTokenizer": lambda: [
            prompted({"prompt": prompts[i : i + CHUNK], "label": labels[i : i + CHUNK]}) for i in range(0, ROWS, CHUNK)
        ],
        "TokenizedDatasetLoader": load,
    }


def main(rounds: int) -> None:
    """Print the best time of each case in seconds of CPU for all texts."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread, as what is beside it has
    with tempfile.TemporaryDirectory() as folder:
        calls = cases(Path(folder))
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(rounds):  # in turns, so that a busy moment of the machine hits all of them
            for key, call in calls.items():
                start = time.process_time()
                call()
                best[key] = min(best[key], time.process_time() - start)
    print(json.dumps(best))


if __name__ == "__main__":
    main(int(sys.argv[2]) if len(sys.argv) > 2 else 3)
