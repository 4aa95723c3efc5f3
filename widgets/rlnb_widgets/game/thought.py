"""Probabilities or values that a policy wrote for the actions, as text and bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb_widgets._core.text import number as number_of

_PROBABILITIES = ("action_probs", "probs", "probabilities")
_LOGITS = ("logits",)
_VALUES = ("action_value",)


@dataclass(frozen=True)
class Thought:
    """What a policy wrote about the actions before a move."""

    key: str  #: key of the entry
    words: tuple[str, ...]  #: text for each action, a percentage or a value; empty for an illegal action
    shares: tuple[float, ...]  #: length of the bar of each action, in [0, 1]


def read_thought(data: TensorDictBase, legal: Sequence[bool]) -> Thought | None:
    """Read probabilities, logits or values of the actions; None if there is no such entry of the right size.

    Example:
        >>> from tensordict import TensorDict
        >>> read_thought(TensorDict({"logits": torch.tensor([0.0, 0.0, 5.0])}), [True, True, False]).words
        ('50%', '50%', '')
    """
    for key in (*_PROBABILITIES, *_LOGITS, *_VALUES):
        value: Any = data.get(key, None)
        if (
            not isinstance(value, torch.Tensor)
            or value.numel() != len(legal)
            or not torch.isfinite(value[..., torch.tensor(legal)]).all()
        ):
            continue
        mask, number = torch.tensor(legal), value.detach().reshape(-1).double().cpu()
        if not mask.any():
            return None
        if key in _VALUES:
            low, high = number[mask].min(), number[mask].max()
            shares = (number - low) / (high - low) if high > low else torch.ones_like(number)
            # What is left of values that cancel out is a rounding error.
            least = 0.005 * float(number[mask].abs().max())
            words = ["0.00" if 0 < abs(v) < least else number_of(v, 2) for v in number.tolist()]
        else:
            if key in _LOGITS:
                number = number.masked_fill(~mask, -torch.inf).softmax(-1)
            shares = number.clamp(0, 1)
            words = [f"{100 * v:.0f}%" for v in number.tolist()]
        shown = [word if ok else "" for word, ok in zip(words, legal, strict=True)]
        return Thought(key, tuple(shown), tuple(round(s, 3) for s in shares.masked_fill(~mask, 0.0).tolist()))
    return None
