"""Pairs of texts, one preferred by people, for training reward models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tensordict import tensorclass

from rlnb._libraries import require_library
from rlnb.data.rlhf.dataset import INSTALL, TensorDictTokenizer, TokenizedDatasetLoader

__all__ = ["PairwiseDataset", "RewardData", "pre_tokenization_hook"]

_DATASET = "CarperAI/openai_summarize_comparisons"


def pre_tokenization_hook(dataset: Any, min_length: int = 5) -> Any:
    r"""Select the pairs to learn from, and join each answer with its prompt.

    A pair is left out if its answers are equal, or one of them has fewer than ``min_length`` words.

    Args:
        dataset: a ``datasets.Dataset`` with the columns "prompt", "chosen" and "rejected".
        min_length: the least number of words of an answer.

    Returns:
        A ``datasets.Dataset`` with the column "text": prompt, newline and answer. The chosen ones are its first half,
        and the rejected ones, in the same order, its second half.

    Raises:
        KeyError: If a column is missing.

    Example:
        >>> from datasets import Dataset
        >>> pairs = Dataset.from_dict({"prompt": ["Hello"], "chosen": ["Good day"], "rejected": ["Go away"]})
        >>> pre_tokenization_hook(pairs, min_length=1)["text"][:]
        ['Hello\nGood day', 'Hello\nGo away']
    """
    missing = [name for name in ("prompt", "chosen", "rejected") if name not in dataset.column_names]
    if missing:
        raise KeyError(
            f"The dataset has no column {missing[0]!r}; it has {', '.join(map(repr, dataset.column_names))}. "
            f"Fix: dataset.rename_column(<one of them>, {missing[0]!r})."
        )
    texts: dict[str, list[str]] = {"chosen": [], "rejected": []}
    for prompt, *answers in zip(dataset["prompt"], dataset["chosen"], dataset["rejected"], strict=True):
        if answers[0] != answers[1] and all(len(answer.split()) >= min_length for answer in answers):
            for name, answer in zip(texts, answers, strict=True):
                texts[name].append(f"{prompt}\n{answer}")
    datasets = require_library("datasets", "PairwiseDataset", INSTALL)
    return datasets.Dataset.from_dict({"text": texts["chosen"] + texts["rejected"]})


@tensorclass
class RewardData:
    """Texts, tokenized, and the rewards that a model gives them.

    Attributes:
        input_ids: tokens, ``[*B, T]``.
        attention_mask: 1 for tokens, 0 for padding, ``[*B, T]``.
        rewards: reward of each token, ``[*B, T]`` or ``[*B, T, 1]``.
        end_scores: reward of the whole text, ``[*B]`` or ``[*B, 1]``.

    Example:
        >>> tokens = torch.tensor([[5, 6, 0]])
        >>> RewardData(input_ids=tokens, attention_mask=tokens.gt(0).long(), batch_size=[1])[0].attention_mask
        tensor([1, 1, 0])
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    rewards: torch.Tensor | None = None
    end_scores: torch.Tensor | None = None


@tensorclass
class PairwiseDataset:
    """Pairs of texts with the same prompt: the one that was chosen, and the one that was rejected.

    Attributes:
        chosen_data: the chosen ones, a :class:`RewardData`.
        rejected_data: the rejected ones, likewise.

    Example:
        >>> mask = torch.ones(1, 2, dtype=torch.long)
        >>> better = RewardData(input_ids=torch.tensor([[5, 6]]), attention_mask=mask, batch_size=[1])
        >>> worse = RewardData(input_ids=torch.tensor([[5, 7]]), attention_mask=mask, batch_size=[1])
        >>> PairwiseDataset(chosen_data=better, rejected_data=worse, batch_size=[1])[0].rejected_data.input_ids
        tensor([5, 7])
    """

    chosen_data: RewardData
    rejected_data: RewardData

    @classmethod
    def from_dataset(
        cls: Any,
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
        """Return a memory-mapped dataset of pairs, tokenized if it was not before.

        Pairs that teach nothing are left out; see :func:`pre_tokenization_hook`.

        Args:
            split: name of the split.
            dataset_name: name on the hub, or path, of a dataset with the columns "prompt", "chosen" and "rejected".
                Default: "CarperAI/openai_summarize_comparisons".
            max_length: length of the sequences, in tokens.
            root_dir: folder of tokenized datasets.
            from_disk: whether ``dataset_name`` is the path of a saved dataset.
            num_workers: ignored; accepted for code written for TorchRL.
            tokenizer_class: as for :class:`TokenizedDatasetLoader`, which also says what is raised.
            tokenizer_model_name: likewise.

        Returns:
            The dataset, of batch size ``[pairs]``.
        """
        data = TokenizedDatasetLoader(
            split,
            max_length,
            _DATASET if dataset_name is None else dataset_name,
            TensorDictTokenizer,
            pre_tokenization_hook,
            root_dir=root_dir,
            from_disk=from_disk,
            num_workers=num_workers,
            tokenizer_class=tokenizer_class,
            tokenizer_model_name=tokenizer_model_name,
        ).load()
        pairs = len(data) // 2
        make: Any = RewardData  # a type checker does not know the batch size of tensorclasses
        chosen, rejected = (
            make(input_ids=half["input_ids"], attention_mask=half["attention_mask"], batch_size=[pairs])
            for half in (data[:pairs], data[pairs:])
        )
        return cls(chosen_data=chosen, rejected_data=rejected, batch_size=[pairs])
