"""Preference data: tokenized texts, prompts, pairs of answers, and rollouts of language models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlnb.data.rlhf.dataset import (
        TensorDictTokenizer,
        TokenizedDatasetLoader,
        create_infinite_iterator,
        get_dataloader,
    )
    from rlnb.data.rlhf.prompt import PromptData, PromptTensorDictTokenizer
    from rlnb.data.rlhf.reward import PairwiseDataset, RewardData
    from rlnb.data.rlhf.utils import AdaptiveKLController, ConstantKLController, RolloutFromModel

__all__ = [
    "AdaptiveKLController", "ConstantKLController", "PairwiseDataset", "PromptData", "PromptTensorDictTokenizer",
    "RewardData", "RolloutFromModel", "TensorDictTokenizer", "TokenizedDatasetLoader", "create_infinite_iterator",
    "get_dataloader",
]  # fmt: skip

_HOMES = {
    "dataset": ("TensorDictTokenizer", "TokenizedDatasetLoader", "create_infinite_iterator", "get_dataloader"),
    "prompt": ("PromptData", "PromptTensorDictTokenizer"),
    "reward": ("PairwiseDataset", "RewardData"),
    "utils": ("AdaptiveKLController", "ConstantKLController", "RolloutFromModel"),
}


def __getattr__(name: str) -> Any:
    # Loaded on first use, as in rlnb.data.map.
    for home, names in _HOMES.items():
        if name in names or name == home:
            module = import_module(f"{__name__}.{home}")
            return module if name == home else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
