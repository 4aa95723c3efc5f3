"""TensorDictTokenizer and PromptTensorDictTokenizer beside a bare tokenizer of transformers."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from rlnb.data import PromptData, PromptTensorDictTokenizer, TensorDictTokenizer
from tests.data.rlhf.makers import END, FIRST, PAD, WORDS, make_tokenizer

TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join), min_size=1, max_size=5)
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)


@given(TEXTS, st.integers(1, 8), st.sampled_from(["max_length", "longest", True]), st.sampled_from(["left", "right"]))
def test_ids_and_masks_are_those_of_the_bare_tokenizer(texts: list[str], length: int, padding: Any, side: str) -> None:
    tokenizer = make_tokenizer(padding_side=side)
    data = TensorDictTokenizer(tokenizer, length, padding=padding)({"text": texts, "other": [None] * len(texts)})
    bare = tokenizer(texts, max_length=length, padding=padding, truncation=True)
    assert data.batch_size == (len(texts),) and set(data.keys()) == {"input_ids", "attention_mask"}
    for key in data.keys():  # noqa: SIM118 - a TensorDict iterates over rows
        assert data[key].dtype is torch.int64
        assert data[key].tolist() == bare[key]


def test_one_text_a_tensordict_and_lists() -> None:
    tokenizer = make_tokenizer()
    one = TensorDictTokenizer(tokenizer, 4, key="words")({"words": "a b"})
    assert one.batch_size == () and one["input_ids"].tolist() == [FIRST, FIRST + 1, PAD, PAD]
    of_td = TensorDictTokenizer(tokenizer, 4, device="cpu")(TensorDict({"text": ["a b", "c"]}, [2]))
    assert of_td.device == torch.device("cpu") and of_td["attention_mask"].sum(1).tolist() == [2, 1]
    lists = TensorDictTokenizer(tokenizer, 4, padding=False, return_tensordict=False)({"text": ["a b", "c"]})
    assert lists == {"input_ids": [[FIRST, FIRST + 1], [FIRST + 2]], "attention_mask": [[1, 1], [1]]}
    none = TensorDictTokenizer(tokenizer, 4)({"text": []})
    assert none.batch_size == (0,) and none["input_ids"].shape == (0, 4)


def test_without_truncation_all_are_as_long_as_the_longest() -> None:
    whole = TensorDictTokenizer(make_tokenizer(), 2, truncation=False)({"text": ["a b c d", "a"]})
    assert whole["attention_mask"].sum(1).tolist() == [4, 1]


@given(SENTENCES, SENTENCES, st.integers(1, 12), st.sampled_from(["left", "right"]))
def test_the_last_token_of_a_prompt(prompt: list[str], label: list[str], length: int, side: str) -> None:
    process = PromptTensorDictTokenizer(make_tokenizer(padding_side=side), length)
    example = {"prompt": " ".join(prompt) + " ", "label": " ".join(label)}
    data = process({key: [value, "a"] for key, value in example.items()})
    words = (prompt + label)[:length]
    padding = length - len(words) if side == "left" else 0
    assert data["input_ids"][0][data["attention_mask"][0].bool()].tolist() == [FIRST + WORDS.index(w) for w in words]
    assert data["prompt_rindex"][0].item() == padding + min(len(prompt), length) - 1
    # A text fits if the token that ends it fits too.
    assert data["valid_sample"][0].item() is (len(prompt + label) < length)
    single = process(example)
    assert single.batch_size == () and (single["prompt_rindex"] == data["prompt_rindex"][0]).all()


def test_a_text_that_has_its_end_is_valid_when_it_just_fits() -> None:
    data = PromptTensorDictTokenizer(make_tokenizer(), 3)({"prompt": ["a", "a"], "label": [" b <end>", " b c"]})
    assert data["input_ids"][0, -1] == END and data["valid_sample"].tolist() == [True, False]


def test_a_token_of_prompt_and_label_counts_as_one_of_the_prompt() -> None:
    data = PromptTensorDictTokenizer(make_tokenizer(), 5)({"prompt": ["a b"], "label": ["c d"]})  # the word "bc"
    assert data["attention_mask"].sum() == 3 and data["prompt_rindex"].item() == 1


def test_a_tokenizer_that_is_not_fast_finds_the_same_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    example = {"prompt": ["a b", "a b c d e f"], "label": [" c d", " g"]}
    fast = PromptTensorDictTokenizer(make_tokenizer(), 5)(example)
    slow = make_tokenizer()
    monkeypatch.setattr(type(slow), "is_fast", False)
    assert (PromptTensorDictTokenizer(slow, 5)(example) == fast).all()


def test_prompts_alone() -> None:
    for side in ("left", "right"):
        example = {"prompt": ["a b", "c"], "label": [" c", " d e f"]}
        found = PromptTensorDictTokenizer(make_tokenizer(padding_side=side), 5)(example)
        rows = {key: found[key] for key in ("input_ids", "attention_mask", "prompt_rindex")}
        alone = PromptData(**rows, batch_size=[2]).mask_label(pad_token_id=99)
        assert alone.batch_size == (2,) and alone.attention_mask.sum(1).tolist() == [2, 1]
        assert [row[row != 99].tolist() for row in alone.input_ids] == [[FIRST, FIRST + 1], [FIRST + 2]]


def call(process: type, sample: Any, length: Any = 4, pad: Any = "<pad>", **options: Any) -> None:
    cut = options.pop("cut", "right")
    process(make_tokenizer(pad_token=pad, truncation_side=cut), length, **options)(sample)


@pytest.mark.parametrize(
    ("process", "sample", "options", "kind", "text"),
    [
        (
            TensorDictTokenizer,
            {"prose": "a", "id": 3},
            {},
            KeyError,
            "\"There is no entry 'text' to tokenize; there are 'prose', 'id'. "
            "Fix: dataset.rename_column(<one of them>, 'text').\"",
        ),
        (
            TensorDictTokenizer,
            {"text": ["a", None]},
            {},
            TypeError,
            "The entry 'text' must be a text or a list of texts, and item 1 is a NoneType. "
            "Fix: dataset.filter(lambda row: isinstance(row['text'], str)).",
        ),
        (TensorDictTokenizer, {}, {"length": 0}, ValueError, "max_length must be a positive integer, got 0."),
        (
            TensorDictTokenizer,
            {},
            {"padding": "right"},
            ValueError,
            "padding is one of 'max_length', 'longest', 'do_not_pad', True and False, got 'right'. "
            'Fix: padding="max_length".',
        ),
        (
            TensorDictTokenizer,
            {"text": "a"},
            {"pad": None},
            ValueError,
            'The tokenizer has no padding token, which padding="max_length" needs. '
            "Fix: tokenizer.pad_token = tokenizer.eos_token.",
        ),
        (
            TensorDictTokenizer,
            {"text": ["a b", "c"]},
            {"padding": False},
            ValueError,
            'Texts of 1 to 2 tokens make no tensor. Fix: padding="max_length", or return_tensordict=False.',
        ),
        (
            PromptTensorDictTokenizer,
            {"prompt": ["a", "b"], "label": ["c"]},
            {},
            ValueError,
            "There are 2 prompts and 1 labels. Fix: one label a prompt.",
        ),
        (
            PromptTensorDictTokenizer,
            {"prompt": ["a"], "label": ["c"]},
            {"cut": "left"},
            ValueError,
            "The tokenizer cuts texts off at their beginning, where the prompts are. "
            'Fix: tokenizer.truncation_side = "right".',
        ),
        (
            PromptTensorDictTokenizer,
            {"prompt": ["a", " "], "label": [" c", " d"]},
            {},
            ValueError,
            "The prompt ' ' has no token. Fix: leave out empty prompts.",
        ),
    ],
)
def test_errors(process: type, sample: Any, options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        call(process, sample, **options)
