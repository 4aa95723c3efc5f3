"""Dueling Q-networks, which add the value of the state and the advantages of the actions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from rlnb.modules.models.convnet import ConvNet
from rlnb.modules.models.mlp import MLP

Tensor = torch.Tensor

_OUTPUT = {"depth": 1, "num_cells": 512, "activation_class": nn.ELU, "bias_last_layer": True}


class DuelingMlpDQNet(nn.Module):
    r"""A dueling Q-network of vectors.

    .. math::
        Q(s, a) = V(s) + A(s, a) - \frac{1}{n} \sum_{a'} A(s, a')

    Both V and A are networks of the same features. Wang et al., Dueling Network Architectures for Deep Reinforcement
    Learning, 2016 (arXiv:1511.06581), equation 9.

    Args:
        out_features: number of actions, or a shape whose last dimension counts them.
        out_features_value: number of values of a state; 1, or the number of actions.
        mlp_kwargs_feature: keywords of the :class:`MLP` of the features, beside the defaults ``num_cells=[256, 256]``,
            ``out_features=256``, ``activation_class=nn.ELU`` and ``activate_last_layer=True``.
        mlp_kwargs_output: keywords of the MLPs of V and A, beside the defaults ``depth=1``, ``num_cells=512`` and
            ``activation_class=nn.ELU``.
        device: device of the parameters.

    Example:
        >>> net = DuelingMlpDQNet(3)
        >>> net(torch.ones(5, 4)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        out_features: int | Iterable[int],
        out_features_value: int = 1,
        mlp_kwargs_feature: dict[str, Any] | None = None,
        mlp_kwargs_output: dict[str, Any] | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        feature = {"num_cells": [256, 256], "activation_class": nn.ELU, "out_features": 256}
        feature |= {"activate_last_layer": True, **(mlp_kwargs_feature or {})}
        self.features = MLP(device=device, **feature)  # type: ignore[arg-type]  # keywords of several types
        self.advantage, self.value = _streams(out_features, out_features_value, mlp_kwargs_output, device)

    def forward(self, value: Tensor) -> Tensor:
        """Compute the values ``[*B, out_features]`` of observations ``[*B, features]``."""
        features = self.features(value)
        return dueling_values(self.value(features), self.advantage(features))


class DuelingCnnDQNet(nn.Module):
    r"""A dueling Q-network of images.

    .. math::
        Q(s, a) = V(s) + A(s, a) - \frac{1}{n} \sum_{a'} A(s, a')

    Both V and A are networks of the same features. Wang et al., Dueling Network Architectures for Deep Reinforcement
    Learning, 2016 (arXiv:1511.06581), equation 9.

    Args:
        out_features: number of actions, or a shape whose last dimension counts them.
        out_features_value: number of values of a state; 1, or the number of actions.
        cnn_kwargs: keywords of the :class:`ConvNet` of the features, beside the defaults ``num_cells=[32, 64, 64]``,
            ``kernel_sizes=[8, 4, 3]`` and ``strides=[4, 2, 1]``.
        mlp_kwargs: keywords of the MLPs of V and A, beside the defaults ``depth=1``, ``num_cells=512`` and
            ``activation_class=nn.ELU``.
        device: device of the parameters.

    Example:
        >>> net = DuelingCnnDQNet(3)
        >>> net(torch.ones(5, 4, 64, 64)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        out_features: int | Iterable[int],
        out_features_value: int = 1,
        cnn_kwargs: dict[str, Any] | None = None,
        mlp_kwargs: dict[str, Any] | None = None,
        device: Any = None,
    ) -> None:
        super().__init__()
        images = {"num_cells": [32, 64, 64], "strides": [4, 2, 1], "kernel_sizes": [8, 4, 3], **(cnn_kwargs or {})}
        self.features = ConvNet(device=device, **images)
        self.advantage, self.value = _streams(out_features, out_features_value, mlp_kwargs, device)

    def forward(self, value: Tensor) -> Tensor:
        """Compute the values ``[*B, out_features]`` of images ``[*B, channels, height, width]``."""
        features = self.features(value)
        return dueling_values(self.value(features), self.advantage(features))


def dueling_values(value: Tensor, advantage: Tensor) -> Tensor:
    """Add values ``[*B, 1]`` and advantages ``[*B, ..., n]``, whose mean is taken off.

    Example:
        >>> dueling_values(torch.tensor([1.0]), torch.tensor([0.0, 2.0]))
        tensor([0., 2.])
    """
    value = value.reshape(*value.shape[:-1], *[1] * (advantage.ndim - value.ndim), value.shape[-1])
    return value + advantage - advantage.mean(-1, keepdim=True)


def _streams(out_features: Any, out_features_value: int, given: dict[str, Any] | None, device: Any) -> tuple[MLP, MLP]:
    """Make the networks of the advantages and of the value."""
    actions = out_features if isinstance(out_features, int) else list(out_features)[-1]
    if out_features_value not in (1, actions):
        raise ValueError(
            f"A dueling network adds one value to the advantages of {actions} actions, and got out_features_value="
            f"{out_features_value}. Fix: out_features_value=1."
        )
    options: dict[str, Any] = _OUTPUT | (given or {})
    return (
        MLP(out_features=out_features, device=device, **options),
        MLP(out_features=out_features_value, device=device, **options),
    )
