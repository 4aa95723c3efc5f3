"""What the constructor of a buffer is given: components or functions that make them, sizes, dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase, is_tensorclass
from torch.utils import _pytree as pytree

from rlnb.data.replay_buffers import faults

C = TypeVar("C")


def component(name: str, base: Any, given: C | Callable[[], C] | None, default: Callable[[], C]) -> C:
    """Return a component of a buffer.

    Args:
        name: of the argument.
        base: the class that it must have.
        given: the component, a function that makes it (such as its class), or None.
        default: makes it where None was given.

    Returns:
        The component.

    Raises:
        TypeError: if it is something else.
    """
    if given is None:
        return default()
    made: Any = given
    if not isinstance(given, base) and callable(given):
        made = given()
    if not isinstance(made, base):
        raise TypeError(faults.no_component(name, base.__name__, given))
    return made


def batch_size(value: Any) -> int:
    """Check a batch size.

    Args:
        value: the batch size.

    Returns:
        The same, as an integer.

    Raises:
        ValueError: if it is no positive integer.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 1:
        raise ValueError(faults.bad_batch_size(value))
    return int(value.__index__())


def swap_dims(data: Any, dim: int) -> Any:
    """Swap the first dimension of data with another.

    Args:
        data: a tensor, TensorDict or PyTree of these.
        dim: the other dimension.

    Returns:
        The data, whose tensors are views.

    Example:
        >>> swap_dims({"a": torch.zeros(2, 3, 4)}, 1)["a"].shape
        torch.Size([3, 2, 4])
    """
    if isinstance(data, (torch.Tensor, TensorDictBase)) or is_tensorclass(data):
        return data.transpose(0, dim)
    return pytree.tree_map(lambda part: swap_dims(part, dim), data, is_leaf=_has_dims)


def _has_dims(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, TensorDictBase)) or is_tensorclass(value)
