"""What modules have in common: the first states of all recurrent parts of a policy."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from rlnb.envs.transforms.compose import Compose
from rlnb.envs.transforms.primer import TensorDictPrimer


def get_primers_from_module(module: nn.Module, warn: bool = True) -> TensorDictPrimer | Compose | None:
    """Make the transform that puts the first states of all recurrent modules in a policy into the data of an env.

    Args:
        module: the policy.
        warn: warn if there is no recurrent module in it.

    Returns:
        A :class:`~rlnb.envs.TensorDictPrimer`, a :class:`~rlnb.envs.Compose` of several, or None if there is nothing to
        put there.

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
                f"There is no recurrent module in this {type(module).__name__}, and so no state to begin with. "
                "Fix: get_primers_from_module(module, warn=False) if none is expected.",
                stacklevel=2,
            )
        return None
    return primers[0] if len(primers) == 1 else Compose(*primers)


__all__ = ["get_primers_from_module"]
