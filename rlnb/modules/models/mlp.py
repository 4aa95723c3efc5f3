"""A multi-layer perceptron."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from rlnb.modules.models.utils import LayerStack, SharedBias, layer_sizes, make_norm, per_layer

Tensor = torch.Tensor


class MLP(LayerStack):
    """A multi-layer perceptron, an ``nn.Sequential`` of linear layers with activations between them.

    A hidden layer is a linear layer, then dropout, normalization and the activation. Several inputs are concatenated
    along their last dimension, as in ``net(observation, action)`` for Q(s, a).

    Args:
        in_features: number of input features. None: that of the first input; run the network once before you make the
            optimizer or copy the network.
        out_features: number of output features, or a shape that the output is given.
        depth: number of hidden layers. Default: the length of ``num_cells``, or 0.
        num_cells: sizes of the hidden layers, or the size of each. Default: 32.
        activation_class: what makes an activation, such as ``nn.ReLU``.
        activation_kwargs: its keywords, for all or a list with those of each.
        norm_class: what makes a normalization, such as ``nn.LayerNorm``. None: no normalization.
        norm_kwargs: its keywords, for all or a list with those of each.
        dropout: dropout probability of the hidden layers. None: no dropout.
        bias_last_layer: whether the last layer has a bias.
        single_bias_last_layer: whether the last layer has one bias for all features.
        layer_class: what makes a linear layer from its numbers of features.
        layer_kwargs: its keywords, for all or a list with those of each.
        activate_last_layer: whether the last layer is followed by dropout, normalization and activation, too.
        device: device of the parameters.

    Raises:
        ValueError: If ``out_features`` is missing, or depth, sizes and lists of keywords do not fit each other. At a
            call, if an input does not fit.
        TypeError: If a normalization needs keywords that it was not given.

    Example:
        >>> MLP(3, 2, num_cells=[8, 8], activation_class=nn.ReLU)
        MLP(
          (0): Linear(in_features=3, out_features=8, bias=True)
          (1): ReLU()
          (2): Linear(in_features=8, out_features=8, bias=True)
          (3): ReLU()
          (4): Linear(in_features=8, out_features=2, bias=True)
        )
        >>> MLP(out_features=1, depth=1)(torch.ones(5, 3), torch.ones(5, 2)).shape
        torch.Size([5, 1])
    """

    def __init__(
        self,
        in_features: int | None = None,
        out_features: int | Iterable[int] | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: Callable[..., nn.Module] = nn.Tanh,
        activation_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        norm_class: Callable[..., nn.Module] | None = None,
        norm_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        dropout: float | None = None,
        bias_last_layer: bool = True,
        single_bias_last_layer: bool = False,
        layer_class: Callable[..., nn.Module] = nn.Linear,
        layer_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        activate_last_layer: bool = False,
        device: Any = None,
    ) -> None:
        if out_features is None:
            raise ValueError(
                "MLP must know the number of its output features. Fix: MLP(in_features, out_features), such as "
                "out_features=env.action_spec.shape[-1]."
            )
        shape = [out_features] if isinstance(out_features, int) else list(out_features)
        hidden = layer_sizes(type(self), depth, num_cells, default=32)
        last = len(hidden)
        sizes = [*hidden, math.prod(shape)]
        active = last + activate_last_layer
        activations = per_layer(type(self), "activation_kwargs", activation_kwargs, active)
        norms = per_layer(type(self), "norm_kwargs", norm_kwargs, active)
        linears = per_layer(type(self), "layer_kwargs", layer_kwargs, last + 1)
        linears[-1].setdefault("bias", bias_last_layer)
        if single_bias_last_layer or not bias_last_layer:
            linears[-1]["bias"] = False
        layers: list[nn.Module] = []
        with nullcontext() if device is None else torch.device(device):
            for i, (size_in, size) in enumerate(zip([in_features, *sizes], sizes, strict=False)):
                layers.append(_linear(layer_class, size_in, size, linears[i]))
                if i == last and single_bias_last_layer and bias_last_layer:
                    layers.append(SharedBias())
                if i < active:
                    layers += [] if dropout is None else [nn.Dropout(dropout)]
                    if norm_class is not None:
                        layers.append(make_norm(type(self), norm_class, norms[i], sizes[:active]))
                    layers.append(activation_class(**activations[i]))
        super().__init__(*layers)
        self.in_features, self.out_features = in_features, out_features
        self.depth, self.num_cells = last, hidden
        self._shape = None if isinstance(out_features, int) else shape

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute the output ``[*B, out_features]`` of inputs ``[*B, features]``."""
        value = self.run(inputs[0] if len(inputs) == 1 else torch.cat(inputs, -1))
        return value if self._shape is None else value.reshape(*value.shape[:-1], *self._shape)


def _linear(layer_class: Any, size_in: int | None, size: int, options: dict[str, Any]) -> nn.Module:
    """Make a linear layer, a lazy one where the number of input features is not known."""
    if size_in is not None:
        made: nn.Module = layer_class(size_in, size, **options)
        return made
    if layer_class is nn.Linear:
        return nn.LazyLinear(size, **options)
    raise ValueError(
        f"MLP cannot make its first layer without in_features: only nn.Linear takes its size from the first input, and "
        f"layer_class is {getattr(layer_class, '__name__', layer_class)!r}. Fix: in_features=..., the size of the "
        "observation."
    )
