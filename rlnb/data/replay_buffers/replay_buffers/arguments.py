"""What the constructor of a buffer is given: components or functions that make them, sizes, dimensions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase, is_tensorclass
from torch.utils import _pytree as pytree

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.samplers import Sampler
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.replay_buffers.writers import Writer

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
    if isinstance(given, type):
        try:
            inspect.signature(given).bind()
        except TypeError as error:
            raise TypeError(faults.component_needs_arguments(name, given.__name__, error)) from None
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


def check(prefetch: Any, collate_fn: Any, generator: Any) -> None:
    """Check what would otherwise be noticed when the first batch is drawn.

    Args:
        prefetch: how many batches to prepare ahead, or None.
        collate_fn: a function, or None.
        generator: a ``torch.Generator``, or None.

    Raises:
        TypeError: if one is of another kind.
        ValueError: if ``prefetch`` is no number of batches.
    """
    if prefetch is not None and (isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 0):
        raise ValueError(faults.bad_prefetch(prefetch))
    if collate_fn is not None and not callable(collate_fn):
        raise TypeError(faults.not_a_function("collate_fn", collate_fn))
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(faults.no_generator(generator))


def free_writer(writer: Writer, storage: Storage) -> None:
    """Refuse a writer that writes to another storage: its buffer would write to this one from then on.

    Args:
        writer: the writer.
        storage: where it shall write.

    Raises:
        ValueError: if it is taken.
    """
    if writer._storage is not None and writer._storage is not storage:
        raise ValueError(faults.busy_writer(type(writer).__name__))


def free_sampler(sampler: Sampler, storage: Storage) -> None:
    """Refuse a sampler that remembers elements of another storage.

    Args:
        sampler: the sampler.
        storage: where it shall choose.

    Raises:
        ValueError: if it is taken.
    """
    other = sampler._of() if sampler._taken and sampler._of is not None else None
    if sampler.of_one_storage and other is not None and other is not storage:
        raise ValueError(faults.busy_sampler(type(sampler).__name__))


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
