"""Prompts with the texts that answer them: their tokenizer, and the tensorclass of their batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase, tensorclass

from rlnb.data.rlhf.dataset import TensorDictTokenizer, TokenizedDatasetLoader

__all__ = ["PromptData", "PromptTensorDictTokenizer"]

_DATASET = "CarperAI/openai_summarize_tldr"


class PromptTensorDictTokenizer(TensorDictTokenizer):
    """Tokenizes prompts, each joined with its label, the text that answers it.

    Args:
        tokenizer: a tokenizer of ``transformers``.
        max_length: length of the sequences, in tokens.
        key: entry with the prompts. The labels are in "label", and start with a space if one is needed.
        padding: as for :class:`TensorDictTokenizer`.
        truncation: likewise. The prompt must be kept: ``tokenizer.truncation_side`` is "right".
        return_tensordict: likewise.
        device: likewise.

    Calling it with an example, a mapping or a TensorDict, returns for one prompt, or for a list of ``B``,

    - ``"input_ids"`` and ``"attention_mask"`` of prompt and label, as :class:`TensorDictTokenizer` does;
    - ``"prompt_rindex"``: index of the last token of the prompt, int64, of shape ``[]`` or ``[B]``. A token of both
      prompt and label counts as one of the prompt.
    - ``"valid_sample"``: whether the text fits into ``max_length`` with the token that ends a sequence after it.

    Raises:
        KeyError: If an example has no prompt or no label.
        ValueError: If there are not as many labels as prompts, a prompt has no token, or the tokenizer cuts the
            beginnings of texts off.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"[PAD]": 0, "a": 1, "cat": 2, "sleeps": 3}, unk_token="[PAD]"))
        >>> words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
        >>> example = {"prompt": ["a cat", "a"], "label": [" sleeps", " cat sleeps sleeps"]}
        >>> data = PromptTensorDictTokenizer(tokenizer, max_length=4)(example)
        >>> data["input_ids"].tolist(), data["prompt_rindex"].tolist(), data["valid_sample"].tolist()
        ([[1, 2, 3, 0], [1, 2, 3, 3]], [1, 0], [True, False])
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int,
        key: str = "prompt",
        padding: str | bool = "max_length",
        truncation: bool = True,
        return_tensordict: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__(tokenizer, max_length, key, padding, truncation, return_tensordict, device)

    def __call__(self, sample: Mapping[str, Any] | TensorDictBase) -> Any:
        """Tokenize an example: a TensorDict, or without ``return_tensordict`` a dictionary of lists."""
        prompts, single = self._texts(sample, self.key)
        labels, _ = self._texts(sample, "label")
        if len(prompts) != len(labels):
            raise ValueError(f"There are {len(prompts)} prompts and {len(labels)} labels. Fix: one label a prompt.")
        if self.truncation and self.tokenizer.truncation_side == "left":
            raise ValueError(
                "The tokenizer cuts texts off at their beginning, where the prompts are. "
                'Fix: tokenizer.truncation_side = "right".'
            )
        encoding = self._encode([prompt + label for prompt, label in zip(prompts, labels, strict=True)])
        rows = encoding["input_ids"]
        last = np.array([self._last(encoding, i, prompt) for i, prompt in enumerate(prompts)], np.int64)
        ends = self.tokenizer.eos_token_id
        valid = np.array([len(row) < self.max_length or row[-1] == ends for row in rows], bool)
        ids, mask = self._padded(rows)
        if self.tokenizer.padding_side == "left" and self.padding != "do_not_pad":
            last += ids.shape[1] - np.fromiter(map(len, rows), np.int64, len(rows))
        columns = {"input_ids": ids, "attention_mask": mask, "prompt_rindex": last, "valid_sample": valid}
        return self._result(columns, single)

    def _last(self, encoding: Any, row: int, prompt: str) -> int:
        """Return the index of the last token of a prompt in a row that is not padded."""
        text = prompt.rstrip()  # where a tokenizer drops spaces, no token is theirs
        if not self.tokenizer.is_fast:  # it does not say which characters are in a token
            return min(len(self._encode([text])["input_ids"][0]), len(encoding["input_ids"][row])) - 1
        for place in range(len(text) - 1, -1, -1):
            token = encoding.char_to_token(row, place)
            if token is not None:
                return int(token)
            if self.truncation and len(encoding["input_ids"][row]) == self.max_length:
                return self.max_length - 1  # the prompt is cut off
        raise ValueError(f"The prompt {prompt!r} has no token. Fix: leave out empty prompts.")


