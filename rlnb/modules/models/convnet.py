"""A convolutional network of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from rlnb.modules.models.mlp import MLP
from rlnb.modules.models.utils import LayerStack, SquashDims, Squeeze2dLayer, layer_sizes, make_norm, per_layer

Tensor = torch.Tensor
Sizes = Sequence[Any] | int


class ConvNet(LayerStack):
    """A convolutional network, an ``nn.Sequential`` that ends with a layer that flattens images to features.

    A layer is a convolution, then the activation and the normalization.

    Args:
        in_features: number of channels. None: that of the first input; run the network once before you make the
            optimizer or copy the network.
        depth: number of convolutions. Default: the length of ``num_cells``, or of another list, or 3.
        num_cells: their numbers of output channels, or the number of each. Default: 32.
        kernel_sizes: their kernel sizes, each a number or a pair, or one number for all.
        strides: their strides, in the same way.
        paddings: their paddings, in the same way.
        activation_class: what makes an activation, such as ``nn.ReLU``.
        activation_kwargs: its keywords, for all or a list with those of each.
        norm_class: what makes a normalization, such as ``nn.BatchNorm2d``. None: no normalization.
        norm_kwargs: its keywords, for all or a list with those of each.
        bias_last_layer: whether the last convolution has a bias.
        aggregator_class: what makes the last layer. Default: :class:`~rlnb.modules.models.utils.SquashDims`. None: the
            output is an image.
        aggregator_kwargs: its keywords.
        squeeze_output: whether the last two dimensions of the output, of size 1 each, are removed.
        device: device of the parameters.

    Raises:
        ValueError: If depth, sizes and lists of keywords do not fit each other. At a call, if an input does not fit.
        TypeError: If a normalization needs keywords that it was not given.

    Example:
        >>> net = ConvNet(3, num_cells=[8, 16], kernel_sizes=[4, 3], strides=[2, 1])
        >>> net
        ConvNet(
          (0): Conv2d(3, 8, kernel_size=(4, 4), stride=(2, 2))
          (1): ELU(alpha=1.0)
          (2): Conv2d(8, 16, kernel_size=(3, 3), stride=(1, 1))
          (3): ELU(alpha=1.0)
          (4): SquashDims()
        )
        >>> net(torch.ones(5, 3, 10, 10)).shape
        torch.Size([5, 64])
    """

    feature_dim = -3

    def __init__(
        self,
        in_features: int | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        kernel_sizes: Sizes = 3,
        strides: Sizes = 1,
        paddings: Sizes = 0,
        activation_class: Callable[..., nn.Module] = nn.ELU,
        activation_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        norm_class: Callable[..., nn.Module] | None = None,
        norm_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        bias_last_layer: bool = True,
        aggregator_class: Callable[..., nn.Module] | None = SquashDims,
        aggregator_kwargs: dict[str, Any] | None = None,
        squeeze_output: bool = False,
        device: Any = None,
    ) -> None:
        given = {"kernel_sizes": kernel_sizes, "strides": strides, "paddings": paddings}
        lengths = [len(value) for value in given.values() if not isinstance(value, int)]
        default = 3 if num_cells is None else 0
        sizes = layer_sizes(type(self), depth, num_cells, 32, length=lengths[0] if lengths else default)
        if not sizes:
            raise ValueError("ConvNet needs one convolution at least. Fix: num_cells=[32, 64, 64].")
        count = len(sizes)
        kernels, steps, pads = (_of_each(name, value, count) for name, value in given.items())
        activations = per_layer(type(self), "activation_kwargs", activation_kwargs, count)
        norms = per_layer(type(self), "norm_kwargs", norm_kwargs, count)
        layers: list[nn.Module] = []
        with nullcontext() if device is None else torch.device(device):
            for i, (channels, size) in enumerate(zip([in_features, *sizes], sizes, strict=False)):
                options: dict[str, Any] = {
                    "kernel_size": kernels[i],
                    "stride": steps[i],
                    "padding": pads[i],
                    "bias": bias_last_layer or i < count - 1,
                }
                layers.append(
                    nn.LazyConv2d(size, **options) if channels is None else nn.Conv2d(channels, size, **options)
                )
                layers.append(activation_class(**activations[i]))
                if norm_class is not None:
                    layers.append(make_norm(type(self), norm_class, norms[i], sizes))
            if aggregator_class is not None:
                layers.append(aggregator_class(**(aggregator_kwargs or {})))
            if squeeze_output:
                layers.append(Squeeze2dLayer())
        super().__init__(*layers)
        self.in_features, self.depth, self.num_cells = in_features, count, sizes

    def forward(self, value: Tensor) -> Tensor:
        """Compute the features ``[*B, features]`` of images ``[*B, channels, height, width]``."""
        batch = value.shape[:-3]
        if len(batch) < 2:  # what a convolution takes
            return self.run(value)
        found = self.run(value.flatten(0, len(batch) - 1))
        return found.unflatten(0, batch)

    @classmethod
    def default_atari_dqn(cls, num_actions: int) -> nn.Sequential:
        """Make the network of DQN for Atari, from 4 frames of 84 x 84 pixels to the values of the actions.

        Mnih et al., Human-level Control through Deep Reinforcement Learning, 2015, methods, "Model architecture".

        Args:
            num_actions: number of actions.

        Example:
            >>> ConvNet.default_atari_dqn(6)(torch.zeros(2, 4, 84, 84)).shape
            torch.Size([2, 6])
        """
        images = cls(num_cells=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1], activation_class=nn.ReLU)
        return nn.Sequential(images, MLP(out_features=num_actions, num_cells=[512], activation_class=nn.ReLU))


def _of_each(name: str, value: Sizes, count: int) -> list[Any]:
    """Return one value for each convolution."""
    if isinstance(value, int):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"ConvNet expects one number as {name}, or a list of {count}, one for each convolution, and got "
            f"{list(value)}. Fix: a kernel that is not square is a pair in the list, {name}=[(3, 5), ...]."
        )
    return list(value)
