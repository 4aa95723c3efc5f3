"""Validation of the argument ``env`` of visualizers."""

from __future__ import annotations

import numbers
from types import FunctionType
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase


def check_env(env: Any) -> None:
    """Raise ``TypeError`` if an argument can be neither an environment nor its id.

    Example:
        >>> check_env("CartPole-v1")
        >>> check_env(3)
        Traceback (most recent call last):
        TypeError: env must be an environment or its id, such as "CartPole-v1", got int.
    """
    hints: list[tuple[type | tuple[type, ...], str]] = [
        (TensorDictBase, " To compare two rollouts, call RolloutPlayer.compare(a, b)."),
        ((np.ndarray, torch.Tensor, list, tuple), " Pictures are given as frames=..., keys to draw as strips=..."),
        (type, " Pass an instance of the class."),
        (FunctionType, " If it makes the environment, call it. A policy is not needed, since nothing is run."),
        ((numbers.Number, bytes, dict, set, frozenset), ""),
    ]  # fmt: skip
    for kinds, hint in hints:
        if isinstance(env, kinds):
            said = f"the class {env.__name__}" if isinstance(env, type) else type(env).__name__
            raise TypeError(f'env must be an environment or its id, such as "CartPole-v1", got {said}.{hint}')
