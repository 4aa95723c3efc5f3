"""A small language in which guests order: its sentences and tokenizer, a model that speaks it, and a waiter.

The waiter likes one "please" in an order, and no more than one. In the comparisons that he makes there are no others,
so nobody who has seen only these knows the second half.
"""

from __future__ import annotations

import random
from typing import Any

import torch

WORDS = [
    "<pad>", "<end>", "can", "could", "will", "you", "bring", "give", "make", "me", "us", "a", "the", "hot", "big",
    "small", "tea", "coffee", "soup", "cake", "please",
]  # fmt: skip
_PLEASE = "please"
#: The words of an answer, place by place.
SLOTS = (
    ("bring", "give", "make"),
    ("me", "us"),
    ("a", "the"),
    ("hot", "big", "small"),
    ("tea", "coffee", "soup", "cake"),
)


def prompt(rng: random.Random) -> str:
    """Draw the beginning of an order, such as "could you"."""
    return f"{rng.choice(['can', 'could', 'will'])} you"


def answer(rng: random.Random, polite: float = 0.3) -> str:
    """Draw the rest of an order; with the probability ``polite`` it begins with "please"."""
    words = [_PLEASE] if rng.random() < polite else []
    return " ".join([*words, *(rng.choice(slot) for slot in SLOTS)])


def liking(text: str) -> int:
    """How much the waiter likes an order: 1 with one "please", 0 without, and 1 less for each one after the first.

    Example:
        >>> liking("bring us a hot tea"), liking("please bring us a hot tea"), liking("please please please")
        (0, 1, -1)
    """
    count = text.split().count(_PLEASE)
    return 2 - count if count else 0


def comparisons(count: int, seed: int = 0, wrong: float = 0.1) -> dict[str, list[str]]:
    """Pairs of answers to the same prompt, half of them with a "please"; the waiter chose one of each pair.

    Args:
        count: number of pairs.
        seed: of the pairs.
        wrong: the probability that he takes the one that he likes less. Between equals he takes any.

    Returns:
        Columns "prompt", "chosen" and "rejected".

    Example:
        >>> rows = comparisons(500)
        >>> chosen, rejected = (sum(map(liking, rows[side])) / 500 for side in ("chosen", "rejected"))
        >>> round(chosen, 1), round(rejected, 1)
        (0.7, 0.3)
    """
    rng = random.Random(seed)
    rows: dict[str, list[str]] = {"prompt": [], "chosen": [], "rejected": []}
    for _ in range(count):
        start, pair = prompt(rng), [answer(rng, polite=0.5), answer(rng, polite=0.5)]
        rng.shuffle(pair)
        pair.sort(key=liking, reverse=True)
        if rng.random() < wrong:
            pair.reverse()
        for column, text in zip(rows.values(), (start, *pair), strict=True):
            column.append(text)
    return rows


def prompts(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Prompts, and for each an answer that somebody gave: columns "prompt" and "label"."""
    rng = random.Random(seed)
    return {
        "prompt": [prompt(rng) for _ in range(count)],
        "label": [f" {answer(rng)}" for _ in range(count)],
    }


def tokenizer() -> Any:
    """Make a tokenizer of ``transformers`` in which each word is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>")


def speaker(updates: int = 250, seed: int = 0) -> Any:
    """Train a tiny GPT-2 to predict the next word of orders, on 2,000 of them.

    Returns:
        A ``transformers.GPT2LMHeadModel`` that speaks as guests do: three of ten orders have a "please".
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    from rlnb.data import TensorDictTokenizer

    torch.manual_seed(seed)
    rng = random.Random(seed)
    texts = [f"{prompt(rng)} {answer(rng)} <end>" for _ in range(2000)]
    data = TensorDictTokenizer(tokenizer(), max_length=9)({"text": texts})
    shape: dict[str, Any] = {"vocab_size": len(WORDS), "n_positions": 32, "n_embd": 32, "n_layer": 1, "n_head": 2}
    dropout: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    model = GPT2LMHeadModel(GPT2Config(**shape, **dropout, bos_token_id=1, eos_token_id=1, pad_token_id=0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(updates):
        batch = data[torch.randint(len(data), (128,))]
        ids, mask = batch["input_ids"], batch["attention_mask"]
        logits = model(input_ids=ids, attention_mask=mask).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1][mask[:, 1:] == 1], ids[:, 1:][mask[:, 1:] == 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model