@tensorclass
class PromptData:
    """Prompts with their labels, tokenized; see :class:`PromptTensorDictTokenizer`.

    Attributes:
        input_ids: tokens of prompt and label, ``[*B, T]``.
        attention_mask: 1 for tokens, 0 for padding, ``[*B, T]``.
        prompt_rindex: index of the last token of the prompt, ``[*B]``.
        labels: tokens to predict, ``[*B, T]``; in datasets, those of ``input_ids``.
        logits: what a model wrote, ``[*B, T, vocabulary]``.
        loss: its loss.

    Example:
        >>> tokens = torch.tensor([[5, 6, 7, 0]])
        >>> data = PromptData(input_ids=tokens, attention_mask=tokens.gt(0).long(), prompt_rindex=torch.tensor([1]),
        ...                   batch_size=[1])
        >>> data.mask_label(pad_token_id=0).input_ids
        tensor([[5, 6, 0, 0]])
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    prompt_rindex: torch.Tensor
    labels: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    loss: torch.Tensor | None = None

    def mask_label(self: Any, pad_token_id: int = 50256) -> Any:
        """Return the prompts alone: what follows ``prompt_rindex`` is padding.

        Args:
            pad_token_id: the padding token. Default: that of GPT-2.
        """
        place = torch.arange(self.input_ids.shape[-1], device=self.input_ids.device)
        prompt = (place <= self.prompt_rindex.unsqueeze(-1)) & self.attention_mask.bool()
        return type(self)(
            input_ids=self.input_ids.masked_fill(~prompt, pad_token_id),
            attention_mask=prompt.to(self.attention_mask.dtype),
            prompt_rindex=self.prompt_rindex,
            loss=self.loss,
            batch_size=self.batch_size,
        )

    @classmethod
    def from_dataset(
        cls: Any,  # a type checker does not know the batch size of tensorclasses
        split: str,
        dataset_name: str | Path | None = None,
        max_length: int = 550,
        root_dir: str | Path | None = None,
        from_disk: bool = False,
        num_workers: int | None = None,
        *,
        tokenizer_class: Any = None,
        tokenizer_model_name: str | Path | None = None,
    ) -> Any:
        """Return a memory-mapped dataset of prompts, tokenized if it was not before.

        Args:
            split: name of the split.
            dataset_name: name on the hub, or path, of a dataset with the columns "prompt" and "label". Default:
                "CarperAI/openai_summarize_tldr".
            max_length: length of the sequences, in tokens.
            root_dir: folder of tokenized datasets.
            from_disk: whether ``dataset_name`` is the path of a saved dataset.
            num_workers: ignored; accepted for code written for TorchRL.
            tokenizer_class: as for :class:`TokenizedDatasetLoader`, which also says what is raised.
            tokenizer_model_name: likewise.

        Returns:
            The dataset, of batch size ``[rows]``.
        """
        data = TokenizedDatasetLoader(
            split,
            max_length,
            _DATASET if dataset_name is None else dataset_name,
            PromptTensorDictTokenizer,
            root_dir=root_dir,
            from_disk=from_disk,
            num_workers=num_workers,
            tokenizer_class=tokenizer_class,
            tokenizer_model_name=tokenizer_model_name,
        ).load()
        entries = {key: data[key] for key in ("input_ids", "attention_mask", "prompt_rindex")}
        return cls(**entries, labels=data["input_ids"], batch_size=data.batch_size)
