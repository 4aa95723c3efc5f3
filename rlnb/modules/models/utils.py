"""Parts that the networks share: options for each layer, layers that reshape, errors about inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor


class LayerStack(nn.Sequential):
    """Base class of networks that run layer after layer, and explain inputs that do not fit the first one.

    A slice, such as ``net[:-1]``, is a plain ``nn.Sequential`` of the same layers.

    Example:
        >>> stack = LayerStack(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        >>> type(stack[:-1]).__name__, stack(torch.ones(5, 3)).shape
        ('Sequential', torch.Size([5, 2]))
    """

    #: The dimension of an input that counts its features.
    feature_dim = -1

    def __getitem__(self, index: Any) -> Any:
        """Return a layer, or the layers of a slice."""
        if isinstance(index, slice):
            return nn.Sequential(*list(self)[index])
        return super().__getitem__(index)

    def run(self, value: Tensor) -> Tensor:
        """Run all layers.

        Raises:
            ValueError: If the features or the dtype of the input are not those of the first layer.
        """
        try:
            found: Tensor = super().forward(value)
        except RuntimeError as error:
            # Asked only after a failure, so that a step that fits costs nothing.
            text = misfit(self, self[0], value, self.feature_dim)
            if text is None:
                raise
            raise ValueError(text) from error
        return found


def misfit(owner: object, first: nn.Module, value: Tensor, dim: int) -> str | None:
    """Say why an input does not fit a layer; None if that is not known."""
    weight, name = getattr(first, "weight", None), type(owner).__name__
    size = getattr(first, "in_features", getattr(first, "in_channels", None))
    if not isinstance(weight, Tensor) or not isinstance(size, int):
        return None
    if value.ndim < -dim or value.shape[dim] != size:
        got = "none" if value.ndim < -dim else value.shape[dim]
        return (
            f"{name} expects {size} features in dimension {dim} of its input, and got {got}: an input of shape "
            f"{list(value.shape)}. Likely cause: in_features is not the size of the observation, or the inputs are "
            f"given in part. Fix: in_features=None takes the size from the first input."
        )
    if value.dtype != weight.dtype:
        return (
            f"{name} has parameters of {weight.dtype}, and got an input of {value.dtype}. Fix: net(data.to("
            f"{weight.dtype})), or a transform of the env: DoubleToFloat(), or ToTensorImage() for pixels."
        )
    return None


class SquashDims(nn.Module):
    """Flattens the last dimensions of a tensor into one.

    Args:
        ndims_in: number of dimensions to flatten.

    Example:
        >>> SquashDims()(torch.ones(1, 2, 3, 4)).shape
        torch.Size([1, 24])
    """

    def __init__(self, ndims_in: int = 3) -> None:
        super().__init__()
        self.ndims_in = ndims_in

    def forward(self, value: Tensor) -> Tensor:
        """Flatten ``[*B, d1, ..., dn]`` to ``[*B, d1 * ... * dn]``."""
        return value.flatten(-self.ndims_in)


class Squeeze2dLayer(nn.Module):
    """Removes the last two dimensions of a tensor, which have size 1, such as those of a pooled image.

    Example:
        >>> Squeeze2dLayer()(torch.ones(1, 2, 1, 1)).shape
        torch.Size([1, 2])
    """

    def forward(self, value: Tensor) -> Tensor:
        """Change ``[*B, C, 1, 1]`` to ``[*B, C]``."""
        return value.squeeze(-1).squeeze(-1)


class SharedBias(nn.Module):
    """Adds one learned number to all features.

    Example:
        >>> SharedBias()(torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, value: Tensor) -> Tensor:
        """Add the bias to ``[*B, features]``."""
        return value + self.bias


def layer_sizes(
    owner: type, depth: int | None, num_cells: Sequence[int] | int | None, default: int, length: int = 0
) -> list[int]:
    """Return the numbers of cells of the hidden layers.

    Args:
        owner: the class of the network, for the text of an error.
        depth: number of hidden layers.
        num_cells: their sizes, or the size of all of them.
        default: the size where none is given.
        length: the depth where none is given.

    Raises:
        ValueError: If depth and number of sizes contradict each other, or one is negative.

    Example:
        >>> layer_sizes(LayerStack, 2, None, 32), layer_sizes(LayerStack, None, [4, 5], 32)
        ([32, 32], [4, 5])
    """
    if num_cells is None or isinstance(num_cells, int):
        if depth is None:
            if num_cells is not None and not length:
                raise ValueError(
                    f"{owner.__name__} got num_cells={num_cells}, the size of each hidden layer, without their number. "
                    f"Fix: depth=2, or num_cells=[{num_cells}, {num_cells}]."
                )
            depth = length
        num_cells = [default if num_cells is None else num_cells] * depth
        if depth < 0:
            raise ValueError(f"{owner.__name__} expects a depth of 0 or more, and got {depth}. Fix: depth=2.")
    sizes = list(num_cells)
    if depth is not None and len(sizes) != depth:
        raise ValueError(
            f"{owner.__name__} got depth={depth}, and num_cells={sizes} makes it {len(sizes)}. "
            "Fix: leave out depth, or give one number as num_cells."
        )
    return sizes


def per_layer(owner: type, name: str, options: Any, count: int) -> list[dict[str, Any]]:
    """Return the keywords of each of ``count`` layers, given those of all, one dictionary for each, or None.

    Raises:
        ValueError: If there are not as many dictionaries as layers.

    Example:
        >>> per_layer(LayerStack, "norm_kwargs", {"eps": 0.1}, 2)
        [{'eps': 0.1}, {'eps': 0.1}]
    """
    if options is None or isinstance(options, Mapping):
        return [dict(options or {}) for _ in range(count)]
    found = [dict(each) for each in options]
    if len(found) != count:
        raise ValueError(
            f"{owner.__name__} expects a dictionary as {name}, or a list of {count}, one for each layer, and got "
            f"{len(found)}. Fix: {name}={{...}} gives all layers the same."
        )
    return found


def make_norm(owner: type, norm_class: Any, options: dict[str, Any], sizes: Sequence[int]) -> nn.Module:
    """Make a layer of normalization.

    Raises:
        TypeError: If it needs further arguments.

    Example:
        >>> make_norm(LayerStack, nn.LayerNorm, {"normalized_shape": 4}, [4])
        LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)
    """
    try:
        made: nn.Module = norm_class(**options)
    except TypeError as error:
        name = getattr(norm_class, "__name__", repr(norm_class))
        wanted = {"BatchNorm1d": "num_features", "BatchNorm2d": "num_features"}.get(name, "normalized_shape")
        raise TypeError(
            f"{owner.__name__} could not make norm_class={name} with norm_kwargs {options}: {error}. A normalization "
            "of features must know their number. "
            f"Fix: norm_kwargs=[{', '.join(f'{{{wanted!r}: {size}}}' for size in sizes)}]."
        ) from error
    return made
