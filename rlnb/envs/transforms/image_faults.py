"""What transforms of images say when what they get is no image, or one in another layout."""

from __future__ import annotations

from typing import Any

import torch

_CHANNELS = (1, 2, 3, 4)


def _name(what: Any) -> str:
    return type(what).__name__


def _got(value: torch.Tensor) -> str:
    return f"got shape {tuple(value.shape)} of dtype {value.dtype}"


def looks_channels_last(value: torch.Tensor) -> bool:
    """Tell whether an image has its channels last, ``(..., H, W, C)``, as far as its shape and dtype show it.

    Args:
        value: of at least three dimensions.

    Returns:
        True for integers with at most 4 channels last, and more than 4 rows or channels in their place.
    """
    return not value.is_floating_point() and value.shape[-1] in _CHANNELS and value.shape[-3] not in _CHANNELS


def looks_channels_first(value: torch.Tensor) -> bool:
    """Tell whether an image has its channels first, ``(..., C, H, W)``, as far as its shape shows it.

    Args:
        value: of at least three dimensions.

    Returns:
        True for at most 4 channels first, and more than 4 columns last.
    """
    return value.shape[-3] in _CHANNELS and value.shape[-1] not in _CHANNELS


def no_image(transform: Any, value: torch.Tensor, layout: str) -> str:
    """Say that something has too few dimensions."""
    return (
        f"{_name(transform)} takes images of shape {layout} and {_got(value)}. Fix: in_keys=[...] names the entries "
        "that are images; unsqueeze what lacks a channel dimension, with UnsqueezeTransform(dim=-3, in_keys=[...])."
    )


def channels_last(transform: Any, value: torch.Tensor) -> str:
    """Say that an image has its channels last."""
    return (
        f"{_name(transform)} takes images with the channels before rows and columns, (..., C, H, W), and "
        f"{_got(value)}: the channels are last, as envs give them. Fix: put ToTensorImage() before it, as in "
        f"Compose(ToTensorImage(), {_name(transform)}(...))."
    )


def channels_first(transform: Any, value: torch.Tensor) -> str:
    """Say that an image has its channels first already."""
    return (
        f"{_name(transform)} takes images with the channels last, (..., H, W, C), and {_got(value)}: the channels are "
        "first already. Fix: leave it out, or shape_tolerant=True, which leaves the layout of such images alone."
    )


def not_rgb(transform: Any, value: torch.Tensor) -> str:
    """Say that an image does not have three channels."""
    return (
        f"{_name(transform)} makes one channel of the three of an RGB image, (..., 3, H, W), and {_got(value)}, which "
        f"is {value.shape[-3]} channels. Fix: put it right after ToTensorImage(), before what changes the channels "
        "(such as CatFrames), and once only."
    )


def integer_image(transform: Any, dtype: torch.dtype) -> str:
    """Say that an image cannot be scaled to between 0 and 1 in an integer dtype."""
    return (
        f"{_name(transform)} scales integers to between 0 and 1, which {dtype} cannot hold. Fix: leave dtype out for "
        "floats, or from_int=False, which does not scale."
    )


def size(transform: Any, name: str, value: Any) -> str:
    """Say that something is no size of an image."""
    return f"{_name(transform)} takes {name} as a positive integer of pixels and got {value!r}."


__all__ = [
    "channels_first", "channels_last", "integer_image", "looks_channels_first", "looks_channels_last", "no_image",
    "not_rgb", "size",
]  # fmt: skip
