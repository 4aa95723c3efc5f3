"""Networks of DDPG: a deterministic actor, and Q(s, a) that reads the action in its second part."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rlnb.modules.models.mlp import MLP

Tensor = torch.Tensor


class DdpgMlpActor(nn.Module):
    """The actor of DDPG for vectors, with two hidden layers.

    Lillicrap et al., Continuous Control with Deep Reinforcement Learning, 2016 (arXiv:1509.02971), section 7: the last
    layer begins near 0. Its output is not bounded; put ``nn.Tanh()`` or a ``TanhDelta`` behind it.

    Args:
        action_dim: length of the action.
        mlp_net_kwargs: keywords of the :class:`MLP`, beside the defaults ``depth=2``, ``num_cells=[400, 300]`` and
            ``activation_class=nn.ELU``.
        device: device of the parameters.

    Example:
        >>> actor = DdpgMlpActor(action_dim=4)
        >>> actor(torch.zeros(10, 6)).shape
        torch.Size([10, 4])
    """

    def __init__(self, action_dim: int, mlp_net_kwargs: dict[str, Any] | None = None, device: Any = None) -> None:
        super().__init__()
        options: dict[str, Any] = {"depth": 2, "num_cells": [400, 300], "activation_class": nn.ELU}
        self.mlp = MLP(device=device, **{**options, "out_features": action_dim, **(mlp_net_kwargs or {})})
        ddpg_init_last_layer(self.mlp)

    def forward(self, observation: Tensor) -> Tensor:
        """Compute the action ``[*B, action_dim]`` of observations ``[*B, features]``."""
        found: Tensor = self.mlp(observation)
        return found


class DdpgMlpQNet(nn.Module):
    """The critic of DDPG for vectors: one layer of the observation, then a network of its output and the action.

    Lillicrap et al., Continuous Control with Deep Reinforcement Learning, 2016 (arXiv:1509.02971), section 7.

    Args:
        mlp_net_kwargs_net1: keywords of the :class:`MLP` of the observation, beside the defaults ``out_features=400``,
            ``depth=0``, ``activation_class=nn.ELU`` and ``activate_last_layer=True``.
        mlp_net_kwargs_net2: keywords of the MLP behind it, beside the defaults ``out_features=1``, ``num_cells=[300]``
            and ``activation_class=nn.ELU``.
        device: device of the parameters.

    Example:
        >>> net = DdpgMlpQNet()
        >>> net(torch.zeros(10, 6), torch.zeros(10, 2)).shape
        torch.Size([10, 1])
    """

    def __init__(
        self,
        mlp_net_kwargs_net1: dict[str, Any] | None = None,
        mlp_net_kwargs_net2: dict[str, Any] | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        first: dict[str, Any] = {"out_features": 400, "num_cells": [], "activation_class": nn.ELU}
        first |= {"activate_last_layer": True, **(mlp_net_kwargs_net1 or {})}
        second: dict[str, Any] = {"out_features": 1, "num_cells": [300], "activation_class": nn.ELU}
        self.mlp1 = MLP(device=device, **first)
        self.mlp2 = MLP(device=device, **(second | (mlp_net_kwargs_net2 or {})))
        ddpg_init_last_layer(self.mlp2)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """Compute the values ``[*B, 1]`` of observations ``[*B, features]`` and actions ``[*B, action_dim]``."""
        found: Tensor = self.mlp2(self.mlp1(observation), action)
        return found


@torch.no_grad()
def ddpg_init_last_layer(module: nn.Sequential, scale: float = 6e-4, device: Any = None) -> None:
    """Redraw the parameters of the last linear layer, from numbers near 0.

    They are uniform in ``[-5 * scale, 5 * scale]``, by default the 0.003 of Lillicrap et al., 2016, section 7.

    Args:
        module: its layers; the last one that has a weight is changed. A lazy weight is left as it is.
        scale: a fifth of the greatest number.
        device: not needed; the numbers are drawn where the parameters are.

    Raises:
        ValueError: If no layer has a weight.

    Example:
        >>> net = MLP(3, 2, num_cells=[8])
        >>> ddpg_init_last_layer(net)
        >>> bool(net[-1].weight.abs().max() <= 0.003)
        True
    """
    linear = next((layer for layer in reversed(list(module)) if getattr(layer, "weight", None) is not None), None)
    if linear is None:
        raise ValueError("ddpg_init_last_layer found no layer with a weight. Fix: give it an MLP.")
    for name in ("weight", "bias"):
        value: Any = getattr(linear, name, None)
        if value is not None and not nn.parameter.is_lazy(value):
            value.uniform_(-5 * scale, 5 * scale)
