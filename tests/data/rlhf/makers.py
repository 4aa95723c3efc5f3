"""Tokenizers, datasets and language models made locally, without a hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = list("abcdefghijklmnop")
PAD, UNKNOWN, END, FIRST = 0, 1, 2, 3  # FIRST is the token of "a"


def make_tokenizer(**options: Any) -> Any:
    """A word is a token; words are separated by spaces, which belong to no token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["<pad>", "<unk>", "<end>", *WORDS]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "<end>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **(special | options))


def saved_tokenizer(folder: Path) -> str:
    make_tokenizer().save_pretrained(folder)
    return str(folder)


def saved_dataset(folder: Path, columns: dict[str, list[Any]], *splits: str) -> str:
    """Save a dataset; with splits, one that has the same rows in each."""
    import datasets

    made = datasets.Dataset.from_dict(columns)
    datasets.disable_progress_bars()
    (datasets.DatasetDict({split: made for split in splits}) if splits else made).save_to_disk(folder)
    return str(folder)


def make_model(seed: int = 0, size: int = 19, likely: tuple[int, ...] = ()) -> Any:
    """A language model that was not trained; ``likely`` tokens are those that it mostly writes."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    shape = {"vocab_size": size, "n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**shape, eos_token_id=END, bos_token_id=END, pad_token_id=PAD))
    model.lm_head = torch.nn.Linear(16, size)
    with torch.no_grad():
        for weights in model.lm_head.parameters():
            weights.mul_(5)
        model.lm_head.bias[list(likely)] += 4
    return model
