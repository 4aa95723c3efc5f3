"""Helpers for policies with recurrent modules."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.primer import TensorDictPrimer


def get_primers_from_module(module: nn.Module, warn: bool = True) -> TensorDictPrimer | Compose | None:
    """Make the transform that adds the initial states of all recurrent modules of a policy to the data of an env.

    Args:
        module: the policy.
        warn: whether to warn if the policy has no recurrent module.

    Returns:
        A :class:`~rlnb.envs.TensorDictPrimer`, a :class:`~rlnb.envs.Compose` of several, or None without recurrent
        modules.

    Example:
        >>> from rlnb.modules import GRUModule
        >>> net = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")
        >>> list(get_primers_from_module(nn.Sequential(net)).primers.keys())
        ['recurrent_state']
    """
    makers: list[Any] = [getattr(part, "make_tensordict_primer", None) for part in module.modules()]
    primers = [make() for make in makers if make is not None]
    if not primers:
        if warn:
            warnings.warn(
                f"This {type(module).__name__} has no recurrent module, so there is no initial state. "
                "Fix: get_primers_from_module(module, warn=False) if none is expected.",
                stacklevel=2,
            )
        return None
    return primers[0] if len(primers) == 1 else Compose(*primers)
