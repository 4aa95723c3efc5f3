"""Ensembles: one network that takes its tensors from parameters stacked in their first dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase, TensorDictParams
from torch import nn

from rlnb._tensordict import entry
from rlnb.data.ted.keys import NestedKey, as_key

Slot = tuple[dict[str, Any], str, NestedKey]
"""Where a module stores a tensor: its dictionary, the name in it, and the key in a TensorDict of parameters."""


def slots_of(network: nn.Module) -> list[Slot] | None:
    """List where a network stores its parameters and buffers, or ``None`` if they are in other places, too.

    Recurrent layers hold their weights twice, and modules such as ``MultiAgentMLP`` have a TensorDict of them.

    Example:
        >>> [(name, key) for _, name, key in slots_of(nn.Sequential(nn.Linear(2, 1)))]
        [('weight', ('0', 'weight')), ('bias', ('0', 'bias'))]
    """
    if any(isinstance(module, (nn.RNNBase, TensorDictParams)) for module in network.modules()):
        return None
    found: list[Slot] = []
    for path, module in network.named_modules(remove_duplicate=False):
        above = path.split(".") if path else []
        stores: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for store in stores:
            found += [(store, name, as_key((*above, name))) for name, value in store.items() if value is not None]
    return found


def run_members(
    run: Callable[[], torch.Tensor], network: Any, slots: list[Slot] | None, params: Any, *, detached: bool
) -> torch.Tensor:
    """Call a function while a network has the parameters of each member of an ensemble in turn; stack the results.

    Writing the slots takes a few microseconds. ``params.to_module``, which this stands for, takes as long as a network
    of two layers, forwards and backwards. Networks without slots need it.

    Args:
        run: uses the network.
        network: the network.
        slots: those of the network, as :func:`slots_of` lists them.
        params: its parameters, ``[members, ...]``.
        detached: whether no gradient reaches them.

    Returns:
        The results, ``[members, ...]``.
    """
    results = []
    if slots is None:
        for member in (params.data if detached else params).unbind(0):
            with member.to_module(network):
                results.append(run())
        return torch.stack(results)
    source: TensorDictBase = getattr(params, "_param_td", params)
    stacked = [entry(source, key) for _, _, key in slots]
    columns = [(value.detach() if detached else value).unbind(0) for value in stacked]
    before = [store[name] for store, name, _ in slots]
    try:
        for values in zip(*columns, strict=True):
            for (store, name, _), value in zip(slots, values, strict=True):
                store[name] = value
            results.append(run())
    finally:
        for (store, name, _), value in zip(slots, before, strict=True):
            store[name] = value
    return torch.stack(results)
